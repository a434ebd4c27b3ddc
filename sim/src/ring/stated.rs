//! [`Stated`]: what honest members state of their groups goes on where it was.

use std::collections::BTreeMap;

use ringway_overlay::{Message, RingKey, SignedHeader};

/// The latest view that each honest member has stated, and what was wrong with one.
#[derive(Debug, Default)]
pub(super) struct Stated {
    latest: BTreeMap<RingKey, SignedHeader>,
    wrong: Option<String>,
}

impl Stated {
    /// Takes in what `author` says, if it is its own view: numbers never fall, and consecutive ones
    /// are links of one chain.
    pub(super) fn take_in(&mut self, author: RingKey, message: &Message) {
        let (Message::Announce { view } | Message::ViewIs { view, .. }) = message else {
            return;
        };
        if view.author() != author {
            return;
        }
        let Some(before) = self.latest.insert(author, view.signed) else {
            return;
        };
        let (old, new) = (before.header.number, view.number());
        if new < old {
            self.wrong = Some(format!("{author:?} states view {new} after {old}"));
        } else if view.signed.contradicts(&before) {
            self.wrong = Some(format!("{author:?}: its view {new} contradicts {old}"));
        }
    }

    /// What was wrong with a view, if one was.
    pub(super) fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }
}
