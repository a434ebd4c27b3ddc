//! The frames with which streams begin: what a peer asks for, and the answer. Records follow
//! ([`record`](super::record)).

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use ringway_dtl::Priority;
use ringway_transport::quic::{RecvStream, SendStream};

use crate::config::ServiceName;
use crate::connection::frame::{self, FrameError};
use crate::limits::{FRAME_BYTES, SERVICES, STREAM_REASON};
use crate::text::printable;

/// The kinds of these frames.
pub(crate) const KINDS: std::ops::RangeInclusive<u32> = 20..=29;

/// Which stream; random, made by its opener. Only that member can come back to it.
pub(crate) type StreamId = [u8; 16];

/// One frame.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) enum Frame {
    /// Which services may this member use?
    #[n(20)]
    List,
    /// These.
    #[n(21)]
    Listed(#[n(0)] Vec<Offered>),
    /// This member wants a stream to a service.
    #[n(22)]
    Open(#[n(0)] Open),
    /// It goes on over this connection, as another has died.
    #[n(23)]
    Attach(#[n(0)] Attach),
    /// Yes; records follow.
    #[n(24)]
    Accepted {
        /// What the peer sends it with.
        #[n(0)]
        priority: f64,
        /// What the peer has received of it.
        #[n(1)]
        received: u64,
        /// Up to here may be sent.
        #[n(2)]
        limit: u64,
        /// Datagrams of the service may travel beside the stream.
        #[n(3)]
        datagrams: Option<bool>,
    },
    /// No.
    #[n(25)]
    Refused(#[n(0)] String),
    /// The stream has ended well, and this member knows all of it.
    #[n(26)]
    Finished,
}

/// A service that a peer may use.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Offered {
    #[n(0)]
    pub(crate) name: String,
    /// `tcp`, `unix`, `udp` or `program`.
    #[n(1)]
    pub(crate) protocol: String,
    /// Its own port, if it has one.
    #[n(2)]
    pub(crate) port: Option<u16>,
    #[n(3)]
    pub(crate) priority: f64,
}

/// A stream that is to be.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Open {
    #[n(0)]
    pub(crate) id: ByteArray<16>,
    #[n(1)]
    pub(crate) service: String,
    /// What its user asks for; none for the service's own.
    #[n(2)]
    pub(crate) priority: Option<f64>,
    /// That of the connection.
    #[n(3)]
    pub(crate) carried_at: f64,
    /// Up to here may be sent.
    #[n(4)]
    pub(crate) limit: u64,
    /// This member takes datagrams beside the stream.
    #[n(5)]
    pub(crate) datagrams: Option<bool>,
}

/// A stream that goes on.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Attach {
    #[n(0)]
    pub(crate) id: ByteArray<16>,
    /// Grows with each connection: an older one never takes the stream back.
    #[n(1)]
    pub(crate) attempt: u64,
    #[n(2)]
    pub(crate) received: u64,
    #[n(3)]
    pub(crate) limit: u64,
    /// What its user asks for now.
    #[n(4)]
    pub(crate) priority: Option<f64>,
    #[n(5)]
    pub(crate) carried_at: f64,
}

impl Frame {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
        let frame: Frame = minicbor::decode(bytes).map_err(|_| FrameError::Malformed)?;
        Ok(match frame {
            Frame::Refused(reason) => Frame::Refused(printable(&reason, STREAM_REASON)),
            Frame::Listed(all) => {
                let known = all.into_iter().filter(|offered| offered.is_good());
                Frame::Listed(known.take(SERVICES).collect())
            }
            frame => frame,
        })
    }

    pub(crate) async fn read(stream: &mut RecvStream) -> Result<Frame, FrameError> {
        Frame::decode(&frame::read(stream, FRAME_BYTES).await?)
    }

    pub(crate) async fn write(&self, stream: &mut SendStream) -> Result<(), FrameError> {
        frame::write(stream, self).await
    }
}

impl Offered {
    fn is_good(&self) -> bool {
        let protocol = ["tcp", "unix", "udp", "program"].contains(&self.protocol.as_str());
        let priority = Priority::new(self.priority).is_ok();
        self.name.parse::<ServiceName>().is_ok() && protocol && priority
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    match Frame::decode(data) {
        Ok(Frame::Listed(all)) => {
            assert!(all.len() <= SERVICES && all.iter().all(Offered::is_good));
        }
        Ok(Frame::Refused(reason)) => assert!(reason.chars().all(|c| !c.is_control())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_survive_a_round_trip(
            id: [u8; 16],
            service in "[a-z]{1,9}",
            priority in proptest::option::of(0.0..1000.0),
            limit: u64,
        ) {
            let open = Frame::Open(Open { id: id.into(), service, priority, carried_at: 1.0, limit, datagrams: Some(true) });
            let attach = Frame::Attach(Attach {
                id: id.into(), attempt: 7, received: limit, limit, priority, carried_at: 0.5,
            });
            for frame in [open, attach, Frame::List, Frame::Finished] {
                let bytes = crate::cbor::encode(&frame);
                prop_assert!(KINDS.contains(&frame::kind(&bytes).unwrap()));
                prop_assert_eq!(Frame::decode(&bytes).unwrap(), frame);
            }
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
            let _ignored = Frame::decode(&bytes);
        }
    }

    #[test]
    fn harmful_names_are_not_listed() {
        let offered = |name: &str, protocol: &str, priority| Offered {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            port: None,
            priority,
        };
        let all = vec![
            offered("ssh", "tcp", 1.0),
            offered("\u{1b}[2J", "tcp", 1.0),
            offered("web", "\n", 1.0),
            offered("odd", "tcp", f64::NAN),
        ];
        let bytes = crate::cbor::encode(&Frame::Listed(all.clone()));
        assert_eq!(
            Frame::decode(&bytes).unwrap(),
            Frame::Listed(all[..1].to_vec())
        );
    }
}
