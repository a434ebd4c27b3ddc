//! CoDel: drops from a queue that stands (RFC 8289).

use std::time::{Duration, Instant};

use crate::arguments::CoDelArguments;
use crate::queue::{Fifo, Packet};

/// Intervals after which an earlier time of dropping says nothing about the next (Linux, `codel.h`;
/// RFC 8289 §5.4 leaves it open). Until then the next one begins at the rate of drops at which the
/// last one ended.
const REMEMBERED: u32 = 16;

/// What CoDel knows of a queue; names follow RFC 8289 §5.3.
#[derive(Debug)]
pub(crate) struct CoDel {
    interval: Duration,
    target: Duration,
    mtu: usize,
    first_above: Option<Instant>,
    drop_next: Option<Instant>,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CoDel {
    pub(crate) fn new(arguments: &CoDelArguments) -> CoDel {
        CoDel {
            interval: arguments.interval,
            target: arguments.target,
            mtu: arguments.mtu,
            first_above: None,
            drop_next: None,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// RFC 8289 §5.5: takes the packet that is to be sent at this time; those before it are
    /// dropped.
    pub(crate) fn pop(&mut self, fifo: &mut Fifo, at: Instant) -> Option<Packet> {
        let (mut packet, mut late) = self.take(fifo, at);
        if self.dropping {
            self.dropping = late;
            while let Some(next) = self.drop_next.filter(|next| self.dropping && at >= *next) {
                self.count += 1;
                (packet, late) = self.take(fifo, at);
                self.dropping = late;
                if late {
                    self.drop_next = Some(self.control_law(next));
                }
            }
        } else if late {
            (packet, _) = self.take(fifo, at);
            self.dropping = true;
            self.begin(at);
        }
        packet
    }

    /// Begins to drop, at the last rate if that was not long ago.
    fn begin(&mut self, at: Instant) {
        let delta = self.count - self.last_count;
        let recent = self
            .drop_next
            .is_some_and(|last| at.saturating_duration_since(last) < self.interval * REMEMBERED);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(self.control_law(at));
    }

    /// RFC 8289 §5.6, `dodequeue`: the oldest packet, and whether it has waited for too long in a
    /// queue that stands.
    fn take(&mut self, fifo: &mut Fifo, at: Instant) -> (Option<Packet>, bool) {
        let Some(packet) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let waited = at.saturating_duration_since(packet.arrived);
        if waited < self.target || fifo.bytes() <= self.mtu {
            self.first_above = None;
            return (Some(packet), false);
        }
        let late = self.first_above.is_some_and(|first| at >= first);
        self.first_above.get_or_insert(at + self.interval);
        (Some(packet), late)
    }

    fn control_law(&self, from: Instant) -> Instant {
        from + self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Limits;

    /// Packets of 1 500 bytes at 10 Mbit/s.
    const PACKET: Duration = Duration::from_micros(1_200);

    /// Puts `burst` packets in and one for each that leaves, for so many; returns which were
    /// dropped.
    fn dropped(burst: u32, rounds: u32) -> Vec<u32> {
        let (mut codel, begin) = (CoDel::new(&CoDelArguments::default()), Instant::now());
        let mut fifo = Fifo::new(Limits {
            packet_limit: None,
            byte_limit: None,
        });
        let mut put = 0_u32;
        let mut push = |fifo: &mut Fifo, arrived| {
            let mut frame = put.to_be_bytes().to_vec();
            frame.resize(1_514, 0);
            fifo.push(Packet { frame, arrived });
            put += 1;
        };
        for _ in 0..burst {
            push(&mut fifo, begin);
        }
        let (mut next, mut dropped) = (0, Vec::new());
        for round in 0..rounds {
            let now = begin + PACKET * round;
            push(&mut fifo, now);
            let packet = codel.pop(&mut fifo, now).unwrap();
            let number = u32::from_be_bytes(packet.frame[..4].try_into().unwrap());
            dropped.extend(next..number);
            next = number + 1;
        }
        dropped
    }

    #[test]
    fn a_short_queue_loses_nothing() {
        // Three wait for 3.6 ms, less than the target.
        assert_eq!(dropped(3, 1_000), [0; 0]);
    }

    #[test]
    fn burst_within_an_interval_loses_nothing() {
        assert_eq!(dropped(20, 80), [0; 0]);
    }

    #[test]
    fn a_standing_queue_is_brought_down() {
        let dropped = dropped(20, 1_000);
        // From 20 packets to the four that wait for less than the target.
        assert!((15..=17).contains(&dropped.len()), "{dropped:?}");
        // The first when the delay has been above target for an interval, which begins with the
        // fifth packet (4.8 ms to 6 ms).
        assert!((85..=92).contains(&dropped[0]), "{dropped:?}");
        // RFC 8289 §5.2: the pauses between drops become shorter.
        let pauses: Vec<_> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            pauses.is_sorted_by(|earlier, later| *earlier + 2 >= *later),
            "{pauses:?}"
        );
        assert!(pauses[0] > 80 && pauses[5] < 40, "{pauses:?}");
    }
}
