//! YARA rules, asked by boreal in this process.
//!
//! Rules are asked of each window while a file passes, and of the whole file with its last window,
//! if it is no longer than [`MAX_WHOLE`](crate::limits::MAX_WHOLE). Of a window they see the bytes
//! at their positions in the file, but neither its size nor single numbers (`uint16(0)`) nor
//! modules: conditions with those hold of whole files only. A rule with the tag `whole` is asked
//! of whole files only; that is for those that decide by what is *not* there. Rules that windows
//! answer [completely](complete) are asked of windows only: if all are such, nothing is kept of
//! files.

mod complete;
mod files;
mod looks;
mod parts;

use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use boreal::compiler::{AddRuleError, CompilerBuilder, CompilerParams};
use boreal::memory::{FragmentedMemory, MemoryParams, Region, RegionDescription};
use boreal::module::{Elf, Hash, Math, String_, Time};
use boreal::scanner::{FragmentedScanMode, ScanError, ScanParams, ScanResult};
use boreal::{Compiler, Scanner as Engine};
use boreal_parser::file::YaraFileComponent;

use self::complete::Rest;
use self::files::Files;
use self::looks::{Answer, Looks};
use self::parts::Unread;
use super::Scanner;
use crate::limits::{MAX_RULE_FILE, MAX_RULE_MATCHES, SCAN_OVERLAP, SCAN_TIMEOUT};
use crate::verdict::{ScanJob, Scanned};

/// Rules for test files, which are always there.
const TEST_RULES: &str = include_str!("../../../rules/test.yar");
/// The tag of rules that are asked of whole files only.
const WHOLE: &str = "whole";
/// The name of a rule that stands behind those of a file with global rules. It holds where all of
/// those do: boreal reports one that holds even if another of its file does not.
const GLOBAL: &str = "_ringway_all_global_rules_hold";

/// What keeps rules from being used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", file.display(), shown(*line))]
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

fn shown(line: Option<usize>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

/// Compiled rules.
#[derive(Clone, Debug)]
pub struct YaraRules {
    /// All of them.
    windows: Rules,
    /// Those that windows do not answer completely; none if there are none.
    whole: Option<Rules>,
}

impl YaraRules {
    /// Compiles the rules of these files, and of files that end in `.yar` or `.yara` in these
    /// folders, beside those for test files.
    ///
    /// # Errors
    /// A path cannot be read, or a rule is wrong; every fault is reported.
    pub fn load(paths: &[PathBuf]) -> Result<Self, YaraError> {
        let (windows, sources) = compile(paths)?;
        let texts: Vec<_> = sources.iter().map(|(_, text)| text.as_str()).collect();
        let whole = match complete::rest(&texts, SCAN_OVERLAP) {
            Rest::All => Some(windows.clone()),
            Rest::These(texts) => {
                Some(compile_rest(&sources, texts).unwrap_or_else(|| windows.clone()))
            }
            Rest::Nothing => None,
        };
        Ok(Self { windows, whole })
    }

    /// Compiles them as [`load`](Self::load) does, for the faults alone; returns how many rules
    /// there are.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn check(paths: &[PathBuf]) -> Result<usize, YaraError> {
        Ok(compile(paths)?.0.count())
    }

    /// How many rules there are, those for test files included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.windows.count()
    }

    /// A scanner with these rules.
    #[must_use]
    pub fn scanner(&self) -> Yara {
        self.within(SCAN_TIMEOUT)
    }

    /// One whose looks may take so long.
    fn within(&self, time: Duration) -> Yara {
        Yara {
            windows: self.windows.within(time),
            whole: self.whole.as_ref().map(|rules| rules.within(time)),
            files: Files::default(),
            looks: Looks::new(time),
        }
    }
}

/// Rules that are asked together. Clones share them.
#[derive(Clone, Debug)]
struct Rules {
    engine: Engine,
    /// The files that have global rules, and [`GLOBAL`] behind them.
    with_global: Arc<HashSet<String>>,
    /// The engine may not notice that its time is over, even in a window.
    is_slow: bool,
}

impl Rules {
    fn within(&self, time: Duration) -> Self {
        let mut rules = self.clone();
        let matches = u32::try_from(MAX_RULE_MATCHES).unwrap_or(u32::MAX);
        let params = ScanParams::default()
            .timeout_duration(Some(time))
            .string_max_nb_matches(matches)
            // Where matches are is enough.
            .match_max_length(0)
            // Otherwise conditions are asked once before the patterns are looked for: that decides
            // nothing where a rule needs a pattern, and loops of others take their time for it.
            .compute_full_matches(true)
            .fragmented_scan_mode(FragmentedScanMode::fast());
        rules.engine.set_scan_params(params);
        rules
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.engine.rules().map(|rule| rule.name);
        names.filter(|name| *name != GLOBAL)
    }

    fn count(&self) -> usize {
        self.names().count()
    }

    /// The first rule that holds of a window that begins at this position of its file.
    fn ask_window(&self, begin: usize, bytes: &[u8]) -> Answer {
        let window = Window {
            begin,
            bytes,
            is_listed: false,
        };
        self.ask(|engine| engine.scan_fragmented(window), false)
    }

    /// The first rule that holds of a whole file.
    fn ask_whole(&self, file: &[u8]) -> Answer {
        self.ask(|engine| engine.scan_mem(file), true)
    }

    /// A panic of the engine is an answer as well: the thread goes on.
    fn ask<'a, F>(&'a self, scan: F, whole: bool) -> Answer
    where
        F: FnOnce(&'a Engine) -> Result<ScanResult<'a>, (ScanError, ScanResult<'a>)>,
    {
        match catch_unwind(AssertUnwindSafe(|| scan(&self.engine))) {
            Ok(Ok(found)) => Ok(self.first(&found, whole)),
            Ok(Err((error, _))) => Err(error.to_string()),
            Err(_) => Err("the engine ended by a fault".to_owned()),
        }
    }

    /// The first rule that holds.
    fn first(&self, found: &ScanResult<'_>, whole: bool) -> Option<String> {
        let holds = |file: &str| {
            let mut all = found.rules.iter();
            !self.with_global.contains(file)
                || all.any(|rule| rule.name == GLOBAL && rule.namespace == file)
        };
        let is_whole = |tag| self.engine.get_string_symbol(tag) == WHOLE;
        let mut rules = found.rules.iter();
        let first = rules.find(|rule| {
            rule.name != GLOBAL
                && (whole || !rule.tags.iter().any(|tag| is_whole(*tag)))
                && holds(rule.namespace)
        });
        first.map(|rule| rule.name.to_owned())
    }
}

/// A window, as a piece of memory at its position in the file: of such, neither the size nor single
/// numbers are known, and modules do not see it.
#[derive(Debug)]
struct Window<'a> {
    begin: usize,
    bytes: &'a [u8],
    is_listed: bool,
}

impl FragmentedMemory for Window<'_> {
    fn next(&mut self, _params: &MemoryParams) -> Option<RegionDescription> {
        let is_listed = std::mem::replace(&mut self.is_listed, true);
        (!is_listed).then_some(RegionDescription {
            start: self.begin,
            length: self.bytes.len(),
        })
    }

    fn fetch(&mut self, _params: &MemoryParams) -> Option<Region<'_>> {
        Some(Region {
            start: self.begin,
            mem: self.bytes,
        })
    }

    fn reset(&mut self) {
        self.is_listed = false;
    }
}

/// A file and its text.
type Source = (PathBuf, String);

/// The rules for test files and those of these paths, a namespace for each file.
fn compile(paths: &[PathBuf]) -> Result<(Rules, Vec<Source>), YaraError> {
    let mut faults = Vec::new();
    let mut sources = vec![(PathBuf::from("ringway"), TEST_RULES.to_owned())];
    for path in paths {
        let files = files(path).unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        });
        for file in files {
            match read(&file) {
                Ok(text) => sources.push((file, text)),
                Err(fault) => faults.push(fault),
            }
        }
    }
    // Also with faults: the administrator gets all of them at once.
    match compile_sources(&sources) {
        Ok(rules) if faults.is_empty() => Ok((rules, sources)),
        Ok(_) => Err(YaraError(faults)),
        Err(more) => {
            faults.splice(0..0, more);
            Err(YaraError(faults))
        }
    }
}

/// What is left of rules that compiled; none if it does not compile.
fn compile_rest(sources: &[Source], texts: Vec<String>) -> Option<Rules> {
    let files = sources.iter().map(|(file, _)| file.clone());
    let sources: Vec<_> = files.zip(texts).collect();
    compile_sources(&sources).ok()
}

fn compile_sources(sources: &[Source]) -> Result<Rules, Vec<YaraFault>> {
    let mut compiler = compiler();
    let (mut with_global, mut faults) = (HashSet::new(), Vec::new());
    let mut is_slow = false;
    for (file, text) in sources {
        let name = file.display().to_string();
        // A rule that makes the compiler panic is a wrong one.
        let added = catch_unwind(AssertUnwindSafe(|| add(&mut compiler, &name, text)));
        match added {
            Ok(Ok(added)) => {
                is_slow |= added.is_slow;
                if added.with_global {
                    with_global.insert(name);
                }
            }
            Ok(Err(wrong)) => faults.extend(wrong.into_iter().map(|wrong| YaraFault {
                file: file.clone(),
                line: Some(line(text, wrong.at)),
                reason: wrong.reason,
            })),
            Err(_) => faults.push(unusable(file, "the compiler ended by a fault")),
        }
    }
    if faults.is_empty() {
        return Ok(Rules {
            engine: compiler.finalize(),
            with_global: Arc::new(with_global),
            is_slow,
        });
    }
    Err(faults)
}

fn compiler() -> Compiler {
    let builder = CompilerBuilder::default()
        .add_module(Elf)
        .add_module(Hash)
        .add_module(Math)
        .add_module(String_)
        .add_module(Time);
    let mut compiler = builder.build();
    compiler.set_params(CompilerParams::default().disable_includes(true));
    compiler
}

/// What is known of the rules of a file.
#[derive(Default)]
struct Added {
    with_global: bool,
    /// One of their patterns is [long](complete::is_long).
    is_slow: bool,
}

/// Adds a file's rules, or returns all that is wrong.
fn add(compiler: &mut Compiler, file: &str, text: &str) -> Result<Added, Vec<Unread>> {
    let (parts, mut wrong) = match parts::read(text) {
        Ok(parts) => (parts, Vec::new()),
        Err(_) => parts::read_around_faults(text),
    };
    let mut known = Added::default();
    for part in parts {
        if let YaraFileComponent::Rule(rule) = &part.component {
            known.with_global |= rule.is_global;
            known.is_slow |= rule.variables.iter().any(complete::is_long);
        }
        let source = text.get(part.span.clone()).unwrap_or_default();
        let explain =
            |error: &AddRuleError| parts::explain(part.span.start, &error.to_diagnostic());
        match compiler.add_rules_str_in_namespace(source, file) {
            Ok(added) => {
                let warned = added.warnings().map(explain);
                wrong.extend(warned.filter(|warned| is_escape(text, warned.at)));
            }
            Err(error) => wrong.push(explain(&error)),
        }
    }
    // A namespace's rules match only if its global ones do, and this one shows that.
    if known.with_global {
        let rule = format!("rule {GLOBAL} {{ condition: true }}");
        if let Err(error) = compiler.add_rules_str_in_namespace(rule, file) {
            wrong.push(parts::explain(0, &error.to_diagnostic()));
        }
    }
    wrong.sort_by_key(|wrong| wrong.at);
    if wrong.is_empty() {
        Ok(known)
    } else {
        Err(wrong)
    }
}

/// A letter or a digit is escaped here. The compiler only warns of those that it does not know, and
/// takes them for themselves: of `\A` and `\1` that is not what was meant.
fn is_escape(text: &str, at: usize) -> bool {
    let escaped = text.get(at..).and_then(|text| text.strip_prefix('\\'));
    escaped.is_some_and(|text| text.starts_with(|letter: char| letter.is_ascii_alphanumeric()))
}

/// The line of a position, from 1.
fn line(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    before
        .filter(|byte| *byte == b'\n')
        .count()
        .saturating_add(1)
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
        Ok(mut text) if !long => {
            // A comment in the last line ends with it.
            text.push('\n');
            Ok(text)
        }
        _ => Err(unusable(
            file,
            format_args!("no text, or more than {MAX_RULE_FILE} bytes"),
        )),
    }
}

/// A scanner of one thread.
pub struct Yara {
    windows: Rules,
    /// None if windows answer everything.
    whole: Option<Rules>,
    files: Files,
    looks: Looks,
}

impl Yara {
    fn look(&mut self, job: &ScanJob) -> Answer {
        let whole = match self.whole {
            Some(_) => self.files.take_in(job),
            None => None,
        };
        let begin = usize::try_from(job.at).map_err(|error| error.to_string())?;
        let found = if self.windows.is_slow {
            let (rules, bytes) = (self.windows.clone(), job.bytes.clone());
            self.looks.look(move || rules.ask_window(begin, &bytes))?
        } else {
            self.windows.ask_window(begin, &job.bytes)?
        };
        match (found, whole, self.whole.clone()) {
            (None, Some(file), Some(rules)) => self.looks.look(move || rules.ask_whole(&file)),
            (found, ..) => Ok(found),
        }
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
                Scanned::Failed(format!("YARA: {error}"))
            }
        }
    }
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

    /// A rule whose patterns nearly match at each position of a text of one letter.
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
    fn a_timed_out_scanner_scans_on() {
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

    #[test]
    fn a_scan_past_its_time_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("slow.yar");
        // From each of its words all that stands before is looked at, from each position of it.
        let rule = "rule slow { strings: $a = /.+@x/ $b = \"NEEDLE\" condition: #a == 0 and $b }";
        std::fs::write(&file, rule).unwrap();
        let rules = YaraRules::load(std::slice::from_ref(&file)).unwrap();
        let mut scanner = rules.within(Duration::from_millis(100));
        let began = Instant::now();
        let scanned = scanner.scan(&text(&b"@x".repeat(4_000)));
        assert_eq!(scanned, Scanned::Failed("YARA: timeout".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(10));
        let found = scanner.scan(&text(b"a NEEDLE"));
        assert_eq!(found, Scanned::Found("slow".to_owned()));
    }

    /// Two windows of one file, cut at this position.
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
        let names: Vec<_> = scanner.whole.as_ref().unwrap().names().collect();
        assert_eq!(names, ["named", "both", "names"]);
        assert_eq!(scanner.windows.count(), 5);
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
    fn whole_files_meet_all_rules_as_fallback() {
        let sources = [("a", "rule one { condition: two }")];
        let sources = sources.map(|(file, text)| (PathBuf::from(file), text.to_owned()));
        assert!(compile_rest(&sources, vec!["rule one { condition: two }".to_owned()]).is_none());
        let left = compile_rest(&sources, vec!["rule one { condition: true }".to_owned()]);
        assert_eq!(left.unwrap().count(), 1);
    }
}
