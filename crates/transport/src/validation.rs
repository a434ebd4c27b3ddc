//! Address validation: nobody is sent more than a PING before it proves that it is there.
//!
//! A HELLO says where a member claims to be. [`Validator`] sends a PING with a random challenge to
//! each such address and believes it once a PONG comes back that the member signed over the
//! challenge, the address and the challenger. The PONG may return over any transport.

mod budget;
mod entry;
mod probe;
mod timing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use self::probe::{Ping, Pong, ProbeError};

use self::budget::{ADVERTISER_RATE, Bucket, PONG_RATE, TargetBudgets};
use self::entry::{Advertiser, Entry, Probe, Valid};
use self::timing::Timing;
use crate::address::{Address, AddressDescriptor};
use crate::hello::Hello;
use crate::limits;
use crate::member::{MemberId, Signer};
use crate::path::Proved;

/// Decides which addresses are real. Sans-IO: it neither reads a clock nor sends.
///
/// Run loop: after any `handle_*`, drain [`poll_transmit`](Self::poll_transmit), then sleep until
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
    pongs: Option<Bucket>,
    queue: VecDeque<(Address, Ping)>,
}

/// What became of a HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloOutcome {
    /// It is the newest of its member; its addresses replace the earlier ones.
    Accepted,
    /// A newer one, or the same, is known already.
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
            pongs: None,
            queue: VecDeque::new(),
        }
    }

    /// Command: from now on answer PINGs only for these addresses, our own. Without it any is
    /// answered for, which lets whoever took over an old address of ours pass PINGs on to us.
    pub fn set_own_addresses(&mut self, addresses: Vec<Address>) {
        self.own = Some(addresses.into_iter().map(Address::canonical).collect());
    }

    /// Command: forgets a member, for example a revoked one.
    pub fn remove(&mut self, member: &MemberId) {
        let Some(advertiser) = self.members.remove(member) else {
            return;
        };
        self.ages.remove(&(advertiser.heard, *member));
        for entry in advertiser.addresses {
            self.forget(*member, &entry);
        }
    }

    /// A HELLO arrived: its new addresses are queued for PINGs, within the budgets.
    pub fn handle_hello(&mut self, now: Instant, hello: &Hello) -> HelloOutcome {
        self.handle_hello_from(now, hello, &|_| true)
    }

    /// As [`Self::handle_hello`], for the addresses that are `believed` to be worth a PING: private ones, for example, lead
    /// to somebody else unless the member is at the same site as we are.
    pub fn handle_hello_from(
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
            Some(known) if known.sequence >= hello.sequence() => {
                self.members.insert(member, known);
                return HelloOutcome::Stale;
            }
            Some(known) => known,
            None if !self.make_room(now) => return HelloOutcome::Full,
            None => Advertiser::new(now),
        };
        self.ages.remove(&(advertiser.heard, member));
        self.ages.insert((now, member));
        advertiser.heard = now;
        advertiser.sequence = hello.sequence();
        let named = hello.addresses().iter();
        let named: Vec<_> = named
            .filter(|descriptor| believed(&descriptor.address))
            .collect();
        let fresh = self.replace_addresses(member, &mut advertiser, &named);
        self.members.insert(member, advertiser);
        for address in &fresh {
            self.advance(now, member, address);
        }
        HelloOutcome::Accepted
    }

    /// Takes over the new list. Returns the addresses that need a PING now.
    fn replace_addresses(
        &mut self,
        member: MemberId,
        advertiser: &mut Advertiser,
        descriptors: &[&AddressDescriptor],
    ) -> Vec<Address> {
        let mut old = std::mem::take(&mut advertiser.addresses);
        let mut fresh = Vec::new();
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
            if entry.due.is_none() {
                entry.attempts = 0;
                fresh.push(address.clone());
            }
            advertiser.addresses.push(entry);
        }
        for entry in old {
            self.forget(member, &entry);
        }
        fresh
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

    /// Command: the member is wanted now. Its addresses that have not answered are tried again, within
    /// the budgets, although they had been given up or put off.
    pub fn retry(&mut self, now: Instant, member: &MemberId) {
        let Some(advertiser) = self.members.get_mut(member) else {
            return;
        };
        let mut again = Vec::new();
        for entry in &mut advertiser.addresses {
            if entry.probe.is_none() && entry.valid_at(now).is_none() {
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
        entry.valid = Some(Valid { since: now, rtt });
        if let Some(probe) = probe {
            self.outstanding.remove(&probe.challenge);
        }
        self.set_due(member, &address, Some(due));
        Some(Validated {
            member,
            address,
            rtt,
        })
    }

    /// Getter: the member's valid addresses with their round-trip times, cheapest first, then fastest.
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
        self.members.contains_key(member)
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

    /// The address is due: the PING that is out is lost, send another, put it off, or give up.
    fn advance(&mut self, now: Instant, member: MemberId, address: &Address) {
        let Some(entry) = self.entry(member, address) else {
            return;
        };
        let (lost, attempts) = (entry.probe.take(), entry.attempts);
        let (once_valid, timing) = (entry.valid.is_some(), entry.timing());
        if let Some(probe) = lost {
            self.outstanding.remove(&probe.challenge);
        }
        let due = if attempts < timing.attempts {
            Some(self.ping_or_put_off(now, member, address, attempts, timing))
        } else if once_valid {
            let rest = self.next_rest(member, address, timing);
            Some(after(now, self.shortened(rest)))
        } else {
            None
        };
        self.set_due(member, address, due);
    }

    /// Sends a PING if the budgets allow it. Returns when to look at the address again.
    fn ping_or_put_off(
        &mut self,
        now: Instant,
        member: MemberId,
        address: &Address,
        attempts: u32,
        timing: &Timing,
    ) -> Instant {
        if self.queue.len() >= limits::PING_QUEUE {
            return after(now, timing.timeout);
        }
        let Some(advertiser) = self.members.get_mut(&member) else {
            return after(now, timing.timeout);
        };
        let wait = advertiser
            .budget
            .wait(now, ADVERTISER_RATE)
            .max(self.budgets.wait(now, address));
        if let Some(until) = wait {
            return until;
        }
        // All are there, so all are taken.
        advertiser.budget.take(now, ADVERTISER_RATE);
        self.budgets.take(now, address);
        self.ping(now, member, address);
        let timeout = timing.timeout.saturating_mul(1_u32 << attempts.min(16));
        after(now, timeout.saturating_add(self.jitter(timeout)))
    }

    fn ping(&mut self, now: Instant, member: MemberId, address: &Address) {
        let mut challenge = [0; 32];
        self.rng.fill_bytes(&mut challenge);
        if let Some(entry) = self.entry(member, address) {
            entry.attempts = entry.attempts.saturating_add(1);
            entry.probe = Some(Probe {
                challenge,
                sent: now,
            });
        }
        self.outstanding
            .insert(challenge, (member, address.clone()));
        let ping = Ping {
            challenge,
            target: member,
            address: address.clone(),
            challenger: self.me,
        };
        self.queue.push_back((address.clone(), ping));
    }

    /// A formerly valid address is left alone for this long, longer each time.
    fn next_rest(&mut self, member: MemberId, address: &Address, timing: &Timing) -> Duration {
        let Some(entry) = self.entry(member, address) else {
            return timing.longest_rest;
        };
        let doubled = 1_u32 << entry.rests.min(16);
        entry.attempts = 0;
        entry.rests = entry.rests.saturating_add(1);
        let rest = timing.rest.saturating_mul(doubled);
        rest.min(timing.longest_rest)
    }

    fn set_due(&mut self, member: MemberId, address: &Address, due: Option<Instant>) {
        let Some(entry) = self.entry(member, address) else {
            return;
        };
        let before = std::mem::replace(&mut entry.due, due);
        if let Some(before) = before {
            self.timers.remove(&(before, member, address.clone()));
        }
        if let Some(due) = due {
            self.timers.insert((due, member, address.clone()));
        }
    }

    fn entry(&mut self, member: MemberId, address: &Address) -> Option<&mut Entry> {
        let advertiser = self.members.get_mut(&member)?;
        let mut entries = advertiser.addresses.iter_mut();
        entries.find(|e| e.descriptor.address == *address)
    }

    /// Up to a quarter of `time`, so that peers do not act in step.
    fn jitter(&mut self, time: Duration) -> Duration {
        let mut byte = [0];
        self.rng.fill_bytes(&mut byte);
        let [byte] = byte;
        let scaled = time.saturating_mul(u32::from(byte));
        scaled.checked_div(1024).unwrap_or_default()
    }

    fn shortened(&mut self, time: Duration) -> Duration {
        time.saturating_sub(self.jitter(time))
    }
}

/// `now + time`; `now` if the clock cannot hold that.
fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}
