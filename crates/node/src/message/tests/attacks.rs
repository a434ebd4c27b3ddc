//! A peer that does as it likes.

use ringway_transport::MemberId;

use super::super::chain::{self, Between, Claims};
use super::super::wire::{Batch, Item, Receipt, Rest};
use super::*;
use crate::limits::MESSAGE_EPOCHS;

/// The receipt that `signer` gives for a batch.
fn receipt(pair: &Pair, signer: &Identity, ring: MemberId, batch: &Batch, upto: u64) -> Receipt {
    let mut at = *batch.chain;
    for item in batch
        .items
        .iter()
        .take(usize::try_from(upto).unwrap_or(usize::MAX))
    {
        at = chain::extend(
            &at,
            &Message {
                id: MessageId(*item.id),
                created: item.created,
                body: item.body.to_vec(),
                attached: Vec::new(),
            },
        );
    }
    let between = Between {
        ring,
        sender: pair.a.identity.member(),
        receiver: signer.member(),
    };
    let claims = Claims::new(&between, *batch.epoch, (upto, at), 0);
    Receipt {
        epoch: batch.epoch,
        upto,
        chain: at.into(),
        read: 0,
        signature: claims.sign(signer).into(),
        ahead: 0,
        full: false,
        asks: false,
    }
}

fn batch(frames: &[Vec<u8>]) -> Batch {
    let found = frames.iter().find_map(|frame| match Frame::decode(frame) {
        Some(Frame::Batch(batch)) => Some(batch),
        _ => None,
    });
    found.unwrap()
}

fn give(pair: &mut Pair, frame: Frame) -> Vec<Vec<u8>> {
    let frame = vec![frame.encode()];
    pair.a
        .round(pair.now, &pair.kin, frames(&pair.b.certificate, frame))
}

/// Receipts of others, of another ring, for other messages or for what was never sent settle
/// nothing; the right one does.
#[test]
fn forged_receipts_settle_nothing() {
    let mut pair = Pair::new();
    let (left, _) = pair.send(1, b"one");
    let sent = batch(&left);
    let (b, other) = (pair.b.identity.clone(), Identity::generate().unwrap());
    let ring = pair.owner.member();
    let right = receipt(&pair, &b, ring, &sent, 1);
    let mut forged = vec![
        receipt(&pair, &other, ring, &sent, 1),
        receipt(&pair, &b, other.member(), &sent, 1),
    ];
    for upto in [0, 2, 1 << 61] {
        // The number changes, and the signature stays.
        forged.push(Receipt {
            upto,
            ..right.clone()
        });
    }
    forged.push(Receipt {
        chain: [1; 32].into(),
        ..right.clone()
    });
    forged.push(Receipt {
        read: 1,
        ..right.clone()
    });
    forged.push(Receipt {
        signature: [0; 64].into(),
        ..right.clone()
    });
    for forged in forged {
        give(&mut pair, Frame::Receipt(forged.clone()));
        assert_eq!(pair.a.standings(), [Standing::Pending], "{forged:?}");
        pair.now += Duration::from_millis(1);
        // Some in a round are not even verified.
        pair.a.round(pair.now, &pair.kin, Vec::new());
    }
    give(&mut pair, Frame::Receipt(right));
    assert_eq!(pair.a.standings(), [Standing::Signed]);
}

/// A receiver that signs for what was never sent makes only its own messages wait.
#[test]
fn receipts_for_what_was_never_sent_settle_nothing() {
    let mut pair = Pair::new();
    let (left, _) = pair.send(1, b"one");
    let sent = batch(&left);
    let b = pair.b.identity.clone();
    let ring = pair.owner.member();
    for upto in [2, 1 << 61] {
        let never = receipt(&pair, &b, ring, &sent, upto);
        give(&mut pair, Frame::Receipt(never));
        assert_eq!(pair.a.standings(), [Standing::Pending]);
    }
    for _ in 0..3 {
        let again = pair.later();
        pair.settle(again);
    }
    assert_eq!(pair.a.standings(), [Standing::Signed]);
    assert_eq!(pair.b.bodies(false), [b"one"]);
}

/// What a sender repeats, after a restart of the receiver too, is there once.
#[test]
fn replayed_batches_are_there_once() {
    let mut pair = Pair::new();
    let (left, _) = pair.send(1, b"one");
    for _ in 0..3 {
        let again = frames(&pair.a.certificate, left.clone());
        pair.b.round(pair.now, &pair.kin, again);
        pair.b.restart();
    }
    assert_eq!(pair.b.bodies(false), [b"one"]);
    // The same message under another epoch is the same message.
    let mut other = batch(&left);
    other.epoch = [9; 16].into();
    other.base_chain = chain::begin(&[9; 16], 0).into();
    other.chain = other.base_chain;
    let again = vec![Frame::Batch(other).encode()];
    pair.b
        .round(pair.now, &pair.kin, frames(&pair.a.certificate, again));
    assert_eq!(pair.b.bodies(false), [b"one"]);
}

/// Gaps, huge numbers, endless epochs and rests, and noise cost a peer no more than its share.
#[test]
fn floods_of_a_sender_are_bounded() {
    let mut pair = Pair::new();
    let item = |n: u64| Item {
        id: blake3::hash(&n.to_be_bytes()).as_bytes()[..16]
            .try_into()
            .map(|id: [u8; 16]| id.into())
            .unwrap(),
        created: u64::MAX >> 1,
        length: 4,
        body: vec![0; 4].into(),
        attached: Vec::new(),
    };
    for n in 0..300u64 {
        let mut epoch = [0; 16];
        epoch[..8].copy_from_slice(&n.to_be_bytes());
        let flood = [
            Frame::Batch(Batch {
                epoch: epoch.into(),
                base: 0,
                base_chain: [1; 32].into(),
                first: 2 + (n << 40),
                chain: [2; 32].into(),
                items: vec![item(n)],
            })
            .encode(),
            Frame::Rest(Rest {
                epoch: epoch.into(),
                number: n,
                bytes: vec![0; 16_000].into(),
            })
            .encode(),
            vec![0xff; 300],
            Vec::new(),
        ];
        let flood = frames(&pair.a.certificate, flood.to_vec());
        let said = pair.b.round(pair.now, &pair.kin, flood);
        assert!(said.len() <= 1, "one receipt a round");
    }
    assert!(pair.b.list(false).is_empty(), "behind gaps is nothing");
    let left = pair.b.engine().store().left().unwrap();
    assert!(left[0].reached.len() <= MESSAGE_EPOCHS);
    // Who is honest is served all the same.
    let mut other = Side::new(&pair.owner, "c", 7);
    let (input, _) = send(&pair.b.certificate, 1, b"fine");
    let fine = other.round(pair.now, &pair.kin, vec![input]);
    pair.b
        .round(pair.now, &pair.kin, frames(&other.certificate, fine));
    assert_eq!(pair.b.bodies(false), [b"fine"]);
}

/// A peer that jumps to a huge base loses its own numbers, and no more.
#[test]
fn huge_base_ends_no_receiver() {
    let mut pair = Pair::new();
    let mut jump = batch(&pair.send(1, b"one").0);
    jump.base = (1 << 62) - 1;
    jump.first = 1 << 62;
    jump.chain = jump.base_chain;
    for _ in 0..2 {
        let frame = vec![Frame::Batch(jump.clone()).encode()];
        pair.b
            .round(pair.now, &pair.kin, frames(&pair.a.certificate, frame));
    }
    assert_eq!(pair.b.bodies(false), [b"one"]);
    pair.b.restart();
    assert_eq!(pair.b.list(true)[0].number, 1 << 62);
}

/// Frames of members that have said nothing make no conversation, and conversations are bounded.
#[test]
fn receipts_of_strangers_make_no_conversation() {
    let mut pair = Pair::new();
    let sent = batch(&pair.send(1, b"one").0);
    let stranger = Side::new(&pair.owner, "c", 7);
    let forged = receipt(&pair, &stranger.identity, pair.owner.member(), &sent, 1);
    let forged = vec![Frame::Receipt(forged).encode()];
    pair.a
        .round(pair.now, &pair.kin, frames(&stranger.certificate, forged));
    assert_eq!(pair.a.standings(), [Standing::Pending]);
    assert_eq!(pair.a.engine().store().peer("c").unwrap(), None);
}
