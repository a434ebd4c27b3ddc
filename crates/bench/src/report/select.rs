//! The runs of a row: of the latest build the median and the spread.

use jiff::civil::Date;

use super::run::Run;

/// Runs of one line that count for a median; no benchmark repeats anything more often.
const MOST: usize = 10_000;

/// What the runs of one figure come to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Median {
    /// The median.
    pub(super) value: f64,
    /// Its unit in the data.
    pub(super) unit: String,
    /// How many runs there were.
    pub(super) runs: u32,
    /// The farthest of them from the median, as a share of it; none of a single run.
    pub(super) deviation: Option<f64>,
    /// What was measured.
    pub(super) build: String,
    /// When the last of them was.
    pub(super) date: Date,
    /// Where.
    pub(super) host: String,
}

/// A figure by its names; what is not said may be anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) bench: &'a str,
    pub(super) case: &'a str,
    pub(super) metric: &'a str,
    pub(super) unit: Option<&'a str>,
    pub(super) baseline: Option<&'a str>,
}

impl Wanted<'_> {
    fn is(&self, run: &Run) -> bool {
        let unit = match self.unit {
            Some(unit) => run.unit == unit,
            // A multiple of the baseline is shown only where it is asked for.
            None => run.unit != "ratio",
        };
        let baseline = self.baseline;
        run.bench == self.bench
            && run.case == self.case
            && run.metric == self.metric
            && unit
            && baseline.is_none_or(|baseline| run.baseline.as_deref() == Some(baseline))
    }
}

/// The median of the runs of the latest build; `None` if there is no run.
///
/// The latest build is that of the latest day, and of several of that day the one that stands last
/// in its file.
pub(super) fn median_of(runs: &[Run], wanted: Wanted<'_>) -> Option<Median> {
    let same: Vec<&Run> = runs.iter().filter(|run| wanted.is(run)).collect();
    // `max_by_key` takes the last of equals.
    let latest = *same.iter().max_by_key(|run| run.date)?;
    let current: Vec<&Run> = same
        .into_iter()
        .filter(|run| run.build == latest.build && run.host == latest.host)
        .collect();
    // A line of several runs counts as often.
    let values = current.iter().flat_map(|run| {
        let count = usize::try_from(run.count()).unwrap_or(1);
        std::iter::repeat_n(run.value, count.min(MOST))
    });
    let value = median(&values.collect::<Vec<_>>())?;
    let count: u32 = current
        .iter()
        .map(|run| run.count())
        .fold(0, u32::saturating_add);
    Some(Median {
        value,
        unit: latest.unit.clone(),
        runs: count,
        deviation: spread(&current, value),
        build: latest.build.clone(),
        date: latest.date,
        host: latest.host.clone(),
    })
}

/// The farthest run from the median, with what each line says of the runs behind it.
fn spread(runs: &[&Run], median: f64) -> Option<f64> {
    if let [only] = runs {
        return only.deviation;
    }
    let distance = |run: &&Run| {
        let own = run.deviation.unwrap_or(0.0) * run.value.abs();
        (run.value - median).abs() + own
    };
    let farthest = runs.iter().map(distance).fold(0.0, f64::max);
    (median != 0.0).then(|| farthest / median.abs())
}

/// The middle of the values.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied()?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = sorted.get(middle.checked_sub(1)?).copied()?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: f64, build: &str, date: &str) -> Run {
        Run {
            bench: "b".into(),
            case: "c".into(),
            metric: "m".into(),
            value,
            unit: "s".into(),
            baseline: None,
            runs: None,
            deviation: None,
            build: build.into(),
            host: "h".into(),
            date: date.parse().unwrap(),
        }
    }

    const WANTED: Wanted<'static> = Wanted {
        bench: "b",
        case: "c",
        metric: "m",
        unit: None,
        baseline: None,
    };

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn several_runs_give_their_spread() {
        let runs = [9.0, 10.0, 12.0].map(|value| run(value, "x", "2026-11-01"));
        let found = median_of(&runs, WANTED).unwrap();
        assert_eq!((found.value, found.runs), (10.0, 3));
        assert!((found.deviation.unwrap() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn line_of_several_runs_keeps_its_spread() {
        let line = Run {
            runs: Some(5),
            deviation: Some(0.3),
            ..run(2.0, "x", "2026-11-01")
        };
        let found = median_of(&[line], WANTED).unwrap();
        assert_eq!((found.runs, found.deviation), (5, Some(0.3)));
        let alone = median_of(&[run(2.0, "x", "2026-11-01")], WANTED).unwrap();
        assert_eq!(alone.deviation, None);
        let zeros = [0.0, 0.0].map(|value| run(value, "x", "2026-11-01"));
        assert_eq!(median_of(&zeros, WANTED).unwrap().deviation, None);
    }

    #[test]
    fn line_counts_once_for_each_run() {
        let line = |value, runs| Run {
            runs: Some(runs),
            ..run(value, "x", "2026-11-01")
        };
        let found = median_of(&[line(0.8, 3), line(0.9, 2)], WANTED).unwrap();
        assert_eq!((found.value, found.runs), (0.8, 5));
        assert!((found.deviation.unwrap() - 0.125).abs() < 1e-9);
    }

    #[test]
    fn the_latest_build_wins() {
        let runs = [
            run(5.0, "new", "2026-11-03"),
            run(1.0, "old", "2026-11-01"),
            run(7.0, "new", "2026-11-02"),
        ];
        let found = median_of(&runs, WANTED).unwrap();
        assert_eq!((found.value, found.build.as_str()), (6.0, "new"));
        let same_day = [run(1.0, "a", "2026-11-01"), run(2.0, "b", "2026-11-01")];
        assert_eq!(median_of(&same_day, WANTED).unwrap().value, 2.0);
    }

    #[test]
    fn unit_and_baseline_tell_figures_apart() {
        let ratio = |value, baseline: &str| Run {
            unit: "ratio".into(),
            baseline: Some(baseline.into()),
            ..run(value, "x", "2026-11-01")
        };
        let runs = [
            run(9.0, "x", "2026-11-01"),
            ratio(0.5, "p"),
            ratio(0.25, "q"),
        ];
        assert_eq!(median_of(&runs, WANTED).unwrap().value, 9.0);
        let wanted = Wanted {
            unit: Some("ratio"),
            baseline: Some("q"),
            ..WANTED
        };
        assert_eq!(median_of(&runs, wanted).unwrap().value, 0.25);
        let other = Wanted {
            case: "d",
            ..WANTED
        };
        assert_eq!(median_of(&runs, other), None);
    }
}
