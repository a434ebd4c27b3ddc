//! The frames between us and a child program.

use serde::Deserialize;
use thiserror::Error;

use crate::address::{ExecAddress, LatencyClass};
use crate::limits::{ADDRESS_BYTES, EXEC_MTU, HELLO_ADDRESSES};

/// The version of the frames.
const VERSION: u32 = 1;

/// What a child says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChildHello {
    pub(super) mtu: usize,
    pub(super) cost: u32,
    pub(super) latency: LatencyClass,
    /// What stands behind `exec://NAME/` in our own addresses.
    pub(super) addresses: Vec<String>,
}

/// A frame from a child.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Hello(ChildHello),
    Message { from: &'a str, message: &'a [u8] },
    Log(&'a [u8]),
}

/// A frame that is none: the child is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum FrameError {
    #[error("a frame is empty, too long or of an unknown kind")]
    Kind,
    #[error("the hello is not the JSON object that it should be")]
    Hello,
    #[error("the version is not {VERSION}")]
    Version,
    #[error("the mtu is not between 1 and {EXEC_MTU}")]
    Mtu,
    #[error("there are more than {HELLO_ADDRESSES} addresses, or one is none")]
    Addresses,
    #[error("a message is cut off or has no address")]
    Message,
}

#[derive(Deserialize)]
struct HelloJson {
    version: u32,
    mtu: usize,
    cost: u32,
    latency: LatencyJson,
    #[serde(default)]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum LatencyJson {
    Interactive,
    Seconds,
    Minutes,
}

/// Reads a frame, without its length.
pub(super) fn decode(frame: &[u8]) -> Result<Frame<'_>, FrameError> {
    match frame.split_first() {
        Some((b'H', body)) => decode_hello(body).map(Frame::Hello),
        Some((b'M', body)) => decode_message(body).ok_or(FrameError::Message),
        Some((b'L', body)) => Ok(Frame::Log(body)),
        _ => Err(FrameError::Kind),
    }
}

fn decode_hello(body: &[u8]) -> Result<ChildHello, FrameError> {
    let hello: HelloJson = serde_json::from_slice(body).map_err(|_| FrameError::Hello)?;
    if hello.version != VERSION {
        return Err(FrameError::Version);
    }
    if hello.mtu == 0 || hello.mtu > EXEC_MTU {
        return Err(FrameError::Mtu);
    }
    // The name is checked elsewhere; a longer one makes a longer address.
    let valid = |rest: &String| ExecAddress::new("x", rest).is_ok();
    if hello.addresses.len() > HELLO_ADDRESSES || !hello.addresses.iter().all(valid) {
        return Err(FrameError::Addresses);
    }
    Ok(ChildHello {
        mtu: hello.mtu,
        cost: hello.cost,
        latency: match hello.latency {
            LatencyJson::Interactive => LatencyClass::Interactive,
            LatencyJson::Seconds => LatencyClass::Seconds,
            LatencyJson::Minutes => LatencyClass::Minutes,
        },
        addresses: hello.addresses,
    })
}

fn decode_message(body: &[u8]) -> Option<Frame<'_>> {
    let (length, body) = body.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    if length > ADDRESS_BYTES {
        return None;
    }
    let (from, message) = body.split_at_checked(length)?;
    let from = std::str::from_utf8(from).ok()?;
    Some(Frame::Message { from, message })
}

/// A whole message frame, with its length; `None` if the address is longer than any can be.
pub(super) fn encode_message(to: &str, message: &[u8]) -> Option<Vec<u8>> {
    let address_bytes = u16::try_from(to.len()).ok()?;
    let length = to.len().checked_add(message.len())?.checked_add(3)?;
    let length = u32::try_from(length).ok()?;
    let mut frame = Vec::new();
    frame.extend_from_slice(&length.to_be_bytes());
    frame.push(b'M');
    frame.extend_from_slice(&address_bytes.to_be_bytes());
    frame.extend_from_slice(to.as_bytes());
    frame.extend_from_slice(message);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(text: &str) -> Result<Frame<'static>, FrameError> {
        match decode(format!("H{text}").as_bytes()) {
            Ok(Frame::Hello(hello)) => Ok(Frame::Hello(hello)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn a_hello_says_all_or_is_refused() {
        let whole =
            r#"{"version":1,"mtu":1200,"cost":50,"latency":"seconds","addresses":["a"],"new":0}"#;
        let expected = ChildHello {
            mtu: 1200,
            cost: 50,
            latency: LatencyClass::Seconds,
            addresses: vec!["a".to_owned()],
        };
        assert_eq!(hello(whole), Ok(Frame::Hello(expected)));
        for (old, new, error) in [
            ("{", "", FrameError::Hello),
            ("seconds", "hours", FrameError::Hello),
            ("\"version\":1", "\"version\":2", FrameError::Version),
            ("1200", "0", FrameError::Mtu),
            ("1200", "65537", FrameError::Mtu),
            ("\"a\"", "\"a b\"", FrameError::Addresses),
        ] {
            assert_eq!(hello(&whole.replace(old, new)), Err(error), "{new}");
        }
    }

    #[test]
    fn a_frame_that_is_none_is_refused() {
        for (frame, error) in [
            (&b""[..], FrameError::Kind),
            (b"X", FrameError::Kind),
            (b"M", FrameError::Message),
            (b"M\0\x05abc", FrameError::Message),
            (b"M\0\x01\xff", FrameError::Message),
            (b"M\xff\xff", FrameError::Message),
        ] {
            assert_eq!(decode(frame), Err(error), "{frame:?}");
        }
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            to in "[!-~]{0,100}",
            message in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let frame = encode_message(&to, &message).unwrap();
            let (length, rest) = frame.split_first_chunk::<4>().unwrap();
            prop_assert_eq!(u32::from_be_bytes(*length) as usize, rest.len());
            prop_assert_eq!(decode(rest), Ok(Frame::Message { from: &to, message: &message }));
        }

        #[test]
        fn random_frames_never_panic(frame in prop::collection::vec(any::<u8>(), 0..300)) {
            // Whatever it is, it is decided.
            drop(decode(&frame));
            for kind in [b'H', b'M', b'L'] {
                drop(decode(&[&[kind], &frame[..]].concat()));
            }
        }
    }
}
