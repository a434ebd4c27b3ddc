//! [`Chord`]: one member's part of the ring. Input comes in and output goes out here; the work is
//! in `ring`, `lookup` and `finger`.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::config::{Config, ConfigError};
use crate::credentials::Credentials;
use crate::event::{Counters, Event, Membership, Snapshot, Transmit};
use crate::finger::{Finger, Fingers};
use crate::group::neighbours::Neighbours;
use crate::group::witness::Witnessed;
use crate::key::{Offset, RingKey};
use crate::limits::{MAX_DOUBT, MAX_EXTENSIONS, MAX_OUTPUT, MAX_PERSISTED};
use crate::lookup::Lookups;
use crate::message::{Message, RequestId};
use crate::peers::Peers;
use crate::record::{Keeping, Operations};
use crate::request::{Purpose, Request, Requests};
use crate::ring::Ring;
use crate::route::Routing;

/// One member of the ring, without I/O: see the run-loop contract of the crate.
///
/// - Commands: [`start_ring`](Self::start_ring), [`join`](Self::join), [`resume`](Self::resume),
///   [`lookup`](Self::lookup), [`put`](Self::put), [`get`](Self::get), [`route`](Self::route),
///   [`leave`](Self::leave).
/// - Input: [`handle_message`](Self::handle_message),
///   [`handle_unreachable`](Self::handle_unreachable), [`handle_timeout`](Self::handle_timeout).
/// - Output: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout), in this order after each command and each input.
/// - Getters: the rest.
#[derive(Debug)]
pub struct Chord {
    pub(crate) me: RingKey,
    pub(crate) config: Config,
    pub(crate) rng: StdRng,
    /// What the caller's randomness was: starts come from it.
    pub(crate) seed: [u8; 32],
    pub(crate) ring: Ring,
    pub(crate) lookups: Lookups,
    pub(crate) fingers: Fingers,
    pub(crate) neighbours: Neighbours,
    pub(crate) witnessed: Witnessed,
    pub(crate) keeping: Keeping,
    pub(crate) operations: Operations,
    pub(crate) routing: Routing,
    pub(crate) credentials: Option<Box<dyn Credentials>>,
    pub(crate) peers: Peers,
    pub(crate) requests: Requests,
    pub(crate) counters: Counters,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

impl Chord {
    /// A member with the key `me`, outside the ring. `seed` must differ from run to run.
    ///
    /// # Errors
    ///
    /// When a field of `config` is out of range.
    pub fn new(me: RingKey, config: Config, seed: [u8; 32]) -> Result<Chord, ConfigError> {
        config.validate()?;
        let mut rng = StdRng::from_seed(seed);
        let requests = Requests::new(rng.next_u64());
        Ok(Chord {
            me,
            config,
            rng,
            seed,
            ring: Ring::default(),
            lookups: Lookups::default(),
            fingers: Fingers::default(),
            neighbours: Neighbours::default(),
            witnessed: Witnessed::default(),
            keeping: Keeping::default(),
            operations: Operations::default(),
            routing: Routing::default(),
            credentials: None,
            peers: Peers::default(),
            requests,
            counters: Counters::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    /// Gives the member what it needs to be part of a group and to verify lookups: without it, it
    /// believes what others say, as Chord does.
    ///
    /// `incarnation` counts the starts of this member, and should be greater than at any earlier
    /// start: a view's number begins with it, and others take a view for newer by its number.
    /// Whoever keeps the count on disk had better take the larger of the next one and the time in
    /// seconds, so that a restored backup is not taken for old.
    #[must_use]
    pub fn with_credentials(
        mut self,
        credentials: Box<dyn Credentials>,
        incarnation: u32,
    ) -> Chord {
        self.credentials = Some(credentials);
        self.begin_start(incarnation);
        self
    }

    /// Takes in one message. The caller has authenticated `from` as a member of the ring.
    pub fn handle_message(&mut self, now: Instant, from: RingKey, message: Message) {
        if from == self.me {
            self.counters.malformed += 1;
            return;
        }
        if self.is_convicted(&from) {
            self.counters.from_convicted += 1;
            return self.tell_the_convicted(now, from);
        }
        if !matches!(message, Message::Leaving) {
            self.peers.trust(&from);
            self.requests.extend(&from, self.config.retries);
        }
        if message.is_routing() {
            return self.handle_routing(now, from, message);
        }
        match message.answers() {
            Some(id) => self.handle_answer(now, from, id, message),
            None if self.peers.may_ask(now, from) => self.handle_request(now, from, message),
            None => self.counters.rate_limited += 1,
        }
    }

    /// The link layer gave up on `peer`: its open requests count as unanswered at once, unless this
    /// member is overloaded.
    pub fn handle_unreachable(&mut self, now: Instant, peer: RingKey) {
        // Where everything is late, so are handshakes: the requests' own time limits decide.
        if self.doubt() < 2.0 {
            self.gone(now, peer);
        }
    }

    /// Nothing is expected of `peer` any more.
    pub(crate) fn gone(&mut self, now: Instant, peer: RingKey) {
        for request in self.requests.take_to(&peer) {
            self.unanswered(now, &request);
        }
        if self.ring.successors.first() == Some(&peer) {
            self.ring.stabilise_by(now);
        }
    }

    /// Does what is due at `now`. Call it when the time of [`poll_timeout`](Self::poll_timeout) has
    /// come; at other times it does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (to, purpose) in self.requests.late(now) {
            if let Some(lookup) = purpose.lookup() {
                self.verified_slow(now, lookup, to);
            } else if let Purpose::Fetching(record) = purpose {
                self.fetching_slow(record, to);
            }
        }
        if let Some(due) = self.ring.next_due().filter(|due| *due <= now) {
            let most = self.config.request_timeout.mul_f64(MAX_DOUBT / 2.0);
            self.requests.health.handled(now, due, most);
        }
        for id in self.requests.due(now) {
            self.request_due(now, id);
        }
        self.ring_due(now);
        self.lookups_due(now);
        self.fingers_due(now);
        self.group_due(now);
        self.audits_due(now);
        self.records_due(now);
        self.routes_due(now);
    }

    /// The next message to send, until none is left.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next event, until none is left.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next; none while outside the ring.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [
            self.requests.next_deadline(),
            self.ring.next_due(),
            self.lookups.next_due(),
            self.fingers.next_due(),
            self.neighbours.next_due(),
            self.witnessed.next_audit,
            self.keeping.next_due(),
            self.routing.next_due(),
        ];
        times.into_iter().flatten().min()
    }

    /// This member's key.
    #[must_use]
    pub fn key(&self) -> RingKey {
        self.me
    }

    /// Where this member stands.
    #[must_use]
    pub fn state(&self) -> Membership {
        self.ring.membership
    }

    /// The predecessor; none in a ring of one and outside.
    #[must_use]
    pub fn predecessor(&self) -> Option<RingKey> {
        self.ring.predecessor
    }

    /// The successors, nearest first: at most r, fewer in a small ring, none in a ring of one.
    #[must_use]
    pub fn successors(&self) -> &[RingKey] {
        &self.ring.successors
    }

    /// The members of all fingers, the nearest finger first.
    #[must_use]
    pub fn fingers(&self) -> Vec<RingKey> {
        self.fingers.keys().collect()
    }

    /// The members of this member's group that have answered, itself among them, clockwise.
    #[must_use]
    pub fn group(&self) -> Vec<RingKey> {
        self.own_group().to_vec()
    }

    /// The finger points that a member of a ring with neighbours this far apart looks after,
    /// `spacing` being a share of the ring.
    #[must_use]
    pub fn finger_points(&self, spacing: f64) -> Vec<(Offset, RingKey)> {
        let mut offset = Offset::reaching(2.0 * spacing);
        let mut points = vec![(offset, self.me.plus(offset))];
        while offset != Offset::MAX {
            offset = offset.next();
            points.push((offset, self.me.plus(offset)));
        }
        points
    }

    /// Puts the member into the ring at the place that `state` describes, with these fingers, as if
    /// it had been there for long. For simulations of rings that are too large to be formed one
    /// by one.
    pub fn restore(
        &mut self,
        now: Instant,
        state: &Snapshot,
        fingers: Vec<(Offset, Vec<RingKey>)>,
    ) {
        self.become_member(now, state.predecessor, state.successors.clone());
        let fingers = fingers.into_iter().filter(|(_, group)| !group.is_empty());
        let fingers = fingers.map(|(offset, group)| Finger::new(offset, group, BTreeMap::new()));
        // As if they had been looked up at different times.
        let next = now + self.config.finger_interval.mul_f64(self.rng.random());
        self.fingers.restore(fingers.collect(), next);
    }

    /// The members to persist, so that [`resume`](Self::resume) finds the ring again: neighbours
    /// first, then some of each finger, then others. At most 145.
    #[must_use]
    pub fn known_members(&self) -> Vec<RingKey> {
        let mut members: Vec<RingKey> = Vec::new();
        let neighbours = self
            .ring
            .successors
            .iter()
            .copied()
            .chain(self.ring.predecessor);
        let fingers = self.fingers.entries().iter();
        let of_fingers = fingers.filter_map(|finger| finger.group.get(finger.group.len() / 2));
        for key in neighbours
            .chain(self.neighbours.keys())
            .chain(of_fingers.copied())
            .chain(self.peers.known())
        {
            if key != self.me && !members.contains(&key) {
                members.push(key);
            }
        }
        members.truncate(MAX_PERSISTED);
        members
    }

    /// The part of the state that [`invariant`](crate::invariant) judges.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            key: self.me,
            state: self.ring.membership,
            predecessor: self.ring.predecessor,
            successors: self.ring.successors.clone(),
        }
    }

    /// What was ignored or repeated so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub(crate) fn is_member(&self) -> bool {
        self.ring.membership == Membership::Member
    }

    pub(crate) fn send(&mut self, to: RingKey, message: Message) {
        if self.transmits.len() >= MAX_OUTPUT {
            self.counters.output_dropped += 1;
            return;
        }
        self.transmits.push_back(Transmit { to, message });
    }

    pub(crate) fn emit(&mut self, event: Event) {
        if self.events.len() >= MAX_OUTPUT {
            self.counters.output_dropped += 1;
            return;
        }
        self.events.push_back(event);
    }

    /// Asks `to`, with the repetitions of the configuration.
    pub(crate) fn request(
        &mut self,
        now: Instant,
        to: RingKey,
        purpose: Purpose,
        message: impl FnOnce(RequestId) -> Message,
    ) {
        let id = self.requests.next_id();
        let message = message(id);
        let timeout = self.timeout();
        let deadline = now + timeout;
        let retries_left = self.config.retries;
        self.send(to, message.clone());
        // Only verified lookups, and those for records, can do something about a late answer.
        let patience = self.requests.patience(timeout);
        let late = matches!(
            purpose,
            Purpose::Near(_) | Purpose::Closing(_) | Purpose::Fetching(_)
        );
        let request = Request {
            to,
            message,
            purpose,
            sent: now,
            slow_at: late.then(|| now + patience),
            deadline,
            retries_left,
            extensions_left: MAX_EXTENSIONS,
        };
        self.requests.insert(id, request);
    }

    /// How often longer than configured this member has to wait before it believes that others are
    /// dead: 1 to [`MAX_DOUBT`].
    pub(crate) fn doubt(&self) -> f64 {
        self.requests.health.doubt(self.config.request_timeout)
    }

    /// Time without an answer after which a request is repeated, as things are.
    pub(crate) fn timeout(&self) -> Duration {
        self.config.request_timeout.mul_f64(self.doubt())
    }

    /// `interval`, a quarter more or less at random, so that members do not march in step.
    pub(crate) fn jittered(&mut self, interval: Duration) -> Duration {
        interval.mul_f64(self.rng.random_range(0.75..1.25))
    }

    fn handle_request(&mut self, now: Instant, from: RingKey, message: Message) {
        match message {
            Message::Ping { id } => {
                self.send(
                    from,
                    Message::Pong {
                        id,
                        member: self.is_member(),
                    },
                );
            }
            Message::GetState { id } => self.answer_state(from, id),
            Message::FindOwner { id, target } => self.answer_owner(now, from, id, target),
            Message::Notify => self.handle_notification(now, from),
            Message::StabiliseSoon => self.handle_hint(now, from),
            Message::Leaving => self.handle_leaving(now, from),
            Message::GetNear { id, point } => self.answer_near(from, id, point),
            Message::GetView { id, have } => self.answer_view(now, from, id, have),
            Message::Announce { view } => self.view_came(now, from, view),
            Message::Witness { said } => self.handle_witness(now, &said),
            Message::Evidence { accusation } => self.handle_evidence(now, from, *accusation),
            Message::FalseAccusation { accusation } => {
                self.handle_false_accusation(now, from, *accusation);
            }
            Message::GetCertificates { id, members } => {
                self.answer_certificates(from, id, &members);
            }
            Message::Store { id, record } => self.answer_store(now, from, id, record),
            Message::Fetch { id, point } => self.answer_fetch(now, from, id, point),
            Message::Offer { id, records } => self.answer_offer(from, id, &records),
            Message::Statement { statement } => self.handle_statement(now, from, statement),
            _ => {}
        }
    }

    fn handle_answer(&mut self, now: Instant, from: RingKey, id: RequestId, answer: Message) {
        let Some(request) = self.requests.get(id).filter(|request| request.to == from) else {
            let late = self.requests.health.answered_late(now, from, id);
            self.counters.late += u64::from(late);
            self.counters.unsolicited += u64::from(!late);
            return;
        };
        if !request.purpose.fits(&answer) {
            self.counters.malformed += 1;
            return;
        }
        let Some(request) = self.requests.remove(id) else {
            return;
        };
        self.requests.answered(now, &request, self.config.retries);
        if matches!(answer, Message::Pending { .. }) {
            self.counters.pending += 1;
        }
        match request.purpose {
            Purpose::FromSuccessor => self.successor_answered(now, from, answer),
            Purpose::FromPredecessor => self.successors_predecessor_answered(now, from, answer),
            Purpose::Rectify => self.predecessor_answered(now, &answer),
            Purpose::Join => self.join_answered(now, from, answer),
            Purpose::Hop(lookup) => self.hop_answered(now, lookup, from, answer),
            Purpose::Confirm(lookup) => self.owner_answered(now, lookup, from, &answer),
            Purpose::Contact => self.contact_answered(now, from, answer),
            Purpose::Near(lookup) => self.near_answered(now, lookup, from, Some(answer)),
            Purpose::Closing(lookup) => self.closing_answered(now, lookup, from, Some(answer)),
            Purpose::Nearby(lookup) => self.nearby_answered(now, lookup, from, Some(&answer)),
            Purpose::Certificates(lookup) => {
                self.certificates_answered(now, lookup, &request.message, Some(answer));
            }
            Purpose::Accused => self.accused_answered(now, from, &request.message, Some(answer)),
            Purpose::Storing(record) => self.storing_answered(record, from, Some(&answer)),
            Purpose::Fetching(record) => self.fetching_answered(now, record, from, Some(answer)),
            Purpose::Offered => self.offer_answered(now, from, answer),
            Purpose::Copied => {}
        }
    }

    fn request_due(&mut self, now: Instant, id: RequestId) {
        let deadline = now + self.timeout();
        if let Some(request) = self.requests.repeat(id, deadline) {
            self.counters.repeated += 1;
            self.send(request.to, request.message);
            if let Purpose::Hop(lookup) = request.purpose {
                self.lookup_step(now, lookup);
            }
        } else if let Some(request) = self.requests.remove(id) {
            let health = &mut self.requests.health;
            health.gave_up(id, request.to, request.sent);
            self.unanswered(now, &request);
        }
    }

    /// A request ran out of tries: its member is silent, and whoever asked goes on without it.
    fn unanswered(&mut self, now: Instant, request: &Request) {
        self.counters.unanswered += 1;
        self.peers.suspect(now, request.to);
        self.fingers.remove(&request.to);
        self.neighbour_gone(now, &request.to);
        match request.purpose {
            Purpose::FromSuccessor => self.successor_silent(now, request.to),
            Purpose::FromPredecessor => self.successors_predecessor_dead(now, request.to),
            Purpose::Rectify => self.predecessor_dead(now, request.to),
            Purpose::Join => self.join_failed(now),
            Purpose::Hop(lookup) => self.hop_failed(now, lookup),
            Purpose::Confirm(lookup) => self.owner_silent(now, lookup, request.to),
            Purpose::Contact => {}
            Purpose::Near(lookup) => self.near_answered(now, lookup, request.to, None),
            Purpose::Closing(lookup) => self.closing_answered(now, lookup, request.to, None),
            Purpose::Nearby(lookup) => self.nearby_answered(now, lookup, request.to, None),
            Purpose::Certificates(lookup) => {
                self.certificates_answered(now, lookup, &request.message, None);
            }
            Purpose::Accused => self.accused_answered(now, request.to, &request.message, None),
            Purpose::Storing(record) => self.storing_answered(record, request.to, None),
            Purpose::Fetching(record) => self.fetching_answered(now, record, request.to, None),
            Purpose::Offered | Purpose::Copied => {}
        }
    }
}
