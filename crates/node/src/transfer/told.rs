//! What the log tells of files: a line for each that was sent, received or refused.

use super::record::{Direction, Phase, Record};
use super::wire::Offer;
use crate::text::printable;

/// A transfer has ended. Nothing is told of one that has not.
pub(super) fn ended(record: &Record) {
    let Record {
        peer_name,
        file,
        size,
        ..
    } = record;
    // As values and not as text of our own: names are quoted then, whatever stands in them.
    let (id, path) = (record.id.to_string(), record.path.display().to_string());
    let hash = record.hash.map(|hash| hash.to_hex().to_string());
    let hash = hash.as_deref().unwrap_or_default();
    let reason = record.reason.as_deref().unwrap_or_default();
    match (record.direction, record.phase) {
        (_, Phase::Waiting | Phase::Hashing | Phase::Connecting | Phase::Active) => {}
        (Direction::Receive, Phase::Done) => {
            tracing::info!(
                from = peer_name,
                file,
                size,
                path,
                hash,
                id,
                "a file was received"
            );
        }
        (Direction::Send, Phase::Done) => {
            tracing::info!(
                to = peer_name,
                file,
                size,
                path,
                hash,
                id,
                "a file was sent"
            );
        }
        (Direction::Receive, Phase::Failed | Phase::Cancelled) => {
            tracing::info!(
                from = peer_name,
                file,
                size,
                hash,
                id,
                reason,
                "a file was not received"
            );
        }
        (Direction::Send, Phase::Failed | Phase::Cancelled) => {
            tracing::info!(
                to = peer_name,
                file,
                size,
                path,
                hash,
                id,
                reason,
                "a file was not sent"
            );
        }
    }
}

/// A file that a member offers is not taken, now or ever.
pub(super) fn refused(from: &str, offer: &Offer, reason: &str) {
    let id = super::TransferId(*offer.id).to_string();
    let hash = blake3::Hash::from_bytes(*offer.hash).to_hex().to_string();
    // Of a name that is not checked yet the beginning is enough.
    let (file, size) = (printable(&offer.file, 300), offer.size);
    tracing::info!(from, file, size, hash, id, reason, "a file was refused");
}
