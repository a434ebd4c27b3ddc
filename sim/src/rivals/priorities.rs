//! The priority controller of the `dtl` crate, driven as the QUIC driver drives it.

use std::time::{Duration, Instant};

use ringway_dtl::{
    AckSample, Config, Controller, InvalidPriority, LossDetection, LossSample, Priority,
};

use super::{LEAST_WINDOW, saved_up};
use crate::bottleneck::{Acked, Control, Detection, PACKET};

/// One flow of ours.
#[derive(Debug)]
pub struct Priorities {
    controller: Controller,
    losses: LossDetection,
    /// The newest packet that was acknowledged, and its round trip.
    newest: Option<(u64, Duration)>,
    /// The simulation's zero.
    epoch: Instant,
    /// How often the receiver's clock is told at most, and when it was; with every acknowledgement
    /// otherwise.
    told: Option<(Duration, Option<Duration>)>,
}

impl Priorities {
    /// The receiver tells its clock apart from acknowledgements, once in `every` at most, as
    /// members do.
    #[must_use]
    pub fn told_every(mut self, every: Duration) -> Priorities {
        self.told = Some((every, None));
        self
    }

    /// A flow with a priority and the constants of `config`, whose datagrams become those of the
    /// simulation.
    ///
    /// # Errors
    /// As [`Priority::new`].
    pub fn new(priority: f64, config: Config) -> Result<Priorities, InvalidPriority> {
        Ok(Priorities::with(Priority::new(priority)?, config))
    }

    /// The same at priority 0.
    #[must_use]
    pub fn scavenger(config: Config) -> Priorities {
        Priorities::with(Priority::SCAVENGER, config)
    }

    fn with(priority: Priority, config: Config) -> Priorities {
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made any other way; only differences count"
        )]
        let epoch = Instant::now();
        let config = Config {
            datagram_size: PACKET,
            ..config
        };
        let controller = Controller::new(epoch, config, priority);
        Priorities {
            controller,
            losses: LossDetection::default(),
            newest: None,
            epoch,
            told: None,
        }
    }

    fn answer(&mut self, at: Instant, lost: &[LossSample], timeout: bool) {
        for sample in lost {
            self.controller.on_loss(at, sample);
        }
        let newest = lost.iter().map(|sample| sample.sent).max();
        if let Some(sent) = newest.or(timeout.then_some(at)) {
            self.controller.on_congestion(at, timeout, false, sent);
        }
    }
}

impl Control for Priorities {
    fn window(&self) -> u64 {
        let least = self.controller.window().max(LEAST_WINDOW * PACKET);
        least + self.losses.missing_bytes()
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.controller.pacing_rate()
    }

    fn burst(&self) -> u64 {
        let most = saved_up(self.controller.pacing_rate().unwrap_or_default());
        self.controller.burst().unwrap_or(most).min(most)
    }

    fn on_sent(&mut self, now: Duration, packet: u64) {
        self.losses.on_sent(self.epoch + now, packet, PACKET);
        self.controller.on_sent(self.epoch + now, packet, PACKET);
    }

    fn on_acked(&mut self, now: Duration, acked: &[Acked], _delivered: u64, in_flight: u64) {
        let at = self.epoch + now;
        // As the driver: the newest packet's round trip stands for all of them, and that of the
        // newest before where all of them are late.
        let Some(last) = acked.iter().max_by_key(|ack| ack.packet) else {
            return;
        };
        let known = self.newest.filter(|(packet, _)| *packet > last.packet);
        let (newest, rtt) = known.unwrap_or((last.packet, now - last.sent));
        self.newest = Some((newest, rtt));
        for ack in acked {
            let spurious = self.losses.on_acked(at, ack.packet, self.epoch + ack.sent);
            if let Some(spurious) = spurious {
                self.controller.on_spurious_loss(at, &spurious);
            }
            let sample = AckSample {
                packet: ack.packet,
                bytes: PACKET,
                sent: self.epoch + ack.sent,
                rtt,
                rtt_error: Duration::ZERO,
                receive_delay: ack.held,
                one_way_delay: ack.one_way.filter(|_| self.told.is_none()),
                ecn: false,
                app_limited: false,
            };
            self.controller.on_ack(at, &sample);
        }
        self.controller.on_reordering(self.losses.lateness());
        let in_flight = in_flight.saturating_sub(self.losses.missing_bytes());
        self.controller.on_ack_batch_end(at, in_flight);
        let lost = self.losses.on_ack_batch_end(at);
        self.answer(at, &lost, false);
        let one_way = acked.last().and_then(|ack| ack.one_way);
        if let (Some((every, told)), Some(one_way)) = (&mut self.told, one_way)
            && told.is_none_or(|told| now >= told + *every)
        {
            *told = Some(now);
            self.controller.on_one_way_delay(at, rtt, one_way);
        }
    }

    fn on_lost(&mut self, now: Duration, lost: &[(u64, Duration)], timeout: bool) {
        let mut new = Vec::new();
        for (packet, sent) in lost {
            if self.losses.on_given_up(*packet) {
                new.push(LossSample {
                    packet: *packet,
                    bytes: PACKET,
                    sent: self.epoch + *sent,
                });
            }
        }
        self.answer(self.epoch + now, &new, timeout);
    }

    fn on_returned(&mut self, now: Duration, packets: &[(u64, Duration)]) {
        let at = self.epoch + now;
        for (packet, sent) in packets {
            if let Some(spurious) = self.losses.on_acked(at, *packet, self.epoch + *sent) {
                self.controller.on_spurious_loss(at, &spurious);
            }
        }
    }

    fn detection(&self) -> Detection {
        Detection::Quic
    }

    fn controller(&mut self) -> Option<(&mut Controller, Instant)> {
        Some((&mut self.controller, self.epoch))
    }
}
