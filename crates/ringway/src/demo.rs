//! `ringway demo`: the main job on one machine, by separate processes of this very program.
//!
//! | module | does |
//! |---|---|
//! | `process` | runs the program: commands that end, daemons that stay |
//! | `ports` | free ports on loopback |
//! | `stage` | the temporary folder, the authority and the members |
//! | `found` | steps 1 to 3: founds the ring, enrols the members, waits for the invariant |
//! | `invariant` | when a ring is in order, as a pure function of what its routers say |
//! | `exchange` | step 4: two transfers at two priorities, one of which changes |
//! | `lookup` | steps 5 and 6: keys found from every member, before and after a router was killed |
//! | `captures` | step 7: captures classified |
//! | `border` | step 8: a gateway between a client and a server, in namespaces of its own |
//! | `report` | what was checked |
//!
//! Every process but the demo itself ends when its stdin closes, so that even a demo that is killed
//! leaves none behind.

mod border;
mod captures;
mod exchange;
mod found;
mod invariant;
mod lookup;
mod process;
mod report;
mod stage;

use std::process::ExitCode;

pub(crate) use border::run_room;

use crate::cli::DemoArgs;
use crate::context::Context;
use crate::signals::Signals;
use report::Report;
use ringway_terminal::Failure;
use stage::Stage;

/// Runs it; the exit code says if every check passed.
pub(crate) async fn run(context: &Context, args: &DemoArgs) -> Result<ExitCode, Failure> {
    for capture in &args.captures {
        let readable = std::fs::File::open(capture);
        readable.map_err(|error| {
            Failure::usage(format_args!(
                "`{}` cannot be read: {error}",
                capture.display()
            ))
        })?;
    }
    let mut signals = Signals::catch()?;
    let mut report = Report::new(context.output);
    let mut stage = Stage::new(context.output)?;
    let outcome = tokio::select! {
        biased;
        reason = signals.next() => Err(Failure::failed(format_args!("{reason}: everything is being removed"))),
        result = play(&mut stage, &mut report, args) => result,
    };
    let outcome = match outcome {
        Ok(()) if !args.once => linger(&stage, &mut signals, context).await,
        outcome => outcome,
    };
    report.clear();
    stage.end().await;
    let failed = outcome.is_err() || !report.all_good();
    // Before the folder goes, which has the logs.
    if failed && !report.interrupted() {
        stage.show_logs();
    }
    stage.remove(args.keep)?;
    outcome?;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// All steps, then the table.
async fn play(stage: &mut Stage, report: &mut Report, args: &DemoArgs) -> Result<(), Failure> {
    found::steps(stage, report, args).await?;
    exchange::step(stage, report, args).await?;
    lookup::steps(stage, report).await?;
    captures::step(stage, report, args).await?;
    border::step(stage, report).await?;
    report.summary()
}

/// Leaves the ring running until somebody ends it.
async fn linger(stage: &Stage, signals: &mut Signals, context: &Context) -> Result<(), Failure> {
    stage.invite_to_try(context.output)?;
    signals.next().await;
    Ok(())
}
