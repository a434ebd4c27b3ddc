//! Which cases are measured for whom, in which cells, and how often.

use std::cmp::Ordering;
use std::fmt;

use super::case::{Case, Contender, Times};
use super::cell::{CELLS, Cell};
use crate::cli::DtlArgs;
use ringway_terminal::Failure;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) cell: Cell,
    pub(super) contender: Contender,
    pub(super) case: Case,
    /// Whether its times are those of a quick look: its result is none of a full run.
    pub(super) quick: bool,
    pub(super) run: u32,
}

/// As results name it: `10/20/1bdp ringway worth-4 #1`, with `quick` before the number where it is
/// a quick look.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task {
            cell,
            contender,
            case,
            quick,
            run,
        } = self;
        let quick = if *quick { " quick" } else { "" };
        write!(f, "{cell} {contender} {case}{quick} #{run}")
    }
}

/// Priorities whose worth is measured.
pub(super) const PRIORITIES: [f64; 8] = [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
/// Congestion controls of the kernel that a scavenger is measured beside.
pub(super) const CONTROLS: [&str; 3] = ["cubic", "reno", "bbr"];
/// How many scavengers start one after the other.
pub(super) const LATE: [u32; 3] = [2, 4, 10];

/// Everything that a contender is measured in.
fn cases(contender: &Contender) -> Vec<Case> {
    let tcp = CONTROLS.map(Case::Tcp);
    let scavenger = CONTROLS
        .into_iter()
        .map(Case::Beside)
        .chain(LATE.map(Case::Late));
    let worth = PRIORITIES.map(Case::Worth);
    match contender {
        Contender::Kernel => [Case::Alone, Case::Upload, Case::Equal]
            .into_iter()
            .chain(tcp)
            .chain(worth)
            .collect(),
        Contender::Noq => vec![Case::Alone, Case::Upload, Case::Equal, Case::Worth(1.0)],
        Contender::Beside(_) => [Case::Alone, Case::Upload]
            .into_iter()
            .chain(scavenger)
            .collect(),
        Contender::RoundTrips => vec![Case::Upload],
        Contender::Ringway | Contender::Paper => {
            // Each flow of the paper's is on its own.
            let together = match contender {
                Contender::Ringway => vec![Case::Weights, Case::Peers, Case::Apart, Case::Deadline],
                _ => Vec::new(),
            };
            [Case::Alone, Case::Upload, Case::Equal]
                .into_iter()
                .chain(scavenger)
                .chain(worth)
                .chain(together)
                .chain([Case::Change, Case::Figure6, Case::Figure7])
                .collect()
        }
    }
}

/// What a quick look takes.
fn quick(contender: &Contender) -> Vec<Case> {
    match contender {
        Contender::Kernel => vec![Case::Tcp("cubic"), Case::Worth(2.0)],
        Contender::Noq => vec![Case::Alone],
        Contender::RoundTrips => Vec::new(),
        Contender::Beside(_) => vec![Case::Beside("cubic")],
        Contender::Ringway => vec![Case::Alone, Case::Beside("cubic"), Case::Worth(2.0)],
        Contender::Paper => vec![Case::Beside("cubic"), Case::Worth(2.0)],
    }
}

/// True if a word is one of those that the user named, or none were.
fn named(words: &[String], word: &str) -> bool {
    words.is_empty() || words.iter().any(|named| named.trim() == word)
}

/// Refuses words that name nothing.
fn known(words: &[String], what: &str, all: &[String]) -> Result<(), Failure> {
    let unknown = words
        .iter()
        .find(|word| !all.contains(&word.trim().to_owned()));
    unknown.map_or(Ok(()), |word| {
        Err(Failure::usage(format_args!(
            "no {what} is called `{word}`: choose from {}",
            all.join(", ")
        )))
    })
}

/// The runs that the user wants: first one of everything, then the second of everything, so that a
/// measurement that is broken off has the most to show. `beside` are the scavengers of the program
/// of `--beside`.
pub(super) fn tasks(args: &DtlArgs, beside: &[String]) -> Result<Vec<Task>, Failure> {
    let ours = [
        Contender::Kernel,
        Contender::Ringway,
        Contender::RoundTrips,
        Contender::Noq,
        Contender::Paper,
    ];
    let scavengers = beside
        .iter()
        .filter(|name| SCAVENGERS.contains(&name.as_str()));
    let contenders: Vec<Contender> = ours
        .into_iter()
        .chain(scavengers.cloned().map(Contender::Beside))
        .collect();
    let all = |contender: &Contender| match args.quick && args.case.is_empty() {
        true => quick(contender),
        false => cases(contender),
    };
    let names = |items: Vec<String>| {
        let mut items = items;
        items.sort();
        items.dedup();
        items
    };
    known(&args.only, "cell", &CELLS.map(|cell| cell.to_string()))?;
    known(
        &args.contender,
        "contender",
        &names(contenders.iter().map(Contender::to_string).collect()),
    )?;
    let every = contenders.iter().flat_map(cases);
    known(
        &args.case,
        "case",
        &names(every.map(|case| case.to_string()).collect()),
    )?;
    let first = |cell: &Cell| !args.quick || !args.only.is_empty() || *cell == CELLS[0];
    let cells = CELLS
        .iter()
        .filter(|cell| named(&args.only, &cell.to_string()) && first(cell));
    let runs = match (args.runs, args.quick) {
        (Some(runs), _) => runs,
        (None, true) => 1,
        (None, false) => 5,
    };
    let mut tasks = Vec::new();
    for run in 1..=runs {
        for cell in cells.clone() {
            for contender in &contenders {
                if !named(&args.contender, &contender.to_string()) {
                    continue;
                }
                let cases = all(contender).into_iter();
                tasks.extend(
                    cases
                        .filter(|case| named(&args.case, &case.to_string()))
                        .map(|case| Task {
                            cell: *cell,
                            contender: contender.clone(),
                            case,
                            quick: args.quick,
                            run,
                        }),
                );
            }
        }
    }
    Ok(tasks)
}

/// In which order runs that go side by side begin: each round of all before the next, and within a
/// round the longest first.
pub(super) fn before(quick: bool, a: &Task, b: &Task) -> Ordering {
    let length = |task: &Task| Times::new(&task.cell, quick).of(task.case);
    (a.run.cmp(&b.run)).then(length(b).total_cmp(&length(a)))
}

/// How many slow lines are measured side by side.
pub(super) fn jobs(args: &DtlArgs) -> u32 {
    match (args.jobs, args.quick) {
        (Some(jobs), _) => jobs.max(1),
        (None, true) => 5,
        (None, false) => 1,
    }
}

/// Seconds that the laying of a line takes, about.
pub(super) const LAYING: f64 = 1.5;

/// Programs beside ours that give way to TCP, of those that `--beside` may name.
const SCAVENGERS: [&str; 2] = ["utp", "libtorrent"];

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DtlArgs,
    }

    fn planned(words: &str) -> Result<Vec<String>, Failure> {
        let words = std::iter::once("dtl").chain(words.split_whitespace());
        let args = Line::parse_from(words).args;
        let beside = ["noq-cubic", "utp"].map(str::to_owned);
        let tasks = tasks(&args, &beside)?;
        Ok(tasks.iter().map(Task::to_string).collect())
    }

    #[test]
    fn chosen_tasks_run_once_before_any_repeats() {
        let words = "--only 10/20/1bdp --contender kernel,ringway --case worth-1,late-4 --runs 2";
        let wanted = [
            "10/20/1bdp kernel worth-1 #1",
            "10/20/1bdp ringway late-4 #1",
            "10/20/1bdp ringway worth-1 #1",
            "10/20/1bdp kernel worth-1 #2",
            "10/20/1bdp ringway late-4 #2",
            "10/20/1bdp ringway worth-1 #2",
        ];
        assert_eq!(planned(words).unwrap(), wanted);
    }

    /// A quick look is one cell.
    #[test]
    fn full_run_has_every_cell_five_times() {
        let all = planned("").unwrap();
        for cell in CELLS {
            for task in [
                "paper figure-7 #5",
                "ringway late-10 #1",
                "utp beside-bbr #3",
            ] {
                assert!(all.contains(&format!("{cell} {task}")), "{cell} {task}");
            }
        }
        let quick = planned("--quick").unwrap();
        assert!((4..12).contains(&quick.len()), "{quick:?}");
        assert!(quick.iter().all(|task| task.starts_with("10/20/1bdp ")));
        // A full run must not take a quick look's result for its own.
        assert!(quick.iter().all(|task| !all.contains(task)));
        for who in ["kernel", "ringway", "noq-cubic", "paper", "utp"] {
            assert!(quick.iter().any(|task| task.contains(who)), "{who}");
        }
    }

    #[test]
    fn a_quick_look_ends_within_a_minute() {
        let args = Line::parse_from(["dtl", "--quick"]).args;
        let beside = SCAVENGERS.map(str::to_owned);
        let mut tasks = tasks(&args, &beside).unwrap();
        tasks.sort_by(|a, b| before(true, a, b));
        // Each begins where somebody is first done.
        let mut busy = vec![0.0_f64; jobs(&args) as usize];
        for task in &tasks {
            let first = busy.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            *first += Times::new(&task.cell, task.quick).of(task.case) + LAYING;
        }
        let whole = busy.iter().copied().fold(0.0, f64::max);
        assert!(whole <= 60.0, "{whole}");
    }

    #[test]
    fn refusal_of_an_unknown_name_lists_known_ones() {
        for (words, mend) in [
            ("--only 9/9/9", "10/20/codel"),
            ("--contender us", "ringway"),
            ("--case worth-9", "worth-8"),
        ] {
            let refused = planned(words).unwrap_err();
            assert!(refused.message().contains(mend), "{}", refused.message());
        }
    }
}
