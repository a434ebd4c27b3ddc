//! `ringway gate doctor`: what the in-kernel path needs, and what of it this machine has.

use ringway_gateway::linux::kernel::features::features;

use crate::cli::DoctorArgs;
use ringway_terminal::Failure;

use crate::run::Context;
use ringway_terminal::Table;

/// Shows each thing that is needed, and whether it is there.
pub(crate) fn doctor(context: &Context, args: &DoctorArgs) -> Result<(), Failure> {
    let features = features(&args.bpffs.bpffs);
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
            features.len()
        ))),
    }
}
