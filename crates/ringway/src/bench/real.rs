//! `ringway bench overlay --real`: routers over UDP on loopback, their round trips through the ring, and how much it carries.
//!
//! | module | measures |
//! |---|---|
//! | `ring` | a ring of real routers in this process |
//! | `potatoes` | what their applications do |
//! | `lookups` | lookups of random points, some routers silent; `chance` draws them |
//! | `peers` | the same by another overlay, in a program of its own |
//! | `used` | traffic and processor time |
//!
//! Source: "Our Brothers' Keepers" §4: tables 1 and 2, figures 2 to 4.

mod chance;
mod lookups;
mod peers;
mod potatoes;
mod ring;
mod used;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_node::daemon::RingSender;

use self::peers::{Job, Kind, Peers};
use self::potatoes::Game;
use self::ring::{Ring, Starts};
use super::figure::{Figure, show};
use super::plot::Bars;
use crate::cli::OverlayArgs;
use crate::failure::Failure;
use crate::output::Output;

/// How much is measured.
#[derive(Clone, Debug)]
struct Plan {
    routers: usize,
    /// Routers that are pinged, and that send packets.
    peers: usize,
    packets: usize,
    rounds: usize,
    potatoes: Vec<usize>,
    time: Duration,
    lookups: usize,
    /// Shares of routers that are traitors, each with lookups of its own.
    traitors: Vec<f64>,
    messages: bool,
    /// How long a ring that has formed is left to come to rest.
    resting: Duration,
}

impl Plan {
    fn new(args: &OverlayArgs) -> Result<Plan, Failure> {
        let routers = match args.members.as_slice() {
            [] => 255,
            [count] if (5..=1_000).contains(count) => *count,
            _ => {
                return Err(Failure::usage(
                    "--real takes one number of --members, from 5 to 1000",
                ));
            }
        };
        let peers = routers - 1;
        let whole = Plan {
            routers,
            peers,
            packets: 1_000,
            rounds: usize::try_from(args.runs.unwrap_or(3)).unwrap_or(3).max(1),
            potatoes: vec![10, 20, 50, 100, 200, 500, 1_000],
            time: Duration::from_secs(10),
            lookups: args.lookups.unwrap_or(300).max(1),
            traitors: shares(&args.traitors)?,
            messages: !args.only_lookups,
            resting: lookups::RESTING,
        };
        if !args.quick {
            return Ok(whole);
        }
        Ok(Plan {
            peers: peers.min(32),
            packets: 500,
            rounds: 1,
            potatoes: vec![50],
            time: Duration::from_secs(3),
            lookups: args.lookups.unwrap_or(100).max(1),
            resting: Duration::ZERO,
            ..whole
        })
    }

    /// What is measured one after the other: without traitors, and then each share of each kind.
    fn parts(&self) -> Vec<Option<(Kind, f64)>> {
        let among = |share: &f64| [Kind::Silent, Kind::Lying].map(|kind| Some((kind, *share)));
        let attacks = self.traitors.iter().flat_map(among);
        std::iter::once(None).chain(attacks).collect()
    }

    fn job(&self, attack: Option<(Kind, f64)>) -> Job {
        Job {
            members: self.routers,
            lookups: self.lookups,
            attack,
            // Among traitors nothing at rest is measured.
            resting: attack.map_or(self.resting, |_| Duration::ZERO),
        }
    }
}

/// Shares of traitors above 0, of per cent.
fn shares(percent: &[f64]) -> Result<Vec<f64>, Failure> {
    if let Some(wrong) = percent.iter().find(|share| !(0.0..=50.0).contains(*share)) {
        return Err(Failure::usage(format_args!(
            "--traitors {wrong}: 0 to 50 per cent are measured"
        )));
    }
    let shares = percent.iter().filter(|share| **share > 0.0);
    Ok(shares.map(|share| share / 100.0).collect())
}

/// Potatoes that go round before any are counted.
const WARM_UP: usize = 200;

/// Pings of one router in one round.
const PINGS: usize = 10;

/// Measures and shows; with `--beside` beside another build of this program, or the lookups beside another overlay.
pub(super) fn run(output: Output, args: &OverlayArgs) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    if args.at_once {
        return show(output, &[formation(output, &plan)?]);
    }
    if let Some(folder) = &args.plots {
        super::writable(folder)?;
    }
    let peers = args.beside.as_deref().and_then(Peers::new);
    let another_build = args.beside.as_deref().filter(|_| peers.is_none());
    if let Some(program) = another_build {
        let mut figures = Vec::new();
        for attack in plan.parts() {
            figures.extend(measure(output, &plan, attack)?);
        }
        output.note(&format!("{} measures the same", program.display()));
        let others = beside(program, args)?;
        let figures = figures.into_iter();
        let figures: Vec<Figure> = figures.map(|figure| against(figure, &others)).collect();
        show(output, &figures)?;
        return draw(&figures, args.plots.as_deref());
    }
    let mut all = Vec::new();
    // Each part takes minutes: what it gave is shown before the next one begins.
    for attack in plan.parts() {
        let mut figures = measure(output, &plan, attack)?;
        if let Some(peers) = &peers {
            let others = others(output, &plan, peers, attack)?;
            let own = figures.into_iter();
            figures = own.map(|figure| peers.beside(figure, &others)).collect();
            figures.extend(others);
        }
        show(output, &figures)?;
        all.extend(figures);
    }
    draw(&all, args.plots.as_deref())
}

/// The paper's Figure 4, and how long lookups took; what was not measured is not drawn.
fn draw(figures: &[Figure], folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Ok(());
    };
    let plots = [
        (
            "passes",
            "overlay-capacity",
            "Figure 4: passes of messages that go round",
            "passes/s",
        ),
        (
            "time_median",
            "overlay-lookup-time",
            "Time until a lookup was answered, median",
            "ms",
        ),
    ];
    for (metric, name, title, unit) in plots {
        let measured = figures.iter().filter(|figure| figure.metric == metric);
        let bars = measured.map(|figure| (figure.case.clone(), figure.value));
        let plot = Bars {
            name: name.to_owned(),
            title: title.to_owned(),
            unit,
            bars: bars.collect(),
        };
        plot.draw(folder)?;
    }
    Ok(())
}

/// How long routers take that start at the same moment, once for each round.
fn formation(output: Output, plan: &Plan) -> Result<Figure, Failure> {
    let mut times = Vec::new();
    for _ in 0..plan.rounds {
        let honest = vec![false; plan.routers];
        let ring = Ring::form(output, &honest, Starts::AtOnce, |_, messages| {
            drop(messages);
        })?;
        times.push(ring.formed.as_secs_f64());
        ring.end()?;
    }
    let case = format!("{} routers over UDP, started at once", plan.routers);
    Ok(Figure::new("overlay", case, "ring_formed", "s", &times))
}

fn measure(
    output: Output,
    plan: &Plan,
    attack: Option<(Kind, f64)>,
) -> Result<Vec<Figure>, Failure> {
    let share = match attack {
        None => return with_all(output, plan),
        Some((Kind::Lying, share)) => return lookups::among_liars(plan.job(None), share),
        Some((Kind::Silent, share)) => share,
    };
    let traitor = chance::traitors(lookups::SEED, plan.routers, share);
    let game = Arc::new(Game::default());
    let ring = Ring::form(output, &traitor, Starts::OneByOne, |_, messages| {
        game.join(messages);
    })?;
    let figures = lookups::measure(output, &ring, plan.job(attack), &traitor)?;
    ring.end()?;
    Ok(figures)
}

/// The same lookups by other overlays.
fn others(
    output: Output,
    plan: &Plan,
    peers: &Peers,
    attack: Option<(Kind, f64)>,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for name in peers.names(attack) {
        output.note(&format!("{name}, {}", peers::described(attack)));
        figures.extend(peers.measure(name, plan.job(attack))?);
    }
    Ok(figures)
}

/// Everything that is measured in a ring of honest routers.
fn with_all(output: Output, plan: &Plan) -> Result<Vec<Figure>, Failure> {
    let game = Arc::new(Game::default());
    let players = Arc::clone(&game);
    let honest = vec![false; plan.routers];
    let ring = Ring::form(output, &honest, Starts::OneByOne, |_, messages| {
        players.join(messages);
    })?;
    let mut figures = vec![figure(
        plan,
        "ring_formed",
        "s",
        &[ring.formed.as_secs_f64()],
    )];
    let memory = resident().map(|bytes| bytes / whole(plan.routers) / 1e6);
    figures.extend(memory.map(|value| figure(plan, "memory_per_router", "MB", &[value])));
    figures.extend(lookups::measure(output, &ring, plan.job(None), &honest)?);
    if plan.messages {
        figures.extend(messages(output, plan, &ring, &game)?);
    }
    ring.end()?;
    Ok(figures)
}

/// Messages through the ring.
fn messages(
    output: Output,
    plan: &Plan,
    ring: &Ring,
    game: &Arc<Game>,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = round_trips(output, plan, ring)?;
    figures.extend(packets(output, plan, ring, game)?);
    // The first message between two routers costs both a certificate's check and a key.
    output.note("routers get to know each other");
    ring.run(async { game.begin(&senders(ring), WARM_UP) });
    std::thread::sleep(plan.time.saturating_mul(3));
    ring.run(game.end());
    for potatoes in &plan.potatoes {
        figures.extend(capacity(output, plan, ring, game, *potatoes)?);
    }
    Ok(figures)
}

fn figure(plan: &Plan, metric: &'static str, unit: &'static str, runs: &[f64]) -> Figure {
    let case = format!("{} routers over UDP", plan.routers);
    Figure::new("overlay", case, metric, unit, runs)
}

/// The first router pings the others through the ring, one after the other: of each the least of all rounds' means counts.
fn round_trips(output: Output, plan: &Plan, ring: &Ring) -> Result<Vec<Figure>, Failure> {
    let (first, others) = ring.members.split_first().ok_or_else(no_routers)?;
    let (mut least, mut failed, mut again) = (vec![f64::INFINITY; plan.peers], 0_usize, 0_usize);
    for round in 1..=plan.rounds {
        output.note(&format!("round trips, round {round} of {}", plan.rounds));
        for (peer, least) in others.iter().zip(&mut least) {
            let mut times = Vec::new();
            for _ in 0..PINGS {
                match ring.run(first.sender.to_router(&peer.name, &[])) {
                    Ok(delivered) => {
                        again += usize::from(delivered.ways > 1);
                        times.push(delivered.elapsed.as_secs_f64() * 1e3);
                    }
                    Err(error) => {
                        failed += 1;
                        output.note(&format!("{}: {error}", peer.name));
                    }
                }
            }
            if !times.is_empty() {
                *least = least.min(times.iter().sum::<f64>() / whole(times.len()));
            }
        }
    }
    least.retain(|time| time.is_finite());
    let all = whole(plan.peers * PINGS * plan.rounds);
    let share = |count: usize| [whole(count) / all];
    let mut figures = spread(
        plan,
        [
            "round_trip_mean",
            "round_trip_median",
            "round_trip_least",
            "round_trip_most",
        ],
        "ms",
        &least,
    );
    figures.push(figure(plan, "pings_unanswered", "share", &share(failed)));
    figures.push(figure(plan, "pings_by_another_way", "share", &share(again)));
    Ok(figures)
}

/// Each of the others in turn sends packets to the first as fast as the ring takes them.
fn packets(output: Output, plan: &Plan, ring: &Ring, game: &Game) -> Result<Vec<Figure>, Failure> {
    let (first, others) = ring.members.split_first().ok_or_else(no_routers)?;
    output.note("packets from each router");
    let rates = others
        .iter()
        .take(plan.peers)
        .filter_map(|peer| ring.run(game.packets(&peer.sender, &first.name, plan.packets)));
    let rates: Vec<f64> = rates.collect();
    Ok(spread(
        plan,
        [
            "packets_mean",
            "packets_median",
            "packets_least",
            "packets_most",
        ],
        "packets/s",
        &rates,
    ))
}

/// Mean, median, least and most of values of single routers.
fn spread(
    plan: &Plan,
    [mean, median, least, most]: [&'static str; 4],
    unit: &'static str,
    values: &[f64],
) -> Vec<Figure> {
    let sum: f64 = values.iter().sum();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    vec![
        figure(plan, mean, unit, &[sum / whole(values.len().max(1))]),
        figure(plan, median, unit, &[super::figure::median(values)]),
        figure(plan, least, unit, &[low]),
        figure(plan, most, unit, &[high]),
    ]
}

/// What has been done at one moment.
#[derive(Clone, Copy, Debug)]
struct Tally {
    at: Instant,
    passes: u64,
    lost: u64,
    /// Messages that all links have sent, whatever is in them.
    messages: u64,
    processor: Duration,
}

impl Tally {
    fn take(ring: &Ring, game: &Game) -> Result<Tally, Failure> {
        let statuses = ring.statuses()?;
        let counters = statuses.iter().map(|status| &status.counters);
        let sent = counters.filter_map(|counters| counters.get("link_messages_sent"));
        let (passes, lost) = game.counts();
        Ok(Tally {
            at: Instant::now(),
            passes,
            lost,
            messages: sent.sum(),
            processor: processor_time(),
        })
    }
}

/// Potatoes go round; of which the first while, in which they spread, does not count.
fn capacity(
    output: Output,
    plan: &Plan,
    ring: &Ring,
    game: &Arc<Game>,
    potatoes: usize,
) -> Result<Vec<Figure>, Failure> {
    ring.run(async { game.begin(&senders(ring), potatoes) });
    std::thread::sleep(plan.time / 5);
    let before = Tally::take(ring, game)?;
    std::thread::sleep(plan.time);
    let after = Tally::take(ring, game)?;
    ring.run(game.end());
    let passes = (after.passes - before.passes).max(1) as f64;
    let messages = (after.messages - before.messages).max(1) as f64;
    let rate = passes / after.at.duration_since(before.at).as_secs_f64();
    let spent = (after.processor - before.processor).as_secs_f64() * 1e6 / messages;
    output.note(&format!("{potatoes} potatoes: {rate:.0} passes/s"));
    let case = format!("{} routers over UDP, {potatoes} potatoes", plan.routers);
    let figure =
        |metric, unit, value: f64| Figure::new("overlay", case.clone(), metric, unit, &[value]);
    Ok(vec![
        figure("passes", "passes/s", rate).against("aim", &[30_000.0]),
        figure("passes_of_a_potato", "passes/s", rate / whole(potatoes)),
        figure(
            "passes_lost",
            "share",
            (after.lost - before.lost) as f64 / passes,
        ),
        figure("processor_time_per_message", "µs", spent).against("aim", &[5.0]),
        figure("messages_per_pass", "messages", messages / passes),
    ])
}

fn senders(ring: &Ring) -> Vec<RingSender> {
    ring.members.iter().map(|m| m.sender.clone()).collect()
}

fn no_routers() -> Failure {
    Failure::failed("the ring has no routers")
}

fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let times = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(times.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(times.tv_nsec).unwrap_or(0))
}

/// Bytes of memory of this process.
pub(super) fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// What another build of this program measures.
fn beside(program: &Path, args: &OverlayArgs) -> Result<Vec<serde_json::Value>, Failure> {
    let mut command = Command::new(program);
    command.args(["bench", "overlay", "--real", "--json", "--quiet"]);
    if args.quick {
        command.arg("--quick");
    }
    if args.only_lookups {
        command.arg("--only-lookups");
    }
    for members in &args.members {
        command.args(["--members", &members.to_string()]);
    }
    for percent in &args.traitors {
        command.args(["--traitors", &percent.to_string()]);
    }
    if let Some(lookups) = args.lookups {
        command.args(["--lookups", &lookups.to_string()]);
    }
    if let Some(runs) = args.runs {
        command.args(["--runs", &runs.to_string()]);
    }
    let shown = program.display();
    let done = command.output();
    let done = done.map_err(|error| Failure::usage(format_args!("--beside {shown}: {error}")))?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        return Err(Failure::failed(format_args!("{shown}: {}", text.trim())));
    }
    let lines = String::from_utf8_lossy(&done.stdout);
    let objects = lines.lines().map(serde_json::from_str);
    objects.collect::<Result<_, _>>().map_err(Failure::failed)
}

/// The figure, measured against the other build's.
fn against(figure: Figure, others: &[serde_json::Value]) -> Figure {
    let same = |other: &&serde_json::Value| {
        other["case"] == figure.case.as_str() && other["metric"] == figure.metric
    };
    let value = others
        .iter()
        .find(same)
        .and_then(|other| other["value"].as_f64());
    match value {
        Some(value) => figure.against("the other build", &[value]),
        None => figure,
    }
}
