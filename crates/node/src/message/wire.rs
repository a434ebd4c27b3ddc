//! Frames of conversations: CBOR in a link's message.

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

use crate::limits::{ATTACHMENTS, BATCH_MESSAGES, BODY_IN_BATCH, MESSAGE_BYTES, REFUSAL_TEXT};
use crate::text::printable;

/// The highest number that a message may have: databases count by signed numbers.
const HIGHEST: u64 = 1 << 62;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) enum Frame {
    /// Messages that follow each other.
    #[n(0)]
    Batch(#[n(0)] Batch),
    /// The rest of a long body, which goes before its batch.
    #[n(1)]
    Rest(#[n(0)] Rest),
    /// The receiver signs.
    #[n(2)]
    Receipt(#[n(0)] Receipt),
    /// The receiver takes none of these messages, ever.
    #[n(3)]
    Refusal(#[n(0)] Refusal),
    /// The sender knows what was read.
    #[n(4)]
    Noted(#[n(0)] Noted),
}

/// Messages that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Batch {
    /// The sender's name for this run of numbers.
    #[n(0)]
    pub(super) epoch: ByteArray<16>,
    /// Up to here the sender needs no signature: it has it, or has given the messages up.
    #[n(1)]
    pub(super) base: u64,
    /// The chain at `base`.
    #[n(2)]
    pub(super) base_chain: ByteArray<32>,
    /// Number of the first message.
    #[n(3)]
    pub(super) first: u64,
    /// The chain before it.
    #[n(4)]
    pub(super) chain: ByteArray<32>,
    /// One at least.
    #[n(5)]
    pub(super) items: Vec<Item>,
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Item {
    #[n(0)]
    pub(super) id: ByteArray<16>,
    /// When it was written, by the sender's clock; Unix milliseconds.
    #[n(1)]
    pub(super) created: u64,
    /// Bytes of the whole body.
    #[n(2)]
    pub(super) length: u32,
    /// The body, or its first [`BODY_IN_BATCH`] bytes.
    #[n(3)]
    pub(super) body: ByteVec,
    /// Transfers that belong to it.
    #[n(4)]
    pub(super) attached: Vec<ByteArray<16>>,
}

/// The rest of a long body.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Rest {
    #[n(0)]
    pub(super) epoch: ByteArray<16>,
    /// Of the message.
    #[n(1)]
    pub(super) number: u64,
    #[n(2)]
    pub(super) bytes: ByteVec,
}

/// What a receiver signs for, and how it does.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Receipt {
    #[n(0)]
    pub(super) epoch: ByteArray<16>,
    /// All messages up to here are stored.
    #[n(1)]
    pub(super) upto: u64,
    /// The chain at `upto`.
    #[n(2)]
    pub(super) chain: ByteArray<32>,
    /// Those up to here were read; 0 where that is not said.
    #[n(3)]
    pub(super) read: u64,
    /// Over the four above, the ring, the sender and the receiver.
    #[n(4)]
    pub(super) signature: ByteArray<64>,
    /// The lowest number behind a gap that has come; 0 if there is none.
    #[n(5)]
    pub(super) ahead: u64,
    /// There is no room for more now.
    #[n(6)]
    pub(super) full: bool,
    /// The sender has not [noted](Noted) `read` yet, as far as the receiver knows.
    #[n(7)]
    #[cbor(default)]
    pub(super) asks: bool,
}

/// The sender knows what was read: that need not be said again.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Noted {
    /// The run of numbers of the receipt that asked.
    #[n(0)]
    pub(super) epoch: ByteArray<16>,
    /// Those up to here were read, for all that the sender knows.
    #[n(1)]
    pub(super) read: u64,
}

/// The receiver takes no messages of the sender.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(super) struct Refusal {
    #[n(0)]
    pub(super) epoch: ByteArray<16>,
    /// The last that it was offered.
    #[n(1)]
    pub(super) upto: u64,
    #[n(2)]
    pub(super) reason: String,
}

impl Batch {
    /// Number of the last message.
    pub(super) fn last(&self) -> u64 {
        let count = u64::try_from(self.items.len()).unwrap_or(u64::MAX);
        self.first.saturating_add(count).saturating_sub(1)
    }

    /// Bytes of the bodies, and something for each message.
    pub(super) fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.body.len() + 64).sum()
    }

    fn is_sound(&self) -> bool {
        let count = self.items.len();
        (1..=BATCH_MESSAGES).contains(&count)
            && self.first > self.base
            && self.last() <= HIGHEST
            && self.items.iter().all(Item::is_sound)
    }
}

impl Item {
    fn is_sound(&self) -> bool {
        let Ok(length) = usize::try_from(self.length) else {
            return false;
        };
        length <= MESSAGE_BYTES
            && self.body.len() == length.min(BODY_IN_BATCH)
            && self.attached.len() <= ATTACHMENTS
    }
}

impl Frame {
    pub(super) fn encode(&self) -> Vec<u8> {
        crate::cbor::encode(self)
    }

    /// Reads a frame; none if it is malformed, or past a bound.
    pub(super) fn decode(bytes: &[u8]) -> Option<Frame> {
        let mut frame: Frame = minicbor::decode(bytes).ok()?;
        let sound = match &mut frame {
            Frame::Batch(batch) => batch.is_sound(),
            Frame::Rest(rest) => rest.bytes.len() <= MESSAGE_BYTES - BODY_IN_BATCH,
            Frame::Noted(noted) => noted.read <= HIGHEST,
            Frame::Receipt(receipt) => receipt.upto <= HIGHEST && receipt.read <= receipt.upto,
            Frame::Refusal(refusal) => {
                refusal.reason = printable(&refusal.reason, REFUSAL_TEXT);
                true
            }
        };
        sound.then_some(frame)
    }
}

/// For the fuzzer: what was decoded is within its bounds and encodes again.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    let Some(frame) = Frame::decode(data) else {
        return;
    };
    assert_eq!(Frame::decode(&frame.encode()).as_ref(), Some(&frame));
    if let Frame::Batch(batch) = &frame {
        assert!(batch.last() >= batch.first && batch.items.len() <= BATCH_MESSAGES);
        let mut incoming = super::incoming::Incoming::default();
        let mut room = super::incoming::Room {
            messages: 8,
            bytes: 4_096,
        };
        for _ in 0..2 {
            let taken = incoming.handle_batch(batch.clone(), &mut room);
            assert!(taken.len() <= 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(body: Vec<u8>) -> Item {
        Item {
            id: [1; 16].into(),
            created: 5,
            length: body.len().try_into().unwrap(),
            body: body.into(),
            attached: vec![[2; 16].into()],
        }
    }

    fn batch(first: u64, items: Vec<Item>) -> Batch {
        Batch {
            epoch: [1; 16].into(),
            base: 0,
            base_chain: [2; 32].into(),
            first,
            chain: [3; 32].into(),
            items,
        }
    }

    proptest! {
        #[test]
        fn frames_survive_a_round_trip(number in 1..HIGHEST / 2, body in proptest::collection::vec(any::<u8>(), 0..99), full: bool) {
            let epoch = [7; 16].into();
            let receipt = Receipt {
                epoch, upto: number, chain: [8; 32].into(), read: number / 2, signature: [9; 64].into(), ahead: number + 5, full, asks: !full,
            };
            for frame in [
                Frame::Batch(batch(number, vec![item(body.clone()), item(Vec::new())])),
                Frame::Rest(Rest { epoch, number, bytes: body.clone().into() }),
                Frame::Receipt(receipt.clone()),
                Frame::Refusal(Refusal { epoch, upto: number, reason: "no".to_owned() }),
                Frame::Noted(Noted { epoch, read: number }),
            ] {
                prop_assert_eq!(Frame::decode(&frame.encode()), Some(frame));
            }
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ignored = Frame::decode(&bytes);
        }
    }

    #[test]
    fn frames_past_their_bounds_are_none() {
        let refused = |batch: Batch| {
            let frame = Frame::Batch(batch);
            assert_eq!(Frame::decode(&frame.encode()), None, "{frame:?}");
        };
        refused(batch(1, Vec::new()));
        refused(batch(0, vec![item(Vec::new())]));
        refused(batch(u64::MAX, vec![item(Vec::new()); 2]));
        refused(batch(HIGHEST, vec![item(Vec::new()); 2]));
        refused(batch(1, vec![item(Vec::new()); BATCH_MESSAGES + 1]));
        let mut longer = item(vec![0; 9]);
        longer.length = 10;
        refused(batch(1, vec![longer.clone()]));
        longer.length = u32::MAX;
        refused(batch(1, vec![longer]));
        let escapes = Frame::Refusal(Refusal {
            epoch: [0; 16].into(),
            upto: 1,
            reason: format!("\x1b[2J{}", "no".repeat(999)),
        });
        let Some(Frame::Refusal(refusal)) = Frame::decode(&escapes.encode()) else {
            panic!("it is none");
        };
        assert!(!refusal.reason.contains('\x1b'));
        assert_eq!(refusal.reason.chars().count(), REFUSAL_TEXT);
    }

    /// The longest batch fits into a link's message.
    #[test]
    fn longest_frames_fit_into_link_messages() {
        let mut long = item(vec![0; BODY_IN_BATCH]);
        long.length = MESSAGE_BYTES.try_into().unwrap();
        long.attached = vec![[2; 16].into(); ATTACHMENTS];
        let frame = Frame::Batch(batch(1 << 40, vec![long]));
        let most = crate::limits::SESSION_LENGTH - 200;
        assert!(frame.encode().len() < most);
        let most_small = Frame::Batch(batch(1 << 40, vec![item(vec![0; 1]); BATCH_MESSAGES]));
        assert!(most_small.encode().len() < most);
    }
}
