//! YARA rules, asked by YARA-X in this process.
//!
//! Rules are asked of each window while a file passes, and of the whole file with its last window,
//! if it is no longer than [`MAX_WHOLE`](crate::limits::MAX_WHOLE). Of a window they see the bytes
//! at their places in the file, but neither its size nor single numbers (`uint16(0)`) nor modules:
//! conditions with those hold of whole files only. A rule with the tag `whole` is asked of whole
//! files only; that is for those that tell by what is *not* there. Rules that windows answer
//! [completely](complete) are asked of windows only: if all are such, nothing is kept of files.

mod complete;
mod files;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use yara_x::errors::CompileError;
use yara_x::{Compiler, Rules, ScanResults, SourceCode, blocks};

use self::complete::Rest;
use self::files::Files;
use super::Scanner;
use crate::limits::{MAX_RULE_FILE, MAX_RULE_MATCHES, SCAN_OVERLAP, SCAN_TIMEOUT};
use crate::verdict::{ScanJob, Scanned};

/// Rules for test files, which are always there.
const TEST_RULES: &str = include_str!("../../../rules/test.yar");
/// The tag of rules that are asked of whole files only.
const WHOLE: &str = "whole";

/// What keeps rules from being used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", file.display(), place(*line))]
pub struct YaraFault {
    /// The file, or the folder that has none.
    pub file: PathBuf,
    /// The line, from 1; none where the file could not be read at all.
    pub line: Option<usize>,
    /// What is wrong with it, in one line.
    pub reason: String,
}

/// Rules that cannot be used: each fault of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YaraError(pub Vec<YaraFault>);

impl std::error::Error for YaraError {}

impl fmt::Display for YaraError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = self.0.first() {
            write!(formatter, "{fault}")?;
        }
        match self.0.len() {
            0 | 1 => Ok(()),
            count => write!(formatter, " (the first of {count} faults)"),
        }
    }
}

fn place(line: Option<usize>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

/// Compiled rules. They stay in memory for as long as the process runs.
#[derive(Clone, Copy, Debug)]
pub struct YaraRules {
    /// All of them.
    windows: &'static Rules,
    /// Those that windows do not answer completely; none if there are none.
    whole: Option<&'static Rules>,
}

impl YaraRules {
    /// Compiles the rules of these files, and of files that end in `.yar` or `.yara` in these
    /// folders, beside those for test files.
    ///
    /// # Errors
    /// A path cannot be read, or a rule is wrong; every fault is told.
    pub fn load(paths: &[PathBuf]) -> Result<Self, YaraError> {
        let (rules, sources) = compile(paths)?;
        let windows = keep(rules);
        let texts: Vec<_> = sources.iter().map(|(_, text)| text.as_str()).collect();
        let whole = match complete::rest(&texts, SCAN_OVERLAP) {
            Rest::All => Some(windows),
            Rest::These(texts) => Some(compile_rest(&sources, &texts).map_or(windows, keep)),
            Rest::Nothing => None,
        };
        Ok(Self { windows, whole })
    }

    /// Compiles them as [`load`](Self::load) does, for the faults alone; answers how many rules
    /// there are.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn check(paths: &[PathBuf]) -> Result<usize, YaraError> {
        Ok(compile(paths)?.0.iter().len())
    }

    /// How many rules there are, those for test files included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.windows.iter().len()
    }

    /// A scanner with these rules.
    #[must_use]
    pub fn scanner(&self) -> Yara {
        self.within(SCAN_TIMEOUT)
    }

    /// One whose looks may take so long.
    fn within(&self, time: Duration) -> Yara {
        Yara {
            rules: *self,
            time,
            windows: self.of_windows(time),
            whole: self.of_whole_files(time),
            files: Files::default(),
        }
    }

    fn of_windows(self, time: Duration) -> blocks::Scanner<'static> {
        let mut scanner = blocks::Scanner::new(self.windows);
        scanner
            .set_timeout(time)
            .max_matches_per_pattern(MAX_RULE_MATCHES)
            .fast_scan(true);
        scanner
    }

    fn of_whole_files(self, time: Duration) -> Option<yara_x::Scanner<'static>> {
        let mut scanner = yara_x::Scanner::new(self.whole?);
        scanner
            .set_timeout(time)
            .max_matches_per_pattern(MAX_RULE_MATCHES)
            .fast_scan(true);
        Some(scanner)
    }
}

/// A scanner borrows its rules and lives in a thread; rules are read once for each start.
fn keep(rules: Rules) -> &'static Rules {
    Box::leak(Box::new(rules))
}

/// A file and its text.
type Source = (PathBuf, String);

/// The rules for test files and those of these paths, a namespace for each file.
fn compile(paths: &[PathBuf]) -> Result<(Rules, Vec<Source>), YaraError> {
    let mut compiler = compiler();
    let mut faults = Vec::new();
    let mut sources = vec![(PathBuf::from("ringway"), TEST_RULES.to_owned())];
    faults.extend(add(&mut compiler, Path::new("ringway"), TEST_RULES));
    for path in paths {
        let files = files(path).unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        });
        for file in files {
            match read(&file) {
                Ok(text) => {
                    compiler.new_namespace(&file.display().to_string());
                    faults.extend(add(&mut compiler, &file, &text));
                    sources.push((file, text));
                }
                Err(fault) => faults.push(fault),
            }
        }
    }
    if faults.is_empty() {
        return Ok((compiler.build(), sources));
    }
    Err(YaraError(faults))
}

/// What is left of rules that compiled; none if it does not compile.
fn compile_rest(sources: &[Source], texts: &[String]) -> Option<Rules> {
    let mut compiler = compiler();
    for ((file, _), text) in sources.iter().zip(texts) {
        compiler.new_namespace(&file.display().to_string());
        if !add(&mut compiler, file, text).is_empty() {
            return None;
        }
    }
    Some(compiler.build())
}

fn compiler() -> Compiler<'static> {
    let mut compiler = Compiler::new();
    compiler.enable_includes(false);
    compiler
}

/// Adds a file's rules; answers what is wrong with them.
fn add(compiler: &mut Compiler<'_>, file: &Path, source: &str) -> Vec<YaraFault> {
    let before = compiler.errors().len();
    let code = SourceCode::from(source).with_origin(file.display().to_string());
    if compiler.add_source(code).is_ok() {
        return Vec::new();
    }
    let errors = compiler.errors().get(before..).unwrap_or_default();
    errors.iter().map(|error| fault(file, error)).collect()
}

/// The compiler's words, in one line. It tells the line in its JSON only.
fn fault(file: &Path, error: &CompileError) -> YaraFault {
    let report = serde_json::to_value(error).unwrap_or_default();
    let labels = report.get("labels").and_then(Value::as_array);
    let label = labels.and_then(|labels| {
        let is_error = |label: &&Value| label.get("level").is_some_and(|level| level == "error");
        labels.iter().find(is_error).or(labels.first())
    });
    let line = label
        .and_then(|label| label.get("line"))
        .and_then(Value::as_u64);
    let more = label
        .and_then(|label| label.get("text"))
        .and_then(Value::as_str);
    let mut reason = error.title().to_owned();
    if let Some(more) = more.filter(|more| !more.is_empty()) {
        reason.push_str(": ");
        reason.push_str(more);
    }
    YaraFault {
        file: file.to_owned(),
        line: line.and_then(|line| usize::try_from(line).ok()),
        reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Something about a whole file or folder.
fn unusable(file: &Path, reason: impl fmt::Display) -> YaraFault {
    YaraFault {
        file: file.to_owned(),
        line: None,
        reason: reason.to_string(),
    }
}

/// A file itself, or a folder's files of rules, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, YaraFault> {
    let unreadable = |error| unusable(path, error);
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("yar" | "yara")) {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(unusable(path, "no file ends in .yar or .yara"));
    }
    Ok(found)
}

fn read(file: &Path) -> Result<String, YaraFault> {
    use std::io::Read as _;
    let unreadable = |error| unusable(file, error);
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .map_err(unreadable)?
        .take(MAX_RULE_FILE.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    let long = u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_RULE_FILE);
    match String::from_utf8(bytes) {
        Ok(text) if !long => Ok(text),
        _ => Err(unusable(
            file,
            format_args!("no text, or more than {MAX_RULE_FILE} bytes"),
        )),
    }
}

/// A scanner of one thread.
pub struct Yara {
    rules: YaraRules,
    /// For each look.
    time: Duration,
    windows: blocks::Scanner<'static>,
    /// None if windows answer everything.
    whole: Option<yara_x::Scanner<'static>>,
    files: Files,
}

impl Yara {
    fn look(&mut self, job: &ScanJob) -> Result<Option<String>, String> {
        let whole = match self.whole {
            Some(_) => self.files.take_in(job),
            None => None,
        };
        let base = usize::try_from(job.at).map_err(|error| error.to_string())?;
        let found = self
            .windows
            .scan(base, &job.bytes)
            .and_then(|scanner| scanner.finish())
            .map_err(|error| error.to_string())?;
        if let Some(name) = first(&found, false) {
            return Ok(Some(name));
        }
        let (Some(whole), Some(scanner)) = (whole, &mut self.whole) else {
            return Ok(None);
        };
        let found = scanner.scan(&whole).map_err(|error| error.to_string())?;
        Ok(first(&found, true))
    }
}

impl std::fmt::Debug for Yara {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Yara").finish_non_exhaustive()
    }
}

impl Scanner for Yara {
    fn scan(&mut self, job: &ScanJob) -> Scanned {
        match self.look(job) {
            Ok(None) => Scanned::Clean,
            Ok(Some(name)) => {
                self.files.forget(job);
                Scanned::Found(name)
            }
            Err(error) => {
                self.files.forget(job);
                // One that has failed keeps its matches and its time that is over.
                self.windows = self.rules.of_windows(self.time);
                self.whole = self.rules.of_whole_files(self.time);
                Scanned::Failed(format!("YARA: {error}"))
            }
        }
    }
}

/// The first rule that holds.
fn first(found: &ScanResults<'_, '_>, whole: bool) -> Option<String> {
    found
        .matching_rules()
        .find(|rule| whole || !rule.tags().any(|tag| tag.identifier() == WHOLE))
        .map(|rule| rule.identifier().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::{Yara, YaraRules, compile_rest};
    use crate::flow::Direction;
    use crate::limits::SCAN_OVERLAP;
    use crate::scan::Scanner as _;
    use crate::verdict::{FlowId, ScanJob, Scanned};

    pub(super) fn job(flow: u64, bytes: usize, (first, last): (bool, bool)) -> ScanJob {
        ScanJob {
            flow: FlowId::of(flow),
            direction: Direction::FromServer,
            number: 1,
            bytes: vec![0; bytes],
            repeated: 0,
            at: 0,
            first,
            last,
            name: None,
        }
    }

    /// A rule whose condition counts for hours where its word is found.
    fn slow_condition(more: &str) -> String {
        format!(
            "rule slow {{ strings: $a = \"SLOW\" condition: $a and {more}
                for all i in (0..1000000000) : (for all j in (0..1000) : (i + j >= 0)) }}"
        )
    }

    /// A rule whose patterns nearly match at each place of a text of one letter.
    fn slow_patterns() -> String {
        let patterns = (1..=64).map(|count| format!("$ = \"aaaa{}\" ", "\\x00".repeat(count)));
        let patterns: String = patterns.collect();
        format!("rule slow {{ strings: {patterns} condition: any of them }}")
    }

    fn text(bytes: &[u8]) -> ScanJob {
        ScanJob {
            bytes: bytes.to_vec(),
            ..job(1, 0, (true, true))
        }
    }

    #[test]
    fn a_scanner_whose_time_was_over_answers_the_next_windows_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("slow.yar");
        let word = b"NEEDLE, and it is SLOW".to_vec();
        for (rule, slow) in [
            (slow_condition(""), word.clone()),
            // `filesize` is known of whole files only.
            (slow_condition("filesize > 0 and"), b"it is SLOW".to_vec()),
            (slow_patterns(), [word, vec![b'a'; 30_000_000]].concat()),
        ] {
            let needle = "rule needle { strings: $a = \"NEEDLE\" condition: $a }";
            std::fs::write(&file, format!("{rule}\n{needle}")).unwrap();
            let rules = YaraRules::load(std::slice::from_ref(&file)).unwrap();
            let mut scanner = rules.within(Duration::from_secs(1));
            for _ in 0..2 {
                let began = Instant::now();
                let scanned = scanner.scan(&text(&slow));
                let took = began.elapsed();
                match &scanned {
                    Scanned::Failed(why) => assert!(why.contains("timeout"), "{why}"),
                    other => panic!("{rule}: {other:?}"),
                }
                assert!(took < Duration::from_secs(20), "{took:?}");
                // Neither its matches nor its time are left over.
                assert_eq!(scanner.scan(&text(b"nothing")), Scanned::Clean);
                let found = scanner.scan(&text(b"a NEEDLE"));
                assert_eq!(found, Scanned::Found("needle".to_owned()));
                assert_eq!(scanner.scan(&text(b"nothing")), Scanned::Clean);
            }
        }
    }

    /// Two windows of one file, cut at this place.
    fn two_windows(file: &[u8], end: usize) -> [ScanJob; 2] {
        let from = end.saturating_sub(SCAN_OVERLAP);
        let first = ScanJob {
            bytes: file[..end].to_vec(),
            ..job(1, 0, (true, false))
        };
        let last = ScanJob {
            bytes: file[from..].to_vec(),
            repeated: end.min(SCAN_OVERLAP),
            at: u64::try_from(from).unwrap(),
            ..job(1, 0, (false, true))
        };
        [first, last]
    }

    fn scanner(rules: &str) -> Yara {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.yar");
        std::fs::write(&file, rules).unwrap();
        YaraRules::load(&[file]).unwrap().scanner()
    }

    #[test]
    fn nothing_is_kept_for_rules_that_windows_answer() {
        let mut scanner = scanner("rule needle { strings: $a = \"NEEDLE\" condition: $a }");
        let end = 2 * SCAN_OVERLAP;
        for before in 0..=7 {
            let mut file = vec![b'.'; 20_000];
            file[end - before..end - before + 6].copy_from_slice(b"NEEDLE");
            let [first, last] = two_windows(&file, end);
            if before < 6 {
                assert_eq!(scanner.scan(&first), Scanned::Clean);
                assert_eq!((scanner.files.held, scanner.files.parts.len()), (0, 0));
                assert_eq!(scanner.scan(&last), Scanned::Found("needle".to_owned()));
            } else {
                assert_eq!(scanner.scan(&first), Scanned::Found("needle".to_owned()));
            }
            assert_eq!((scanner.files.held, scanner.files.parts.len()), (0, 0));
        }
        assert!(scanner.whole.is_none());
    }

    #[test]
    fn whole_files_are_asked_the_other_rules_only() {
        let mut scanner = scanner(
            "rule needle { strings: $a = \"NEEDLE\" condition: $a }
             rule named { strings: $a = \"NAMED\" condition: $a }
             rule both { strings: $a = \"ONE\" $b = \"TWO\" condition: $a and $b }
             rule names { condition: named and filesize > 0 }",
        );
        let whole: Vec<_> = scanner.rules.whole.unwrap().iter().collect();
        let names: Vec<_> = whole.iter().map(yara_x::Rule::identifier).collect();
        assert_eq!(names, ["named", "both", "names"]);
        assert_eq!(scanner.rules.count(), 5);
        let mut file = vec![b'.'; 20_000];
        file[10..13].copy_from_slice(b"ONE");
        file[19_000..19_003].copy_from_slice(b"TWO");
        let [first, last] = two_windows(&file, 9_000);
        assert_eq!(scanner.scan(&first), Scanned::Clean);
        assert_eq!(scanner.files.held, 9_000);
        assert_eq!(scanner.scan(&last), Scanned::Found("both".to_owned()));
        assert_eq!(scanner.files.held, 0);
        for (word, name) in [("NEEDLE", "needle"), ("EICAR", ""), ("NAMED", "named")] {
            let scanned = scanner.scan(&text(word.as_bytes()));
            match name {
                "" => assert_eq!(scanned, Scanned::Clean),
                name => assert_eq!(scanned, Scanned::Found(name.to_owned())),
            }
        }
    }

    #[test]
    fn whole_files_are_asked_all_rules_where_what_is_left_does_not_compile() {
        let sources = [("a", "rule one { condition: two }")];
        let sources = sources.map(|(file, text)| (PathBuf::from(file), text.to_owned()));
        assert!(compile_rest(&sources, &["rule one { condition: two }".to_owned()]).is_none());
        let left = compile_rest(&sources, &["rule one { condition: true }".to_owned()]);
        assert_eq!(left.unwrap().iter().len(), 1);
    }
}
