//! How much is written down: alike events are joined, and no more are written than a disk bears.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::verdict::{Event, EventKind};

use crate::limits::{EVENT_BURST, EVENT_RATE, JOINED_AFTER, JOINED_FOR, MAX_JOINED};

/// The client, the rule, what was done, and the application.
type Key = (IpAddr, String, &'static str, String);

/// Alike events.
#[derive(Debug)]
struct Row {
    until: Duration,
    /// Events that were written since the row began.
    written: u32,
    /// The latest of those that were not, and how many attempts they report.
    rest: Option<(Event, u64)>,
}

/// Decides which events are written, and joins the others.
///
/// Of alike alerts and drops [`JOINED_AFTER`] are written in [`JOINED_FOR`]; the rest is one event
/// at the end of that time, with `attempts`. Files and messages are never joined.
#[derive(Debug)]
pub(super) struct Joined {
    rows: HashMap<Key, Row>,
    /// Events that may be written at the moment.
    budget: u64,
    filled: Duration,
}

impl Default for Joined {
    fn default() -> Joined {
        Joined {
            rows: HashMap::new(),
            budget: EVENT_BURST,
            filled: Duration::ZERO,
        }
    }
}

impl Joined {
    /// The events to write of these, and how many are left out because there are too many. `now`
    /// is the time since the Unix epoch.
    pub(super) fn sift(&mut self, now: Duration, events: Vec<Event>) -> (Vec<Event>, u64) {
        let mut written = self.due(now);
        for event in events {
            written.extend(self.take_in(now, event));
        }
        let room = usize::try_from(self.refill(now)).unwrap_or(usize::MAX);
        let left_out = written.len().saturating_sub(room);
        written.truncate(room);
        let count = u64::try_from(written.len()).unwrap_or(u64::MAX);
        self.budget = self.budget.saturating_sub(count);
        (written, u64::try_from(left_out).unwrap_or(u64::MAX))
    }

    /// All that is joined and was not written.
    pub(super) fn rest(&mut self) -> Vec<Event> {
        let rows = std::mem::take(&mut self.rows);
        rows.into_values().filter_map(Row::into_event).collect()
    }

    fn take_in(&mut self, now: Duration, event: Event) -> Option<Event> {
        if !matches!(event.kind, EventKind::Alert | EventKind::Drop) {
            return Some(event);
        }
        let key = (
            event.src_ip,
            event.alert.signature.clone(),
            event.alert.action,
            event.app.clone(),
        );
        // Without room for another row an event is written by itself, and not lost.
        if self.rows.len() >= MAX_JOINED && !self.rows.contains_key(&key) {
            return Some(event);
        }
        let row = self.rows.entry(key).or_insert_with(|| Row {
            until: now.saturating_add(JOINED_FOR),
            written: 0,
            rest: None,
        });
        if row.written < JOINED_AFTER {
            row.written = row.written.saturating_add(1);
            return Some(event);
        }
        let before = row.rest.as_ref().map_or(0, |(_, attempts)| *attempts);
        let attempts = before.saturating_add(event.attempts.unwrap_or(1));
        row.rest = Some((event, attempts));
        None
    }

    /// Events of rows whose time is over.
    fn due(&mut self, now: Duration) -> Vec<Event> {
        let over = self.rows.extract_if(|_, row| row.until <= now);
        over.filter_map(|(_, row)| row.into_event()).collect()
    }

    fn refill(&mut self, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.filled);
        self.filled = self.filled.max(now);
        let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let new = millis.saturating_mul(EVENT_RATE) / 1_000;
        self.budget = self.budget.saturating_add(new).min(EVENT_BURST);
        self.budget
    }
}

impl Row {
    fn into_event(self) -> Option<Event> {
        let (mut event, attempts) = self.rest?;
        event.attempts = Some(attempts);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use crate::policy::Policy;
    use crate::verdict::{Event, Gateway, Mode, Settings};
    use crate::{LinkType, Packets, built_in_classifier};

    use super::Joined;
    use crate::limits::{EVENT_BURST, JOINED_AFTER, JOINED_FOR};

    /// Alerts of clients that call a blocked port, one each.
    fn alerts(clients: impl Iterator<Item = [u8; 4]>) -> Vec<Event> {
        let policy = "[[rule]]\nname = \"no\"\nport = 7\naction = \"block\"\n";
        let policy = Policy::parse(policy, &[].into()).unwrap();
        let settings = Settings {
            mode: Mode::Enforce,
            blocked_for: Duration::ZERO,
            ..Settings::default()
        };
        let classifier = built_in_classifier();
        let mut gateway = Gateway::new(classifier, Default::default(), policy.into(), settings);
        let mut packets = Packets::new();
        let server = SocketAddr::from(([192, 0, 2, 1], 7));
        for (number, client) in clients.enumerate() {
            let port = u16::try_from(number % 60_000)
                .unwrap()
                .saturating_add(1_024);
            packets.udp(SocketAddr::from((client, port)), server, b"x");
        }
        let mut events = Vec::new();
        for (now, packet) in packets.iter() {
            gateway.handle_packet(now, LinkType::RawIp, packet);
            events.extend(std::iter::from_fn(|| gateway.poll_event()));
        }
        events
    }

    #[test]
    fn similar_alerts_are_joined_and_all_counted() {
        let mut joined = Joined::default();
        let begun = Duration::from_secs(1_000);
        let all = alerts(std::iter::repeat_n([10, 0, 0, 1], 500));
        let count = all.len();
        let (first, left_out) = joined.sift(begun, all);
        let each = usize::try_from(JOINED_AFTER).unwrap();
        assert_eq!((first.len(), left_out), (each, 0));
        let (rest, _) = joined.sift(begun + JOINED_FOR, Vec::new());
        let reported: Vec<Option<u64>> = rest.iter().map(|event| event.attempts).collect();
        assert_eq!(reported, [u64::try_from(count - each).ok()]);
        assert!(joined.rest().is_empty());
    }

    #[test]
    fn a_flood_of_clients_is_cut_and_counted() {
        let mut joined = Joined::default();
        let now = Duration::from_secs(1_000);
        let burst = u32::try_from(EVENT_BURST).unwrap();
        let all = alerts((0..burst + 300).map(|number| (0x0a00_0000 | number).to_be_bytes()));
        let count = u64::try_from(all.len()).unwrap();
        let (written, left_out) = joined.sift(now, all);
        assert_eq!(u64::try_from(written.len()).unwrap(), EVENT_BURST);
        assert_eq!(left_out, count - EVENT_BURST);
        let (later, left_out) = joined.sift(
            now + Duration::from_secs(1),
            alerts([[10, 1, 1, 1]].into_iter()),
        );
        assert_eq!((later.len(), left_out), (1, 0));
    }
}
