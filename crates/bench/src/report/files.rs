//! The folder of runs, the spec and the page on disk.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::args::{RecordArgs, ReportArgs};
use super::error::ReportError;
use super::record::{Origin, file_of, runs_of};
use super::run::{Run, read};
use super::spec::Spec;

/// How many lines of a difference are shown.
const SHOWN: usize = 6;

/// Writes the page, or compares it with `--check`. Gives what to say about it.
///
/// # Errors
/// A file that cannot be used, a line that is no run, a row without runs, or a page that differs.
pub(crate) fn write_page(args: &ReportArgs) -> Result<String, ReportError> {
    let spec = Spec::read(&args.spec, &text_of(&args.spec)?)?;
    let runs = runs_in(&args.results)?;
    let page = super::report(&spec, &runs)?;
    let shown = args.page.display();
    if args.check {
        compare(&args.page, &text_of(&args.page)?, &page)?;
        return Ok(format!("{shown} is what {} runs give", runs.len()));
    }
    fs::write(&args.page, &page).map_err(|error| ReportError::file(&args.page, error))?;
    Ok(format!(
        "{shown}: {} lines from {} runs",
        page.lines().count(),
        runs.len()
    ))
}

/// Adds a benchmark's figures to the runs. Gives what to say about it.
///
/// # Errors
/// A file that cannot be used, a line that is no figure, or a benchmark whose name makes no file's.
pub(crate) fn record(args: &RecordArgs) -> Result<String, ReportError> {
    let origin = Origin {
        build: &args.build,
        host: &args.host,
        date: args.date.unwrap_or_else(|| jiff::Zoned::now().date()),
    };
    let runs = runs_of(&args.figures, &text_of(&args.figures)?, &origin)?;
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for run in &runs {
        let name = file_of(&run.bench).ok_or_else(|| {
            let why = format!("`{}` cannot be a file's name", run.bench);
            ReportError::file(&args.figures, why)
        })?;
        let line =
            serde_json::to_string(run).map_err(|error| ReportError::file(&args.figures, error))?;
        let text = files.entry(args.results.join(name)).or_default();
        text.push_str(&line);
        text.push('\n');
    }
    for (path, text) in &files {
        // What would be appended has to be readable again.
        read(&args.figures, text)?;
        append(path, text).map_err(|error| ReportError::file(path, error))?;
    }
    let names: Vec<String> = files
        .keys()
        .map(|path| path.display().to_string())
        .collect();
    Ok(format!("{} runs added to {}", runs.len(), names.join(", ")))
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// All runs of a folder, file by file in the order of their names.
fn runs_in(folder: &Path) -> Result<Vec<Run>, ReportError> {
    let failed = |error: std::io::Error| ReportError::file(folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut runs = Vec::new();
    for path in paths {
        runs.extend(read(&path, &text_of(&path)?)?);
    }
    Ok(runs)
}

fn text_of(path: &Path) -> Result<String, ReportError> {
    fs::read_to_string(path).map_err(|error| ReportError::file(path, error))
}

/// Fails with the first lines that differ.
fn compare(path: &Path, is: &str, should: &str) -> Result<(), ReportError> {
    if is == should {
        return Ok(());
    }
    let (mut old, mut new) = (is.lines(), should.lines());
    let (mut lines, mut first) = (Vec::new(), 0);
    for number in 1.. {
        let (old, new) = (old.next(), new.next());
        if (old, new) == (None, None) || lines.len() >= SHOWN {
            break;
        }
        if old != new {
            first = if lines.is_empty() { number } else { first };
            lines.extend(old.map(|line| format!("- {line}")));
            lines.extend(new.map(|line| format!("+ {line}")));
        }
    }
    Err(ReportError::Differs {
        path: path.to_owned(),
        line: first.max(1),
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: &str = r#"{"schema":"ringway.bench/1","bench":"gate","case":"c","metric":"m","value":2.0,"unit":"Gbit/s","baseline":null,"runs":1,"deviation":0.0}"#;
    const SPEC: &str = "title = \"T\"\nintro = \"I\"\n[[engine]]\ntitle = \"E\"\nbench = \"gate\"\n[[engine.row]]\naim = \"A\"\nmetric = \"m\"\nmeasured = [{ case = \"c\" }]\ncommand = \"\"\n";

    fn set_up() -> (tempfile::TempDir, ReportArgs, RecordArgs) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("report.toml"), SPEC).unwrap();
        fs::write(path("gate.json"), format!("{FIGURE}\n")).unwrap();
        fs::write(path("dtl.runs"), "no runs of ours\n").unwrap();
        let report = ReportArgs {
            check: false,
            results: folder.path().to_owned(),
            spec: path("report.toml"),
            page: path("page.md"),
        };
        let record = RecordArgs {
            figures: path("gate.json"),
            build: "abc".into(),
            host: "h".into(),
            date: None,
            results: folder.path().to_owned(),
        };
        (folder, report, record)
    }

    #[test]
    fn recorded_figures_come_into_the_page() {
        let (folder, mut report, args) = set_up();
        record(&args).unwrap();
        assert!(record(&args).unwrap().starts_with("1 runs added"));
        let kept = fs::read_to_string(folder.path().join("gate.jsonl")).unwrap();
        assert_eq!(kept.lines().count(), 2);
        write_page(&report).unwrap();
        let page = fs::read_to_string(&report.page).unwrap();
        assert!(
            page.contains("| A | 2 Gbit/s | – | 2, ± 0 % | – |"),
            "{page}"
        );
        report.check = true;
        write_page(&report).unwrap();
        fs::write(&report.page, page.replace("2 Gbit/s", "3 Gbit/s")).unwrap();
        let error = write_page(&report).unwrap_err().to_string();
        assert!(error.contains("page.md:10: the page is not"), "{error}");
        assert!(error.contains("\n- | A | 3 Gbit/s"), "{error}");
        assert!(error.contains("\n+ | A | 2 Gbit/s"), "{error}");
    }

    #[test]
    fn build_without_a_name_keeps_nothing() {
        let (folder, _, mut args) = set_up();
        args.build = String::new();
        let error = record(&args).unwrap_err().to_string();
        assert!(error.contains("need a text"), "{error}");
        assert!(!folder.path().join("gate.jsonl").exists());
    }

    #[test]
    fn a_page_that_is_cut_short_differs() {
        let error = compare(Path::new("p"), "a\n", "a\nb\n").unwrap_err();
        let wanted =
            "p:2: the page is not what the runs give\n+ b\nwrite it with `ringway-bench report`";
        assert_eq!(error.to_string(), wanted);
        let no_end = compare(Path::new("p"), "a", "a\n").unwrap_err();
        assert!(no_end.to_string().starts_with("p:1: "), "{no_end}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let (_folder, mut report, _) = set_up();
        report.spec = PathBuf::from("/nowhere/report.toml");
        let error = write_page(&report).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/report.toml: "), "{error}");
    }
}
