//! One link: its sessions, its paths, and what keeps both alive.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringway_dtl::Priority;
use ringway_transport::{
    Address, AddressDescriptor, LatencyClass, PathProbe, PathReport, PathRules, Paths, Protocol,
    Proved,
};

use super::dial::{Dial, is_mail};
use super::flow::{Arrivals, Flow, Report};
use super::fragment::{self, Reassembly};
use super::queue::Queue;
use super::session::{KeyBounds, Session};
use super::wire::LinkMessage;
use crate::limits::{LINK_IDLE, LINK_LOOK, MAIL_LINK_IDLE, SESSIONS_PER_LINK};

/// MTU that a path's flow begins with before the path is known.
const FIRST_MTU: usize = 1_200;
/// Bytes of encoded padding before its content, if that is 256 bytes or more.
const PADDING_HEAD: usize = 6;
/// Bytes of an encoded report.
const REPORT_BYTES: usize = 48;

/// How often a session may be renewed because somebody says that it is unknown.
const RENEWAL_PAUSE: Duration = Duration::from_millis(500);

/// How long somebody who waits for an answer can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The path in use shows within seconds whether it works.
    Soon,
    /// No longer: all paths are tried, and the first that answers is used.
    AtOnce,
}

/// Why a message did not get into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    TooLong,
    QueueFull,
}

/// What a look at a link's timers asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// These echoes, each over its address.
    Probes(Vec<PathProbe>),
    Unwanted,
    Dead,
}

/// Everything about the link with one member.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(super) dial: Option<Dial>,
    pub(super) waiting: VecDeque<LinkMessage>,
    pub(super) last_wanted: Instant,
    /// When the peer last showed that it wants the link.
    peer_wanted: Instant,
    /// The highest epoch first; we send with the first and take what comes with any.
    sessions: VecDeque<Session>,
    last_rekey: Option<Instant>,
    /// The newest session's keys are used up: what waits has to wait for others.
    used_up: bool,
    paths: Paths,
    last_heard: Instant,
    next_look: Instant,
    last_renewal: Option<Instant>,
    queue: Queue,
    flow: Flow,
    /// The session and the path that the flow belongs to.
    flow_of: Option<(u32, Address)>,
    arrivals: Arrivals,
    reassembly: Reassembly,
    /// Messages cut so far: the number of the next.
    fragmented: u32,
}

impl Peer {
    pub(super) fn new(now: Instant, paths: Paths) -> Peer {
        Peer {
            dial: None,
            waiting: VecDeque::new(),
            last_wanted: now,
            peer_wanted: now,
            sessions: VecDeque::new(),
            last_rekey: None,
            used_up: false,
            paths,
            last_heard: now,
            next_look: now + LINK_LOOK,
            last_renewal: None,
            queue: Queue::default(),
            flow: Flow::new(now, Priority::NORMAL, FIRST_MTU, 0),
            flow_of: None,
            arrivals: Arrivals::default(),
            reassembly: Reassembly::default(),
            fragmented: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Where packets go.
    pub(crate) fn path(&self) -> Option<&Address> {
        self.paths.active()
    }

    /// What the user says of paths from now on.
    pub(super) fn set_rules(&mut self, now: Instant, rules: &PathRules) {
        self.paths.set_rules(now, rules);
    }

    /// Every path known and why it is or is not used.
    pub(crate) fn path_reports(&self, now: Instant) -> Vec<PathReport> {
        self.paths.reports(now)
    }

    /// Smoothed round-trip time, once measured.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.paths.rtt()
    }

    /// How often packets have begun to take another path.
    pub(super) fn path_changes(&self) -> u64 {
        self.paths.changes()
    }

    /// When something authentic last came.
    pub(crate) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    pub(super) fn indices(&self) -> Vec<u32> {
        self.sessions.iter().map(Session::local).collect()
    }

    /// Whether anything goes over the newest session, or will.
    pub(super) fn has_sent(&self) -> bool {
        self.sessions.front().is_some_and(Session::has_sent) || !self.queue.is_empty()
    }

    /// Packets go to `path` now: a handshake has come through.
    pub(super) fn adopt(&mut self, now: Instant, path: Address) {
        self.paths.adopt(now, &AddressDescriptor::observed(path));
    }

    /// Something authentic came over `path`.
    pub(super) fn heard_at(&mut self, now: Instant, path: Address) {
        let descriptor = AddressDescriptor::observed(path);
        self.paths.handle_heard(now, &descriptor);
    }

    /// Takes a session into use; gives the indices of those that had to go.
    pub(super) fn add_session(
        &mut self,
        now: Instant,
        session: Session,
        bounds: &KeyBounds,
    ) -> Vec<u32> {
        self.last_heard = now;
        self.used_up = false;
        let newer = |other: &Session| other.epoch() > session.epoch();
        let position = self.sessions.iter().take_while(|other| newer(other));
        self.sessions.insert(position.count(), session);
        let old_for = if self.path().is_some_and(is_mail) {
            bounds.mail_old_for
        } else {
            bounds.old_for
        };
        for old in self.sessions.iter_mut().skip(1) {
            old.grow_old(now, old_for);
        }
        let gone = self.sessions.len().min(SESSIONS_PER_LINK);
        let gone = self.sessions.split_off(gone);
        gone.iter().map(Session::local).collect()
    }

    /// Drops the keys of sessions that are over; gives their indices.
    pub(super) fn drop_old(&mut self, now: Instant, bounds: &KeyBounds) -> Vec<u32> {
        let over = |session: &&Session| session.is_over(now, bounds);
        let gone = self.sessions.iter().filter(over).map(Session::local);
        let gone = gone.collect();
        self.sessions
            .retain(|session| !session.is_over(now, bounds));
        gone
    }

    /// The number of the newest session; 0 if there is none.
    pub(super) fn newest_epoch(&self) -> u32 {
        self.sessions.front().map_or(0, Session::epoch)
    }

    /// Whether the link, which is in use, needs new keys.
    pub(super) fn wants_rekey(&self, now: Instant, bounds: &KeyBounds) -> bool {
        let by_mail = self.path().is_some_and(is_mail);
        let newest = self.sessions.front();
        newest.is_some_and(|session| session.wants_rekey(now, bounds, by_mail))
    }

    /// Notes that new keys are wanted; gives the path to get them over, unless they are on their
    /// way or were just asked for.
    pub(super) fn rekeying(&mut self, now: Instant, pause: Duration) -> Option<Address> {
        let too_soon = self.last_rekey.is_some_and(|last| now < last + pause);
        if self.is_dialling() || too_soon {
            return None;
        }
        let path = self.path()?.clone();
        self.last_rekey = Some(now);
        Some(path)
    }

    /// The path over which the peer has to learn that its response has come: nothing has arrived
    /// over the newest session.
    pub(super) fn unconfirmed(&self) -> Option<&Address> {
        let newest = self.sessions.front().filter(|_| self.sessions.len() > 1)?;
        let path = self.path().filter(|path| !is_mail(path))?;
        newest.is_unconfirmed().then_some(path)
    }

    /// True if the link is only kept, and its keys end before long.
    pub(super) fn ends_soon(&self, now: Instant, bounds: &KeyBounds) -> bool {
        let newest = self.sessions.front();
        self.is_wanted(now) && newest.is_some_and(|session| session.ends_soon(now, bounds))
    }

    /// Encrypts for the newest session, apart from the queue.
    pub(super) fn seal(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        message: &LinkMessage,
    ) -> Option<Vec<u8>> {
        self.seal_encoded(now, bounds, &message.encode())
            .map(|(_, packet)| packet)
    }

    /// Encrypts the echo that a probe asks for, as long as it asks.
    pub(super) fn seal_probe(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        probe: &PathProbe,
    ) -> Option<Vec<u8>> {
        let mut plain = LinkMessage::Echo(probe.number).encode();
        if let Some(length) = probe.length {
            let around = plain.len() + fragment::AROUND_DATA + PADDING_HEAD;
            let padding = vec![0; length.saturating_sub(around)];
            plain.extend(LinkMessage::Padding(padding.into()).encode());
        }
        self.seal_encoded(now, bounds, &plain)
            .map(|(_, packet)| packet)
    }

    fn seal_encoded(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        plain: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        self.sessions.front_mut()?.seal(now, bounds, plain)
    }

    /// Puts a message into the queue, in as many pieces as the path in use needs.
    ///
    /// # Errors
    /// Why it was dropped.
    pub(super) fn enqueue(&mut self, now: Instant, message: &LinkMessage) -> Result<(), Dropped> {
        let (encoded, mtu) = (message.encode(), self.paths.mtu());
        // What tests a path asks for its own answer; an answer asks for none, or both sides would
        // never rest.
        if message.needs_live_path() {
            self.paths.sent(now);
        }
        // Paced are messages of applications: they leave only as fast as the path and the receiver
        // take them. All others, a PONG too, leave at once, or gather for a time on a slow path.
        let paced = message.is_paced();
        if fragment::fits(&encoded, mtu) {
            return self.push(now, encoded, paced);
        }
        self.fragmented = self.fragmented.wrapping_add(1);
        let pieces = fragment::split(&encoded, self.fragmented, mtu).ok_or(Dropped::TooLong)?;
        for piece in pieces {
            self.push(now, piece.encode(), paced)?;
        }
        Ok(())
    }

    fn push(&mut self, now: Instant, encoded: Vec<u8>, paced: bool) -> Result<(), Dropped> {
        let latency = self.paths.latency();
        let taken = if paced {
            self.queue.push_paced(now, encoded, latency)
        } else {
            self.queue.push(now, encoded, latency)
        };
        taken.then_some(()).ok_or(Dropped::QueueFull)
    }

    /// Something has left that is answered over a path that works.
    pub(super) fn expect_answer(&mut self, now: Instant, urgency: Urgency) {
        match urgency {
            Urgency::Soon => self.paths.sent(now),
            Urgency::AtOnce => self.paths.race(now),
        }
    }

    /// The next packet for the path in use. `room`: bytes that may be under way to us from this
    /// peer.
    pub(super) fn next_packet(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        room: u32,
    ) -> Option<(Address, Vec<u8>)> {
        let path = self.paths.active()?.clone();
        let session = self.sessions.front()?;
        self.used_up = session.is_used_up(now, bounds);
        if self.used_up {
            return None;
        }
        let remote = session.remote();
        self.follow(now, remote, &path);
        while self.arrivals.is_due(now) {
            if let Some(report) = self.report(now, room) {
                self.push(now, report, false).ok()?;
            }
        }
        // By mail a report would cost as much as what it reports, and come too late.
        let watched = self.paths.latency() != LatencyClass::Minutes;
        let may_pace = self.queue.has_paced() && (!watched || self.flow.may_send(now));
        let space = self.paths.mtu().saturating_sub(fragment::AROUND_DATA);
        if !self.queue.can_pack(now, space, may_pace) {
            return None;
        }
        if !self.paths.spend(now, &path, 1) {
            // With nothing left of the quota another path may be in use by now.
            return if self.path() == Some(&path) {
                None
            } else {
                self.next_packet(now, bounds, room)
            };
        }
        let mut packed = self.queue.pack(now, space, may_pace)?;
        if self.arrivals.is_worth_sharing()
            && packed.plain.len() + REPORT_BYTES <= space
            && let Some(report) = self.report(now, room)
        {
            packed.plain.extend(report);
        }
        let (counter, packet) = self.seal_encoded(now, bounds, &packed.plain)?;
        let full = self.queue.has_more(may_pace);
        self.paths.sent_packet(packet.len(), full);
        if packed.paced && watched {
            self.flow.sent(now, counter, packet.len());
        }
        Some((path, packet))
    }

    /// The flow is that of the path in use, and knows over which session packets leave.
    fn follow(&mut self, now: Instant, session: u32, path: &Address) {
        match &mut self.flow_of {
            Some((of, over)) if over == path => {
                if *of != session {
                    *of = session;
                    self.flow.renew(session);
                }
            }
            other => {
                *other = Some((session, path.clone()));
                let mtu = self.paths.mtu();
                self.flow = Flow::new(now, Priority::NORMAL, mtu, session);
            }
        }
    }

    /// What has come since the last report, encoded.
    fn report(&mut self, now: Instant, room: u32) -> Option<Vec<u8>> {
        let (session, highest) = self.arrivals.pending()?;
        let delay = self.arrivals.reported(now);
        let mut sessions = self.sessions.iter();
        let reported = sessions.find(|own| own.local() == session)?;
        let seen = reported.seen_below(highest).to_vec().into();
        let delay = u32::try_from(delay.as_micros()).unwrap_or(u32::MAX);
        let report = LinkMessage::Received {
            session,
            highest,
            delay,
            seen,
            room,
        };
        Some(report.encode())
    }

    /// A packet came over `session` whose sender wants to know that it did.
    pub(super) fn arrived(&mut self, now: Instant, session: u32, counter: u64) {
        self.arrivals.note(now, session, counter);
    }

    /// The peer has reported what came.
    pub(super) fn reported(&mut self, now: Instant, report: &Report) {
        self.flow.reported(now, report);
    }

    /// True if something waits that may be due.
    pub(super) fn has_output(&self, now: Instant) -> bool {
        !self.queue.is_empty() || self.arrivals.is_due(now)
    }

    /// Whether an application may hand over more messages.
    pub(super) fn takes_messages(&self) -> bool {
        self.is_up() && !self.queue.is_full()
    }

    /// Whether the peer sends messages that want to be reported.
    pub(super) fn is_talking(&self) -> bool {
        self.arrivals.pending().is_some()
    }

    /// Window in bytes, and bytes under way.
    pub(crate) fn flow(&self) -> (u64, u64) {
        self.flow.state()
    }

    /// Takes a piece of a message; gives the message if that was the last one.
    pub(super) fn reassemble(
        &mut self,
        id: u32,
        part: (u8, u8),
        bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        self.reassembly.take(id, part, bytes)
    }

    /// Bytes that unfinished messages hold.
    pub(super) fn reassembly_bytes(&self) -> usize {
        self.reassembly.bytes()
    }

    /// Drops unfinished messages.
    pub(super) fn drop_reassembly(&mut self) {
        self.reassembly.clear();
    }

    /// The messages in a data packet for our session `index`, of that epoch and counter.
    pub(super) fn open(
        &mut self,
        now: Instant,
        bounds: &KeyBounds,
        packet: (u32, u32, u32),
        ciphertext: &[u8],
    ) -> Option<Vec<u8>> {
        let (index, epoch, counter) = packet;
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.local() == index)?;
        session.open(now, bounds, (epoch, counter), ciphertext)
    }

    /// True if we send to the peer's session `remote` over `path` now.
    pub(super) fn sends_to(&self, remote: u32, path: &Address) -> bool {
        let newest = self.sessions.front();
        newest.is_some_and(|session| session.remote() == remote) && self.path() == Some(path)
    }

    pub(super) fn may_renew(&self, now: Instant) -> bool {
        self.last_renewal
            .is_none_or(|last| now >= last + RENEWAL_PAUSE)
    }

    pub(super) fn is_dialling(&self) -> bool {
        self.dial.is_some()
    }

    /// Notes a renewal; gives the addresses to try.
    pub(super) fn renewing(&mut self, now: Instant) -> Vec<Address> {
        self.last_renewal = Some(now);
        self.paths.addresses()
    }

    /// Every address that the link uses, tries or may use next.
    pub(super) fn addresses(&self) -> Vec<Address> {
        let mut addresses = self.paths.addresses();
        let dialled = self.dial.iter().flat_map(|dial| dial.addresses.iter());
        addresses.extend(dialled.cloned());
        addresses
    }

    /// Takes over the proven addresses.
    pub(super) fn offer(&mut self, now: Instant, proved: &[Proved]) {
        self.paths.offer(now, proved);
    }

    /// A transport says that this path is gone.
    pub(super) fn abandon(&mut self, now: Instant, path: &Address) {
        self.paths.abandon(now, path);
    }

    /// Something authentic came over `path`.
    pub(super) fn note_message(&mut self, now: Instant, path: &Address, message: &LinkMessage) {
        self.last_heard = now;
        if message.is_application() {
            self.last_wanted = now;
        }
        if matches!(message, LinkMessage::Echo(_)) {
            self.peer_wanted = now;
        }
        // Validation tests addresses that the link need not follow.
        if !matches!(message, LinkMessage::Ping(_) | LinkMessage::Pong(_)) {
            self.heard_at(now, path.clone());
        }
    }

    /// Where the answer to an echo that came over `path` goes.
    pub(super) fn for_answer(&self, now: Instant, path: &Address) -> Vec<Address> {
        self.paths.for_answer(now, path)
    }

    /// Counts what is about to leave over `path`; false if it must not.
    pub(super) fn spend(&mut self, now: Instant, path: &Address) -> bool {
        self.paths.spend(now, path, 1)
    }

    /// An echo has come back; true if it answers a probe of a path.
    pub(super) fn answered(&mut self, now: Instant, number: u64) -> bool {
        self.paths.handle_answer(now, number)
    }

    /// True if a router passes on what we send.
    pub(crate) fn is_relayed(&self) -> bool {
        self.path()
            .is_some_and(|path| path.protocol() == Protocol::Relay)
    }

    /// True if we have had use for it recently.
    pub(crate) fn is_wanted(&self, now: Instant) -> bool {
        now < self.last_wanted + self.idle_time()
    }

    fn idle_time(&self) -> Duration {
        if self.path().is_some_and(is_mail) {
            MAIL_LINK_IDLE
        } else {
            LINK_IDLE
        }
    }

    pub(super) fn next_timeout(&self) -> Instant {
        let dial = self.dial.as_ref().map(|dial| dial.due);
        if !self.is_up() {
            return dial.unwrap_or(self.next_look);
        }
        // The side that wants the link looks after it: with both at it neither would ever let go.
        let paths = self.paths.poll_timeout();
        let paths = paths.filter(|_| self.is_wanted(self.next_look));
        let output = [self.next_output(), self.arrivals.due()];
        let [output, reports] = output.map(|due| due.filter(|_| !self.used_up));
        let times = [dial, paths, Some(self.next_look), output, reports];
        times.into_iter().flatten().min().unwrap_or(self.next_look)
    }

    /// When something that waits may leave. What can leave now has left at the end of the round.
    fn next_output(&self) -> Option<Instant> {
        let due = self.queue.due();
        let prompt = due.filter(|_| self.queue.has_prompt());
        let paced = self.queue.has_paced();
        let pace = self.flow.poll_timeout(paced);
        // Held back by the window: a report or silence opens it.
        let open = paced && self.flow.is_open();
        let gathered = due.filter(|_| open && pace.is_none());
        [prompt, pace, gathered].into_iter().flatten().min()
    }

    /// Time has passed for what is under way.
    pub(super) fn handle_flow_timeout(&mut self, now: Instant) {
        self.flow.handle_timeout(now);
    }

    /// Looks at the timers.
    pub(super) fn look(&mut self, now: Instant, bounds: &KeyBounds) -> Look {
        if now >= self.next_look {
            self.next_look = now + LINK_LOOK;
        }
        if !self.is_up() {
            // A dial that has ended has taken the link with it; without either there is nothing to
            // keep.
            return match self.dial {
                Some(_) => Look::Probes(Vec::new()),
                None => Look::Dead,
            };
        }
        // New keys may be on their way.
        let newest = self.sessions.front().filter(|_| !self.is_dialling());
        let used_up = newest.is_some_and(|session| session.is_used_up(now, bounds));
        let wanted = self.is_wanted(now);
        if used_up || (!wanted && now >= self.peer_wanted + self.idle_time()) {
            return Look::Unwanted;
        }
        if !wanted {
            return Look::Probes(Vec::new());
        }
        self.paths.handle_timeout(now);
        if self.paths.active().is_none() {
            return Look::Dead;
        }
        Look::Probes(self.probes(now))
    }

    /// The echoes that path choice wants to be sent.
    pub(super) fn probes(&mut self, now: Instant) -> Vec<PathProbe> {
        let mut probes = Vec::new();
        while let Some(probe) = self.paths.poll_probe(now) {
            probes.push(probe);
        }
        probes
    }
}
