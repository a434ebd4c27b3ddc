//! When PINGs leave: repeated, renewed, put off by a budget, given up.

use std::time::{Duration, Instant};

use rand::Rng;

use super::budget::ADVERTISER_RATE;
use super::entry::{Entry, Probe};
use super::timing::Timing;
use super::{Ping, Validator};
use crate::address::Address;
use crate::limits;
use crate::member::MemberId;

impl Validator {
    /// The address is due: the PING that is out is lost, send another, ask for another HELLO, put
    /// it off, or give up.
    pub(super) fn advance(&mut self, now: Instant, member: MemberId, address: &Address) {
        let Some(entry) = self.entry(member, address) else {
            return;
        };
        let (lost, attempts, asked) = (entry.probe.take(), entry.attempts, entry.asked);
        let (once_valid, granted) = (entry.valid.is_some(), entry.granted);
        let timing = entry.timing();
        if let Some(probe) = lost {
            self.outstanding.remove(&probe.challenge);
        }
        let due = if !once_valid && !self.may_be_tested(member, address) {
            None
        } else if granted || (once_valid && attempts < timing.attempts) {
            self.ping_or_put_off(now, member, address, attempts, timing)
        } else if once_valid {
            let rest = self.next_rest(member, address, timing);
            Some(after(now, self.shortened(rest)))
        } else if asked.saturating_add(1) < timing.attempts {
            Some(self.ask_again(now, member, address, asked, timing))
        } else {
            None
        };
        self.set_due(member, address, due);
    }

    /// A QUIC handshake is longer than any HELLO: it goes only to hosts at which the member has
    /// answered a PING.
    fn may_be_tested(&self, member: MemberId, address: &Address) -> bool {
        let Address::Quic(socket) = address else {
            return true;
        };
        let entries = self.members.get(&member).map(|known| &known.addresses);
        let mut proved = entries.into_iter().flatten().filter(|e| e.valid.is_some());
        proved.any(|entry| entry.descriptor.address.ip() == Some(socket.ip()))
    }

    /// The member's addresses that waited for this one, being at the same host, are tested now.
    pub(super) fn advance_same_host(&mut self, now: Instant, member: MemberId, address: &Address) {
        let Some((advertiser, ip)) = self.members.get(&member).zip(address.ip()) else {
            return;
        };
        let waits = |entry: &&Entry| {
            let new = entry.valid.is_none() && entry.due.is_none() && entry.granted;
            new && entry.descriptor.address.ip() == Some(ip)
        };
        let waiting = advertiser.addresses.iter().filter(waits);
        let waiting: Vec<Address> = waiting.map(|e| e.descriptor.address.clone()).collect();
        for address in &waiting {
            self.advance(now, member, address);
        }
    }

    /// An address that has never been proved gets one PING for each HELLO that names it. So that a
    /// lost one does no harm the member is asked to say its HELLO again. Returns when to look
    /// at the address again.
    fn ask_again(
        &mut self,
        now: Instant,
        member: MemberId,
        address: &Address,
        asked: u32,
        timing: &Timing,
    ) -> Instant {
        self.hellos_wanted.insert(member);
        if let Some(entry) = self.entry(member, address) {
            entry.asked = asked.saturating_add(1);
        }
        let doubled = 2_u32 << asked.min(16);
        let pause = timing.timeout.saturating_mul(doubled);
        after(now, pause.saturating_add(self.jitter(pause)))
    }

    /// Sends a PING if the budgets allow it. Returns when to look at the address again; `None` if
    /// no member is left that answers for it.
    fn ping_or_put_off(
        &mut self,
        now: Instant,
        member: MemberId,
        address: &Address,
        attempts: u32,
        timing: &Timing,
    ) -> Option<Instant> {
        if self.queue.len() >= limits::PING_QUEUE {
            return Some(after(now, timing.timeout));
        }
        let budget = &mut self.members.get_mut(&member)?.budget;
        let wait = budget
            .wait(now, ADVERTISER_RATE)
            .max(self.budgets.wait(now, address))
            .max(self.quotas.used_up(now, &member, address));
        if let Some(until) = wait {
            return Some(until);
        }
        // All are there, so all are taken.
        budget.take(now, ADVERTISER_RATE);
        self.budgets.take(now, address);
        self.quotas.take(now, &member, address, 1);
        self.ping(now, member, address);
        let timeout = timing.timeout.saturating_mul(1_u32 << attempts.min(16));
        Some(after(now, timeout.saturating_add(self.jitter(timeout))))
    }

    fn ping(&mut self, now: Instant, member: MemberId, address: &Address) {
        let mut challenge = [0; 32];
        self.rng.fill_bytes(&mut challenge);
        if let Some(entry) = self.entry(member, address) {
            entry.attempts = entry.attempts.saturating_add(1);
            entry.granted = false;
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

    pub(super) fn set_due(&mut self, member: MemberId, address: &Address, due: Option<Instant>) {
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

    pub(super) fn entry(&mut self, member: MemberId, address: &Address) -> Option<&mut Entry> {
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

    pub(super) fn shortened(&mut self, time: Duration) -> Duration {
        time.saturating_sub(self.jitter(time))
    }
}

/// `now + time`; `now` if the clock cannot hold that.
pub(super) fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}
