//! Datagrams that belong to a stream: they may be lost, and wait for nothing that was.
//!
//! Each is a QUIC datagram (RFC 9221): the byte 3, the stream's id in four bytes, big-endian, and
//! what the datagram carries. The id says whose it is as in RFC 9297 §2.1. It is behind the words
//! of the [clocks](super::clock), which begin with 1 and 2.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use noq::SendStream;
use tokio::sync::mpsc;

/// What comes first.
const KIND: u8 = 3;

/// Bytes before what a datagram carries.
const HEADER: usize = 5;

/// Whose they are, and what they carry; `None` for anything else.
pub(crate) fn decode(mut bytes: Bytes) -> Option<(u32, Bytes)> {
    let [KIND, id @ ..] = *bytes.first_chunk::<HEADER>()? else {
        return None;
    };
    let payload = bytes.split_off(HEADER);
    Some((u32::from_be_bytes(id), payload))
}

pub(crate) fn encode(stream: u32, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(payload.len().saturating_add(HEADER));
    bytes.put_u8(KIND);
    bytes.put_u32(stream);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// Who takes the datagrams of which stream of a connection.
#[derive(Debug, Default)]
pub(super) struct Takers(Mutex<HashMap<u32, mpsc::Sender<Bytes>>>);

impl Takers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Bytes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a datagram of the connection to whom it is for. What has no taker, or one that is
    /// late, is lost.
    pub(super) fn deliver(&self, bytes: Bytes) {
        if let Some((stream, payload)) = decode(bytes)
            && let Some(taker) = self.lock().get(&stream)
        {
            taker.try_send(payload).ok();
        }
    }
}

/// The datagrams of one stream. What comes goes to the channel that it was made with, until it is
/// dropped.
#[derive(Debug)]
pub struct StreamDatagrams {
    stream: u32,
    connection: noq::Connection,
    takers: Arc<Takers>,
}

impl StreamDatagrams {
    /// `None` where the stream's id is past four bytes, after a thousand million streams.
    pub(super) fn new(
        connection: &noq::Connection,
        takers: &Arc<Takers>,
        stream: &SendStream,
        taker: mpsc::Sender<Bytes>,
    ) -> Option<StreamDatagrams> {
        let stream = u32::try_from(u64::from(stream.id())).ok()?;
        takers.lock().insert(stream, taker);
        Some(StreamDatagrams {
            stream,
            connection: connection.clone(),
            takers: Arc::clone(takers),
        })
    }

    /// Sends one with the connection's next packets, before the bytes of its streams; what waits
    /// longest gives way where there are too many. False if it is longer than the way or the peer
    /// takes, or the connection carries none: send it otherwise.
    pub fn send(&self, payload: &[u8]) -> bool {
        let largest = self.connection.max_datagram_size();
        largest.is_some_and(|largest| payload.len().saturating_add(HEADER) <= largest)
            && self
                .connection
                .send_datagram(encode(self.stream, payload))
                .is_ok()
    }
}

impl Drop for StreamDatagrams {
    fn drop(&mut self) {
        self.takers.lock().remove(&self.stream);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn datagrams_survive_a_round_trip(stream: u32, payload: Vec<u8>) {
            let bytes = encode(stream, &payload);
            prop_assert_eq!(super::super::clock::Word::decode(&bytes), None);
            prop_assert_eq!(decode(bytes), Some((stream, payload.into())));
        }
    }

    #[test]
    fn other_bytes_are_of_no_stream() {
        for bytes in [&[][..], &[3], &[3, 0, 0, 0], &[2, 0, 0, 0, 0], &[4; 9]] {
            assert_eq!(decode(Bytes::copy_from_slice(bytes)), None, "{bytes:?}");
        }
        let empty = Bytes::from_static(&[3, 0, 0, 0, 8]);
        assert_eq!(decode(empty), Some((8, Bytes::new())));
    }

    #[test]
    fn what_has_no_taker_is_lost() {
        let takers = Takers::default();
        let (taker, mut taken) = mpsc::channel(1);
        takers.lock().insert(8, taker);
        for (stream, payload) in [(4, "of another"), (8, "first"), (8, "one too many")] {
            takers.deliver(encode(stream, payload.as_bytes()));
        }
        assert_eq!(taken.try_recv().unwrap(), "first");
        assert!(taken.try_recv().is_err());
    }
}
