//! `ringway bench dtl`: priorities beside the kernel's TCP, over emulated lines.

mod case;
mod cell;
mod figures;
mod flow;
mod line;
mod plan;
mod plot;
mod probe;
mod runs;
mod watch;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::HumanDuration;

use self::case::Times;
use self::line::Line;
use self::plan::Task;
use self::runs::Runs;
use super::beside::Beside;
use super::figure::show;
use crate::cli::DtlArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Lines slower than this, in megabits per second, may be measured side by side.
const SLOW: f64 = 20.0;

/// Measures what is not measured yet, shows everything, and draws.
pub(super) fn run(output: Output, args: &DtlArgs) -> Result<(), Failure> {
    let beside = args.beside.as_deref().map(Beside::new).transpose()?;
    let names = beside.map_or_else(Vec::new, |beside| beside.names);
    let tasks = plan::tasks(args, &names)?;
    if let Some(folder) = &args.plots {
        super::writable(folder)?;
    }
    let runs = Runs::open(args.results.as_deref())?;
    let open: Vec<Task> = tasks
        .iter()
        .filter(|task| !runs.has(task))
        .cloned()
        .collect();
    if !open.is_empty() {
        measure(output, args, open, &runs)?;
    }
    let runs = runs.into_outcomes();
    show(output, &figures::figures(&tasks, &runs))?;
    match &args.plots {
        Some(folder) => plot::draw(&tasks, &runs, folder),
        None => Ok(()),
    }
}

/// Runs the tasks, slow lines side by side, fast ones one after the other.
fn measure(output: Output, args: &DtlArgs, open: Vec<Task>, runs: &Runs) -> Result<(), Failure> {
    in_real_time();
    let rattan = args
        .rattan
        .clone()
        .unwrap_or_else(|| PathBuf::from("rattan"));
    let (slow, fast): (Vec<_>, Vec<_>) = open.into_iter().partition(|task| task.cell.rate < SLOW);
    let jobs = args.jobs.max(1);
    let seconds = |tasks: &[Task]| -> f64 { tasks.iter().map(|task| length(args, task)).sum() };
    let whole = seconds(&slow) / f64::from(jobs) + seconds(&fast);
    output.note(&format!(
        "{} runs, about {}",
        slow.len() + fast.len(),
        HumanDuration(Duration::from_secs_f64(whole))
    ));
    let began = Instant::now();
    let left = Mutex::new(whole);
    for (tasks, jobs) in [(slow, jobs), (fast, 1)] {
        let queue = Mutex::new(VecDeque::from(tasks));
        let worker = || -> Result<(), Failure> {
            loop {
                let task = queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front();
                let Some(task) = task else {
                    return Ok(());
                };
                one(&rattan, args, &task, runs)?;
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                *left -= length(args, &task) / f64::from(jobs);
                output.note(&format!(
                    "{task}: done after {}; about {} left",
                    HumanDuration(began.elapsed()),
                    HumanDuration(Duration::from_secs_f64(left.max(0.0)))
                ));
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| {
                let done = worker.join();
                done.unwrap_or_else(|_| Err(Failure::failed("a measuring thread failed")))
            })
        })?;
    }
    Ok(())
}

/// Seconds that a task takes, with the line's laying.
fn length(args: &DtlArgs, task: &Task) -> f64 {
    Times::new(&task.cell, args.quick).of(task.case) + 1.5
}

fn one(rattan: &Path, args: &DtlArgs, task: &Task, runs: &Runs) -> Result<(), Failure> {
    let line = Line::lay(rattan, task.cell)?;
    let times = Times::new(&task.cell, args.quick);
    let beside = args.beside.as_deref();
    let outcome = case::run(&line, &task.contender, beside, task.case, times)?;
    runs.keep(task, outcome)
}

/// Asks for real-time priority for every thread of this process, so that other work on the machine does not hold up the ends of the
/// line. Without it, figures of a busy machine are worse; they are not wrong.
fn in_real_time() {
    let own = std::process::id().to_string();
    // The order is best effort.
    Command::new("chrt")
        .args(["-f", "-a", "-p", "20", &own])
        .status()
        .ok();
}
