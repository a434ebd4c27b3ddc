//! How links come to be: handshakes begun, answered, repeated, renewed and given up.

use std::time::Instant;

use ringway_transport::{Address, MemberId, Paths};

use super::dial::{Dial, HalfOpen};
use super::handshake::{self, Initiator};
use super::peer::Peer;
use super::session::Session;
use super::wire::{LinkMessage, Packet};
use super::{Event, Links};
use crate::certificate::Certificate;
use crate::limits::{HALF_OPEN, HALF_OPEN_PER_MEMBER, MAX_LINKS, SESSIONS_PER_LINK};

impl Links {
    /// Begins a handshake with the holder of `certificate` at `addresses`, cheapest first. One that is under way tries the addresses
    /// that are new to it as well.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        addresses: Vec<Address>,
    ) {
        let member = certificate.member();
        if let Some(dial) = self.peers.get_mut(&member).and_then(|p| p.dial.as_mut()) {
            return dial.also_at(now, addresses);
        }
        if addresses.is_empty() {
            return;
        }
        if !self.peers.contains_key(&member) && self.peers.len() >= MAX_LINKS {
            self.counters.handshakes_refused += 1;
            return;
        }
        self.dial(now, member, addresses);
    }

    /// As [`Links::connect`], where others only say that the peer is at `vouched`: these may be a stranger's, and get one packet each.
    pub(crate) fn connect_vouched(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        addresses: Vec<Address>,
        vouched: Vec<Address>,
    ) {
        let member = certificate.member();
        let dialling = |links: &Links| links.peers.get(&member).is_some_and(Peer::is_dialling);
        let known = dialling(self);
        self.connect(now, certificate, addresses);
        if known || vouched.is_empty() {
            return;
        }
        if !dialling(self) && !self.is_up(&member) {
            self.begin_dial(now, member, Vec::new());
        }
        let peer = self.peers.get_mut(&member);
        if let Some(dial) = peer.and_then(|peer| peer.dial.as_mut()) {
            dial.once_at(now, vouched);
        }
        self.run_dial(now, member);
    }

    fn dial(&mut self, now: Instant, member: MemberId, addresses: Vec<Address>) {
        self.begin_dial(now, member, addresses);
        self.run_dial(now, member);
    }

    fn begin_dial(&mut self, now: Instant, member: MemberId, addresses: Vec<Address>) {
        let begun = Initiator::begin(&self.identity, &member, &self.certificate);
        let Ok((initiator, noise)) = begun else {
            self.counters.handshakes_refused += 1;
            return;
        };
        let index = self.free_index();
        let packet = Packet::Initiation {
            sender: index,
            noise: &noise,
        };
        let dial = Dial::new(now, index, initiator, packet.encode(), addresses);
        self.dials.insert(index, member);
        let peer = self.peer(now, member);
        peer.dial = Some(dial);
    }

    fn peer(&mut self, now: Instant, member: MemberId) -> &mut Peer {
        use rand::Rng as _;
        let (rules, quotas, rng) = (&self.rules, &self.quotas, &mut self.rng);
        self.peers.entry(member).or_insert_with(|| {
            let mut seed = [0; 32];
            rng.fill_bytes(&mut seed);
            let paths = Paths::new(rules.clone(), seed);
            Peer::new(now, paths.with_quotas(member, quotas.clone()))
        })
    }

    fn free_index(&mut self) -> u32 {
        use rand::Rng as _;
        loop {
            let index: u32 = self.rng.next_u32();
            let half_open = self.half_open.iter().any(|half| half.index == index);
            if !self.indices.contains_key(&index) && !self.dials.contains_key(&index) && !half_open
            {
                return index;
            }
        }
    }

    pub(super) fn handle_initiation(
        &mut self,
        now: Instant,
        path: Address,
        sender: u32,
        noise: &[u8],
    ) {
        // A repeated initiation gets the same answer; nothing is computed twice for it.
        if let Some(half) = self
            .half_open
            .iter()
            .find(|half| half.answers(sender, noise))
        {
            let packet = half.response.clone();
            self.transmit(path, packet);
            return;
        }
        let Ok((responder, shown)) = handshake::respond(&self.identity, noise) else {
            self.counters.packets_rejected += 1;
            return;
        };
        let admitted = (self.gatekeeper)(&shown).map(|certificate| certificate.member());
        let Some(member) = admitted.filter(|member| responder.is(member)) else {
            self.counters.handshakes_refused += 1;
            return;
        };
        if !self.peers.contains_key(&member) && self.peers.len() >= MAX_LINKS {
            self.counters.handshakes_refused += 1;
            return;
        }
        let Ok((answer, keys)) = responder.finish(&self.certificate) else {
            self.counters.packets_rejected += 1;
            return;
        };
        let index = self.free_index();
        let response = Packet::Response {
            sender: index,
            receiver: sender,
            noise: &answer,
        }
        .encode();
        self.make_room_for(&member);
        self.half_open.push_back(HalfOpen {
            member,
            index,
            initiation: (sender, blake3::hash(noise)),
            response: response.clone(),
            session: Session::new(keys, sender),
            since: now,
            path: path.clone(),
            shown,
        });
        self.transmit(path, response);
    }

    /// One member's handshakes push out its own first, so that it cannot push out others'.
    fn make_room_for(&mut self, member: &MemberId) {
        let own = |half: &HalfOpen| half.member == *member;
        if self.half_open.iter().filter(|half| own(half)).count() >= HALF_OPEN_PER_MEMBER {
            if let Some(oldest) = self.half_open.iter().position(own) {
                self.half_open.remove(oldest);
            }
        } else if self.half_open.len() >= HALF_OPEN {
            self.half_open.pop_front();
        }
    }

    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        path: Address,
        indices: (u32, u32),
        noise: &[u8],
    ) -> bool {
        let (sender, receiver) = indices;
        let Some(member) = self.dials.get(&receiver).copied() else {
            self.counters.packets_unknown_session += 1;
            return false;
        };
        let Some(dial) = self
            .peers
            .get_mut(&member)
            .and_then(|peer| peer.dial.as_mut())
        else {
            return false;
        };
        let Ok(shown) = dial.initiator.finish(noise) else {
            self.counters.packets_rejected += 1;
            return false;
        };
        self.dials.remove(&receiver);
        let Some(dial) = self
            .peers
            .get_mut(&member)
            .and_then(|peer| peer.dial.take())
        else {
            return false;
        };
        let admitted =
            (self.gatekeeper)(&shown).is_some_and(|certificate| certificate.member() == member);
        let Some(keys) = dial.initiator.into_keys().ok().filter(|_| admitted) else {
            self.counters.handshakes_refused += 1;
            self.forget(&member);
            return false;
        };
        self.establish(now, path, member, receiver, Session::new(keys, sender));
        // The responder takes the session into use with the first message that it can decrypt.
        if !self.peers.get(&member).is_some_and(Peer::has_sent) {
            self.send(now, &member, LinkMessage::Echo(0));
        }
        true
    }

    pub(super) fn establish(
        &mut self,
        now: Instant,
        path: Address,
        member: MemberId,
        index: u32,
        session: Session,
    ) {
        self.counters.handshakes += 1;
        self.indices.insert(index, member);
        self.peer(now, member);
        let replaced = self.with_paths(&member, |peer| {
            peer.add_session(now, path, index, session, SESSIONS_PER_LINK)
        });
        if let Some(old) = replaced.flatten() {
            self.indices.remove(&old);
        }
        let peer = self.peer(now, member);
        let waiting = std::mem::take(&mut peer.waiting);
        self.emit(Event::Up(member));
        for message in waiting {
            self.send(now, &member, message);
        }
    }

    /// Somebody at `path` says that it does not know our session: the peer has restarted, or it is a lie.
    /// Either way a new handshake does no harm; the old session stays until that has succeeded.
    pub(super) fn handle_unknown(&mut self, now: Instant, path: &Address, receiver: u32) {
        let found = self
            .peers
            .iter()
            .find(|(_, peer)| peer.sends_to(receiver, path))
            .map(|(member, _)| *member);
        if let Some(member) = found {
            self.renew(now, member);
        }
    }

    fn renew(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        if peer.is_dialling() || !peer.may_renew(now) {
            return;
        }
        let addresses = peer.renewing(now);
        self.dial(now, member, addresses);
    }

    /// Sends the next initiation, or gives up.
    pub(super) fn run_dial(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        let Some(dial) = peer.dial.as_mut() else {
            return;
        };
        if dial.due > now {
            return;
        }
        match dial.next_attempt(now) {
            Some((address, packet)) => {
                if self.quotas.take(now, &member, &address, 1) {
                    self.transmit(address, packet);
                }
            }
            None => {
                let index = dial.index;
                peer.dial = None;
                self.dials.remove(&index);
                if !self.is_up(&member) {
                    self.forget(&member);
                }
            }
        }
    }
}
