//! From what a decoder sees in a connection to the files and messages that the policy judges.

use super::half_stream::{HalfStream, Transfer};
use super::{ContentContext, Stop};
use crate::flow::{Both, Direction};
use crate::inspect::{FileForm, FileHead, Seen};
use crate::policy::{Action, Failure, Item, Ruling};
use crate::verdict::inspecting::blocking;

/// What a decoder emits, on its way into the connection's state.
pub(super) struct DecoderSink<'a, 'b> {
    pub(super) halves: &'a mut Both<HalfStream>,
    pub(super) direction: Direction,
    pub(super) window: usize,
    pub(super) context: &'a mut ContentContext<'b>,
    pub(super) stop: Option<Stop>,
}

impl DecoderSink<'_, '_> {
    pub(super) fn take(&mut self, seen: Seen<'_>) {
        if self.stop.is_some() {
            return;
        }
        match seen {
            Seen::Offer(head) => {
                let ruling = self.context.judge(&Item::File(head.facts()));
                if ruling.action == Action::Block {
                    self.context.refused(head, &ruling);
                    self.stop = Some(Stop::Blocked(ruling));
                }
            }
            Seen::Begin(head) => self.begin(head),
            Seen::Data(bytes) => self.data(bytes),
            Seen::End => self.finish(),
            Seen::Message(message) => {
                let ruling = self.context.judge(&Item::Message(&message.text));
                if ruling.action == Action::Block {
                    self.stop = Some(Stop::Blocked(ruling));
                }
                // A block is written down in any case: only its event explains it.
                if ruling.audit || ruling.action == Action::Block {
                    self.context.message(message, &ruling);
                }
            }
            Seen::Expect(expected) => self.context.expect(expected),
            Seen::Lost(reason) => self.stop = Some(Stop::Lost(reason)),
        }
    }

    fn begin(&mut self, head: FileHead) {
        let ruling = self.context.judge(&Item::File(head.facts()));
        if ruling.action == Action::Block {
            self.context.refused(head, &ruling);
            self.stop = Some(Stop::Blocked(ruling));
            return;
        }
        let ruling = match self.unreadable(&head, &ruling) {
            Some(reason) => {
                let failure = self.context.failure(&ruling);
                self.context
                    .unreadable(head.clone(), &ruling, failure, reason);
                if failure == Failure::Closed {
                    self.stop = Some(Stop::Blocked(blocking(ruling)));
                    return;
                }
                Ruling {
                    action: Action::Allow,
                    ..ruling
                }
            }
            None => ruling,
        };
        let direction = self.direction;
        let half = self.halves.of(direction);
        // One that has no end was cut off by this one; what came of it is looked at all the same.
        half.scan_rest(direction, true, self.context);
        if let Some(part) = half.transfer.as_mut().and_then(Transfer::cut_off) {
            self.context.part(part);
        }
        let number = if ruling.audit {
            self.context.number_file()
        } else {
            0
        };
        let hold_first = self.context.holds_first(&ruling);
        half.transfer = Some(Transfer::new(head, ruling, number, hold_first));
    }

    /// Why a scanner would not see the file itself.
    fn unreadable(&self, head: &FileHead, ruling: &Ruling) -> Option<&'static str> {
        match head.form {
            _ if ruling.action != Action::Scan => None,
            FileForm::Whole => None,
            FileForm::Part if self.context.scans_parts(ruling) => None,
            FileForm::Part => Some("a part of a file comes by itself"),
            FileForm::Encoded => Some("the file comes in a coding"),
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        let (direction, window) = (self.direction, self.window);
        self.halves
            .of(direction)
            .take_in(direction, bytes, window, self.context);
    }

    fn finish(&mut self) {
        let direction = self.direction;
        let half = self.halves.of(direction);
        half.scan_rest(direction, true, self.context);
        let Some(mut file) = half.transfer.take() else {
            return;
        };
        if !file.ruling.audit {
            return;
        }
        let rest = file.part(None);
        // Not all protocols say who sends; on this connection it is this side.
        let head = FileHead {
            sender: Some(direction),
            ..file.head
        };
        let whole = (self.context).whole(head, &file.ruling, file.bytes, rest);
        match file.ruling.action {
            // It counts once its last window is clean.
            Action::Scan if half.issued > 0 => {
                half.whole.extend(whole.map(|part| (half.issued, part)));
            }
            _ => self.context.effects.parts.extend(whole),
        }
    }
}
