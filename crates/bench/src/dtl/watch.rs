//! One run over a line: flows come, change and go, and everything is sampled ten times a second.

use std::time::{Duration, Instant};

use tracing::Level;

use super::flow::{Flow, Kind, Peers};
use super::line::Line;
use super::probe::Probe;
use super::segments;
use ringway_terminal::Failure;

/// Time between two samples.
pub(super) const STEP: f64 = 0.1;
/// The first port of a run; each run has its own, so that nothing of the run before is in the way.
const FIRST_PORT: u16 = 5001;

/// Packets so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packets {
    pub(super) sent: u64,
    pub(super) lost: u64,
}

impl Packets {
    /// The part of what was sent since then that was lost.
    pub(super) fn lost_since(self, then: Packets) -> f64 {
        let sent = self.sent.saturating_sub(then.sent).max(1);
        self.lost.saturating_sub(then.lost) as f64 / sent as f64
    }
}

#[derive(Debug)]
struct Tracked {
    flow: Flow,
    /// What had arrived at each sample, from the beginning of the run on.
    received: Vec<u64>,
}

/// A run.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    line: &'a Line,
    began: Instant,
    flows: Vec<Tracked>,
    samples: usize,
    probe: Probe,
    port: u16,
}

impl Drop for Watch<'_> {
    /// Ends all flows before any is waited for.
    fn drop(&mut self) {
        for tracked in &mut self.flows {
            tracked.flow.stop();
        }
    }
}

impl<'a> Watch<'a> {
    /// Begins a run, with half a second in which nothing but probes is on the line.
    pub(super) fn begin(line: &'a Line) -> Result<Watch<'a>, Failure> {
        let began = Instant::now();
        let mut watch = Watch {
            line,
            began,
            flows: Vec::new(),
            samples: 0,
            probe: Probe::start(line, began, FIRST_PORT - 1)?,
            port: FIRST_PORT,
        };
        watch.until(0.5);
        Ok(watch)
    }

    pub(super) fn line(&self) -> &Line {
        self.line
    }

    /// Adds a flow and gives its index.
    pub(super) fn start(&mut self, kind: &Kind) -> Result<usize, Failure> {
        let flow = Flow::start(self.line, kind, self.port)?;
        self.port += 1;
        let received = vec![0; self.samples];
        self.flows.push(Tracked { flow, received });
        Ok(self.flows.len() - 1)
    }

    /// Adds flows of ours from one program, and gives their indices.
    pub(super) fn start_together(
        &mut self,
        priorities: &[f64],
        peers: Peers,
    ) -> Result<Vec<usize>, Failure> {
        let flows = Flow::start_together(self.line, priorities, peers, self.port)?;
        // One for each peer, of which there are no more than flows.
        self.port = self.port.saturating_add(priorities.len() as u16);
        let first = self.flows.len();
        let samples = self.samples;
        self.flows.extend(flows.into_iter().map(|flow| Tracked {
            flow,
            received: vec![0; samples],
        }));
        Ok((first..self.flows.len()).collect())
    }

    pub(super) fn stop(&mut self, flow: usize) {
        if let Some(tracked) = self.flows.get_mut(flow) {
            tracked.flow.stop();
        }
    }

    pub(super) fn set_priority(&self, flow: usize, priority: f64) -> Result<(), Failure> {
        let flow = self.flows.get(flow);
        flow.map_or(Ok(()), |tracked| tracked.flow.set_priority(priority))
    }

    /// Samples until so many seconds after the beginning.
    pub(super) fn until(&mut self, seconds: f64) {
        loop {
            let next = (self.samples + 1) as f64 * STEP;
            if next > seconds + STEP / 2.0 {
                return;
            }
            let due = self.began + Duration::from_secs_f64(next);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.samples += 1;
            for tracked in &mut self.flows {
                tracked.received.push(tracked.flow.received());
                let is_reported =
                    self.samples.is_multiple_of(10) || tracing::enabled!(Level::TRACE);
                if is_reported && let Some(report) = tracked.flow.report() {
                    tracing::debug!(at = next, ?report, "a moment of a run");
                }
            }
        }
    }

    /// Seconds since the beginning.
    pub(super) fn now(&self) -> f64 {
        self.samples as f64 * STEP
    }

    /// Bytes of a flow that have come, at the last sample.
    pub(super) fn received(&self, flow: usize) -> u64 {
        let tracked = self.flows.get(flow);
        let last = tracked.and_then(|tracked| tracked.received.last());
        last.copied().unwrap_or(0)
    }

    /// What a flow brought between two times, megabits per second.
    pub(super) fn rate(&self, flow: usize, from: f64, to: f64) -> f64 {
        let Some(tracked) = self.flows.get(flow) else {
            return 0.0;
        };
        let at = |seconds: f64| {
            let sample = ((seconds / STEP).round() as usize).max(1) - 1;
            let known = tracked.received.get(sample).or(tracked.received.last());
            known.copied().unwrap_or(0)
        };
        let bytes = at(to).saturating_sub(at(from));
        bytes as f64 * 8.0 / 1e6 / (to - from).max(STEP)
    }

    /// The same of several flows.
    pub(super) fn rates_of(&self, flows: &[usize], from: f64, to: f64) -> Vec<f64> {
        flows
            .iter()
            .map(|flow| self.rate(*flow, from, to))
            .collect()
    }

    /// The longest time between two times in which nothing of a flow arrived, to the tenth of a
    /// second.
    pub(super) fn silence(&self, flow: usize, from: f64, to: f64) -> f64 {
        let steps = ((to - from) / STEP).round() as u32;
        let mut longest = 0;
        let mut silent = 0;
        for step in 0..steps {
            let start = from + f64::from(step) * STEP;
            let nothing = self.rate(flow, start, start + STEP) == 0.0;
            silent = if nothing { silent + 1 } else { 0 };
            longest = longest.max(silent);
        }
        f64::from(longest) * STEP
    }

    /// Rates of a flow over the run, one for each `step` seconds.
    pub(super) fn rates(&self, flow: usize, step: f64) -> Vec<(f64, f64)> {
        let steps = (self.now() / step).floor() as usize;
        let times = (1..=steps).map(|index| index as f64 * step);
        times
            .map(|time| (time, self.rate(flow, time - step, time)))
            .collect()
    }

    /// Delays above the line's own of the probes between two times, milliseconds: the longest time
    /// a packet waited in the queue, sorted. None if no probe has shown the line's own.
    pub(super) fn queueing(&self, from: f64, to: f64) -> Vec<f64> {
        let idle = self.probe.between(0.0, 0.5);
        let Some(base) = idle.iter().map(|sample| sample.1).reduce(f64::min) else {
            return Vec::new();
        };
        let samples = self.probe.between(from, to);
        let mut queueing: Vec<f64> = samples
            .iter()
            .map(|sample| ((sample.1 - base) * 1e3).max(0.0))
            .collect();
        queueing.sort_by(f64::total_cmp);
        queueing
    }

    /// Segments that the kernel's TCP has sent from the sending end, and sent again.
    pub(super) fn segments(&self) -> Result<Packets, Failure> {
        segments::sent(self.line).map_err(|error| {
            Failure::failed(format_args!("what TCP has sent is not known: {error}"))
        })
    }

    /// Packets sent and lost by some flows of ours, or of the QUIC stack's, so far; `None` if one
    /// of them does not tell.
    pub(super) fn packets(&self, flows: &[usize]) -> Option<Packets> {
        let mut packets = Packets::default();
        for flow in flows {
            let report = self.flows.get(*flow)?.flow.report()?;
            packets.sent += report.sent;
            packets.lost += report.lost;
        }
        Some(packets)
    }
}
