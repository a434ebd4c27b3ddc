//! [`RingSim`]: members of a ring on a simulated network.

mod attacked;
mod checked;
mod nodes;
mod records;
mod routes;
mod stated;
mod tallies;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_overlay::{Chord, Event, LookupId, Membership, Message, RingKey, Snapshot};

use crate::adversary::{Adversary, Reaction};
use crate::limits::{MAX_STEPS, MAX_STEPS_AT_ONCE};
use crate::load::Load;
use crate::network::{Happening, Link, Network};
use crate::report::{Check, Failure, LookupResult, RingConfig};
use crate::seed::spread;
use crate::trace::Trace;
use crate::trust::{MemberOf, Registry};
use nodes::Nodes;
use stated::Stated;

/// The id of the simulated ring: the keys of its members derive from it.
const RING: [u8; 32] = [7; 32];

#[derive(Debug)]
struct Node {
    chord: Option<Chord>,
    /// What survives a crash: the members this one knew.
    persisted: Vec<RingKey>,
    /// The earliest wake-up that is under way.
    wake: Option<Duration>,
    starts: u64,
    /// The count of starts that the member states, which survives a crash, too.
    incarnation: u32,
    /// The state when it last changed.
    shown: Option<Snapshot>,
}

/// A ring of members on a simulated network.
///
/// - Commands: [`add`](Self::add), [`start`](Self::start), [`join`](Self::join),
///   [`crash`](Self::crash), [`restart`](Self::restart), [`leave`](Self::leave),
///   [`lookup`](Self::lookup), [`divide`](Self::divide), [`set_check`](Self::set_check),
///   [`set_link`](Self::set_link).
/// - Time: [`step`](Self::step), [`run_for`](Self::run_for), [`run_until`](Self::run_until).
/// - Getters: the rest.
#[derive(Debug)]
pub struct RingSim {
    seed: u64,
    config: RingConfig,
    base: Instant,
    rng: StdRng,
    network: Network<RingKey, Vec<u8>>,
    nodes: Nodes,
    steps: u64,
    steps_at_once: u64,
    /// How often a member's state changed, and up to which change the invariant was checked.
    changes: u64,
    checked: u64,
    formed: bool,
    trace: Trace,
    /// Whether the trace also has what each member sends, and each of its events.
    traces_output: bool,
    registry: Arc<Registry>,
    adversary: Adversary,
    convicted: BTreeMap<RingKey, Duration>,
    /// When each joined first.
    joined: BTreeMap<RingKey, Duration>,
    messages: u64,
    bytes: u64,
    /// How many messages each has sent, and how many have come to it.
    traffic: BTreeMap<RingKey, (u64, u64)>,
    running: BTreeMap<(RingKey, LookupId), RingKey>,
    results: Vec<LookupResult>,
    records: Vec<Event>,
    routes: Vec<(RingKey, Event)>,
    /// When each member first heard the owner's latest statement.
    heard: BTreeMap<RingKey, Duration>,
    stated: Stated,
}

impl RingSim {
    /// An empty ring. Everything that happens follows from `seed` and the commands.
    #[must_use]
    pub fn new(seed: u64, config: RingConfig) -> RingSim {
        let base = Instant::now();
        let registry = Registry::new(seed, base);
        RingSim {
            seed,
            base,
            adversary: Adversary::new(&registry, config.overlay.group),
            registry,
            convicted: BTreeMap::new(),
            joined: BTreeMap::new(),
            messages: 0,
            bytes: 0,
            traffic: BTreeMap::new(),
            rng: StdRng::from_seed(spread(seed, 0)),
            network: Network::new(config.link.clone()),
            config,
            nodes: Nodes::default(),
            steps: 0,
            steps_at_once: 0,
            changes: 0,
            checked: 0,
            formed: false,
            trace: Trace::default(),
            traces_output: false,
            running: BTreeMap::new(),
            results: Vec::new(),
            records: Vec::new(),
            routes: Vec::new(),
            heard: BTreeMap::new(),
            stated: Stated::default(),
        }
    }

    /// Adds a machine, not running yet, and gives the key that belongs to its address.
    pub fn add(&mut self) -> RingKey {
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let ip = Ipv4Addr::from(0x0a00_0001_u32.saturating_add(number));
        let mut nonce = [0; 16];
        let source = self
            .seed
            .to_be_bytes()
            .into_iter()
            .chain(number.to_be_bytes());
        nonce
            .iter_mut()
            .zip(source)
            .for_each(|(to, from)| *to = from);
        let key = RingKey::derive(&RING, &nonce, SocketAddr::from((ip, 4000)));
        let node = Node {
            chord: None,
            persisted: Vec::new(),
            wake: None,
            starts: 0,
            incarnation: 0,
            shown: None,
        };
        self.nodes.insert(key, node);
        self.registry.admit(key);
        key
    }

    /// Starts a machine as the first member of the ring.
    pub fn start(&mut self, key: RingKey) {
        self.boot(key, |chord, now, _| chord.start_ring(now));
    }

    /// Starts a machine, which joins through `bootstraps`.
    pub fn join(&mut self, key: RingKey, bootstraps: &[RingKey]) {
        self.boot(key, |chord, now, _| chord.join(now, bootstraps));
    }

    /// Stops a machine without a word. What it had persisted stays.
    pub fn crash(&mut self, key: RingKey) {
        if let Some(node) = self.nodes.get_mut(&key)
            && let Some(chord) = node.chord.take()
        {
            node.persisted = chord.known_members();
            node.wake = None;
            self.adversary.misses(&key);
            self.trace.add(b"crash");
            self.trace.add(key.as_bytes());
            self.running.retain(|(from, _), _| *from != key);
            self.changes += 1;
        }
    }

    /// Starts a crashed machine again, with the same key and what it had persisted.
    pub fn restart(&mut self, key: RingKey) {
        self.restart_with(key, &[]);
    }

    /// The same, with further members that it has been told of.
    pub fn restart_with(&mut self, key: RingKey, told: &[RingKey]) {
        self.boot(key, |chord, now, persisted| {
            let known: Vec<RingKey> = told.iter().chain(persisted).copied().collect();
            chord.resume(now, &known);
        });
    }

    /// Sets a machine's clock ahead by so many seconds.
    pub fn set_clock(&mut self, key: RingKey, ahead: u64) {
        self.registry.set_clock(key, ahead);
    }

    /// Has a member leave; false if it refused.
    pub fn leave(&mut self, key: RingKey) -> bool {
        let now = self.instant();
        self.with(key, |chord| chord.leave(now).is_ok())
            .unwrap_or(false)
    }

    /// Has a member look up `target`; the result will be among
    /// [`take_results`](Self::take_results). False if the member does not run or refused.
    pub fn lookup(&mut self, from: RingKey, target: RingKey) -> bool {
        let now = self.instant();
        let Some(node) = self.nodes.get_mut(&from) else {
            return false;
        };
        let Some(Ok(id)) = node.chord.as_mut().map(|chord| chord.lookup(now, target)) else {
            return false;
        };
        self.running.insert((from, id), target);
        self.with(from, |_| ());
        true
    }

    /// Divides the network into parts, or, with no parts, makes it whole.
    pub fn divide(&mut self, parts: BTreeMap<RingKey, usize>) {
        self.network.divide(parts);
    }

    /// The same in one direction: members hear those in their own part and in later ones.
    pub fn divide_one_way(&mut self, parts: BTreeMap<RingKey, usize>) {
        self.network.divide_one_way(parts);
    }

    /// Changes what is asserted from now on.
    pub fn set_check(&mut self, check: Check) {
        self.config.check = check;
    }

    /// Changes how messages travel from now on.
    pub fn set_link(&mut self, link: Link) {
        self.network.set_link(link);
    }

    /// Has the members run on machines that take time, from now on.
    pub fn set_load(&mut self, load: Load) {
        self.network.set_load(load);
    }

    /// For how long the busiest machine is busy with what has arrived.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.network.busy()
    }

    /// Lets the next thing happen. False if nothing is left to happen.
    ///
    /// # Errors
    ///
    /// When the invariant does not hold afterwards, or the run does not get on.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.check()?;
        let before = self.network.now();
        let Some(happening) = self.network.advance() else {
            return Ok(false);
        };
        self.steps += 1;
        let still = before == self.network.now();
        self.steps_at_once = if still { self.steps_at_once + 1 } else { 0 };
        if self.steps > MAX_STEPS || self.steps_at_once > MAX_STEPS_AT_ONCE {
            return Err(self.failure("the run does not get on".to_owned()));
        }
        let now = self.instant();
        match happening {
            Happening::Arrival { from, to, message } => {
                let decoded = Message::decode(&message)
                    .map_err(|error| self.failure(format!("{from:?} sent nonsense: {error}")))?;
                self.note(b'm', &to, &message);
                self.messages += 1;
                self.traffic.entry(to).or_default().1 += 1;
                self.bytes += u64::try_from(message.len()).unwrap_or(0);
                match self.adversary.react(to, from, &decoded) {
                    Reaction::Honest => {
                        self.with(to, |chord| chord.handle_message(now, from, decoded));
                    }
                    Reaction::Nothing => {}
                    Reaction::Answer(answer) => self.say(to, vec![(from, *answer)]),
                    Reaction::Besides(said) => {
                        self.with(to, |chord| chord.handle_message(now, from, decoded));
                        self.say(to, said);
                    }
                    Reaction::Instead(said) => self.say(to, said),
                }
            }
            Happening::Busy => return Ok(true),
            Happening::Timer(key) => {
                let Some(node) = self.nodes.get_mut(&key) else {
                    return Ok(true);
                };
                if node.wake.is_some_and(|wake| wake <= self.network.now()) {
                    node.wake = None;
                }
                self.note(b't', &key, &[]);
                self.with(key, |chord| chord.handle_timeout(now));
            }
        }
        self.check()?;
        Ok(true)
    }

    /// Lets `time` pass.
    ///
    /// # Errors
    ///
    /// When a step fails.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.now() + time;
        while self.network.next_at().is_some_and(|next| next <= end) {
            self.step()?;
        }
        self.network.idle_until(end);
        self.look_at_all()
    }

    /// Runs until `done` holds, which is asked after every change of a member's state, and gives
    /// the time it took.
    ///
    /// # Errors
    ///
    /// When a step fails, or `done` does not hold within `limit`; the message has `done`'s last
    /// complaint.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&RingSim) -> Result<(), String>,
    ) -> Result<Duration, Failure> {
        let start = self.now();
        let mut complaint = done(self);
        while complaint.is_err() {
            if self
                .network
                .next_at()
                .is_none_or(|next| next > start + limit)
            {
                let what = complaint.err().unwrap_or_default();
                return Err(self.failure(format!("not reached within {limit:?}: {what}")));
            }
            let results = self.results.len();
            let changes = self.changes;
            self.step()?;
            if self.changes != changes || self.results.len() != results {
                complaint = done(self);
            }
        }
        self.look_at_all()?;
        Ok(self.now() - start)
    }

    /// The virtual time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.network.now()
    }

    /// How many things happened so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Has the trace hold from now on what comes out of each member, too: messages with sender,
    /// receiver, bytes and virtual time, and events, all in order. Costs a tenth of the speed.
    pub fn trace_output(&mut self) {
        self.traces_output = true;
    }

    /// The trace of the run so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.trace
    }

    /// Zave's r: entries of a successor list.
    #[must_use]
    pub fn r(&self) -> usize {
        self.config.overlay.successors
    }

    /// The running machines that are members of the ring, by key.
    #[must_use]
    pub fn members(&self) -> Vec<RingKey> {
        let members = self
            .snapshots()
            .into_iter()
            .filter(|s| s.state == Membership::Member);
        members.map(|snapshot| snapshot.key).collect()
    }

    /// The state of every running machine, by key.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let running = self.nodes.values().filter(|node| node.chord.is_some());
        running.filter_map(|node| node.shown.clone()).collect()
    }

    /// One running machine.
    #[must_use]
    pub fn chord(&self, key: &RingKey) -> Option<&Chord> {
        self.nodes.get(key).and_then(|node| node.chord.as_ref())
    }

    /// Whether there have been r + 1 principals, so that the full invariant is asserted.
    #[must_use]
    pub fn formed(&self) -> bool {
        self.formed
    }

    /// How many lookups have no result yet.
    #[must_use]
    pub fn lookups_running(&self) -> usize {
        self.running.len()
    }

    /// How many messages arrived so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// How many messages a member has sent so far, and how many have come to it.
    #[must_use]
    pub fn traffic_of(&self, key: &RingKey) -> (u64, u64) {
        self.traffic.get(key).copied().unwrap_or_default()
    }

    /// The results of lookups since this was last called.
    pub fn take_results(&mut self) -> Vec<LookupResult> {
        std::mem::take(&mut self.results)
    }

    /// How many bytes they had together, encoded, without what links and networks add.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The state messages under way: who answered, to whom, and with which successors. A crash must
    /// leave the receiver a live successor after it has taken such an answer, too.
    #[must_use]
    pub fn states_under_way(&self) -> Vec<(RingKey, RingKey, Vec<RingKey>)> {
        let decoded = self
            .network
            .under_way()
            .map(|(from, to, m)| (from, to, Message::decode(m)));
        decoded
            .filter_map(|(from, to, message)| match message {
                Ok(Message::State { successors, .. }) => Some((from, to, successors)),
                _ => None,
            })
            .collect()
    }

    /// A failure at this point of the run.
    #[must_use]
    pub fn failure(&self, what: String) -> Failure {
        Failure {
            seed: self.seed,
            at: self.now(),
            step: self.steps,
            what,
        }
    }

    fn instant(&self) -> Instant {
        self.base + self.network.now()
    }

    fn boot(&mut self, key: RingKey, command: impl FnOnce(&mut Chord, Instant, &[RingKey])) {
        let now = self.instant();
        let overlay = self.config.overlay.clone();
        let seed = self.seed;
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.chord.is_none()) else {
            return;
        };
        node.starts += 1;
        let mut bytes = spread(seed, node.starts);
        bytes
            .iter_mut()
            .rev()
            .zip(key.as_bytes())
            .take(16)
            .for_each(|(to, from)| *to = *from);
        let Ok(mut chord) = Chord::new(key, overlay, bytes) else {
            return;
        };
        if self.config.credentials {
            node.incarnation += 1;
            let credentials = MemberOf::new(&self.registry, key);
            chord = chord.with_credentials(Box::new(credentials), node.incarnation);
        }
        command(&mut chord, now, &node.persisted);
        node.chord = Some(chord);
        self.adversary.sees(key);
        self.note(b's', &key, &[]);
        self.changes += 1;
        self.with(key, |_| ());
    }

    /// Does something with a running machine, and then what the run-loop contract asks for.
    fn with<T>(&mut self, key: RingKey, act: impl FnOnce(&mut Chord) -> T) -> Option<T> {
        let node = self.nodes.get_mut(&key)?;
        let chord = node.chord.as_mut()?;
        let result = act(chord);
        if !shows(&node.shown, chord) {
            node.shown = Some(chord.snapshot());
            self.changes += 1;
        }
        while let Some(transmit) = chord.poll_transmit() {
            if self.adversary.keeps_back(&key, &transmit.message) {
                continue;
            }
            if self.config.check != Check::Nothing && self.adversary.behaviour(&key).is_none() {
                self.stated.take_in(key, &transmit.message);
            }
            self.traffic.entry(key).or_default().0 += 1;
            let bytes = transmit.message.encode();
            if self.traces_output {
                let now = self.network.now();
                self.trace.note(b'o', now, &key, transmit.to.as_bytes());
                self.trace.add(&bytes);
            }
            self.network.send(&mut self.rng, key, transmit.to, bytes);
        }
        while let Some(event) = chord.poll_event() {
            if self.traces_output {
                let (now, text) = (self.network.now(), format!("{event:?}"));
                self.trace.note(b'e', now, &key, text.as_bytes());
            }
            if let Event::Convicted { member, .. } = event {
                let now = self.network.now();
                self.convicted.entry(member).or_insert(now);
            }
            match event {
                Event::StartedOver(count) => node.incarnation = count,
                Event::Joined => {
                    self.joined.entry(key).or_insert(self.network.now());
                }
                Event::RecordStored { .. }
                | Event::RecordFound { .. }
                | Event::RecordFailed { .. }
                | Event::Counted { .. }
                | Event::Tallied { .. }
                | Event::TallyFailed { .. } => self.records.push(event),
                Event::Routed { .. } | Event::RouteDone { .. } | Event::RouteFailed { .. } => {
                    self.routes.push((key, event));
                }
                Event::Statement(_) => {
                    self.heard.insert(key, self.network.now());
                }
                event => collect(key, event, &mut self.running, &mut self.results),
            }
        }
        if let Some(timeout) = chord.poll_timeout() {
            let at = timeout.saturating_duration_since(self.base);
            if node.wake.is_none_or(|wake| at < wake) {
                node.wake = Some(at);
                self.network.wake(at, key);
            }
        }
        Some(result)
    }

    /// What a traitor says, if it runs.
    fn say(&mut self, traitor: RingKey, said: Vec<(RingKey, Message)>) {
        let node = self.nodes.get(&traitor);
        if node.is_some_and(|node| node.chord.is_some()) {
            for (to, message) in said {
                let bytes = message.encode();
                self.network.send(&mut self.rng, traitor, to, bytes);
            }
        }
    }

    fn note(&mut self, what: u8, key: &RingKey, bytes: &[u8]) {
        self.trace.note(what, self.network.now(), key, bytes);
    }
}

/// Whether `shown` is still the state of the machine; without a copy, because it is asked at every
/// step.
fn shows(shown: &Option<Snapshot>, chord: &Chord) -> bool {
    shown.as_ref().is_some_and(|shown| {
        shown.state == chord.state()
            && shown.predecessor == chord.predecessor()
            && shown.successors == chord.successors()
    })
}

fn collect(
    from: RingKey,
    event: Event,
    running: &mut BTreeMap<(RingKey, LookupId), RingKey>,
    results: &mut Vec<LookupResult>,
) {
    let (id, result) = match event {
        Event::LookupDone {
            id,
            target,
            owner,
            group,
            verified,
            hops,
            questions,
            elapsed,
        } => {
            let result = LookupResult {
                from,
                target,
                owner: Ok(owner),
                group,
                verified,
                hops,
                questions,
                elapsed,
            };
            (id, result)
        }
        Event::LookupFailed { id, target, reason } => {
            let result = LookupResult {
                from,
                target,
                owner: Err(reason),
                group: Vec::new(),
                verified: false,
                hops: Vec::new(),
                questions: 0,
                elapsed: Duration::ZERO,
            };
            (id, result)
        }
        _ => return,
    };
    running.remove(&(from, id));
    results.push(result);
}
