//! `ringway-bench streams`: what a forward to a service carries beside plain TCP proxies, the first
//! byte on a warm link, and keystrokes beside a transfer at priority 0.
//!
//! | module | does |
//! |---|---|
//! | `site` | a ring of two members that run the program, on loopback or over a line |
//! | `proxies` | socat, HAProxy and dumbpipe |
//! | `servers` | the services, and their clients |

mod proxies;
mod servers;
mod site;

use std::time::{Duration, Instant};

use ringway_terminal::{Failure, Output};
use ringway_testbed::Line;

use self::proxies::Proxy;
use self::servers::{Sink, typed};
use self::site::Site;
use super::figure::{Figure, show};
use crate::cli::StreamsArgs;

/// Round trip of the line, both ways through the switch.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Bits a second of the line that a transfer fills.
const SLOW: u64 = 10_000_000;
/// Bytes that wait at the line: one round trip's.
const QUEUE: usize = 25_000;
/// Bytes of the transfer: more than the keystrokes take.
const BULK: usize = 64 << 20;
/// Pause between keystrokes.
const TYPING: Duration = Duration::from_millis(100);

/// Measures and shows.
pub(super) fn run(output: Output, args: &StreamsArgs) -> Result<(), Failure> {
    let parts = ["throughput", "first-byte", "keystrokes"];
    if let Some(unknown) = args.only.iter().find(|it| !parts.contains(&it.as_str())) {
        return Err(Failure::usage(format_args!(
            "--only {unknown}: there are {}",
            parts.join(", ")
        )));
    }
    let wants = |part: &str| args.only.is_empty() || args.only.iter().any(|it| it == part);
    let rounds = if args.quick { 1 } else { args.rounds };
    let mut figures = Vec::new();
    if wants("throughput") {
        figures.extend(throughput(output, rounds, args.quick)?);
    }
    if wants("first-byte") {
        figures.push(first_byte(if args.quick { 5 } else { 40 })?);
    }
    if wants("keystrokes") {
        figures.extend(keystrokes(output, if args.quick { 50 } else { 300 })?);
    }
    show(output, &figures)
}

/// A forward and the proxies in turns, to the same server.
fn throughput(output: Output, rounds: usize, quick: bool) -> Result<Vec<Figure>, Failure> {
    let time = Duration::from_secs(if quick { 2 } else { 6 });
    let sink = Sink::start(None)?;
    let site = Site::on_loopback(&[("sink", sink.address)])?;
    let forward = site.forward("oslo/sink")?;
    let proxies = Proxy::all(output, sink.address)?;
    let mut own = Vec::new();
    let mut others = vec![Vec::new(); proxies.len()];
    for _ in 0..rounds {
        own.push(sink.pour(forward.address, time)?);
        for (runs, proxy) in others.iter_mut().zip(&proxies) {
            runs.push(sink.pour(proxy.address, time)?);
        }
    }
    let figure =
        |case: String, runs: &[f64]| Figure::new("streams", case, "throughput", "Gbit/s", runs);
    let mut figures = Vec::new();
    if proxies.is_empty() {
        figures.push(figure("forward on loopback".to_owned(), &own));
    }
    for (proxy, runs) in proxies.iter().zip(&others) {
        let case = format!("forward on loopback, beside {}", proxy.name);
        figures.push(figure(case, &own).against(proxy.name, runs));
    }
    Ok(figures)
}

/// From the client's connection to the first byte of the service, on a link that is there.
fn first_byte(times: usize) -> Result<Figure, Failure> {
    let line = Line::plain().delay_ms(delay_ms());
    let site = Site::over(line, &["greeting"])?;
    let forward = site.forward("oslo/greeting")?;
    site.warm(&forward)?;
    let mut runs = Vec::new();
    for _ in 0..times {
        let took = site.first_byte(&forward)?;
        runs.push(took.as_secs_f64() / ROUND_TRIP.as_secs_f64());
        std::thread::sleep(Duration::from_millis(50));
    }
    let case = "first byte on a warm link, 20 ms";
    Ok(Figure::new("streams", case, "time", "round trips", &runs))
}

/// The slowest of a hundred keystrokes beyond the round trip, alone and beside a transfer.
fn keystrokes(output: Output, times: usize) -> Result<Vec<Figure>, Failure> {
    let line = Line::plain().delay_ms(delay_ms()).rate(SLOW, QUEUE);
    let site = Site::over(line, &["echo"])?;
    let forward = site.forward("oslo/echo")?;
    site.warm(&forward)?;
    let mut figures = Vec::new();
    for beside in [false, true] {
        let case = if beside {
            output.note("a transfer at priority 0 fills the line");
            site.fill(BULK)?;
            "keystrokes beside a transfer at priority 0 that fills 10 Mbit/s"
        } else {
            "keystrokes alone, 10 Mbit/s"
        };
        let before = site.transferred()?;
        let begin = Instant::now();
        let mut times = site.on_lima(|| typed(forward.address, times, TYPING))??;
        let seconds = begin.elapsed().as_secs_f64();
        times.sort_unstable();
        let late = times
            .get(times.len() * 99 / 100)
            .copied()
            .unwrap_or_default();
        let beyond = late.saturating_sub(ROUND_TRIP).as_secs_f64() * 1e3;
        let figure = |metric, unit, value| Figure::new("streams", case, metric, unit, &[value]);
        figures.push(figure("p99_beyond_round_trip", "ms", beyond));
        if beside {
            #[allow(clippy::cast_precision_loss, reason = "bytes of a transfer")]
            let bits = site.transferred()?.saturating_sub(before) as f64 * 8.0;
            figures.push(figure("transfer", "Mbit/s", bits / seconds / 1e6));
        }
    }
    Ok(figures)
}

/// Milliseconds of one cable, one way: a packet takes two of them.
fn delay_ms() -> u64 {
    u64::try_from(ROUND_TRIP.as_millis() / 4).unwrap_or(5)
}

/// What the testbed says.
fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error)
}
