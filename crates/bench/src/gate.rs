//! `ringway-bench gate`: what crosses the gateway, beside plain forwarding and forwarding with
//! address translation.
//!
//! The papers' ladder: three namespaces, client, gateway and server; a hundred clients that load
//! files of 2 MB over HTTP, and connections that only send. The configurations take turns, so that
//! all of them see the same machine.
//!
//! | part | measures |
//! |---|---|
//! | `ladder` | throughput and short connections, with plain forwarding, with NAT, and with each step of the gateway |
//! | `pages` | short connections, one after the other and many at once |
//! | `storm` | a blocked service that is dialed again and again, with and without the connection cache |
//! | `flood` | calls like a blocked one as fast as a core sends them: who drops how many, and what it costs |
//! | `gaps` | a large file over a line that loses packets, with and without fast pass |
//! | `classes` | four downloads in a class of bandwidth: how evenly they share it, and how long others wait |
//! | `others` | everybody else's traffic while files are scanned |
//! | `programs` | the time of a packet at the border on either path, and what the kernel's programs and maps take |
//! | `stages` | the time of one packet, stage by stage |
//! | `memory` | what a flow takes |
//! | `recall` | which peer-to-peer flows are found, beside nDPI |
//! | `recorded` | the processor's time for a large capture of recorded conversations, beside nDPI |
//! | `history` | a million flows of the history: searched, and decided again |

mod border;
mod bulk;
mod classes;
mod flood;
mod gaps;
mod history;
mod ladder;
mod load;
mod memory;
mod others;
mod pages;
mod plots;
mod policies;
mod programs;
mod proxy;
mod recall;
mod recorded;
mod spent;
mod stages;
mod storm;
mod suricata;

use std::time::Duration;

pub(crate) use self::memory::Held;

use self::border::Border;
use self::ladder::{LADDER, Step, needs, start, with_rules, words};
use self::load::{Kind, Load};
use self::policies::SCAN;
use super::figure::{Figure, show};
use crate::cli::GateBenchArgs;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Sizes of scan windows, in KiB, as in the papers.
const WINDOWS: [usize; 8] = [1, 4, 8, 16, 32, 48, 64, 120];

/// What is measured beside the ladder, by its word for `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Storm,
    Flood,
    Gaps,
    Classes,
    Others,
    Programs,
    Stages,
    Memory,
    Recall,
    History,
}

const PARTS: [(&str, Part); 10] = [
    ("cache", Part::Storm),
    ("drops", Part::Flood),
    ("fast-pass", Part::Gaps),
    ("class", Part::Classes),
    ("others", Part::Others),
    ("programs", Part::Programs),
    ("stages", Part::Stages),
    ("memory", Part::Memory),
    ("ndpi", Part::Recall),
    ("history", Part::History),
];

impl Part {
    /// It needs namespaces.
    fn crosses(self) -> bool {
        self.loads() || matches!(self, Self::Flood | Self::Gaps | Self::Classes)
    }

    /// It needs the servers of the ladder.
    fn loads(self) -> bool {
        matches!(self, Self::Storm | Self::Others | Self::Programs)
    }
}

/// Measures what was asked for.
pub(super) fn run(output: Output, args: &GateBenchArgs) -> Result<(), Failure> {
    if let Some(held) = args.memory_of {
        return memory::hold(output, held);
    }
    let (steps, parts) = chosen(args)?;
    if let Some(folder) = &args.plots {
        super::plot::writable(folder)?;
    }
    let manner = if args.quick {
        (1, Duration::from_millis(1_500))
    } else {
        (args.rounds.max(1), Duration::from_secs(args.seconds))
    };
    // What only computes needs no namespaces, and so no root.
    let border = if steps.is_empty() && !parts.iter().copied().any(Part::crosses) {
        Border::lay().ok()
    } else {
        Some(Border::lay()?)
    };
    let loads = !steps.is_empty() || parts.iter().copied().any(Part::loads);
    let load = match border.as_ref().filter(|_| loads) {
        Some(border) => Some(Load::serve(border)?),
        None => None,
    };
    let mut figures = Vec::new();
    let crossed = border.as_ref().zip(load.as_ref());
    if let Some(crossed) = crossed.filter(|_| !steps.is_empty()) {
        if args.windows {
            return windows(output, args, crossed, manner);
        }
        if args.chat {
            return chat(output, args, crossed, manner);
        }
        figures.extend(ladder::measure(output, args, crossed, (&steps, manner))?);
    }
    for part in parts {
        let (clamd, captures) = (args.clamd.as_deref(), args.captures.as_deref());
        let measured = match (part, &border, crossed) {
            (Part::Storm, _, Some(crossed)) => storm::measure(output, args, crossed, manner),
            (Part::Flood, Some(border), _) => flood::measure(output, args, border, manner),
            (Part::Gaps, Some(border), _) => gaps::measure(output, args, border, manner),
            (Part::Classes, Some(border), _) => classes::measure(output, args, border, manner),
            (Part::Others, _, Some(crossed)) => others::measure(output, args, crossed, manner),
            (Part::Programs, _, Some(crossed)) => programs::measure(output, args, crossed, manner),
            (Part::Stages, border, _) => stages::measure(output, clamd, border.as_ref(), manner),
            (Part::Memory, ..) => memory::measure(output, args.quick),
            (Part::Recall, ..) => recall::measure(output, captures, manner.0),
            (Part::History, ..) => history::measure(output, manner.0),
            // Without a border it has ended above.
            _ => continue,
        };
        figures.extend(measured?);
    }
    if let Some(folder) = &args.plots {
        plots::draw(&figures, folder)?;
    }
    show(output, &figures)
}

/// What the size of the windows in which files are scanned does.
fn windows(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (rounds, time): (usize, Duration),
) -> Result<(), Failure> {
    // By clamd if there is one, else by rules.
    let scanner = match &args.clamd {
        Some(clamd) => words(args, Some(clamd)),
        None => [words(args, None), with_rules(border)?].concat(),
    };
    let kind = Kind::Files(100);
    let mut rates = vec![Vec::new(); WINDOWS.len()];
    for round in 0..rounds {
        for (kib, rates) in WINDOWS.into_iter().zip(&mut rates) {
            let window = kib.saturating_mul(1_024);
            let sized = vec!["--scan-window".to_owned(), window.to_string()];
            let running = border.gateway(SCAN, &[&*scanner, &*sized].concat())?;
            let rate = load.measure(border, kind, time)?;
            running.end()?;
            output.note(&format!(
                "round {} of {rounds}, windows of {kib} KiB: {rate:.2} Gbit/s",
                round + 1
            ));
            rates.push(rate);
        }
    }
    let figures: Vec<Figure> = WINDOWS
        .into_iter()
        .zip(&rates)
        .map(|(kib, rates)| {
            let case = format!("scan in windows of {kib} KiB, {}", kind.name());
            Figure::new("gate", case, "throughput", "Gbit/s", rates)
        })
        .collect();
    show(output, &figures)
}

/// How long a line of chat takes there and back while others load files that are scanned.
fn chat(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (rounds, time): (usize, Duration),
) -> Result<(), Failure> {
    let (steps, _) = chosen(args)?;
    let mut figures = Vec::new();
    // What scans is asked once more with every packet waiting while one does.
    let crossings = steps.iter().flat_map(|step| {
        let variants: &[(&str, Option<&str>)] = match step.setup.scans() {
            true => &[("", None), (", no hold list", Some("--no-hold-list"))],
            false => &[("", None)],
        };
        variants.iter().map(move |variant| (step, variant))
    });
    for (Step { name, setup, .. }, (manner, more)) in crossings {
        let (name, setup) = (format!("{name}{manner}"), *setup);
        let more: Vec<String> = more.iter().map(|&word| word.to_owned()).collect();
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            let Some(running) = start(border, setup, args, &more)? else {
                output.note(&format!("{name}: LEFT OUT, it needs {}", needs(setup)));
                break;
            };
            for (downloads, times) in [0, 50].into_iter().zip(&mut times) {
                let mut lines = load.chat(border, downloads, time)?;
                lines.sort_unstable();
                let at = |share: usize| {
                    let place = lines.len().saturating_mul(share) / 100;
                    lines.get(place.min(lines.len().saturating_sub(1)))
                };
                let (Some(median), Some(late)) = (at(50), at(99)) else {
                    return Err(Failure::failed(format_args!("{name}: no line came back")));
                };
                output.note(&format!(
                    "round {} of {rounds}, {name}, beside {downloads} downloads: {median:?}, one in a hundred {late:?}",
                    round + 1
                ));
                times.push((median.as_secs_f64() * 1e3, late.as_secs_f64() * 1e3));
            }
            running.end()?;
        }
        for (downloads, times) in [0, 50].into_iter().zip(&times) {
            let (medians, late): (Vec<f64>, Vec<f64>) = times.iter().copied().unzip();
            if medians.is_empty() {
                continue;
            }
            let case = format!("{name}, chat beside {downloads} downloads");
            figures.push(Figure::new("gate", case.clone(), "median", "ms", &medians));
            figures.push(Figure::new("gate", case, "99th in a hundred", "ms", &late));
        }
    }
    show(output, &figures)
}

/// The configurations and parts that were asked for; everything, but for a quick run, if nothing
/// was.
fn chosen(args: &GateBenchArgs) -> Result<(Vec<Step>, Vec<Part>), Failure> {
    let only = args.only.iter().map(|word| word.trim().to_lowercase());
    let only: Vec<String> = only.collect();
    let steps: Vec<&str> = LADDER.iter().map(|step| step.word).collect();
    let parts: Vec<&str> = PARTS.iter().map(|part| part.0).collect();
    // The chat crosses configurations only.
    let words = if args.chat {
        steps
    } else {
        [steps, parts].concat()
    };
    if let Some(word) = only.iter().find(|word| !words.contains(&word.as_str())) {
        return Err(Failure::usage(format_args!(
            "`{word}` is nothing to measure{}; there are {}",
            if args.chat { " with --chat" } else { "" },
            words.join(", ")
        )));
    }
    let asked = |word: &str| only.is_empty() || only.iter().any(|only| only == word);
    let ladder_alone = args.quick || args.windows || args.chat;
    let some = |word: &str| asked(word) && !(only.is_empty() && ladder_alone);
    let steps = LADDER.into_iter().filter(|step| asked(step.word)).collect();
    let parts = PARTS.into_iter().filter(|part| some(part.0));
    Ok((steps, parts.map(|part| part.1).collect()))
}
