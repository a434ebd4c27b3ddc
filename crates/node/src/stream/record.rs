//! What travels on an attached stream: records with a header of fixed length. Sans-IO.
//!
//! | kind | header behind it | then |
//! |---|---|---|
//! | 1 data | offset (8), length (4) | the bytes |
//! | 2 acknowledgement | received up to (8), may be sent up to (8) | |
//! | 3 end | offset (8) | |
//! | 4 reset | code (1), length (1) | a reason in UTF-8 |
//! | 5 ping, 6 pong | | |
//!
//! Numbers are most significant byte first. The end counts as one byte in acknowledgements, as a
//! FIN does in TCP.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::limits::{STREAM_REASON, STREAM_RECORD};
use crate::text::printable;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Content, from this offset on.
    Data {
        /// Where in the stream its first byte stands.
        offset: u64,
        /// At least one, at most [`STREAM_RECORD`].
        bytes: Bytes,
    },
    /// What has arrived, and how much may.
    Ack {
        /// All before this offset has; one more than the end once that has, too.
        received: u64,
        /// No byte at or behind this offset may be sent yet.
        limit: u64,
    },
    /// No byte at or behind this offset comes.
    End {
        /// Bytes in all.
        offset: u64,
    },
    /// The stream ends at once.
    Reset {
        /// Why, for programs.
        code: u8,
        /// Why, for people.
        reason: String,
    },
    /// Asks for a pong.
    Ping,
    /// The answer.
    Pong,
}

/// The peer's bytes are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's record is malformed")]
pub(crate) struct MalformedRecord;

/// The longest header, with its kind.
const LONGEST_HEADER: usize = 17;

impl Record {
    /// The bytes, as a header and what stands behind it without being copied.
    pub(crate) fn encode(self) -> (Bytes, Option<Bytes>) {
        let mut header = BytesMut::with_capacity(LONGEST_HEADER);
        let mut body = None;
        match self {
            Record::Data { offset, bytes } => {
                header.put_u8(1);
                header.put_u64(offset);
                header.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                body = Some(bytes);
            }
            Record::Ack { received, limit } => {
                header.put_u8(2);
                header.put_u64(received);
                header.put_u64(limit);
            }
            Record::End { offset } => {
                header.put_u8(3);
                header.put_u64(offset);
            }
            Record::Reset { code, reason } => {
                let reason = cut(&reason);
                header.put_u8(4);
                header.put_u8(code);
                header.put_u8(u8::try_from(reason.len()).unwrap_or(0));
                body = Some(Bytes::from(reason));
            }
            Record::Ping => header.put_u8(5),
            Record::Pong => header.put_u8(6),
        }
        (header.freeze(), body)
    }
}

/// A reason that fits: printable, and at most 255 bytes.
fn cut(reason: &str) -> String {
    let mut reason = printable(reason, STREAM_REASON);
    while reason.len() > usize::from(u8::MAX) {
        reason.pop();
    }
    reason
}

/// What is read of a record whose header has come.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// Content from this offset on, of which so many bytes are still to come.
    Data { offset: u64, left: usize },
    /// A reason of this length.
    Reset { code: u8, length: usize },
}

/// Makes records of bytes as they come, in whatever pieces. Keeps at most one piece, and one
/// header or reason.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    piece: Bytes,
    /// A header or a reason whose rest is still to come.
    part: Vec<u8>,
    body: Option<Body>,
}

impl RecordReader {
    /// Takes the next piece, once [`next`](Self::next) has given all of the one before.
    pub(crate) fn push(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty());
        self.piece = piece;
    }

    /// The next record, none until more bytes have come. Long content comes in several.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, MalformedRecord> {
        loop {
            match self.body {
                Some(Body::Data { offset, left }) => return Ok(self.content(offset, left)),
                Some(Body::Reset { code, length }) => {
                    if !self.gather(length) {
                        return Ok(None);
                    }
                    self.body = None;
                    let reason =
                        String::from_utf8_lossy(&std::mem::take(&mut self.part)).into_owned();
                    let reason = printable(&reason, STREAM_REASON);
                    return Ok(Some(Record::Reset { code, reason }));
                }
                None => {}
            }
            if !self.gather(1) {
                return Ok(None);
            }
            let kind = self.part.first().copied().unwrap_or_default();
            let length = header_length(kind).ok_or(MalformedRecord)?;
            if !self.gather(length) {
                return Ok(None);
            }
            let header = std::mem::take(&mut self.part);
            if let Some(record) = self.open(kind, header.get(1..).unwrap_or_default())? {
                return Ok(Some(record));
            }
        }
    }

    /// What a whole header says; none where more belongs to it.
    fn open(&mut self, kind: u8, mut header: &[u8]) -> Result<Option<Record>, MalformedRecord> {
        Ok(Some(match kind {
            1 => {
                let offset = header.get_u64();
                let left = usize::try_from(header.get_u32()).map_err(|_| MalformedRecord)?;
                let end = offset.checked_add(u64::try_from(left).unwrap_or(u64::MAX));
                if left == 0 || left > STREAM_RECORD || end.is_none() {
                    return Err(MalformedRecord);
                }
                self.body = Some(Body::Data { offset, left });
                return Ok(None);
            }
            2 => Record::Ack {
                received: header.get_u64(),
                limit: header.get_u64(),
            },
            3 => Record::End {
                offset: header.get_u64(),
            },
            4 => {
                let code = header.get_u8();
                let length = usize::from(header.get_u8());
                self.body = Some(Body::Reset { code, length });
                return Ok(None);
            }
            5 => Record::Ping,
            6 => Record::Pong,
            _ => return Err(MalformedRecord),
        }))
    }

    fn content(&mut self, offset: u64, left: usize) -> Option<Record> {
        if self.piece.is_empty() {
            return None;
        }
        let bytes = self.piece.split_to(left.min(self.piece.len()));
        let taken = bytes.len();
        let left = left.saturating_sub(taken);
        let next = offset.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
        self.body = (left > 0).then_some(Body::Data { offset: next, left });
        Some(Record::Data { offset, bytes })
    }

    /// True once `part` has as many bytes.
    fn gather(&mut self, length: usize) -> bool {
        let lacks = length.saturating_sub(self.part.len());
        let taken = self.piece.split_to(lacks.min(self.piece.len()));
        self.part.extend_from_slice(&taken);
        self.part.len() >= length
    }
}

/// How long the header of a record is, with its kind.
fn header_length(kind: u8) -> Option<usize> {
    match kind {
        1 => Some(13),
        2 => Some(LONGEST_HEADER),
        3 => Some(9),
        4 => Some(3),
        5 | 6 => Some(1),
        _ => None,
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    let pieces = data.chunks(7).map(Bytes::copy_from_slice);
    let mut reader = RecordReader::default();
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next() {
                Ok(Some(Record::Data { bytes, .. })) => assert!(!bytes.is_empty()),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(MalformedRecord) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn records() -> impl Strategy<Value = Record> {
        prop_oneof![
            (0..u64::MAX / 2, vec(any::<u8>(), 1..300)).prop_map(|(offset, bytes)| {
                let bytes = bytes.into();
                Record::Data { offset, bytes }
            }),
            (any::<u64>(), any::<u64>())
                .prop_map(|(received, limit)| Record::Ack { received, limit }),
            any::<u64>().prop_map(|offset| Record::End { offset }),
            (any::<u8>(), "[a-z ]{0,100}")
                .prop_map(|(code, reason)| Record::Reset { code, reason }),
            Just(Record::Ping),
            Just(Record::Pong),
        ]
    }

    /// Content that came in several pieces as one again.
    fn joined(records: Vec<Record>) -> Vec<Record> {
        let mut joined: Vec<Record> = Vec::new();
        for record in records {
            if let (
                Some(Record::Data {
                    offset: at,
                    bytes: all,
                }),
                Record::Data { offset, bytes },
            ) = (joined.last_mut(), &record)
                && *at + all.len() as u64 == *offset
            {
                *all = [all.as_ref(), bytes].concat().into();
            } else {
                joined.push(record);
            }
        }
        joined
    }

    proptest! {
        #[test]
        fn records_survive_any_cut(all in vec(records(), 0..20), cut in 1..50_usize) {
            let mut bytes = Vec::new();
            for record in &all {
                let (header, body) = record.clone().encode();
                bytes.extend_from_slice(&header);
                bytes.extend_from_slice(&body.unwrap_or_default());
            }
            let (mut reader, mut found) = (RecordReader::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                reader.push(Bytes::copy_from_slice(piece));
                while let Some(record) = reader.next().unwrap() {
                    found.push(record);
                }
            }
            prop_assert_eq!(joined(found), joined(all));
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
            let mut reader = RecordReader::default();
            reader.push(bytes.into());
            while let Ok(Some(_)) = reader.next() {}
        }
    }

    #[test]
    fn reasons_are_cut_and_printable() {
        let reason = "\u{1b}é".repeat(400);
        let (header, body) = Record::Reset { code: 1, reason }.encode();
        let mut reader = RecordReader::default();
        reader.push([header, body.unwrap()].concat().into());
        let Ok(Some(Record::Reset { reason, .. })) = reader.next() else {
            panic!("no reset");
        };
        assert!(reason.chars().all(|c| c == 'é') && reason.len() > 200);
    }
}
