//! What a mail carries: many messages, and the address to answer to.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `RWML` |
//! | 1 | version, 1 |
//! | 16 | the mail's number, random |
//! | 2 | length of the reply address |
//! | … | the reply address, `smtp://…`, or nothing |
//! | 2 | number of messages |
//! | 4, … | each message: its length, and itself |
//!
//! Numbers are big endian. Nothing stands behind the last message, so what is cut off is noticed.

use bytes::Bytes;
use thiserror::Error;

use crate::address::MailAddress;
use crate::limits::{ADDRESS_BYTES, MAIL_CONTAINER_BYTES, MAIL_MESSAGES, SMTP_MTU};

const MAGIC: &[u8; 4] = b"RWML";
const VERSION: u8 = 1;

/// Bytes of a container around its messages, at most.
const HEAD_BYTES: usize = 4 + 1 + 16 + 2 + ADDRESS_BYTES + 2;

/// The messages of one mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    /// Random: copies of a mail have the same.
    pub(super) number: [u8; 16],
    /// Where answers go.
    pub(super) reply: Option<MailAddress>,
    pub(super) messages: Vec<Bytes>,
}

/// Bytes that are no container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum ContainerError {
    #[error("it does not begin as a container")]
    Magic,
    #[error("its version is not {VERSION}")]
    Version,
    #[error("it is cut off or too long")]
    Length,
    #[error("its reply address is none")]
    Reply,
    #[error("it has no messages, too many, or too long ones")]
    Messages,
}

impl Container {
    /// The bytes. The caller keeps the messages' bounds.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.number);
        let reply = self.reply.as_ref().map_or("", MailAddress::as_str);
        let short = |length| u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        bytes.extend_from_slice(&short(reply.len()));
        bytes.extend_from_slice(reply.as_bytes());
        bytes.extend_from_slice(&short(self.messages.len()));
        for message in &self.messages {
            let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(message);
        }
        bytes
    }

    /// Reads what [`Self::encode`] wrote.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, ContainerError> {
        let limit = MAIL_MESSAGES
            .saturating_mul(4)
            .saturating_add(HEAD_BYTES)
            .saturating_add(MAIL_CONTAINER_BYTES);
        if bytes.len() > limit {
            return Err(ContainerError::Length);
        }
        let bytes = bytes.strip_prefix(MAGIC).ok_or(ContainerError::Magic)?;
        let (version, bytes) = bytes.split_first().ok_or(ContainerError::Length)?;
        if *version != VERSION {
            return Err(ContainerError::Version);
        }
        let (number, bytes) = bytes.split_first_chunk().ok_or(ContainerError::Length)?;
        let (length, bytes) = bytes.split_first_chunk().ok_or(ContainerError::Length)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (reply, bytes) = split(bytes, length)?;
        let (count, bytes) = bytes.split_first_chunk().ok_or(ContainerError::Length)?;
        let count = usize::from(u16::from_be_bytes(*count));
        Ok(Self {
            number: *number,
            reply: decode_reply(reply)?,
            messages: decode_messages(bytes, count)?,
        })
    }
}

fn split(bytes: &[u8], length: usize) -> Result<(&[u8], &[u8]), ContainerError> {
    bytes.split_at_checked(length).ok_or(ContainerError::Length)
}

fn decode_reply(bytes: &[u8]) -> Result<Option<MailAddress>, ContainerError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ContainerError::Reply)?;
    let address = text.parse().map_err(|_| ContainerError::Reply)?;
    Ok(Some(address))
}

fn decode_messages(mut bytes: &[u8], count: usize) -> Result<Vec<Bytes>, ContainerError> {
    if count == 0 || count > MAIL_MESSAGES {
        return Err(ContainerError::Messages);
    }
    let mut messages = Vec::new();
    for _ in 0..count {
        let (length, rest) = bytes.split_first_chunk().ok_or(ContainerError::Length)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > SMTP_MTU {
            return Err(ContainerError::Messages);
        }
        let (message, rest) = split(rest, length)?;
        messages.push(Bytes::copy_from_slice(message));
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(messages)
    } else {
        Err(ContainerError::Length)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn containers() -> impl Strategy<Value = Container> {
        let reply = prop_oneof![
            Just(None),
            "[a-z]{1,8}".prop_map(|name| {
                let mailbox = format!("{name}@example.org");
                Some(MailAddress::new(&mailbox, "X-Ringway", "k3").unwrap())
            }),
        ];
        let message = prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from);
        let messages = prop::collection::vec(message, 1..20);
        (any::<[u8; 16]>(), reply, messages).prop_map(|(number, reply, messages)| Container {
            number,
            reply,
            messages,
        })
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let container = |messages: Vec<Bytes>| Container {
            number: [7; 16],
            reply: None,
            messages,
        };
        let decoded = |messages| Container::decode(&container(messages).encode());
        assert_eq!(decoded(Vec::new()), Err(ContainerError::Messages));
        let many = vec![Bytes::new(); MAIL_MESSAGES];
        assert!(decoded(many.clone()).is_ok());
        let more = [many, vec![Bytes::new()]].concat();
        assert_eq!(decoded(more), Err(ContainerError::Messages));
        let largest = Bytes::from(vec![1; SMTP_MTU]);
        assert!(decoded(vec![largest.clone()]).is_ok());
        let larger = Bytes::from(vec![1; SMTP_MTU + 1]);
        assert_eq!(decoded(vec![larger]), Err(ContainerError::Messages));
        let fits = MAIL_CONTAINER_BYTES / SMTP_MTU;
        assert!(decoded(vec![largest.clone(); fits]).is_ok());
        let long = decoded(vec![largest; fits + 1]);
        assert_eq!(long, Err(ContainerError::Length));
    }

    proptest! {
        #[test]
        fn comes_out_as_it_went_in_and_never_cut(container in containers(), cut in any::<prop::sample::Index>()) {
            let bytes = container.encode();
            prop_assert_eq!(Container::decode(&bytes), Ok(container));
            prop_assert!(Container::decode(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert!(Container::decode(&[&bytes[..], b"x"].concat()).is_err());
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Container::decode(&bytes).is_err());
            let head = [&MAGIC[..], &[VERSION], &bytes].concat();
            drop(Container::decode(&head));
        }
    }
}
