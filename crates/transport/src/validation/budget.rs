//! Token buckets that bound what validation sends, per address, network and advertiser.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::limits;

/// How many at once, and how long one more takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Tokens of a full bucket.
    pub(super) burst: u32,
    /// Time in which one token is earned; not zero.
    pub(super) interval: Duration,
}

pub(super) const ADVERTISER_RATE: Rate = Rate {
    burst: limits::ADVERTISER_BUDGET,
    interval: limits::ADVERTISER_BUDGET_INTERVAL,
};
pub(super) const PONG_RATE: Rate = Rate {
    burst: limits::PONG_BUDGET,
    interval: limits::PONG_BUDGET_INTERVAL,
};

const ADDRESS_RATE: Rate = Rate {
    burst: limits::ADDRESS_BUDGET,
    interval: limits::ADDRESS_BUDGET_INTERVAL,
};
const PREFIX_RATE: Rate = Rate {
    burst: limits::PREFIX_BUDGET,
    interval: limits::PREFIX_BUDGET_INTERVAL,
};
const MAIL_RATE: Rate = Rate {
    burst: limits::MAIL_BUDGET,
    interval: limits::MAIL_BUDGET_INTERVAL,
};
const MAIL_DOMAIN_RATE: Rate = Rate {
    burst: limits::MAIL_DOMAIN_BUDGET,
    interval: limits::MAIL_DOMAIN_BUDGET_INTERVAL,
};

/// A token bucket, kept as the time at which it is (or was) full again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    full_at: Instant,
}

impl Bucket {
    pub(super) const fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// `None` if a token is there, else when there will be one.
    pub(super) fn wait(&self, now: Instant, rate: Rate) -> Option<Instant> {
        // With one token left the bucket is full after all but one interval.
        let slack = rate.interval.saturating_mul(rate.burst.saturating_sub(1));
        let missing = self.full_at.saturating_duration_since(now);
        let wait = missing.checked_sub(slack).filter(|w| !w.is_zero())?;
        now.checked_add(wait)
    }

    /// Takes a token; false if none is there.
    pub(super) fn take(&mut self, now: Instant, rate: Rate) -> bool {
        if self.wait(now, rate).is_some() {
            return false;
        }
        let from = self.full_at.max(now);
        self.full_at = from.checked_add(rate.interval).unwrap_or(from);
        true
    }

    fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

/// Who could be harmed by PINGs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The host at the address.
    Address(Address),
    /// The reader of the mailbox.
    Mailbox(String),
    /// The network: the first 24 bits of an IPv4 address, 48 of an IPv6 address.
    V4([u8; 3]),
    V6([u8; 6]),
    /// The host or the mail domain.
    Host(String),
}

impl Target {
    /// The address itself and what it is a part of, each with its rate.
    fn of(address: &Address) -> Vec<(Target, Rate)> {
        let own = |rate| (Target::Address(address.clone()), rate);
        match address {
            Address::Smtp(mail) => {
                // Another filter header does not make another person, nor do capital letters.
                let mailbox = mail.mailbox().to_ascii_lowercase();
                let domain = mailbox.rsplit('@').next().unwrap_or_default();
                let domain = Target::Host(domain.to_owned());
                vec![
                    (Target::Mailbox(mailbox), MAIL_RATE),
                    (domain, MAIL_DOMAIN_RATE),
                ]
            }
            Address::Ws(web) if web.ip().is_none() => {
                let host = Target::Host(web.host_and_port().0);
                vec![own(ADDRESS_RATE), (host, PREFIX_RATE)]
            }
            Address::Exec(exec) => {
                let name = Target::Host(exec.name().to_owned());
                vec![own(ADDRESS_RATE), (name, PREFIX_RATE)]
            }
            Address::Relay(relay) => {
                let parent = Target::Host(relay.parent.to_string());
                vec![own(ADDRESS_RATE), (parent, PREFIX_RATE)]
            }
            _ => {
                let mut targets = vec![own(ADDRESS_RATE)];
                targets.extend(address.ip().map(|ip| (Target::network(ip), PREFIX_RATE)));
                targets
            }
        }
    }

    fn network(ip: IpAddr) -> Target {
        match ip {
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                Target::V4([a, b, c])
            }
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, ..] = ip.octets();
                Target::V6([a, b, c, d, e, f])
            }
        }
    }
}

/// One bucket for each address and each network, whichever member advertises them.
#[derive(Debug, Default)]
pub(super) struct TargetBudgets {
    buckets: BTreeMap<Target, Bucket>,
}

impl TargetBudgets {
    /// `None` if the address may get a PING, else when to ask again.
    pub(super) fn wait(&mut self, now: Instant, address: &Address) -> Option<Instant> {
        let mut latest = None;
        for (target, rate) in Target::of(address) {
            if let Some(bucket) = self.buckets.get(&target) {
                latest = latest.max(bucket.wait(now, rate));
                continue;
            }
            if self.buckets.len() >= limits::VALIDATOR_TARGETS {
                self.buckets.retain(|_, bucket| !bucket.is_full(now));
            }
            if self.buckets.len() >= limits::VALIDATOR_TARGETS {
                return now.checked_add(limits::ADDRESS_BUDGET_INTERVAL);
            }
        }
        latest
    }

    /// Takes what [`Self::wait`] has found.
    pub(super) fn take(&mut self, now: Instant, address: &Address) {
        for (target, rate) in Target::of(address) {
            let bucket = self.buckets.entry(target).or_insert(Bucket::full(now));
            bucket.take(now, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_gives_its_burst_then_one_per_interval() {
        let rate = Rate {
            burst: 3,
            interval: Duration::from_secs(10),
        };
        let start = Instant::now();
        let mut bucket = Bucket::full(start);
        assert_eq!((0..5).filter(|_| bucket.take(start, rate)).count(), 3);
        let next = bucket.wait(start, rate).unwrap();
        assert_eq!(next, start + Duration::from_secs(10));
        assert!(!bucket.take(next - Duration::from_nanos(1), rate));
        assert!(bucket.take(next, rate));
        assert!(!bucket.take(next, rate));
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..5).filter(|_| bucket.take(later, rate)).count(), 3);
    }

    #[test]
    fn many_addresses_share_the_budget_of_their_network() {
        let start = Instant::now();
        let mut budgets = TargetBudgets::default();
        let mut sent = 0;
        for host in 0..=255_u8 {
            for port in 1..20_u16 {
                let address = Address::Udp((([192, 0, 2, host]), port).into());
                if budgets.wait(start, &address).is_none() {
                    budgets.take(start, &address);
                    sent += 1;
                }
            }
        }
        assert_eq!(sent, limits::PREFIX_BUDGET);
        assert!(
            budgets
                .wait(start, &Address::Udp(([192, 0, 3, 1], 1).into()))
                .is_none()
        );
    }

    /// The mailbox is the same however it is spelled.
    #[test]
    fn mailbox_and_domain_have_daily_budgets() {
        let day = Duration::from_secs(86_400);
        let mut now = Instant::now();
        let start = now;
        let mut budgets = TargetBudgets::default();
        let (mut to_one, mut to_domain) = (0, 0);
        while now < start + day {
            for member in 0..400_usize {
                // Spelled otherwise each time.
                let (m, b) = (["m", "M"][member % 2], now.duration_since(start).as_secs());
                let address = format!("smtp://{m}{}@example.org?X-A=b{b}", member / 2);
                let address = address.parse().unwrap();
                if budgets.wait(now, &address).is_none() {
                    budgets.take(now, &address);
                    to_domain += 1;
                    to_one += u32::from(member / 2 == 0);
                }
            }
            now += Duration::from_secs(600);
        }
        assert!(to_one <= 4, "{to_one}");
        assert!(to_domain <= 64 + 97, "{to_domain}");
    }
}
