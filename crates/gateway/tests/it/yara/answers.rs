//! Rules of `tests/rules/rules.toml`, asked about its files: the answers are those of
//! `tests/rules/answers.txt`, which were first written down as YARA-X 1.22 gave them.

use std::fmt::Write as _;
use std::path::Path;

use ringway_gateway::flow::Direction;
use ringway_gateway::scan::{Scanner as _, Yara, YaraError, YaraRules};
use ringway_gateway::verdict::{FlowId, ScanJob, Scanned};
use serde::Deserialize;
use tempfile::TempDir;

const RULES: &str = include_str!("../../rules/rules.toml");
const ANSWERS: &str = include_str!("../../rules/answers.txt");
/// Bytes of a window, and of those that it has in common with the one before.
const WINDOW: usize = 200;
const OVERLAP: usize = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    file: Vec<File>,
    rule: Vec<Rule>,
    wrong: Vec<Wrong>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Text(String),
    Wide(String),
    Hex(String),
    Dots(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    text: String,
    /// How the answer differs from that of YARA-X.
    differs: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrong {
    name: String,
    text: String,
    /// Of each fault.
    lines: Vec<usize>,
    /// Of each fault; none if the words do not matter.
    #[serde(default)]
    words: Vec<String>,
    /// How YARA-X differs. It is for those who read the rules.
    #[serde(default)]
    #[expect(dead_code, reason = "no answer depends on it")]
    differs: Option<String>,
}

fn bytes(parts: &[Part]) -> Vec<u8> {
    parts
        .iter()
        .flat_map(|part| match part {
            Part::Text(text) => text.as_bytes().to_vec(),
            Part::Wide(text) => text.bytes().flat_map(|byte| [byte, 0]).collect(),
            Part::Hex(hex) => hex
                .split(' ')
                .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                .collect(),
            Part::Dots(count) => vec![b'.'; *count],
        })
        .collect()
}

fn load(folder: &Path, text: &str) -> Result<YaraRules, YaraError> {
    let file = folder.join("own.yar");
    std::fs::write(&file, text).unwrap();
    YaraRules::load(&[file])
}

fn ask(scanner: &mut Yara, file: &[u8], (from, to): (usize, usize), last: bool) -> Option<String> {
    let repeated = from.min(OVERLAP);
    let job = ScanJob {
        flow: FlowId::default(),
        direction: Direction::FromServer,
        number: 1,
        bytes: file[from - repeated..to].to_vec(),
        repeated,
        at: u64::try_from(from - repeated).unwrap(),
        first: from == 0,
        last,
        name: None,
    };
    match scanner.scan(&job) {
        Scanned::Clean => None,
        Scanned::Found(name) => Some(name),
        Scanned::Failed(why) => Some(format!("failed: {why}")),
    }
}

/// The files of which a rule holds: as wholes, and with the window in which it does.
fn answers(rule: &Rule, files: &[(&str, Vec<u8>)], folder: &Path) -> String {
    let tagged = match rule.text.contains("rule r :") {
        true => rule.text.replace("rule r :", "rule r : whole"),
        false => rule.text.replace("rule r ", "rule r : whole "),
    };
    let (whole, windows) = match (load(folder, &tagged), load(folder, &rule.text)) {
        (Ok(whole), Ok(windows)) => (whole, windows),
        (Err(error), _) | (_, Err(error)) => {
            let reasons: Vec<_> = error.0.iter().map(|fault| fault.reason.as_str()).collect();
            return format!("refused: {}\n", reasons.join("; "));
        }
    };
    let mut answers = String::from("whole:");
    let named = |found: String, at: String| match found.as_str() {
        "r" => at,
        other => format!("{at}({other})"),
    };
    for (name, file) in files {
        // The tag keeps the window, which is all of the file here, from answering.
        if let Some(found) = ask(&mut whole.scanner(), file, (0, file.len()), true) {
            write!(answers, " {}", named(found, (*name).to_owned())).unwrap();
        }
    }
    answers.push_str(" | windows:");
    for (name, file) in files {
        let mut scanner = windows.scanner();
        let ends = (0..file.len().max(1)).step_by(WINDOW);
        // Never the last: the whole file is not asked then.
        let found = ends.enumerate().find_map(|(number, from)| {
            let to = (from + WINDOW).min(file.len());
            let found = ask(&mut scanner, file, (from, to), false)?;
            Some(named(found, format!("{name}@{}", number + 1)))
        });
        if let Some(found) = found {
            write!(answers, " {found}").unwrap();
        }
    }
    answers.push('\n');
    answers
}

#[test]
fn rules_match_exactly_the_recorded_files() {
    let corpus: Corpus = toml::from_str(RULES).unwrap();
    let folder = TempDir::new().unwrap();
    let files: Vec<_> = corpus
        .file
        .iter()
        .map(|file| (file.name.as_str(), bytes(&file.parts)))
        .collect();
    let mut answered = String::new();
    for rule in &corpus.rule {
        write!(answered, "{}: ", rule.name).unwrap();
        answered.push_str(&answers(rule, &files, folder.path()));
        if let Some(differs) = &rule.differs {
            writeln!(answered, "  # {differs}").unwrap();
        }
    }
    if answered != ANSWERS {
        // In place of the old ones, if the difference is wanted.
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("answers.txt");
        std::fs::write(&file, &answered).unwrap();
        let differences: Vec<_> = answered
            .lines()
            .filter(|line| !ANSWERS.lines().any(|other| other == *line))
            .collect();
        panic!("{}\n{}", file.display(), differences.join("\n"));
    }
}

#[test]
fn wrong_rules_are_refused_at_recorded_lines() {
    let corpus: Corpus = toml::from_str(RULES).unwrap();
    let folder = TempDir::new().unwrap();
    let mut wrong = Vec::new();
    for rule in &corpus.wrong {
        let mut faults = match load(folder.path(), &rule.text) {
            Ok(_) => Vec::new(),
            Err(YaraError(faults)) => faults,
        };
        faults.sort_by_key(|fault| fault.line);
        let lines: Vec<_> = faults.iter().filter_map(|fault| fault.line).collect();
        let one_line = faults.iter().all(|fault| fault.reason.lines().count() == 1);
        let words = rule.words.iter().zip(&faults);
        let mut unsaid = words.filter(|(word, fault)| !fault.reason.contains(word.as_str()));
        if lines != rule.lines || !one_line || unsaid.next().is_some() {
            wrong.push(format!("{}: {faults:?}", rule.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
