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
    /// This machine cannot do what was to be checked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
    figure: String,
}

impl Check {
    /// Something checked, how it turned out, and the figure behind it.
    pub(super) fn new(check: impl Into<String>, ok: bool, figure: impl Into<String>) -> Check {
        Check {
            check: check.into(),
            ok,
            skipped: false,
            figure: figure.into(),
        }
    }

    /// Something that this machine cannot do, and why; it is no fault.
    pub(super) fn skipped(check: impl Into<String>, reason: impl Into<String>) -> Check {
        Check {
            skipped: true,
            ..Check::new(check, true, reason)
        }
    }

    fn result(&self) -> &'static str {
        match (self.skipped, self.ok) {
            (true, _) => "skipped",
            (false, true) => "ok",
            (false, false) => "FAILED",
        }
    }
}

/// What a step did.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// One line for people.
    pub(super) text: String,
    /// What people see below it, each with a heading.
    pub(super) shown: Vec<(String, String)>,
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

    /// Says how the running step goes on.
    pub(super) fn go_on(&mut self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(text.to_owned()),
            None => self.output.note(&format!("  {text} …")),
        }
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
                let nothing = done.checks.iter().all(|check| check.skipped);
                let mark = if nothing { "–" } else { self.mark(ok) };
                self.output.either("ringway.demo.step/1", &object, || {
                    let shown = done
                        .shown
                        .iter()
                        .map(|(heading, text)| block(heading, text));
                    let shown: String = shown.collect();
                    format!("{mark} {} ({seconds:.1} s){shown}", done.text)
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
            table.row(&[check.check.as_str(), check.result(), &check.figure]);
        }
        let count = |holds: fn(&Check) -> bool| self.checks.iter().filter(|c| holds(c)).count();
        let (bad, skipped) = (count(|check| !check.ok), count(|check| check.skipped));
        let all = self.checks.len() - skipped;
        let besides = match skipped {
            0 => String::new(),
            skipped => format!(", {skipped} skipped"),
        };
        let verdict = match bad {
            0 => format!(
                "{} all {all} checks passed in {seconds:.0} s{besides}",
                self.mark(true),
            ),
            _ => format!("{} {bad} of {all} checks failed{besides}", self.mark(false)),
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

/// A text below a step's line, each of its lines set in.
fn block(heading: &str, text: &str) -> String {
    let lines = text.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("\n      {line}"),
    });
    format!("\n\n    {heading}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_makes_the_whole_fail() {
        let mut report = Report::new(Output::silent());
        let done = |ok| Done {
            text: String::new(),
            shown: Vec::new(),
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
    fn skipped_checks_are_no_faults() {
        let mut report = Report::new(Output::silent());
        let done = Done {
            text: String::new(),
            shown: Vec::new(),
            checks: vec![
                Check::new("a", true, ""),
                Check::skipped("b", "no namespaces"),
            ],
            details: Value::Null,
        };
        report.end("a", Ok(done)).unwrap();
        report.complete = true;
        assert!(report.all_good());
        let table = report.table(1.0);
        assert!(
            table.contains("all 1 checks passed in 1 s, 1 skipped"),
            "{table}"
        );
    }

    #[test]
    fn a_failed_step_ends_the_demo() {
        let mut report = Report::new(Output::silent());
        assert!(report.end("a", Err(Failure::failed("no"))).is_err());
        assert!(!report.all_good() && !report.interrupted());
    }
}
