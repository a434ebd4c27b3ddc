//! From what a benchmark writes with `--json` to lines of runs.

use std::path::Path;

use jiff::civil::Date;
use serde::Deserialize;

use super::error::ReportError;
use super::run::{Run, without_place};

/// The baseline of figures that have an aim and no peer.
const AIM: &str = "aim";

/// An object of `--json`; what else it has is not kept.
#[derive(Clone, Debug, Deserialize)]
struct Figure {
    /// Programs of ours name the schema; there `deviation` is a share. The peers' is a standard
    /// deviation in the figure's unit.
    schema: Option<String>,
    bench: String,
    case: String,
    metric: String,
    value: f64,
    unit: String,
    baseline: Option<String>,
    baseline_value: Option<f64>,
    ratio: Option<f64>,
    runs: u32,
    deviation: f64,
}

/// What was measured, where and when.
#[derive(Clone, Debug)]
pub(super) struct Origin<'a> {
    pub(super) build: &'a str,
    pub(super) host: &'a str,
    pub(super) date: Date,
}

impl Figure {
    fn deviation(&self) -> Option<f64> {
        let share = match self.schema {
            Some(_) => self.deviation,
            None if self.value == 0.0 => 0.0,
            None => self.deviation / self.value.abs(),
        };
        (self.runs > 1).then_some(share)
    }

    /// A run with this value.
    fn run(&self, value: f64, unit: &str, origin: &Origin<'_>) -> Run {
        // An aim is no case; the aims stand in the page's spec.
        let baseline = self.baseline.clone().filter(|name| name != AIM);
        Run {
            bench: self.bench.clone(),
            case: self.case.clone(),
            metric: self.metric.clone(),
            value,
            unit: unit.to_owned(),
            baseline,
            runs: Some(self.runs).filter(|runs| *runs > 1),
            deviation: self.deviation(),
            build: origin.build.to_owned(),
            host: origin.host.to_owned(),
            date: origin.date,
        }
    }
}

/// The runs of a file of figures: of each its value, and beside a baseline also the multiple of it.
/// A baseline that has no figures of its own in the file, as nDPI, becomes a run of the case
/// `CASE, BASELINE`.
///
/// # Errors
/// The first line that is no figure.
pub(super) fn runs_of(
    path: &Path,
    text: &str,
    origin: &Origin<'_>,
) -> Result<Vec<Run>, ReportError> {
    let mut runs: Vec<Run> = Vec::new();
    let figures = figures_of(path, text)?;
    for figure in &figures {
        // A figure with several baselines comes once for each.
        let known = runs.iter().any(|run| {
            (run.unit.as_str(), &run.case, &run.metric)
                == (figure.unit.as_str(), &figure.case, &figure.metric)
        });
        if !known {
            runs.push(figure.run(figure.value, &figure.unit, origin));
        }
        let Some(name) = figure.baseline.as_deref().filter(|name| *name != AIM) else {
            continue;
        };
        // How far single runs of these lie from the median is not stated.
        let beside = |value: f64, unit: &str| Run {
            deviation: None,
            ..figure.run(value, unit, origin)
        };
        runs.extend(figure.ratio.map(|ratio| beside(ratio, "ratio")));
        if !figures.iter().any(|other| other.case.contains(name)) {
            runs.extend(figure.baseline_value.map(|value| Run {
                case: format!("{}, {name}", figure.case),
                baseline: None,
                ..beside(value, &figure.unit)
            }));
        }
    }
    if runs.is_empty() {
        return Err(ReportError::file(path, "there are no figures in it"));
    }
    Ok(runs)
}

/// The figures of a file.
fn figures_of(path: &Path, text: &str) -> Result<Vec<Figure>, ReportError> {
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    let figures = lines.map(|(line, number)| {
        let figure: Figure = serde_json::from_str(line)
            .map_err(|error| ReportError::line(path, number, without_place(&error)))?;
        match figure.runs {
            0 => Err(ReportError::line(path, number, "a figure of no runs")),
            _ => Ok(figure),
        }
    });
    figures.collect()
}

/// The name of the file that keeps the runs of a benchmark; none if its name has characters that
/// do not belong into one.
pub(super) fn file_of(bench: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '-';
    let good = !bench.is_empty() && bench.chars().all(plain);
    good.then(|| format!("{}.jsonl", bench.replace(' ', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Run>, ReportError> {
        let origin = Origin {
            build: "abc",
            host: "h",
            date: "2026-11-28".parse().unwrap(),
        };
        runs_of(Path::new("gate.json"), text, &origin)
    }

    const OURS: &str = r#"{"schema":"ringway.bench/1","bench":"gate","case":"c","metric":"m","value":2.0,"unit":"Gbit/s","baseline":"nat","baseline_value":4.0,"ratio":0.5,"runs":3,"deviation":0.1}"#;

    #[test]
    fn a_figure_beside_a_baseline_is_two_runs() {
        let nat = OURS.replace("\"c\"", "\"nat, files\"");
        let nat = nat.replace("\"baseline\":\"nat\"", "\"baseline\":null");
        let runs = read(&format!("{OURS}\n{}", nat.replace("0.5", "null"))).unwrap();
        assert_eq!(runs.len(), 3);
        assert_eq!((runs[0].value, runs[0].unit.as_str()), (2.0, "Gbit/s"));
        assert_eq!((runs[0].runs, runs[0].deviation), (Some(3), Some(0.1)));
        assert_eq!((runs[1].value, runs[1].unit.as_str()), (0.5, "ratio"));
        assert_eq!(runs[1].baseline.as_deref(), Some("nat"));
        assert_eq!(runs[1].deviation, None);
    }

    #[test]
    fn peer_without_own_figures_becomes_a_run() {
        let runs = read(OURS).unwrap();
        let peer = &runs[2];
        assert_eq!((peer.case.as_str(), peer.value), ("c, nat", 4.0));
        assert_eq!(
            (peer.unit.as_str(), peer.baseline.clone()),
            ("Gbit/s", None)
        );
    }

    #[test]
    fn an_aim_is_no_baseline() {
        let runs = read(&OURS.replace("\"nat\"", "\"aim\"")).unwrap();
        assert_eq!((runs.len(), runs[0].baseline.clone()), (1, None));
    }

    #[test]
    fn the_deviation_of_peers_becomes_a_share() {
        let peers = OURS.replace("\"schema\":\"ringway.bench/1\",", "");
        let peers = peers.replace("\"deviation\":0.1", "\"deviation\":0.5");
        assert_eq!(read(&peers).unwrap()[0].deviation, Some(0.25));
        let once = OURS.replace("\"runs\":3", "\"runs\":1");
        let run = &read(&once).unwrap()[0];
        assert_eq!((run.runs, run.deviation), (None, None));
    }

    #[test]
    fn a_figure_beside_two_baselines_is_one_value() {
        let ours = OURS.replace("\"nat\"", "\"c\"");
        let other = OURS.replace("\"nat\"", "\"c\"");
        let runs = read(&format!("{ours}\n{other}\n")).unwrap();
        let units: Vec<&str> = runs.iter().map(|run| run.unit.as_str()).collect();
        assert_eq!(units, ["Gbit/s", "ratio", "ratio"]);
    }

    #[test]
    fn bad_lines_are_named() {
        let error = read(&format!("{OURS}\nround 1\n")).unwrap_err().to_string();
        assert!(error.starts_with("gate.json:2: expected"), "{error}");
        let none = read("\n").unwrap_err().to_string();
        assert_eq!(none, "gate.json: there are no figures in it");
        let empty = OURS.replace("\"runs\":3", "\"runs\":0");
        let empty = read(&empty).unwrap_err().to_string();
        assert_eq!(empty, "gate.json:1: a figure of no runs");
    }

    #[test]
    fn each_benchmark_has_its_file() {
        assert_eq!(file_of("dtl speed").as_deref(), Some("dtl-speed.jsonl"));
        assert_eq!(file_of("../x"), None);
        assert_eq!(file_of(""), None);
    }
}
