//! `ringway gate doctor`: what the in-kernel path and classes of bandwidth need, and what of it
//! this machine has.

use std::io::ErrorKind;
use std::path::Path;

use ringway_gateway::linux::conntrack::{Conntrack, switch};
use ringway_gateway::linux::kernel::BPFFS;
use ringway_gateway::linux::kernel::features::{Feature, features};
use ringway_gateway::linux::shaper::{Lack, Leaf, leaves};
use ringway_gateway::scan::{Clamd, Takes};

mod neighbours;

use neighbours::neighbours;

use crate::cli::DoctorArgs;
use ringway_terminal::Failure;

use crate::context::Context;
use ringway_terminal::Table;

/// What clamd says of itself, in the form of the other things.
#[derive(serde::Serialize)]
struct Asked {
    name: &'static str,
    needed_for: &'static str,
    missing: Option<String>,
    optional: bool,
    /// Bytes of the longest stream that it takes.
    stream: u64,
    /// It takes files by their descriptors.
    descriptors: bool,
}

impl Asked {
    fn of(address: &str) -> Asked {
        let clamd = Clamd::new(address, None);
        let nothing = Takes {
            stream: 0,
            descriptors: false,
        };
        let (takes, missing) = match clamd.ping().and_then(|()| clamd.takes()) {
            Ok(Some(takes)) => (takes, None),
            Ok(None) => (
                nothing,
                Some("it takes no streams of 1 MiB (StreamMaxLength)".to_owned()),
            ),
            Err(error) => (nothing, Some(error.to_string())),
        };
        Asked {
            name: "clamd",
            needed_for: "archives and documents",
            missing,
            optional: true,
            stream: takes.stream,
            descriptors: takes.descriptors,
        }
    }
}

/// Whether the kernel counts what it carries, in the form of the other things.
fn counting() -> Feature {
    let (missing, untried) = match Conntrack::open() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            (Some("only root can look".to_owned()), true)
        }
        Err(error) => {
            let why = format!("the kernel shows no connections (nf_conntrack_netlink): {error}");
            (Some(why), false)
        }
        Ok(_) => {
            let cannot = "the kernel counts nothing (no net.netfilter.nf_conntrack_acct)";
            let missing = switch::is_on().is_none().then(|| cannot.to_owned());
            (missing, false)
        }
    };
    Feature {
        name: "counts of connections (nf_conntrack_acct)",
        needed_for: "bytes of flows, on either path",
        missing,
        untried,
        optional: true,
    }
}

/// What classes of bandwidth end in here, in the form of the other things.
#[derive(serde::Serialize)]
struct LeafFound {
    name: &'static str,
    needed_for: &'static str,
    missing: Option<String>,
    /// Whether it is there was not found out, and `missing` says why.
    untried: bool,
    optional: bool,
    leaf: Option<Leaf>,
    /// What it means for hosts in a class.
    meaning: Option<&'static str>,
    /// Better ones that this kernel lacks.
    lacks: Vec<Lack>,
}

impl LeafFound {
    fn look() -> LeafFound {
        let (leaf, lacks, untried) = match leaves() {
            Ok(found) => (found.leaf, found.lacks, None),
            Err(why) => (None, Vec::new(), Some(why)),
        };
        // What the plainest one lacks is what there are no classes without.
        let last = lacks.last().map(|lack| lack.why.clone());
        LeafFound {
            name: "leaf of classes",
            needed_for: "classes of bandwidth, on either path",
            untried: untried.is_some(),
            missing: untried.or_else(|| last.filter(|_| leaf.is_none())),
            optional: true,
            leaf,
            meaning: leaf.map(Leaf::meaning),
            lacks,
        }
    }

    /// What the table says of it.
    fn here(&self) -> String {
        let Some((leaf, meaning)) = self.leaf.zip(self.meaning) else {
            return self.missing.clone().unwrap_or_default();
        };
        let mut here = format!("{}: {meaning}", leaf.name());
        for lack in &self.lacks {
            here.push_str("; no ");
            here.push_str(lack.leaf.name());
        }
        here
    }
}

/// Each thing that the in-kernel path and the counts of flows need, at the usual place of pinned
/// programs.
pub(crate) fn needs() -> Vec<Feature> {
    let mut all = features(Path::new(BPFFS));
    all.push(counting());
    all
}

/// Shows each thing that is needed, and whether it is there.
pub(crate) fn doctor(context: &Context, args: &DoctorArgs) -> Result<(), Failure> {
    let mut features = features(&args.bpffs.bpffs);
    features.push(counting());
    let mut table = Table::new(&["NEEDS", "FOR", "HERE"]);
    for feature in &features {
        if context.output.json() {
            context.output.object("ringway.gate.doctor/1", feature)?;
        }
        table.row(&[
            feature.name,
            feature.needed_for,
            feature.missing.as_deref().unwrap_or("yes"),
        ]);
    }
    let found = LeafFound::look();
    if context.output.json() {
        context.output.object("ringway.gate.doctor/1", &found)?;
    }
    table.row(&[found.name, found.needed_for, &found.here()]);
    for neighbour in neighbours() {
        if context.output.json() {
            context.output.object("ringway.gate.doctor/1", &neighbour)?;
        }
        table.row(&[&neighbour.name, neighbour.needed_for, &neighbour.meaning]);
    }
    if let Some(address) = &args.clamd {
        let asked = Asked::of(address);
        if context.output.json() {
            context.output.object("ringway.gate.doctor/1", &asked)?;
        }
        let here = match (&asked.missing, asked.stream) {
            (Some(why), _) => why.clone(),
            (None, stream) => {
                let way = if asked.descriptors {
                    "by descriptor"
                } else {
                    "by stream"
                };
                format!("{way}, up to {stream} bytes as a whole, longer ones in parts")
            }
        };
        table.row(&[asked.name, asked.needed_for, &here]);
    }
    if !context.output.json() {
        context.output.line(table.text().trim_end())?;
    }
    let missing = features
        .iter()
        .filter(|feature| feature.missing.is_some() && !feature.optional);
    match missing.count() {
        0 => Ok(()),
        count => Err(Failure::failed(format_args!(
            "{count} of {} that `--path kernel` needs are missing; `--path user` needs none of them",
            features.len().saturating_sub(1)
        ))),
    }
}
