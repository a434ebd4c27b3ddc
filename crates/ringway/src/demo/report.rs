//! What the demo does and what it has checked: a line or an object for each step, and the table at
//! the end.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use ringway_terminal::Failure;
use ringway_terminal::Output;
use ringway_terminal::Table;

/// How often the sign of life of a running step turns.
const SPINNER_TICK: Duration = Duration::from_millis(120);

/// One thing that was checked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    check: String,
    ok: bool,
    figure: String,
}

impl Check {
    /// Something checked, how it turned out, and the figure behind it.
    pub(super) fn new(check: impl Into<String>, ok: bool, figure: impl Into<String>) -> Check {
        Check {
            check: check.into(),
            ok,
            figure: figure.into(),
        }
    }
}

/// What a step did.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// One line for people.
    pub(super) text: String,
    /// What it has checked.
    pub(super) checks: Vec<Check>,
    /// Everything worth knowing, for programs.
    pub(super) details: Value,
}

#[derive(Serialize)]
struct StepObject<'a> {
    step: &'a str,
    ok: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    checks: &'a [Check],
    details: &'a Value,
}

#[derive(Serialize)]
struct SummaryObject<'a> {
    ok: bool,
    seconds: f64,
    checks: &'a [Check],
}

/// The account of the demo.
#[derive(Debug)]
pub(super) struct Report {
    output: Output,
    started: Instant,
    step_started: Instant,
    spinner: Option<ProgressBar>,
    checks: Vec<Check>,
    complete: bool,
    failed: bool,
}

impl Report {
    /// An empty one.
    pub(super) fn new(output: Output) -> Report {
        let now = Instant::now();
        Report {
            output,
            started: now,
            step_started: now,
            spinner: None,
            checks: Vec::new(),
            complete: false,
            failed: false,
        }
    }

    /// Where it is shown.
    pub(super) fn output(&self) -> Output {
        self.output
    }

    /// Says what begins now.
    pub(super) fn begin(&mut self, text: &str) {
        self.clear();
        self.step_started = Instant::now();
        if !self.output.draws() {
            return self.output.note(&format!("  {text} …"));
        }
        let style = ProgressStyle::with_template("{spinner} {msg} …")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let spinner = ProgressBar::new_spinner()
            .with_style(style)
            .with_message(text.to_owned());
        spinner.enable_steady_tick(SPINNER_TICK);
        self.spinner = Some(spinner);
    }

    /// Takes the sign of life away, for a progress bar or the end.
    pub(super) fn clear(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    /// Records how a step ended; a step that could not be done ends the demo.
    pub(super) fn end(&mut self, step: &str, result: Result<Done, Failure>) -> Result<(), Failure> {
        self.clear();
        let seconds = self.step_started.elapsed().as_secs_f64();
        match result {
            Ok(done) => {
                let ok = done.checks.iter().all(|check| check.ok);
                let object = StepObject {
                    step,
                    ok,
                    seconds,
                    reason: None,
                    checks: &done.checks,
                    details: &done.details,
                };
                let mark = self.mark(ok);
                self.output.either("ringway.demo.step/1", &object, || {
                    format!("{mark} {} ({seconds:.1} s)", done.text)
                })?;
                self.checks.extend(done.checks);
                Ok(())
            }
            Err(failure) => {
                self.failed = true;
                let reason = failure.message().to_owned();
                let details = Value::Null;
                let object = StepObject {
                    step,
                    ok: false,
                    seconds,
                    reason: Some(reason),
                    checks: &[],
                    details: &details,
                };
                let mark = self.mark(false);
                self.output.either("ringway.demo.step/1", &object, || {
                    format!("{mark} {step} ({seconds:.1} s)")
                })?;
                Err(failure)
            }
        }
    }

    /// The table of everything checked.
    pub(super) fn summary(&mut self) -> Result<(), Failure> {
        self.complete = true;
        let ok = self.all_good();
        let seconds = self.started.elapsed().as_secs_f64();
        let object = SummaryObject {
            ok,
            seconds,
            checks: &self.checks,
        };
        self.output
            .either("ringway.demo/1", &object, || self.table(seconds))
    }

    fn table(&self, seconds: f64) -> String {
        let mut table = Table::new(&["CHECK", "RESULT", "FIGURE"]);
        for check in &self.checks {
            table.row(&[
                check.check.as_str(),
                if check.ok { "ok" } else { "FAILED" },
                &check.figure,
            ]);
        }
        let bad = self.checks.iter().filter(|check| !check.ok).count();
        let verdict = match bad {
            0 => format!(
                "{} all {} checks passed in {seconds:.0} s",
                self.mark(true),
                self.checks.len()
            ),
            _ => format!(
                "{} {bad} of {} checks failed",
                self.mark(false),
                self.checks.len()
            ),
        };
        format!("\n{}\n\n{verdict}", table.text())
    }

    fn mark(&self, ok: bool) -> &'static str {
        match (ok, self.output.colours()) {
            (true, true) => "\u{1b}[32m✓\u{1b}[0m",
            (true, false) => "✓",
            (false, true) => "\u{1b}[31m✗\u{1b}[0m",
            (false, false) => "✗",
        }
    }

    /// True if the demo came to its end and every check passed.
    pub(super) fn all_good(&self) -> bool {
        self.complete && self.checks.iter().all(|check| check.ok)
    }

    /// True if the demo was ended from outside, not by a step that could not be done.
    pub(super) fn interrupted(&self) -> bool {
        !self.complete && !self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_makes_the_whole_fail() {
        let mut report = Report::new(Output::silent());
        let done = |ok| Done {
            text: String::new(),
            checks: vec![Check::new("c", ok, "")],
            details: Value::Null,
        };
        report.end("a", Ok(done(true))).unwrap();
        assert!(!report.all_good(), "not before the end");
        report.complete = true;
        assert!(report.all_good());
        report.end("b", Ok(done(false))).unwrap();
        assert!(!report.all_good());
        assert!(report.table(1.0).contains("1 of 2 checks failed"));
    }

    #[test]
    fn a_failed_step_ends_the_demo() {
        let mut report = Report::new(Output::silent());
        assert!(report.end("a", Err(Failure::failed("no"))).is_err());
        assert!(!report.all_good() && !report.interrupted());
    }
}
