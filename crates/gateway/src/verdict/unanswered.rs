//! Packets that were dropped by themselves, because their flow is not answered.
//!
//! One packet proves nothing of the host in whose name it comes. It is dropped where the policy
//! blocks its content; no host is refused for it, and none is named as a user of the application
//! for certain. Alike ones are joined into one event.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::event::{Ends, Event};
use crate::limits::{MAX_UNANSWERED, REFUSALS_REPORTED};
use crate::packet::L4;

/// From where to where by what, and the rule's name.
type Key = (IpAddr, SocketAddr, L4, String);

/// Alike packets.
#[derive(Debug)]
struct Entry {
    /// Until when they are counted; the first one was reported at once.
    until: Duration,
    /// The latest that was not reported.
    unreported: Option<Event>,
    packets: u64,
}

/// Unanswered packets that were dropped. Of those from one host to one endpoint by one rule the
/// first is an event at once, and the others of [`REFUSALS_REPORTED`] together. Beyond
/// [`MAX_UNANSWERED`] hosts and endpoints all are counted together.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    entries: BTreeMap<Option<Key>, Entry>,
}

impl Unanswered {
    /// Counts a packet, with the event that reports it; returns that event if it is the first of
    /// its kind.
    pub(super) fn note(&mut self, now: Duration, ends: &Ends, event: Event) -> Option<Event> {
        let key = (
            ends.client.ip(),
            ends.server,
            ends.l4,
            event.alert.signature.clone(),
        );
        // In a full table all further kinds share one entry, so that none goes uncounted.
        let known = self.entries.contains_key(&Some(key.clone()));
        let key = (known || self.entries.len() < MAX_UNANSWERED).then_some(key);
        match self.entries.get_mut(&key) {
            Some(entry) => {
                entry.packets = entry.packets.saturating_add(1);
                entry.unreported = Some(event);
                None
            }
            None => {
                let entry = Entry {
                    until: now.saturating_add(REFUSALS_REPORTED),
                    unreported: None,
                    packets: 0,
                };
                self.entries.insert(key, entry);
                Some(with(event, 1))
            }
        }
    }

    /// Events whose time has come; all of them with `None`.
    pub(super) fn take_events(&mut self, now: Option<Duration>) -> Vec<Event> {
        let mut events = Vec::new();
        self.entries.retain(|_, entry| {
            let over = now.is_none_or(|now| entry.until <= now);
            if !over {
                return true;
            }
            let Some(event) = entry.unreported.take() else {
                return false;
            };
            events.push(with(event, std::mem::take(&mut entry.packets)));
            // More of them are likely to come.
            match now {
                Some(now) => entry.until = now.saturating_add(REFUSALS_REPORTED),
                None => return false,
            }
            true
        });
        events
    }
}

fn with(mut event: Event, packets: u64) -> Event {
    event.attempts = Some(packets);
    event
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::{Ends, Event, Unanswered};
    use crate::limits::{MAX_UNANSWERED, REFUSALS_REPORTED};
    use crate::packet::L4;

    fn ends(from: u32, port: u16) -> Ends {
        let client = std::net::Ipv4Addr::from(0x0a00_0000 | from);
        Ends {
            l4: L4::Udp,
            client: SocketAddr::from((client, 6_881)),
            server: SocketAddr::from(([192, 0, 2, 1], port)),
            serial: 1,
        }
    }

    fn attempts(events: Vec<Event>) -> Vec<Option<u64>> {
        events.into_iter().map(|event| event.attempts).collect()
    }

    #[test]
    fn similar_packets_are_reported_once_then_together() {
        let mut unanswered = Unanswered::default();
        let begun = Duration::from_secs(100);
        let first = unanswered.note(begun, &ends(1, 53), Event::of_a_file());
        assert_eq!(first.unwrap().attempts, Some(1));
        for _packet in 0..7 {
            assert!(
                unanswered
                    .note(begun, &ends(1, 53), Event::of_a_file())
                    .is_none()
            );
        }
        assert!(unanswered.take_events(Some(begun)).is_empty());
        let later = begun + REFUSALS_REPORTED;
        assert_eq!(attempts(unanswered.take_events(Some(later))), [Some(7)]);
        let last = later + REFUSALS_REPORTED;
        assert!(unanswered.take_events(Some(last)).is_empty());
        assert!(unanswered.entries.is_empty());
    }

    #[test]
    fn forged_senders_are_bounded_and_counted_together() {
        let mut unanswered = Unanswered::default();
        let now = Duration::from_secs(100);
        let most = u32::try_from(MAX_UNANSWERED).unwrap();
        let events = (0..most + 5_000)
            .filter_map(|from| unanswered.note(now, &ends(from, 53), Event::of_a_file()))
            .count();
        assert_eq!(events, MAX_UNANSWERED + 1);
        assert_eq!(unanswered.entries.len(), MAX_UNANSWERED + 1);
        assert_eq!(attempts(unanswered.take_events(None)), [Some(4_999)]);
        assert!(unanswered.entries.is_empty());
    }
}
