//! All peers, when each wants to be looked at, and who has something to send: a peer that has been
//! changed is asked again, and no other, because a router has hundreds of links and something to
//! do on few of them at a time.
//!
//! Each packet asks for its peer several times. So a peer is found by a hash of its id, and
//! everything else about it by its index.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use ringway_transport::MemberId;

use super::peer::Peer;
use crate::limits::REASSEMBLY_BYTES_IN_ALL;

/// Where a peer stands, until it is removed; then it may be another's.
type Index = usize;

#[derive(Debug)]
struct Slot {
    member: MemberId,
    peer: Peer,
    /// When it wants to be looked at.
    due: Option<Instant>,
    /// What it was changed for has not been looked at yet.
    changed: bool,
    /// Waits for its turn to send.
    ready: bool,
    /// Sends messages which want to be reported.
    talking: bool,
}

#[derive(Debug, Default)]
pub(super) struct Peers {
    indices: HashMap<MemberId, Index>,
    slots: Vec<Option<Slot>>,
    free: Vec<Index>,
    /// Those whose time may have changed.
    changed: Vec<Index>,
    due: BTreeSet<(Instant, Index)>,
    /// Those for whom packets may be made, in the order of their turns.
    ready: VecDeque<Index>,
    talking: usize,
    /// Bytes of messages of which pieces are missing, of all.
    pub(super) reassembly_bytes: usize,
}

impl Peers {
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    pub(super) fn contains_key(&self, member: &MemberId) -> bool {
        self.indices.contains_key(member)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &MemberId> {
        self.iter().map(|(member, _)| member)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Peer> {
        self.iter().map(|(_, peer)| peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&MemberId, &Peer)> {
        let slots = self.slots.iter().flatten();
        slots.map(|slot| (&slot.member, &slot.peer))
    }

    pub(super) fn get(&self, member: &MemberId) -> Option<&Peer> {
        let index = self.indices.get(member)?;
        Some(&self.slots.get(*index)?.as_ref()?.peer)
    }

    pub(super) fn get_mut(&mut self, member: &MemberId) -> Option<&mut Peer> {
        let index = *self.indices.get(member)?;
        let slot = self.slots.get_mut(index)?.as_mut()?;
        note(&mut self.changed, index, slot);
        Some(&mut slot.peer)
    }

    /// The epoch of the newest session with this member; 0 if there is none.
    pub(super) fn newest_epoch(&self, member: &MemberId) -> u32 {
        self.get(member).map_or(0, Peer::newest_epoch)
    }

    /// The peer, which is made if there is none.
    pub(super) fn get_or_insert_with(
        &mut self,
        member: MemberId,
        new: impl FnOnce() -> Peer,
    ) -> &mut Peer {
        let index = match self.indices.get(&member) {
            Some(index) => *index,
            None => self.free.pop().unwrap_or(self.slots.len()),
        };
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.indices.insert(member, index);
        #[allow(clippy::indexing_slicing, reason = "there are as many slots")]
        let slot = self.slots[index].get_or_insert_with(|| Slot {
            member,
            peer: new(),
            due: None,
            changed: false,
            ready: false,
            talking: false,
        });
        note(&mut self.changed, index, slot);
        &mut slot.peer
    }

    pub(super) fn remove(&mut self, member: &MemberId) -> Option<Peer> {
        let index = self.indices.remove(member)?;
        let slot = self.slots.get_mut(index)?.take()?;
        if let Some(due) = slot.due {
            self.due.remove(&(due, index));
        }
        // The peer that gets this slot next must not be taken for this one.
        if slot.changed {
            self.changed.retain(|other| *other != index);
        }
        if slot.ready {
            self.ready.retain(|other| *other != index);
        }
        self.talking -= usize::from(slot.talking);
        let held = slot.peer.reassembly_bytes();
        self.reassembly_bytes = self.reassembly_bytes.saturating_sub(held);
        self.free.push(index);
        Some(slot.peer)
    }

    /// Takes a piece, of the message `id`, with its index and their count; gives the message if
    /// that was the last one. Where all peers together hold too much, the one that holds the most
    /// loses it.
    pub(super) fn reassemble(
        &mut self,
        member: &MemberId,
        id: u32,
        part: (u8, u8),
        bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let peer = self.get_mut(member)?;
        let before = peer.reassembly_bytes();
        let whole = peer.reassemble(id, part, bytes);
        let after = peer.reassembly_bytes();
        self.reassembly_bytes = self.reassembly_bytes.saturating_sub(before) + after;
        while self.reassembly_bytes > REASSEMBLY_BYTES_IN_ALL {
            let held = |(member, peer): (&MemberId, &Peer)| (peer.reassembly_bytes(), *member);
            match self.iter().map(held).max() {
                Some((1.., most)) => self.drop_reassembly(&most),
                // No peer holds any: the sum was wrong.
                _ => self.reassembly_bytes = 0,
            }
        }
        whole
    }

    fn drop_reassembly(&mut self, member: &MemberId) {
        if let Some(peer) = self.get_mut(member) {
            let held = peer.reassembly_bytes();
            peer.drop_reassembly();
            self.reassembly_bytes = self.reassembly_bytes.saturating_sub(held);
        }
    }

    /// Packets may be made for it.
    pub(super) fn set_ready(&mut self, member: &MemberId) {
        let Some(index) = self.indices.get(member).copied() else {
            return;
        };
        let slot = self.slots.get_mut(index).and_then(Option::as_mut);
        if let Some(slot) = slot.filter(|slot| !slot.ready) {
            slot.ready = true;
            self.ready.push_back(index);
        }
    }

    /// The first packet that `make` gives of those who are ready; the one that gives it stays
    /// first.
    pub(super) fn first_ready<T>(
        &mut self,
        mut make: impl FnMut(&mut Peer) -> Option<T>,
    ) -> Option<T> {
        while let Some(index) = self.ready.front().copied() {
            let slot = self.slots.get_mut(index).and_then(Option::as_mut);
            if let Some(slot) = slot {
                note(&mut self.changed, index, slot);
                if let Some(made) = make(&mut slot.peer) {
                    return Some(made);
                }
                slot.ready = false;
            }
            self.ready.pop_front();
        }
        None
    }

    /// Whether anybody waits for its turn.
    pub(super) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many send messages that want to be reported.
    pub(super) fn talking(&mut self) -> usize {
        self.refresh();
        self.talking
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
        let slots = due.filter_map(|(_, index)| self.slots.get(*index)?.as_ref());
        slots.map(|slot| slot.member).collect()
    }

    fn refresh(&mut self) {
        for index in self.changed.drain(..) {
            let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) else {
                continue;
            };
            slot.changed = false;
            let talking = slot.peer.is_talking();
            if talking != slot.talking {
                slot.talking = talking;
                if talking {
                    self.talking += 1
                } else {
                    self.talking -= 1
                }
            }
            let time = Some(slot.peer.next_timeout());
            if slot.due == time {
                continue;
            }
            if let Some(before) = slot.due {
                self.due.remove(&(before, index));
            }
            slot.due = time;
            self.due.extend(time.map(|time| (time, index)));
        }
    }
}

/// Most often it is the same one several times.
fn note(changed: &mut Vec<Index>, index: Index, slot: &mut Slot) {
    if !slot.changed {
        slot.changed = true;
        changed.push(index);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringway_transport::{PathRules, Paths};

    use super::*;

    fn member(n: u8) -> MemberId {
        MemberId::new([n; 32])
    }

    fn peer(now: Instant) -> Peer {
        Peer::new(now, Paths::new(PathRules::default(), [0; 32]))
    }

    fn ready(peers: &mut Peers) -> usize {
        let mut asked = 0;
        peers.first_ready(|_| {
            asked += 1;
            None::<()>
        });
        asked
    }

    #[test]
    fn a_reused_slot_inherits_nothing() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3_600);
        let mut peers = Peers::default();
        for n in [1, 2] {
            peers.get_or_insert_with(member(n), || peer(now));
            peers.set_ready(&member(n));
        }
        assert_eq!(peers.due(later), [member(1), member(2)]);
        // Changed, ready and due, and gone.
        assert!(peers.get_mut(&member(1)).is_some());
        assert!(peers.remove(&member(1)).is_some());
        assert!(peers.remove(&member(1)).is_none());
        assert!(peers.get(&member(1)).is_none());
        peers.get_or_insert_with(member(3), || peer(later));
        assert_eq!(peers.len(), 2);
        assert_eq!(peers.keys().count(), 2);
        assert_eq!(ready(&mut peers), 1, "only the second waits for its turn");
        assert_eq!(ready(&mut peers), 0, "and has had it");
        assert_eq!(peers.due(later), [member(2)], "the third begins later");
    }

    #[test]
    fn a_peer_with_packets_stays_first() {
        let now = Instant::now();
        let mut peers = Peers::default();
        for n in [1, 2] {
            peers.get_or_insert_with(member(n), || peer(now));
        }
        peers.set_ready(&member(2));
        peers.set_ready(&member(1));
        peers.set_ready(&member(2));
        let mut left = 2;
        let mut packets = Vec::new();
        while peers.any_ready() {
            let made = peers.first_ready(|_| {
                left -= 1;
                (left >= 0).then_some(left)
            });
            packets.extend(made);
        }
        assert_eq!(packets, [1, 0]);
        assert_eq!(left, -2, "each is asked once in vain");
    }
}
