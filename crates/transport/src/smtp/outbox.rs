//! Which messages share a mail, when it leaves, and when there were enough mails. Reads no clock
//! and sends nothing.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::options::{MailBudget, SmtpOptions};
use crate::address::MailAddress;
use crate::limits::{
    MAIL_AGE, MAIL_BUDGETS, MAIL_CONTAINER_BYTES, MAIL_DAILY_MOST, MAIL_GATHER_TIME, MAIL_MESSAGES,
    MAIL_RETRY, MAIL_RETRY_LONGEST, MAIL_WAITING_BOXES, MAIL_WAITING_BYTES, SMTP_MTU,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a message costs besides its bytes: its place in a list and in a mail.
const OVERHEAD: usize = 64;

/// Why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too much waits.
    Full,
    /// Enough mails were sent.
    Budget,
}

/// Messages that leave together.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) to: MailAddress,
    pub(super) messages: Vec<Bytes>,
    /// Random, at its first use; the same for each attempt.
    pub(super) number: Option<[u8; 16]>,
    bytes: usize,
    /// When it began, and when it is due.
    born: Instant,
    due: Instant,
    attempts: u32,
}

impl Mail {
    fn has_room(&self, size: usize, batch_bytes: usize) -> bool {
        self.messages.len() < MAIL_MESSAGES
            && self.bytes.saturating_add(size).saturating_add(OVERHEAD) <= batch_bytes
    }
}

/// When mails were begun within the last day, in order.
#[derive(Debug, Default)]
struct Spent {
    begun: VecDeque<Instant>,
    /// When the last of them leaves, or has left; kept for each mailbox.
    last: Option<Instant>,
}

impl Spent {
    fn allows(&mut self, now: Instant, budget: MailBudget) -> bool {
        let age = |then: &Instant| now.saturating_duration_since(*then);
        while self.begun.front().is_some_and(|then| age(then) >= DAY) {
            self.begun.pop_front();
        }
        let earlier = self.begun.partition_point(|then| age(then) >= HOUR);
        let in_hour = self.begun.len().saturating_sub(earlier);
        self.begun.len() < budget.daily.min(MAIL_DAILY_MOST) && in_hour < budget.hourly
    }
}

/// The messages that wait to be mailed.
#[derive(Debug)]
pub(super) struct Outbox {
    batch_time: Duration,
    batch_bytes: usize,
    budget: MailBudget,
    mailbox_budget: MailBudget,
    /// Still collecting.
    open: BTreeMap<MailAddress, Mail>,
    /// To be sent as soon as they are due.
    closed: VecDeque<Mail>,
    /// Of all that waits or is on its way to the relay.
    bytes: usize,
    spent: Spent,
    /// By mailbox: another filter header does not make another person.
    mailbox_spent: BTreeMap<String, Spent>,
}

impl Outbox {
    pub(super) fn new(options: &SmtpOptions) -> Self {
        // One message of full size always has room.
        let least = SMTP_MTU.saturating_add(OVERHEAD);
        Self {
            batch_time: options.batch_time,
            batch_bytes: options.batch_bytes.clamp(least, MAIL_CONTAINER_BYTES),
            budget: options.budget,
            mailbox_budget: options.mailbox_budget,
            open: BTreeMap::new(),
            closed: VecDeque::new(),
            bytes: 0,
            spent: Spent::default(),
            mailbox_spent: BTreeMap::new(),
        }
    }

    /// Takes a message, or says why not.
    pub(super) fn push(
        &mut self,
        now: Instant,
        to: &MailAddress,
        message: &[u8],
    ) -> Result<(), Refused> {
        let size = message.len().saturating_add(OVERHEAD);
        let bytes = self.bytes.saturating_add(size);
        if bytes > MAIL_WAITING_BYTES {
            return Err(Refused::Full);
        }
        let has_room = |mail: &Mail| mail.has_room(message.len(), self.batch_bytes);
        if !self.open.get(to).is_some_and(has_room) {
            self.begin(now, to)?;
        }
        if let Some(mail) = self.open.get_mut(to) {
            mail.messages.push(Bytes::copy_from_slice(message));
            mail.bytes = mail.bytes.saturating_add(size);
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Begins another mail, if it is still allowed. A mail that begins will be sent.
    fn begin(&mut self, now: Instant, to: &MailAddress) -> Result<(), Refused> {
        if !self.open.contains_key(to) && self.open.len() >= MAIL_WAITING_BOXES {
            return Err(Refused::Full);
        }
        let due = self.spend(now, to)?;
        let mail = Mail {
            to: to.clone(),
            messages: Vec::new(),
            number: None,
            bytes: 0,
            born: now,
            due,
            attempts: 0,
        };
        if let Some(full) = self.open.insert(to.clone(), mail) {
            self.closed.push_back(Mail { due: now, ..full });
        }
        Ok(())
    }

    /// Takes a mail to `to` from the budgets, or says why not. When it is due: soon if nothing went
    /// there lately; otherwise messages are collected until the batch time has passed.
    fn spend(&mut self, now: Instant, to: &MailAddress) -> Result<Instant, Refused> {
        if !self.spent.allows(now, self.budget) {
            return Err(Refused::Budget);
        }
        let mailbox = to.mailbox().to_ascii_lowercase();
        if !self.mailbox_spent.contains_key(&mailbox) && self.mailbox_spent.len() >= MAIL_BUDGETS {
            let recent = |then: &Instant| now.saturating_duration_since(*then) < DAY;
            self.mailbox_spent
                .retain(|_, spent| spent.begun.back().is_some_and(recent));
            if self.mailbox_spent.len() >= MAIL_BUDGETS {
                return Err(Refused::Budget);
            }
        }
        let spent = self.mailbox_spent.entry(mailbox).or_default();
        if !spent.allows(now, self.mailbox_budget) {
            return Err(Refused::Budget);
        }
        // One that was still collecting is full, and leaves now.
        let full = self.open.contains_key(to);
        let last = if full { Some(now) } else { spent.last };
        let after = |start: Instant, time| start.checked_add(time).unwrap_or(now);
        let soon = after(now, self.batch_time.min(MAIL_GATHER_TIME));
        let due = last.map_or(soon, |last| after(last, self.batch_time).max(soon));
        spent.last = Some(due);
        spent.begun.push_back(now);
        self.spent.begun.push_back(now);
        Ok(due)
    }

    /// The next mail that is due, the one that is overdue longest. Hand it to [`Self::sent`] or
    /// [`Self::retry`].
    pub(super) fn poll(&mut self, now: Instant) -> Option<Mail> {
        let open = self.open.iter().min_by_key(|(_, mail)| mail.due);
        let open = open.map(|(to, mail)| (mail.due, to.clone()));
        let closed = self
            .closed
            .iter()
            .enumerate()
            .min_by_key(|(_, mail)| mail.due);
        let closed = closed.map(|(at, mail)| (mail.due, at));
        match (open, closed) {
            (Some((due, to)), closed)
                if due <= now && closed.is_none_or(|(other, _)| due < other) =>
            {
                self.open.remove(&to)
            }
            (_, Some((due, at))) if due <= now => self.closed.remove(at),
            _ => None,
        }
    }

    /// When [`Self::poll`] has something.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let mails = self.open.values().chain(&self.closed);
        mails.map(|mail| mail.due).min()
    }

    /// The mail has left, or never will.
    pub(super) fn sent(&mut self, mail: Mail) {
        self.bytes = self.bytes.saturating_sub(mail.bytes);
    }

    /// The relay may take the mail later. False if it is too old and dropped.
    pub(super) fn retry(&mut self, now: Instant, mut mail: Mail) -> bool {
        let factor = 1_u32.checked_shl(mail.attempts).unwrap_or(u32::MAX);
        let pause = MAIL_RETRY.saturating_mul(factor).min(MAIL_RETRY_LONGEST);
        mail.attempts = mail.attempts.saturating_add(1);
        mail.due = now.checked_add(pause).unwrap_or(now);
        if mail.due.saturating_duration_since(mail.born) > MAIL_AGE {
            self.sent(mail);
            return false;
        }
        self.closed.push_back(mail);
        true
    }
}
