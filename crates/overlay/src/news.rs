//! What the ring's owner says to all: whoever hears it first tells its group and a member of each
//! finger, and so does everybody who hears it for the first time. This crate does not read it:
//! [`Credentials::take_statement`](crate::Credentials::take_statement) says whether it is genuine
//! and new.

use std::time::Instant;

use crate::chord::Chord;
use crate::event::Event;
use crate::key::RingKey;
use crate::limits::MAX_STATEMENT;
use crate::message::Message;

impl Chord {
    /// Tells everybody a statement of the ring's owner that this member has learned elsewhere.
    /// False if it is too long to be told so.
    pub fn spread(&mut self, statement: &[u8]) -> bool {
        if statement.len() > MAX_STATEMENT {
            return false;
        }
        if self.is_member() {
            self.tell_all(statement, None);
        }
        true
    }

    /// Takes in what `from` says that the ring's owner states.
    pub(crate) fn handle_statement(&mut self, _now: Instant, from: RingKey, statement: Vec<u8>) {
        let Some(credentials) = &mut self.credentials else {
            return;
        };
        if credentials.take_statement(&statement) {
            self.tell_all(&statement, Some(from));
            self.emit(Event::Statement(statement));
        }
    }

    /// Those nearby, and one of each finger: with the fingers in base 16, everybody is a few steps
    /// from whoever knows it, and each hears it from dozens, so that neither traitors nor lost
    /// messages keep it from anybody.
    pub(crate) fn told_of_news(&mut self) -> Vec<RingKey> {
        let group = self.own_group().to_vec();
        let fingers = self.fingers.one_of_each(&mut self.rng);
        let mut told: Vec<RingKey> = group.into_iter().chain(fingers).collect();
        told.extend(self.ring.successors.iter().chain(&self.ring.predecessor));
        told.sort_unstable();
        told.dedup();
        told.retain(|key| *key != self.me);
        told
    }

    fn tell_all(&mut self, statement: &[u8], from: Option<RingKey>) {
        for key in self.told_of_news() {
            if Some(key) != from {
                let statement = statement.to_vec();
                self.send(key, Message::Statement { statement });
            }
        }
    }
}
