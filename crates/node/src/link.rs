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
//! and passes them to [`Links::offer_paths`]). Which of them is used decides [`ringway_transport::Paths`]; its probes
//! are echoes. The way back is the peer's choice.

mod establish;
mod fragment;
mod handshake;
mod peer;
mod replay;
mod session;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ringway_transport::{Address, MemberId, PathRules, Proved, Quotas};

pub(crate) use self::peer::Peer;
pub(crate) use self::wire::LinkMessage;

use self::peer::HalfOpen;
use self::wire::Packet;
use crate::certificate::Certificate;
use crate::identity::Identity;
use crate::limits::{LINK_OUTPUT, LINK_QUEUE};

/// Decides from a shown certificate whether its holder may have a link.
pub(crate) type Gatekeeper = Arc<dyn Fn(&[u8]) -> Option<Certificate> + Send + Sync>;

/// What the links report.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A handshake has succeeded: the member can be talked to. It may have restarted and forgotten everything.
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
    /// What the user says of paths.
    rules: PathRules,
    /// What members accept a day, and what of that is used up.
    quotas: Quotas,
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
        rules: PathRules,
        seed: [u8; 32],
    ) -> Links {
        Links {
            identity,
            certificate: certificate.as_bytes().to_vec(),
            gatekeeper,
            rules,
            quotas: Quotas::default(),
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

    /// Counts what leaves; whoever reads HELLOs sets the quotas.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
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

    /// Every address that a link uses or may use next.
    pub(crate) fn addresses(&self) -> BTreeSet<Address> {
        self.peers.values().flat_map(Peer::addresses).collect()
    }

    /// Members with a link, or on the way to one, in whatever state.
    pub(crate) fn members(&self) -> Vec<MemberId> {
        let half_open = self.half_open.iter().map(|half| half.member);
        self.peers.keys().copied().chain(half_open).collect()
    }

    /// True if there is a link or one is being made.
    pub(crate) fn knows(&self, member: &MemberId) -> bool {
        self.peers.contains_key(member)
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
        match peer.seal_for_path(now, &message) {
            Some((path, packets)) => {
                if packets.is_empty() {
                    self.counters.messages_dropped += 1;
                }
                for packet in packets {
                    self.transmit(path.clone(), packet);
                }
            }
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

    /// Sends to one address only, for a PING, whatever its quota. Dropped if there is no session.
    pub(crate) fn send_via(&mut self, member: &MemberId, address: Address, message: &LinkMessage) {
        let sealed = self
            .peers
            .get_mut(member)
            .and_then(|peer| peer.seal(message));
        match sealed {
            Some(packet) => self.transmit(address, packet),
            None => self.counters.messages_dropped += 1,
        }
    }

    /// Addresses of `member` that PONGs have proven. They replace those of an earlier call.
    pub(crate) fn offer_paths(&mut self, now: Instant, member: &MemberId, proved: &[Proved]) {
        self.with_paths(member, |peer| peer.offer(now, proved));
    }

    /// A transport has found that nothing more can go to `address` as things are.
    pub(crate) fn abandon_path(&mut self, now: Instant, address: &Address) {
        let users = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.path() == Some(address));
        let users: Vec<MemberId> = users.map(|(member, _)| *member).collect();
        for member in users {
            self.with_paths(&member, |peer| peer.abandon(now, address));
        }
    }

    /// Does something that may change the link's path, and counts it if it does.
    fn with_paths<T>(&mut self, member: &MemberId, act: impl FnOnce(&mut Peer) -> T) -> Option<T> {
        let peer = self.peers.get_mut(member)?;
        let before = peer.path_changes();
        let result = act(peer);
        self.counters.path_changes += peer.path_changes().saturating_sub(before);
        Some(result)
    }

    /// Keeps the link although nothing is sent over it.
    pub(crate) fn keep(&mut self, now: Instant, member: &MemberId) {
        if let Some(peer) = self.peers.get_mut(member) {
            peer.last_wanted = now;
        }
    }

    /// Ends the link and tells the peer.
    pub(crate) fn close(&mut self, member: &MemberId) {
        let peer = self.peers.get_mut(member);
        let goodbye = peer.and_then(|peer| {
            let path = peer.path()?.clone();
            Some((path, peer.seal(&LinkMessage::Close)?))
        });
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

    /// A packet has come in from `path`. True if a member with a link has sent it: others' words are cheap.
    pub(crate) fn handle_packet(&mut self, now: Instant, path: Address, bytes: &[u8]) -> bool {
        match Packet::parse(bytes) {
            Some(Packet::Initiation { sender, noise }) => {
                self.handle_initiation(now, path, sender, noise);
                false
            }
            Some(Packet::Response {
                sender,
                receiver,
                noise,
            }) => self.handle_response(now, path, (sender, receiver), noise),
            Some(Packet::Data {
                receiver,
                counter,
                ciphertext,
            }) => self.handle_data(now, path, receiver, (counter, ciphertext)),
            Some(Packet::Unknown { receiver }) => {
                self.handle_unknown(now, &path, receiver);
                false
            }
            None => {
                self.counters.packets_malformed += 1;
                false
            }
        }
    }

    fn handle_data(
        &mut self,
        now: Instant,
        path: Address,
        receiver: u32,
        sealed: (u64, &[u8]),
    ) -> bool {
        let (counter, ciphertext) = sealed;
        let half_open = self
            .half_open
            .iter()
            .position(|half| half.index == receiver);
        if let Some(position) = half_open {
            return self.handle_first_data(now, path, position, sealed);
        }
        let Some(member) = self.indices.get(&receiver).copied() else {
            self.counters.packets_unknown_session += 1;
            let packet = Packet::Unknown { receiver }.encode();
            self.transmit(path, packet);
            return false;
        };
        let peer = self.peers.get_mut(&member);
        let Some(plain) = peer.and_then(|peer| peer.open(receiver, counter, ciphertext)) else {
            self.counters.packets_rejected += 1;
            return false;
        };
        self.handle_plain(now, &path, member, &plain);
        true
    }

    /// The first message over a session that we have answered: now the initiator has proven to be there.
    fn handle_first_data(
        &mut self,
        now: Instant,
        path: Address,
        position: usize,
        sealed: (u64, &[u8]),
    ) -> bool {
        let waiting = self.half_open.get_mut(position);
        let Some(plain) = waiting.and_then(|half| half.session.open(sealed.0, sealed.1)) else {
            self.counters.packets_rejected += 1;
            return false;
        };
        let Some(half) = self.half_open.remove(position) else {
            return false;
        };
        // The certificate may have been revoked since.
        if (self.gatekeeper)(&half.shown).is_none() {
            self.counters.handshakes_refused += 1;
            return false;
        }
        // The answer went to `half.path` and has arrived; where this packet claims to come from proves nothing.
        self.establish(now, half.path, half.member, half.index, half.session);
        self.handle_plain(now, &path, half.member, &plain);
        true
    }

    fn handle_plain(&mut self, now: Instant, path: &Address, member: MemberId, plain: &[u8]) {
        let Some(message) = LinkMessage::decode(plain) else {
            self.counters.packets_malformed += 1;
            return;
        };
        let probes = self.with_paths(&member, |peer| {
            peer.heard(now, path, &message);
            peer.probes(now)
        });
        self.send_probes(&member, probes.unwrap_or_default());
        self.handle_message(now, path, member, message);
    }

    fn handle_message(
        &mut self,
        now: Instant,
        path: &Address,
        member: MemberId,
        message: LinkMessage,
    ) {
        match message {
            LinkMessage::Echo(number) => {
                let peer = self.peers.get(&member);
                let ways = peer.map(|peer| peer.for_answer(now, path));
                for way in ways.unwrap_or_default() {
                    if !self.quotas.take(now, &member, &way, 1) {
                        continue;
                    }
                    self.send_via(&member, way, &LinkMessage::EchoReply(number));
                }
            }
            LinkMessage::EchoReply(number) => {
                let own = self.with_paths(&member, |peer| peer.answered(now, number));
                if own == Some(false) {
                    self.emit(Event::Message(member, LinkMessage::EchoReply(number)));
                }
            }
            LinkMessage::Close => self.forget(&member),
            LinkMessage::Fragment {
                id,
                index,
                count,
                bytes,
            } => {
                let peer = self.peers.get_mut(&member);
                let whole = peer.and_then(|p| p.reassemble(id, (index, count), bytes.to_vec()));
                match whole.map(|encoded| LinkMessage::decode(&encoded)) {
                    // Pieces of pieces are nonsense.
                    Some(None | Some(LinkMessage::Fragment { .. })) => {
                        self.counters.packets_malformed += 1;
                    }
                    Some(Some(message)) => self.handle_message(now, path, member, message),
                    None => {}
                }
            }
            message => self.emit(Event::Message(member, message)),
        }
    }

    fn send_probes(&mut self, member: &MemberId, probes: Vec<(Address, u64)>) {
        for (address, number) in probes {
            self.send_via(member, address, &LinkMessage::Echo(number));
        }
    }

    /// When [`Links::handle_timeout`] wants to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let half_open = self.half_open.iter().map(HalfOpen::expires).min();
        self.peers
            .values()
            .map(Peer::next_timeout)
            .chain(half_open)
            .min()
    }

    /// Repeats handshakes, probes silent links, drops dead and unwanted ones.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.half_open.retain(|half| half.expires() > now);
        let due: Vec<MemberId> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.next_timeout() <= now)
            .map(|(member, _)| *member)
            .collect();
        for member in due {
            self.run_dial(now, member);
            self.look_after(now, member);
        }
    }

    fn look_after(&mut self, now: Instant, member: MemberId) {
        match self.with_paths(&member, |peer| peer.look(now)) {
            Some(peer::Look::Probes(probes)) => self.send_probes(&member, probes),
            Some(peer::Look::Unwanted) => self.close(&member),
            Some(peer::Look::Dead) => self.forget(&member),
            None => {}
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

/// Everything that is done with bytes before they are authenticated, for fuzzing.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    if let Some(packet) = Packet::parse(data) {
        assert_eq!(packet.encode(), data);
    }
    if let Some(message) = LinkMessage::decode(data) {
        assert_eq!(LinkMessage::decode(&message.encode()), Some(message));
    }
}

#[cfg(test)]
mod tests;
