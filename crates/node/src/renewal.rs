//! When a certificate is renewed, and when it is time to worry. Nothing here reads a clock.
//!
//! A renewal is another certificate for the same key, name, address and place in the ring, with a
//! new serial and a new validity. The older one stays good until its own end: a member that knows
//! only that has missed nothing.

pub(crate) mod by_dns;

use std::time::Duration;

use crate::certificate::Certificate;
use crate::clock::time_of;
use crate::limits::{
    EXPIRY_WARNING, RENEW_AFTER, RENEW_RETRY_LONGEST, RENEW_SPREAD, ROTATION_RETRY_FIRST,
};

/// When the certificate was issued: its validity begins earlier, for clocks that are behind.
fn issued(certificate: &Certificate) -> u64 {
    let (first, last) = (certificate.not_before(), certificate.not_after());
    time_of(certificate.serial()).map_or(first, |at| at.clamp(first, last.max(first)))
}

fn part(lifetime: u64, share: (u64, u64)) -> u64 {
    let (of, parts) = share;
    // A lifetime is at most 2^64 - 1; divided first, nothing overflows.
    (lifetime / parts).saturating_mul(of) + (lifetime % parts) * of / parts
}

/// First second at which the authority renews the certificate, Unix time.
#[must_use]
pub fn renewable_from(certificate: &Certificate) -> u64 {
    let issued = issued(certificate);
    let lifetime = certificate.not_after().saturating_sub(issued);
    issued + part(lifetime, RENEW_AFTER)
}

/// First second at which the certificate's member, if it runs, has had time to renew it.
pub(crate) fn renewed_by(certificate: &Certificate) -> u64 {
    let issued = issued(certificate);
    let lifetime = certificate.not_after().saturating_sub(issued);
    issued + part(lifetime, RENEW_AFTER) + part(lifetime, RENEW_SPREAD)
}

/// First second from which people are to be warned that the certificate ends.
#[must_use]
pub fn warned_from(certificate: &Certificate) -> u64 {
    let lifetime = certificate.not_after().saturating_sub(issued(certificate));
    let before = EXPIRY_WARNING.as_secs().min(lifetime / 12);
    certificate.not_after() - before
}

/// The longest pause between two tries at `now`, Unix seconds.
pub(crate) fn longest_pause(certificate: &Certificate, now: u64) -> Duration {
    let left = Duration::from_secs(certificate.not_after().saturating_sub(now));
    (left / 16).clamp(Duration::from_secs(1), RENEW_RETRY_LONGEST)
}

/// When a member tries to renew one certificate.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    certificate: Certificate,
    /// Of the first try, Unix seconds.
    from: u64,
    pause: Duration,
}

impl Schedule {
    /// `random` spreads the first tries of many members.
    pub(crate) fn new(certificate: Certificate, random: u64) -> Schedule {
        let (first, last) = (renewable_from(&certificate), renewed_by(&certificate));
        Schedule {
            from: first + random % (last - first).max(1),
            certificate,
            pause: ROTATION_RETRY_FIRST,
        }
    }

    /// The certificate that is to be renewed.
    pub(crate) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// True if it is time to try, as far as the clock is asked: `now` is in Unix seconds.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.from <= now
    }

    /// A try at `now` has failed: how long to wait before the next. `random` spreads those of many
    /// members that find the same authority gone.
    pub(crate) fn failed(&mut self, now: u64, random: u64) -> Duration {
        let pause = self.pause.min(longest_pause(&self.certificate, now));
        self.pause = (self.pause * 2).min(RENEW_RETRY_LONGEST);
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        pause / 2 + Duration::from_millis(random % (millis / 2 + 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::certificate::CertificateFields;
    use crate::identity::Identity;
    use ringway_transport::Signer as _;

    const DAY: u64 = 86_400;
    const START: u64 = 1_800_000_000;

    fn certificate(lifetime: u64) -> Certificate {
        let owner = Identity::generate().unwrap();
        let fields = CertificateFields {
            member: owner.member(),
            name: "oslo".parse().unwrap(),
            address: None,
            nonce: [0; 16],
            not_before: START - 300,
            not_after: START + lifetime,
            serial: START * 1_000_000,
        };
        Certificate::issue(&owner, &fields)
    }

    #[test]
    fn a_years_certificate_renews_two_months_early() {
        let year = certificate(360 * DAY);
        assert_eq!(renewable_from(&year), START + 240 * DAY);
        assert_eq!(renewed_by(&year), START + 300 * DAY);
        assert_eq!(warned_from(&year), START + 330 * DAY);
    }

    #[test]
    fn short_lifetimes_begin_at_issue() {
        let short = certificate(30);
        assert_eq!(renewable_from(&short), START + 20);
        assert_eq!(renewed_by(&short), START + 25);
        assert_eq!(warned_from(&short), START + 28);
    }

    #[test]
    fn many_members_come_at_many_times() {
        let year = certificate(360 * DAY);
        let at = |n: u64| Schedule::new(year.clone(), n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).from;
        let mut days: Vec<u64> = (0..6_000).map(|n| (at(n) - START) / DAY).collect();
        days.sort_unstable();
        assert_eq!((days.first(), days.last()), (Some(&240), Some(&299)));
        let most = days.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
        assert!(most < Some(200), "{most:?} of 6 000 on one day");
    }

    #[test]
    fn tries_grow_rarer_and_precede_the_end() {
        let mut schedule = Schedule::new(certificate(360 * DAY), 0);
        assert!(!schedule.is_due(START + 240 * DAY - 1));
        let mut now = START + 240 * DAY;
        let (mut tries, mut before) = (0, Duration::ZERO);
        while now < START + 360 * DAY {
            assert!(schedule.is_due(now));
            let pause = schedule.failed(now, 0);
            assert!(pause <= RENEW_RETRY_LONGEST / 2);
            // Until the end is near no pause is shorter than the one before.
            assert!(pause >= before || now > START + 359 * DAY, "{pause:?}");
            before = pause;
            now += pause.as_secs().max(1);
            tries += 1;
        }
        // Twice an hour with this randomness, and more often on the last day.
        assert!((5_700..6_200).contains(&tries), "{tries}");
    }

    proptest! {
        #[test]
        fn nothing_overflows_and_the_order_holds(
            first in any::<u64>(), last in any::<u64>(), serial in any::<u64>(), random in any::<u64>(), now in any::<u64>()
        ) {
            let owner = Identity::generate().unwrap();
            let fields = CertificateFields {
                member: owner.member(), name: "oslo".parse().unwrap(), address: None, nonce: [0; 16],
                not_before: first, not_after: last, serial,
            };
            let certificate = Certificate::issue(&owner, &fields);
            let (from, by) = (renewable_from(&certificate), renewed_by(&certificate));
            prop_assert!(from <= by && by <= last.max(first));
            prop_assert!(warned_from(&certificate) <= last);
            let mut schedule = Schedule::new(certificate, random);
            prop_assert!(schedule.failed(now, random) <= RENEW_RETRY_LONGEST);
        }
    }
}
