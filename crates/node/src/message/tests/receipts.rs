//! What was read is said until the sender has noted it: whatever is lost on the way, whichever side
//! crashes.

use super::*;

impl Pair {
    /// `a` has sent a message, and `b` has signed for it. Gives the message's id.
    fn signed(&mut self) -> MessageId {
        let (left, _) = self.send(1, b"one");
        self.settle(left);
        assert_eq!(self.a.standings(), [Standing::Signed]);
        self.b.list(true)[0].message.id
    }

    fn give_a(&mut self, came: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let came = frames(&self.b.certificate, came);
        self.a.round(self.now, &self.kin, came)
    }

    fn give_b(&mut self, came: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let came = frames(&self.a.certificate, came);
        self.b.round(self.now, &self.kin, came)
    }

    /// What `b` has to say when it is due next.
    fn due(&mut self) -> Vec<Vec<u8>> {
        if let Some(due) = self.b.engine().next_deadline() {
            self.now = self.now.max(due);
        }
        self.give_b(Vec::new())
    }
}

#[test]
fn lost_read_receipt_is_sent_again() {
    let mut pair = Pair::new();
    let id = pair.signed();
    for _ in 0..3 {
        // Nothing of it arrives.
        assert_eq!(pair.mark_read(id).len().max(pair.due().len()), 1);
    }
    let again = pair.due();
    let noted = pair.give_a(again);
    assert_eq!(pair.a.standings(), [Standing::Read]);
    assert!(pair.give_b(noted).is_empty());
    // Now it is quiet.
    assert_eq!(pair.b.engine().next_deadline(), None);
    pair.b.restart();
    assert!(pair.due().is_empty());
}

/// A receiver that dies after it has stored what was read says it when it is back.
#[test]
fn read_receipt_outlives_a_crash() {
    let mut pair = Pair::new();
    let id = pair.signed();
    pair.mark_read(id);
    pair.b.restart();
    let said = pair.due();
    pair.give_a(said);
    assert_eq!(pair.a.standings(), [Standing::Read]);
    // The sender has died before it could say so.
    pair.a.restart();
    pair.b.restart();
    let said = pair.due();
    let noted = pair.give_a(said);
    assert_eq!(noted.len(), 1);
    pair.give_b(noted);
    pair.b.restart();
    assert!(pair.due().is_empty());
}

/// The pauses grow, and end when the sender is heard again.
#[test]
fn pauses_grow_until_the_sender_is_back() {
    let mut pair = Pair::new();
    let id = pair.signed();
    pair.mark_read(id);
    let mut pauses = Vec::new();
    for _ in 0..14 {
        let before = pair.now;
        assert_eq!(pair.due().len(), 1);
        pauses.push((pair.now - before).as_secs());
    }
    assert_eq!(pauses[..4], [1, 2, 4, 8]);
    assert_eq!(pauses[12..], [3_600; 2]);
    let back = Some(pair.a.identity.member());
    let (now, kin) = (pair.now, &pair.kin);
    let said = pair.b.round(now, kin, vec![Input::Wake(back)]);
    assert_eq!(said.len(), 1);
    pair.settle_back(said);
    assert_eq!(pair.a.standings(), [Standing::Read]);
    assert_eq!(pair.b.engine().next_deadline(), None);
}

/// A sender whose home is new, or an old copy, ends the repetition as well.
#[test]
fn sender_that_knows_nothing_ends_the_repetition() {
    let mut pair = Pair::new();
    let id = pair.signed();
    pair.mark_read(id);
    let kept = std::mem::replace(&mut pair.a.home, tempfile::tempdir().unwrap());
    pair.a.restart();
    let said = pair.due();
    assert_eq!(said.len(), 1);
    // It has no conversation: the receiver goes on with long pauses.
    pair.settle_back(said);
    pair.a.chance += 1_000;
    let (left, _) = pair.send(2, b"two");
    pair.settle(left);
    let said = pair.due();
    pair.settle_back(said);
    assert_eq!(pair.b.engine().next_deadline(), None);
    drop(kept);
}

/// Notes about no run, or too little, end nothing. One about too much hides nothing read later.
#[test]
fn false_notes_end_nothing() {
    let mut pair = Pair::new();
    let id = pair.signed();
    let (left, _) = pair.send(2, b"two");
    pair.settle(left);
    let epoch = pair.b.engine().store().left().unwrap()[0].reached[0].epoch;
    let note = |epoch: Epoch, read| {
        let epoch = epoch.into();
        vec![Frame::Noted(Noted { epoch, read }).encode()]
    };
    pair.mark_read(id);
    pair.give_b(note([7; 16], 1));
    pair.give_b(note(epoch, 0));
    let said = pair.due();
    pair.settle_back(said);
    assert_eq!(pair.a.standings(), [Standing::Read, Standing::Signed]);
    pair.give_b(note(epoch, 1 << 61));
    let last = pair.b.list(true)[0].message.id;
    assert_eq!(pair.mark_read(last).len(), 1);
    let said = pair.due();
    pair.settle_back(said);
    assert_eq!(pair.a.standings(), [Standing::Read; 2]);
}
