//! `ringway gate preset`, and where a gateway has its policy from: a file, or the program itself.

use std::path::{Path, PathBuf};

use ringway_gateway::policy::Preset;
use ringway_terminal::{Failure, Table};
use serde::Serialize;

use super::rules;
use crate::cli::{PresetArgs, UpArgs};
use crate::context::Context;

/// Name and version of the form of what is printed.
const SCHEMA: &str = "ringway.gate.preset/1";

/// Where a policy is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicySource {
    /// This file.
    File(PathBuf),
    /// The program itself.
    Preset(Preset),
}

impl PolicySource {
    /// Where `gate up` has its policy from.
    pub(crate) fn of(args: &UpArgs) -> Result<PolicySource, Failure> {
        match (&args.policy, args.preset) {
            (Some(file), None) => Ok(PolicySource::File(file.clone())),
            (None, Some(choice)) => Ok(PolicySource::Preset(choice.preset())),
            // The definition of the options lets neither through.
            (None, None) | (Some(_), Some(_)) => {
                Err(Failure::usage("either --policy or --preset is needed"))
            }
        }
    }

    /// What it is called in messages, and beside which folder's files its lists would be.
    pub(crate) fn name(&self) -> PathBuf {
        match self {
            PolicySource::File(file) => file.clone(),
            PolicySource::Preset(preset) => Path::new("preset").join(preset.name()),
        }
    }

    /// Its text.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        match self {
            PolicySource::File(file) => rules::policy_text(file),
            PolicySource::Preset(preset) => Ok(preset.text().to_owned()),
        }
    }
}

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    purpose: &'static str,
    /// The policy, as a file has it.
    policy: &'static str,
}

impl Shown {
    fn new(preset: Preset) -> Shown {
        Shown {
            name: preset.name(),
            purpose: preset.purpose(),
            policy: preset.text(),
        }
    }
}

/// Shows one, or lists all.
pub(crate) fn preset(context: &Context, args: &PresetArgs) -> Result<(), Failure> {
    let output = context.output;
    if let Some(choice) = args.preset {
        let shown = Shown::new(choice.preset());
        // A file that is made of it ends with one newline.
        return output.either(SCHEMA, &shown, || shown.policy.trim_end().to_owned());
    }
    if output.json() {
        let mut all = Preset::ALL.into_iter().map(Shown::new);
        return all.try_for_each(|shown| output.object(SCHEMA, &shown));
    }
    let mut table = Table::new(&["PRESET", "FOR"]);
    for preset in Preset::ALL {
        table.row(&[preset.name(), preset.purpose()]);
    }
    output.line(table.text().trim_end())
}
