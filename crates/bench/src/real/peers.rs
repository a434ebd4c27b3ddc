//! The same lookups by another overlay: a program of its own, so that only those who compare have
//! to build it.
//!
//! `PROGRAM list` prints a name a line, `PROGRAM list attacked` those that are to be measured among
//! malicious routers. `PROGRAM NAME NODES LOOKUPS PACE_MS SEED [silent|lying PERCENT]` measures and
//! prints one JSON object.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::lookups::Looked;
use crate::figure::Figure;
use ringway_terminal::Failure;

/// The program and the overlays that it has.
#[derive(Debug)]
pub(super) struct Peers {
    program: PathBuf,
    names: Vec<String>,
    attacked: Vec<String>,
}

/// What malicious routers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Silent,
    Lying,
}

/// What is to be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) members: usize,
    pub(super) lookups: usize,
    pub(super) attack: Option<(Kind, f64)>,
    /// How long the ring is left to come to rest, once it has formed.
    pub(super) resting: Duration,
}

/// What it came to.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    formed_s: f64,
    memory: f64,
    memory_after: f64,
    idle_bytes_s: f64,
    refresh_bytes: f64,
    #[serde(flatten)]
    looked: Looked,
}

/// Time between two refreshes of a routing table of libp2p's Kademlia.
/// Source: `periodic_bootstrap_interval` of libp2p-kad 0.49.
const REFRESH: f64 = 300.0;

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Silent => "silent",
            Kind::Lying => "lying",
        }
    }
}

impl Peers {
    /// Asks the program what it has; none if it is no such program but, say, another build of this
    /// one.
    pub(super) fn new(program: &Path) -> Option<Peers> {
        let list = |arguments: &[&str]| {
            let done = Command::new(program).args(arguments).output().ok()?;
            let list = String::from_utf8_lossy(&done.stdout);
            let names = list.lines().map(str::trim).filter(|name| !name.is_empty());
            let names: Vec<String> = names.map(str::to_owned).collect();
            (done.status.success() && !names.is_empty()).then_some(names)
        };
        Some(Peers {
            program: program.to_owned(),
            names: list(&["list"])?,
            attacked: list(&["list", "attacked"])?,
        })
    }

    /// Which of its overlays are measured.
    pub(super) fn names(&self, attack: Option<(Kind, f64)>) -> &[String] {
        match attack {
            None => &self.names,
            Some(_) => &self.attacked,
        }
    }

    /// Lets one of its overlays do the same.
    pub(super) fn measure(&self, name: &str, job: Job) -> Result<Vec<Figure>, Failure> {
        let mut command = Command::new(&self.program);
        command.arg(name).args([
            job.members.to_string(),
            job.lookups.to_string(),
            super::lookups::PACE.as_millis().to_string(),
            super::lookups::SEED.to_string(),
        ]);
        if let Some((kind, share)) = job.attack {
            command.args([kind.word().to_owned(), (share * 100.0).to_string()]);
        }
        let shown = self.program.display();
        let done = command.output();
        let done =
            done.map_err(|error| Failure::usage(format_args!("--beside {shown}: {error}")))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().last().unwrap_or_default();
            return Err(Failure::failed(format_args!("`{shown} {name}`: {last}")));
        }
        let measured: Measured = serde_json::from_slice(&done.stdout).map_err(|error| {
            Failure::failed(format_args!(
                "`{shown}` measured {name}, but its answer makes no sense: {error}"
            ))
        })?;
        Ok(measured.figures(name, job))
    }
}

impl Peers {
    /// A figure of Ringway's, measured against that of the first overlay that is also measured
    /// among malicious routers.
    pub(super) fn beside(&self, own: Figure, others: &[Figure]) -> Figure {
        let (Some(name), Some((job, _))) =
            (self.attacked.first(), own.case.split_once(", ringway"))
        else {
            return own;
        };
        let case = format!("{job}, {name}");
        let same = |other: &&Figure| other.case == case && other.metric == own.metric;
        match others.iter().find(same) {
            Some(other) => own.against(name, &[other.value]),
            None => own,
        }
    }
}

impl Measured {
    fn figures(&self, name: &str, job: Job) -> Vec<Figure> {
        let case = case(name, job);
        let mut figures = self.looked.figures(&case, job);
        if job.attack.is_some() {
            return figures;
        }
        let mut add = |metric, unit, value: f64| {
            figures.push(Figure::new("overlay", case.clone(), metric, unit, &[value]));
        };
        add("ring_formed", "s", self.formed_s);
        add("memory_at_rest", "MB/member", self.memory / 1e6);
        add("memory_after_lookups", "MB/member", self.memory_after / 1e6);
        let refresh = self.refresh_bytes / REFRESH;
        add(
            "idle_traffic",
            "B/s and member",
            self.idle_bytes_s + refresh,
        );
        add("idle_traffic_of_refreshes", "B/s and member", refresh);
        figures
    }
}

fn case(name: &str, job: Job) -> String {
    let members = job.members;
    match job.attack {
        None => format!("{members} members, {name}"),
        Some((kind, share)) => {
            let (percent, kind) = (share * 100.0, kind.word());
            format!("{members} members {percent:.0} % {kind}, {name}")
        }
    }
}

/// What the malicious routers do, for people.
pub(super) fn described(attack: Option<(Kind, f64)>) -> String {
    match attack {
        None => "without malicious routers".to_owned(),
        Some((kind, share)) => format!("{:.0} % {}", share * 100.0, kind.word()),
    }
}

/// The case of Ringway's own figures.
pub(super) fn own_case(job: Job) -> String {
    case("ringway", job)
}
