//! One link: its sessions, its path, and what keeps both alive.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringway_transport::{Address, MemberId};

use super::handshake::Initiator;
use super::session::Session;
use super::wire::LinkMessage;
use crate::limits::{LINK_IDLE, LINK_PROBES, LINK_SILENCE, PROBE_INTERVAL};

/// How long an answered handshake waits for its first message.
const HALF_OPEN_FOR: Duration = Duration::from_secs(10);
/// Pauses after each attempt to reach a peer; after the last one it is given up.
const DIAL_PAUSES: [Duration; 5] = [
    Duration::from_millis(400),
    Duration::from_millis(600),
    Duration::from_millis(1_000),
    Duration::from_millis(1_500),
    Duration::from_millis(2_000),
];
/// How often a session may be renewed because somebody says that it is unknown.
const RENEWAL_PAUSE: Duration = Duration::from_millis(500);

/// A handshake that we have begun.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) index: u32,
    pub(super) initiator: Initiator,
    pub(super) due: Instant,
    packet: Vec<u8>,
    addresses: Vec<Address>,
    attempts: usize,
}

impl Dial {
    pub(super) fn new(
        now: Instant,
        index: u32,
        initiator: Initiator,
        packet: Vec<u8>,
        addresses: Vec<Address>,
    ) -> Dial {
        Dial {
            index,
            initiator,
            due: now,
            packet,
            addresses,
            attempts: 0,
        }
    }

    /// Where to send the initiation now; each address in turn, cheapest first.
    pub(super) fn next_attempt(&mut self, now: Instant) -> Option<(Address, Vec<u8>)> {
        let pause = *DIAL_PAUSES.get(self.attempts)?;
        let address = *self
            .addresses
            .get(self.attempts % self.addresses.len().max(1))?;
        self.attempts += 1;
        self.due = now + pause;
        Some((address, self.packet.clone()))
    }
}

/// A handshake that we have answered; the initiator has not yet shown that it got the answer.
#[derive(Debug)]
pub(super) struct HalfOpen {
    pub(super) member: MemberId,
    pub(super) index: u32,
    pub(super) initiation: (u32, blake3::Hash),
    pub(super) response: Vec<u8>,
    pub(super) session: Session,
    pub(super) since: Instant,
    /// Where the answer went. What comes back over the session shows that it arrived there.
    pub(super) path: Address,
    /// The certificate shown, to be judged again when the session is taken into use.
    pub(super) shown: Vec<u8>,
}

impl HalfOpen {
    pub(super) fn answers(&self, sender: u32, noise: &[u8]) -> bool {
        self.initiation.0 == sender && self.initiation.1 == blake3::hash(noise)
    }

    pub(super) fn expires(&self) -> Instant {
        self.since + HALF_OPEN_FOR
    }
}

/// What a look at a link's timers asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Probe {
    None,
    Echo(u64),
    PathChanged(u64),
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
    /// Newest first; we send with the first and take what comes with any.
    sessions: VecDeque<(u32, u32, Session)>,
    path: Option<Address>,
    path_heard: Instant,
    /// An address that authentic packets come from, the number that an echo there carries, and since when.
    candidate: Option<(Address, u64, Instant)>,
    alternatives: Vec<Address>,
    last_heard: Instant,
    rtt: Option<Duration>,
    echo: Option<(u64, Instant)>,
    next_echo: u64,
    unanswered: u32,
    next_probe: Instant,
    last_renewal: Option<Instant>,
    sent: u64,
}

impl Peer {
    pub(super) fn new(now: Instant) -> Peer {
        Peer {
            dial: None,
            waiting: VecDeque::new(),
            last_wanted: now,
            peer_wanted: now,
            sessions: VecDeque::new(),
            path: None,
            path_heard: now,
            candidate: None,
            alternatives: Vec::new(),
            last_heard: now,
            rtt: None,
            echo: None,
            next_echo: 1,
            unanswered: 0,
            next_probe: now + LINK_SILENCE,
            last_renewal: None,
            sent: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Where packets go.
    pub(crate) fn path(&self) -> Option<Address> {
        self.path
    }

    /// Smoothed round-trip time, once measured.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// When something authentic last came.
    pub(crate) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    pub(super) fn indices(&self) -> Vec<u32> {
        self.sessions.iter().map(|(index, _, _)| *index).collect()
    }

    pub(super) fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// Takes a session into use; gives the index of one that had to go.
    pub(super) fn add_session(
        &mut self,
        now: Instant,
        path: Address,
        index: u32,
        session: Session,
        most: usize,
    ) -> Option<u32> {
        let remote = session.remote_index();
        self.sessions.push_front((index, remote, session));
        self.path = Some(path);
        self.path_heard = now;
        self.last_heard = now;
        self.unanswered = 0;
        self.sent = 0;
        self.next_probe = now + PROBE_INTERVAL;
        if self.sessions.len() > most {
            return self.sessions.pop_back().map(|(index, _, _)| index);
        }
        None
    }

    pub(super) fn seal(&mut self, message: &LinkMessage) -> Option<(Address, Vec<u8>)> {
        let path = self.path?;
        let (_, _, session) = self.sessions.front_mut()?;
        let packet = session.seal(message)?;
        self.sent += 1;
        Some((path, packet))
    }

    pub(super) fn open(&mut self, index: u32, counter: u64, ciphertext: &[u8]) -> Option<Vec<u8>> {
        let (_, _, session) = self.sessions.iter_mut().find(|(own, _, _)| *own == index)?;
        session.open(counter, ciphertext)
    }

    /// True if we send to the peer's session `remote` over `path` now.
    pub(super) fn sends_to(&self, remote: u32, path: Address) -> bool {
        let current = self
            .sessions
            .front()
            .is_some_and(|(_, index, _)| *index == remote);
        current && self.path == Some(path)
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
        self.paths()
    }

    /// Every address that the link uses, tries or may use next.
    pub(super) fn addresses(&self) -> Vec<Address> {
        let mut addresses = self.paths();
        addresses.extend(self.candidate.map(|(path, _, _)| path));
        addresses.extend(
            self.dial
                .iter()
                .flat_map(|dial| dial.addresses.iter().copied()),
        );
        addresses
    }

    /// All paths worth a handshake: the one in use first.
    fn paths(&self) -> Vec<Address> {
        let mut paths: Vec<Address> = self.path.into_iter().collect();
        paths.extend(
            self.alternatives
                .iter()
                .filter(|address| Some(**address) != self.path),
        );
        paths
    }

    /// Takes over the proven addresses; true if the link has moved to a cheaper transport.
    pub(super) fn set_alternatives(&mut self, addresses: Vec<Address>) -> bool {
        self.alternatives = addresses;
        let (Some(best), Some(path)) = (self.alternatives.first().copied(), self.path) else {
            return false;
        };
        // Within one transport the path in use is as good: only another, cheaper transport is worth a change.
        let position = |address: Address| {
            self.alternatives
                .iter()
                .position(|a| a.protocol() == address.protocol())
        };
        let better = best.protocol() != path.protocol() && position(path).is_none_or(|own| own > 0);
        if better
            && self
                .alternatives
                .iter()
                .any(|a| a.protocol() == path.protocol())
        {
            self.path = Some(best);
            return true;
        }
        false
    }

    /// Something authentic came over `path`. True if an echo is to be sent there: the peer seems to have moved, and
    /// only its answer shows that it is there. A sender's address can be forged.
    pub(super) fn heard(&mut self, now: Instant, path: Address, message: &LinkMessage) -> bool {
        self.last_heard = now;
        self.unanswered = 0;
        self.next_probe = now + LINK_SILENCE;
        if message.is_application() {
            self.last_wanted = now;
        }
        if matches!(message, LinkMessage::Echo(_)) {
            self.peer_wanted = now;
        }
        if self.path == Some(path) {
            self.path_heard = now;
            return false;
        }
        let test = matches!(message, LinkMessage::Ping(_) | LinkMessage::Pong(_));
        let asked = self
            .candidate
            .is_some_and(|(_, _, since)| now < since + PROBE_INTERVAL);
        !test && !asked && now >= self.path_heard + LINK_SILENCE
    }

    /// Notes that an echo with `number`, which nobody can guess, goes to `path`.
    pub(super) fn test_path(&mut self, now: Instant, path: Address, number: u64) {
        self.candidate = Some((path, number, now));
    }

    /// An echo has come back; true if it shows that the peer is at the tested path, which is now the link's.
    pub(super) fn proves_path(&mut self, now: Instant, number: u64) -> bool {
        let Some((path, expected, _)) = self.candidate else {
            return false;
        };
        if expected != number {
            return false;
        }
        self.candidate = None;
        self.path = Some(path);
        self.path_heard = now;
        true
    }

    pub(super) fn echoed(&mut self, now: Instant, number: u64) {
        let Some((expected, sent)) = self.echo.take() else {
            return;
        };
        if expected != number {
            self.echo = Some((expected, sent));
            return;
        }
        let sample = now.saturating_duration_since(sent);
        // RFC 6298 §2: an eighth of the new sample.
        self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
    }

    pub(super) fn next_timeout(&self) -> Instant {
        let dial = self.dial.as_ref().map(|dial| dial.due);
        match dial {
            Some(due) if self.is_up() => due.min(self.next_probe),
            Some(due) => due,
            None => self.next_probe,
        }
    }

    /// Looks at the timers.
    pub(super) fn probe(&mut self, now: Instant) -> Probe {
        if now < self.next_probe {
            return Probe::None;
        }
        if !self.is_up() {
            // A dial that has ended has taken the link with it; without either there is nothing to keep.
            return if self.dial.is_some() {
                Probe::None
            } else {
                Probe::Dead
            };
        }
        let used_up = self
            .sessions
            .front()
            .is_some_and(|(_, _, session)| session.is_used_up());
        let wanted = now < self.last_wanted + LINK_IDLE;
        if used_up || (!wanted && now >= self.peer_wanted + LINK_IDLE) {
            return Probe::Unwanted;
        }
        if !wanted {
            // The peer looks after it: probing too would keep both sides at it for ever.
            self.next_probe = now + LINK_SILENCE;
            return Probe::None;
        }
        self.next_probe = now + PROBE_INTERVAL;
        let number = self.next_echo;
        self.next_echo += 1;
        self.echo = Some((number, now));
        self.unanswered += 1;
        if self.unanswered <= LINK_PROBES {
            return Probe::Echo(number);
        }
        match self.next_path() {
            Some(path) => {
                self.path = Some(path);
                self.path_heard = now;
                self.unanswered = 0;
                Probe::PathChanged(number)
            }
            None => Probe::Dead,
        }
    }

    /// Another proven address; each is tried once, since a failed one leaves the list.
    fn next_path(&mut self) -> Option<Address> {
        let failed = self.path;
        self.alternatives.retain(|address| Some(*address) != failed);
        self.alternatives.first().copied()
    }
}
