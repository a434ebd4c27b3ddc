//! What a storm of reconnections costs the gateway, with and without the connection cache.
//!
//! The papers' observation: a peer-to-peer program that is blocked dials again at once, from
//! another port. Each caller here dials, says the first words of BitTorrent, and dials again as
//! soon as it is refused or has heard nothing for a moment.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::border::{Border, Running, SERVER, Side};
use super::ladder::{along, words};
use super::load::{Kind, Load};
use super::policies::CLASSIFY;
use crate::cli::{GateBenchArgs, PathChoice};
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

const PORT: u16 = 6_881;
/// Callers that dial at once.
pub(super) const CALLERS: usize = 64;
/// How long a caller waits for an answer. The kernel's own client would send its SYN again after a
/// second.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time between the attempts of a caller that keeps to a pace.
const PACE: Duration = Duration::from_millis(25);
const WARM: Duration = Duration::from_millis(500);
/// What others do meanwhile. What iperf3 sends by eight connections on two cores differs twofold
/// from run to run, whatever is in the middle.
const OTHERS: Kind = Kind::Files(8);

/// What is in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    Nat,
    WithoutCache(PathChoice),
    WithCache(PathChoice),
}

impl Middle {
    fn all(paths: &[PathChoice]) -> Vec<Middle> {
        let ways = paths
            .iter()
            .flat_map(|path| [Self::WithoutCache(*path), Self::WithCache(*path)]);
        std::iter::once(Self::Nat).chain(ways).collect()
    }

    /// What it is compared with: the same path without the cache; the first one where only NAT is
    /// in the middle.
    fn without(self, all: &[Middle]) -> Middle {
        match self {
            Self::Nat => all.get(1).copied().unwrap_or(self),
            Self::WithoutCache(path) | Self::WithCache(path) => Self::WithoutCache(path),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Nat => "forwarding with NAT, nobody is blocked".to_owned(),
            Self::WithoutCache(path) => along(path, "blocked, without the connection cache").0,
            Self::WithCache(path) => along(path, "blocked, with the connection cache").0,
        }
    }

    fn start(self, border: &Border, args: &GateBenchArgs) -> Result<Running, Failure> {
        let more = match self {
            Self::Nat => return border.translate(),
            Self::WithoutCache(path) => {
                let more = vec!["--no-connection-cache".to_owned()];
                [along(path, "").1, more].concat()
            }
            Self::WithCache(path) => along(path, "").1,
        };
        border.gateway(CLASSIFY, &[words(args, None), more].concat())
    }
}

/// How fast callers dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once after each refusal, or after having waited for an answer.
    AtOnce,
    /// At fixed times, so that what an attempt costs can be compared.
    Steady,
    /// At fixed times, while others load files as fast as they can.
    Beside,
}

const PACES: [Pace; 3] = [Pace::AtOnce, Pace::Steady, Pace::Beside];

impl Pace {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "dialing at once",
            Self::Steady => "one attempt each 25 ms",
            Self::Beside => "one attempt each 25 ms beside 8 clients of files of 2 MB",
        }
    }
}

/// What one run showed.
#[derive(Clone, Copy, Debug, Default)]
struct Storm {
    attempts: f64,
    answered: f64,
    /// Processor time of the gateway's process, s.
    busy: f64,
    /// The same of its queues' threads alone.
    queues: f64,
    queued: f64,
    seconds: f64,
    /// What others sent beside it, Gbit/s.
    others: f64,
}

/// Measures all of them, in turns.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    serve(border, PORT)?;
    let middles = Middle::all(&args.path);
    let mut runs = Vec::new();
    for round in 0..rounds {
        let turns = PACES
            .iter()
            .flat_map(|pace| middles.iter().map(move |m| (*pace, *m)));
        for (pace, middle) in turns {
            let running = middle.start(border, args)?;
            let storm = dial((border, load), &running, pace, time)?;
            running.end()?;
            if middle != Middle::Nat && storm.answered > 0.0 {
                return Err(Failure::failed(format_args!(
                    "{}: {} callers were answered",
                    middle.name(),
                    storm.answered
                )));
            }
            output.note(&format!(
                "round {} of {rounds}, reconnections, {}, {}: {:.0} attempts/s, {:.1} µs of the gateway and {:.2} queued packets each, {:.2} Gbit/s of others",
                round + 1,
                pace.name(),
                middle.name(),
                storm.attempts / storm.seconds,
                storm.busy * 1e6 / storm.attempts,
                storm.queued / storm.attempts,
                storm.others
            ));
            runs.push((pace, middle, storm));
        }
    }
    let figures = PACES.into_iter().flat_map(|pace| {
        let of = runs.iter().filter(|run| run.0 == pace);
        let of: Vec<(Middle, Storm)> = of.map(|run| (run.1, run.2)).collect();
        figures(pace, &middles, &of)
    });
    Ok(figures.collect())
}

/// A figure of a run.
type Value = fn(&Storm) -> f64;

fn figures(pace: Pace, middles: &[Middle], runs: &[(Middle, Storm)]) -> Vec<Figure> {
    let of = |middle: Middle, value: Value| -> Vec<f64> {
        let same = runs.iter().filter(|run| run.0 == middle);
        same.map(|run| value(&run.1)).collect()
    };
    let metrics: [(&str, &str, Value); 4] = [
        ("attempts", "1/s", |storm| storm.attempts / storm.seconds),
        ("processor_time", "µs/attempt", |storm| {
            storm.busy * 1e6 / storm.attempts
        }),
        ("of_it_queue_thread", "µs/attempt", |storm| {
            storm.queues * 1e6 / storm.attempts
        }),
        ("queued", "packets/attempt", |storm| {
            storm.queued / storm.attempts
        }),
    ];
    let mut figures = Vec::new();
    for &middle in middles {
        if pace == Pace::Beside {
            let value = |storm: &Storm| storm.others;
            let case = format!("{CALLERS} callers, {}, {}", pace.name(), middle.name());
            let others = Figure::new(
                "gate",
                case,
                "throughput_of_others",
                "Gbit/s",
                &of(middle, value),
            );
            let without = middle.without(middles);
            figures.push(others.against(without.name(), &of(without, value)));
        }
        for (metric, unit, value) in metrics {
            if middle == Middle::Nat && metric != "attempts" {
                continue;
            }
            let case = format!("{CALLERS} callers, {}, {}", pace.name(), middle.name());
            let figure = Figure::new("gate", case, metric, unit, &of(middle, value));
            let without = middle.without(middles);
            figures.push(figure.against(without.name(), &of(without, value)));
        }
    }
    figures
}

/// Dials until the time is over.
fn dial(
    (border, load): (&Border, &Load),
    running: &Running,
    pace: Pace,
    time: Duration,
) -> Result<Storm, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let (over, counts) = (Arc::clone(&over), Arc::clone(&counts));
        let caller = border.at(Side::Client, move || {
            let [attempts, answered] = &*counts;
            let mut due = Instant::now() + PACE;
            while !over.load(Ordering::Relaxed) {
                // To be refused is what is expected.
                if attempt(PORT).unwrap_or(false) {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                attempts.fetch_add(1, Ordering::Relaxed);
                if pace != Pace::AtOnce {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    due += PACE;
                }
            }
        });
        callers.push(caller.map_err(Failure::failed)?);
    }
    std::thread::sleep(WARM);
    let look = || -> Result<[f64; 5], Failure> {
        let [attempts, answered] = &*counts;
        let [busy, queues] = running.processor_time()?;
        Ok([
            count(attempts.load(Ordering::Relaxed)),
            count(answered.load(Ordering::Relaxed)),
            busy.as_secs_f64(),
            queues.as_secs_f64(),
            queued(border)?,
        ])
    };
    let (began, before) = (Instant::now(), look()?);
    let others = match pace {
        Pace::Beside => load.measure(border, OTHERS, time),
        _ => {
            std::thread::sleep(time);
            Ok(0.0)
        }
    };
    let (seconds, after) = (began.elapsed().as_secs_f64(), look()?);
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller
            .join()
            .map_err(|_| Failure::failed("a caller's thread ended by a fault"))?
            .map_err(Failure::failed)?;
    }
    let [attempts, answered, busy, queues, queued] = [0, 1, 2, 3, 4].map(|at: usize| {
        let (before, after) = (before.get(at), after.get(at));
        after.copied().unwrap_or(0.0) - before.copied().unwrap_or(0.0)
    });
    Ok(Storm {
        attempts,
        answered,
        busy,
        queues,
        queued,
        seconds,
        others: others?,
    })
}

pub(super) fn count(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The first words of BitTorrent's peers.
fn handshake() -> Vec<u8> {
    [b"\x13BitTorrent protocol".as_slice(), &[0; 8], &[7; 40]].concat()
}

/// Whether the server answered.
pub(super) fn attempt(port: u16) -> io::Result<bool> {
    let to = SocketAddr::new(SERVER.parse().map_err(io::Error::other)?, port);
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    // Gone without a trace: neither end waits for a FIN that is dropped.
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&handshake())?;
    Ok(stream.read(&mut [0; 68])? > 0)
}

/// Somebody who answers in kind.
pub(super) fn serve(border: &Border, port: u16) -> Result<(), Failure> {
    let bound = border.at(Side::Server, move || TcpListener::bind((SERVER, port)));
    let listener = bound
        .map_err(Failure::failed)?
        .join()
        .map_err(|_| Failure::failed("the server's thread ended by a fault"))?
        .and_then(|bound| bound)
        .map_err(Failure::failed)?;
    for _ in 0..CALLERS {
        let listener = listener.try_clone().map_err(Failure::failed)?;
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let answered = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| {
                    stream.read_exact(&mut handshake())?;
                    stream.write_all(&handshake())
                });
                // A caller that was refused has gone.
                answered.ok();
            }
        });
    }
    Ok(())
}

/// Packets that were ever put into the gateway's queues.
fn queued(border: &Border) -> Result<f64, Failure> {
    let read = border.at(Side::Gateway, || {
        std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue")
    });
    let text = read
        .map_err(Failure::failed)?
        .join()
        .map_err(|_| Failure::failed("a reading thread ended by a fault"))?
        .map_err(Failure::failed)?;
    // Its eighth column counts the packets; there is no such file before the first queue.
    let number = |line: &str| line.split_whitespace().nth(7)?.parse::<f64>().ok();
    Ok(text.unwrap_or_default().lines().filter_map(number).sum())
}
