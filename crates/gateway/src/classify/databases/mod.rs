//! Databases, and queues between programs.

mod bson;
mod kafka;
mod memory_stores;
mod queues;
mod relational;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("amqp.header", queues::amqp),
    ("kafka.request", kafka::request),
    ("memcached.answer", memory_stores::memcached_answer),
    ("memcached.command", memory_stores::memcached_command),
    ("mongodb.message", bson::mongodb),
    ("mysql.greeting", relational::mysql),
    ("nats.line", queues::nats),
    ("postgresql.opening", relational::postgresql),
    ("redis.command", memory_stores::redis),
    ("tds.message", relational::tds),
];
