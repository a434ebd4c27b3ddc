//! Encrypted links between members, over whichever transport gets through. Sans-IO.
//!
//! A link is what two members have with each other; a session is one set of keys; a path is an
//! address that packets go to. A session does not belong to a path: data is known by the session's
//! index, so a link moves to another path without a new handshake.
//!
//! What comes in is read in `incoming`, handshakes are made in `establish` and `dial`, and what
//! concerns one peer is in `peer`. Who speaks which version, also those that there is no link with,
//! is in `version`.
//!
//! # Run loop
//! After any `handle_*` or command, drain [`Links::poll_transmit`] and [`Links::poll_event`]; call
//! [`Links::handle_timeout`] when [`Links::poll_timeout`] has come.
//!
//! # Which path is used
//! The path that the handshake came through has proven itself: both sides have answered over it.
//! Further addresses come from the peer's HELLO and are used only after a PONG (the caller's
//! validator decides, and passes them to [`Links::offer_paths`]). Which of them is used decides
//! [`ringway_transport::Paths`]; its probes are echoes. The way back is the peer's choice.

mod builds;
mod cookie;
mod dial;
mod establish;
mod flow;
mod fragment;
mod half_open;
#[cfg_attr(feature = "insecure", path = "link/plain.rs")]
mod handshake;
mod incoming;
mod indices;
mod output;
mod own;
mod peer;
mod peers;
mod queue;
mod replay;
mod session;
mod shown;
mod times;
mod version;
mod wire;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use ringway_transport::{Address, MemberId, PathProbe, PathRules, Protocol, Proved, Quotas};

pub(crate) use self::builds::{OtherVersion, Who};
pub(crate) use self::peer::{Peer, Urgency};
pub(crate) use self::version::LinkVersion;
pub(crate) use self::wire::LinkMessage;

use self::cookie::Gate;
use self::dial::HalfOpen;
use self::half_open::UsedInitiations;
use self::indices::Indices;
use self::output::{Output, Room};
use self::own::Own;
use self::peers::Peers;
use self::session::KeyBounds;
#[cfg(feature = "fuzzing")]
use self::shown::Shown;
use self::times::Times;
use self::version::Versions;
use crate::certificate::Certificate;
use crate::identity::Identity;
use crate::limits::LINK_QUEUE;

/// Decides from a shown certificate whether its holder may have a link.
pub(crate) type Gatekeeper = Arc<dyn Fn(&[u8]) -> Option<Certificate> + Send + Sync>;

/// What the links report.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A handshake has succeeded: the member can be talked to. It may have restarted and forgotten
    /// everything.
    Up(MemberId),
    /// It said something.
    Message(MemberId, LinkMessage),
    /// No path leads to it any more, or it said goodbye. Why, if it could be talked to before.
    Down(MemberId, Option<LinkEnd>),
    /// The link with it is of the version before ours: its build is an earlier one.
    EarlierVersion(MemberId),
    /// There is no link with this one, which speaks none of our versions.
    OtherVersion(OtherVersion),
}

/// Why a link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    Goodbye,
    Silent,
    Unused,
    NotAdmitted,
    NoMember,
    Stopping,
}

impl LinkEnd {
    /// In words.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LinkEnd::Goodbye => "the other member has ended it",
            LinkEnd::Silent => "no path to it works any more",
            LinkEnd::Unused => "it was not used",
            LinkEnd::NotAdmitted => "its certificate or handshake is not good",
            LinkEnd::NoMember => "its membership has ended",
            LinkEnd::Stopping => "this member stops",
        }
    }
}

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkCounters {
    pub(crate) handshakes: u64,
    /// Of these, those that brought new keys for a link that was up.
    pub(crate) rekeys: u64,
    pub(crate) handshakes_refused: u64,
    /// Initiations on which public-key work was done.
    pub(crate) handshakes_read: u64,
    /// Under load: initiations that were answered with a cookie, and those that were dropped.
    pub(crate) cookies_sent: u64,
    pub(crate) handshakes_too_many: u64,
    /// Initiations that have become a link before, or have waited for one in vain.
    pub(crate) handshakes_replayed: u64,
    /// Handshakes of builds that differ in whether links are encrypted.
    pub(crate) handshakes_foreign: u64,
    /// Handshakes of versions that are not spoken here, of one a second that could not be read.
    pub(crate) handshakes_other_version: u64,
    pub(crate) packets_malformed: u64,
    pub(crate) packets_rejected: u64,
    pub(crate) packets_unknown_session: u64,
    /// Messages dropped, by reason: there is no link, nor one on its way.
    pub(crate) dropped_no_link: u64,
    /// Too many waited for the link to come up, or for room in packets.
    pub(crate) dropped_queue_full: u64,
    /// Longer than what the most pieces hold.
    pub(crate) dropped_too_long: u64,
    /// Packets or events that were not taken in time.
    pub(crate) dropped_output_full: u64,
    pub(crate) path_changes: u64,
    /// Messages and packets of sessions: how many messages share a packet.
    pub(crate) messages_sent: u64,
    pub(crate) packets_sent: u64,
}

/// All links of a member.
pub(crate) struct Links {
    /// What this member shows in handshakes.
    own: Own,
    gatekeeper: Gatekeeper,
    /// What the user says of paths.
    rules: PathRules,
    /// What members accept a day, and what of that is used up.
    quotas: Quotas,
    peers: Peers,
    /// Our name for each session, and whose it is.
    indices: Indices,
    half_open: VecDeque<HalfOpen>,
    used: UsedInitiations,
    /// The time in handshakes.
    times: Times,
    versions: Versions,
    /// Which handshakes are read.
    gate: Gate,
    /// How long sessions are used.
    bounds: KeyBounds,
    rng: rand::rngs::StdRng,
    output: Output,
    room: Room,
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
            own: Own::new(identity, certificate),
            gatekeeper,
            rules,
            quotas: Quotas::default(),
            peers: Peers::default(),
            indices: Indices::default(),
            half_open: VecDeque::new(),
            used: UsedInitiations::default(),
            times: Times::default(),
            versions: Versions::default(),
            gate: Gate::default(),
            bounds: KeyBounds::default(),
            rng: rand::SeedableRng::from_seed(seed),
            output: Output::default(),
            room: Room::new(),
            counters: LinkCounters::default(),
        }
    }

    /// Says what the time is, in microseconds since 1970. Handshakes show it.
    pub(crate) fn set_date(&mut self, now: Instant, date: u64) {
        self.times.begin(now, date);
    }

    /// Shows another certificate for the same key from now on. Every link that is up gets new keys
    /// for it, so that each peer knows it; those by mail do with their next ones.
    pub(crate) fn renew_certificate(&mut self, now: Instant, certificate: &Certificate) {
        self.own.renew(certificate);
        let by_mail = |peer: &Peer| peer.path().is_none_or(dial::is_mail);
        let up = self.up().filter(|(_, peer)| !by_mail(peer));
        let members: Vec<MemberId> = up.map(|(member, _)| *member).collect();
        for member in members {
            self.rekey(now, member);
        }
    }

    /// What the user says of paths from now on.
    pub(crate) fn set_rules(&mut self, now: Instant, rules: &PathRules) {
        self.rules = rules.clone();
        for member in self.members() {
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.set_rules(now, rules);
            }
        }
    }

    /// Counts what leaves; the reader of HELLOs sets the quotas.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        LinkCounters {
            dropped_output_full: self.output.dropped,
            ..self.counters
        }
    }

    /// Members with a session.
    pub(crate) fn up(&self) -> impl Iterator<Item = (&MemberId, &Peer)> {
        self.peers.iter().filter(|(_, peer)| peer.is_up())
    }

    pub(crate) fn is_up(&self, member: &MemberId) -> bool {
        self.peers.get(member).is_some_and(Peer::is_up)
    }

    /// True if a handshake with the member has been begun, also where there is a link already.
    pub(crate) fn is_dialling(&self, member: &MemberId) -> bool {
        self.peers.get(member).is_some_and(Peer::is_dialling)
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

    /// Sends over the link's path, or keeps the message until the link is up. False if there is no
    /// link. True does not say that it leaves: where the queue is full, or the message is too long,
    /// one is dropped and counted.
    pub(crate) fn send(&mut self, now: Instant, member: &MemberId, message: LinkMessage) -> bool {
        let Some(peer) = self.peers.get_mut(member) else {
            self.counters.dropped_no_link += 1;
            return false;
        };
        if message.is_application() {
            peer.last_wanted = now;
        }
        if peer.path().is_none() || !peer.is_up() {
            if peer.waiting.len() >= LINK_QUEUE {
                peer.waiting.pop_front();
                self.counters.dropped_queue_full += 1;
            }
            peer.waiting.push_back(message);
            return true;
        }
        match peer.enqueue(now, &message) {
            Ok(()) => self.counters.messages_sent += 1,
            Err(peer::Dropped::TooLong) => self.counters.dropped_too_long += 1,
            Err(peer::Dropped::QueueFull) => self.counters.dropped_queue_full += 1,
        }
        // Probes alone are not worth new keys.
        let rekey = message.needs_live_path() && peer.wants_rekey(now, &self.bounds);
        self.peers.set_ready(member);
        if rekey {
            self.rekey(now, *member);
        }
        true
    }

    /// Whether an application may hand over messages to this member now; it waits otherwise.
    pub(crate) fn takes_messages(&self, member: &MemberId) -> bool {
        self.peers.get(member).is_some_and(Peer::takes_messages)
    }

    /// Which versions of the link protocol others speak.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// When something authentic last came over the link with this member, if it is up.
    pub(crate) fn last_heard(&self, member: &MemberId) -> Option<Instant> {
        let peer = self.peers.get(member).filter(|peer| peer.is_up())?;
        Some(peer.last_heard())
    }

    /// The address that the link's packets go to.
    pub(crate) fn path(&self, member: &MemberId) -> Option<&Address> {
        self.peers.get(member).and_then(Peer::path)
    }

    /// True if the link is up and its packets need no router to pass them on.
    pub(crate) fn is_direct(&self, member: &MemberId) -> bool {
        let direct = |path: &Address| path.protocol() != Protocol::Relay;
        self.is_up(member) && self.path(member).is_some_and(direct)
    }

    /// As [`Links::send`], unless a router would have to pass it on: there is no relaying over a
    /// relay.
    pub(crate) fn send_directly(
        &mut self,
        now: Instant,
        member: &MemberId,
        message: LinkMessage,
    ) -> bool {
        if self.is_up(member) && !self.is_direct(member) {
            self.counters.dropped_no_link += 1;
            return false;
        }
        self.send(now, member, message)
    }

    /// Sends to one address only, whatever the path in use: PINGs, answers to echoes, and what
    /// confirms an address. Here it counts against no quota: its caller has counted it, and PINGs
    /// have the validator's budget. Dropped if there is no session.
    pub(crate) fn send_via(
        &mut self,
        now: Instant,
        member: &MemberId,
        address: Address,
        message: &LinkMessage,
    ) {
        let peer = self.peers.get_mut(member);
        let sealed = peer.and_then(|peer| peer.seal(now, &self.bounds, message));
        match sealed {
            Some(packet) => self.output.transmit(address, packet),
            None => self.counters.dropped_no_link += 1,
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

    /// As [`Links::keep`], and somebody waits for an answer.
    pub(crate) fn keep_working(&mut self, now: Instant, member: &MemberId, urgency: Urgency) {
        self.keep(now, member);
        if let Some(peer) = self.peers.get_mut(member) {
            peer.expect_answer(now, urgency);
        }
    }

    /// Ends the link and notifies the peer.
    pub(crate) fn close(&mut self, now: Instant, member: &MemberId, why: LinkEnd) {
        let peer = self.peers.get_mut(member);
        let goodbye = peer.and_then(|peer| {
            let path = peer.path()?.clone();
            Some((path, peer.seal(now, &self.bounds, &LinkMessage::Close)?))
        });
        // What still waits is not worth more than the goodbye.
        if let Some((path, packet)) = goodbye {
            self.output.transmit(path, packet);
        }
        self.forget(member, why);
    }

    fn forget(&mut self, member: &MemberId, why: LinkEnd) {
        self.half_open.retain(|half| half.member != *member);
        let Some(peer) = self.peers.remove(member) else {
            return;
        };
        self.indices.end_sessions(peer.indices());
        if let Some(dial) = &peer.dial {
            self.indices.end_dial(dial.index);
        }
        self.versions.restarted(member);
        let why = peer.is_up().then_some(why);
        self.output.emit(Event::Down(*member, why));
    }

    fn send_probes(&mut self, now: Instant, member: &MemberId, probes: Vec<PathProbe>) {
        for probe in probes {
            let peer = self.peers.get_mut(member);
            let sealed = peer.and_then(|peer| peer.seal_probe(now, &self.bounds, &probe));
            if let Some(packet) = sealed {
                self.output.transmit(probe.address, packet);
            }
        }
    }

    /// When [`Links::handle_timeout`] wants to be called next.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let half_open = self.half_open.iter().map(|half| half.expires).min();
        self.peers.next_due().into_iter().chain(half_open).min()
    }

    /// Repeats handshakes, probes silent links, drops dead and unwanted ones.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for half in self.half_open.iter().filter(|half| half.expires <= now) {
            self.used.add(half.initiation.1);
        }
        self.half_open.retain(|half| half.expires > now);
        for member in self.peers.due(now) {
            self.run_dial(now, member);
            self.look_after(now, member);
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.handle_flow_timeout(now);
                self.peers.set_ready(&member);
            }
        }
    }

    fn look_after(&mut self, now: Instant, member: MemberId) {
        let Some(peer) = self.peers.get_mut(&member) else {
            return;
        };
        self.indices.end_sessions(peer.drop_old(now, &self.bounds));
        if peer.ends_soon(now, &self.bounds) {
            self.rekey(now, member);
        }
        let bounds = self.bounds.clone();
        match self.with_paths(&member, |peer| peer.look(now, &bounds)) {
            Some(peer::Look::Probes(probes)) => {
                self.send_probes(now, &member, probes);
                self.confirm(now, &member);
            }
            Some(peer::Look::Unwanted) => self.close(now, &member, LinkEnd::Unused),
            Some(peer::Look::Dead) => self.forget(&member, LinkEnd::Silent),
            None => {}
        }
    }

    /// What was to show the peer that its answer has come may be lost, and nothing else may be
    /// there to say.
    fn confirm(&mut self, now: Instant, member: &MemberId) {
        let peer = self.peers.get(member);
        let Some(path) = peer.and_then(Peer::unconfirmed).cloned() else {
            return;
        };
        if self.quotas.take(now, member, &path, 1) {
            self.send_via(now, member, path, &LinkMessage::Echo(0));
        }
    }

    /// The next packet to send. Messages that are due are put into packets now.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<(Address, Vec<u8>)> {
        let packet = match self.output.poll_transmit() {
            Some(packet) => Some(packet),
            None if !self.peers.any_ready() => None,
            None => {
                let room = self.room.share(now, || self.peers.talking());
                let bounds = &self.bounds;
                // There may be more: what one member gets in a round is bounded by its queue and
                // its window.
                self.peers
                    .first_ready(|peer| peer.next_packet(now, bounds, room))
            }
        };
        self.counters.packets_sent += u64::from(packet.is_some());
        packet
    }

    /// The next thing to know.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.output.poll_event()
    }
}

/// Everything that is done with bytes before they are authenticated, for fuzzing.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    if let Some(packet) = wire::Packet::parse(data) {
        assert_eq!(packet.encode(), data);
    }
    for version in [LinkVersion::Earlier, LinkVersion::Newest] {
        if let Some(shown) = Shown::decode(version, data) {
            assert_eq!(shown.encode(version), data);
        }
    }
    if let Some(message) = LinkMessage::decode(data) {
        assert_eq!(LinkMessage::decode(&message.encode()), Some(message));
    }
    // What shares a packet reads as it does by itself, up to what makes no sense.
    let mut again = Vec::new();
    let mut whole = 0;
    for message in LinkMessage::decode_all(data).map_while(|message| message) {
        again.extend_from_slice(&message.encode());
        whole += 1;
    }
    let read = LinkMessage::decode_all(&again).flatten().count();
    assert_eq!(read, whole);
}

#[cfg(test)]
#[cfg_attr(feature = "insecure", path = "link/plain_tests.rs")]
mod tests;
