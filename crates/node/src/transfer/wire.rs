//! The frames around a transfer's content: four bytes of length, then CBOR.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};
use ringway_transport::quic::{RecvStream, SendStream};

use super::distribute::{Distributed, Shared};
use crate::connection::frame;
pub(super) use crate::connection::frame::FrameError;
use crate::limits::{FRAME_BYTES, MISSING_RANGES, PIECES, SHARERS};

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
        /// It takes part in the distribution that the offer speaks of. Earlier releases skip this.
        #[n(2)]
        takes_part: Option<bool>,
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
    /// From the sender of a distributed file to one that takes part: who else does.
    #[n(9)]
    Shared(#[n(0)] Shared),
    /// These pieces are here as well: numbers at which they begin and end, in turn.
    #[n(10)]
    Has(#[n(0)] Vec<u32>),
    /// To the sender: others do not give these.
    #[n(11)]
    Wants(#[n(0)] Vec<u32>),
    /// To another receiver: give this piece.
    #[n(12)]
    Get(#[n(0)] u32),
    /// Behind it come so many bytes: a piece and the hashes that prove it.
    #[n(13)]
    Piece {
        #[n(0)]
        piece: u32,
        #[n(1)]
        bytes: u64,
    },
    /// To another receiver: tell what is there of the file to which this entitles, and give it.
    #[n(14)]
    Ask(#[n(0)] ByteArray<16>),
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
    /// Of a file for several members who may give it to each other.
    #[n(5)]
    pub(super) distributed: Option<Distributed>,
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

/// How many pieces there are at least.
fn bounds(pieces: &[u32]) -> u64 {
    u64::try_from(pieces.len()).map_or(u64::MAX, |bounds| bounds.saturating_sub(1))
}

impl Frame {
    pub(super) fn decode(bytes: &[u8]) -> Option<Frame> {
        let frame = minicbor::decode(bytes).ok()?;
        match &frame {
            Frame::Accept { missing, .. } if missing.len() > 2 * MISSING_RANGES => None,
            Frame::Has(pieces) | Frame::Wants(pieces) if bounds(pieces) > PIECES => None,
            Frame::Shared(shared) if shared.others.len() > SHARERS => None,
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
        Some(Frame::Has(bounds) | Frame::Wants(bounds)) => {
            let count = u32::try_from(PIECES).unwrap_or(0);
            let pieces = super::distribute::Pieces::from_wire(&bounds, count);
            assert!(pieces.is_none_or(|pieces| pieces.to_wire() == bounds));
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
            let offer = Offer { id: id.into(), file, size, hash: hash.into(), bundle: None, distributed: None };
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
        fn words_on_pieces_survive_a_round_trip(
            bounds in proptest::collection::vec(any::<u32>(), 0..20),
            secret: [u8; 16],
            others in proptest::collection::vec(any::<[u8; 32]>(), 0..4),
            piece: u32,
            bytes: u64,
        ) {
            let others = others.into_iter().map(Into::into).collect();
            let frames = [
                Frame::Has(bounds.clone()),
                Frame::Wants(bounds),
                Frame::Shared(Shared { secret: secret.into(), others }),
                Frame::Get(piece),
                Frame::Piece { piece, bytes },
                Frame::Ask(secret.into()),
            ];
            for frame in frames {
                prop_assert_eq!(Frame::decode(&crate::cbor::encode(&frame)), Some(frame));
            }
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
            takes_part: None,
        };
        assert_eq!(Frame::decode(&crate::cbor::encode(&frame)), None);
    }
    /// What releases before 0.3 know of an offer.
    #[derive(Decode)]
    struct Earlier {
        #[n(2)]
        size: u64,
    }

    #[test]
    fn earlier_releases_read_distributed_offers() {
        let offer = Offer {
            id: [1; 16].into(),
            file: "f".to_owned(),
            size: 7,
            hash: [2; 32].into(),
            bundle: None,
            distributed: Some(Distributed { priority: 1.0 }),
        };
        let earlier: Earlier = minicbor::decode(&crate::cbor::encode(&offer)).unwrap();
        assert_eq!(earlier.size, 7);
        let frame = Frame::Offer(offer);
        assert_eq!(Frame::decode(&crate::cbor::encode(&frame)), Some(frame));
    }
}
