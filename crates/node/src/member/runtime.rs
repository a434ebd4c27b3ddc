//! The loop: input, decide, output, wait.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_overlay::{Chord, RingKey};
use ringway_transport::quic::{DatagramCarrier, MemberDatagram};
use ringway_transport::{Address, Incoming, MemberId, Signer as _, Validator};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::echo::Echoes;
use super::effort::Effort;
use super::joining::Joining;
use super::messages::{Arrived, Messages};
use super::network::{Arrivals, Network};
use super::parents::Parents;
use super::reach::Reaching;
use super::records::Records;
use super::relay::Relaying;
use super::returns::Returns;
use super::ring::{Asker, Lookups, Unresolved};
use super::through::{RingMessage, Through};
use super::whereabouts::Whereabouts;
use super::{Command, MemberHandle, Outcome};
use crate::certificate::{Certificate, Role};
use crate::clock::unix_micros;
use crate::directory::Directory;
use crate::identity::Identity;
use crate::limits::{COMMANDS, HELLO_PAUSE, INPUT_BATCH, OUTPUT_BATCH};
use crate::link::{LinkMessage, Links};
use crate::state::{Membership, State, StateError};

/// How often the member looks after what has no timer of its own.
const HOUSEKEEPING: Duration = Duration::from_millis(500);

/// What the task is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) identity: Identity,
    pub(crate) membership: Membership,
    pub(crate) state: Arc<State>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) network: Network,
    pub(crate) arrivals: Arrivals,
}

/// The member's task.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(super) identity: Identity,
    pub(super) membership: Membership,
    pub(super) state: Arc<State>,
    pub(super) directory: Arc<Directory>,
    pub(super) network: Network,
    pub(super) links: Links,
    pub(super) validator: Validator,
    /// Routers only.
    pub(super) chord: Option<Chord>,
    pub(super) joining: Joining,
    /// What members' signatures have cost.
    pub(super) effort: Effort,
    /// Whether others hold proof against this router.
    pub(super) convicted: bool,
    pub(super) lookups: Lookups,
    pub(super) unresolved: Unresolved,
    pub(super) reaching: Reaching,
    pub(super) echoes: Echoes,
    pub(super) messages: Messages,
    pub(super) through: Through,
    pub(super) parents: Parents,
    pub(super) returns: Returns,
    pub(super) records: Records,
    pub(super) relaying: Relaying,
    pub(super) whereabouts: Whereabouts,
    pub(super) hello_sequence: u64,
    /// Who has asked for our HELLO of late.
    pub(super) hellos_given: BTreeMap<MemberId, Instant>,
    pub(super) started: Instant,
    due: Due,
    /// Events counted since the start, beside those of the parts.
    pub(super) counters: BTreeMap<&'static str, u64>,
    incoming: mpsc::Receiver<Incoming>,
    /// Datagrams of QUIC that links carry.
    pub(super) carrier: DatagramCarrier,
    commands: mpsc::Receiver<Command>,
    pub(super) outcomes: mpsc::Sender<Outcome>,
    outcome_queue: mpsc::Receiver<Outcome>,
}

/// When the parts want to be called again, at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    links: Option<Instant>,
    validator: Option<Instant>,
    chord: Option<Instant>,
}

/// Where what comes for applications arrives.
#[derive(Debug)]
pub(crate) struct Inboxes {
    /// Over links.
    pub(crate) messages: mpsc::Receiver<Arrived>,
    /// Through the ring.
    pub(crate) through: mpsc::Receiver<RingMessage>,
}

impl Runtime {
    /// Puts the task together; it does nothing before [`Runtime::run`]. Gives what talks to it, and
    /// where messages for applications arrive.
    ///
    /// # Errors
    /// When the state cannot be read or written.
    pub(crate) fn new(setup: Setup) -> Result<(Runtime, MemberHandle, Inboxes), StateError> {
        let now = Instant::now();
        let (messages, arrived) = Messages::new();
        let (through, came_through) = Through::new();
        let (handle, commands) = MemberHandle::channel();
        let (outcomes, outcome_queue) = mpsc::channel(COMMANDS);
        let Setup {
            identity,
            membership,
            state,
            directory,
            network,
            arrivals,
        } = setup;
        let Arrivals {
            messages: incoming,
            carrier,
        } = arrivals;
        let gate = Arc::clone(&directory);
        let gatekeeper = Arc::new(move |shown: &[u8]| gate.admit(shown).ok());
        let own = &membership.certificate;
        let mut links = Links::new(
            identity.clone(),
            own,
            gatekeeper,
            network.path_rules().clone(),
            random_seed(),
        );
        links.set_date(Instant::now(), unix_micros());
        let validator = validator(&identity, &network, &links);
        let hello_sequence = state.next_hello_sequence()?;
        let mut runtime = Runtime {
            links,
            validator,
            chord: None,
            joining: Joining::default(),
            effort: Effort::default(),
            convicted: false,
            lookups: Lookups::default(),
            unresolved: Unresolved::default(),
            reaching: Reaching::default(),
            echoes: Echoes::default(),
            messages,
            through,
            parents: Parents::new(network.mapped_port()),
            returns: Returns::new(),
            records: Records::default(),
            relaying: Relaying::new(network.relay_rate()),
            whereabouts: Whereabouts::default(),
            hello_sequence,
            hellos_given: BTreeMap::new(),
            started: now,
            due: Due::default(),
            counters: BTreeMap::new(),
            identity,
            membership,
            state,
            directory,
            network,
            incoming,
            carrier,
            commands,
            outcomes,
            outcome_queue,
        };
        runtime.enter_ring(now)?;
        let inboxes = Inboxes {
            messages: arrived,
            through: came_through,
        };
        Ok((runtime, handle, inboxes))
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counters.entry(what).or_default() += 1;
    }

    /// Runs until `shutdown` completes, then leaves the ring and says goodbye to all.
    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) {
        tokio::pin!(shutdown);
        let mut tick = tokio::time::interval(HOUSEKEEPING);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let handed_over = self.messages.handed_over();
        let alarm = sleep_until(Instant::now().into());
        tokio::pin!(alarm);
        loop {
            self.drain(Instant::now());
            let due = self.next_timeout().into();
            // Too early does no harm, and setting a timer costs more than looking in vain once.
            if due < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(due);
            }
            tokio::select! {
                () = &mut shutdown => break,
                Some(incoming) = self.incoming.recv() => self.take_batch(incoming),
                Some(datagram) = self.carrier.outgoing.recv() => self.carry_batch(datagram),
                () = handed_over.notified() => {}
                Some(outcome) = self.outcome_queue.recv() => self.take_outcome(Instant::now(), outcome),
                Some(command) = self.commands.recv() => self.take_command(Instant::now(), command),
                _ = tick.tick() => self.keep_house(Instant::now()),
                () = &mut alarm => {}
            }
            self.handle_timeouts(Instant::now());
        }
        self.leave_ring(Instant::now());
        self.say_goodbye();
    }

    fn say_goodbye(&mut self) {
        // What a router has to pass on leaves before the link with that router ends.
        for relayed in [true, false] {
            let ending = self.links.up();
            let ending = ending.filter(|(_, peer)| peer.is_relayed() == relayed);
            let members: Vec<MemberId> = ending.map(|(member, _)| *member).collect();
            let now = Instant::now();
            for member in members {
                self.links.close(now, &member);
            }
            self.drain(now);
        }
    }

    fn take_batch(&mut self, first: Incoming) {
        let now = Instant::now();
        self.take_incoming(now, first);
        for _ in 1..INPUT_BATCH {
            match self.incoming.try_recv() {
                Ok(incoming) => self.take_incoming(now, incoming),
                Err(_) => break,
            }
        }
    }

    fn take_incoming(&mut self, now: Instant, incoming: Incoming) {
        let path = incoming.session.remote();
        let is_member = self.links.handle_packet(now, path, &incoming.message);
        self.network.remember(now, incoming.session, is_member);
    }

    /// Datagrams of QUIC go out over links. What finds no link is lost, as on any network.
    fn carry_batch(&mut self, first: MemberDatagram) {
        let now = Instant::now();
        self.carry(now, first);
        for _ in 1..INPUT_BATCH {
            match self.carrier.outgoing.try_recv() {
                Ok(datagram) => self.carry(now, datagram),
                Err(_) => break,
            }
        }
    }

    fn carry(&mut self, now: Instant, datagram: MemberDatagram) {
        let message = LinkMessage::Quic(datagram.bytes.to_vec().into());
        self.links.send(now, &datagram.member, message);
    }

    fn take_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Reach { certificate, reply } => self.begin_reach(now, &certificate, reply),
            Command::Answer { ping, reply } => {
                let pong = self.validator.handle_ping(now, &ping, &self.identity);
                if reply.send(pong).is_err() {
                    self.count("replies_unwanted");
                }
            }
            Command::Echo { certificate, reply } => self.begin_echo(now, &certificate, reply),
            Command::Lookup { target, reply } => {
                self.begin_lookup(now, target, Asker::Local(reply));
            }
            Command::Put {
                name,
                value,
                lifetime,
                reply,
            } => self.put_own_record(now, name, value, lifetime, reply),
            Command::Through { to, body, reply } => self.send_through(now, to, &body, reply),
            Command::Get { point, reply } => self.get_record(now, point, reply),
            Command::Paths { certificate, reply } => {
                let paths = Box::new(self.paths_to(now, &certificate));
                if reply.send(paths).is_err() {
                    self.count("replies_unwanted");
                }
            }
            Command::Messages { certificate, reply } => {
                let sender = self.open_messages(&certificate);
                if reply.send(sender).is_err() {
                    self.count("replies_unwanted");
                }
            }
            Command::Status { reply } => {
                let status = Box::new(self.status(now));
                if reply.send(status).is_err() {
                    self.count("replies_unwanted");
                }
            }
            Command::Stated(statement) => self.spread_statement(now, &statement),
            Command::Revoked => {
                self.end_revoked();
                self.tidy_whereabouts(now);
            }
            Command::Renewed(certificate) => {
                self.links.renew_certificate(now, &certificate);
                self.membership.certificate = *certificate;
            }
        }
    }

    fn take_outcome(&mut self, now: Instant, outcome: Outcome) {
        match outcome {
            Outcome::Resolved(key, certificate) => self.router_resolved(now, key, certificate),
            Outcome::RelayResolved(parent, certificate) => {
                self.relay_resolved(now, parent, certificate);
            }
            Outcome::Pong(member, pong) => self.take_pong(now, member, &pong),
            Outcome::Connected(address, connected) => {
                if connected.is_err() {
                    self.links.abandon_path(now, &address);
                }
                self.network.connected(now, address, connected);
            }
        }
    }

    /// Ends links whose member is no longer good.
    pub(super) fn end_revoked(&mut self) {
        let now = Instant::now();
        for member in self.links.members() {
            if self.directory.cached(&member).is_none() {
                tracing::warn!(%member, "a revoked member's link ends");
                self.links.close(now, &member);
                self.validator.remove(&member);
                self.count("links_revoked");
            }
        }
    }

    fn next_timeout(&mut self) -> Instant {
        self.due = Due {
            links: self.links.poll_timeout(),
            validator: self.validator.poll_timeout(),
            chord: self.chord.as_ref().and_then(Chord::poll_timeout),
        };
        let Due {
            links,
            validator,
            chord,
        } = self.due;
        let timers = [links, validator, chord, self.relaying.poll_timeout()];
        let next = timers.into_iter().flatten().min();
        next.unwrap_or_else(|| Instant::now() + HOUSEKEEPING)
    }

    /// Whatever input has made due since is found with the next look at the timers.
    fn handle_timeouts(&mut self, now: Instant) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.due.links) {
            self.links.handle_timeout(now);
        }
        if is_due(self.due.validator) {
            self.validator.handle_timeout(now);
        }
        if let Some(chord) = &mut self.chord
            && is_due(self.due.chord)
        {
            chord.handle_timeout(now);
        }
    }

    fn keep_house(&mut self, now: Instant) {
        let links = &self.links;
        self.network.tidy(now, || links.addresses());
        self.hellos_given
            .retain(|_, given| now < *given + HELLO_PAUSE);
        self.end_overdue(now);
        self.effort.tidy(now);
        self.tell_joining(now);
        self.look_after_records(now);
        self.punch(now);
        self.report_returns();
        match self.membership.certificate.role() {
            Role::Leaf => self.look_after_parents(now),
            Role::Router => {
                self.tell_leaves(now);
                self.renew_registrations(now);
                self.hand_over(now);
            }
        }
    }

    /// Moves everything that one part has for another, until nobody has anything.
    fn drain(&mut self, now: Instant) {
        self.pull_messages(now);
        loop {
            let mut moved = false;
            while let Some(event) = self.links.poll_event() {
                self.handle_link_event(now, event);
                moved = true;
            }
            moved |= self.drain_chord(now);
            moved |= self.pass_on(now);
            while let Some((address, ping)) = self.validator.poll_transmit() {
                self.send_ping(address, ping);
                moved = true;
            }
            while let Some(member) = self.validator.poll_hello_wanted() {
                if self.links.is_up(&member) {
                    self.links.send(now, &member, LinkMessage::HelloWanted);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        self.transmit(now);
    }

    /// Packets to one address leave together, as far as they follow each other.
    pub(super) fn transmit(&mut self, now: Instant) {
        let mut next = self.links.poll_transmit(now);
        while let Some((address, packet)) = next.take() {
            let mut packets = vec![packet];
            while packets.len() < OUTPUT_BATCH {
                next = self.links.poll_transmit(now);
                match next.take_if(|(to, _)| *to == address) {
                    Some((_, packet)) => packets.push(packet),
                    None => break,
                }
            }
            if let Address::Relay(relay) = address {
                for packet in packets {
                    self.send_by_relay(now, relay, packet);
                }
            } else if self.network.send(now, &address, packets, &self.outcomes) {
                self.links.abandon_path(now, &address);
            }
            if next.is_none() {
                next = self.links.poll_transmit(now);
            }
        }
    }

    /// Begins a link if there is none, for which a leaf has to be found first; true if there is one
    /// or one is on its way.
    pub(super) fn link_to(&mut self, now: Instant, certificate: &Certificate) -> bool {
        let member = certificate.member();
        if !self.links.knows(&member) {
            let mut addresses = self.network.dial_addresses(certificate);
            addresses.extend(self.ways_through_parents(certificate));
            self.links.connect(now, certificate, addresses);
            if certificate.role() == Role::Leaf && self.search(now, certificate) {
                return true;
            }
        }
        self.links.knows(&member)
    }
}

pub(super) fn ring_key_of(directory: &Directory, member: &MemberId) -> Option<RingKey> {
    directory.cached(member)?.ring_key()
}

/// Randomness from the operating system; without it nothing here may run.
fn validator(identity: &Identity, network: &Network, links: &Links) -> Validator {
    let mut validator = Validator::new(identity.member(), random_seed());
    let own = network.addresses().into_iter();
    validator.set_own_addresses(own.map(|descriptor| descriptor.address).collect());
    validator.set_quotas(links.quotas().clone());
    if network.is_hidden() {
        validator.hide();
    }
    validator
}

fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    if let Err(error) = getrandom::fill(&mut seed) {
        // Guessable challenges and session numbers would be worse than no member at all.
        tracing::error!(%error, "the operating system gave no random bytes");
        std::process::abort();
    }
    seed
}
