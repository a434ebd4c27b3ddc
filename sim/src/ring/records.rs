//! Records, and statements of the owner, in a simulated ring.

use std::collections::BTreeMap;
use std::time::Duration;

use ringway_overlay::{Credentials, Event, Record, RingKey};

use super::RingSim;
use crate::trust::MemberOf;

impl RingSim {
    /// A record of `author`, signed, that lasts for `seconds` from now.
    #[must_use]
    pub fn record(
        &self,
        author: RingKey,
        name: &str,
        value: &str,
        number: u64,
        seconds: u64,
    ) -> Record {
        let credentials = MemberOf::new(&self.registry, author);
        let expires = credentials.unix_time(self.instant()) + seconds;
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let statement = Record::statement(name, value, number, expires);
        Record {
            certificate: author.as_bytes().to_vec(),
            name: name.to_vec(),
            value: value.to_vec(),
            number,
            expires,
            signature: credentials.sign(&statement),
        }
    }

    /// Has a member put a record; the result will be among [`take_records`](Self::take_records).
    /// False if it does not run or refused.
    pub fn put(&mut self, from: RingKey, record: Record) -> bool {
        let now = self.instant();
        let done = self.with(from, |chord| chord.put(now, record).is_ok());
        done.unwrap_or(false)
    }

    /// Has a member get the record `name` of `author`.
    pub fn get(&mut self, from: RingKey, author: RingKey, name: &str) -> bool {
        let now = self.instant();
        let point = Record::point(author.as_bytes(), name.as_bytes());
        let done = self.with(from, |chord| chord.get(now, point).is_ok());
        done.unwrap_or(false)
    }

    /// How puts and gets ended since the last call, in order.
    pub fn take_records(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.records)
    }

    /// One member learns of the owner's statement number `number`, as from DNS, and tells the
    /// others.
    pub fn state(&mut self, first: RingKey, number: u64) {
        self.heard.clear();
        let statement = self.registry.statement(number);
        self.with(first, |chord| chord.spread(&statement));
    }

    /// When each member heard of it from another one.
    #[must_use]
    pub fn heard(&self) -> &BTreeMap<RingKey, Duration> {
        &self.heard
    }
}
