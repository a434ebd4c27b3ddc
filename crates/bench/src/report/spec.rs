//! What the page has: `benches/report.toml`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::error::ReportError;

/// The page, in the order of its parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    /// The heading of the page.
    pub(super) title: String,
    /// What stands first, as Markdown.
    pub(super) intro: String,
    /// Its sections.
    #[serde(rename = "engine")]
    pub(super) engines: Vec<Engine>,
    /// The file, for errors.
    #[serde(skip)]
    pub(super) path: PathBuf,
    /// Its text, for the lines of errors.
    #[serde(skip)]
    text: String,
}

/// A section: one table and what belongs to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    /// The heading.
    pub(super) title: String,
    /// The heading's level, 2 or 3.
    #[serde(default = "second")]
    pub(super) level: usize,
    /// The benchmark of its rows.
    #[serde(default)]
    pub(super) bench: String,
    /// How it is measured, as Markdown.
    #[serde(default)]
    pub(super) intro: String,
    /// The rows of its table; none: no table.
    #[serde(default, rename = "row")]
    pub(super) rows: Vec<Row>,
    /// What is not reached and why, as Markdown.
    #[serde(default)]
    pub(super) missed: String,
}

/// A row of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    /// What is aimed at, without the number.
    pub(super) aim: Spanned<String>,
    /// The least value that reaches the aim.
    pub(super) at_least: Option<f64>,
    /// The greatest value that reaches the aim.
    pub(super) at_most: Option<f64>,
    /// The aim is to be as good as the best peer of the row.
    pub(super) as_peers: Option<Better>,
    /// The unit as it is shown; that of the data if it is not said.
    pub(super) unit: Option<String>,
    /// The metric of all figures of the row.
    pub(super) metric: Option<String>,
    /// The unit that the runs have in the data.
    pub(super) of: Option<String>,
    /// The figures that are measured.
    pub(super) measured: Vec<Pick>,
    /// What they are measured beside.
    #[serde(default)]
    pub(super) peer: Vec<Pick>,
    /// How to measure it again.
    pub(super) command: String,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    /// The greater one.
    More,
    /// The smaller one.
    Less,
}

/// A figure of a row, or a list of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pick {
    /// What stands before the value.
    pub(super) label: String,
    /// The benchmark; the section's if it is not said.
    pub(super) bench: Option<String>,
    /// The case; `{}` stands for each of `each`, `{by}` for each of `by`.
    pub(super) case: String,
    /// The metric; the row's if it is not said.
    pub(super) metric: Option<String>,
    /// The unit in the data; the row's if it is not said.
    pub(super) of: Option<String>,
    /// The baseline, where a figure has several.
    pub(super) baseline: Option<String>,
    /// The unit as it is shown; the row's if it is not said.
    pub(super) unit: Option<String>,
    /// It is shown beside the others, and has no aim.
    pub(super) aside: bool,
    /// Cases that are shown as one: how many reach the aim, the least and the greatest.
    pub(super) each: Vec<String>,
    /// With `each`: what else varies.
    pub(super) by: Vec<String>,
}

impl Pick {
    /// All its cases.
    pub(super) fn cases(&self) -> Vec<String> {
        let one = [String::new()];
        let list = |all: &[String]| {
            if all.is_empty() {
                one.to_vec()
            } else {
                all.to_vec()
            }
        };
        let each = list(&self.each).into_iter();
        let cases = each.flat_map(|each| {
            let by = list(&self.by).into_iter();
            by.map(move |by| self.case.replace("{by}", &by).replace("{}", &each))
        });
        cases.collect()
    }

    /// Whether what varies stands in its case.
    fn is_whole(&self) -> bool {
        self.case.contains("{}") != self.each.is_empty()
            && self.case.contains("{by}") != self.by.is_empty()
            && (self.by.is_empty() || !self.each.is_empty())
    }
}

impl Spec {
    /// The spec in this text.
    ///
    /// # Errors
    /// What is no TOML, or has an unknown or a missing field, with its line.
    pub(super) fn read(path: &Path, text: &str) -> Result<Spec, ReportError> {
        let spec: Spec = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ReportError::line(path, line_of(text, at), error.message())
        })?;
        let spec = Spec {
            path: path.to_owned(),
            text: text.to_owned(),
            ..spec
        };
        match spec.fault() {
            None => Ok(spec),
            Some((row, why)) => Err(spec.error(row, why)),
        }
    }

    /// The first row that cannot be shown.
    fn fault(&self) -> Option<(&Row, &'static str)> {
        let mut rows = self.engines.iter().flat_map(|engine| &engine.rows);
        rows.find_map(|row| row.fault().map(|why| (row, why)))
    }

    /// An error at a row of it.
    pub(super) fn error(&self, row: &Row, why: impl std::fmt::Display) -> ReportError {
        let line = line_of(&self.text, row.aim.span().start);
        ReportError::line(&self.path, line, why)
    }
}

impl Row {
    fn fault(&self) -> Option<&'static str> {
        if self.measured.is_empty() {
            return Some("a row shows at least one figure in `measured`");
        }
        let mut picks = self.measured.iter().chain(&self.peer);
        if picks.any(|pick| !pick.is_whole()) {
            return Some("a case has `{}` for `each` and `{by}` for `by`, and only then");
        }
        if self.as_peers.is_some()
            && (self.peer.is_empty() || self.at_least.is_some() || self.at_most.is_some())
        {
            return Some("`as_peers` needs peers, and no other aim");
        }
        None
    }
}

fn second() -> usize {
    2
}

/// The line, from 1 on, of a byte of the text.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before
        .filter(|byte| **byte == b'\n')
        .count()
        .saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = \"T\"\nintro = \"I\"\n[[engine]]\ntitle = \"E\"\nbench = \"b\"\n";

    fn read(rest: &str) -> Result<Spec, ReportError> {
        Spec::read(Path::new("report.toml"), &format!("{HEAD}{rest}"))
    }

    #[test]
    fn a_spec_has_sections_and_rows() {
        let row = "[[engine.row]]\naim = \"A\"\nat_least = 0.5\nmeasured = [{ case = \"c\", metric = \"m\" }]\ncommand = \"x\"\n";
        let spec = read(row).unwrap();
        let row = &spec.engines[0].rows[0];
        assert_eq!((spec.engines[0].level, row.measured.len()), (2, 1));
        assert_eq!(row.at_least, Some(0.5));
        let error = spec.error(row, "why").to_string();
        assert_eq!(error, "report.toml:7: why");
    }

    #[test]
    fn what_varies_is_multiplied_out() {
        let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect();
        let pick = Pick {
            case: "{} x {by}".into(),
            each: words(&["1", "2"]),
            by: words(&["a", "b"]),
            ..Pick::default()
        };
        assert!(pick.is_whole());
        assert_eq!(pick.cases(), ["1 x a", "1 x b", "2 x a", "2 x b"]);
        let plain = Pick {
            case: "c".into(),
            ..Pick::default()
        };
        assert_eq!((plain.cases(), plain.is_whole()), (words(&["c"]), true));
        let alone = Pick {
            each: Vec::new(),
            ..pick
        };
        assert!(!alone.is_whole());
    }

    #[test]
    fn as_peers_without_peers_is_refused() {
        let row = "[[engine.row]]\naim = \"A\"\nas_peers = \"more\"\nmeasured = [{ case = \"c\" }]\ncommand = \"\"\n";
        let error = read(row).unwrap_err().to_string();
        assert_eq!(
            error,
            "report.toml:7: `as_peers` needs peers, and no other aim"
        );
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line() {
        let error = read("[[engine.row]]\naimm = \"A\"\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("report.toml:7: unknown field `aimm`"),
            "{error}"
        );
    }

    #[test]
    fn a_row_without_figures_is_refused() {
        let error = read("[[engine.row]]\naim = \"A\"\nmeasured = []\ncommand = \"\"\n");
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("report.toml:7: a row shows"), "{error}");
        let row = "[[engine.row]]\naim = \"A\"\nmeasured = [{ case = \"a {}\" }]\ncommand = \"\"\n";
        let error = read(row).unwrap_err().to_string();
        assert!(error.contains("`{}` for `each`"), "{error}");
    }
}
