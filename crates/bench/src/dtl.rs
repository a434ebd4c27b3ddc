//! `ringway-bench dtl`: priorities beside the kernel's TCP, over emulated lines.

mod case;
mod cell;
mod changes;
mod deadline;
mod figures;
mod flow;
mod line;
mod plan;
mod plot;
mod probe;
mod runs;
mod segments;
mod watch;

use std::collections::VecDeque;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::HumanDuration;
use serde::Serialize;

use self::case::Times;
use self::line::Line;
use self::plan::Task;
use self::runs::Runs;
use super::beside::Beside;
use super::figure::show;
use crate::cli::DtlArgs;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Lines slower than this, in megabits per second, cost so little that many may be measured side by
/// side.
const SLOW: f64 = 20.0;

/// The schema of [`Progress`].
const PROGRESS: &str = "ringway.bench-progress/1";

/// How far the measurement has come, for programs.
#[derive(Serialize)]
struct Progress<'a> {
    /// The run that has ended; none at the beginning.
    task: Option<String>,
    /// Why it could not be measured.
    error: Option<&'a str>,
    /// Runs that are to come.
    runs_left: usize,
    seconds: f64,
    /// An estimate.
    seconds_left: f64,
}

/// Measures what is not measured yet, shows everything, and draws.
pub(super) fn run(output: Output, args: &DtlArgs) -> Result<(), Failure> {
    let beside = args.beside.as_deref().map(Beside::new).transpose()?;
    let names = beside.map_or_else(Vec::new, |beside| beside.names);
    let tasks = plan::tasks(args, &names)?;
    if let Some(folder) = &args.plots {
        super::plot::writable(folder)?;
    }
    let runs = Runs::open(args.results.as_deref(), &measured_by(emulator(args))?)?;
    if runs.foreign() > 0 {
        output.note(&format!(
            "{} of the runs in the file are of another build or emulator: their figures are not this one's",
            runs.foreign()
        ));
    }
    let open: Vec<Task> = tasks
        .iter()
        .filter(|task| !runs.has(task))
        .cloned()
        .collect();
    let failed = match open.is_empty() {
        true => 0,
        false => measure(output, args, open, &runs)?,
    };
    let runs = runs.into_outcomes();
    let figures = figures::figures(&tasks, &runs);
    show(output, &figures)?;
    if let Some(folder) = &args.plots {
        plot::draw(&tasks, &runs, folder)?;
        plot::draw_figures(&figures, folder)?;
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::failed(format_args!(
            "{failed} runs could not be measured: with --results the same command measures only these again"
        ))),
    }
}

fn emulator(args: &DtlArgs) -> &Path {
    args.rattan.as_deref().unwrap_or(Path::new("rattan"))
}

/// The build and the emulator, as results name them.
fn measured_by(rattan: &Path) -> Result<String, Failure> {
    let program = std::env::current_exe().and_then(std::fs::read);
    let hash = blake3::hash(&program.map_err(Failure::failed)?).to_hex();
    let build = hash.get(..8).unwrap_or_default();
    let line = rattan.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{} {build}, {line}", env!("CARGO_PKG_VERSION")))
}

/// Runs the tasks, slow lines before fast ones, as many side by side as the user allows. A run that
/// fails does not end hours of measuring: it is reported, and counted.
fn measure(output: Output, args: &DtlArgs, open: Vec<Task>, runs: &Runs) -> Result<usize, Failure> {
    let rattan = emulator(args);
    // An emulator that cannot lay one line need not try all.
    open.first()
        .map_or(Ok(()), |task| Line::lay(rattan, task.cell).map(drop))?;
    in_real_time();
    let (mut slow, fast): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|task| task.cell.rate < SLOW);
    // Within a round the longest first: no job waits for one that has begun last.
    slow.sort_by(|a, b| plan::before(args.quick, a, b));
    let slow_jobs = plan::jobs(args);
    let fast_jobs = args.fast_jobs.max(1);
    let seconds = |tasks: &[Task]| -> f64 { tasks.iter().map(|task| length(args, task)).sum() };
    let whole = seconds(&slow) / f64::from(slow_jobs) + seconds(&fast) / f64::from(fast_jobs);
    let all = slow.len() + fast.len();
    let begins = Progress {
        task: None,
        error: None,
        runs_left: all,
        seconds: 0.0,
        seconds_left: whole,
    };
    output.progress(PROGRESS, &begins, || {
        let whole = HumanDuration(Duration::from_secs_f64(whole));
        format!("{all} runs, about {whole}")
    });
    let began = Instant::now();
    let (left, failed) = (Mutex::new((all, whole)), AtomicUsize::new(0));
    for (tasks, jobs) in [(slow, slow_jobs), (fast, fast_jobs)] {
        let queue = Mutex::new(VecDeque::from(tasks));
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.pop_front()
        };
        let worker = || {
            while let Some(task) = next() {
                let failure = one(rattan, args, &task, runs).err();
                if failure.is_some() {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
                let error = failure.as_ref().map(Failure::message);
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                left.0 = left.0.saturating_sub(1);
                left.1 -= length(args, &task) / f64::from(jobs);
                let progress = Progress {
                    task: Some(task.to_string()),
                    error,
                    runs_left: left.0,
                    seconds: began.elapsed().as_secs_f64(),
                    seconds_left: left.1.max(0.0),
                };
                output.progress(PROGRESS, &progress, || {
                    let ended = error.map_or_else(
                        || "done".to_owned(),
                        |error| format!("not measured: {error}"),
                    );
                    let human = |seconds| HumanDuration(Duration::from_secs_f64(seconds));
                    format!(
                        "{task}: {ended}; after {}, about {} left",
                        human(progress.seconds),
                        human(progress.seconds_left)
                    )
                });
            }
        };
        std::thread::scope(|scope| {
            (0..jobs).for_each(|_| {
                scope.spawn(worker);
            });
        });
    }
    Ok(failed.into_inner())
}

/// Seconds that a task takes, with the line's laying.
fn length(args: &DtlArgs, task: &Task) -> f64 {
    Times::new(&task.cell, args.quick).of(task.case) + plan::LAYING
}

fn one(rattan: &Path, args: &DtlArgs, task: &Task, runs: &Runs) -> Result<(), Failure> {
    let line = Line::lay(rattan, task.cell)?;
    let times = Times::new(&task.cell, args.quick);
    let beside = args.beside.as_deref();
    let outcome = case::run(&line, &task.contender, beside, task.case, times)?;
    runs.keep(task, outcome)
}

/// Asks for real-time priority for every thread of this process, so that other work on the machine
/// does not hold up the ends of the line. Above the emulator's, which would otherwise hold up the
/// ends it works for.
fn in_real_time() {
    let own = std::process::id().to_string();
    // The order is best effort.
    Command::new("chrt")
        .args(["-f", "-a", "-p", "20", &own])
        .stderr(Stdio::null())
        .status()
        .ok();
}
