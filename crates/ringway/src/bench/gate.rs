//! `ringway bench gate`: what crosses the gateway, beside plain forwarding and forwarding with address translation.
//!
//! The papers' ladder: three namespaces, client, gateway and server; a hundred clients that load files of 2 MB over HTTP, and
//! connections that only send. The configurations take turns, so that all of them see the same machine.
//!
//! | part | measures |
//! |---|---|
//! | `pages` | short connections, one after the other and many at once |
//! | `storm` | a blocked service that is dialed again and again, with and without the connection cache |
//! | `gaps` | a large file over a line that loses packets, with and without fast pass |
//! | `stages` | the time of one packet, stage by stage |
//! | `memory` | what a flow takes |
//! | `recall` | which peer-to-peer flows are found, beside nDPI |

mod border;
mod bulk;
mod gaps;
mod load;
mod memory;
mod pages;
mod proxy;
mod recall;
mod stages;
mod storm;

use std::path::Path;
use std::time::Duration;

use ringway_gateway::SignatureSet;
use ringway_gateway::policy::Policy;

pub(crate) use self::memory::Held;

use self::border::{Border, Running};
use self::load::{Kind, Load, Loaded};
use self::pages::{CALLERS, Called};
use super::figure::{Figure, show};
use crate::cli::{GateBenchArgs, PathChoice};
use crate::failure::Failure;
use crate::output::Output;

/// How the machine in the middle is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Forward,
    Translate,
    /// Every packet is queued and accepted, beside address translation.
    Accept,
    /// A gateway with this policy, beside address translation.
    Gateway(&'static str),
    /// A gateway that asks YARA rules in place of clamd, beside address translation.
    Rules,
    /// A proxy that takes the files' connections, beside address translation.
    Proxy {
        /// Each answer is scanned.
        scans: bool,
    },
}

/// A configuration.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The word for `--only`.
    word: &'static str,
    name: &'static str,
    setup: Setup,
}

const LADDER: [Step; 10] = [
    step("forward", "forwarding", Setup::Forward),
    step("nat", NAT, Setup::Translate),
    step("queue", "every packet queued and accepted", Setup::Accept),
    step(
        "classify",
        "classification, nothing managed",
        Setup::Gateway(CLASSIFY),
    ),
    step("filter", "file-name filter", Setup::Gateway(FILTER)),
    step("audit", "filter and audit of files", Setup::Gateway(AUDIT)),
    step(
        "scan",
        "filter, audit and scan (clamd)",
        Setup::Gateway(SCAN),
    ),
    step("yara", "filter, audit and scan (YARA rules)", Setup::Rules),
    step(
        "proxy",
        "proxy by redirection (squid: file-name filter, log)",
        Setup::Proxy { scans: false },
    ),
    step(
        "proxy-scan",
        "proxy by redirection that scans (squid, c-icap, clamd)",
        Setup::Proxy { scans: true },
    ),
];
/// Sizes of scan windows, in KiB, as in the papers.
const WINDOWS: [usize; 8] = [1, 4, 8, 16, 32, 48, 64, 120];
const NAT: &str = "forwarding with NAT";

const KINDS: [Kind; 3] = [Kind::Files(100), Kind::Bulk(1), Kind::Bulk(8)];

impl Setup {
    /// What crosses it. A proxy of HTTP takes no other connections.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Proxy { .. } => &[Kind::Files(100)],
            _ => &KINDS,
        }
    }

    fn scans(self) -> bool {
        matches!(
            self,
            Self::Gateway(SCAN) | Self::Rules | Self::Proxy { scans: true }
        )
    }
}

/// What a configuration cannot do without.
fn needs(setup: Setup) -> &'static str {
    match setup {
        Setup::Proxy { scans: false } => "squid",
        Setup::Proxy { scans: true } => "--clamd, squid, c-icap and its module virus_scan",
        _ => "--clamd",
    }
}

const fn step(word: &'static str, name: &'static str, setup: Setup) -> Step {
    Step { word, name, setup }
}

const CLASSIFY: &str = "[[rule]]\nname = \"p\"\napp = \"p2p\"\naction = \"block\"\n";
const FILTER: &str =
    "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
const AUDIT: &str = "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"a\"\napp = \"http\"\naction = \"audit\"\n";
/// What cannot be scanned is blocked: no figure comes of what nobody looked at.
const SCAN: &str = "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\naudit = true\nfailure = \"closed\"\n\
    [[rule]]\nname = \"k\"\napp = \"irc\"\nkeyword = \"forbidden\"\naction = \"block\"\n";

/// What is measured beside the ladder, by its word for `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Storm,
    Gaps,
    Stages,
    Memory,
    Recall,
}

const PARTS: [(&str, Part); 5] = [
    ("cache", Part::Storm),
    ("fast-pass", Part::Gaps),
    ("stages", Part::Stages),
    ("memory", Part::Memory),
    ("ndpi", Part::Recall),
];

/// Measures what was asked for.
pub(super) fn run(output: Output, args: &GateBenchArgs) -> Result<(), Failure> {
    if let Some(held) = args.memory_of {
        return memory::hold(output, held);
    }
    let (steps, parts) = chosen(args)?;
    let manner = if args.quick {
        (1, Duration::from_millis(1_500))
    } else {
        (args.rounds.max(1), Duration::from_secs(args.seconds))
    };
    // What only computes needs no namespaces, and so no root.
    let crosses = |part: &Part| matches!(part, Part::Storm | Part::Gaps);
    let border = if steps.is_empty() && !parts.iter().any(crosses) {
        Border::lay().ok()
    } else {
        Some(Border::lay()?)
    };
    let mut figures = Vec::new();
    if let Some(border) = border.as_ref().filter(|_| !steps.is_empty()) {
        let load = Load::serve(border)?;
        if args.windows {
            return windows(output, args, (border, &load), manner);
        }
        if args.chat {
            return chat(output, args, (border, &load), manner);
        }
        figures.extend(ladder(output, args, (border, &load), (&steps, manner))?);
    }
    for part in parts {
        let (clamd, captures) = (args.clamd.as_deref(), args.captures.as_deref());
        let measured = match (part, &border) {
            (Part::Storm, Some(border)) => storm::measure(output, args, border, manner),
            (Part::Gaps, Some(border)) => gaps::measure(output, args, border, manner),
            (Part::Stages, border) => stages::measure(output, clamd, border.as_ref(), manner),
            (Part::Memory, _) => memory::measure(output, args.quick),
            (Part::Recall, _) => recall::measure(output, captures, manner.0),
            (Part::Storm | Part::Gaps, None) => continue,
        };
        figures.extend(measured?);
    }
    show(output, &figures)
}

/// The configurations, in turns.
fn ladder(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (steps, (rounds, time)): (&[Step], (usize, Duration)),
) -> Result<Vec<Figure>, Failure> {
    let mut runs = Runs::default();
    let crossings: Vec<Crossing> = steps
        .iter()
        .flat_map(|step| crossings(step, args))
        .collect();
    for round in 0..rounds {
        for crossing in &crossings {
            let (setup, name) = (&crossing.step.setup, &crossing.name);
            let Some(running) = start(border, *setup, args, &crossing.words)? else {
                if round == 0 {
                    output.note(&format!("{name}: LEFT OUT, it needs {}", needs(*setup)));
                }
                continue;
            };
            if round == 0 && setup.scans() && load.lets_a_virus_through(border)? {
                return Err(Failure::failed(format_args!(
                    "{name}: the EICAR test file came through, so nothing is scanned; does this clamd know it?"
                )));
            }
            for kind in setup.kinds() {
                if !load.has(*kind) {
                    output.note(&format!("{}: LEFT OUT, it needs iperf3", kind.name()));
                    continue;
                }
                let loaded = match kind {
                    Kind::Files(clients) => load.cost((border, &running), *clients, time)?,
                    Kind::Bulk(_) => Loaded {
                        rate: load.measure(border, *kind, time)?,
                        all: 0.0,
                        queues: 0.0,
                    },
                };
                output.note(&format!(
                    "round {} of {rounds}, {name}, {}: {:.2} Gbit/s",
                    round + 1,
                    kind.name(),
                    loaded.rate
                ));
                runs.loaded.push((name.clone(), *kind, loaded));
            }
            if !matches!(setup, Setup::Proxy { .. }) {
                for callers in [1, CALLERS] {
                    let called = pages::call(border, callers, time)?;
                    output.note(&format!(
                        "round {} of {rounds}, {name}, {callers} callers: {:.0} connections/s, {:.0} µs",
                        round + 1,
                        called.rate,
                        called.median
                    ));
                    runs.called.push((name.clone(), callers, called));
                }
            }
            running.end()?;
        }
    }
    Ok(ladder_figures(&crossings, &runs))
}

/// A configuration on one of the gateway's paths.
#[derive(Clone, Debug)]
struct Crossing {
    step: Step,
    name: String,
    /// Further words for `gate up`.
    words: Vec<String>,
}

/// A gateway on each path that was asked for, and what is no gateway once.
fn crossings(step: &Step, args: &GateBenchArgs) -> Vec<Crossing> {
    let gateway = matches!(step.setup, Setup::Gateway(_) | Setup::Rules);
    let on = |path: &PathChoice| {
        let (more, word) = match path {
            PathChoice::Kernel => (", in the kernel", "kernel"),
            PathChoice::Auto => (", by itself", "auto"),
            PathChoice::User => ("", "user"),
        };
        Crossing {
            step: *step,
            name: format!("{}{more}", step.name),
            words: ["--path", word].map(str::to_owned).to_vec(),
        }
    };
    match gateway {
        true => args.path.iter().map(on).collect(),
        false => vec![on(&PathChoice::User)],
    }
}

/// What the runs of the ladder came to, by their configurations' names.
#[derive(Debug, Default)]
struct Runs {
    loaded: Vec<(String, Kind, Loaded)>,
    called: Vec<(String, usize, Called)>,
}

/// How many called, and what is told of it, in which unit.
type CalledPart = (usize, &'static str, &'static str, fn(&Called) -> f64);

/// Throughput of each configuration, what a gateway spends on files, and how many connections it takes.
fn ladder_figures(crossings: &[Crossing], runs: &Runs) -> Vec<Figure> {
    let of = |name: &str, kind: Kind, part: &dyn Fn(&Loaded) -> f64| -> Vec<f64> {
        let same = runs.loaded.iter();
        let same = same.filter(|run| run.0 == name && run.1 == kind);
        same.map(|run| part(&run.2)).collect()
    };
    let called = |name: &str, callers: usize, part: &dyn Fn(&Called) -> f64| -> Vec<f64> {
        let same = runs.called.iter();
        let same = same.filter(|run| run.0 == name && run.1 == callers);
        same.map(|run| part(&run.2)).collect()
    };
    let rate = |loaded: &Loaded| loaded.rate;
    let mut figures = Vec::new();
    for Crossing { name, .. } in crossings {
        for kind in KINDS {
            let rates = of(name, kind, &rate);
            if rates.is_empty() {
                continue;
            }
            let case = format!("{name}, {}", kind.name());
            let figure = Figure::new("gate", case.clone(), "throughput", "Gbit/s", &rates);
            figures.push(figure.against(NAT, &of(NAT, kind, &rate)));
            let all = of(name, kind, &|loaded| loaded.all);
            if all.iter().any(|&spent| spent > 0.0) {
                let queues = of(name, kind, &|loaded| loaded.queues);
                for (metric, spent) in [("processor_time", all), ("of_it_queue_thread", queues)] {
                    figures.push(Figure::new("gate", case.clone(), metric, "s/GB", &spent));
                }
            }
        }
        let parts: [CalledPart; 2] = [
            (CALLERS, "connections", "1/s", |called| called.rate),
            (1, "median of a connection", "µs", |called| called.median),
        ];
        for (callers, metric, unit, part) in parts {
            let values = called(name, callers, &part);
            if values.is_empty() {
                continue;
            }
            let case = format!("{name}, {callers} callers of pages of 1 kB");
            let figure = Figure::new("gate", case, metric, unit, &values);
            figures.push(figure.against(NAT, &called(NAT, callers, &part)));
        }
    }
    figures
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

/// The configurations and parts that were asked for; everything, but for a quick run, if nothing was.
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

/// A policy of these measurements.
fn policy(text: &str) -> Result<Policy, Failure> {
    let signatures = SignatureSet::built_in();
    let names = signatures.signatures().iter();
    let known = names
        .map(|signature| signature.application.clone())
        .collect();
    Policy::parse(text, &known).map_err(|errors| Failure::failed(format_args!("{errors:?}")))
}

/// `None`: it cannot be had here.
fn start(
    border: &Border,
    setup: Setup,
    args: &GateBenchArgs,
    more: &[String],
) -> Result<Option<Running>, Failure> {
    match setup {
        Setup::Forward => Ok(Some(Running::plain())),
        Setup::Translate => Ok(Some(border.translate()?)),
        Setup::Accept => Ok(Some(border.accept()?)),
        Setup::Gateway(SCAN) if args.clamd.is_none() => Ok(None),
        Setup::Gateway(policy) => {
            let clamd = args.clamd.as_deref().filter(|_| policy == SCAN);
            Ok(Some(
                border.gateway(policy, &[&words(args, clamd), more].concat())?,
            ))
        }
        Setup::Rules => {
            let yara = with_rules(border)?;
            Ok(Some(border.gateway(
                SCAN,
                &[&words(args, None), &*yara, more].concat(),
            )?))
        }
        Setup::Proxy { scans: true } if args.clamd.is_none() => Ok(None),
        Setup::Proxy { scans } => border.proxy(args.clamd.as_deref().filter(|_| scans)),
    }
}

/// The words that name a file with these rules.
fn with_rules(border: &Border) -> Result<Vec<String>, Failure> {
    let rules = border.file("rules.yar", &rules())?;
    Ok(vec!["--yara".to_owned(), rules.display().to_string()])
}

/// A thousand rules, each with a text, bytes and a regular expression that no file here has.
fn rules() -> String {
    (0..1_000_u32).fold(String::new(), |text, number| {
        let mixed = number.wrapping_mul(2_654_435_761);
        let hex = mixed
            .to_be_bytes()
            .map(|byte| format!("{byte:02X}"))
            .join(" ");
        format!(
            "{text}rule r{number} {{ strings: $a = \"sample {mixed:08x} text\" $b = {{ 4D 5A {hex} ?? {hex} }} \
             $c = /id-{mixed:x}-[a-z0-9]{{4,12}}\\.example/ condition: any of them }}\n"
        )
    })
}

/// What a gateway is told beside its policy.
fn words(args: &GateBenchArgs, clamd: Option<&Path>) -> Vec<String> {
    let mut words = vec!["--queues".to_owned(), args.queues.to_string()];
    if let Some(clamd) = clamd {
        words.extend(["--clamd".to_owned(), clamd.display().to_string()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{LADDER, Setup, Step};

    #[test]
    fn the_rules_compile() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yar");
        std::fs::write(&file, super::rules()).unwrap();
        let rules = ringway_gateway::scan::YaraRules::load(&[file]).unwrap();
        assert_eq!(rules.count(), 1_001);
    }

    #[test]
    fn the_policies_of_the_ladder_are_in_order() {
        let mut count = 0;
        for Step { name, setup, .. } in LADDER {
            if let Setup::Gateway(policy) = setup {
                assert!(super::policy(policy).is_ok(), "{name}");
                count += 1;
            }
        }
        assert_eq!(count, 4, "gateways");
    }
}
