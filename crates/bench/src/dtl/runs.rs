//! What has been measured, kept in a file so that a measurement of hours can be broken off and
//! taken up again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::case::Outcome;
use super::plan::Task;
use ringway_terminal::Failure;

/// Outcomes by the names of their tasks.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

#[derive(Serialize, Deserialize)]
struct Line {
    task: String,
    /// What measured it; none in files of versions that did not say so.
    #[serde(default)]
    by: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug)]
pub(super) struct Runs(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    file: Option<File>,
    outcomes: Outcomes,
    by: String,
    /// Runs of others.
    foreign: usize,
}

impl Runs {
    /// Reads what a file has; without a file, nothing is kept beyond this command. `by`: the build
    /// and the emulator that measure.
    pub(super) fn open(path: Option<&Path>, by: &str) -> Result<Runs, Failure> {
        let mut kept = Kept {
            file: None,
            outcomes: Outcomes::new(),
            by: by.to_owned(),
            foreign: 0,
        };
        if let Some(path) = path {
            let failed = |what: &dyn std::fmt::Display| {
                let path = path.display();
                Failure::failed(format_args!("the results {path} cannot be used: {what}"))
            };
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).open(path);
            kept.file = Some(file.map_err(|error| failed(&error))?);
            let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
            for (number, line) in text.lines().enumerate() {
                // The last line may have been cut short by whatever ended the command.
                let last = number + 1 == text.lines().count();
                match serde_json::from_str::<Line>(line) {
                    Ok(line) => {
                        kept.foreign += usize::from(line.by != by);
                        kept.outcomes.insert(line.task, line.outcome);
                    }
                    Err(_) if last && !text.ends_with('\n') => {}
                    Err(error) => {
                        return Err(failed(&format_args!("line {}: {error}", number + 1)));
                    }
                }
            }
            if !text.is_empty() && !text.ends_with('\n') {
                let length = text.rfind('\n').map_or(0, |end| end + 1);
                let cut = kept.file.as_ref().map(|file| file.set_len(length as u64));
                cut.unwrap_or(Ok(())).map_err(|error| failed(&error))?;
            }
        }
        Ok(Runs(Mutex::new(kept)))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many runs the file has of another build or emulator: their figures are not those of this
    /// one.
    pub(super) fn foreign(&self) -> usize {
        self.kept().foreign
    }

    pub(super) fn has(&self, task: &Task) -> bool {
        self.kept().outcomes.contains_key(&task.to_string())
    }

    /// Keeps what a run came to. What is no number (no probe came, nothing arrived) is no figure,
    /// and could not be read again.
    pub(super) fn keep(&self, task: &Task, mut outcome: Outcome) -> Result<(), Failure> {
        outcome.values.retain(|_, value| value.is_finite());
        let mut kept = self.kept();
        let line = Line {
            task: task.to_string(),
            by: kept.by.clone(),
            outcome,
        };
        if let Some(file) = &mut kept.file {
            let text = serde_json::to_string(&line).map_err(Failure::failed)?;
            writeln!(file, "{text}").map_err(|error| {
                Failure::failed(format_args!("a result could not be kept: {error}"))
            })?;
        }
        kept.outcomes.insert(line.task, line.outcome);
        Ok(())
    }

    pub(super) fn into_outcomes(self) -> Outcomes {
        let kept = self.0.into_inner();
        kept.unwrap_or_else(PoisonError::into_inner).outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Case, Contender};
    use super::super::cell::CELLS;
    use super::*;

    #[test]
    fn results_survive_a_last_line_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        let task = |run| Task {
            cell: CELLS[0],
            contender: Contender::Ringway,
            case: Case::Worth(0.5),
            quick: false,
            run,
        };
        let outcome = Outcome {
            values: [("share".to_owned(), 0.5)].into(),
            series: Vec::new(),
        };
        let runs = Runs::open(Some(&path), "one").unwrap();
        runs.keep(&task(1), outcome.clone()).unwrap();
        runs.keep(&task(2), outcome).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let runs = Runs::open(Some(&path), "other").unwrap();
        assert_eq!(runs.foreign(), 1);
        assert!(runs.has(&task(1)));
        assert!(!runs.has(&task(2)));
        runs.keep(&task(2), Outcome::default()).unwrap();
        let outcomes = Runs::open(Some(&path), "other").unwrap().into_outcomes();
        assert_eq!(outcomes.len(), 2);
        let kept = &outcomes["10/20/1bdp ringway worth-0.5 #1"];
        assert!((kept.values["share"] - 0.5).abs() < 1e-12);
        let runs = Runs::open(Some(&path), "other").unwrap();
        let nothing = [("share", f64::NAN), ("off", f64::INFINITY), ("rate", 0.0)];
        runs.keep(&task(3), Outcome::of(&nothing)).unwrap();
        let outcomes = Runs::open(Some(&path), "other").unwrap().into_outcomes();
        let kept = &outcomes["10/20/1bdp ringway worth-0.5 #3"];
        assert_eq!(kept.values.keys().collect::<Vec<_>>(), ["rate"]);
        std::fs::write(&path, "nonsense\nmore\n").unwrap();
        assert!(Runs::open(Some(&path), "one").is_err());
    }

    /// Else a command that continues would show other figures than the one that measured, by the
    /// last of sixteen digits.
    #[test]
    fn numbers_are_read_back_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        let task = Task {
            cell: CELLS[0],
            contender: Contender::Ringway,
            case: Case::Alone,
            quick: true,
            run: 1,
        };
        let series: Vec<f64> = (1..2_000).map(|n| 2.65 + f64::from(n) / 7e3).collect();
        let outcome = Outcome {
            values: series
                .iter()
                .map(|value| (value.to_string(), *value))
                .collect(),
            series: Vec::new(),
        };
        let runs = Runs::open(Some(&path), "one").unwrap();
        runs.keep(&task, outcome.clone()).unwrap();
        let outcomes = Runs::open(Some(&path), "one").unwrap().into_outcomes();
        let kept: Vec<_> = outcomes.into_values().map(|kept| kept.values).collect();
        assert_eq!(kept, [outcome.values]);
    }
}
