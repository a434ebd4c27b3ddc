//! Address validation: no address is sent more than a PING before a member proves that it is there.
//!
//! A HELLO says where a member claims to be. [`Validator`] sends a PING with a random challenge to
//! each such address and believes it once a PONG comes back that the member signed over the
//! challenge, the address and the challenger. The PONG may return over any transport.

mod budget;
mod entry;
mod probe;
mod referral;
mod schedule;
mod timing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

pub use self::probe::{Ping, Pong, ProbeError};

use self::budget::{Bucket, PONG_RATE, TargetBudgets};
use self::entry::{Advertiser, Entry, Valid};
use self::schedule::after;
use crate::address::{Address, AddressDescriptor};
use crate::hello::Hello;
use crate::limits;
use crate::member::{MemberId, Signer};
use crate::path::{Proved, Quotas};

/// Decides which addresses are real. Sans-IO: it neither reads a clock nor sends.
///
/// Run loop: after any `handle_*`, drain [`poll_transmit`](Self::poll_transmit) and
/// [`poll_hello_wanted`](Self::poll_hello_wanted), then sleep until
/// [`poll_timeout`](Self::poll_timeout) and call [`handle_timeout`](Self::handle_timeout).
#[derive(Debug)]
pub struct Validator {
    me: MemberId,
    own: Option<Vec<Address>>,
    rng: StdRng,
    members: BTreeMap<MemberId, Advertiser>,
    /// Members by the time of their newest HELLO, oldest first, to find room.
    ages: BTreeSet<(Instant, MemberId)>,
    timers: BTreeSet<(Instant, MemberId, Address)>,
    outstanding: BTreeMap<[u8; 32], (MemberId, Address)>,
    budgets: TargetBudgets,
    quotas: Quotas,
    pongs: Option<Bucket>,
    queue: VecDeque<(Address, Ping)>,
    hellos_wanted: BTreeSet<MemberId>,
    /// Only addresses that hide the host are looked at.
    hidden: bool,
}

/// What became of a HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloOutcome {
    /// It is the newest of its member; its addresses replace the earlier ones.
    Accepted,
    /// It is known already. Of its addresses those that have not answered get another PING, within
    /// the budgets.
    Repeated,
    /// A newer one is known already.
    Stale,
    /// It is our own.
    Own,
    /// [`limits::VALIDATOR_MEMBERS`] members with valid addresses are known.
    Full,
}

/// What is known of an address that a member advertises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The member's words.
    pub descriptor: AddressDescriptor,
    /// How long ago the member last answered there; none if it never has.
    pub validated: Option<Duration>,
    /// Whether that is lately enough to use it.
    pub usable: bool,
    /// PINGs that have left since the last answer.
    pub unanswered: u32,
    /// Until the next message may go there, if the member's quota for the day is used up.
    pub quota_used: Option<Duration>,
}

/// An address that has just proved itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validated {
    /// Whose it is.
    pub member: MemberId,
    /// The address.
    pub address: Address,
    /// Time from PING to PONG; the PONG may have come another way.
    pub rtt: Duration,
}

impl Validator {
    /// A validator for the member `me`. `seed` must be random and secret: challenges come from it.
    pub fn new(me: MemberId, seed: [u8; 32]) -> Self {
        Self {
            me,
            own: None,
            rng: StdRng::from_seed(seed),
            members: BTreeMap::new(),
            ages: BTreeSet::new(),
            timers: BTreeSet::new(),
            outstanding: BTreeMap::new(),
            budgets: TargetBudgets::default(),
            quotas: Quotas::default(),
            pongs: None,
            queue: VecDeque::new(),
            hellos_wanted: BTreeSet::new(),
            hidden: false,
        }
    }

    /// Command: PINGs count against these quotas, and HELLOs set them.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.quotas = quotas;
    }

    /// Command: from now on only addresses count to which one can send without showing one's own
    /// ([`Protocol::hides_the_host`](crate::Protocol::hides_the_host)).
    pub fn hide(&mut self) {
        self.hidden = true;
    }

    /// Command: from now on answer PINGs only for these addresses, our own. Without it any is
    /// answered for, which lets a host that took over an old address of ours pass PINGs on to us.
    pub fn set_own_addresses(&mut self, addresses: Vec<Address>) {
        self.own = Some(addresses.into_iter().map(Address::canonical).collect());
    }

    /// Command: forgets a member, for example a revoked one.
    pub fn remove(&mut self, member: &MemberId) {
        let Some(advertiser) = self.members.remove(member) else {
            return;
        };
        self.ages.remove(&(advertiser.heard, *member));
        self.hellos_wanted.remove(member);
        self.quotas.remove(member);
        for entry in advertiser.addresses {
            self.forget(*member, &entry);
        }
    }

    /// A HELLO arrived: its new addresses are queued for PINGs, within the budgets.
    pub fn handle_hello(&mut self, now: Instant, hello: &Hello) -> HelloOutcome {
        self.handle_hello_from(now, hello, &|_| true)
    }

    /// As [`Self::handle_hello`], for the addresses that are `believed` to be worth a PING: private
    /// ones, for example, lead to somebody else unless the member is at the same site as we
    /// are.
    pub fn handle_hello_from(
        &mut self,
        now: Instant,
        hello: &Hello,
        believed: &dyn Fn(&Address) -> bool,
    ) -> HelloOutcome {
        let outcome = self.take_up(now, hello, believed);
        if matches!(outcome, HelloOutcome::Accepted | HelloOutcome::Repeated) {
            self.grant(now, hello.member());
        }
        outcome
    }

    /// Makes a HELLO's addresses the member's, if it is newer than what is known. No PING leaves
    /// yet.
    fn take_up(
        &mut self,
        now: Instant,
        hello: &Hello,
        believed: &dyn Fn(&Address) -> bool,
    ) -> HelloOutcome {
        let member = hello.member();
        if member == self.me {
            return HelloOutcome::Own;
        }
        let mut advertiser = match self.members.remove(&member) {
            Some(known) if known.sequence >= Some(hello.sequence()) => {
                let same = known.sequence == Some(hello.sequence());
                self.members.insert(member, known);
                return if same {
                    HelloOutcome::Repeated
                } else {
                    HelloOutcome::Stale
                };
            }
            Some(known) => known,
            None if !self.make_room(now) => return HelloOutcome::Full,
            None => Advertiser::new(now),
        };
        self.ages.remove(&(advertiser.heard, member));
        self.ages.insert((now, member));
        advertiser.heard = now;
        advertiser.sequence = Some(hello.sequence());
        let hidden = self.hidden;
        let named = hello.addresses().iter();
        let named: Vec<_> = named
            .filter(|descriptor| believed(&descriptor.address))
            .filter(|descriptor| !hidden || descriptor.protocol().hides_the_host())
            .collect();
        self.quotas.learn(member, &named);
        self.replace_addresses(member, &mut advertiser, &named);
        self.members.insert(member, advertiser);
        HelloOutcome::Accepted
    }

    /// Takes over the new list.
    fn replace_addresses(
        &mut self,
        member: MemberId,
        advertiser: &mut Advertiser,
        descriptors: &[&AddressDescriptor],
    ) {
        let mut old = std::mem::take(&mut advertiser.addresses);
        for &descriptor in descriptors {
            let address = &descriptor.address;
            if !descriptor.direction.receives() || !address.is_dialable() {
                continue;
            }
            let known = old.iter().position(|e| e.descriptor.address == *address);
            let mut entry = match known {
                Some(index) => old.swap_remove(index),
                None => Entry::new(descriptor.clone()),
            };
            entry.descriptor = descriptor.clone();
            entry.asked = 0;
            if entry.due.is_none() {
                entry.attempts = 0;
            }
            advertiser.addresses.push(entry);
        }
        for entry in old {
            self.forget(member, &entry);
        }
    }

    /// The member's HELLO has come: each of its addresses may get one PING.
    fn grant(&mut self, now: Instant, member: MemberId) {
        let Some(advertiser) = self.members.get_mut(&member) else {
            return;
        };
        let mut granted = Vec::new();
        for entry in &mut advertiser.addresses {
            // The one that is out has its time; an address that works is renewed by its timer.
            if entry.probe.is_some() || entry.valid_at(now).is_some() {
                continue;
            }
            entry.granted = true;
            granted.push(entry.descriptor.address.clone());
        }
        for address in &granted {
            self.advance(now, member, address);
        }
    }

    fn forget(&mut self, member: MemberId, entry: &Entry) {
        if let Some(due) = entry.due {
            self.timers
                .remove(&(due, member, entry.descriptor.address.clone()));
        }
        if let Some(probe) = entry.probe {
            self.outstanding.remove(&probe.challenge);
        }
    }

    /// Makes room for one more member; false if none of the oldest can go.
    fn make_room(&mut self, now: Instant) -> bool {
        /// Oldest members looked at: bounds the work that one HELLO causes.
        const LOOKED_AT: usize = 64;
        if self.members.len() < limits::VALIDATOR_MEMBERS {
            return true;
        }
        let idle = |member: &MemberId| {
            self.members.get(member).is_none_or(|advertiser| {
                advertiser
                    .addresses
                    .iter()
                    .all(|e| e.valid_at(now).is_none())
            })
        };
        let oldest = self.ages.iter().take(LOOKED_AT).map(|(_, member)| *member);
        let Some(victim) = oldest.into_iter().find(idle) else {
            return false;
        };
        self.remove(&victim);
        true
    }

    /// Command: the member is wanted now. Its addresses that have ceased to answer are tried again,
    /// within the budgets, although they had been given up or put off. Those that have never
    /// answered wait for its HELLO: ask for it.
    pub fn retry(&mut self, now: Instant, member: &MemberId) {
        let Some(advertiser) = self.members.get_mut(member) else {
            return;
        };
        let mut again = Vec::new();
        for entry in &mut advertiser.addresses {
            let lapsed = entry.valid.is_some() && entry.valid_at(now).is_none();
            if entry.probe.is_none() && lapsed {
                entry.attempts = 0;
                entry.rests = 0;
                again.push(entry.descriptor.address.clone());
            }
        }
        for address in &again {
            self.advance(now, *member, address);
        }
    }

    /// The next PING to send, and where. Nothing else may be sent to an address before it is valid.
    pub fn poll_transmit(&mut self) -> Option<(Address, Ping)> {
        self.queue.pop_front()
    }

    /// The next member whose HELLO is wanted (again), because a PING to an address that it names
    /// was lost. Ask it, if it can be asked.
    pub fn poll_hello_wanted(&mut self) -> Option<MemberId> {
        self.hellos_wanted.pop_first()
    }

    /// A PING arrived: the PONG to send back by any way, or `None` if it is none of ours to answer.
    pub fn handle_ping(&mut self, now: Instant, ping: &Ping, signer: &dyn Signer) -> Option<Pong> {
        let ours = ping.target == self.me && signer.member() == self.me;
        let known = self
            .own
            .as_ref()
            .is_none_or(|own| own.contains(&ping.address.clone().canonical()));
        if !ours || !known || ping.challenger == self.me {
            return None;
        }
        let bucket = self.pongs.get_or_insert_with(|| Bucket::full(now));
        bucket
            .take(now, PONG_RATE)
            .then(|| Pong::sign(ping, signer))
    }

    /// A PONG arrived: the address it proves, or `None` if it proves nothing.
    pub fn handle_pong(&mut self, now: Instant, pong: &Pong) -> Option<Validated> {
        let (member, address) = self.outstanding.get(&pong.challenge)?.clone();
        if pong.address != address || pong.challenger != self.me {
            return None;
        }
        // A forged PONG leaves the PING outstanding, so that it cannot cut off the true one.
        pong.verify(&member).ok()?;
        let sent = self.entry(member, &address)?.probe?.sent;
        let rtt = now.saturating_duration_since(sent);
        self.validate(now, member, address, rtt)
    }

    /// An authenticated connection to an advertised address proves it as well as a PONG, for
    /// example a QUIC handshake with the member's key. `None` if the member does not advertise it.
    pub fn handle_authenticated(
        &mut self,
        now: Instant,
        member: MemberId,
        address: Address,
        rtt: Duration,
    ) -> Option<Validated> {
        self.validate(now, member, address.canonical(), rtt)
    }

    fn validate(
        &mut self,
        now: Instant,
        member: MemberId,
        address: Address,
        rtt: Duration,
    ) -> Option<Validated> {
        let renew_after = self.entry(member, &address)?.timing().renew_after;
        let due = after(now, self.shortened(renew_after));
        let entry = self.entry(member, &address)?;
        let probe = entry.probe.take();
        entry.attempts = 0;
        entry.rests = 0;
        entry.granted = false;
        entry.valid = Some(Valid { since: now, rtt });
        if let Some(probe) = probe {
            self.outstanding.remove(&probe.challenge);
        }
        self.set_due(member, &address, Some(due));
        self.advance_same_host(now, member, &address);
        Some(Validated {
            member,
            address,
            rtt,
        })
    }

    /// Getter: the member's valid addresses with their round-trip times, cheapest first, then
    /// fastest.
    pub fn usable(&self, now: Instant, member: &MemberId) -> Vec<(AddressDescriptor, Duration)> {
        let Some(advertiser) = self.members.get(member) else {
            return Vec::new();
        };
        let entries = advertiser.addresses.iter();
        let mut usable: Vec<_> = entries
            .filter_map(|e| Some((e.descriptor.clone(), e.valid_at(now)?.rtt)))
            .collect();
        usable.sort_by(|(a, a_rtt), (b, b_rtt)| {
            (a.cost, a_rtt, &a.address).cmp(&(b.cost, b_rtt, &b.address))
        });
        usable
    }

    /// Getter: as [`Self::usable`], for path choice.
    pub fn proved(&self, now: Instant, member: &MemberId) -> Vec<Proved> {
        let advertiser = self.members.get(member);
        let entries = advertiser
            .iter()
            .flat_map(|advertiser| &advertiser.addresses);
        let proved = entries.filter_map(|entry| {
            let valid = entry.valid_at(now)?;
            Some(Proved {
                descriptor: entry.descriptor.clone(),
                rtt: valid.rtt,
                age: now.saturating_duration_since(valid.since),
            })
        });
        proved.collect()
    }

    /// Getter: whether a HELLO of the member has come.
    pub fn has_heard_of(&self, member: &MemberId) -> bool {
        let known = self.members.get(member);
        known.is_some_and(|advertiser| advertiser.sequence.is_some())
    }

    /// Getter: all that the member advertises and we could be interested in, in its order.
    pub fn advertised(&self, now: Instant, member: &MemberId) -> Vec<Advertised> {
        let Some(advertiser) = self.members.get(member) else {
            return Vec::new();
        };
        let entries = advertiser.addresses.iter();
        let known = entries.map(|entry| Advertised {
            descriptor: entry.descriptor.clone(),
            validated: entry
                .valid
                .map(|valid| now.saturating_duration_since(valid.since)),
            usable: entry.valid_at(now).is_some(),
            unanswered: entry.attempts,
            quota_used: self
                .quotas
                .used_up(now, member, &entry.descriptor.address)
                .map(|until| until.saturating_duration_since(now)),
        });
        known.collect()
    }

    /// When [`Self::handle_timeout`] is to be called next, to repeat or renew a PING.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _, _)| *due)
    }

    /// Time has passed: queues the PINGs that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, member, address)) = self.timers.pop_first() else {
                break;
            };
            self.advance(now, member, &address);
        }
    }
}
