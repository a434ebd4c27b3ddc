//! The bytes of the messages that carry others through the ring.

use minicbor::{Decoder, Encoder};

use super::{DecodeError, Encoded, kind, read_bounded, read_key, read_length};
use crate::limits::{MAX_ACCEPTED, MAX_PAYLOAD};
use crate::message::{Message, RequestId};

impl Message {
    /// The messages of routing.
    pub(super) fn write_of_routes(&self, e: &mut Encoder<Vec<u8>>) -> Encoded {
        match self {
            Message::Route {
                id,
                target,
                hops_left,
                payload,
            } => {
                e.array(5)?.u8(kind::ROUTE)?.u64(*id)?;
                e.bytes(target.as_bytes())?.u8(*hops_left)?.bytes(payload)?;
                Ok(())
            }
            Message::Own {
                id,
                target,
                hops_left,
                clock,
                payload,
            } => {
                e.array(6)?.u8(kind::OWN)?.u64(*id)?;
                e.bytes(target.as_bytes())?.u8(*hops_left)?;
                e.u64(*clock)?.bytes(payload)?;
                Ok(())
            }
            Message::TakenOn { ids } => {
                e.array(2)?.u8(kind::TAKEN_ON)?;
                let count = ids.len().min(MAX_ACCEPTED);
                e.array(u64::try_from(count).unwrap_or(0))?;
                for id in ids.iter().take(count) {
                    e.u64(*id)?;
                }
                Ok(())
            }
            Message::Reached {
                id,
                label,
                clock,
                payload,
            } => {
                e.array(5)?.u8(kind::REACHED)?.u64(*id)?;
                e.u64(*label)?.u64(*clock)?.bytes(payload)?;
                Ok(())
            }
            Message::Confirm { id, payload } => {
                e.array(3)?.u8(kind::CONFIRM)?.u64(*id)?.bytes(payload)?;
                Ok(())
            }
            Message::Delivered { id, clock } => {
                e.array(3)?.u8(kind::DELIVERED)?.u64(*id)?.u64(*clock)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn read_of_routes(d: &mut Decoder<'_>, kind: u8) -> Result<Message, DecodeError> {
    Ok(match kind {
        kind::ROUTE => Message::Route {
            id: d.u64()?,
            target: read_key(d)?,
            hops_left: d.u8()?,
            payload: read_bounded(d, 1, MAX_PAYLOAD)?,
        },
        kind::OWN => Message::Own {
            id: d.u64()?,
            target: read_key(d)?,
            hops_left: d.u8()?,
            clock: d.u64()?,
            payload: read_bounded(d, 1, MAX_PAYLOAD)?,
        },
        kind::TAKEN_ON => Message::TakenOn { ids: read_ids(d)? },
        kind::REACHED => Message::Reached {
            id: d.u64()?,
            label: d.u64()?,
            clock: d.u64()?,
            payload: read_bounded(d, 1, MAX_PAYLOAD)?,
        },
        kind::CONFIRM => Message::Confirm {
            id: d.u64()?,
            payload: read_bounded(d, 1, MAX_PAYLOAD)?,
        },
        kind::DELIVERED => Message::Delivered {
            id: d.u64()?,
            clock: d.u64()?,
        },
        other => return Err(DecodeError::UnknownKind(other)),
    })
}

fn read_ids(d: &mut Decoder<'_>) -> Result<Vec<RequestId>, DecodeError> {
    let count = read_length(d, 1, MAX_ACCEPTED)?;
    (0..count).map(|_| Ok(d.u64()?)).collect()
}
