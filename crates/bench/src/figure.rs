//! One measured number, beside what it is measured against.

use serde::Serialize;

use ringway_terminal::Failure;
use ringway_terminal::Output;
use ringway_terminal::Table;

/// A number that was measured several times, and the same of a peer or a limit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    /// The benchmark.
    bench: &'static str,
    /// What was done.
    pub(super) case: String,
    /// What was measured.
    pub(super) metric: &'static str,
    /// The median of all runs.
    pub(super) value: f64,
    /// Its unit.
    pub(super) unit: &'static str,
    /// What it is measured against.
    pub(super) baseline: Option<String>,
    /// The median of that.
    pub(super) baseline_value: Option<f64>,
    /// Value ÷ baseline value.
    pub(super) ratio: Option<f64>,
    /// How often it was measured.
    pub(super) runs: usize,
    /// Largest distance of a run from the median, as a share of it.
    pub(super) deviation: f64,
}

impl Figure {
    /// A figure from the values of its runs, of which there is at least one.
    pub(super) fn new(
        bench: &'static str,
        case: impl Into<String>,
        metric: &'static str,
        unit: &'static str,
        runs: &[f64],
    ) -> Figure {
        let value = median(runs);
        let distance = |run: &f64| (run - value).abs();
        let farthest = runs.iter().map(distance).fold(0.0, f64::max);
        Figure {
            bench,
            case: case.into(),
            metric,
            value,
            unit,
            baseline: None,
            baseline_value: None,
            ratio: None,
            runs: runs.len(),
            deviation: if value == 0.0 { 0.0 } else { farthest / value },
        }
    }

    /// The same, measured against `baseline` whose runs these are.
    pub(super) fn against(mut self, baseline: impl Into<String>, runs: &[f64]) -> Figure {
        if runs.is_empty() {
            return self;
        }
        let value = median(runs);
        self.baseline = Some(baseline.into());
        self.baseline_value = Some(value);
        self.ratio = (value != 0.0).then(|| self.value / value);
        self
    }
}

/// The middle of the values; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or(0.0);
    if sorted.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|at| sorted.get(at));
    lower.map_or(upper, |lower| f64::midpoint(*lower, upper))
}

/// Writes one object for each figure, or all as a table.
pub(super) fn show(output: Output, figures: &[Figure]) -> Result<(), Failure> {
    if output.json() {
        let mut figures = figures.iter();
        return figures.try_for_each(|figure| output.object("ringway.bench/1", figure));
    }
    let mut table = Table::new(&[
        "case", "metric", "value", "unit", "against", "value", "ratio", "runs", "±",
    ]);
    for figure in figures {
        let number = |value: Option<f64>| value.map_or(String::new(), short);
        table.row(&[
            figure.case.clone(),
            figure.metric.to_owned(),
            short(figure.value),
            figure.unit.to_owned(),
            figure.baseline.clone().unwrap_or_default(),
            number(figure.baseline_value),
            number(figure.ratio),
            figure.runs.to_string(),
            format!("{:.0} %", figure.deviation * 100.0),
        ]);
    }
    let mut lines = table.lines().into_iter();
    lines.try_for_each(|line| output.line(&line))
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_figure_tells_its_ratio_and_its_spread() {
        let figure =
            Figure::new("transport", "c", "m", "s", &[9.0, 10.0, 12.0]).against("limit", &[5.0]);
        assert_eq!((figure.value, figure.ratio), (10.0, Some(2.0)));
        assert!((figure.deviation - 0.2).abs() < 1e-9);
    }
}
