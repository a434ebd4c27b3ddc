//! The bytes of the messages about tallies.

use minicbor::{Decoder, Encoder};

use super::routes::read_of_routes;
use super::{DecodeError, Encoded, kind, read_fixed, read_key, read_length, read_optional_key};
use crate::limits::COUNTS_IN_MESSAGE;
use crate::message::Message;
use crate::tally::Count;

impl Message {
    /// The messages about tallies.
    pub(super) fn write_of_tallies(&self, e: &mut Encoder<Vec<u8>>) -> Encoded {
        match self {
            Message::Count { id, point, count } => {
                e.array(4)?.u8(kind::COUNT)?.u64(*id)?;
                e.bytes(point.as_bytes())?;
                write_count(e, count)
            }
            Message::GetTally { id, point, after } => {
                e.array(4)?.u8(kind::GET_TALLY)?.u64(*id)?;
                e.bytes(point.as_bytes())?;
                match after {
                    Some(key) => e.bytes(key.as_bytes())?,
                    None => e.null()?,
                };
                Ok(())
            }
            Message::Tally { id, counts } => {
                e.array(3)?.u8(kind::TALLY)?.u64(*id)?;
                // Keepers give no more; a longer list would not fit.
                let few = counts.len().min(COUNTS_IN_MESSAGE);
                e.array(u64::try_from(few).unwrap_or(0))?;
                for count in counts.iter().take(few) {
                    write_count(e, count)?;
                }
                Ok(())
            }
            _ => self.write_of_routes(e),
        }
    }
}

pub(super) fn read_of_tallies(d: &mut Decoder<'_>, kind: u8) -> Result<Message, DecodeError> {
    Ok(match kind {
        kind::COUNT => Message::Count {
            id: d.u64()?,
            point: read_key(d)?,
            count: read_count(d)?,
        },
        kind::GET_TALLY => Message::GetTally {
            id: d.u64()?,
            point: read_key(d)?,
            after: read_optional_key(d)?,
        },
        kind::TALLY => {
            let id = d.u64()?;
            // Bounded before anything is taken up.
            let length = read_length(d, 0, COUNTS_IN_MESSAGE)?;
            let counts: Result<_, DecodeError> = (0..length).map(|_| read_count(d)).collect();
            Message::Tally {
                id,
                counts: counts?,
            }
        }
        _ => return read_of_routes(d, kind),
    })
}

fn write_count(e: &mut Encoder<Vec<u8>>, count: &Count) -> Encoded {
    e.array(4)?
        .bytes(count.author.as_bytes())?
        .u64(count.count)?
        .u64(count.expires)?
        .bytes(&count.signature)?;
    Ok(())
}

fn read_count(d: &mut Decoder<'_>) -> Result<Count, DecodeError> {
    read_length(d, 4, 4)?;
    Ok(Count {
        author: read_key(d)?,
        count: d.u64()?,
        expires: d.u64()?,
        signature: read_fixed(d)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RingKey;
    use crate::limits::MAX_MESSAGE;

    #[test]
    fn the_longest_page_fits_a_message() {
        let count = Count {
            author: RingKey::MAX,
            count: u64::MAX,
            expires: u64::MAX,
            signature: [0xff; 64],
        };
        let counts = vec![count; COUNTS_IN_MESSAGE + 3];
        let mut page = Message::Tally {
            id: u64::MAX,
            counts,
        };
        let bytes = page.encode();
        assert!(bytes.len() <= MAX_MESSAGE, "{} bytes", bytes.len());
        if let Message::Tally { counts, .. } = &mut page {
            counts.truncate(COUNTS_IN_MESSAGE);
        }
        assert_eq!(Message::decode(&bytes).unwrap(), page, "cut by the encoder");
    }
}
