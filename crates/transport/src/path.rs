//! Path choice: which of a peer's addresses to send to now. Sans-IO.
//!
//! A [`Paths`] holds every way to one peer that could be used: addresses that validation has
//! proved, and addresses from which the peer was heard. It sends over the cheapest that works. What
//! *works* means the way out: only the answer to a probe that went over a path shows that the path
//! carries what we send; what comes in over it shows nothing of that. So the way out and the way
//! back may differ, and a one-way path is left.
//!
//! Run loop: after any `handle_*` or command drain [`Paths::poll_probe`], then sleep until
//! [`Paths::poll_timeout`] and call [`Paths::handle_timeout`].

mod entry;
mod mtu;
mod quota;
mod race;
mod report;
mod rule;

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use self::quota::Quotas;
pub use self::report::{PathReport, PathState};
pub use self::rule::{InvalidRule, PathRule, PathRules};

use self::entry::{Entry, Kind, Life, Source};
use crate::address::{Address, AddressDescriptor, LatencyClass};
use crate::limits;
use crate::member::MemberId;

/// The paths to one peer.
///
/// Getters: [`active`](Self::active), [`rtt`](Self::rtt), [`reports`](Self::reports). Commands:
/// [`offer`](Self::offer), [`adopt`](Self::adopt), [`spend`](Self::spend), [`sent`](Self::sent),
/// [`abandon`](Self::abandon), [`set_rules`](Self::set_rules).
#[derive(Debug)]
pub struct Paths {
    rules: PathRules,
    entries: Vec<Entry>,
    active: Option<Address>,
    /// When the path in use was last changed by choice.
    changed: Option<Instant>,
    /// When the oldest message left over the path in use that no answer to a probe has followed.
    waiting_since: Option<Instant>,
    /// All paths are tried, and the path in use has not answered since.
    racing: bool,
    changes: u64,
    rng: StdRng,
    /// Whose paths these are, and what it accepts a day.
    quotas: Option<(MemberId, Quotas)>,
}

/// An address that validation has proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved {
    /// What the member says of it.
    pub descriptor: AddressDescriptor,
    /// Time from PING to PONG.
    pub rtt: Duration,
    /// How long ago the PONG came.
    pub age: Duration,
}

/// What a [`Paths`] asks its caller to send: an echo request with this number, over this address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathProbe {
    /// Where to.
    pub address: Address,
    /// What the answer must repeat; it cannot be guessed.
    pub number: u64,
    /// To how many bytes the message is to be padded, if it asks whether such a long one passes.
    pub length: Option<usize>,
}

impl Paths {
    /// No path yet. `seed` must be random and secret: the probes' numbers come from it.
    pub fn new(rules: PathRules, seed: [u8; 32]) -> Self {
        Self {
            rules,
            entries: Vec::new(),
            active: None,
            changed: None,
            waiting_since: None,
            racing: false,
            changes: 0,
            rng: StdRng::from_seed(seed),
            quotas: None,
        }
    }

    /// These are paths to `member`: what leaves over them counts against the quotas that it has
    /// set, and a path whose quota is used up is not used before tomorrow.
    #[must_use]
    pub fn with_quotas(mut self, member: MemberId, quotas: Quotas) -> Self {
        self.quotas = Some((member, quotas));
        self
    }

    /// Command: what the user says of paths from now on.
    pub fn set_rules(&mut self, now: Instant, rules: &PathRules) {
        self.rules = rules.clone();
        for entry in &mut self.entries {
            entry.obey(rules);
        }
        self.choose(now);
    }

    /// Where to send, if any path works.
    pub fn active(&self) -> Option<&Address> {
        self.active.as_ref()
    }

    /// The round-trip time of the path in use: out over it, back over any.
    pub fn rtt(&self) -> Option<Duration> {
        self.entry(self.active.as_ref()?)?.rtt
    }

    /// Where an answer to what came over `address` goes: over the path in use, and, where that one
    /// was silent, back the way it came as well. That the path in use is dead may be why the peer
    /// asks over another. Both are small; one of them gets through.
    pub fn for_answer(&self, now: Instant, address: &Address) -> Vec<Address> {
        let mut ways: Vec<Address> = self.active.iter().cloned().collect();
        let sure = self.active.as_ref().and_then(|active| self.entry(active));
        let is_silent = |entry: &Entry| entry.is_silent(now, limits::PATH_PROBE);
        if Some(address) != self.active.as_ref() && sure.is_none_or(is_silent) {
            ways.push(address.clone());
        }
        ways
    }

    /// Largest message over the path in use, bytes.
    pub fn mtu(&self) -> usize {
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        let mtu = active.map_or(0, |entry| entry.mtu.current());
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        mtu.max(limits::LEAST_MTU)
    }

    /// How long messages over the path in use take, roughly.
    pub fn latency(&self) -> LatencyClass {
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        active.map_or(LatencyClass::Interactive, |entry| entry.latency)
    }

    /// How often another path has been taken into use.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Every address known, the one in use first, then those that work, the best of each first.
    pub fn addresses(&self) -> Vec<Address> {
        let entries = self.in_order();
        entries.iter().map(|entry| entry.address.clone()).collect()
    }

    /// Every path known, the best first, and why each is or is not used.
    pub fn reports(&self, now: Instant) -> Vec<PathReport> {
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        let report = |entry: &&Entry| report::of(now, entry, active);
        self.in_order().iter().map(report).collect()
    }

    fn in_order(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|a, b| {
            let key = |entry: &Entry| (!self.is_active(entry), !entry.works());
            key(a).cmp(&key(b)).then_with(|| a.score().cmp(&b.score()))
        });
        entries
    }

    /// Command: these addresses of the peer are proved by validation. They replace those of an
    /// earlier call.
    pub fn offer(&mut self, now: Instant, proved: &[Proved]) {
        self.entries.retain(|entry| {
            let offered = proved
                .iter()
                .any(|proved| proved.descriptor.address == entry.address);
            offered
                || entry.source != Source::Advertised
                || Some(&entry.address) == self.active.as_ref()
        });
        for Proved {
            descriptor,
            rtt,
            age,
        } in proved
        {
            let rules = &self.rules;
            let known = self
                .entries
                .iter_mut()
                .find(|e| e.address == descriptor.address);
            if let Some(entry) = known {
                entry.describe(descriptor, rules);
                entry.source = Source::Advertised;
            } else if self.entries.len() < limits::PATHS {
                let mut entry = Entry::new(descriptor, rules, Source::Advertised);
                entry.prove_earlier(now, *rtt, *age);
                self.entries.push(entry);
            }
        }
        self.choose(now);
    }

    /// Command: a handshake has been completed over this address. It is used: the peer may have
    /// restarted, and then it is nowhere else. The path in use until now is probed and taken
    /// again if it is better and still works; it stays if the new one is of a slower class.
    pub fn adopt(&mut self, now: Instant, descriptor: &AddressDescriptor) {
        self.observe(descriptor).prove(now, None);
        let address = &descriptor.address;
        let in_use = self.active.clone().filter(|in_use| in_use != address);
        let in_use = in_use.and_then(|address| self.entry_mut(&address));
        let stays = in_use.is_some_and(|entry| {
            let faster = entry.latency < descriptor.latency && entry.is_fresh(now);
            if !faster {
                entry.doubt(now);
            }
            faster
        });
        if !stays {
            self.switch(now, address.clone());
        }
        self.choose(now);
    }

    /// Command: this path has been found closed by its transport.
    pub fn abandon(&mut self, now: Instant, address: &Address) {
        if let Some(entry) = self.entry_mut(address) {
            entry.die(now);
        }
        self.choose(now);
    }

    /// Command: as many messages are about to leave over `address`. False if the peer's quota for
    /// the day does not allow it; then they must not leave, and [`Self::active`] may be another
    /// path now.
    pub fn spend(&mut self, now: Instant, address: &Address, messages: u32) -> bool {
        let Some((member, quotas)) = &self.quotas else {
            return true;
        };
        let taken = quotas.take(now, member, address, messages);
        if quotas.used_up(now, member, address).is_some() {
            self.choose(now);
        }
        taken
    }

    /// Something left over the path in use.
    pub fn sent(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// A packet of so many bytes left over the path in use; `full` if more was to leave than it had
    /// room for.
    pub fn sent_packet(&mut self, bytes: usize, full: bool) {
        let long = bytes > limits::UDP_MTU;
        // Small talk is no reason to find out what else a path carries, or whether it still carries
        // long packets.
        if !full && !long {
            return;
        }
        let active = self.active.clone();
        let entry = active.and_then(|active| self.entry_mut(&active));
        if let Some(entry) = entry {
            if full {
                entry.mtu.was_full();
            }
            entry.carried_long |= long;
        }
    }

    /// Something authentic came over this address. An address that is new is probed: the peer seems
    /// to have moved, or has a way back of its own. It is not used before the probe is
    /// answered: a sender's address can be forged.
    pub fn handle_heard(&mut self, now: Instant, descriptor: &AddressDescriptor) {
        let entry = self.observe(descriptor);
        entry.heard = Some(now);
        if entry.life == Life::Unproved && entry.due.is_none() {
            entry.due = Some(now);
        }
    }

    /// A probe's answer came, over whichever path. True if it was one of ours.
    pub fn handle_answer(&mut self, now: Instant, number: u64) -> bool {
        if self.entries.iter_mut().any(|e| e.mtu.handle_answer(number)) {
            return true;
        }
        let Some(entry) = self.entries.iter_mut().find(|e| e.answers(number)) else {
            return false;
        };
        let sent = entry.probe_sent();
        let rtt = sent.map(|sent| now.saturating_duration_since(sent));
        entry.prove(now, rtt);
        let address = entry.address.clone();
        if Some(&address) == self.active.as_ref() {
            // What left after the probe still waits for the next.
            self.waiting_since = None;
            self.racing = false;
        } else if self.racing || self.has_moved(now, &address) {
            self.switch(now, address);
        }
        self.choose(now);
        true
    }

    /// When [`Self::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_entry = |entry: &Entry| entry.due;
        let first = self.entries.iter().filter_map(of_entry).min();
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        let waiting = active.and_then(|entry| entry.probe_in_use(self.waiting_since));
        let longer = active.filter(|entry| entry.works() && entry.proved.is_some());
        let longer = longer.and_then(|entry| entry.mtu.due(entry.proved?));
        let spent = self.entries.iter().filter_map(|entry| entry.spent).min();
        let all = [first, waiting, longer, spent];
        all.into_iter().flatten().min()
    }

    /// Time has passed: probes may be due, lost or answered too late.
    pub fn handle_timeout(&mut self, now: Instant) {
        let waiting_since = self.waiting_since;
        let active = self.active.clone();
        for entry in &mut self.entries {
            let in_use = Some(&entry.address) == active.as_ref();
            let wanted = in_use.then(|| entry.probe_in_use(waiting_since)).flatten();
            if wanted.is_some_and(|at| at <= now) {
                entry.due = Some(now);
            }
            entry.handle_timeout(now);
            entry.mtu.handle_timeout(now);
        }
        // What was only observed, and does not answer, is forgotten.
        self.entries.retain(|entry| {
            entry.source == Source::Advertised
                || !entry.is_dead()
                || Some(&entry.address) == active.as_ref()
        });
        self.choose(now);
    }

    /// The next probe to send.
    pub fn poll_probe(&mut self, now: Instant) -> Option<PathProbe> {
        let quotas = &self.quotas;
        let is_due = |entry: &&mut Entry| entry.due.is_some_and(|due| due <= now);
        for entry in self.entries.iter_mut().filter(is_due) {
            let taken = quotas.as_ref().is_none_or(|(member, quotas)| {
                entry.spent.is_none() && quotas.take(now, member, &entry.address, 1)
            });
            if taken {
                let number = self.rng.next_u64();
                let in_use = Some(&entry.address) == self.active.as_ref();
                let length = entry.probe(now, number, in_use);
                return Some(PathProbe {
                    address: entry.address.clone(),
                    number,
                    length: length.and_then(|length| usize::try_from(length).ok()),
                });
            }
            entry.put_off(now);
        }
        self.poll_longer(now)
    }

    /// A probe that asks whether the path in use carries more than it is known to.
    fn poll_longer(&mut self, now: Instant) -> Option<PathProbe> {
        let number = self.rng.next_u64();
        let active = self.active.clone()?;
        let entry = self.entry_mut(&active).filter(|entry| entry.works())?;
        let length = entry.mtu.poll_probe(now, number)?;
        if let Some((member, quotas)) = &self.quotas
            && !quotas.take(now, member, &active, 1)
        {
            // It counts as lost; the path is left for other reasons.
            return None;
        }
        Some(PathProbe {
            address: active,
            number,
            length: usize::try_from(length).ok(),
        })
    }

    /// The peer has answered from an address that it does not advertise, and nothing shows that it
    /// still is where it was.
    fn has_moved(&self, now: Instant, address: &Address) -> bool {
        let is_quiet = |entry: &Entry| entry.is_silent(now, limits::PATH_QUIET);
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        let observed = self
            .entry(address)
            .is_some_and(|e| e.source == Source::Observed);
        observed && active.is_none_or(is_quiet)
    }

    fn entry(&self, address: &Address) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.address == *address)
    }

    fn entry_mut(&mut self, address: &Address) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.address == *address)
    }

    /// The path with this address; a new one if it is not known.
    fn observe(&mut self, descriptor: &AddressDescriptor) -> &mut Entry {
        let known = self
            .entries
            .iter()
            .position(|e| e.address == descriptor.address);
        let index = known.unwrap_or_else(|| {
            self.make_room();
            let entry = Entry::new(descriptor, &self.rules, Source::Observed);
            self.entries.push(entry);
            self.entries.len().saturating_sub(1)
        });
        #[allow(clippy::indexing_slicing, reason = "found or pushed just before")]
        &mut self.entries[index]
    }

    fn is_active(&self, entry: &Entry) -> bool {
        Some(&entry.address) == self.active.as_ref()
    }

    /// The worst path that is not in use goes, if there is no room for another.
    fn make_room(&mut self) {
        if self.entries.len() < limits::PATHS {
            return;
        }
        let idle = self.entries.iter().filter(|entry| !self.is_active(entry));
        let worst = idle.max_by(|a, b| (a.is_dead(), a.score()).cmp(&(b.is_dead(), b.score())));
        if let Some(address) = worst.map(|entry| entry.address.clone()) {
            self.entries.retain(|entry| entry.address != address);
        }
    }

    /// Looks whether another path should be used, and arranges that better ones are looked at.
    fn choose(&mut self, now: Instant) {
        if let Some((member, quotas)) = &self.quotas {
            for entry in &mut self.entries {
                entry.spent = quotas.used_up(now, member, &entry.address);
            }
        }
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        let active = active.filter(|entry| !entry.is_dead() && entry.spent.is_none());
        let usable = |entry: &&Entry| entry.works() && entry.spent.is_none();
        let working = self.entries.iter().filter(usable);
        let best = working.min_by(|a, b| a.score().cmp(&b.score()));
        let target = match (active, best) {
            (None, best) => best.map(|entry| entry.address.clone()),
            (Some(active), Some(best)) if self.is_worth_it(now, active, best) => {
                // Freshly proved, or else proved first: a path that works is not left for one that
                // did.
                best.is_fresh(now).then(|| best.address.clone())
            }
            _ => None,
        };
        match target {
            Some(address) => self.switch(now, address),
            None if self.active.is_some() && active.is_none() => self.active = None,
            None => {}
        }
        self.look_for_better(now);
    }

    /// Hysteresis: a cheaper kind of path is worth a change, the same kind only when it is clearly
    /// faster.
    fn is_worth_it(&self, now: Instant, active: &Entry, best: &Entry) -> bool {
        if best.address == active.address {
            return false;
        }
        if best.kind() != active.kind() {
            return best.kind() < active.kind();
        }
        let rested = self
            .changed
            .is_none_or(|at| now.saturating_duration_since(at) >= limits::PATH_REST);
        let (Some(best), Some(active)) = (best.rtt, active.rtt) else {
            return false;
        };
        let quarter = best.checked_div(4).unwrap_or_default();
        let margin = best
            .saturating_add(quarter)
            .saturating_add(Duration::from_millis(5));
        rested && margin < active
    }

    fn switch(&mut self, now: Instant, address: Address) {
        if self.active.as_ref() == Some(&address) {
            return;
        }
        self.changes = self.changes.saturating_add(1);
        tracing::debug!(%address, "a link uses another path");
        self.active = Some(address);
        self.changed = Some(now);
        self.waiting_since = None;
        self.racing = false;
    }

    /// Paths that would be better than the one in use are probed now and then, others are left to
    /// validation.
    fn look_for_better(&mut self, now: Instant) {
        let active = self.active.as_ref().and_then(|address| self.entry(address));
        let kind = active.map(Entry::kind);
        let (own, racing) = (self.active.clone(), self.racing);
        for entry in &mut self.entries {
            if Some(&entry.address) != own.as_ref() {
                // A lossy one would too, if it has recovered.
                let hoped = Kind {
                    lossy: false,
                    ..entry.kind()
                };
                let better = kind.as_ref().is_none_or(|kind| hoped < *kind);
                entry.rest(now, better || racing);
            }
        }
    }
}

#[cfg(test)]
mod tests;
