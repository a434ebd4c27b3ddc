//! [`Chord`]: one member's part of the ring, as a switchboard between machines.
//!
//! Each machine is a struct that owns its state and lives in a module of its own. None of them
//! mentions `Chord`, and none holds another. `Chord` takes input to the machine that it is for, and
//! what the machine leaves behind to those that it concerns.
//!
//! ```text
//!  caller                 Chord                        machines and their states
//!  ------                 -----                        -------------------------
//!  commands   ------->  commands.rs  --+  ring    Ring: Outside, Joining, Member; Operation:
//!  handle_message --->  chord.rs       |            Idle, FromSuccessor, FromPredecessor, Rectify
//!  handle_timeout --->  chord.rs       |  group   Neighbours (views, Starts), Witness, Audits
//!                                      +->finger  Fingers: which finger is next
//!                       effects.rs     |  lookup  Lookups: plain; verified: Iterate, Finalise
//!                       (settle) <-----+  record  Operations (put, get), Keeping
//!                                      |  route   Routing: Sent, Accepted, Passed, Answered
//!  poll_transmit, poll_event <-------  Output
//!
//!  lent for a step:  Cx     time, chance, Trust, Peers, Requests, Output
//!  lent to read:     Known  pointers of Ring, Neighbours, Fingers
//! ```
//!
//! A machine's step sends messages, emits events, and leaves an [`Effect`](crate::effect::Effect)
//! for what is another's to do. [`settle`](Chord::settle) takes effects where they belong until
//! none is left. It goes depth first: all that follows from an effect comes before the next one.
//!
//! # One message
//!
//! ```text
//!  handle_message -> from itself: malformed
//!                 -> from a convicted member: notify_convicted shows it the proof, at times
//!    (all but Leaving are a sign of life: peers.trust, requests.extend)
//!                 -> through the ring: Routing
//!                 -> an answer: handle_answer -> request not open: late or unsolicited
//!                                             -> unfit for its Purpose: malformed, stays open
//!                                             -> request_ended, with the answer
//!                 -> a request too many (peers.may_ask): rate_limited
//!                 -> a request: handle_request -> Ping, FindOwner, GetNear, GetCertificates:
//!                                                 answered from what is known
//!                                              -> Statement: news. Leaving: handle_leaving
//!                                              -> Announce: view_came
//!                                              -> all others: the machine that answers it
//!  handle_unreachable -> gone -> unanswered, for each open request to it
//!                     -> nothing, if this member is overloaded
//!  handle_timeout, in this order:
//!    requests.late -> Lookups::slow, fetching_slow, reading_slow: they ask another beside it
//!    requests.due  -> request_due -> tries left: sent again; a plain lookup asks another, too
//!                                 -> none left: unanswered: suspect, no finger, no neighbour;
//!                                    then request_ended, without an answer
//!    ring.due      -> a round of ring maintenance
//!    lookups.due   -> Lookups::handle_due -> TimedOut; a plain one may begin again
//!    fingers, group, audits, keeping, counts, routes: what is due of each
//!  request_ended  -> the machine that its Purpose names: Ring, Lookups, Neighbours, Witness,
//!                    Operations, Keeping
//!                 -> Contact, with a view: view_came
//!  view_came      -> Witness::compare -> settle -> Neighbours::take_view
//! ```
//!
//! `Purpose` (`request.rs`) says what a request is for, and so which machine gets its answer.
//!
//! # One lookup
//!
//! From its caller to its answer, in eight files with this one, to be read in this order.
//!
//! 1. This file: `request_ended` and `handle_timeout` take answers and deadlines to the lookups.
//! 2. `chord/commands.rs`: [`lookup`](Chord::lookup) makes an `Inquiry`. Other machines leave
//!    theirs as `Effect::LookUp`; audits and the look for gaps in the own group have `Chord` start
//!    theirs (`look_up`).
//! 3. `lookup/inquiry.rs`: what an `Inquiry` and a `LookupEnd` hold: who asks, the point, the rule,
//!    and where to begin; what was found.
//! 4. `lookup/mod.rs`: `Lookups::start` hands it to the plain or the verified lookups, or refuses
//!    one too many; `answered`, `slow` and `handle_due` go to the lookup that they are for.
//! 5. `lookup/verified.rs`: begins attempts, judges and ends them. The drawing has all arms.
//! 6. `lookup/iterate.rs`: from group to group to the target.
//! 7. `lookup/finalise.rs`: all around the target are asked.
//! 8. `chord/effects.rs`: `lookup_ended` takes the `LookupEnd`, which `done` or `fail` has left as
//!    an effect, to the asker in it: here the event `LookupDone` or `LookupFailed`.
//!
//! Every question leaves by `Cx::request` (`context.rs`). It puts the message into `Output`, whose
//! messages [`poll_transmit`](Chord::poll_transmit) gives, and opens a `Request` with its
//! `Purpose` and a deadline. For `Near` and `FinalView` it also notes when the answer will be
//! late. The member that is asked answers from what it knows (`lookup/answer.rs`).
//!
//! Three ends have no `LookupEnd`. `Lookups::cancel` forgets the lookup of the own place when this
//! member founds a ring, or joins again. Where too many run, `lookup` returns an error. `look_up`
//! then starts nothing, and of its askers only a routed message is notified.
//!
//! In a router's daemon the caller is `member/core/lookups.rs` of `ringway-node`: it begins what
//! services want, and makes the event a signal to them. A leaf's asks its parents.

use std::time::Instant;

use crate::config::{Config, ConfigError};
use crate::context::Shared;
use crate::credentials::Credentials;
use crate::event::{Event, Transmit};
use crate::finger::{Fingers, own_group_inquiry};
use crate::group::audit::Audits;
use crate::group::neighbours::Neighbours;
use crate::group::witness::{Witness, notify_convicted, send_convictions};
use crate::key::RingKey;
use crate::known::Known;
use crate::limits::MAX_HEALTH_MULTIPLIER;
use crate::lookup::inquiry::{Asker, Inquiry, Rule};
use crate::lookup::{Lookups, answer_certificates, answer_near, answer_owner};
use crate::message::{Message, RequestId};
use crate::news;
use crate::record::{Keeping, Operations};
use crate::request::{Purpose, Request};
use crate::ring::Ring;
use crate::route::Routing;
use crate::tally;
use crate::view::View;

/// What a member knows of the ring, to read beside the other machines.
macro_rules! known {
    ($chord:ident) => {
        Known {
            pointers: $chord.ring.pointers(),
            group: &$chord.neighbours,
            fingers: &$chord.fingers,
        }
    };
}

/// What the machines share, for one step of one of them.
macro_rules! cx {
    ($chord:ident, $now:expr) => {
        $chord.shared.cx($now, $chord.ring.is_member())
    };
}

mod commands;
mod effects;
mod getters;
mod tallies;

/// One member of the ring, without I/O: see the run-loop contract of the crate.
///
/// - Commands: [`start_ring`](Self::start_ring), [`join`](Self::join), [`resume`](Self::resume),
///   [`lookup`](Self::lookup), [`put`](Self::put), [`get`](Self::get), [`count`](Self::count),
///   [`tally`](Self::tally), [`route`](Self::route), [`leave`](Self::leave).
/// - Input: [`handle_message`](Self::handle_message),
///   [`handle_unreachable`](Self::handle_unreachable), [`handle_timeout`](Self::handle_timeout).
/// - Output: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout), in this order after each command and each input.
/// - Getters: the rest.
#[derive(Debug)]
pub struct Chord {
    /// What all machines work with.
    shared: Shared,
    ring: Ring,
    lookups: Lookups,
    fingers: Fingers,
    neighbours: Neighbours,
    witness: Witness,
    audits: Audits,
    keeping: Keeping,
    operations: Operations,
    counts: tally::Keeping,
    tallies: tally::Operations,
    routing: Routing,
}

impl Chord {
    /// A member with the key `me`, outside the ring. `seed` must differ from run to run.
    ///
    /// # Errors
    ///
    /// When a field of `config` is out of range.
    pub fn new(me: RingKey, config: Config, seed: [u8; 32]) -> Result<Chord, ConfigError> {
        config.validate()?;
        let group = config.group;
        Ok(Chord {
            shared: Shared::new(me, config, seed),
            ring: Ring::new(me),
            lookups: Lookups::default(),
            fingers: Fingers::default(),
            neighbours: Neighbours::new(me, group, seed),
            witness: Witness::default(),
            audits: Audits::default(),
            keeping: Keeping::default(),
            operations: Operations::default(),
            counts: tally::Keeping::default(),
            tallies: tally::Operations::default(),
            routing: Routing::default(),
        })
    }

    /// Gives the member what it needs to be part of a group and to verify lookups: without it, it
    /// believes what others say, as Chord does.
    ///
    /// `incarnation` counts the starts of this member, and should be greater than at any earlier
    /// start: a view's number begins with it, and others take a view for newer by its number. A
    /// caller that keeps the count on disk had better take the larger of the next one and the time
    /// in seconds, so that a restored backup is not taken for old.
    #[must_use]
    pub fn with_credentials(
        mut self,
        credentials: Box<dyn Credentials>,
        incarnation: u32,
    ) -> Chord {
        self.shared.trust.give(credentials);
        self.neighbours.begin_start(incarnation);
        self
    }

    /// Takes in one message. The caller has authenticated `from` as a member of the ring.
    pub fn handle_message(&mut self, now: Instant, from: RingKey, message: Message) {
        if from == self.shared.me {
            self.shared.out.counters.malformed += 1;
            return;
        }
        if self.shared.trust.is_convicted(&from) {
            self.shared.out.counters.from_convicted += 1;
            return notify_convicted(&mut cx!(self, now), from);
        }
        // A sign of life, but not of one that goes: it is not to be asked again.
        if !matches!(message, Message::Leaving) {
            self.shared.peers.trust(&from);
            self.shared
                .requests
                .extend(&from, self.shared.config.retries);
        }
        if message.is_routing() {
            self.routing
                .handle(&mut cx!(self, now), known!(self), from, message);
            return self.settle(now);
        }
        match message.answers() {
            Some(id) => self.handle_answer(now, from, id, message),
            None if self.shared.peers.may_ask(now, from) => self.handle_request(now, from, message),
            None => self.shared.out.counters.rate_limited += 1,
        }
    }

    /// The link layer gave up on `peer`: its open requests count as unanswered at once, unless this
    /// member is overloaded.
    pub fn handle_unreachable(&mut self, now: Instant, peer: RingKey) {
        // Where everything is late, so are handshakes: the requests' own time limits decide.
        if cx!(self, now).health_multiplier() < 2.0 {
            self.gone(now, peer);
        }
    }

    /// Does what is due at `now`. Call it when the time of [`poll_timeout`](Self::poll_timeout) has
    /// come; at other times it does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (to, purpose) in self.shared.requests.late(now) {
            if let Some(lookup) = purpose.lookup() {
                self.lookups
                    .slow(&mut cx!(self, now), known!(self), lookup, to);
            } else if let Purpose::Fetching(record) = purpose {
                self.operations
                    .fetching_slow(&mut cx!(self, now), record, to);
            } else if let Purpose::Reading(tally) = purpose {
                self.tallies.reading_slow(&mut cx!(self, now), tally, to);
            }
            self.settle(now);
        }
        // How late a timer is handled shows how overloaded this machine is.
        if let Some(due) = self.ring.next_due().filter(|due| *due <= now) {
            let most = self
                .shared
                .config
                .request_timeout
                .mul_f64(MAX_HEALTH_MULTIPLIER / 2.0);
            self.shared.requests.health.handled(now, due, most);
        }
        for id in self.shared.requests.due(now) {
            self.request_due(now, id);
        }
        self.ring.due(&mut cx!(self, now), &self.neighbours);
        self.settle(now);
        for id in self.lookups.due(now) {
            self.lookups
                .handle_due(&mut cx!(self, now), known!(self), id);
            self.settle(now);
        }
        self.fingers_due(now);
        self.group_due(now);
        self.audits_due(now);
        self.keeping.due(&mut cx!(self, now), &self.neighbours);
        self.counts.due(&mut cx!(self, now), &self.neighbours);
        self.routes_due(now);
    }

    /// The next message to send, until none is left.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.shared.out.next_transmit()
    }

    /// The next event, until none is left.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.out.next_event()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next; none while outside the ring.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [
            self.shared.requests.next_deadline(),
            self.ring.next_due(),
            self.lookups.next_due(),
            self.fingers.next_due(),
            self.neighbours.next_due(),
            self.audits.next_due(),
            self.keeping.next_due(),
            self.counts.next_due(),
            self.routing.next_due(),
        ];
        times.into_iter().flatten().min()
    }

    /// Nothing is expected of `peer` any more.
    fn gone(&mut self, now: Instant, peer: RingKey) {
        for request in self.shared.requests.take_to(&peer) {
            self.unanswered(now, &request);
        }
        if self.ring.pointers().head() == Some(peer) {
            self.ring.stabilise_by(now);
        }
    }

    fn handle_request(&mut self, now: Instant, from: RingKey, message: Message) {
        match message {
            // Answered while ring maintenance is pending, too: it asks only who lives.
            Message::Ping { id } => {
                let member = self.ring.is_member();
                self.shared.out.send(from, Message::Pong { id, member });
            }
            Message::GetState { id } => self.ring.answer_state(&mut cx!(self, now), from, id),
            Message::FindOwner { id, target } => {
                answer_owner(&mut cx!(self, now), known!(self), from, id, target);
            }
            Message::Notify => self.ring.handle_notification(&mut cx!(self, now), from),
            Message::StabiliseSoon => self.ring.handle_hint(&mut cx!(self, now), from),
            Message::Leaving => self.handle_leaving(now, from),
            Message::GetNear { id, point } => {
                answer_near(&mut cx!(self, now), known!(self), from, id, point);
            }
            Message::GetView { id, have } => {
                self.neighbours
                    .answer_view(&mut cx!(self, now), from, id, have);
            }
            Message::Announce { view } => {
                self.view_came(now, from, view);
            }
            Message::Witness { said } => {
                let cx = &mut cx!(self, now);
                self.witness.handle_witness(cx, &self.neighbours, &said);
            }
            Message::Evidence { accusation } => {
                let cx = &mut cx!(self, now);
                self.witness.handle_evidence(cx, from, *accusation);
            }
            Message::FalseAccusation { accusation } => {
                let cx = &mut cx!(self, now);
                self.witness.handle_false_accusation(cx, from, *accusation);
            }
            Message::GetCertificates { id, members } => {
                answer_certificates(&mut cx!(self, now), from, id, &members);
            }
            Message::Store { id, record } => {
                let cx = &mut cx!(self, now);
                self.keeping
                    .answer_store(cx, &self.neighbours, from, id, record);
            }
            Message::Fetch { id, point } => {
                self.keeping
                    .answer_fetch(&mut cx!(self, now), from, id, point);
            }
            Message::Offer { id, records } => {
                let cx = &mut cx!(self, now);
                self.keeping
                    .answer_offer(cx, &self.neighbours, from, id, &records);
            }
            message @ Message::Count { .. } => {
                let cx = &mut cx!(self, now);
                self.counts
                    .answer_count(cx, &self.neighbours, from, message);
            }
            Message::GetTally { id, point, after } => {
                let cx = &mut cx!(self, now);
                self.counts.answer_tally(cx, from, id, &point, after);
            }
            Message::Statement { statement } => {
                news::handle_statement(&mut cx!(self, now), known!(self), from, statement);
            }
            _ => {}
        }
        self.settle(now);
    }

    fn handle_answer(&mut self, now: Instant, from: RingKey, id: RequestId, answer: Message) {
        let Some(request) = self
            .shared
            .requests
            .get(id)
            .filter(|request| request.to == from)
        else {
            let late = self.shared.requests.health.answered_late(now, from, id);
            self.shared.out.counters.late += u64::from(late);
            self.shared.out.counters.unsolicited += u64::from(!late);
            return;
        };
        // The request stays open: its true answer may still come.
        if !request.purpose.fits(&answer) {
            self.shared.out.counters.malformed += 1;
            return;
        }
        let Some(request) = self.shared.requests.remove(id) else {
            return;
        };
        self.shared
            .requests
            .answered(now, &request, self.shared.config.retries);
        if matches!(answer, Message::Pending { .. }) {
            self.shared.out.counters.pending += 1;
        }
        self.request_ended(now, &request, Some(answer));
    }

    /// A request has its answer, or never will: the part that asked goes on.
    fn request_ended(&mut self, now: Instant, request: &Request, answer: Option<Message>) {
        let from = request.to;
        let cx = &mut cx!(self, now);
        match request.purpose {
            Purpose::FromSuccessor
            | Purpose::FromPredecessor
            | Purpose::Rectify
            | Purpose::Join => {
                self.ring.answered(cx, &self.neighbours, request, answer);
            }
            Purpose::Hop(_)
            | Purpose::Confirm(_)
            | Purpose::Near(_)
            | Purpose::FinalView(_)
            | Purpose::Nearby(_)
            | Purpose::Certificates(_) => {
                self.lookups.answered(cx, known!(self), request, answer);
            }
            Purpose::Contact => match answer {
                Some(Message::ViewIs { view, .. }) => self.view_came(now, from, view),
                Some(answer) => {
                    let pointers = self.ring.pointers();
                    self.neighbours.contact_answered(cx, pointers, from, answer);
                }
                // It is removed as a neighbour already, in `unanswered`.
                None => {}
            },
            Purpose::Accused => {
                self.witness
                    .accused_answered(cx, from, &request.message, answer);
            }
            Purpose::Storing(record) => {
                self.operations
                    .storing_answered(cx, record, from, answer.as_ref());
            }
            Purpose::Fetching(record) => {
                self.operations.fetching_answered(cx, record, from, answer);
            }
            Purpose::Offered => {
                if let Some(answer) = answer {
                    self.keeping.offer_answered(cx, from, answer);
                }
            }
            Purpose::Copied => {}
            Purpose::Counting(tally) => {
                self.tallies
                    .counting_answered(cx, tally, from, answer.as_ref());
            }
            Purpose::Reading(tally) => {
                self.tallies.reading_answered(cx, tally, request, answer);
            }
        }
        self.settle(now);
    }

    fn request_due(&mut self, now: Instant, id: RequestId) {
        let deadline = now + cx!(self, now).timeout();
        if let Some(request) = self.shared.requests.repeat(id, deadline) {
            self.shared.out.counters.repeated += 1;
            let message = request.message.clone();
            self.shared.out.send(request.to, message);
            self.lookups.repeated(&mut cx!(self, now), &request);
            self.settle(now);
        } else if let Some(request) = self.shared.requests.remove(id) {
            let health = &mut self.shared.requests.health;
            health.gave_up(id, request.to, request.sent);
            self.unanswered(now, &request);
        }
    }

    /// A request ran out of tries: its member is silent, and the part that asked goes on without
    /// it.
    fn unanswered(&mut self, now: Instant, request: &Request) {
        self.shared.out.counters.unanswered += 1;
        self.shared.peers.suspect(now, request.to);
        self.fingers.remove(&request.to);
        self.neighbour_gone(now, &request.to);
        self.request_ended(now, request, None);
    }

    /// A member says what its group is.
    fn view_came(&mut self, now: Instant, from: RingKey, view: View) {
        let cx = &mut cx!(self, now);
        if !self.neighbours.accepts(cx, from, &view) {
            return;
        }
        self.witness.compare(cx, &self.neighbours, &view.signed);
        // The author may be convicted by what it said, and then it is no neighbour.
        self.settle(now);
        let cx = &mut cx!(self, now);
        let Some(taken) = self.neighbours.take_view(cx, view) else {
            return;
        };
        if taken.starts {
            self.keeping.offer_to(cx, from);
            send_convictions(cx, from);
        }
        for key in taken.named {
            self.neighbours.consider(cx, key);
        }
    }

    /// `key` is no neighbour any more.
    fn neighbour_gone(&mut self, now: Instant, key: &RingKey) {
        self.neighbours
            .remove(&mut cx!(self, now), self.ring.pointers(), key);
        self.settle(now);
    }

    fn fingers_due(&mut self, now: Instant) {
        if !self.fingers.is_due(&cx!(self, now)) {
            return;
        }
        let groups = self.shared.trust.has_credentials();
        let first = known!(self).first_finger(groups);
        let own = self.neighbours.members();
        self.fingers.look_up_next(&mut cx!(self, now), own, first);
        self.settle(now);
    }

    fn group_due(&mut self, now: Instant) {
        let may_look = self
            .neighbours
            .ask_due(&mut cx!(self, now), self.ring.pointers());
        if may_look && known!(self).has_gaps() {
            self.neighbours.looked_up(&cx!(self, now));
            self.look_up(now, own_group_inquiry(self.shared.me));
        }
        self.neighbours.sign_due(&mut cx!(self, now));
    }

    fn audits_due(&mut self, now: Instant) {
        if let Some(point) = self.audits.due(&mut cx!(self, now))
            && !known!(self).is_everybody()
        {
            let inquiry = Inquiry::new(Asker::Audit, point, Rule::Verified);
            self.look_up(now, inquiry.at_most(1).comparing_all());
        }
    }

    /// Takes the word of a member about itself: it is gone.
    fn handle_leaving(&mut self, now: Instant, from: RingKey) {
        if self.ring.pointers().contains(&from) {
            self.shared.out.emit(Event::MemberDead(from));
        }
        self.fingers.remove(&from);
        self.neighbour_gone(now, &from);
        self.gone(now, from);
        self.routing.forget(&from);
        self.shared.peers.suspect(now, from);
        // The member next before this one need not wait until the one that is gone has not
        // answered; and what that owned is this one's now.
        self.ring.forget_pointer(&mut cx!(self, now), &from);
    }

    fn routes_due(&mut self, now: Instant) {
        self.routing.forwards_due(&mut cx!(self, now), known!(self));
        // Each may need a lookup, which begins before the next message goes.
        while self
            .routing
            .send_next_due(&mut cx!(self, now), known!(self))
        {
            self.settle(now);
        }
        self.routing.arrivals_due(&mut cx!(self, now));
    }
}
