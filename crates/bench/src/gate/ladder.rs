//! The papers' ladder: plain forwarding, forwarding with address translation, and what each further
//! step of the gateway costs.

use std::path::Path;
use std::time::Duration;

use super::border::{Border, Running, Side};
use super::load::{Kind, Load, Loaded};
use super::pages::{self, CALLERS, Called};
use super::policies::{AUDIT, CLASSIFY, FEW, FILTER, MANY, ON_OPAQUE, SCAN, naming, yara_rules};
use super::storm;
use crate::cli::{GateBenchArgs, Offloads, PathChoice};
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// How the machine in the middle is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    Forward,
    Translate,
    /// Every packet is queued and accepted, beside address translation.
    Accept,
    /// A gateway with this policy, beside address translation.
    Gateway(&'static str),
    /// A gateway with so many rules that name applications, none of which comes, beside address
    /// translation.
    Naming(usize),
    /// A gateway that asks YARA rules in place of clamd, beside address translation.
    Rules,
    /// A proxy that takes the files' connections, beside address translation.
    Proxy {
        /// Each answer is scanned.
        scans: bool,
    },
    /// Suricata with rules on peer-to-peer and chat, beside address translation.
    Suricata,
}

/// A configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The word for `--only`.
    pub(super) word: &'static str,
    pub(super) name: &'static str,
    pub(super) setup: Setup,
}

pub(super) const LADDER: [Step; 14] = [
    step("forward", "forwarding", Setup::Forward),
    step("nat", NAT, Setup::Translate),
    step("queue", "every packet queued and accepted", Setup::Accept),
    step(
        "classify",
        "classification, nothing managed",
        Setup::Gateway(CLASSIFY),
    ),
    step("rules-20", "classification, 20 rules", Setup::Naming(FEW)),
    step(
        "rules-200",
        "classification, 200 rules",
        Setup::Naming(MANY),
    ),
    step(
        "telegram",
        "classification, a rule on telegram",
        Setup::Gateway(ON_OPAQUE),
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
    step("suricata", "Suricata, 20 rules", Setup::Suricata),
];
pub(super) const NAT: &str = "forwarding with NAT";

/// Where a peer of BitTorrent is, to see whether it is blocked.
const PEER: u16 = 6_883;

const KINDS: [Kind; 3] = [Kind::Files(100), Kind::Bulk(1), Kind::Bulk(8)];

impl Setup {
    /// What crosses it. A proxy of HTTP takes no other connections.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Proxy { .. } => &[Kind::Files(100)],
            _ => &KINDS,
        }
    }

    pub(super) fn scans(self) -> bool {
        matches!(
            self,
            Self::Gateway(SCAN) | Self::Rules | Self::Proxy { scans: true }
        )
    }
}

/// What a configuration cannot do without.
pub(super) fn needs(setup: Setup) -> &'static str {
    match setup {
        Setup::Suricata => "suricata (in Debian 12 from bookworm-backports)",
        Setup::Proxy { scans: false } => "squid",
        Setup::Proxy { scans: true } => "--clamd, squid, c-icap and its module virus_scan",
        _ => "--clamd",
    }
}

const fn step(word: &'static str, name: &'static str, setup: Setup) -> Step {
    Step { word, name, setup }
}

/// The configurations, in turns.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (steps, (rounds, time)): (&[Step], (usize, Duration)),
) -> Result<Vec<Figure>, Failure> {
    let mut runs = Runs::default();
    let mut crossings: Vec<Crossing> = Vec::new();
    for &offloads in &args.offloads {
        if border.offload(offloads)? {
            let all = steps
                .iter()
                .flat_map(|step| crossings_of(step, offloads, args));
            crossings.extend(all);
        } else {
            output.note("packets of 1 500 bytes: LEFT OUT, they need ethtool");
        }
    }
    for round in 0..rounds {
        for crossing in &crossings {
            border.offload(crossing.offloads)?;
            let note = |what: String| {
                let name = &crossing.name;
                output.note(&format!("round {} of {rounds}, {name}{what}", round + 1));
            };
            let setup = crossing.step.setup;
            match start(border, setup, args, &crossing.words)? {
                None if round == 0 => note(format!(": LEFT OUT, it needs {}", needs(setup))),
                None => {}
                Some(running) => {
                    let ends = (border, load, &running);
                    cross(&note, ends, crossing, (round == 0, time), &mut runs)?;
                    running.end()?;
                }
            }
        }
    }
    border.offload(Offloads::On)?;
    Ok(figures(&crossings, &runs))
}

/// Measures what crosses one of them.
fn cross(
    note: &dyn Fn(String),
    (border, load, running): (&Border, &Load, &Running),
    crossing: &Crossing,
    (first, time): (bool, Duration),
    runs: &mut Runs,
) -> Result<(), Failure> {
    let (setup, name) = (crossing.step.setup, &crossing.name);
    if first && setup.scans() && load.lets_a_virus_through(border)? {
        return Err(Failure::failed(format_args!(
            "{name}: the EICAR test file came through, so nothing is scanned; does this clamd know it?"
        )));
    }
    if first && setup == Setup::Suricata && lets_a_peer_through(border)? {
        return Err(Failure::failed(format_args!(
            "{name}: a BitTorrent peer was answered, so its rules are not in force"
        )));
    }
    for kind in setup.kinds() {
        if !load.has(*kind) {
            note(format!(", {}: LEFT OUT, it needs iperf3", kind.name()));
            continue;
        }
        let loaded = match kind {
            Kind::Files(clients) => load.cost((border, running), *clients, time)?,
            Kind::Bulk(_) => Loaded {
                rate: load.measure(border, *kind, time)?,
                all: 0.0,
                queues: 0.0,
            },
        };
        note(format!(", {}: {:.2} Gbit/s", kind.name(), loaded.rate));
        runs.loaded.push((name.clone(), *kind, loaded));
    }
    if matches!(setup, Setup::Proxy { .. }) {
        return Ok(());
    }
    for callers in [1, CALLERS] {
        let called = pages::call(border, callers, time)?;
        note(format!(
            ", {callers} callers: {:.0} connections/s, {:.0} µs, {} late",
            called.rate, called.median, called.late
        ));
        runs.called.push((name.clone(), callers, called));
    }
    Ok(())
}

/// Whether a BitTorrent peer outside answers one inside.
fn lets_a_peer_through(border: &Border) -> Result<bool, Failure> {
    // It may be there from the last time.
    storm::serve(border, PEER).ok();
    let calling = border.at(Side::Client, || storm::attempt(PEER).unwrap_or(false));
    let called = calling.map_err(Failure::failed)?.join();
    called
        .map_err(|_| Failure::failed("a caller's thread ended by a fault"))?
        .map_err(Failure::failed)
}

/// A configuration on one of the gateway's paths, with packets of one kind.
#[derive(Clone, Debug)]
struct Crossing {
    step: Step,
    offloads: Offloads,
    name: String,
    /// What its figures are shares of.
    nat: String,
    /// Further words for `gate up`.
    words: Vec<String>,
}

/// A gateway on each path that was asked for, and what is no gateway once.
fn crossings_of(step: &Step, offloads: Offloads, args: &GateBenchArgs) -> Vec<Crossing> {
    let gateway = matches!(
        step.setup,
        Setup::Gateway(_) | Setup::Naming(_) | Setup::Rules
    );
    let packets = match offloads {
        Offloads::On => "",
        Offloads::Off => ", packets of 1 500 bytes",
    };
    let on = |path: &PathChoice| {
        let (name, words) = along(*path, step.name);
        Crossing {
            step: *step,
            offloads,
            name: format!("{name}{packets}"),
            nat: format!("{NAT}{packets}"),
            words,
        }
    };
    match gateway {
        true => args.path.iter().map(on).collect(),
        false => vec![on(&PathChoice::User)],
    }
}

/// The name of what is measured on this path, and the words that `gate up` gets for it.
pub(super) fn along(path: PathChoice, name: &str) -> (String, Vec<String>) {
    let (more, word) = match path {
        PathChoice::Kernel => (", in the kernel", "kernel"),
        PathChoice::Auto => (", by itself", "auto"),
        PathChoice::User => ("", "user"),
    };
    let words = ["--path", word].map(str::to_owned).to_vec();
    (format!("{name}{more}"), words)
}

/// What the runs of the ladder came to, by their configurations' names.
#[derive(Debug, Default)]
struct Runs {
    loaded: Vec<(String, Kind, Loaded)>,
    called: Vec<(String, usize, Called)>,
}

/// How many called, and what is reported of it, in which unit.
type CalledPart = (usize, &'static str, &'static str, fn(&Called) -> f64);

/// Throughput of each configuration, what a gateway spends on files, and how many connections it
/// takes.
fn figures(crossings: &[Crossing], runs: &Runs) -> Vec<Figure> {
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
    for Crossing { name, nat, .. } in crossings {
        for kind in KINDS {
            let rates = of(name, kind, &rate);
            if rates.is_empty() {
                continue;
            }
            let case = format!("{name}, {}", kind.name());
            let figure = Figure::new("gate", case.clone(), "throughput", "Gbit/s", &rates);
            figures.push(figure.against(nat, &of(nat, kind, &rate)));
            let all = of(name, kind, &|loaded| loaded.all);
            if all.iter().any(|&spent| spent > 0.0) {
                let queues = of(name, kind, &|loaded| loaded.queues);
                for (metric, spent) in [("processor_time", all), ("of_it_queue_thread", queues)] {
                    figures.push(Figure::new("gate", case.clone(), metric, "s/GB", &spent));
                }
            }
        }
        let parts: [CalledPart; 4] = [
            (CALLERS, "connections", "1/s", |called| called.rate),
            (1, "median of a connection", "µs", |called| called.median),
            // A second and longer: something was lost.
            (CALLERS, "late connections", "in a round", |called| {
                called.late
            }),
            (1, "late connections", "in a round", |called| called.late),
        ];
        for (callers, metric, unit, part) in parts {
            let values = called(name, callers, &part);
            if values.is_empty() {
                continue;
            }
            let case = format!("{name}, {callers} callers of pages of 1 kB");
            let figure = Figure::new("gate", case, metric, unit, &values);
            figures.push(figure.against(nat, &called(nat, callers, &part)));
        }
    }
    figures
}

/// `None`: it cannot be had here.
pub(super) fn start(
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
        Setup::Naming(rules) => {
            let words = [&words(args, None), more].concat();
            Ok(Some(border.gateway(&naming(rules), &words)?))
        }
        Setup::Rules => {
            let yara = with_rules(border)?;
            Ok(Some(border.gateway(
                SCAN,
                &[&words(args, None), &*yara, more].concat(),
            )?))
        }
        Setup::Proxy { scans: true } if args.clamd.is_none() => Ok(None),
        Setup::Suricata => border.suricata(),
        Setup::Proxy { scans } => border.proxy(args.clamd.as_deref().filter(|_| scans)),
    }
}

/// The words that name a file with these rules.
pub(super) fn with_rules(border: &Border) -> Result<Vec<String>, Failure> {
    let rules = border.file("rules.yar", &yara_rules())?;
    Ok(vec!["--yara".to_owned(), rules.display().to_string()])
}

/// The options of a gateway beside its policy.
pub(super) fn words(args: &GateBenchArgs, clamd: Option<&Path>) -> Vec<String> {
    let mut words = vec!["--queues".to_owned(), args.queues.to_string()];
    if let Some(clamd) = clamd {
        words.extend(["--clamd".to_owned(), clamd.display().to_string()]);
    }
    words
}
