//! The bytes of a message: one CBOR array of definite length, `[kind, field, …]`.
//!
//! The decoder accepts exactly what the encoder writes in meaning: known kinds, the right number of
//! fields, lists within bounds, nothing after the end.

#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::arithmetic_side_effects
    )
)]

mod records;
mod routes;
mod tallies;

use std::convert::Infallible;

use minicbor::{Decoder, Encoder};

use crate::key::RingKey;
use crate::limits::{KEY_LEN, MAX_CERTIFICATE, MAX_CERTIFICATES, MAX_LIST, MAX_MESSAGE};
use crate::message::Message;
use crate::proof::Accusation;
use crate::view::{Header, NO_START, SignedHeader, Start, View, content_hash};

/// Why bytes are not a message. The sender misbehaved, or speaks another version.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Longer than any message.
    #[error("a ring message of {0} bytes is longer than the {MAX_MESSAGE} allowed")]
    TooLong(usize),
    /// Not CBOR, or not the type expected at that place.
    #[error("a ring message is not well formed: {0}")]
    Malformed(#[from] minicbor::decode::Error),
    /// A kind that this version does not know.
    #[error("a ring message has the unknown kind {0}; is the sender's version newer?")]
    UnknownKind(u8),
    /// An array of indefinite length, or with another number of fields than its kind has.
    #[error("a ring message of kind {0} has the wrong number of fields")]
    FieldCount(u8),
    /// A key that does not have 32 bytes.
    #[error("a ring key has {KEY_LEN} bytes, the message has one of {0}")]
    KeyLength(usize),
    /// A list that is longer than allowed, of indefinite length, or empty where it may not be.
    #[error("a ring message has a list of a length that is not allowed")]
    ListLength,
    /// A hash or a signature of another length than it has.
    #[error("a ring message has {0} bytes where a hash or a signature belongs")]
    FixedLength(usize),
    /// A certificate that is longer than allowed.
    #[error("a ring message has a certificate of {0} bytes; {MAX_CERTIFICATE} are allowed")]
    CertificateLength(usize),
    /// A statement, or a part of a record, that is longer or shorter than allowed.
    #[error(
        "a ring message has a statement, or a part of a record, of {0} bytes, which is not allowed"
    )]
    PartLength(usize),
    /// Bytes after the end of the message.
    #[error("a ring message has {0} bytes after its end")]
    TrailingBytes(usize),
}

mod kind {
    pub(super) const PING: u8 = 0;
    pub(super) const PONG: u8 = 1;
    pub(super) const GET_STATE: u8 = 2;
    pub(super) const STATE: u8 = 3;
    pub(super) const PENDING: u8 = 4;
    pub(super) const NOT_MEMBER: u8 = 5;
    pub(super) const NOTIFY: u8 = 6;
    pub(super) const STABILISE_SOON: u8 = 7;
    pub(super) const FIND_OWNER: u8 = 8;
    pub(super) const OWNER: u8 = 9;
    pub(super) const CLOSER: u8 = 10;
    pub(super) const LEAVING: u8 = 11;
    pub(super) const GET_NEAR: u8 = 12;
    pub(super) const NEAR: u8 = 13;
    pub(super) const GET_VIEW: u8 = 14;
    pub(super) const VIEW_IS: u8 = 15;
    pub(super) const UNCHANGED: u8 = 16;
    pub(super) const ANNOUNCE: u8 = 17;
    pub(super) const WITNESS: u8 = 18;
    pub(super) const EVIDENCE: u8 = 19;
    pub(super) const GET_CERTIFICATES: u8 = 20;
    pub(super) const CERTIFICATES: u8 = 21;
    pub(super) const STORE: u8 = 22;
    pub(super) const STORED: u8 = 23;
    pub(super) const FETCH: u8 = 24;
    pub(super) const FETCHED: u8 = 25;
    pub(super) const OFFER: u8 = 26;
    pub(super) const WANTED: u8 = 27;
    pub(super) const STATEMENT: u8 = 28;
    pub(super) const ROUTE: u8 = 29;
    pub(super) const TAKEN_ON: u8 = 30;
    pub(super) const REACHED: u8 = 31;
    pub(super) const CONFIRM: u8 = 32;
    pub(super) const FALSE_ACCUSATION: u8 = 33;
    pub(super) const DELIVERED: u8 = 34;
    pub(super) const OWN: u8 = 35;
    /// From here on unknown to release 0.2.
    pub(super) const COUNT: u8 = 36;
    pub(super) const GET_TALLY: u8 = 37;
    pub(super) const TALLY: u8 = 38;
}

pub(crate) type Encoded = Result<(), minicbor::encode::Error<Infallible>>;

/// Bytes that most messages have room in.
const USUAL: usize = 128;

impl Message {
    /// The bytes of the message: at most 1 100. A list of more than 16 keys is cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::with_capacity(USUAL));
        match self.write(&mut encoder) {
            Ok(()) => encoder.into_writer(),
            // Writing to a vector cannot fail: the error's type has no value.
            Err(_) => Vec::new(),
        }
    }

    fn write(&self, e: &mut Encoder<Vec<u8>>) -> Encoded {
        match self {
            Message::Ping { id } => id_only(e, kind::PING, *id),
            Message::Pong { id, member } => {
                e.array(3)?.u8(kind::PONG)?.u64(*id)?.bool(*member)?;
                Ok(())
            }
            Message::GetState { id } => id_only(e, kind::GET_STATE, *id),
            Message::State {
                id,
                predecessor,
                successors,
            } => {
                e.array(4)?.u8(kind::STATE)?.u64(*id)?;
                match predecessor {
                    Some(key) => e.bytes(key.as_bytes())?,
                    None => e.null()?,
                };
                keys(e, successors)
            }
            Message::Pending { id } => id_only(e, kind::PENDING, *id),
            Message::NotMember { id } => id_only(e, kind::NOT_MEMBER, *id),
            Message::Notify => bare(e, kind::NOTIFY),
            Message::StabiliseSoon => bare(e, kind::STABILISE_SOON),
            Message::FindOwner { id, target } => {
                e.array(3)?
                    .u8(kind::FIND_OWNER)?
                    .u64(*id)?
                    .bytes(target.as_bytes())?;
                Ok(())
            }
            Message::Owner { id, owners } => {
                e.array(3)?.u8(kind::OWNER)?.u64(*id)?;
                keys(e, owners)
            }
            Message::Closer { id, candidates } => {
                e.array(3)?.u8(kind::CLOSER)?.u64(*id)?;
                keys(e, candidates)
            }
            Message::Leaving => bare(e, kind::LEAVING),
            _ => self.write_of_groups(e),
        }
    }

    /// The messages of groups and of verified lookups.
    fn write_of_groups(&self, e: &mut Encoder<Vec<u8>>) -> Encoded {
        match self {
            Message::GetNear { id, point } => {
                e.array(3)?
                    .u8(kind::GET_NEAR)?
                    .u64(*id)?
                    .bytes(point.as_bytes())?;
                Ok(())
            }
            Message::Near { id, members } => {
                e.array(3)?.u8(kind::NEAR)?.u64(*id)?;
                keys(e, members)
            }
            Message::GetView { id, have } => {
                e.array(3)?.u8(kind::GET_VIEW)?.u64(*id)?.u64(*have)?;
                Ok(())
            }
            Message::ViewIs { id, view } => {
                e.array(3)?.u8(kind::VIEW_IS)?.u64(*id)?;
                write_view(e, view)
            }
            Message::Unchanged { id } => id_only(e, kind::UNCHANGED, *id),
            Message::Announce { view } => {
                e.array(2)?.u8(kind::ANNOUNCE)?;
                write_view(e, view)
            }
            Message::Witness { said } => {
                e.array(2)?.u8(kind::WITNESS)?;
                write_header(e, said)
            }
            Message::Evidence { accusation } => {
                e.array(2)?.u8(kind::EVIDENCE)?;
                write_accusation(e, accusation)
            }
            Message::FalseAccusation { accusation } => {
                e.array(2)?.u8(kind::FALSE_ACCUSATION)?;
                write_accusation(e, accusation)
            }
            Message::GetCertificates { id, members } => {
                e.array(3)?.u8(kind::GET_CERTIFICATES)?.u64(*id)?;
                let few = members.len().min(MAX_CERTIFICATES);
                keys(e, members.get(..few).unwrap_or_default())
            }
            Message::Certificates { id, certificates } => {
                e.array(3)?.u8(kind::CERTIFICATES)?.u64(*id)?;
                write_certificates(e, certificates)
            }
            _ => self.write_of_records(e),
        }
    }

    /// Reads one message.
    ///
    /// # Errors
    ///
    /// When `bytes` are not exactly one message within the bounds of [`crate::limits`].
    pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
        if bytes.len() > MAX_MESSAGE {
            return Err(DecodeError::TooLong(bytes.len()));
        }
        let mut d = Decoder::new(bytes);
        let fields = d.array()?;
        let kind = d.u8()?;
        if fields != Some(field_count(kind)?) {
            return Err(DecodeError::FieldCount(kind));
        }
        let message = read(&mut d, kind)?;
        match bytes.len().saturating_sub(d.position()) {
            0 => Ok(message),
            rest => Err(DecodeError::TrailingBytes(rest)),
        }
    }
}

fn bare(e: &mut Encoder<Vec<u8>>, kind: u8) -> Encoded {
    e.array(1)?.u8(kind)?;
    Ok(())
}

fn id_only(e: &mut Encoder<Vec<u8>>, kind: u8, id: u64) -> Encoded {
    e.array(2)?.u8(kind)?.u64(id)?;
    Ok(())
}

fn keys(e: &mut Encoder<Vec<u8>>, keys: &[RingKey]) -> Encoded {
    let count = keys.len().min(MAX_LIST);
    e.array(u64::try_from(count).unwrap_or(0))?;
    for key in keys.iter().take(count) {
        e.bytes(key.as_bytes())?;
    }
    Ok(())
}

/// Fields of a view, and of a header: now, and in version 1.
const FIELDS: u64 = 7;
const EARLIER_FIELDS: u64 = 6;

/// The group's hash is left out: the reader computes it from the keys.
fn write_view(e: &mut Encoder<Vec<u8>>, view: &View) -> Encoded {
    let header = &view.signed.header;
    write_beginning(e, header)?;
    e.u64(header.number)?
        .bytes(&header.previous)?
        .u64(header.expires)?
        .bytes(&view.signed.signature)?;
    keys(e, &view.group)
}

/// The length of the array, the author and the start, which version 1 had not.
fn write_beginning(e: &mut Encoder<Vec<u8>>, header: &Header) -> Encoded {
    let earlier = header.is_earlier();
    let fields = if earlier { EARLIER_FIELDS } else { FIELDS };
    e.array(fields)?.bytes(header.author.as_bytes())?;
    if !earlier {
        e.bytes(&header.start)?;
    }
    Ok(())
}

fn write_header(e: &mut Encoder<Vec<u8>>, said: &SignedHeader) -> Encoded {
    let header = &said.header;
    write_beginning(e, header)?;
    e.u64(header.number)?
        .bytes(&header.previous)?
        .u64(header.expires)?
        .bytes(&header.content)?
        .bytes(&said.signature)?;
    Ok(())
}

fn write_accusation(e: &mut Encoder<Vec<u8>>, accusation: &Accusation) -> Encoded {
    e.array(4)?.bytes(accusation.accuser.as_bytes())?;
    write_header(e, &accusation.first)?;
    write_header(e, &accusation.second)?;
    e.bytes(&accusation.signature)?;
    Ok(())
}

fn write_certificates(e: &mut Encoder<Vec<u8>>, certificates: &[(RingKey, Vec<u8>)]) -> Encoded {
    let count = certificates.len().min(MAX_CERTIFICATES);
    e.array(u64::try_from(count).unwrap_or(0))?;
    for (key, certificate) in certificates.iter().take(count) {
        e.array(2)?.bytes(key.as_bytes())?.bytes(certificate)?;
    }
    Ok(())
}

fn field_count(kind: u8) -> Result<u64, DecodeError> {
    match kind {
        kind::NOTIFY | kind::STABILISE_SOON | kind::LEAVING => Ok(1),
        kind::PING | kind::GET_STATE | kind::PENDING | kind::NOT_MEMBER => Ok(2),
        kind::UNCHANGED | kind::ANNOUNCE | kind::WITNESS | kind::STATEMENT => Ok(2),
        kind::PONG | kind::FIND_OWNER | kind::OWNER | kind::CLOSER => Ok(3),
        kind::EVIDENCE | kind::FALSE_ACCUSATION => Ok(2),
        kind::GET_NEAR | kind::NEAR | kind::GET_VIEW | kind::VIEW_IS => Ok(3),
        kind::GET_CERTIFICATES | kind::CERTIFICATES => Ok(3),
        kind::STORE | kind::STORED | kind::FETCH | kind::FETCHED => Ok(3),
        kind::OFFER | kind::WANTED | kind::CONFIRM => Ok(3),
        kind::TAKEN_ON => Ok(2),
        kind::TALLY => Ok(3),
        kind::COUNT | kind::GET_TALLY => Ok(4),
        kind::DELIVERED => Ok(3),
        kind::STATE => Ok(4),
        kind::ROUTE | kind::REACHED => Ok(5),
        kind::OWN => Ok(6),
        other => Err(DecodeError::UnknownKind(other)),
    }
}

fn read(d: &mut Decoder<'_>, kind: u8) -> Result<Message, DecodeError> {
    Ok(match kind {
        kind::PING => Message::Ping { id: d.u64()? },
        kind::PONG => Message::Pong {
            id: d.u64()?,
            member: d.bool()?,
        },
        kind::GET_STATE => Message::GetState { id: d.u64()? },
        kind::STATE => Message::State {
            id: d.u64()?,
            predecessor: read_optional_key(d)?,
            successors: read_keys(d, 0, MAX_LIST)?,
        },
        kind::PENDING => Message::Pending { id: d.u64()? },
        kind::NOT_MEMBER => Message::NotMember { id: d.u64()? },
        kind::NOTIFY => Message::Notify,
        kind::STABILISE_SOON => Message::StabiliseSoon,
        kind::FIND_OWNER => Message::FindOwner {
            id: d.u64()?,
            target: read_key(d)?,
        },
        kind::OWNER => Message::Owner {
            id: d.u64()?,
            owners: read_keys(d, 1, MAX_LIST)?,
        },
        kind::CLOSER => Message::Closer {
            id: d.u64()?,
            candidates: read_keys(d, 1, MAX_LIST)?,
        },
        kind::LEAVING => Message::Leaving,
        _ => return read_of_groups(d, kind),
    })
}

fn read_bounded(d: &mut Decoder<'_>, least: usize, most: usize) -> Result<Vec<u8>, DecodeError> {
    let bytes = d.bytes()?;
    if (least..=most).contains(&bytes.len()) {
        Ok(bytes.to_vec())
    } else {
        Err(DecodeError::PartLength(bytes.len()))
    }
}

fn read_of_groups(d: &mut Decoder<'_>, kind: u8) -> Result<Message, DecodeError> {
    Ok(match kind {
        kind::GET_NEAR => Message::GetNear {
            id: d.u64()?,
            point: read_key(d)?,
        },
        kind::NEAR => Message::Near {
            id: d.u64()?,
            members: read_keys(d, 1, MAX_LIST)?,
        },
        kind::GET_VIEW => Message::GetView {
            id: d.u64()?,
            have: d.u64()?,
        },
        kind::VIEW_IS => Message::ViewIs {
            id: d.u64()?,
            view: read_view(d)?,
        },
        kind::UNCHANGED => Message::Unchanged { id: d.u64()? },
        kind::ANNOUNCE => Message::Announce {
            view: read_view(d)?,
        },
        kind::WITNESS => Message::Witness {
            said: read_header(d)?,
        },
        kind::EVIDENCE => Message::Evidence {
            accusation: Box::new(read_accusation(d)?),
        },
        kind::FALSE_ACCUSATION => Message::FalseAccusation {
            accusation: Box::new(read_accusation(d)?),
        },
        kind::GET_CERTIFICATES => Message::GetCertificates {
            id: d.u64()?,
            members: read_keys(d, 1, MAX_CERTIFICATES)?,
        },
        kind::CERTIFICATES => Message::Certificates {
            id: d.u64()?,
            certificates: read_certificates(d)?,
        },
        _ => return records::read_of_records(d, kind),
    })
}

pub(crate) fn read_key(d: &mut Decoder<'_>) -> Result<RingKey, DecodeError> {
    let bytes = d.bytes()?;
    match <[u8; KEY_LEN]>::try_from(bytes) {
        Ok(bytes) => Ok(RingKey::from_bytes(bytes)),
        Err(_) => Err(DecodeError::KeyLength(bytes.len())),
    }
}

fn read_optional_key(d: &mut Decoder<'_>) -> Result<Option<RingKey>, DecodeError> {
    if d.datatype()? == minicbor::data::Type::Null {
        d.null()?;
        return Ok(None);
    }
    read_key(d).map(Some)
}

fn read_keys(d: &mut Decoder<'_>, least: usize, most: usize) -> Result<Vec<RingKey>, DecodeError> {
    let length = read_length(d, least, most)?;
    (0..length).map(|_| read_key(d)).collect()
}

pub(crate) fn read_length(
    d: &mut Decoder<'_>,
    least: usize,
    most: usize,
) -> Result<usize, DecodeError> {
    let length = d.array()?.and_then(|length| usize::try_from(length).ok());
    length
        .filter(|length| (least..=most).contains(length))
        .ok_or(DecodeError::ListLength)
}

pub(crate) fn read_fixed<const N: usize>(d: &mut Decoder<'_>) -> Result<[u8; N], DecodeError> {
    let bytes = d.bytes()?;
    bytes
        .try_into()
        .map_err(|_| DecodeError::FixedLength(bytes.len()))
}

/// As [`write_beginning`].
fn read_beginning(d: &mut Decoder<'_>) -> Result<(RingKey, Start), DecodeError> {
    let fields = d.array()?;
    let earlier = fields == Some(EARLIER_FIELDS);
    if !earlier && fields != Some(FIELDS) {
        return Err(DecodeError::ListLength);
    }
    let author = read_key(d)?;
    let start = if earlier { NO_START } else { read_fixed(d)? };
    // One without a start has one form only.
    if start == NO_START && !earlier {
        return Err(DecodeError::FixedLength(0));
    }
    Ok((author, start))
}

fn read_view(d: &mut Decoder<'_>) -> Result<View, DecodeError> {
    let (author, start) = read_beginning(d)?;
    let number = d.u64()?;
    let previous = read_fixed(d)?;
    let expires = d.u64()?;
    let signature = read_fixed(d)?;
    let group = read_keys(d, 1, MAX_LIST)?;
    let header = Header {
        author,
        start,
        number,
        previous,
        expires,
        content: content_hash(&group),
    };
    let signed = SignedHeader { header, signature };
    Ok(View { signed, group })
}

fn read_header(d: &mut Decoder<'_>) -> Result<SignedHeader, DecodeError> {
    let (author, start) = read_beginning(d)?;
    let header = Header {
        author,
        start,
        number: d.u64()?,
        previous: read_fixed(d)?,
        expires: d.u64()?,
        content: read_fixed(d)?,
    };
    let signature = read_fixed(d)?;
    Ok(SignedHeader { header, signature })
}

fn read_accusation(d: &mut Decoder<'_>) -> Result<Accusation, DecodeError> {
    read_length(d, 4, 4)?;
    Ok(Accusation {
        accuser: read_key(d)?,
        first: read_header(d)?,
        second: read_header(d)?,
        signature: read_fixed(d)?,
    })
}

fn read_certificates(d: &mut Decoder<'_>) -> Result<Vec<(RingKey, Vec<u8>)>, DecodeError> {
    let count = read_length(d, 0, MAX_CERTIFICATES)?;
    let mut certificates = Vec::with_capacity(count);
    for _ in 0..count {
        read_length(d, 2, 2)?;
        let key = read_key(d)?;
        let bytes = d.bytes()?;
        if bytes.len() > MAX_CERTIFICATE {
            return Err(DecodeError::CertificateLength(bytes.len()));
        }
        certificates.push((key, bytes.to_vec()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_fits_the_bound() {
        let successors = vec![RingKey::MAX; MAX_LIST];
        let message = Message::State {
            id: u64::MAX,
            predecessor: Some(RingKey::MAX),
            successors,
        };
        let bytes = message.encode();
        assert!(bytes.len() <= MAX_MESSAGE, "{} bytes", bytes.len());
        assert_eq!(Message::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn lists_out_of_bounds_are_refused() {
        let mut encoder = Encoder::new(Vec::new());
        encoder
            .array(3)
            .unwrap()
            .u8(kind::OWNER)
            .unwrap()
            .u64(1)
            .unwrap()
            .array(0)
            .unwrap();
        let empty = encoder.into_writer();
        assert!(matches!(
            Message::decode(&empty),
            Err(DecodeError::ListLength)
        ));
        let mut encoder = Encoder::new(Vec::new());
        encoder
            .array(3)
            .unwrap()
            .u8(kind::OWNER)
            .unwrap()
            .u64(1)
            .unwrap();
        encoder.array(u64::MAX).unwrap();
        let huge = encoder.into_writer();
        assert!(matches!(
            Message::decode(&huge),
            Err(DecodeError::ListLength)
        ));
    }

    #[test]
    fn each_kind_of_damage_is_named() {
        let good = Message::Ping { id: 5 }.encode();
        let mut long = good.clone();
        long.push(0);
        assert!(matches!(
            Message::decode(&long),
            Err(DecodeError::TrailingBytes(1))
        ));
        assert!(matches!(
            Message::decode(&[0x81, 0x18, 99]),
            Err(DecodeError::UnknownKind(99))
        ));
        assert!(matches!(
            Message::decode(&[0x81, 0x00]),
            Err(DecodeError::FieldCount(0))
        ));
        assert!(matches!(
            Message::decode(&[0x9f, 0x06, 0xff]),
            Err(DecodeError::FieldCount(6))
        ));
        assert!(matches!(
            Message::decode(&[]),
            Err(DecodeError::Malformed(_))
        ));
        assert!(matches!(
            Message::decode(&[0; 1_101]),
            Err(DecodeError::TooLong(1_101))
        ));
        let short_key = [0x83, 0x08, 0x01, 0x41, 0x00];
        assert!(matches!(
            Message::decode(&short_key),
            Err(DecodeError::KeyLength(1))
        ));
    }
}
