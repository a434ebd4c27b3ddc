//! The figures of docs/benchmarks.md, each beside its peers.
//!
//! One file in `benches/` for each claim. A bench prints one JSON object a line for each [`Figure`]
//! on stdout; the fields are those of `ringway-bench --json`. Without cargo's `--bench`, or with
//! `--quick`, it only shows that it still runs.

use std::time::Instant;

/// One measured figure. Field names are a contract: tools read them.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Which bench it belongs to: the name of its file.
    pub bench: String,
    /// What was done.
    pub case: String,
    /// What was measured.
    pub metric: String,
    /// Median of the runs, in `unit`.
    pub value: f64,
    /// Unit of `value`, `baseline_value` and `deviation`.
    pub unit: String,
    /// What it is compared with; `None` where no peer can be measured in the same way.
    pub baseline: Option<String>,
    /// The same figure of the baseline.
    pub baseline_value: Option<f64>,
    /// `value` ÷ `baseline_value`.
    pub ratio: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// Standard deviation of the runs.
    pub deviation: f64,
}

impl Figure {
    /// A figure without a baseline from the values of its runs; without runs its value is NaN.
    #[must_use]
    pub fn of_runs(names: Names<'_>, mut runs: Vec<f64>) -> Figure {
        runs.sort_by(f64::total_cmp);
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
        Figure {
            bench: names.bench.into(),
            case: names.case.into(),
            metric: names.metric.into(),
            value: runs.get(runs.len() / 2).copied().unwrap_or(f64::NAN),
            unit: names.unit.into(),
            baseline: None,
            baseline_value: None,
            ratio: None,
            runs: runs.len(),
            deviation: (squares / count).sqrt(),
        }
    }

    /// The figure as one line of JSON. NaN becomes `null`.
    ///
    /// # Errors
    /// None for the fields as they are; those of [`serde_json::to_string`].
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// What a figure is called. See [`Figure`] for the fields.
#[derive(Copy, Clone, Debug)]
pub struct Names<'a> {
    /// The bench.
    pub bench: &'a str,
    /// The case.
    pub case: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// The unit.
    pub unit: &'a str,
}

/// How much to measure.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs of each case, after one that is thrown away.
    pub runs: usize,
    /// Operations in a run.
    pub operations: u64,
}

impl Effort {
    /// What the command line asks for: all of it under `cargo bench`, little under `cargo test` or
    /// with `--quick`.
    #[must_use]
    pub fn from_arguments(arguments: impl Iterator<Item = String>) -> Effort {
        let (mut bench, mut quick) = (false, false);
        for argument in arguments {
            bench |= argument == "--bench";
            quick |= argument == "--quick";
        }
        if bench && !quick {
            Effort {
                runs: 15,
                operations: 1_000_000,
            }
        } else {
            Effort {
                runs: 3,
                operations: 10_000,
            }
        }
    }

    /// Nanoseconds per operation of each run. `run` does as many operations as it is given.
    pub fn nanoseconds(self, mut run: impl FnMut(u64)) -> Vec<f64> {
        run(self.operations);
        let mut values = Vec::with_capacity(self.runs);
        for _ in 0..self.runs {
            let start = Instant::now();
            run(self.operations);
            values.push(start.elapsed().as_nanos() as f64 / self.operations as f64);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_fields_are_in_the_contracts_order() {
        let names = Names {
            bench: "b",
            case: "c",
            metric: "m",
            unit: "ns",
        };
        let figure = Figure::of_runs(names, vec![3.0, 1.0, 2.0]);
        assert_eq!(
            figure.to_json().unwrap(),
            r#"{"bench":"b","case":"c","metric":"m","value":2.0,"unit":"ns","baseline":null,"baseline_value":null,"ratio":null,"runs":3,"deviation":0.816496580927726}"#
        );
    }

    #[test]
    fn only_cargo_bench_measures_at_length() {
        let effort = |words: &[&str]| Effort::from_arguments(words.iter().map(|&w| w.into()));
        assert_eq!(effort(&["x", "--bench"]).runs, 15);
        assert_eq!(effort(&["x", "--bench", "--quick"]), effort(&["x"]));
    }
}
