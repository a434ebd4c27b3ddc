//! All peers, and when each wants to be looked at: whoever has been changed is asked anew, and nobody else, because a router has hundreds of
//! links and something to do on few of them at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ringway_transport::MemberId;

use super::peer::Peer;

#[derive(Debug, Default)]
pub(super) struct Peers {
    known: BTreeMap<MemberId, Peer>,
    /// Those whose time may have changed; some of them several times.
    changed: Vec<MemberId>,
    due: BTreeSet<(Instant, MemberId)>,
    times: BTreeMap<MemberId, Instant>,
    /// Those that send messages which want to be reported.
    talking: BTreeSet<MemberId>,
}

impl Peers {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn contains_key(&self, member: &MemberId) -> bool {
        self.known.contains_key(member)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &MemberId> {
        self.known.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Peer> {
        self.known.values()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&MemberId, &Peer)> {
        self.known.iter()
    }

    pub(super) fn get(&self, member: &MemberId) -> Option<&Peer> {
        self.known.get(member)
    }

    pub(super) fn get_mut(&mut self, member: &MemberId) -> Option<&mut Peer> {
        let peer = self.known.get_mut(member)?;
        note(&mut self.changed, *member);
        Some(peer)
    }

    pub(super) fn get_or_insert_with(
        &mut self,
        member: MemberId,
        new: impl FnOnce() -> Peer,
    ) -> &mut Peer {
        note(&mut self.changed, member);
        self.known.entry(member).or_insert_with(new)
    }

    pub(super) fn remove(&mut self, member: &MemberId) -> Option<Peer> {
        let peer = self.known.remove(member)?;
        note(&mut self.changed, *member);
        Some(peer)
    }

    /// How many send messages that want to be reported.
    pub(super) fn talking(&mut self) -> usize {
        self.refresh();
        self.talking.len()
    }

    /// When the first of them wants to be looked at.
    pub(super) fn next_due(&mut self) -> Option<Instant> {
        self.refresh();
        self.due.first().map(|(time, _)| *time)
    }

    /// Those who want to be looked at by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Vec<MemberId> {
        self.refresh();
        let due = self.due.iter().take_while(|(time, _)| *time <= now);
        due.map(|(_, member)| *member).collect()
    }

    fn refresh(&mut self) {
        for member in self.changed.drain(..) {
            let peer = self.known.get(&member);
            if peer.is_some_and(Peer::is_talking) {
                self.talking.insert(member);
            } else {
                self.talking.remove(&member);
            }
            let time = peer.map(Peer::next_timeout);
            let before = match time {
                Some(time) => self.times.insert(member, time),
                None => self.times.remove(&member),
            };
            if before == time {
                continue;
            }
            if let Some(before) = before {
                self.due.remove(&(before, member));
            }
            self.due.extend(time.map(|time| (time, member)));
        }
    }
}

/// Most often it is the same one several times.
fn note(changed: &mut Vec<MemberId>, member: MemberId) {
    if changed.last() != Some(&member) {
        changed.push(member);
    }
}
