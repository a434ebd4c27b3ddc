//! Lookups of random points by random honest routers, some of the others silent.

use std::time::{Duration, Instant};

use ringway_node::daemon::RingSender;
use ringway_overlay::RingKey;
use ringway_sim::Behaviour;
use ringway_sim::attack::{Attack, Outcome, run as attack};
use serde::Deserialize;
use tokio::task::JoinSet;

use super::chance;
use super::peers::{Job, Kind, own_case};
use super::ring::Ring;
use super::used::{Spent, Used, quantile};
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// The seed of points, askers and malicious routers.
pub(super) const SEED: u64 = 1;

/// Time between the beginnings of two lookups.
/// Source: lookups for which connections have to be made first take some 0.2 s of processor time in
/// all members together, and two cores are to keep up; closer ones would measure how they wait for
/// each other.
pub(super) const PACE: Duration = Duration::from_millis(250);

/// Time after which a ring that has formed is at rest. A quick look does without: it sees the links
/// that forming made as well. Source: unused ones are closed after a minute, those that the other
/// side still wanted a minute later.
pub(super) const RESTING: Duration = Duration::from_secs(125);

/// Time over which a ring at rest is watched, but for a quick look.
/// Source: each router asks for four fingers in it, every second one makes an audit, and DNS is
/// asked twelve times.
const WATCHED: Duration = Duration::from_secs(60);

/// Time over which a quick look watches.
/// Source: ten rounds of stabilisation, and two questions to DNS.
const WATCHED_QUICKLY: Duration = Duration::from_secs(10);

/// What lookups came to. Names are a contract with the programs of `--beside`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Looked {
    /// Share of lookups that found what they were to find.
    found: f64,
    /// Share of lookups that gave something else for right.
    wrong: f64,
    messages: f64,
    messages_p99: f64,
    time_median_ms: f64,
    time_p99_ms: f64,
    /// Beyond what is used at rest, of all members together, for each lookup.
    lookup_bytes: f64,
    lookup_processor_ms: f64,
}

impl Looked {
    /// Without what a lookup costs beyond rest if routers have fallen silent: those no longer cost
    /// what they did at rest.
    pub(super) fn figures(&self, case: &str, job: Job) -> Vec<Figure> {
        let figure = |metric, unit, value| Figure::new("overlay", case, metric, unit, &[value]);
        let mut figures = vec![
            figure("lookup_success", "share", self.found),
            figure("wrong_accepted", "share", self.wrong),
            figure("messages_mean", "messages", self.messages),
            figure("messages_p99", "messages", self.messages_p99),
            figure("time_median", "ms", self.time_median_ms),
            figure("time_p99", "ms", self.time_p99_ms),
        ];
        if !matches!(job.attack, Some((Kind::Silent, _))) {
            let (traffic, processor) = (self.lookup_bytes / 1e3, self.lookup_processor_ms);
            figures.push(figure("traffic_of_a_lookup", "kB", traffic));
            figures.push(figure("processor_time_of_a_lookup", "ms", processor));
        }
        figures
    }
}

/// A ring at rest and, if some of its routers then fall silent, the others' lookups.
pub(super) fn measure(
    output: Output,
    ring: &Ring,
    job: Job,
    malicious: &[bool],
) -> Result<Vec<Figure>, Failure> {
    let case = own_case(job);
    output.note(&format!("{case}: {} lookups", job.lookups));
    let lookups = planned(ring, job, malicious)?;
    let watched = match job.resting.is_zero() {
        true => WATCHED_QUICKLY,
        false => WATCHED,
    };
    std::thread::sleep(job.resting);
    let before = super::resident();
    let used = Used::now().map_err(Failure::failed)?;
    std::thread::sleep(watched);
    let idle = used.spent().map_err(Failure::failed)?;
    let silence = malicious
        .contains(&true)
        .then(|| ring.silence())
        .transpose()?;
    let used = Used::now().map_err(Failure::failed)?;
    let ended = ring.run(run(lookups));
    let spent = used.spent().map_err(Failure::failed)?.beyond(idle);
    let after = super::resident();
    drop(silence);
    let mut figures = looked(&ended?, spent).figures(&case, job);
    if job.attack.is_some() {
        return Ok(figures);
    }
    let members = super::whole(job.members);
    let mut add = |metric, unit, value: f64| {
        figures.push(Figure::new("overlay", case.clone(), metric, unit, &[value]));
    };
    for (metric, memory) in [("memory_at_rest", before), ("memory_after_lookups", after)] {
        if let Some(memory) = memory {
            add(metric, "MB/member", memory / members / 1e6);
        }
    }
    add(
        "idle_traffic",
        "B/s and member",
        idle.bytes / idle.seconds / members,
    );
    Ok(figures)
}

/// A lookup and what it is to find.
#[derive(Debug)]
struct Planned {
    sender: RingSender,
    point: RingKey,
    right: RingKey,
}

/// What came of one.
#[derive(Debug)]
struct Ended {
    questions: Option<u32>,
    right: bool,
    wrong: bool,
    elapsed: Duration,
}

/// Who asks, for what, and which live router owns it.
fn planned(ring: &Ring, job: Job, malicious: &[bool]) -> Result<Vec<Planned>, Failure> {
    let keys = ring.keys()?;
    let members = ring.members.iter().zip(&keys).zip(malicious);
    let honest: Vec<_> = members
        .filter_map(|((member, key), malicious)| (!malicious).then_some((member, *key)))
        .collect();
    let mut live: Vec<RingKey> = honest.iter().map(|(_, key)| *key).collect();
    live.sort_unstable();
    let owner = |point: &RingKey| {
        let after = live.iter().find(|key| *key >= point);
        after.or(live.first()).copied()
    };
    let lookups = chance::lookups(SEED, job.lookups, honest.len()).into_iter();
    let planned = lookups.filter_map(|lookup| {
        let (asker, _) = honest.get(lookup.asker)?;
        let point = RingKey::from_bytes(lookup.point);
        Some(Planned {
            sender: asker.sender.clone(),
            right: owner(&point)?,
            point,
        })
    });
    Ok(planned.collect())
}

/// Begins the lookups at their pace, and waits for all.
async fn run(lookups: Vec<Planned>) -> Result<Vec<Ended>, Failure> {
    let mut pace = tokio::time::interval(PACE);
    let mut running = JoinSet::new();
    for planned in lookups {
        pace.tick().await;
        running.spawn(planned.run());
    }
    let mut ended = Vec::new();
    while let Some(done) = running.join_next().await {
        ended.push(done.map_err(Failure::failed)?);
    }
    Ok(ended)
}

impl Planned {
    async fn run(self) -> Ended {
        let began = Instant::now();
        let answer = self.sender.look_up(self.point).await;
        let elapsed = began.elapsed();
        let right = answer.as_ref().is_ok_and(|owner| owner.key == self.right);
        let verified = answer.as_ref().is_ok_and(|owner| owner.verified);
        Ended {
            questions: answer.ok().map(|owner| owner.questions),
            right,
            wrong: verified && !right,
            elapsed,
        }
    }
}

fn looked(ended: &[Ended], spent: Spent) -> Looked {
    let count = super::whole(ended.len().max(1));
    let share =
        |is: fn(&Ended) -> bool| super::whole(ended.iter().filter(|e| is(e)).count()) / count;
    let asked = ended.iter().filter_map(|ended| ended.questions);
    let messages: Vec<f64> = asked.map(|questions| f64::from(questions) * 2.0).collect();
    let times = ended.iter().map(|ended| ended.elapsed.as_secs_f64() * 1e3);
    let times: Vec<f64> = times.collect();
    Looked {
        found: share(|ended| ended.right),
        wrong: share(|ended| ended.wrong),
        messages: messages.iter().sum::<f64>() / super::whole(messages.len().max(1)),
        messages_p99: quantile(&messages, 0.99),
        time_median_ms: quantile(&times, 0.5),
        time_p99_ms: quantile(&times, 0.99),
        lookup_bytes: spent.bytes / count,
        lookup_processor_ms: spent.processor * 1e3 / count,
    }
}

/// Lookups among malicious routers that name each other only: the daemon cannot lie, so the members
/// are those of the simulator.
pub(super) fn among_liars(job: Job, share: f64) -> Result<Vec<Figure>, Failure> {
    let outcome: Outcome = attack(&Attack {
        behaviour: Some(Behaviour::Collude),
        ..Attack::new(SEED, job.members, share, job.lookups)
    })
    .map_err(|failure| Failure::failed(format_args!("the simulation failed: {failure}")))?;
    let job = Job {
        attack: Some((Kind::Lying, share)),
        ..job
    };
    let case = format!("{} simulated", own_case(job));
    let figure =
        |metric, unit, value: f64| Figure::new("overlay", case.clone(), metric, unit, &[value]);
    Ok(vec![
        figure("lookup_success", "share", outcome.success()),
        figure("wrong_accepted", "share", outcome.accepted_wrong()),
        figure("messages_mean", "messages", outcome.mean_messages()),
        figure(
            "messages_p99",
            "messages",
            f64::from(outcome.p99_messages()),
        ),
    ])
}
