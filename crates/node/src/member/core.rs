//! What all services of a member need: its identity and certificates, links, transports, the
//! validator of addresses, the place in the ring, lookups, and the clock.
//!
//! The core knows no service. What it has for them it leaves as a [`Signal`], and so does a service
//! that has something for another. The run loop takes each with [`Core::next_signal`] and gives it
//! to all services.
//!
//! | in | is |
//! |---|---|
//! | `core/ways.rs` | who is what, and by which way a member is reached |
//! | `core/routers.rs` | messages for routers that may have to be looked up in DNS |
//! | `core/lookups.rs` | lookups in the ring; a leaf's by its parents |
//! | `core/addresses.rs` | our HELLO for one member, and PINGs to addresses of others |
//! | `core/own_hello.rs` | what our HELLO says to whom |
//! | `core/network.rs` | transports and their sessions; QUIC's are made in `core/endpoints.rs` |
//! | `core/effort.rs` | how much work a member's signatures may cost |
//! | `core/hidden.rs` | where packets of a hidden leaf may go |

mod addresses;
mod effort;
mod endpoints;
mod hidden;
mod lookups;
mod network;
mod own_hello;
mod routers;
mod tallies;
mod transports;
mod versions;
mod ways;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_overlay::{Chord, Event as RingEvent, RingKey};
use ringway_transport::quic::MemberDatagram;
use ringway_transport::{Address, MemberId, Pong, Session, Signer as _, Validator};
use tokio::sync::{Notify, mpsc, oneshot};

use self::effort::Effort;
pub(super) use self::hidden::why_no_way;
use self::lookups::Lookups;
pub(super) use self::lookups::{LookupNumber, ParentAnswer};
pub(in crate::member) use self::network::UserRules;
pub(crate) use self::network::{Arrivals, Network, NetworkError};
use self::own_hello::OwnHello;
pub(super) use self::own_hello::{Lent, View};
use self::routers::Unresolved;
pub(crate) use self::transports::listens_at;
use super::answer::{Found, LookupFailed, Reason};
use super::counters::counters;
use crate::certificate::Certificate;
use crate::clock::unix_micros;
use crate::directory::Directory;
use crate::identity::Identity;
use crate::link::{LinkEnd, LinkMessage, Links};
use crate::state::{Membership, State, StateError};

/// Pause between two looks at what gives no sign when it changes: paths of links, and when each
/// member was last heard.
/// The looks of all services fall together, so that an idle member wakes up once for all.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// What a member is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) identity: Identity,
    pub(crate) membership: Membership,
    pub(crate) state: Arc<State>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) network: Network,
    pub(crate) arrivals: Arrivals,
}

/// What one part of the member tells all others.
#[derive(Debug)]
pub(super) enum Signal {
    /// This leaf is to be found and dialled.
    FindLeaf {
        certificate: Box<Certificate>,
        /// What those who wait for it are told if it cannot even be looked for and no link is on
        /// its way; none if they wait all the same.
        otherwise: Option<Reason>,
    },
    /// A leaf cannot be looked for now.
    NoWay { leaf: MemberId, reason: Reason },
    /// A leaf was looked for, and no way leads to it.
    NotFound { leaf: MemberId, reason: Reason },
    /// An address of this member has been proven, or a HELLO of it is new.
    Proven(MemberId),
    /// A PONG has come from this member over QUIC.
    Pong(MemberId, Box<Pong>),
    /// A lookup that [`Core::look_up`] began has ended.
    LookupEnded {
        number: LookupNumber,
        outcome: Result<Found, LookupFailed>,
    },
    /// DNS has answered for a member.
    MemberResolved {
        member: MemberId,
        certificate: Option<Box<Certificate>>,
    },
    /// Memberships may have ended.
    MembershipsChanged,
}

/// What the task tells itself from work done elsewhere.
#[derive(Debug)]
pub(super) enum Outcome {
    /// DNS has answered for a router.
    RouterResolved(RingKey, Option<Box<Certificate>>),
    /// DNS has answered for a member.
    MemberResolved(MemberId, Option<Box<Certificate>>),
    /// A PING over QUIC has been answered.
    Pong(MemberId, Box<Pong>),
    /// A transport has a session for this address, or the reason why it has none.
    Connected(Address, Result<Session, String>),
}

counters! {
    /// What the core counts.
    CoreCounters {
        links_revoked,
        lookup_replies_unwanted,
        replies_unwanted,
        routers_unresolved_dropped,
        signatures_bad,
        signatures_not_checked,
    }
}

/// Messages of the overlay since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OverlayTraffic {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// When the machines of the core want to be called again, at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    links: Option<Instant>,
    validator: Option<Instant>,
    chord: Option<Instant>,
}

/// What all services share. Each method does its work at once, and leaves packets, events and
/// signals to be drained by the run loop.
#[derive(Debug)]
pub(super) struct Core {
    /// The time of the input that is being handled; only the run loop sets it.
    pub(super) now: Instant,
    pub(super) started: Instant,
    pub(super) identity: Identity,
    pub(super) membership: Membership,
    pub(super) state: Arc<State>,
    pub(super) directory: Arc<Directory>,
    pub(super) network: Network,
    pub(super) links: Links,
    pub(super) validator: Validator,
    /// The place in the ring; routers only.
    pub(super) chord: Option<Chord>,
    /// What our HELLO says.
    pub(super) own_hello: OwnHello,
    /// Parents that pass packets on; the service for parents keeps this up to date.
    pub(super) relays: BTreeSet<MemberId>,
    /// Leaves that are being looked for; the leaf registry keeps this up to date.
    pub(super) sought: BTreeSet<MemberId>,
    pub(super) overlay: OverlayTraffic,
    pub(super) counted: CoreCounters,
    /// Wakes the run loop where no input does.
    pub(super) wake: Arc<Notify>,
    pub(super) outcomes: mpsc::Sender<Outcome>,
    lookups: Lookups,
    unresolved: Unresolved,
    effort: Effort,
    /// Empty once an input has been handled: as few as one batch of input causes.
    signals: VecDeque<Signal>,
    due: Due,
}

impl Core {
    /// Puts the core together; gives what the transports have for it as well. What is done
    /// elsewhere arrives by `outcomes`.
    ///
    /// # Errors
    /// When the state cannot be read or written.
    pub(super) fn new(
        setup: Setup,
        outcomes: mpsc::Sender<Outcome>,
    ) -> Result<(Core, Arrivals), StateError> {
        let Setup {
            identity,
            membership,
            state,
            directory,
            network,
            arrivals,
        } = setup;
        let gate = Arc::clone(&directory);
        let gatekeeper = Arc::new(move |shown: &[u8]| gate.admit(shown).ok());
        let own = &membership.certificate;
        let rules = network.path_rules().clone();
        let now = Instant::now();
        let mut links = Links::new(identity.clone(), own, gatekeeper, rules, random_seed());
        links.set_date(now, unix_micros());
        // Without its number a HELLO of this start would look older than those before it.
        let own_hello = OwnHello::new(state.next_hello_sequence()?);
        let core = Core {
            now,
            started: now,
            validator: validator(&identity, &network, &links),
            links,
            chord: None,
            own_hello,
            relays: BTreeSet::new(),
            sought: BTreeSet::new(),
            overlay: OverlayTraffic::default(),
            counted: CoreCounters::default(),
            wake: Arc::new(Notify::new()),
            outcomes,
            lookups: Lookups::default(),
            unresolved: Unresolved::default(),
            effort: Effort::default(),
            signals: VecDeque::new(),
            due: Due::default(),
            identity,
            membership,
            state,
            directory,
            network,
        };
        Ok((core, arrivals))
    }

    /// Sends a message over the link with a member. False if it is dropped.
    pub(super) fn send(&mut self, member: &MemberId, message: LinkMessage) -> bool {
        self.links.send(self.now, member, message)
    }

    /// Sends packets of links to one address. What cannot be sent is dropped and counted.
    pub(super) fn send_packets(&mut self, address: &Address, packets: Vec<Vec<u8>>) {
        let now = self.now;
        if self.network.send(now, address, packets, &self.outcomes) {
            self.links.abandon_path(now, address);
        }
    }

    /// A datagram of QUIC goes out over the link with its member. What finds none is lost, as on
    /// any network.
    pub(super) fn carry(&mut self, datagram: &MemberDatagram) {
        let message = LinkMessage::Quic(datagram.bytes.to_vec().into());
        self.send(&datagram.member, message);
    }

    /// Tells all services.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.signals.push_back(signal);
    }

    /// The next signal to give to all services.
    pub(super) fn next_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front().or_else(|| self.lookups.poll_end())
    }

    /// Gives a reply, and counts those that no task waits for.
    pub(super) fn reply<T>(&mut self, reply: oneshot::Sender<T>, value: T) {
        if reply.send(value).is_err() {
            self.counted.replies_unwanted += 1;
        }
    }

    /// When to look next at what gives no sign when it changes.
    pub(super) fn next_look(&self) -> Instant {
        let pause = LOOK_PAUSE.as_millis();
        let looks = since(self.now, self.started).as_millis() / pause + 1;
        self.started + LOOK_PAUSE * u32::try_from(looks).unwrap_or(u32::MAX)
    }

    /// Time since the start.
    pub(super) fn uptime(&self) -> Duration {
        since(self.now, self.started)
    }

    /// Moves messages out of the overlay; true if there were any.
    pub(super) fn send_overlay(&mut self) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.chord.as_mut().and_then(Chord::poll_transmit) {
            if self.keeps_back(transmit.to, &transmit.message) {
                continue;
            }
            let message = LinkMessage::Overlay(transmit.message.encode().into());
            self.overlay.sent += 1;
            self.send_to_router(transmit.to, message);
            moved = true;
        }
        moved
    }

    /// What the overlay reports next, but for lookups' ends: those become signals.
    pub(super) fn next_ring_event(&mut self) -> Option<RingEvent> {
        loop {
            let event = self.chord.as_mut().and_then(Chord::poll_event)?;
            let event = self.lookups.take_event(event);
            if event.is_some() {
                return event;
            }
        }
    }

    /// Work done elsewhere has ended.
    pub(super) fn take_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::RouterResolved(key, certificate) => self.router_resolved(key, certificate),
            Outcome::MemberResolved(member, certificate) => self.signal(Signal::MemberResolved {
                member,
                certificate,
            }),
            Outcome::Pong(member, pong) => self.signal(Signal::Pong(member, pong)),
            Outcome::Connected(address, connected) => {
                if connected.is_err() {
                    self.links.abandon_path(self.now, &address);
                }
                self.network.connected(self.now, address, connected);
            }
        }
    }

    /// Ends links whose member is no longer good.
    pub(super) fn end_revoked(&mut self) {
        for member in self.links.members() {
            if self.directory.cached(&member).is_none() {
                tracing::warn!(%member, "a revoked member's link ends");
                self.links.close(self.now, &member, LinkEnd::NoMember);
                self.validator.remove(&member);
                self.counted.links_revoked += 1;
            }
        }
    }

    /// When [`Core::on_deadline`] has something to do.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
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
        let own = [
            self.network.poll_timeout(),
            self.effort.poll_timeout(),
            self.lookups.poll_timeout(),
        ];
        let machines = [links, validator, chord].into_iter();
        machines.chain(own).flatten().min()
    }

    /// Lets what is due act. What input has made due since the last look at the deadlines is found
    /// with the next one.
    pub(super) fn on_deadline(&mut self) {
        let now = self.now;
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        // Asking them again would cost more than the recorded answers: each looks at all it has.
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
        if is_due(self.network.poll_timeout()) {
            let links = &self.links;
            self.network.handle_timeout(now, || links.addresses());
        }
        if is_due(self.effort.poll_timeout()) {
            self.effort.tidy(now);
        }
        if is_due(self.lookups.poll_timeout()) {
            let parents = self.parents();
            self.lookups.proceed(now, &parents);
            self.send_questions();
        }
    }
}

/// Zero where a duration cannot be told.
pub(super) fn since(now: Instant, then: Instant) -> Duration {
    now.saturating_duration_since(then)
}

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

/// Randomness from the operating system; without it nothing here may run.
fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    if let Err(error) = getrandom::fill(&mut seed) {
        // Guessable challenges and session numbers would be worse than no member at all.
        tracing::error!(%error, "the operating system gave no random bytes");
        std::process::abort();
    }
    seed
}
