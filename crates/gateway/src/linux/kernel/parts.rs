//! The parts of the in-kernel path: each goes without the others.

use std::fmt;

use super::{FINISHED, REFUSE, REFUSE_NEW, TRIAGE};

/// A part of the in-kernel path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The connection cache in front of the packet filter, at tc's ingress or in drivers: new
    /// connections like a blocked one cost least here.
    CacheAtTc,
    /// The connection cache in the packet filter, which knows which datagrams are new flows.
    CacheInFilter,
    /// What nothing in the policy can be about passes unasked.
    Passing,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 3] = [Part::CacheAtTc, Part::CacheInFilter, Part::Passing];

    /// The programs that it cannot do without.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Part::CacheAtTc => &[REFUSE],
            Part::CacheInFilter => &[REFUSE_NEW],
            Part::Passing => &[TRIAGE, FINISHED],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::CacheAtTc => "connection cache at tc",
            Part::CacheInFilter => "connection cache in the packet filter",
            Part::Passing => "passing unasked",
        })
    }
}

/// How much of it there has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All parts.
    All,
    /// Those that this machine can do.
    AsFarAsPossible,
}

/// A part that there is not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MissingPart {
    /// Which one.
    pub part: Part,
    /// What it lacks.
    pub why: String,
}

/// All of them in a line.
pub(super) fn reasons(without: &[MissingPart]) -> String {
    let each = without
        .iter()
        .map(|lack| format!("{}: {}", lack.part, lack.why));
    each.collect::<Vec<_>>().join("; ")
}
