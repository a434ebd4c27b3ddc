//! Many nodes in this process, their lookups, and the malicious nodes among them.

use std::sync::Arc;
use std::sync::mpsc as channel;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use libp2p::PeerId;
use libp2p::kad::KBucketKey;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::Failure;
use crate::chance;
use crate::measure::{Spent, Used, quantile, resident};
use crate::node::{Answer, Command, IDLE, Node, Sides, Variant};

/// What malicious nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Silent,
    /// Name each other only.
    Lying,
}

/// Traitors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) kind: Kind,
    /// Their share of all nodes.
    pub(crate) share: f64,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) variant: Variant,
    pub(crate) nodes: usize,
    pub(crate) lookups: usize,
    /// Time between the beginnings of two lookups.
    pub(crate) pace: Duration,
    pub(crate) seed: u64,
    pub(crate) attack: Option<Attack>,
}

/// What it came to. Names are a contract with `ringway-bench overlay --real`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    /// From the first node's start until the last had filled its routing table.
    formed_s: f64,
    /// Bytes of memory for each node at rest, before the lookups.
    memory: f64,
    /// And after them.
    memory_after: f64,
    /// Bytes a second and node at rest.
    idle_bytes_s: f64,
    /// Bytes for each node whose routing table is refreshed once, which libp2p repeats every five
    /// minutes.
    refresh_bytes: f64,
    /// Share of lookups whose answer contains the nearest live peer.
    found: f64,
    /// Share of lookups that ended in time with an answer that does not.
    wrong: f64,
    /// Two for each request.
    messages: f64,
    messages_p99: f64,
    time_median_ms: f64,
    time_p99_ms: f64,
    /// Beyond what is used at rest, of all nodes together, for each lookup.
    lookup_bytes: f64,
    lookup_processor_ms: f64,
}

/// Nodes that later ones know when they join.
const BOOT_NODES: usize = 3;

/// Pause between the starts of two nodes, as between those of Ringway's routers.
const START_PAUSE: Duration = Duration::from_millis(150);

/// Nodes that fill their routing tables at the same time: enough to keep a few cores busy.
const AT_ONCE: usize = 4;

/// Of so many nodes one refreshes its table before the lookups, to see what that costs: all of them
/// take minutes.
const REFRESHED: usize = 8;

/// After which unused connections are closed, and some time more.
const REST: Duration = IDLE.saturating_add(Duration::from_secs(5));

/// Time over which a network at rest is watched: two keep-alives of QUIC.
const WATCHED: Duration = Duration::from_secs(10);

/// Forms a network, measures it, and ends it.
pub(crate) fn measure(job: &Job) -> Result<Measured, Failure> {
    let honest = Builder::new_multi_thread().enable_all().build()?;
    // One thread, so that one task can stop all of them.
    let traitors = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let share = job.attack.map_or(0.0, |attack| attack.share);
    let traitor = chance::traitors(job.seed, job.nodes, share);
    let (nodes, formed) = form(job, &traitor, [&honest, &traitors])?;
    let some: Vec<Node> = nodes.iter().step_by(REFRESHED).cloned().collect();
    let refresh = honest.block_on(bootstrap(&some))?;
    std::thread::sleep(REST);
    let memory = resident().unwrap_or(f64::NAN);
    let used = Used::now()?;
    std::thread::sleep(WATCHED);
    let idle = used.spent()?;
    let lookups = Lookups::new(job, &nodes, &traitor);
    let attacked = match job.attack.map(|attack| attack.kind) {
        Some(Kind::Silent) => Some(Silence::of(&traitors)?),
        Some(Kind::Lying) => {
            honest.block_on(lie(&nodes, &traitor))?;
            None
        }
        None => None,
    };
    let used = Used::now()?;
    let ended = honest.block_on(lookups.run(job))?;
    let spent = used.spent()?.beyond(idle);
    let memory_after = resident().unwrap_or(f64::NAN);
    drop(attacked);
    let count = job.nodes as f64;
    let measured = Measured {
        formed_s: formed.as_secs_f64(),
        memory: memory / count,
        memory_after: memory_after / count,
        idle_bytes_s: idle.bytes / idle.seconds / count,
        refresh_bytes: refresh.bytes / some.len() as f64,
        ..summary(&ended, spent)
    };
    honest.shutdown_background();
    traitors.shutdown_background();
    Ok(measured)
}

/// The nodes join one after the other, which makes libp2p look for neighbours by itself, and fill
/// their routing tables once all are there.
fn form(
    job: &Job,
    traitor: &[bool],
    [honest, traitors]: [&Runtime; 2],
) -> Result<(Vec<Node>, Duration), Failure> {
    let began = Instant::now();
    let mut nodes: Vec<Node> = Vec::new();
    for traitor in traitor {
        let runtime = if *traitor { traitors } else { honest };
        let boot = nodes.iter().take(BOOT_NODES);
        let boot = boot.map(|node| node.place.clone()).collect();
        let starting = Node::start(job.variant, job.nodes, boot, *traitor);
        nodes.push(runtime.block_on(runtime.spawn(starting))??);
        std::thread::sleep(START_PAUSE);
    }
    honest.block_on(bootstrap(&nodes))?;
    Ok((nodes, began.elapsed()))
}

/// Each node fills its routing table, a few at once.
async fn bootstrap(nodes: &[Node]) -> Result<Spent, Failure> {
    let used = Used::now()?;
    for some in nodes.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|node| node.ask(Command::Bootstrap))).await?;
    }
    Ok(used.spent()?)
}

/// The malicious nodes forget all others.
async fn lie(nodes: &[Node], traitor: &[bool]) -> Result<(), Failure> {
    let of = |side: bool| {
        let all = nodes.iter().zip(traitor);
        all.filter(move |(_, traitor)| **traitor == side)
            .map(|(node, _)| node)
    };
    let sides = Arc::new(Sides {
        traitors: of(true).map(|node| node.place.clone()).collect(),
        honest: of(false).map(|node| node.place.0).collect(),
    });
    for node in of(true) {
        node.ask(|reply| Command::Lie(Arc::clone(&sides), reply))
            .await?;
    }
    Ok(())
}

/// As long as it lives, the only thread of a runtime does nothing: its sockets stay open, and none
/// answers.
#[derive(Debug)]
struct Silence {
    _until_dropped: channel::Sender<()>,
}

impl Silence {
    fn of(runtime: &Runtime) -> Result<Silence, Failure> {
        let (end, ended) = channel::channel();
        let (begin, begun) = channel::channel();
        runtime.spawn(async move {
            // Both ends may have gone.
            begin.send(()).ok();
            ended.recv().unwrap_or_default();
        });
        begun.recv()?;
        Ok(Silence {
            _until_dropped: end,
        })
    }
}

/// A lookup and what it is to find.
#[derive(Debug)]
struct Planned {
    node: Node,
    point: Vec<u8>,
    right: Option<PeerId>,
}

#[derive(Debug)]
struct Lookups(Vec<Planned>);

/// What came of one.
#[derive(Debug)]
struct Ended {
    answer: Answer,
    right: bool,
    elapsed: Duration,
}

impl Lookups {
    fn new(job: &Job, nodes: &[Node], traitor: &[bool]) -> Lookups {
        let all = || nodes.iter().zip(traitor);
        let honest: Vec<&Node> = all().filter(|(_, t)| !**t).map(|(n, _)| n).collect();
        let silent = job.attack.is_some_and(|attack| attack.kind == Kind::Silent);
        let live = all().filter(|(_, traitor)| !(silent && **traitor));
        let live: Vec<PeerId> = live.map(|(node, _)| node.place.0).collect();
        let lookups = chance::lookups(job.seed, job.lookups, honest.len());
        let planned = lookups.into_iter().filter_map(|lookup| {
            let node = (*honest.get(lookup.asker)?).clone();
            let target = KBucketKey::new(lookup.point.to_vec());
            let others = live.iter().filter(|peer| **peer != node.place.0);
            let nearest = others.min_by_key(|peer| target.distance(&KBucketKey::from(**peer)));
            Some(Planned {
                right: nearest.copied(),
                point: lookup.point.to_vec(),
                node,
            })
        });
        Lookups(planned.collect())
    }

    /// Begins them at the pace of the job, and waits for all.
    async fn run(self, job: &Job) -> Result<Vec<Ended>, Failure> {
        let mut pace = tokio::time::interval(job.pace.max(Duration::from_millis(1)));
        let mut running = JoinSet::new();
        for planned in self.0 {
            pace.tick().await;
            running.spawn(planned.run());
        }
        let mut ended = Vec::new();
        while let Some(done) = running.join_next().await {
            ended.push(done??);
        }
        Ok(ended)
    }
}

impl Planned {
    async fn run(self) -> Result<Ended, Failure> {
        let began = Instant::now();
        let lookup = |reply| Command::Lookup(self.point, reply);
        let answer = self.node.ask(lookup).await?;
        let elapsed = began.elapsed();
        let right = self
            .right
            .is_some_and(|right| answer.peers.contains(&right));
        Ok(Ended {
            answer,
            right,
            elapsed,
        })
    }
}

/// The part of the figures that are those of lookups.
fn summary(ended: &[Ended], spent: Spent) -> Measured {
    let count = ended.len().max(1) as f64;
    let share = |is: &dyn Fn(&Ended) -> bool| ended.iter().filter(|e| is(e)).count() as f64 / count;
    let messages: Vec<f64> = ended
        .iter()
        .map(|e| f64::from(e.answer.requests) * 2.0)
        .collect();
    let times: Vec<f64> = ended
        .iter()
        .map(|e| e.elapsed.as_secs_f64() * 1e3)
        .collect();
    Measured {
        formed_s: 0.0,
        memory: 0.0,
        memory_after: 0.0,
        idle_bytes_s: 0.0,
        refresh_bytes: 0.0,
        found: share(&|e| e.right),
        wrong: share(&|e| e.answer.in_time && !e.right),
        messages: messages.iter().sum::<f64>() / count,
        messages_p99: quantile(&messages, 0.99),
        time_median_ms: quantile(&times, 0.5),
        time_p99_ms: quantile(&times, 0.99),
        lookup_bytes: spent.bytes / count,
        lookup_processor_ms: spent.processor * 1e3 / count,
    }
}
