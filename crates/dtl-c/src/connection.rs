//! Connections and what they measure.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use ringway_transport::dtl::{Connection, Statistics};

use crate::argument::{self, KEY, given, put, room, runtime, take, wait, wait_for};
use crate::failure::{code, handle};
use crate::stream::dtl_stream;

/// A connection.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "as in the header")]
pub struct dtl_connection(pub(crate) Connection);

/// Bytes of `limited_by`.
const LIMITED_BY: usize = 24;

/// What a connection measures; the header says what each field is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types, missing_docs, reason = "as in the header")]
pub struct dtl_stats {
    pub priority: f64,
    pub loss: f64,
    pub rtt_us: u64,
    pub queueing_us: i64,
    pub rate: i64,
    pub window: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
    pub lost_bytes: u64,
    pub lost_packets: u64,
    pub received_bytes: u64,
    pub received_packets: u64,
    pub limited_by: [c_char; LIMITED_BY],
}

/// -1 for what is not known.
fn or_unknown(number: Option<u64>) -> i64 {
    number.map_or(-1, |number| i64::try_from(number).unwrap_or(i64::MAX))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl From<Statistics> for dtl_stats {
    fn from(from: Statistics) -> dtl_stats {
        let mut limited_by = [0; LIMITED_BY];
        let words = from.limited_by.map(|reason| reason.to_string());
        // The last byte stays zero.
        let letters = words.iter().flat_map(|words| words.bytes());
        for (into, letter) in limited_by.iter_mut().take(LIMITED_BY - 1).zip(letters) {
            // ASCII, which fits whatever the sign of C's `char`.
            *into = c_char::try_from(letter).unwrap_or_default();
        }
        dtl_stats {
            priority: from.priority.get(),
            loss: from.loss(),
            rtt_us: micros(from.rtt),
            queueing_us: or_unknown(from.queueing.map(micros)),
            rate: or_unknown(from.rate),
            window: from.window,
            sent_bytes: from.sent_bytes,
            sent_packets: from.sent_packets,
            lost_bytes: from.lost_bytes,
            lost_packets: from.lost_packets,
            received_bytes: from.received_bytes,
            received_packets: from.received_packets,
            limited_by,
        }
    }
}

/// The key that the peer has proved.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_peer_key(connection: *const dtl_connection, key: *mut u8) -> c_int {
    code((|| {
        let peer = given(connection)?.0.peer_key();
        room(key, KEY)?.copy_from_slice(peer.as_bytes());
        Ok(())
    })())
}

/// Changes the priority of what this side sends.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_set_priority(connection: *const dtl_connection, priority: f64) -> c_int {
    code((|| {
        let connection = given(connection)?;
        connection.0.set_priority(argument::priority(priority)?);
        Ok(())
    })())
}

/// What the connection measures now.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_statistics(
    connection: *const dtl_connection,
    stats: *mut dtl_stats,
) -> c_int {
    code((|| {
        let measured = given(connection)?.0.statistics();
        put(stats, measured.into())
    })())
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_connection_free(connection: *mut dtl_connection) {
    let _inside = runtime().map(tokio::runtime::Runtime::enter);
    drop(take(connection));
}

/// Opens a stream.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_open(connection: *const dtl_connection, priority: f64) -> *mut dtl_stream {
    handle((|| {
        let connection = given(connection)?;
        let priority = argument::priority(priority)?;
        Ok(dtl_stream::new(wait(connection.0.open(priority))??))
    })())
}

/// The next stream that the peer opens.
#[unsafe(no_mangle)]
pub extern "C" fn dtl_accept_stream(
    connection: *const dtl_connection,
    timeout_ms: i64,
) -> *mut dtl_stream {
    handle((|| {
        let accepted = wait_for(timeout_ms, given(connection)?.0.accept())?;
        Ok(dtl_stream::new(accepted?))
    })())
}
