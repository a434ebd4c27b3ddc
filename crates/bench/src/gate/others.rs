//! Everybody else's traffic while files are scanned, as a share of what it is beside the same files
//! behind NAT alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::border::{Border, Running, Side};
use super::ladder::{NAT, along, words};
use super::load::{Kind, Load, fetch};
use super::policies::SCAN;
use crate::cli::{GateBenchArgs, PathChoice};
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// What everybody else does: connections of no application that the policy names.
const OTHERS: Kind = Kind::Bulk(8);

/// Who loads files that are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Managed {
    /// One client, a file of 2 MB each 160 ms: 100 Mbit/s, which a scanner can keep up with.
    Paced,
    /// Ten clients, as fast as their files come.
    Free,
}

const MANAGED: [Managed; 2] = [Managed::Paced, Managed::Free];

impl Managed {
    fn name(self) -> &'static str {
        match self {
            Self::Paced => "beside files at 100 Mbit/s",
            Self::Free => "beside 10 clients' files",
        }
    }

    /// How many load, and how often each.
    fn clients(self) -> (usize, Duration) {
        match self {
            Self::Paced => (1, Duration::from_millis(160)),
            Self::Free => (10, Duration::ZERO),
        }
    }
}

/// What one run showed, Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Shared {
    others: f64,
    managed: f64,
}

/// One of its rates.
type Rate = fn(&Shared) -> f64;

/// Measures NAT and each path, in turns.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    let Some(clamd) = args.clamd.as_deref().filter(|_| load.has(OTHERS)) else {
        output.note("others beside scans: LEFT OUT, it needs --clamd and iperf3");
        return Ok(Vec::new());
    };
    let on = |path: &PathChoice| {
        let (name, more) = along(*path, "filter, audit and scan (clamd)");
        (name, Some([words(args, Some(clamd)), more].concat()))
    };
    let gateways = args.path.iter().map(on);
    let middles: Vec<(String, Option<Vec<String>>)> = [(NAT.to_owned(), None)]
        .into_iter()
        .chain(gateways)
        .collect();
    let mut runs = Vec::new();
    for round in 0..rounds {
        for managed in MANAGED {
            for (name, words) in &middles {
                let running: Running = match words {
                    Some(words) => border.gateway(SCAN, words)?,
                    None => border.translate()?,
                };
                if round == 0 && words.is_some() && load.lets_a_virus_through(border)? {
                    return Err(Failure::failed(format_args!(
                        "{name}: the EICAR test file came through, so nothing is scanned; does this clamd know it?"
                    )));
                }
                let shared = share((border, load), managed, time)?;
                running.end()?;
                output.note(&format!(
                    "round {} of {rounds}, {name}, {}: {:.0} Mbit/s of others, {:.0} Mbit/s of files",
                    round + 1,
                    managed.name(),
                    shared.others,
                    shared.managed
                ));
                runs.push((managed, name, shared));
            }
        }
    }
    let mut figures = Vec::new();
    for (managed, (name, _)) in MANAGED
        .into_iter()
        .flat_map(|m| middles.iter().map(move |n| (m, n)))
    {
        let of = |name: &str, part: Rate| -> Vec<f64> {
            let same = runs.iter().filter(|run| run.0 == managed && run.1 == name);
            same.map(|run| part(&run.2)).collect()
        };
        let parts: [(&str, Rate); 2] = [
            ("throughput_of_others", |shared| shared.others),
            ("throughput_of_files", |shared| shared.managed),
        ];
        for (metric, part) in parts {
            let case = format!("{name}, {} {}", OTHERS.name(), managed.name());
            let figure = Figure::new("gate", case, metric, "Mbit/s", &of(name, part));
            figures.push(figure.against(NAT, &of(NAT, part)));
        }
    }
    Ok(figures)
}

/// Others send while files are loaded.
fn share(
    (border, load): (&Border, &Load),
    managed: Managed,
    time: Duration,
) -> Result<Shared, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let bytes = Arc::new(AtomicU64::new(0));
    let clients = clients(border, managed, (&bytes, &over))?;
    let began = Instant::now();
    let others = load.measure(border, OTHERS, time);
    let (took, came) = (began.elapsed(), bytes.load(Ordering::Relaxed));
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client
            .join()
            .map_err(|_| Failure::failed("a client's thread ended by a fault"))?
            .map_err(Failure::failed)?;
    }
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a rate")]
    let came = came as f64;
    Ok(Shared {
        others: others? * 1e3,
        managed: came * 8.0 / took.as_secs_f64() / 1e6,
    })
}

/// Clients that load files until it is over.
fn clients(
    border: &Border,
    managed: Managed,
    (bytes, over): (&Arc<AtomicU64>, &Arc<AtomicBool>),
) -> Result<Vec<JoinHandle<std::io::Result<()>>>, Failure> {
    let (count, every) = managed.clients();
    let client = |_| {
        let (bytes, over) = (Arc::clone(bytes), Arc::clone(over));
        let thread = border.at(Side::Client, move || {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                // A connection that fails is made again; what did not arrive does not count.
                fetch(&bytes, &over).ok();
                std::thread::sleep(every.saturating_sub(began.elapsed()));
            }
        });
        thread.map_err(Failure::failed)
    };
    (0..count).map(client).collect()
}
