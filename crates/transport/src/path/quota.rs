//! How many messages a day the owner of an address accepts there, and how many have left.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::address::{Address, AddressDescriptor};
use crate::member::MemberId;

const DAY: Duration = Duration::from_secs(86_400);

/// Messages are counted by the hour, so that a day takes 25 numbers.
const HOUR: Duration = Duration::from_secs(3600);

/// The quotas that members have set on their own addresses, and what of them is used up. Clones
/// share it: the [`Validator`](crate::Validator) learns the quotas and counts PINGs,
/// [`Paths`](super::Paths) count all else.
///
/// What one member says of an address counts for messages to that member only. It is as bounded as
/// HELLOs are: with a member that the validator forgets go its quotas.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    members: Arc<Mutex<BTreeMap<MemberId, BTreeMap<Address, Daily>>>>,
}

/// One address.
#[derive(Debug)]
struct Daily {
    quota: u32,
    /// Messages of each hour: when it began, and how many. The oldest first.
    hours: VecDeque<(Instant, u32)>,
}

impl Daily {
    /// Messages that have left within a day, or up to an hour more: never fewer than have.
    fn used(&self, now: Instant) -> u32 {
        let recent = self.hours.iter().filter(|(began, _)| counts(now, *began));
        recent.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// When the oldest hour that counts no longer does; `now` if nothing counts.
    fn again(&self, now: Instant) -> Instant {
        let oldest = self.hours.iter().find(|(began, _)| counts(now, *began));
        let until = oldest.and_then(|(began, _)| began.checked_add(DAY.saturating_add(HOUR)));
        // A quota of none at all is looked at again tomorrow: a newer HELLO may say otherwise.
        until.or_else(|| now.checked_add(DAY)).unwrap_or(now)
    }

    fn count(&mut self, now: Instant, messages: u32) {
        self.hours.retain(|(began, _)| counts(now, *began));
        match self.hours.back_mut() {
            Some((began, count)) if now.saturating_duration_since(*began) < HOUR => {
                *count = count.saturating_add(messages);
            }
            _ => self.hours.push_back((now, messages)),
        }
    }
}

fn counts(now: Instant, began: Instant) -> bool {
    now.saturating_duration_since(began) < DAY.saturating_add(HOUR)
}

impl Quotas {
    fn members(&self) -> MutexGuard<'_, BTreeMap<MemberId, BTreeMap<Address, Daily>>> {
        // A panic elsewhere cannot leave it half changed.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Command: these are the member's addresses. What was sent to those that stay counts on.
    pub(crate) fn learn(&self, member: MemberId, descriptors: &[&AddressDescriptor]) {
        let mut members = self.members();
        let mut before = members.remove(&member).unwrap_or_default();
        let mut known = BTreeMap::new();
        for descriptor in descriptors {
            let Some(quota) = descriptor.quota else {
                continue;
            };
            let hours = before.remove(&descriptor.address).map(|daily| daily.hours);
            let hours = hours.unwrap_or_default();
            known.insert(descriptor.address.clone(), Daily { quota, hours });
        }
        if !known.is_empty() {
            members.insert(member, known);
        }
    }

    /// Command: forgets a member.
    pub(crate) fn remove(&self, member: &MemberId) {
        self.members().remove(member);
    }

    /// When the next message may go to this address of the member, if today's quota is used up.
    pub fn used_up(&self, now: Instant, member: &MemberId, address: &Address) -> Option<Instant> {
        let members = self.members();
        let daily = members.get(member)?.get(address)?;
        (daily.used(now) >= daily.quota).then(|| daily.again(now))
    }

    /// Counts messages that leave for this address of the member, all of them or none. False if
    /// they are more than today's quota has left; then they must not leave.
    pub fn take(&self, now: Instant, member: &MemberId, address: &Address, messages: u32) -> bool {
        let mut members = self.members();
        let known = members.get_mut(member).and_then(|all| all.get_mut(address));
        let Some(daily) = known else {
            return true;
        };
        let fits = daily.used(now).saturating_add(messages) <= daily.quota;
        if fits {
            daily.count(now, messages);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: MemberId = MemberId::new([1; 32]);

    fn mailbox(quota: Option<u32>) -> AddressDescriptor {
        let address = "smtp://a@example.org?X-A=b".parse().unwrap();
        AddressDescriptor {
            quota,
            ..AddressDescriptor::new(address, 64, 1)
        }
    }

    #[test]
    fn each_day_has_nearly_its_quota_never_more() {
        let quotas = Quotas::default();
        let mailbox = mailbox(Some(10));
        quotas.learn(ME, &[&mailbox]);
        let start = Instant::now();
        let mut sent: Vec<Instant> = Vec::new();
        for minute in 0..5 * 24 * 60 {
            let now = start + Duration::from_secs(minute * 60);
            let free = quotas.used_up(now, &ME, &mailbox.address).is_none();
            assert_eq!(free, quotas.take(now, &ME, &mailbox.address, 1));
            sent.extend(free.then_some(now));
            let today = sent.iter().filter(|then| now < **then + DAY).count();
            assert!(today <= 10, "{today} within a day");
        }
        assert!(sent.len() >= 40, "{} in five days", sent.len());
    }

    #[test]
    fn usage_is_per_member_and_outlasts_a_hello() {
        let quotas = Quotas::default();
        let (now, two) = (Instant::now(), mailbox(Some(2)));
        let other = MemberId::new([2; 32]);
        quotas.learn(ME, &[&two]);
        quotas.learn(other, &[&mailbox(Some(0))]);
        assert!(
            !quotas.take(now, &ME, &two.address, 3),
            "more than there is"
        );
        assert!(quotas.take(now, &ME, &two.address, 2));
        quotas.learn(ME, &[&two]);
        assert!(quotas.used_up(now, &ME, &two.address).is_some());
        assert!(!quotas.take(now, &other, &two.address, 1));
        quotas.learn(ME, &[&mailbox(None)]);
        assert!(quotas.take(now, &ME, &two.address, 1_000));
        quotas.remove(&other);
        assert!(quotas.take(now, &other, &two.address, 1));
    }
}
