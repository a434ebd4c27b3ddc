//! Which packets are lost, on paths that keep their order and on paths that do not. As in RACK (RFC
//! 8985), time decides: how much later than newer ones packets come is learned.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{MAX_LEDGER, MAX_PACKET_GAP, REORDERING_KEPT};
use crate::sample::LossSample;

/// Newer packets that arrive before one is deemed lost, where packets keep their order. Source: RFC
/// 9002 §6.1.1, RFC 5681 §3.2.
const NEWER: u64 = 3;
/// Part of the shortest round trip by which packets may be late at least, where they do not keep
/// their order. Source: RFC 8985 §6.2, `RACK.reo_wnd`.
const LEAST_PART: u32 = 4;
/// How much longer to wait than the latest packet took: the next one may be later.
const ROOM: f64 = 1.25;
/// Round trips for which a packet that QUIC has given up may turn out to have arrived. Source: noq
/// forgets such packets after two timeouts, each of which is longer than a round trip.
const GIVEN_UP_KEPT: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    UnderWay,
    /// Deemed lost, but an acknowledgement of it would still be reported.
    Missing,
    /// The transport has sent its contents again, and reports no acknowledgement.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    sent: Instant,
    bytes: u64,
    state: State,
}

/// Deems packets lost, and notices those that were not.
///
/// A transport that gives packets up late loses nothing by it: their losses are answered when they
/// show here. What is deemed lost is no longer under way, though the transport counts it so
/// ([`missing_bytes`](Self::missing_bytes)).
///
/// # Run loop
/// Each packet that leaves: [`on_sent`](Self::on_sent). Each that an acknowledgement names:
/// [`on_acked`](Self::on_acked), and then [`on_ack_batch_end`](Self::on_ack_batch_end) once, which
/// gives what is deemed lost now. Each that the transport gives up:
/// [`on_given_up`](Self::on_given_up); if it finds out later that those have arrived:
/// [`on_returned`](Self::on_returned).
#[derive(Clone, Debug, Default)]
pub struct LossDetection {
    /// Number of the first entry's packet.
    first: u64,
    packets: VecDeque<Option<Packet>>,
    /// None before this one is under way.
    undecided: u64,
    /// The newest packet that was acknowledged.
    newest: Option<Newest>,
    /// The newest of the batch that is coming in.
    batch: Option<Acked>,
    shortest: Option<Duration>,
    smoothed: Duration,
    late: Late,
    missing: u64,
}

/// The newest packet that was acknowledged, and its round trip.
#[derive(Clone, Copy, Debug)]
struct Newest {
    packet: u64,
    rtt: Duration,
}

/// A packet of a batch, and when it was sent.
#[derive(Clone, Copy, Debug)]
struct Acked {
    packet: u64,
    sent: Instant,
}

/// By how much packets were later than newer ones, at most, in two halves of what is remembered.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    most: [Option<Duration>; 2],
    since: Option<Instant>,
}

impl Late {
    fn turn(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= REORDERING_KEPT / 2 {
            self.since = Some(now);
            self.most = [None, self.most[0]];
        }
    }

    fn note(&mut self, now: Instant, late: Duration) {
        self.turn(now);
        self.most[0] = self.most[0].max(Some(late));
    }

    fn most(&self) -> Option<Duration> {
        self.most[0].max(self.most[1])
    }
}

impl LossDetection {
    /// A packet that will be acknowledged left.
    pub fn on_sent(&mut self, now: Instant, packet: u64, bytes: u64) {
        let next = self.next();
        if packet < next || packet - next > MAX_PACKET_GAP {
            // Packet numbers have begun again.
            self.packets.clear();
            self.missing = 0;
            self.newest = None;
            self.batch = None;
        }
        if self.packets.is_empty() {
            self.first = packet;
            self.undecided = packet;
        }
        while self.next() < packet {
            self.packets.push_back(None);
        }
        self.packets.push_back(Some(Packet {
            sent: now,
            bytes,
            state: State::UnderWay,
        }));
        while self.packets.len() > MAX_LEDGER {
            self.forget_first();
        }
    }

    /// A packet that was sent at `sent` has been acknowledged. If it had been deemed lost, it is
    /// given back.
    pub fn on_acked(&mut self, now: Instant, packet: u64, sent: Instant) -> Option<LossSample> {
        let index = self.index(packet)?;
        let slot = self.packets.get_mut(index)?;
        // Other packets may have had that number: each of the handshake's number spaces begins at
        // zero.
        let known = slot.take_if(|known| known.sent == sent)?;
        if self.batch.is_none_or(|newest| packet > newest.packet) {
            self.batch = Some(Acked { packet, sent });
        }
        self.arrived_late(now, packet, &known);
        (known.state != State::UnderWay).then(|| self.back(packet, &known))
    }

    /// An acknowledgement has been reported in whole: what is deemed lost by it, oldest first.
    pub fn on_ack_batch_end(&mut self, now: Instant) -> Vec<LossSample> {
        if let Some(Acked { packet, sent }) = self.batch.take()
            && self.newest.is_none_or(|newest| packet > newest.packet)
        {
            let rtt = now.saturating_duration_since(sent);
            self.newest = Some(Newest { packet, rtt });
            self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
            self.smoothed = match self.smoothed {
                Duration::ZERO => rtt,
                smoothed => (smoothed * 7 + rtt) / 8,
            };
        }
        self.late.turn(now);
        let lost = self.look(now);
        self.forget(now);
        lost
    }

    /// The transport has given a packet up: true if it had not been deemed lost before.
    pub fn on_given_up(&mut self, packet: u64) -> bool {
        let known = self
            .index(packet)
            .and_then(|index| self.packets.get_mut(index));
        let Some(known) = known.and_then(Option::as_mut) else {
            return true;
        };
        let before = std::mem::replace(&mut known.state, State::GivenUp);
        if before == State::Missing {
            self.missing = self.missing.saturating_sub(known.bytes);
        }
        before == State::UnderWay
    }

    /// All packets have arrived that the transport has lately given up: gives them back.
    pub fn on_returned(&mut self, now: Instant) -> Vec<LossSample> {
        let kept = self.smoothed * GIVEN_UP_KEPT;
        let mut returned = Vec::new();
        for (number, slot) in (self.first..).zip(&mut self.packets) {
            let lately = |known: &mut Packet| {
                known.state == State::GivenUp && now.saturating_duration_since(known.sent) <= kept
            };
            if let Some(known) = slot.take_if(lately) {
                returned.push((number, known));
            }
        }
        returned
            .into_iter()
            .map(|(number, known)| {
                self.arrived_late(now, number, &known);
                self.back(number, &known)
            })
            .collect()
    }

    /// Bytes that are deemed lost and have not been given up: a transport has so much less under
    /// way than it thinks.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.missing
    }

    /// By how much packets have come later than newer ones lately, at most; zero where all keep
    /// their order.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.late.most().unwrap_or_default().min(self.smoothed)
    }

    /// How much later than a newer one a packet may come; `None` as long as all keep their order.
    #[must_use]
    pub fn tolerance(&self) -> Option<Duration> {
        let late = self.late.most()?.mul_f64(ROOM);
        let least = self.shortest.unwrap_or_default() / LEAST_PART;
        Some(late.max(least).min(self.smoothed))
    }

    fn back(&mut self, packet: u64, known: &Packet) -> LossSample {
        if known.state == State::Missing {
            self.missing = self.missing.saturating_sub(known.bytes);
        }
        LossSample {
            packet,
            bytes: known.bytes,
            sent: known.sent,
        }
    }

    fn arrived_late(&mut self, now: Instant, packet: u64, known: &Packet) {
        // What one acknowledgement names together may have come in any order.
        if let Some(newest) = self.newest
            && packet < newest.packet
        {
            let took = now.saturating_duration_since(known.sent);
            self.late.note(now, took.saturating_sub(newest.rtt));
        }
    }

    fn look(&mut self, now: Instant) -> Vec<LossSample> {
        let Some(Newest {
            packet: newest,
            rtt,
        }) = self.newest
        else {
            return Vec::new();
        };
        let tolerance = self.tolerance();
        let mut lost = Vec::new();
        while self.undecided < newest {
            let packet = self.undecided;
            let index = self.index(packet);
            let slot = index.and_then(|index| self.packets.get_mut(index));
            if let Some(Some(known)) = slot
                && known.state == State::UnderWay
            {
                let too_late = match tolerance {
                    None => packet.saturating_add(NEWER) <= newest,
                    Some(tolerance) => now.saturating_duration_since(known.sent) >= rtt + tolerance,
                };
                if !too_late {
                    // Those after it left later, and may still come.
                    break;
                }
                known.state = State::Missing;
                self.missing = self.missing.saturating_add(known.bytes);
                lost.push(LossSample {
                    packet,
                    bytes: known.bytes,
                    sent: known.sent,
                });
            }
            self.undecided = packet + 1;
        }
        lost
    }

    fn forget(&mut self, now: Instant) {
        let kept = self.smoothed * GIVEN_UP_KEPT;
        while let Some(first) = self.packets.front() {
            let waits = first.is_some_and(|known| {
                known.state != State::GivenUp || now.saturating_duration_since(known.sent) <= kept
            });
            if waits {
                break;
            }
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(Some(known)) = self.packets.pop_front()
            && known.state == State::Missing
        {
            self.missing = self.missing.saturating_sub(known.bytes);
        }
        self.first = self.first.saturating_add(1);
        self.undecided = self.undecided.max(self.first);
    }

    fn index(&self, packet: u64) -> Option<usize> {
        usize::try_from(packet.checked_sub(self.first)?).ok()
    }

    fn next(&self) -> u64 {
        self.first.saturating_add(self.packets.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 40_000;

    fn at(micros: u64) -> Instant {
        crate::test_epoch() + Duration::from_micros(micros)
    }

    /// Packets that leave a millisecond apart and arrive in this order, each late by so many
    /// microseconds: those deemed lost, and those given back.
    fn play(detection: &mut LossDetection, first: u64, late: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let sent = |slot: usize| 1_000_000 * first + 1000 * slot as u64;
        let mut arrivals: Vec<(u64, usize)> = Vec::new();
        for (slot, late) in late.iter().enumerate() {
            detection.on_sent(at(sent(slot)), first + slot as u64, 1000);
            arrivals.push((sent(slot) + RTT + late, slot));
        }
        arrivals.sort_unstable();
        let (mut lost, mut back) = (Vec::new(), Vec::new());
        for (when, slot) in arrivals {
            let packet = first + slot as u64;
            let given = detection.on_acked(at(when), packet, at(sent(slot)));
            back.extend(given.map(|sample| sample.packet));
            let deemed = detection.on_ack_batch_end(at(when));
            lost.extend(deemed.iter().map(|sample| sample.packet));
        }
        (lost, back)
    }

    #[test]
    fn in_order_three_newer_packets_show_a_loss() {
        let mut detection = LossDetection::default();
        for packet in 0..5 {
            detection.on_sent(at(packet), packet, 1000);
        }
        let mut lost = Vec::new();
        for packet in 1..5 {
            assert_eq!(detection.on_acked(at(RTT), packet, at(packet)), None);
            lost.push(detection.on_ack_batch_end(at(RTT)).len());
        }
        assert_eq!(lost, [0, 0, 1, 0]);
        assert_eq!(detection.missing_bytes(), 1000);
        assert!(!detection.on_given_up(0));
        assert_eq!(detection.missing_bytes(), 0);
        assert_eq!(detection.tolerance(), None);
    }

    #[test]
    fn the_first_late_packet_shows_reordering() {
        let mut detection = LossDetection::default();
        // The second one is overtaken by five.
        let order = [0, 5_500, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(play(&mut detection, 0, &order), (vec![1], vec![1]));
        assert_eq!(detection.missing_bytes(), 0);
        assert_eq!(play(&mut detection, 9, &order), (vec![], vec![]));
        // What does not come is lost all the same, later.
        let mut gone = [0; 40];
        gone[0] = 1 << 30;
        assert_eq!(play(&mut detection, 20, &gone).0, [20]);
    }

    #[test]
    fn reordering_is_forgotten_and_bounded() {
        let mut detection = LossDetection::default();
        play(&mut detection, 0, &[0, 500_000, 0, 0, 0, 0, 0]);
        assert_eq!(detection.tolerance(), Some(Duration::from_micros(RTT)));
        let kept = REORDERING_KEPT.as_secs();
        play(&mut detection, kept / 2 + 1, &[0]);
        assert!(detection.tolerance().is_some());
        play(&mut detection, kept + 2, &[0]);
        assert_eq!(detection.tolerance(), None);
    }

    #[test]
    fn a_packet_given_up_is_given_back() {
        let mut detection = LossDetection::default();
        for packet in 0..3 {
            detection.on_sent(at(packet), packet, 1000);
        }
        detection.on_acked(at(RTT), 2, at(2));
        detection.on_ack_batch_end(at(RTT));
        assert!(detection.on_given_up(0) && detection.on_given_up(1));
        let returned = detection.on_returned(at(RTT + 15_000));
        let returned: Vec<u64> = returned.iter().map(|sample| sample.packet).collect();
        assert_eq!(returned, [0, 1]);
        assert!(detection.tolerance() >= Some(Duration::from_millis(15)));
        assert!(detection.on_returned(at(RTT + 15_000)).is_empty());
    }

    #[test]
    fn restarted_numbers_and_memory_do_no_harm() {
        let mut detection = LossDetection::default();
        for packet in 0..MAX_LEDGER as u64 + 10 {
            detection.on_sent(at(packet), packet, 1000);
        }
        assert_eq!(detection.packets.len(), MAX_LEDGER);
        detection.on_sent(at(7), 0, 1000);
        assert_eq!(detection.packets.len(), 1);
        // One of another number space.
        assert_eq!(detection.on_acked(at(RTT), 0, at(3)), None);
        assert_eq!(detection.packets.iter().flatten().count(), 1);
        detection.on_sent(at(8), u64::MAX - 1, 1000);
        detection.on_acked(at(RTT), u64::MAX - 1, at(8));
        assert!(detection.on_ack_batch_end(at(RTT)).is_empty());
    }
}
