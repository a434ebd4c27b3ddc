//! The frames around a transfer's content: four bytes of length, then CBOR.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use ringway_transport::quic::{RecvStream, SendStream};

use crate::connection::frame;
pub(super) use crate::connection::frame::FrameError;
use crate::limits::{FRAME_BYTES, MISSING_RANGES};

/// One frame.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) enum Frame {
    /// Tests this address; the `transport` crate's encoding.
    #[n(0)]
    Ping(#[n(0)] ByteVec),
    /// Its answer.
    #[n(1)]
    Pong(#[n(0)] ByteVec),
    /// The sender names a file.
    #[n(2)]
    Offer(#[n(0)] Offer),
    /// The receiver names the chunks that it lacks: alternating first and one-past-last chunk
    /// numbers.
    #[n(3)]
    Accept {
        #[n(0)]
        missing: Vec<u64>,
        /// Bytes that need not be sent again.
        #[n(1)]
        present: u64,
    },
    /// The receiver does not take the file.
    #[n(4)]
    Refuse {
        #[n(0)]
        reason: String,
        /// True if a later try may succeed.
        #[n(1)]
        try_later: bool,
    },
    /// The receiver has the whole file on its disk.
    #[n(5)]
    Finished,
    /// The sender has given up the transfer with this id.
    #[n(6)]
    GiveUp(#[n(0)] ByteArray<16>),
    /// The receiver waits for it no longer, if it ever did.
    #[n(7)]
    GivenUp,
    /// The sender names a bundle. Releases before 0.3 do not know this frame.
    #[n(8)]
    OfferBundle(#[n(0)] Offer),
    /// From the receiver: the transfer with this id has an answer now, so its sender comes at once.
    #[n(19)]
    Come(#[n(0)] ByteArray<16>),
}

/// What the sender says about its file.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct Offer {
    #[n(0)]
    pub(super) id: ByteArray<16>,
    #[n(1)]
    pub(super) file: String,
    #[n(2)]
    pub(super) size: u64,
    #[n(3)]
    pub(super) hash: ByteArray<32>,
    /// Of a bundle, whose list is a part of its content, and of nothing else.
    #[n(4)]
    pub(super) bundle: Option<OfferedBundle>,
}

/// What the sender says about a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct OfferedBundle {
    /// Bytes of its list.
    #[n(0)]
    pub(super) head: u64,
    /// Files, folders and links in it.
    #[n(1)]
    pub(super) entries: u64,
    /// True if it is one folder.
    #[n(2)]
    pub(super) folder: bool,
}

impl Frame {
    pub(super) fn decode(bytes: &[u8]) -> Option<Frame> {
        let frame = minicbor::decode(bytes).ok()?;
        match &frame {
            Frame::Accept { missing, .. } if missing.len() > 2 * MISSING_RANGES => None,
            Frame::Offer(offer) if offer.bundle.is_some() => None,
            Frame::OfferBundle(offer) if offer.bundle.is_none() => None,
            _ => Some(frame),
        }
    }

    pub(super) async fn write(&self, stream: &mut SendStream) -> Result<(), FrameError> {
        frame::write(stream, self).await
    }

    pub(super) async fn read(stream: &mut RecvStream) -> Result<Frame, FrameError> {
        let bytes = frame::read(stream, FRAME_BYTES).await?;
        Frame::decode(&bytes).ok_or(FrameError::Malformed)
    }
}

#[cfg(feature = "fuzzing")]
pub(super) fn decode_anything(data: &[u8]) {
    match Frame::decode(data) {
        Some(Frame::Accept { missing, .. }) => {
            if let Some(ranges) = super::content::from_wire(&missing) {
                super::content::byte_count(&ranges, u64::MAX);
            }
        }
        Some(Frame::Offer(offer) | Frame::OfferBundle(offer)) => {
            let name = super::content::safe_file_name(&offer.file);
            let hidden = |name: &str| name.starts_with(['.', '-']);
            assert!(name.is_none_or(|name| !name.contains('/') && !hidden(&name)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn offers_survive_a_round_trip(id: [u8; 16], file in ".{0,40}", size: u64, hash: [u8; 32]) {
            let offer = Offer { id: id.into(), file, size, hash: hash.into(), bundle: None };
            let frame = Frame::Offer(offer.clone());
            let bytes = crate::cbor::encode(&frame);
            prop_assert_eq!(Frame::decode(&bytes), Some(frame));
            // Release 0.2 knows four fields.
            prop_assert_eq!(&bytes[..4], [0x82, 2, 0x81, 0x84]);
            let bundle = Some(OfferedBundle { head: size, entries: 1, folder: true });
            let frame = Frame::OfferBundle(Offer { bundle, ..offer });
            prop_assert_eq!(Frame::decode(&crate::cbor::encode(&frame)), Some(frame));
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ignored = Frame::decode(&bytes);
        }
    }

    #[test]
    fn too_many_ranges_are_refused() {
        let missing = vec![0; 2 * MISSING_RANGES + 2];
        let frame = Frame::Accept {
            missing,
            present: 0,
        };
        assert_eq!(Frame::decode(&crate::cbor::encode(&frame)), None);
    }
}
