//! Encrypted links between members, over whichever transport gets through. Sans-IO.
//!
//! A link is what two members have with each other; a session is one set of keys; a path is an address
//! that packets go to. A session does not belong to a path: data is known by the session's index, so a
//! link moves to another path without a new handshake.
//!
//! # Run loop
//! After any `handle_*` or command, drain [`Links::poll_transmit`] and [`Links::poll_event`]; call
//! [`Links::handle_timeout`] when [`Links::poll_timeout`] has come.
//!
//! # Which path is used
//! The path that the handshake came through has proven itself: both sides have answered over it. Further
//! addresses come from the peer's HELLO and are used only after a PONG (the caller's validator decides,
//! and passes them to [`Links::set_alternatives`]). A path that stays silent for three probes gives way
//! to the next alternative.

mod handshake;
mod peer;
mod replay;
mod session;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ringway_transport::{Address, MemberId};

pub(crate) use self::peer::Peer;
pub(crate) use self::wire::LinkMessage;

use self::handshake::Initiator;
use self::peer::{Dial, HalfOpen};
use self::session::Session;
use self::wire::Packet;
use crate::certificate::Certificate;
use crate::identity::Identity;
use crate::limits::{HALF_OPEN, LINK_OUTPUT, LINK_QUEUE, MAX_LINKS, SESSIONS_PER_LINK};

/// Decides from a shown certificate whether its holder may have a link.
pub(crate) type Gatekeeper = Arc<dyn Fn(&[u8]) -> Option<Certificate> + Send + Sync>;

/// What the links report.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A member can be talked to.
    Up(MemberId),
    /// It said something.
    Message(MemberId, LinkMessage),
    /// No path leads to it any more, or it said goodbye.
    Down(MemberId),
}

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkCounters {
    pub(crate) handshakes: u64,
    pub(crate) handshakes_refused: u64,
    pub(crate) packets_malformed: u64,
    pub(crate) packets_rejected: u64,
    pub(crate) packets_unknown_session: u64,
    pub(crate) messages_dropped: u64,
    pub(crate) path_changes: u64,
}

/// All links of a member.
pub(crate) struct Links {
    identity: Identity,
    certificate: Vec<u8>,
    gatekeeper: Gatekeeper,
    peers: BTreeMap<MemberId, Peer>,
    /// Our name for each session, and whose it is.
    indices: BTreeMap<u32, MemberId>,
    dials: BTreeMap<u32, MemberId>,
    half_open: VecDeque<HalfOpen>,
    rng: rand::rngs::StdRng,
    packets: VecDeque<(Address, Vec<u8>)>,
    events: VecDeque<Event>,
    counters: LinkCounters,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links")
            .field("peers", &self.peers.len())
            .finish_non_exhaustive()
    }
}

impl Links {
    /// No links yet. `seed` is random; session indices come from it.
    pub(crate) fn new(
        identity: Identity,
        certificate: &Certificate,
        gatekeeper: Gatekeeper,
        seed: [u8; 32],
    ) -> Links {
        Links {
            identity,
            certificate: certificate.as_bytes().to_vec(),
            gatekeeper,
            peers: BTreeMap::new(),
            indices: BTreeMap::new(),
            dials: BTreeMap::new(),
            half_open: VecDeque::new(),
            rng: rand::SeedableRng::from_seed(seed),
            packets: VecDeque::new(),
            events: VecDeque::new(),
            counters: LinkCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Members with a session.
    pub(crate) fn up(&self) -> impl Iterator<Item = (&MemberId, &Peer)> {
        self.peers.iter().filter(|(_, peer)| peer.is_up())
    }

    pub(crate) fn is_up(&self, member: &MemberId) -> bool {
        self.peers.get(member).is_some_and(Peer::is_up)
    }

    /// True if there is a link or one is being made.
    pub(crate) fn knows(&self, member: &MemberId) -> bool {
        self.peers.contains_key(member)
    }

    /// Begins a handshake with the holder of `certificate` at `addresses`, cheapest first. Does nothing if one is under way.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        addresses: Vec<Address>,
    ) {
        let member = certificate.member();
        if addresses.is_empty()
            || self
                .peers
                .get(&member)
                .is_some_and(|peer| peer.dial.is_some())
        {
            return;
        }
        if !self.peers.contains_key(&member) && self.peers.len() >= MAX_LINKS {
            self.counters.handshakes_refused += 1;
            return;
        }
        let Ok((initiator, noise)) = Initiator::begin(&self.identity, &member, &self.certificate)
        else {
            self.counters.handshakes_refused += 1;
            return;
        };
        let index = self.free_index();
        let packet = Packet::Initiation {
            sender: index,
            noise: &noise,
        }
        .encode();
        let dial = Dial::new(now, index, initiator, packet, addresses);
        self.dials.insert(index, member);
        let peer = self.peers.entry(member).or_insert_with(|| Peer::new(now));
        peer.dial = Some(dial);
        self.run_dial(now, member);
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

    /// Sends over the link's path, or keeps the message until the link is up. False if there is no link.
    pub(crate) fn send(&mut self, now: Instant, member: &MemberId, message: LinkMessage) -> bool {
        let Some(peer) = self.peers.get_mut(member) else {
            self.counters.messages_dropped += 1;
            return false;
        };
        if message.is_application() {
            peer.last_wanted = now;
        }
        match peer.seal(&message) {
            Some((path, packet)) => self.transmit(path, packet),
            None => {
                if peer.waiting.len() >= LINK_QUEUE {
                    peer.waiting.pop_front();
                    self.counters.messages_dropped += 1;
                }
                peer.waiting.push_back(message);
            }
        }
        true
    }

    /// Sends to one address only, for a PING. Dropped if there is no session.
    pub(crate) fn send_via(&mut self, member: &MemberId, address: Address, message: &LinkMessage) {
        let sealed = self
            .peers
            .get_mut(member)
            .and_then(|peer| peer.seal(message));
        match sealed {
            Some((_, packet)) => self.transmit(address, packet),
            None => self.counters.messages_dropped += 1,
        }
    }

    /// Addresses of `member` that a PONG has proven, cheapest first.
    pub(crate) fn set_alternatives(&mut self, member: &MemberId, addresses: Vec<Address>) {
        let Some(peer) = self.peers.get_mut(member) else {
            return;
        };
        if peer.set_alternatives(addresses) {
            self.counters.path_changes += 1;
        }
    }

    /// Keeps the link although nothing is sent over it.
    pub(crate) fn keep(&mut self, now: Instant, member: &MemberId) {
        if let Some(peer) = self.peers.get_mut(member) {
            peer.last_wanted = now;
        }
    }

    /// Ends the link and tells the peer.
    pub(crate) fn close(&mut self, member: &MemberId) {
        let goodbye = self
            .peers
            .get_mut(member)
            .and_then(|peer| peer.seal(&LinkMessage::Close));
        if let Some((path, packet)) = goodbye {
            self.transmit(path, packet);
        }
        self.forget(member);
    }

    fn forget(&mut self, member: &MemberId) {
        let Some(peer) = self.peers.remove(member) else {
            return;
        };
        for index in peer.indices() {
            self.indices.remove(&index);
        }
        if let Some(dial) = peer.dial {
            self.dials.remove(&dial.index);
        }
        self.half_open.retain(|half| half.member != *member);
        self.emit(Event::Down(*member));
    }

    /// A packet has come in from `path`.
    pub(crate) fn handle_packet(&mut self, now: Instant, path: Address, bytes: &[u8]) {
        match Packet::parse(bytes) {
            Some(Packet::Initiation { sender, noise }) => {
                self.handle_initiation(now, path, sender, noise)
            }
            Some(Packet::Response {
                sender,
                receiver,
                noise,
            }) => {
                self.handle_response(now, path, sender, receiver, noise);
            }
            Some(Packet::Data {
                receiver,
                counter,
                ciphertext,
            }) => {
                self.handle_data(now, path, receiver, counter, ciphertext);
            }
            Some(Packet::Unknown { receiver }) => self.handle_unknown(now, path, receiver),
            None => self.counters.packets_malformed += 1,
        }
    }

    fn handle_initiation(&mut self, now: Instant, path: Address, sender: u32, noise: &[u8]) {
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
        if self.half_open.len() >= HALF_OPEN {
            self.half_open.pop_front();
        }
        self.half_open.push_back(HalfOpen {
            member,
            index,
            initiation: (sender, blake3::hash(noise)),
            response: response.clone(),
            session: Session::new(keys, sender),
            since: now,
        });
        self.transmit(path, response);
    }

    fn handle_response(
        &mut self,
        now: Instant,
        path: Address,
        sender: u32,
        receiver: u32,
        noise: &[u8],
    ) {
        let Some(member) = self.dials.get(&receiver).copied() else {
            self.counters.packets_unknown_session += 1;
            return;
        };
        let Some(dial) = self
            .peers
            .get_mut(&member)
            .and_then(|peer| peer.dial.as_mut())
        else {
            return;
        };
        let Ok(shown) = dial.initiator.finish(noise) else {
            self.counters.packets_rejected += 1;
            return;
        };
        self.dials.remove(&receiver);
        let Some(dial) = self
            .peers
            .get_mut(&member)
            .and_then(|peer| peer.dial.take())
        else {
            return;
        };
        let admitted =
            (self.gatekeeper)(&shown).is_some_and(|certificate| certificate.member() == member);
        let Some(keys) = dial.initiator.into_keys().ok().filter(|_| admitted) else {
            self.counters.handshakes_refused += 1;
            return self.forget(&member);
        };
        self.establish(now, path, member, receiver, Session::new(keys, sender));
        // The responder takes the session into use with the first message that it can decrypt.
        if !self.peers.get(&member).is_some_and(|peer| peer.has_sent()) {
            self.send(now, &member, LinkMessage::Echo(0));
        }
    }

    fn establish(
        &mut self,
        now: Instant,
        path: Address,
        member: MemberId,
        index: u32,
        session: Session,
    ) {
        self.counters.handshakes += 1;
        let peer = self.peers.entry(member).or_insert_with(|| Peer::new(now));
        let was_up = peer.is_up();
        self.indices.insert(index, member);
        if let Some(old) = peer.add_session(now, path, index, session, SESSIONS_PER_LINK) {
            self.indices.remove(&old);
        }
        let waiting = std::mem::take(&mut peer.waiting);
        if !was_up {
            self.emit(Event::Up(member));
        }
        for message in waiting {
            self.send(now, &member, message);
        }
    }

    fn handle_data(
        &mut self,
        now: Instant,
        path: Address,
        receiver: u32,
        counter: u64,
        ciphertext: &[u8],
    ) {
        if let Some(position) = self
            .half_open
            .iter()
            .position(|half| half.index == receiver)
        {
            return self.handle_first_data(now, path, position, counter, ciphertext);
        }
        let Some(member) = self.indices.get(&receiver).copied() else {
            self.counters.packets_unknown_session += 1;
            let packet = Packet::Unknown { receiver }.encode();
            return self.transmit(path, packet);
        };
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        match peer.open(receiver, counter, ciphertext) {
            Some(plain) => self.handle_plain(now, path, member, &plain),
            None => self.counters.packets_rejected += 1,
        }
    }

    /// The first message over a session that we have answered: now the initiator has proven to be there.
    fn handle_first_data(
        &mut self,
        now: Instant,
        path: Address,
        position: usize,
        counter: u64,
        ciphertext: &[u8],
    ) {
        let opened = self
            .half_open
            .get_mut(position)
            .and_then(|half| half.session.open(counter, ciphertext));
        let (Some(plain), Some(half)) =
            (opened, self.half_open.get(position).map(|half| half.index))
        else {
            self.counters.packets_rejected += 1;
            return;
        };
        debug_assert_eq!(
            self.half_open.get(position).map(|half| half.index),
            Some(half)
        );
        if let Some(half) = self.half_open.remove(position) {
            let member = half.member;
            self.establish(now, path, member, half.index, half.session);
            self.handle_plain(now, path, member, &plain);
        }
    }

    fn handle_plain(&mut self, now: Instant, path: Address, member: MemberId, plain: &[u8]) {
        let Some(message) = LinkMessage::decode(plain) else {
            self.counters.packets_malformed += 1;
            return;
        };
        if let Some(peer) = self.peers.get_mut(&member)
            && peer.heard(now, path, &message)
        {
            self.counters.path_changes += 1;
        }
        match message {
            LinkMessage::Echo(number) => {
                self.send(now, &member, LinkMessage::EchoReply(number));
            }
            LinkMessage::EchoReply(number) => {
                if let Some(peer) = self.peers.get_mut(&member) {
                    peer.echoed(now, number);
                }
            }
            LinkMessage::Close => self.forget(&member),
            message => self.emit(Event::Message(member, message)),
        }
    }

    /// Somebody at `path` says that it does not know our session: the peer has restarted, or it is a lie.
    /// Either way a new handshake does no harm; the old session stays until that has succeeded.
    fn handle_unknown(&mut self, now: Instant, path: Address, receiver: u32) {
        let found = self
            .peers
            .iter()
            .find(|(_, peer)| peer.sends_to(receiver, path))
            .map(|(member, _)| *member);
        if let Some(member) = found {
            self.emit_renewal(now, member);
        }
    }

    fn emit_renewal(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get(&member) else {
            return;
        };
        if peer.dial.is_some() || !peer.may_renew(now) {
            return;
        }
        let addresses = peer.paths();
        let Ok((initiator, noise)) = Initiator::begin(&self.identity, &member, &self.certificate)
        else {
            return;
        };
        let index = self.free_index();
        let packet = Packet::Initiation {
            sender: index,
            noise: &noise,
        }
        .encode();
        self.dials.insert(index, member);
        if let Some(peer) = self.peers.get_mut(&member) {
            peer.renewing(now, Dial::new(now, index, initiator, packet, addresses));
        }
        self.run_dial(now, member);
    }

    /// When [`Links::handle_timeout`] wants to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let half_open = self.half_open.front().map(HalfOpen::expires);
        self.peers
            .values()
            .map(Peer::next_timeout)
            .chain(half_open)
            .min()
    }

    /// Repeats handshakes, probes silent links, drops dead and unwanted ones.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while self
            .half_open
            .front()
            .is_some_and(|half| half.expires() <= now)
        {
            self.half_open.pop_front();
        }
        let due: Vec<MemberId> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.next_timeout() <= now)
            .map(|(member, _)| *member)
            .collect();
        for member in due {
            self.run_dial(now, member);
            self.run_probe(now, member);
        }
    }

    /// Sends the next initiation, or gives up.
    fn run_dial(&mut self, now: Instant, member: MemberId) {
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
            Some((address, packet)) => self.transmit(address, packet),
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

    fn run_probe(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        match peer.probe(now) {
            peer::Probe::None => {}
            peer::Probe::Echo(number) => {
                self.send(now, &member, LinkMessage::Echo(number));
            }
            peer::Probe::PathChanged(number) => {
                self.counters.path_changes += 1;
                self.send(now, &member, LinkMessage::Echo(number));
            }
            peer::Probe::Unwanted => self.close(&member),
            peer::Probe::Dead => self.forget(&member),
        }
    }

    fn transmit(&mut self, path: Address, packet: Vec<u8>) {
        if self.packets.len() >= LINK_OUTPUT {
            self.counters.messages_dropped += 1;
            return;
        }
        self.packets.push_back((path, packet));
    }

    fn emit(&mut self, event: Event) {
        // An event that reports a state is never dropped; there are at most two of those for each link.
        let may_drop = matches!(event, Event::Message(..));
        if may_drop && self.events.len() >= LINK_OUTPUT {
            self.counters.messages_dropped += 1;
            return;
        }
        self.events.push_back(event);
    }

    /// The next packet to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<(Address, Vec<u8>)> {
        self.packets.pop_front()
    }

    /// The next thing to know.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests;
