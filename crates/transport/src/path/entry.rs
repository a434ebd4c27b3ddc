//! One path: what it costs, how it has done, and when to look at it again.

use std::time::{Duration, Instant};

use super::mtu::MtuSearch;
use super::rule::PathRules;
use crate::address::{Address, AddressDescriptor, LatencyClass, Protocol};
use crate::limits;

/// How the path came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The peer's HELLO names it, and validation has proved it.
    Advertised,
    /// The peer was heard from it, or it was dialled by what its certificate says.
    Observed,
}

/// What is known of the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// Nothing yet.
    Unproved,
    /// It has worked since then.
    Alive(Instant),
    /// It does not work, and is probed again at the second time.
    Dead(Instant, Instant),
}

/// What makes one path better than another before their speed is compared. Less is better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) lossy: bool,
    pub(super) metered: bool,
    pub(super) cost: u32,
    pub(super) latency: LatencyClass,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) address: Address,
    pub(super) source: Source,
    pub(super) life: Life,
    cost: u32,
    /// What the peer says that it costs, whatever the user says.
    advertised_cost: u32,
    pub(super) latency: LatencyClass,
    metered: bool,
    pub(super) mtu: MtuSearch,
    pub(super) rtt: Option<Duration>,
    /// Share of the latest probes that were lost, in 1/256.
    loss: u32,
    /// When the way out was last shown to work.
    pub(super) proved: Option<Instant>,
    /// When something last came in over it.
    pub(super) heard: Option<Instant>,
    /// The probe that is out.
    probe: Option<(u64, Instant)>,
    /// Whether it was padded.
    padded: bool,
    /// Whether the last probe lost was.
    lost_padded: bool,
    /// Whether packets that not every path carries have left over it since the last padded probe.
    pub(super) carried_long: bool,
    /// Probes lost since the last answer.
    lost: u32,
    /// How often in a row it has stopped working without having worked for long.
    deaths: u32,
    /// When the probe that is out is lost, or when the next one leaves.
    pub(super) due: Option<Instant>,
    /// Until when the peer's quota for the address is used up.
    pub(super) spent: Option<Instant>,
}

impl Entry {
    pub(super) fn new(descriptor: &AddressDescriptor, rules: &PathRules, source: Source) -> Entry {
        let mut entry = Entry {
            address: descriptor.address.clone(),
            source,
            life: Life::Unproved,
            cost: 0,
            advertised_cost: 0,
            latency: descriptor.latency,
            metered: false,
            mtu: MtuSearch::new(descriptor.protocol(), descriptor.mtu),
            rtt: None,
            loss: 0,
            proved: None,
            heard: None,
            probe: None,
            padded: false,
            lost_padded: false,
            carried_long: false,
            lost: 0,
            deaths: 0,
            due: None,
            spent: None,
        };
        entry.describe(descriptor, rules);
        entry
    }

    /// Takes over what the peer says of the address, and what the user says of such.
    pub(super) fn describe(&mut self, descriptor: &AddressDescriptor, rules: &PathRules) {
        self.advertised_cost = descriptor.cost;
        self.obey(rules);
        self.latency = descriptor.latency;
        self.mtu.receiver_takes(descriptor.mtu);
    }

    /// Takes over what the user says of such addresses.
    pub(super) fn obey(&mut self, rules: &PathRules) {
        let rule = rules.of(&self.address);
        let cost = rule.and_then(|rule| rule.cost);
        self.cost = cost.unwrap_or(self.advertised_cost);
        self.metered = rule.is_some_and(|rule| rule.metered);
    }

    pub(super) fn kind(&self) -> Kind {
        Kind {
            lossy: self.loss > limits::PATH_LOSSY,
            metered: self.metered,
            cost: self.cost,
            latency: self.latency,
        }
    }

    /// All that counts, and the address so that the order is total.
    pub(super) fn score(&self) -> (Kind, Duration, &Address) {
        let rtt = self.rtt.unwrap_or(Duration::MAX);
        (self.kind(), rtt, &self.address)
    }

    /// Share of probes lost, 0 to 1.
    pub(super) fn loss(&self) -> f64 {
        f64::from(self.loss) / 256.0
    }

    /// Mail is not probed, only validated.
    pub(super) fn is_mail(&self) -> bool {
        self.address.protocol() == Protocol::Smtp || self.latency == LatencyClass::Minutes
    }

    pub(super) fn is_dead(&self) -> bool {
        matches!(self.life, Life::Dead(..))
    }

    pub(super) fn works(&self) -> bool {
        matches!(self.life, Life::Alive(_))
    }

    /// Whether the way out was shown to work lately enough to move to it.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let age = |at| now.saturating_duration_since(at);
        self.is_mail() || self.proved.is_some_and(|at| age(at) < limits::PATH_FRESH)
    }

    /// Whether neither an answer nor anything else has shown for so long that the peer is there.
    pub(super) fn is_silent(&self, now: Instant, time: Duration) -> bool {
        let last = self.proved.max(self.heard);
        last.is_none_or(|at| now.saturating_duration_since(at) >= time)
    }

    /// An answer came to what went over it.
    pub(super) fn prove(&mut self, now: Instant, rtt: Option<Duration>) {
        if let Some(sample) = rtt {
            // RFC 6298 §2: an eighth of the new sample.
            let smoothed = |old: Duration| {
                let weighted = old.saturating_mul(7).saturating_add(sample);
                weighted.checked_div(8).unwrap_or(sample)
            };
            self.rtt = Some(self.rtt.map_or(sample, smoothed));
            self.count_loss(0);
            match (self.padded, self.lost) {
                (true, _) => self.mtu.confirm(),
                (false, 1..) if self.lost_padded => {
                    // Perhaps the next long one is lost as well.
                    self.lost_padded = false;
                    self.carried_long = true;
                    self.mtu.doubt(now);
                }
                _ => {}
            }
        }
        if !self.works() {
            self.life = Life::Alive(now);
            // What was lost while nothing got through says nothing of how it does now.
            self.loss = 0;
        }
        self.proved = Some(now);
        self.probe = None;
        self.lost = 0;
        self.due = None;
    }

    /// Validation has proved it, perhaps a while ago: then it is probed before it is used.
    pub(super) fn prove_earlier(&mut self, now: Instant, rtt: Duration, age: Duration) {
        self.prove(now, Some(rtt));
        self.proved = now.checked_sub(age);
        if !self.is_fresh(now) {
            self.due = Some(now);
        }
    }

    /// What showed that it works counts for nothing more. Once it is not in use it is probed at
    /// once, if it would be better.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.proved = now.checked_sub(limits::PATH_LOOK);
    }

    fn count_loss(&mut self, sample: u32) {
        self.loss = self.loss.saturating_mul(7).saturating_add(sample) / 8;
    }

    pub(super) fn answers(&self, number: u64) -> bool {
        self.probe.is_some_and(|(own, _)| own == number)
    }

    /// Whether a probe is out.
    pub(super) fn is_asked(&self) -> bool {
        self.probe.is_some()
    }

    pub(super) fn probe_sent(&self) -> Option<Instant> {
        self.probe.map(|(_, sent)| sent)
    }

    /// When to probe this path, which is in use, something having left over it at `waiting_since`.
    pub(super) fn probe_in_use(&self, waiting_since: Option<Instant>) -> Option<Instant> {
        if self.is_mail() || self.due.is_some() {
            return None;
        }
        let used = waiting_since.and_then(|at| at.checked_add(self.patience(limits::PATH_SILENCE)));
        let idle = self.proved.and_then(|at| at.checked_add(limits::PATH_KEEP));
        used.into_iter().chain(idle).min()
    }

    fn patience(&self, time: Duration) -> Duration {
        match self.latency {
            LatencyClass::Interactive => time,
            LatencyClass::Seconds => time.saturating_mul(10),
            LatencyClass::Minutes => time.saturating_mul(600),
        }
    }

    /// A probe with this number leaves over it now; gives the length that it is to have. Of a path
    /// in use the first is as long as messages are, and those after a loss are short: so one
    /// tells that the path has become narrow from one that is dead.
    pub(super) fn probe(&mut self, now: Instant, number: u64, in_use: bool) -> Option<u32> {
        let wait = self.patience(limits::PATH_PROBE);
        // Twice the round trip, where that is longer.
        let wait = self.rtt.map_or(wait, |rtt| wait.max(rtt.saturating_mul(2)));
        self.probe = Some((number, now));
        self.due = now.checked_add(wait);
        let wanted = in_use && self.lost == 0 && self.carried_long;
        let length = self.mtu.padding().filter(|_| wanted);
        self.padded = length.is_some();
        if self.padded {
            self.carried_long = false;
        }
        length
    }

    /// The peer's quota allows no probe: none leaves before it does.
    pub(super) fn put_off(&mut self, now: Instant) {
        let later = now.checked_add(limits::PATH_AWAY);
        self.probe = None;
        self.due = self.spent.or(later).max(later);
    }

    /// A probe that is out and due is lost; after a few the path does not work.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.probe.is_none() || self.due.is_none_or(|due| due > now) {
            return;
        }
        self.probe = None;
        self.lost = self.lost.saturating_add(1);
        self.lost_padded = std::mem::take(&mut self.padded);
        self.count_loss(256);
        if self.is_dead() || self.lost >= limits::PATH_PROBES {
            self.die(now);
        } else {
            self.due = Some(now);
        }
    }

    /// It does not work, and rests before it is tried again: longer each time that it breaks soon
    /// after it has come back, and a little longer the longer it stays away.
    pub(super) fn die(&mut self, now: Instant) {
        let lived_long = |since| now.saturating_duration_since(since) > limits::PATH_REST_LONGEST;
        let since = match self.life {
            Life::Dead(since, _) => since,
            Life::Alive(since) => {
                let deaths = if lived_long(since) { 0 } else { self.deaths };
                self.deaths = deaths.saturating_add(1);
                now
            }
            Life::Unproved => now,
        };
        let doubled = 1_u32 << self.deaths.saturating_sub(1).min(16);
        let unsteady = limits::PATH_DEAD.saturating_mul(doubled);
        let away = now.saturating_duration_since(since);
        let rest = unsteady.min(limits::PATH_REST_LONGEST).max(
            away.checked_div(4)
                .unwrap_or_default()
                .min(limits::PATH_AWAY),
        );
        let until = now.checked_add(rest).unwrap_or(now);
        self.life = Life::Dead(since, until);
        self.probe = None;
        self.due = (!self.is_mail()).then_some(until);
    }

    /// Not in use. One that would be better is probed now and then; others wait until they are
    /// needed.
    pub(super) fn rest(&mut self, now: Instant, would_be_better: bool) {
        if self.probe.is_some() || !self.works() || self.is_mail() {
            return;
        }
        let last = self.proved.unwrap_or(now);
        self.due = last
            .checked_add(limits::PATH_LOOK)
            .filter(|_| would_be_better);
    }
}
