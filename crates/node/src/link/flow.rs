//! How fast messages of applications may leave, so that neither the path nor the receiver loses
//! them.
//!
//! The receiver reports which packets have come ([`Arrivals`]); the sender's [`Flow`] keeps no
//! more under way than the controller of `ringway-dtl` allows for the path, and than the
//! receiver's buffers hold. The window belongs to the path: another path begins again, another
//! session goes on with it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringway_dtl::{AckSample, Config, Controller, LossSample, Priority};

use crate::limits::{
    FLOW_PACKETS, RECEIVER_PAUSE, REORDERED, REPORT_AFTER, REPORT_EVERY, SESSIONS_PER_LINK,
};

/// Silence, beyond two round trips, after which everything under way counts as lost.
const SILENCE: Duration = Duration::from_millis(200);
/// Bytes that may leave at once when the pace allows more than one packet.
const BURST: f64 = 32.0 * 1024.0;
/// The most bytes that a pause of the sender saves up.
const BURST_TIME: f64 = 0.002;

/// What a receiver says of the packets that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// The receiver's name for the session.
    pub(super) session: u32,
    /// The highest counter that has come.
    pub(super) highest: u64,
    /// How long the report has waited since then.
    pub(super) delay: Duration,
    /// A bit for each counter below the highest, nearest first: has it come?
    pub(super) seen: Vec<u8>,
    /// Bytes that may be under way to the receiver at once.
    pub(super) room: u32,
}

impl Report {
    fn has(&self, counter: u64) -> bool {
        let Some(distance) = self.highest.checked_sub(counter) else {
            return false;
        };
        let Some(below) = distance.checked_sub(1) else {
            return true;
        };
        let byte = usize::try_from(below / 8).ok();
        let byte = byte.and_then(|byte| self.seen.get(byte));
        byte.is_some_and(|byte| byte & (1 << (below % 8)) != 0)
    }
}

#[derive(Debug)]
struct Sent {
    /// The peer's name for the session, and the counter in it.
    session: u32,
    counter: u64,
    /// Its number over all sessions.
    number: u64,
    bytes: u64,
    at: Instant,
}

/// The sender's side.
#[derive(Debug)]
pub(super) struct Flow {
    controller: Controller,
    /// The peer's names for the sessions that packets were sent over, the newest last, and the
    /// number of each one's first packet.
    sessions: VecDeque<(u32, u64)>,
    /// The number of the next packet, at least.
    next: u64,
    /// The oldest first; none of them has been reported.
    under_way: VecDeque<Sent>,
    in_flight: u64,
    /// Bytes that the receiver has room for; none until it has said so.
    room: Option<u64>,
    /// Bytes that may leave now; negative after a packet that was longer than that.
    allowance: f64,
    counted: Instant,
    progress: Instant,
    silences: u32,
}

impl Flow {
    /// Begins over `session`, by the peer's name for it.
    pub(super) fn new(now: Instant, priority: Priority, mtu: usize, session: u32) -> Flow {
        let datagram = u64::try_from(mtu).unwrap_or(u64::MAX);
        let config = Config {
            datagram_size: datagram,
            initial_window: datagram.saturating_mul(10),
            ..Config::default()
        };
        Flow {
            controller: Controller::new(now, config, priority),
            sessions: VecDeque::from([(session, 0)]),
            next: 0,
            under_way: VecDeque::new(),
            in_flight: 0,
            room: None,
            allowance: BURST,
            counted: now,
            progress: now,
            silences: 0,
        }
    }

    /// The link has new keys: counters begin again, and nothing else changes.
    pub(super) fn renew(&mut self, session: u32) {
        self.sessions.push_back((session, self.next));
        if self.sessions.len() > SESSIONS_PER_LINK {
            self.sessions.pop_front();
        }
    }

    /// Whether a packet may leave now. With nothing under way one always may.
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        self.count(now);
        self.under_way.is_empty() || (self.is_open() && self.allowance > 0.0)
    }

    /// Whether the window lets more leave.
    pub(super) fn is_open(&self) -> bool {
        let window = self.controller.window().min(self.room_now());
        self.in_flight < window && self.under_way.len() < FLOW_PACKETS
    }

    /// The receiver's room holds what comes while its process is away for [`RECEIVER_PAUSE`]; over
    /// a longer way more is under way than arrives in that time.
    fn room_now(&self) -> u64 {
        let srtt = self.controller.report().srtt.unwrap_or_default();
        let stretch = (srtt.as_secs_f64() / RECEIVER_PAUSE.as_secs_f64()).max(1.0);
        let room = self.room.unwrap_or(u64::MAX);
        #[allow(clippy::cast_precision_loss, reason = "a share of a window")]
        let stretched = room as f64 * stretch;
        stretched as u64
    }

    fn rate(&self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "bytes per second")]
        self.controller.pacing_rate().map(|rate| rate as f64)
    }

    fn count(&mut self, now: Instant) {
        let Some(rate) = self.rate() else {
            return;
        };
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        let most = (rate * BURST_TIME).max(BURST);
        self.allowance = (self.allowance + passed * rate).min(most);
        self.counted = now;
    }

    /// A packet of `bytes` bytes with messages of applications leaves.
    pub(super) fn sent(&mut self, now: Instant, counter: u64, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        // Silence before the first packet is no standstill.
        if self.under_way.is_empty() {
            self.progress = now;
        }
        let (session, first) = self.sessions.back().copied().unwrap_or_default();
        let number = first + counter;
        self.next = number + 1;
        self.controller.on_sent(now, number, bytes);
        self.in_flight += bytes;
        if self.rate().is_some() {
            #[allow(clippy::cast_precision_loss, reason = "bytes of one packet")]
            let spent = bytes as f64;
            self.allowance -= spent;
        }
        self.under_way.push_back(Sent {
            session,
            counter,
            number,
            bytes,
            at: now,
        });
    }

    /// The receiver has reported. Lies about what has come only make the liar's own messages come
    /// too fast.
    pub(super) fn reported(&mut self, now: Instant, report: &Report) {
        let known = |(session, _): &&(u32, u64)| *session == report.session;
        let Some((session, first)) = self.sessions.iter().find(known).copied() else {
            return;
        };
        self.room = Some(u64::from(report.room).max(self.controller.config().datagram_size));
        let mut newest_lost = None;
        let mut acked = Vec::new();
        let controller = &mut self.controller;
        let in_flight = &mut self.in_flight;
        self.under_way.retain(|sent| {
            // What left over an older session was before all of this one.
            let here = sent.session == session;
            let ahead = if here {
                sent.counter > report.highest
            } else {
                sent.number >= first
            };
            if ahead {
                return true;
            }
            if here && report.has(sent.counter) {
                *in_flight -= sent.bytes;
                acked.push((sent.number, sent.bytes, sent.at));
                return false;
            }
            let number = if here { sent.counter } else { 0 };
            if number + REORDERED > report.highest {
                return true;
            }
            *in_flight -= sent.bytes;
            let lost = LossSample {
                packet: sent.number,
                bytes: sent.bytes,
                sent: sent.at,
            };
            controller.on_loss(now, &lost);
            newest_lost = Some(sent.at);
            false
        });
        if !acked.is_empty() {
            self.progress = now;
            self.silences = 0;
        }
        for (packet, bytes, sent) in acked {
            let rtt = now.saturating_duration_since(sent);
            let sample = AckSample {
                packet,
                bytes,
                sent,
                rtt,
                rtt_error: Duration::ZERO,
                receive_delay: report.delay.min(rtt),
                one_way_delay: None,
                ecn: false,
                app_limited: false,
            };
            self.controller.on_ack(now, &sample);
        }
        self.controller.on_ack_batch_end(now, self.in_flight);
        if let Some(sent) = newest_lost {
            self.controller.on_congestion(now, false, false, sent);
        }
    }

    /// When to look again, if the pace or silence holds packets back. `waiting`: something waits to
    /// be sent.
    pub(super) fn poll_timeout(&self, waiting: bool) -> Option<Instant> {
        let silence = (!self.under_way.is_empty()).then(|| self.progress + self.patience());
        let owed = (waiting && self.allowance <= 0.0)
            .then(|| self.rate())
            .flatten();
        // At least a packet's worth, and no timer for less than a fraction of a millisecond.
        let pause = owed.map(|rate| ((1_500.0 - self.allowance) / rate).clamp(0.000_2, 1.0));
        let pace = pause.map(|pause| self.counted + Duration::from_secs_f64(pause));
        silence.into_iter().chain(pace).min()
    }

    fn patience(&self) -> Duration {
        let srtt = self.controller.report().srtt.unwrap_or(SILENCE);
        (srtt * 2 + SILENCE) * (1 << self.silences.min(5))
    }

    /// Gives up what has been under way for too long.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let newest = self.under_way.back().map(|sent| sent.at);
        let Some(newest) = newest.filter(|_| now >= self.progress + self.patience()) else {
            return;
        };
        self.under_way.clear();
        self.in_flight = 0;
        self.silences += 1;
        self.progress = now;
        let persistent = self.silences > 1;
        self.controller
            .on_congestion(now, persistent, false, newest);
    }

    /// State to show: window in bytes, bytes under way.
    pub(super) fn state(&self) -> (u64, u64) {
        let window = self.controller.window().min(self.room_now());
        (window, self.in_flight)
    }
}

/// The receiver's side: which packets have come since the last report, over each session.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The one that began last at the end.
    sessions: VecDeque<Arrived>,
}

#[derive(Debug)]
struct Arrived {
    session: u32,
    highest: u64,
    highest_at: Instant,
    count: u32,
    due: Option<Instant>,
}

impl Arrivals {
    /// A packet that wants to be reported has come over `session`.
    pub(super) fn note(&mut self, now: Instant, session: u32, counter: u64) {
        let known = self.sessions.iter().position(|of| of.session == session);
        let position = known.unwrap_or_else(|| {
            if self.sessions.len() >= SESSIONS_PER_LINK {
                self.sessions.pop_front();
            }
            self.sessions.push_back(Arrived {
                session,
                highest: counter,
                highest_at: now,
                count: 0,
                due: None,
            });
            self.sessions.len() - 1
        });
        let Some(arrived) = self.sessions.get_mut(position) else {
            return;
        };
        if counter > arrived.highest {
            arrived.highest = counter;
            arrived.highest_at = now;
        }
        arrived.count += 1;
        // The first packet sets the time: those behind it must not put the report off.
        arrived.due.get_or_insert(now + REPORT_AFTER);
    }

    /// The session and the highest counter that the next report is about.
    pub(super) fn pending(&self) -> Option<(u32, u64)> {
        let waiting = self.sessions.iter().find(|of| of.count > 0);
        waiting.map(|of| (of.session, of.highest))
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        let due = |of: &Arrived| of.count >= REPORT_EVERY || of.due.is_some_and(|due| due <= now);
        self.sessions.iter().any(due)
    }

    /// Whether a report is to go along with a packet that leaves anyway.
    pub(super) fn is_worth_sharing(&self) -> bool {
        self.sessions.iter().any(|of| of.count >= REPORT_EVERY / 2)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.sessions.iter().filter_map(|of| of.due).min()
    }

    /// The report that is pending is made. Gives the delay to report.
    pub(super) fn reported(&mut self, now: Instant) -> Duration {
        let waiting = self.sessions.iter_mut().find(|of| of.count > 0);
        waiting.map_or(Duration::ZERO, |of| {
            of.count = 0;
            of.due = None;
            now.saturating_duration_since(of.highest_at)
        })
    }
}

#[cfg(test)]
mod tests;
