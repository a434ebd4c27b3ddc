//! A transfer's progress on stderr: a bar on a terminal, otherwise a line every few seconds.

use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use ringway_node::control::TransferStatus;

use crate::limits::PROGRESS_LINE_INTERVAL;
use ringway_terminal::{Output, visible};

/// One transfer's progress; only one is shown at a time.
#[derive(Debug)]
pub(crate) struct Progress {
    output: Output,
    bar: Option<ProgressBar>,
    next_line: Instant,
}

impl Progress {
    /// Begins to show it.
    pub(crate) fn new(output: Output) -> Progress {
        let next_line = Instant::now() + PROGRESS_LINE_INTERVAL;
        let bar = output
            .draws()
            .then(|| ProgressBar::new(0).with_style(style()));
        Progress {
            output,
            bar,
            next_line,
        }
    }

    /// Shows the state of now.
    pub(crate) fn update(&mut self, transfer: &TransferStatus) {
        if let Some(bar) = &self.bar {
            bar.set_length(transfer.size);
            bar.set_position(transfer.bytes);
            bar.set_message(visible(&message(transfer)).into_owned());
            return;
        }
        if Instant::now() >= self.next_line {
            self.next_line = Instant::now() + PROGRESS_LINE_INTERVAL;
            self.output.note(&line(transfer));
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    // The template is a constant; if it were wrong, the plain bar would do.
    ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn message(transfer: &TransferStatus) -> String {
    let TransferStatus {
        file, peer, state, ..
    } = transfer;
    let name = format!("{file} → {peer}");
    match (&transfer.reason, state.as_str()) {
        (_, "active") => {
            let speed = transfer.rate.map_or_else(|| "-".to_owned(), rate);
            format!("{speed}  {}  {name}", eta(transfer.eta_s))
        }
        (Some(reason), _) => format!("{state}: {reason}  {name}"),
        (None, _) => format!("{state}  {name}"),
    }
}

fn line(transfer: &TransferStatus) -> String {
    format!(
        "{}/{}  {}",
        HumanBytes(transfer.bytes),
        HumanBytes(transfer.size),
        message(transfer)
    )
}

/// A rate for people.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    format!("{}/s", HumanBytes(whole(bytes_per_second)))
}

fn eta(seconds: Option<f64>) -> String {
    let known = seconds.filter(|seconds| seconds.is_finite() && (0.0..1e9).contains(seconds));
    known.map_or_else(
        || "ETA unknown".to_owned(),
        |s| format!("ETA {}", HumanDuration(Duration::from_secs_f64(s.ceil()))),
    )
}

/// The whole part of a number of bytes; 0 for what is no such number.
fn whole(number: f64) -> u64 {
    // `Duration` is the one checked way of the standard library from f64 to u64.
    Duration::try_from_secs_f64(number).map_or(0, |seconds| seconds.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_figures_are_shown_as_nothing() {
        assert_eq!(rate(f64::NAN), "0 B/s");
        assert_eq!(rate(-3.0), "0 B/s");
        assert_eq!(rate(2_097_152.0), "2.00 MiB/s");
        assert_eq!(eta(Some(f64::INFINITY)), "ETA unknown");
        assert_eq!(eta(Some(61.2)), "ETA 62 seconds");
    }
}
