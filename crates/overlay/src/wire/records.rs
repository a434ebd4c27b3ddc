//! The bytes of records, and of the messages about them and about statements.

use minicbor::{Decoder, Encoder};

use super::tallies::read_of_tallies;
use super::{
    DecodeError, Encoded, keys, kind, read_bounded, read_fixed, read_key, read_keys, read_length,
};
use crate::key::RingKey;
use crate::limits::{
    MAX_CERTIFICATE, MAX_OFFERED, MAX_RECORD_NAME, MAX_RECORD_VALUE, MAX_STATEMENT,
};
use crate::message::Message;
use crate::record::Record;

impl Message {
    /// The messages about records.
    pub(super) fn write_of_records(&self, e: &mut Encoder<Vec<u8>>) -> Encoded {
        match self {
            Message::Store { id, record } => {
                e.array(3)?.u8(kind::STORE)?.u64(*id)?;
                write_record(e, record)
            }
            Message::Stored { id, number } => {
                e.array(3)?.u8(kind::STORED)?.u64(*id)?.u64(*number)?;
                Ok(())
            }
            Message::Fetch { id, point } => {
                e.array(3)?
                    .u8(kind::FETCH)?
                    .u64(*id)?
                    .bytes(point.as_bytes())?;
                Ok(())
            }
            Message::Fetched { id, record } => {
                e.array(3)?.u8(kind::FETCHED)?.u64(*id)?;
                match record {
                    Some(record) => write_record(e, record),
                    None => {
                        e.null()?;
                        Ok(())
                    }
                }
            }
            Message::Offer { id, records } => {
                e.array(3)?.u8(kind::OFFER)?.u64(*id)?;
                let count = records.len().min(MAX_OFFERED);
                e.array(u64::try_from(count).unwrap_or(0))?;
                for (point, number) in records.iter().take(count) {
                    e.array(2)?.bytes(point.as_bytes())?.u64(*number)?;
                }
                Ok(())
            }
            Message::Wanted { id, points } => {
                e.array(3)?.u8(kind::WANTED)?.u64(*id)?;
                keys(e, points)
            }
            Message::Statement { statement } => {
                e.array(2)?.u8(kind::STATEMENT)?.bytes(statement)?;
                Ok(())
            }
            _ => self.write_of_tallies(e),
        }
    }
}

impl Record {
    /// The bytes of the record, as they stand in a message: at most 1 050.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new());
        match write_record(&mut encoder, self) {
            Ok(()) => encoder.into_writer(),
            // As for messages.
            Err(_) => Vec::new(),
        }
    }

    /// Reads one record. Whether it is genuine is another question: [`Record::author`].
    ///
    /// # Errors
    ///
    /// When `bytes` are not exactly one record within the bounds of [`crate::limits`].
    pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
        let mut d = Decoder::new(bytes);
        let record = read_record(&mut d)?;
        match bytes.len().saturating_sub(d.position()) {
            0 => Ok(record),
            rest => Err(DecodeError::TrailingBytes(rest)),
        }
    }
}

pub(super) fn read_of_records(d: &mut Decoder<'_>, kind: u8) -> Result<Message, DecodeError> {
    Ok(match kind {
        kind::STORE => Message::Store {
            id: d.u64()?,
            record: read_record(d)?,
        },
        kind::STORED => Message::Stored {
            id: d.u64()?,
            number: d.u64()?,
        },
        kind::FETCH => Message::Fetch {
            id: d.u64()?,
            point: read_key(d)?,
        },
        kind::FETCHED => Message::Fetched {
            id: d.u64()?,
            record: read_optional_record(d)?,
        },
        kind::OFFER => Message::Offer {
            id: d.u64()?,
            records: read_offered(d)?,
        },
        kind::WANTED => Message::Wanted {
            id: d.u64()?,
            points: read_keys(d, 0, MAX_OFFERED)?,
        },
        kind::STATEMENT => Message::Statement {
            statement: read_bounded(d, 1, MAX_STATEMENT)?,
        },
        _ => return read_of_tallies(d, kind),
    })
}

fn write_record(e: &mut Encoder<Vec<u8>>, record: &Record) -> Encoded {
    e.array(6)?
        .bytes(&record.certificate)?
        .bytes(&record.name)?
        .bytes(&record.value)?
        .u64(record.number)?
        .u64(record.expires)?
        .bytes(&record.signature)?;
    Ok(())
}

fn read_record(d: &mut Decoder<'_>) -> Result<Record, DecodeError> {
    read_length(d, 6, 6)?;
    Ok(Record {
        certificate: read_bounded(d, 0, MAX_CERTIFICATE)?,
        name: read_bounded(d, 1, MAX_RECORD_NAME)?,
        value: read_bounded(d, 0, MAX_RECORD_VALUE)?,
        number: d.u64()?,
        expires: d.u64()?,
        signature: read_fixed(d)?,
    })
}

fn read_optional_record(d: &mut Decoder<'_>) -> Result<Option<Record>, DecodeError> {
    if d.datatype()? == minicbor::data::Type::Null {
        d.null()?;
        return Ok(None);
    }
    read_record(d).map(Some)
}

fn read_offered(d: &mut Decoder<'_>) -> Result<Vec<(RingKey, u64)>, DecodeError> {
    let count = read_length(d, 1, MAX_OFFERED)?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        read_length(d, 2, 2)?;
        records.push((read_key(d)?, d.u64()?));
    }
    Ok(records)
}
