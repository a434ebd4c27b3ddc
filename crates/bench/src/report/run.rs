//! One run of a benchmark, as a line of `benches/results/*.jsonl`.

use std::path::Path;

use jiff::civil::Date;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::ReportError;

/// What one run measured; or several runs of one day, of which only the median is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// The benchmark, such as `gate`.
    pub(crate) bench: String,
    /// What was done, in the benchmark's own words.
    pub(crate) case: String,
    /// What was measured.
    pub(crate) metric: String,
    /// The value, or the median of all runs.
    pub(crate) value: f64,
    /// Its unit; `ratio` if the value is a multiple of the baseline's, `share` if it is a part of
    /// one.
    pub(crate) unit: String,
    /// The case that it is compared with.
    pub(crate) baseline: Option<String>,
    /// How many runs the value is the median of; one if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<u32>,
    /// Largest distance of a run from the median, as a share of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deviation: Option<f64>,
    /// The commit, or the digest of the source, that was measured.
    pub(crate) build: String,
    /// The machine.
    pub(crate) host: String,
    /// The day of the measurement, or the day on which the figure was written down.
    #[serde(serialize_with = "write_day", deserialize_with = "read_day")]
    pub(crate) date: Date,
}

impl Run {
    /// How many runs it stands for.
    pub(super) fn count(&self) -> u32 {
        self.runs.unwrap_or(1)
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<&'static str> {
        let words = [
            &self.bench,
            &self.case,
            &self.metric,
            &self.build,
            &self.host,
        ];
        if words.iter().any(|word| word.trim().is_empty()) {
            return Some("bench, case, metric, build and host need a text");
        }
        if self.runs == Some(0) {
            return Some("`runs` is at least 1");
        }
        if self.deviation.is_some_and(|deviation| deviation < 0.0) {
            return Some("`deviation` is a share of the median, and not below 0");
        }
        None
    }
}

fn write_day<S: Serializer>(day: &Date, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(day)
}

fn read_day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Date, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|_| de::Error::custom(format_args!("`{text}` is no day: YYYY-MM-DD is wanted")))
}

/// The runs of a file.
///
/// # Errors
/// The first line that is no run.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Run>, ReportError> {
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    let runs = lines.map(|(line, number)| {
        let run: Run = serde_json::from_str(line)
            .map_err(|error| ReportError::line(path, number, without_place(&error)))?;
        match run.fault() {
            None => Ok(run),
            Some(why) => Err(ReportError::line(path, number, why)),
        }
    });
    runs.collect()
}

/// The message without its "at line 1 column 7": the line is that of the file.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"bench":"gate","case":"c","metric":"m","value":1.5,"unit":"Gbit/s","baseline":null,"build":"abc","host":"h","date":"2026-11-28"}"#;

    fn fault(line: &str) -> String {
        let text = format!("{GOOD}\n\n{line}\n");
        read(Path::new("r.jsonl"), &text).unwrap_err().to_string()
    }

    #[test]
    fn a_run_survives_writing_and_reading() {
        let runs = read(Path::new("r"), GOOD).unwrap();
        assert_eq!(runs[0].count(), 1);
        assert_eq!(serde_json::to_string(&runs[0]).unwrap(), GOOD);
        let several = Run {
            runs: Some(5),
            deviation: Some(0.07),
            ..runs[0].clone()
        };
        let text = serde_json::to_string(&several).unwrap();
        assert_eq!(read(Path::new("r"), &text).unwrap(), [several]);
    }

    #[test]
    fn a_bad_line_is_named_with_its_number() {
        assert!(fault("{").starts_with("r.jsonl:3: EOF"), "{}", fault("{"));
        let no_day = fault(&GOOD.replace("2026-11-28", "yesterday"));
        assert_eq!(
            no_day,
            "r.jsonl:3: `yesterday` is no day: YYYY-MM-DD is wanted"
        );
        let unknown = fault(&GOOD.replace("\"case\"", "\"caze\""));
        assert!(unknown.contains("unknown field `caze`"), "{unknown}");
    }

    #[test]
    fn a_run_without_meaning_is_refused() {
        let empty = fault(&GOOD.replace("\"abc\"", "\" \""));
        assert!(empty.contains("need a text"), "{empty}");
        let none = fault(&GOOD.replace("\"build\"", "\"runs\":0,\"build\""));
        assert!(none.contains("at least 1"), "{none}");
        let below = fault(&GOOD.replace("\"build\"", "\"deviation\":-0.1,\"build\""));
        assert!(below.contains("not below 0"), "{below}");
    }
}
