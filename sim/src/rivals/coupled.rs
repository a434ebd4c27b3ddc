//! Groups of the `dtl` crate to several peers, coupled as a member's are.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_dtl::{
    AckSample, Config, CoupledGroup, Coupling, Group, GroupFlow, Look, LossSample, Priority,
};

use super::{LEAST_WINDOW, saved_up};
use crate::bottleneck::{Acked, Control, PACKET};

/// What groups of one program share.
#[derive(Clone, Debug)]
pub struct Program {
    coupling: Option<Rc<RefCell<Coupling>>>,
    /// The simulation's zero.
    epoch: Instant,
}

impl Program {
    /// One whose groups are coupled, or each on its own.
    #[must_use]
    pub fn new(coupled: bool) -> Program {
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made any other way; only differences count"
        )]
        let epoch = Instant::now();
        Program {
            coupling: coupled.then(Rc::default),
            epoch,
        }
    }

    /// How many of its groups each of them waits in one queue with, itself among them.
    #[must_use]
    pub fn together(&self) -> Vec<usize> {
        let coupling = self.coupling.as_ref().map(|coupling| coupling.borrow());
        coupling.map_or_else(Vec::new, |coupling| coupling.sets())
    }
}

/// One flow to a peer of its own.
#[derive(Debug)]
pub struct Coupled {
    group: Group,
    flow: GroupFlow,
    program: Program,
    id: Option<CoupledGroup>,
}

impl Coupled {
    /// A flow of `program` with this priority.
    ///
    /// # Panics
    /// If `priority` is none, or the program has more flows than can be coupled.
    #[must_use]
    #[allow(
        clippy::expect_used,
        reason = "a program for experiments: what is wrong in it should be seen at once"
    )]
    pub fn new(program: &Program, priority: f64) -> Coupled {
        let priority = Priority::new(priority).expect("a priority");
        let config = Config {
            datagram_size: PACKET,
            ..Config::default()
        };
        let mut group = Group::new(config);
        let flow = group.join(program.epoch, priority, PACKET).expect("room");
        let coupling = program.coupling.as_ref();
        Coupled {
            id: coupling.map(|coupling| coupling.borrow_mut().join().expect("room")),
            group,
            flow,
            program: program.clone(),
        }
    }
}

impl Control for Coupled {
    fn window(&self) -> u64 {
        self.group.window(self.flow).max(LEAST_WINDOW * PACKET)
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.group.pacing_rate(self.flow)
    }

    fn burst(&self) -> u64 {
        let most = saved_up(self.pacing_rate().unwrap_or_default());
        self.group.burst(self.flow).unwrap_or(most).min(most)
    }

    fn on_sent(&mut self, now: Duration, packet: u64) {
        let at = self.program.epoch + now;
        self.group.on_sent(at, self.flow, packet, PACKET);
    }

    fn on_acked(&mut self, now: Duration, acked: &[Acked], _delivered: u64, in_flight: u64) {
        let at = self.program.epoch + now;
        // As the driver: the newest packet's round trip stands for all of them.
        let newest = acked.last().map_or(now, |ack| ack.sent);
        for ack in acked {
            let sample = AckSample {
                packet: ack.packet,
                bytes: PACKET,
                sent: self.program.epoch + ack.sent,
                rtt: now - newest,
                rtt_error: Duration::ZERO,
                receive_delay: ack.held,
                one_way_delay: None,
                ecn: false,
                app_limited: false,
            };
            self.group.on_ack(at, self.flow, &sample);
        }
        self.group.on_ack_batch_end(at, self.flow, in_flight);
        if let (Some(coupling), Some(id), Some(standing)) =
            (&self.program.coupling, self.id, self.group.standing())
        {
            let look = Look {
                sent: self.program.epoch + newest,
                rtt: now - newest,
                bytes: acked.len() as u64 * PACKET,
            };
            let mut coupling = coupling.borrow_mut();
            let factor = coupling.exchange(at, id, &standing, &look);
            self.group.scale(factor);
        }
    }

    fn on_lost(&mut self, now: Duration, lost: &[(u64, Duration)], timeout: bool) {
        let at = self.program.epoch + now;
        for (packet, sent) in lost {
            let sample = LossSample {
                packet: *packet,
                bytes: PACKET,
                sent: self.program.epoch + *sent,
            };
            self.group.on_loss(at, self.flow, &sample);
        }
        if let Some(newest) = lost.iter().map(|(_, sent)| *sent).max() {
            let sent = self.program.epoch + newest;
            self.group
                .on_congestion(at, self.flow, timeout, false, sent);
        }
    }
}
