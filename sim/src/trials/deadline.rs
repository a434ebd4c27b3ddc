//! A file that has to be there by a time, beside others.

use std::time::{Duration, Instant};

use ringway_dtl::{Algorithm, Deadline, Due, Priority, Progress, needs};

use super::{Rival, Run, Setting};
use crate::bottleneck::Path;

/// A file with a deadline.
#[derive(Copy, Clone, Debug)]
pub struct Job {
    /// Bytes on the wire, with all headers.
    pub bytes: u64,
    /// Seconds from its begin.
    pub within: f64,
}

/// What happens on the line meanwhile.
#[derive(Clone, Debug)]
pub struct Errand {
    /// The line.
    pub path: Path,
    /// What is sent over it.
    pub jobs: Vec<Job>,
    /// When the jobs begin, in seconds.
    pub begin: f64,
    /// When each CUBIC begins and ends, in seconds.
    pub others: Vec<(f64, f64)>,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Met {
    /// For each job when it came, as a part of the time that it had; infinite if it never did.
    pub came: Vec<f64>,
    /// When the first priority was raised above 0 first, in seconds; none if none was.
    pub raised: Option<f64>,
    /// What the first of the others got until then from the begin on ÷ what it gets alone.
    pub others_kept: f64,
    /// What the others got from the begin to the last arrival ÷ what they get without the jobs.
    pub others_got: f64,
    /// Each change of priority: when, in seconds, which job's, and to what.
    pub priorities: Vec<(f64, usize, f64)>,
    /// The highest of them.
    pub highest: f64,
}

/// A job under way.
struct Sent {
    flow: usize,
    deadline: Deadline,
    priority: Priority,
    came: Option<f64>,
}

impl Errand {
    fn lay(&self, seed: u64) -> (Run, Vec<usize>) {
        let mut run = Setting::on(self.path.clone(), Algorithm::default()).run(seed);
        let others = self.others.iter().map(|(from, to)| {
            let flow = run.tcp(*from, Rival::Cubic);
            run.sim.stop_at(Duration::from_secs_f64(*to), flow);
            flow
        });
        let others = others.collect();
        (run, others)
    }

    /// Plays it, with a look once a second as a member has.
    #[must_use]
    pub fn play(&self, seed: u64) -> Met {
        let (mut run, others) = self.lay(seed);
        let (_, epoch) = {
            let probe = run.ours(self.end());
            run.sim.controller(probe)
        };
        let begin = epoch + Duration::from_secs_f64(self.begin);
        let sent = self.jobs.iter().map(|job| Sent {
            flow: run.ours(self.begin),
            deadline: Deadline::new(
                begin,
                begin + Duration::from_secs_f64(job.within),
                Priority::new(8.0).unwrap_or_default(),
            ),
            priority: Priority::SCAVENGER,
            came: None,
        });
        let mut sent: Vec<Sent> = sent.collect();
        let mut priorities = Vec::new();
        let mut second = self.begin;
        while second < self.end() && sent.iter().any(|sent| sent.came.is_none()) {
            second += 1.0;
            run.to(second);
            self.look(&mut run, epoch, &mut sent, &mut priorities);
        }
        let raised = priorities.iter().find(|(.., to)| *to > 0.0);
        let raised = raised.map(|(at, ..)| *at);
        let [others_kept, others_got] =
            [raised.unwrap_or(second), second].map(|to| self.kept(&run, &others, to, seed));
        let came = self.jobs.iter().zip(&sent).map(|(job, sent)| {
            let came = sent.came.unwrap_or(f64::INFINITY);
            (came - self.begin) / job.within
        });
        Met {
            came: came.collect(),
            raised,
            others_kept,
            others_got,
            highest: priorities.iter().fold(0.0, |most, (.., to)| to.max(most)),
            priorities,
        }
    }

    /// What the others got from the begin until `to` ÷ what they get without the jobs.
    fn kept(&self, run: &Run, others: &[usize], to: f64, seed: u64) -> f64 {
        let (mut alone, others_alone) = self.lay(seed);
        alone.to(to);
        let got = |run: &Run, others: &[usize]| {
            let rates = others.iter().map(|flow| run.rate(*flow, self.begin, to));
            rates.sum::<f64>()
        };
        got(run, others) / got(&alone, &others_alone).max(1.0)
    }

    /// Long past all deadlines.
    fn end(&self) -> f64 {
        let longest = self.jobs.iter().fold(0.0, |most, job| job.within.max(most));
        self.begin + 2.0 * longest
    }

    fn look(
        &self,
        run: &mut Run,
        epoch: Instant,
        sent: &mut [Sent],
        priorities: &mut Vec<(f64, usize, f64)>,
    ) {
        let at = run.sim.now();
        let now = epoch + at;
        let has = |run: &Run, flow: usize| run.sim.series(flow).bytes(Duration::ZERO, at);
        let left =
            |run: &Run, sent: &Sent, job: &Job| job.bytes.saturating_sub(has(run, sent.flow));
        let dues = sent.iter().zip(&self.jobs).map(|(sent, job)| Due {
            left: left(run, sent, job),
            by: sent.deadline.aim(now),
        });
        let dues: Vec<Due> = dues.collect();
        let needs = needs(now, &dues);
        let learned = sent.iter().map(|sent| sent.deadline.clone());
        let learned: Vec<Deadline> = learned.collect();
        for (number, (sent, job)) in sent.iter_mut().zip(&self.jobs).enumerate() {
            if sent.came.is_some() || has(run, sent.flow) == 0 {
                continue;
            }
            if let Some(came) = run.sim.series(sent.flow).came(job.bytes) {
                sent.came = Some(came.as_secs_f64());
                run.sim.stop_at(at, sent.flow);
                continue;
            }
            for other in &learned {
                sent.deadline.learn_from(other);
            }
            let progress = Progress {
                left: dues[number].left,
                need: needs[number],
                rtt: self.path.rtt,
                by_network: true,
            };
            let priority = sent.deadline.handle_progress(now, &progress);
            if priority != sent.priority {
                sent.priority = priority;
                priorities.push((at.as_secs_f64(), number, priority.get()));
                run.sim.set_priority(sent.flow, priority.get());
            }
        }
    }
}
