//! The page, as Markdown.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

use super::error::ReportError;
use super::number::{bare, span, with_unit};
use super::run::Run;
use super::select::{Median, Wanted, median_of};
use super::spec::{Better, Engine, Pick, Row, Spec};

/// What stands first in the page.
const GENERATED: &str = "<!-- Made by `ringway-bench report` from benches/results/*.jsonl and \
                         benches/report.toml. -->";
/// The head of each table.
const HEAD: &str = "| aim | measured | peer | runs, spread | command |\n|---|---|---|---|---|\n";
/// The most builds that a section names.
const NAMED: usize = 2;
/// The widest line of prose, in columns.
const WIDTH: usize = 100;

/// The whole page.
pub(super) fn write(spec: &Spec, runs: &[Run]) -> Result<String, ReportError> {
    let mut text = format!("{GENERATED}\n# {}\n\n{}\n", spec.title, spec.intro.trim());
    let mut shown: Vec<Shown<'_>> = Vec::new();
    let mut reasons = false;
    for engine in &spec.engines {
        if engine.level <= 2 {
            text.push_str(&origin(&shown, reasons));
            shown.clear();
        }
        let rows = engine.rows.iter();
        let rows = rows.map(|row| Shown::of(spec, engine, row, runs));
        let rows: Vec<Shown<'_>> = rows.collect::<Result<_, _>>()?;
        text.push_str(&section(engine, &rows));
        shown.extend(rows);
        reasons = !engine.missed.is_empty();
    }
    text.push_str(&origin(&shown, reasons));
    Ok(text)
}

/// A heading, its table, and what belongs to it.
fn section(engine: &Engine, shown: &[Shown<'_>]) -> String {
    let mut parts = vec![format!("{} {}", "#".repeat(engine.level), engine.title)];
    if !engine.intro.is_empty() {
        parts.push(engine.intro.trim().to_owned());
    }
    if !shown.is_empty() {
        let rows: String = shown.iter().map(Shown::line).collect();
        parts.push(format!("{HEAD}{}", rows.trim_end()));
    }
    if !engine.missed.is_empty() {
        parts.push(engine.missed.trim().to_owned());
    }
    format!("\n{}\n", parts.join("\n\n"))
}

/// A figure of a row, with its runs.
struct Found<'a> {
    pick: &'a Pick,
    medians: Vec<Median>,
}

/// What a value has to reach.
#[derive(Clone, Copy, Debug, Default)]
struct Aim {
    least: Option<f64>,
    most: Option<f64>,
}

impl Aim {
    /// The row's own, or that of the best peer.
    fn of(row: &Row, peer: &[Found<'_>]) -> Aim {
        let values = peer.iter().flat_map(|found| &found.medians);
        let values = values.map(|median| median.value);
        match row.as_peers {
            None => Aim {
                least: row.at_least,
                most: row.at_most,
            },
            Some(Better::More) => Aim {
                least: values.reduce(f64::max),
                most: None,
            },
            Some(Better::Less) => Aim {
                least: None,
                most: values.reduce(f64::min),
            },
        }
    }

    /// Whether there is anything to reach.
    fn is_some(self) -> bool {
        self.least.is_some() || self.most.is_some()
    }

    fn reached(self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

/// A row with its runs.
struct Shown<'a> {
    row: &'a Row,
    goal: Aim,
    measured: Vec<Found<'a>>,
    peer: Vec<Found<'a>>,
}

impl<'a> Shown<'a> {
    fn of(
        spec: &Spec,
        engine: &Engine,
        row: &'a Row,
        runs: &[Run],
    ) -> Result<Shown<'a>, ReportError> {
        let found = |picks: &'a [Pick]| -> Result<Vec<Found<'a>>, ReportError> {
            let found = picks
                .iter()
                .map(|pick| find(spec, engine, (row, pick), runs));
            found.collect()
        };
        let (measured, peer) = (found(&row.measured)?, found(&row.peer)?);
        Ok(Shown {
            row,
            goal: Aim::of(row, &peer),
            measured,
            peer,
        })
    }

    fn line(&self) -> String {
        let cells = [
            self.aim(),
            self.values(&self.measured, true),
            self.values(&self.peer, false),
            spread(&self.measured),
            command(&self.row.command),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.join(" | "))
    }

    /// What is aimed at, with its number.
    fn aim(&self) -> String {
        let what = self.row.aim.get_ref();
        let judged = self.measured.iter().find(|found| !found.pick.aside);
        let first = judged.and_then(|found| found.medians.first().map(|median| (found, median)));
        match self.row.as_peers {
            Some(Better::More) => return format!("{what}: ≥ the best peer"),
            Some(Better::Less) => return format!("{what}: ≤ the best peer"),
            None => {}
        }
        let Some((found, median)) = first.filter(|_| self.goal.is_some()) else {
            return what.clone();
        };
        let shown = shown_unit(self.row, found.pick, median);
        let number = |value: f64| with_unit(value, &median.unit, shown);
        match (self.goal.least, self.goal.most) {
            (Some(least), Some(most)) => {
                format!("{what}: {} to {}", bare(least, &median.unit), number(most))
            }
            (Some(least), None) => format!("{what}: ≥ {}", number(least)),
            (None, Some(most)) => format!("{what}: ≤ {}", number(most)),
            (None, None) => what.clone(),
        }
    }

    /// The values of one cell; what reaches the aim is bold. A unit stands behind the last of those
    /// that share it.
    fn values(&self, all: &[Found<'_>], judged: bool) -> String {
        if all.is_empty() {
            return "–".to_owned();
        }
        let units: Vec<Option<(&str, &str)>> = all.iter().map(|found| self.unit(found)).collect();
        let texts = all.iter().zip(units.iter().skip(1).chain([&None]));
        let texts = texts.map(|(found, next)| {
            let judged = judged && self.goal.is_some() && !found.pick.aside;
            let value = self.value(found, judged, self.unit(found) != *next);
            match found.pick.label.as_str() {
                "" => value,
                label => format!("{label} {value}"),
            }
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The unit in the data, and as it is shown.
    fn unit<'b>(&'b self, found: &'b Found<'_>) -> Option<(&'b str, &'b str)> {
        let first = found.medians.first()?;
        Some((&first.unit, shown_unit(self.row, found.pick, first)))
    }

    fn value(&self, found: &Found<'_>, judged: bool, ends: bool) -> String {
        let (Some(first), Some((unit, shown))) = (found.medians.first(), self.unit(found)) else {
            return String::new();
        };
        let number = |value: f64| match ends {
            true => with_unit(value, unit, shown),
            false => bare(value, unit),
        };
        let reached = found
            .medians
            .iter()
            .filter(|m| self.goal.reached(m.value))
            .count();
        let bold = |text: String, bold: bool| if bold { format!("**{text}**") } else { text };
        if found.pick.each.is_empty() {
            return bold(number(first.value), judged && reached == 1);
        }
        let values = found.medians.iter().map(|median| median.value);
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let low = bare(least, unit);
        let range = match low == bare(most, unit) {
            true => number(most),
            false => format!("{low} to {}", number(most)),
        };
        if !judged {
            return range;
        }
        let count = found.medians.len();
        let tally = bold(format!("{reached} of {count}"), reached == count);
        format!("{tally} ({range})")
    }
}

/// The unit that stands behind a value.
fn shown_unit<'a>(row: &'a Row, pick: &'a Pick, median: &'a Median) -> &'a str {
    let said = pick.unit.as_deref().or(row.unit.as_deref());
    said.unwrap_or(match median.unit.as_str() {
        "ratio" | "share" => "",
        unit => unit,
    })
}

/// The runs of a figure.
fn find<'a>(
    spec: &Spec,
    engine: &Engine,
    (row, pick): (&Row, &'a Pick),
    runs: &[Run],
) -> Result<Found<'a>, ReportError> {
    let bench = pick.bench.as_deref().unwrap_or(&engine.bench);
    let metric = pick.metric.as_deref().or(row.metric.as_deref());
    let cases = pick.cases();
    let medians = cases.iter().map(|case| {
        let wanted = Wanted {
            bench,
            case,
            metric: metric.unwrap_or_default(),
            unit: pick.of.as_deref().or(row.of.as_deref()),
            baseline: pick.baseline.as_deref(),
        };
        median_of(runs, wanted).ok_or_else(|| {
            let name = row.aim.get_ref();
            let unit = wanted
                .unit
                .map_or(String::new(), |unit| format!(", {unit}"));
            let why = format!(
                "`{name}` of `{}` finds no run: {bench} · {case} · {}{unit}",
                engine.title, wanted.metric
            );
            spec.error(row, why)
        })
    });
    Ok(Found {
        pick,
        medians: medians.collect::<Result<_, _>>()?,
    })
}

/// How many runs, and how far the farthest is from the median.
fn spread(measured: &[Found<'_>]) -> String {
    let judged = measured.iter().filter(|found| !found.pick.aside);
    let medians: Vec<&Median> = judged.flat_map(|found| &found.medians).collect();
    let counts = medians.iter().map(|median| median.runs);
    let (Some(least), Some(most)) = (counts.clone().min(), counts.max()) else {
        return "–".to_owned();
    };
    let runs = span((least.to_string(), most.to_string()));
    let deviations = medians.iter().filter_map(|median| median.deviation);
    let low = deviations.clone().fold(f64::INFINITY, f64::min);
    let high = deviations.fold(0.0, f64::max);
    if low.is_infinite() {
        return runs;
    }
    let per_cent = |share: f64| format!("{:.0}", share * 100.0);
    format!("{runs}, ± {} %", span((per_cent(low), per_cent(high))))
}

fn command(command: &str) -> String {
    match command {
        "" => "–".to_owned(),
        command => format!("`{command}`"),
    }
}

/// Which builds the figures of a section are of, and where they were measured; nothing of no rows.
/// It goes on with the paragraph of reasons, if there is one.
fn origin(shown: &[Shown<'_>], reasons: bool) -> String {
    let found = shown
        .iter()
        .flat_map(|row| row.measured.iter().chain(&row.peer));
    let mut builds: BTreeMap<&str, BTreeSet<(Date, &str)>> = BTreeMap::new();
    for median in found.flat_map(|found| &found.medians) {
        let of_host = builds.entry(&median.host).or_default();
        of_host.insert((median.date, &median.build));
    }
    if builds.is_empty() {
        return String::new();
    }
    let hosts = builds
        .iter()
        .map(|(host, builds)| format!("on {host}: {}", named(builds)));
    let text = format!("Measured {}.", hosts.collect::<Vec<_>>().join("; "));
    let gap = if reasons { "" } else { "\n" };
    format!("{gap}{}\n", wrapped(&text))
}

/// The builds, or how many there are.
fn named(builds: &BTreeSet<(Date, &str)>) -> String {
    let (Some((first, _)), Some((last, _))) = (builds.first(), builds.last()) else {
        return String::new();
    };
    if builds.len() > NAMED {
        return format!("{} builds, {first} to {last}", builds.len());
    }
    let builds = builds
        .iter()
        .map(|(date, build)| format!("{build} ({date})"));
    builds.collect::<Vec<_>>().join(", ")
}

/// The words in lines of at most [`WIDTH`] columns.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn run(case: &str, value: f64, unit: &str, more: Option<(u32, f64)>) -> Run {
        Run {
            bench: "b".into(),
            case: case.into(),
            metric: "m".into(),
            value,
            unit: unit.into(),
            baseline: None,
            runs: more.map(|(runs, _)| runs),
            deviation: more.map(|(_, deviation)| deviation),
            build: "abc".into(),
            host: "a machine".into(),
            date: "2026-11-28".parse().unwrap(),
        }
    }

    fn page(rows: &str, runs: &[Run]) -> Result<String, ReportError> {
        let head = "title = \"T\"\nintro = \"I\"\n[[engine]]\ntitle = \"E\"\nbench = \"b\"\nmissed = \"why\"\n";
        let spec = Spec::read(Path::new("r.toml"), &format!("{head}{rows}"))?;
        write(&spec, runs)
    }

    fn row(rows: &str, runs: &[Run]) -> String {
        let page = page(rows, runs).unwrap();
        let row = page.lines().rfind(|line| line.starts_with("| "));
        row.unwrap_or_default().to_owned()
    }

    #[test]
    fn a_page_has_heading_table_origin_and_reasons() {
        let rows = "[[engine.row]]\naim = \"A\"\nat_least = 1.0\nmetric = \"m\"\nmeasured = [{ case = \"c\" }]\npeer = [{ label = \"peer\", case = \"p\" }]\ncommand = \"make x\"\n";
        let runs = [
            run("c", 1.5, "Gbit/s", Some((5, 0.07))),
            run("p", 1.0, "Gbit/s", None),
        ];
        let wanted = format!(
            "{GENERATED}\n# T\n\nI\n\n## E\n\n{HEAD}| A: ≥ 1 Gbit/s | **1.5 Gbit/s** | peer 1 Gbit/s | 5, ± 7 % | `make x` |\n\n\
             why\nMeasured on a machine: abc (2026-11-28).\n"
        );
        assert_eq!(page(rows, &runs).unwrap(), wanted);
    }

    #[test]
    fn what_is_not_reached_is_not_bold() {
        let rows = "[[engine.row]]\naim = \"A\"\nat_most = 1.0\nmetric = \"m\"\nmeasured = [{ label = \"user\", case = \"c\" }, { label = \"kernel\", case = \"d\" }, { case = \"e\", aside = true }]\ncommand = \"\"\n";
        let runs = [
            run("c", 1.5, "s", Some((3, 0.1))),
            run("d", 0.5, "s", Some((5, 0.2))),
            run("e", 0.1, "ms", None),
        ];
        let wanted =
            "| A: ≤ 1 s | user 1.5, kernel **0.5 s**, 0.1 ms | – | 3 to 5, ± 10 to 20 % | – |";
        assert_eq!(row(rows, &runs), wanted);
    }

    #[test]
    fn the_best_peer_may_be_the_aim() {
        let runs = [("c", 2.0), ("p", 1.0), ("q", 3.0)].map(|(case, v)| run(case, v, "s", None));
        let rows = |better: &str, case: &str| {
            format!(
                "[[engine.row]]\naim = \"A\"\nas_peers = \"{better}\"\nmetric = \"m\"\nmeasured = [{{ case = \"{case}\" }}]\npeer = [{{ label = \"p\", case = \"p\" }}, {{ label = \"q\", case = \"q\" }}]\ncommand = \"\"\n"
            )
        };
        let less = row(&rows("less", "c"), &runs);
        assert_eq!(less, "| A: ≤ the best peer | 2 s | p 1, q 3 s | 1 | – |");
        let more = row(&rows("more", "q"), &runs);
        assert_eq!(
            more,
            "| A: ≥ the best peer | **3 s** | p 1, q 3 s | 1 | – |"
        );
    }

    #[test]
    fn many_cases_are_counted() {
        let rows = "[[engine.row]]\naim = \"A\"\nat_least = 0.9\nat_most = 1.1\nmetric = \"m\"\nunit = \"of NAT\"\nof = \"ratio\"\nmeasured = [{ case = \"{} c\", each = [\"1\", \"2\"] }]\ncommand = \"\"\n";
        let runs = [
            run("1 c", 1.0, "ratio", None),
            run("2 c", 1.2, "ratio", None),
        ];
        let wanted = "| A: 0.9 to 1.1 of NAT | 1 of 2 (1 to 1.2 of NAT) | – | 1 | – |";
        assert_eq!(row(rows, &runs), wanted);
    }

    #[test]
    fn a_row_that_finds_no_run_is_named() {
        let rows = "[[engine.row]]\naim = \"A\"\nmetric = \"m\"\nof = \"ratio\"\nmeasured = [{ case = \"c\" }]\ncommand = \"\"\n";
        let error = page(rows, &[]).unwrap_err().to_string();
        assert_eq!(error, "r.toml:8: `A` of `E` finds no run: b · c · m, ratio");
    }

    #[test]
    fn many_builds_are_counted() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        let mut builds: BTreeSet<(Date, &str)> =
            ["a", "b"].map(|build| (day("2026-11-28"), build)).into();
        assert!(
            named(&builds).starts_with("a (2026-11-28), b "),
            "{builds:?}"
        );
        builds.insert((day("2026-11-22"), "d"));
        assert_eq!(named(&builds), "3 builds, 2026-11-22 to 2026-11-28");
    }

    #[test]
    fn long_lines_are_wrapped() {
        let text = wrapped(&"word ".repeat(50));
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3);
    }
}
