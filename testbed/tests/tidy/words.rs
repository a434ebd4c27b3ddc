//! What people read: how wide, how long, and in which words.

use std::fs;
use std::path::{Path, PathBuf};

use super::prose::{Block, blocks, comments, sentences, too_wide, without_code};
use super::{report, root, walk};

/// Columns of a line of prose.
const WIDTH: usize = 100;
/// Words of the longest sentence.
const LONGEST: usize = 45;
/// Words of a page's middle sentence, and of the one that nine in ten do not exceed.
const MIDDLE: usize = 17;
const LONG: usize = 32;
/// Pages with fewer sentences are not judged by their middle.
const FEW: usize = 20;

/// Words that stand for something else in this project's vocabulary (`docs/glossary.md`), and what
/// is said in their place.
const REFUSED: &[(&str, &str)] = &[
    ("traitor", "malicious router"),
    ("potato", "token"),
    ("turned down", "refused, or reset"),
    ("calls again", "reconnects"),
    ("call again", "reconnect"),
    ("like a blocked one", "that matches a blocked one"),
    ("goes straight", "is sent directly"),
    ("leftover", "scavenger"),
    ("whereabouts", "leaf registry"),
    ("whoever", "the one who, or a name"),
    ("anew", "again"),
    ("of late", "recently"),
];

/// Pages that show what a program says, or what somebody else wrote.
const NOT_OURS: &[&str] = &["docs/glossary.md", "docs/decisions"];

fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    for folder in ["docs", "benches/lab"] {
        walk(&root().join(folder), "md", &mut found);
    }
    assert!(found.len() > 20, "the pages were not found");
    found
}

/// A path as a person would write it.
fn name(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.display().to_string()
}

fn sources() -> Vec<PathBuf> {
    let mut found = super::sources();
    walk(&root().join("crates"), "c", &mut found);
    found
}

/// Every line that is too wide and every sentence that is too long.
fn judge(path: &Path, lines: &[&str], markdown: &str, faults: &mut Vec<String>) {
    let name = name(path);
    for line in too_wide(lines, markdown, WIDTH) {
        faults.push(format!("{name}:{line}: wider than {WIDTH} columns"));
    }
    for Block { line, text } in blocks(markdown) {
        for words in sentences(&text)
            .into_iter()
            .filter(|&words| words > LONGEST)
        {
            let begin: String = text.chars().take(60).collect();
            faults.push(format!(
                "{name}:{line}: a sentence of {words} words, at most {LONGEST}: {begin}…"
            ));
        }
    }
}

#[test]
fn pages_are_narrow_and_their_sentences_short() {
    let mut faults = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        judge(&path, &text.lines().collect::<Vec<_>>(), &text, &mut faults);
    }
    report(&faults);
}

#[test]
fn pages_have_short_sentences_in_the_middle() {
    let mut faults = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let all = blocks(&text);
        let mut lengths: Vec<usize> = all.iter().flat_map(|b| sentences(&b.text)).collect();
        // Cells and headings of a few words are no sentences.
        lengths.retain(|&words| words > 3);
        lengths.sort_unstable();
        let at = |share: usize| lengths.get(lengths.len() * share / 10).copied();
        let (Some(middle), Some(long)) = (at(5), at(9)) else {
            continue;
        };
        if lengths.len() >= FEW && (middle > MIDDLE || long > LONG) {
            faults.push(format!(
                "{}: sentences of {middle} words in the middle and {long} at nine in ten, at most \
                 {MIDDLE} and {LONG}",
                name(&path)
            ));
        }
    }
    report(&faults);
}

#[test]
fn comments_are_narrow_and_their_sentences_short() {
    let mut faults = Vec::new();
    for path in sources() {
        let source = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = source.lines().collect();
        judge(&path, &lines, &comments(&source), &mut faults);
    }
    report(&faults);
}

#[test]
fn pages_and_help_use_the_words_of_the_glossary() {
    let mut read: Vec<(String, String)> = Vec::new();
    for path in pages() {
        read.push((name(&path), fs::read_to_string(&path).unwrap()));
    }
    read.retain(|(name, _)| !NOT_OURS.iter().any(|page| name.starts_with(page)));
    let mut faults = Vec::new();
    for (name, text) in &read {
        for (index, line) in text.lines().enumerate() {
            // Code has names of its own.
            let low = without_code(line).to_lowercase();
            for (word, better) in REFUSED {
                if has_word(&low, word) {
                    faults.push(format!("{name}:{}: `{word}`; say: {better}", index + 1));
                }
            }
        }
    }
    report(&faults);
}

/// True if the text has this word, or one that begins with it and is no other word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !part(before) && (!part(after) || word.len() > 5)
    })
}

#[test]
fn refused_words_are_found_as_words_only() {
    assert!(has_word("two traitors", "traitor") && has_word("begin anew.", "anew"));
    assert!(!has_word("a manewer", "anew") && !has_word("anewed", "anew"));
}
