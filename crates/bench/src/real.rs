//! `ringway-bench overlay --real`: routers over UDP on loopback, their round trips through the
//! ring, and how much it carries.
//!
//! | module | measures |
//! |---|---|
//! | `ring` | a ring of real routers in this process |
//! | `tokens` | what their applications do |
//! | `lookups` | lookups of random points, some routers silent; `chance` draws them |
//! | `peers` | the same by another overlay, in a program of its own |
//! | `through` | messages through the ring: round trips, packets, capacity |
//! | `used` | traffic and processor time |
//!
//! Source: "Our Brothers' Keepers" §4: tables 1 and 2, figures 2 to 4.

mod chance;
mod lookups;
mod peers;
mod ring;
mod through;
mod tokens;
mod used;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use self::peers::{Job, Kind, Peers};
use self::ring::{Ring, Starts};
use self::tokens::Game;
use super::figure::{Figure, show};
use super::plot::Bars;
use crate::cli::OverlayArgs;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// How much is measured.
#[derive(Clone, Debug)]
struct Plan {
    routers: usize,
    /// Routers that are pinged, and that send packets.
    peers: usize,
    packets: usize,
    rounds: usize,
    tokens: Vec<usize>,
    time: Duration,
    lookups: usize,
    /// Shares of routers that are malicious routers, each with lookups of its own.
    malicious: Vec<f64>,
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
            tokens: vec![10, 20, 50, 100, 200, 500, 1_000],
            time: Duration::from_secs(10),
            lookups: args.lookups.unwrap_or(300).max(1),
            malicious: shares(&args.malicious)?,
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
            tokens: vec![50],
            time: Duration::from_secs(3),
            lookups: args.lookups.unwrap_or(100).max(1),
            resting: Duration::ZERO,
            ..whole
        })
    }

    /// What is measured one after the other: without malicious routers, and then each share of each
    /// kind.
    fn parts(&self) -> Vec<Option<(Kind, f64)>> {
        let among = |share: &f64| [Kind::Silent, Kind::Lying].map(|kind| Some((kind, *share)));
        let attacks = self.malicious.iter().flat_map(among);
        std::iter::once(None).chain(attacks).collect()
    }

    fn job(&self, attack: Option<(Kind, f64)>) -> Job {
        Job {
            members: self.routers,
            lookups: self.lookups,
            attack,
            // Among malicious routers nothing at rest is measured.
            resting: attack.map_or(self.resting, |_| Duration::ZERO),
        }
    }
}

/// Shares of malicious routers above 0, of per cent.
fn shares(percent: &[f64]) -> Result<Vec<f64>, Failure> {
    if let Some(wrong) = percent.iter().find(|share| !(0.0..=50.0).contains(*share)) {
        return Err(Failure::usage(format_args!(
            "--malicious {wrong}: 0 to 50 per cent are measured"
        )));
    }
    let shares = percent.iter().filter(|share| **share > 0.0);
    Ok(shares.map(|share| share / 100.0).collect())
}

/// Measures and shows; with `--beside` beside another build of this program, or the lookups beside
/// another overlay.
pub(super) fn run(output: Output, args: &OverlayArgs) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    if args.at_once {
        return show(output, &[formation(output, &plan)?]);
    }
    if let Some(folder) = &args.plots {
        super::plot::writable(folder)?;
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
    // Each part takes minutes: what it gave is shown before the next one begins, the others'
    // figures first, with which ours are then compared.
    for attack in plan.parts() {
        let mut figures = match &peers {
            Some(peers) => others(output, &plan, peers, attack)?,
            None => Vec::new(),
        };
        let mut own = measure(output, &plan, attack)?;
        if let Some(peers) = &peers {
            own = own
                .into_iter()
                .map(|figure| peers.beside(figure, &figures))
                .collect();
        }
        show(output, &own)?;
        figures.extend(own);
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
            "token_hops",
            "overlay-capacity",
            "Figure 4: hops of tokens that go round",
            "hops/s",
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
    let malicious = chance::malicious(lookups::SEED, plan.routers, share);
    let game = Arc::new(Game::default());
    let ring = Ring::form(output, &malicious, Starts::OneByOne, |_, messages| {
        game.join(messages);
    })?;
    let figures = lookups::measure(output, &ring, plan.job(attack), &malicious)?;
    ring.end()?;
    Ok(figures)
}

/// The same lookups by other overlays, each shown when it has ended.
fn others(
    output: Output,
    plan: &Plan,
    peers: &Peers,
    attack: Option<(Kind, f64)>,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for name in peers.names(attack) {
        output.note(&format!("{name}, {}", peers::described(attack)));
        let measured = peers.measure(name, plan.job(attack))?;
        show(output, &measured)?;
        figures.extend(measured);
    }
    Ok(figures)
}

/// Everything that is measured in a ring of honest routers.
fn with_all(output: Output, plan: &Plan) -> Result<Vec<Figure>, Failure> {
    let game = Arc::new(Game::default());
    let players = Arc::clone(&game);
    let honest = vec![false; plan.routers];
    let mut ring = Ring::form(output, &honest, Starts::OneByOne, |_, messages| {
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
        figures.extend(through::measure(output, plan, &ring, &game)?);
        output.note("one router is revoked");
        match ring.revoke_last() {
            Ok(known) => {
                let metric = "revocation_known_after_command";
                let known = figure(plan, metric, "s", &[known.as_secs_f64()]);
                figures.push(known.against("aim", &[5.0]));
            }
            // What was measured before counts nevertheless.
            Err(failure) => output.note(failure.message()),
        }
    }
    ring.end()?;
    Ok(figures)
}

fn figure(plan: &Plan, metric: &'static str, unit: &'static str, runs: &[f64]) -> Figure {
    let case = format!("{} routers over UDP", plan.routers);
    Figure::new("overlay", case, metric, unit, runs)
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
    for percent in &args.malicious {
        command.args(["--malicious", &percent.to_string()]);
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
