//! What people read: how wide, how long, and in which words.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

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

/// Words in the name of a test: the case and the result. Reasons stand in its documentation.
const WORDS_OF_A_TEST: usize = 8;

/// Folders of Rust and C whose comments and identifiers use none of [`UNWORDS`], and whose tests
/// have short names. Texts that users read are not among them: they change only with a reason of
/// their own.
const SOURCES: &[&str] = &["crates", "sim", "testbed", "benches", "fuzz"];

/// Words that are neither the field's nor plain, and what is said in their place.
const UNWORDS: &[(&str, &str)] = &[
    ("whoever", "name the part, the process or the peer"),
    ("nobody", "no member, no program, none"),
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
fn pages_and_help_use_glossary_words() {
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

#[test]
fn sources_use_the_words_of_the_glossary() {
    let mut files = Vec::new();
    for folder in SOURCES {
        walk(&root().join(folder), "rs", &mut files);
        walk(&root().join(folder), "c", &mut files);
    }
    assert!(files.len() > 500, "the sources were not found");
    let mut faults = Vec::new();
    for path in files {
        let source = fs::read_to_string(&path).unwrap();
        let name = name(&path);
        let is_rust = name.ends_with(".rs");
        let mut found = unplain(&source, is_rust);
        if is_rust {
            found.extend(long_tests(&source));
        }
        let shown = found.into_iter();
        faults.extend(shown.map(|(line, text)| format!("{name}:{line}: {text}")));
    }
    report(&faults);
}

/// The lines of a source with a word of [`UNWORDS`] in a comment or, in Rust, in an identifier.
fn unplain(source: &str, is_rust: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in comments(source).lines().enumerate() {
        judge_words(index + 1, line, &mut found);
    }
    if is_rust {
        judge_identifiers(source.parse().unwrap(), &mut found);
    }
    found
}

/// Looks at every identifier, those within macros too.
fn judge_identifiers(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => judge_identifiers(group.stream(), found),
            TokenTree::Ident(identifier) => {
                let line = identifier.span().start().line;
                judge_words(line, &identifier.to_string().replace('_', " "), found);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Tests whose names are sentences, by line.
fn long_tests(source: &str) -> Vec<(usize, String)> {
    #[derive(Default)]
    struct Tests(Vec<(usize, String)>);
    impl<'ast> Visit<'ast> for Tests {
        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            let is_test = item.attrs.iter().any(|attribute| {
                let last = attribute.path().segments.last();
                last.is_some_and(|last| last.ident == "test")
            });
            let name = item.sig.ident.to_string();
            if is_test && name.split('_').count() > WORDS_OF_A_TEST {
                let line = item.sig.ident.span().start().line;
                let fault = format!("`{name}` has more than {WORDS_OF_A_TEST} words");
                self.0.push((line, fault));
            }
            visit::visit_item_fn(self, item);
        }
    }
    let mut tests = Tests::default();
    tests.visit_file(&syn::parse_file(source).unwrap());
    tests.0
}

fn judge_words(line: usize, text: &str, found: &mut Vec<(usize, String)>) {
    let low = text.to_lowercase();
    let words: Vec<&str> = low.split(|c: char| !c.is_alphanumeric()).collect();
    let low = format!(" {} ", words.join(" "));
    for (word, better) in UNWORDS {
        // Whole words only: "of later" is none of them.
        if low.contains(&format!(" {word} ")) {
            found.push((line, format!("`{word}`; say: {better}")));
        }
    }
}

#[test]
fn unwords_are_found_in_comments_and_identifiers_only() {
    let text = "fn begins_anew() {\n    // Nobody.\n    f!(of_late, \"whoever\");\n}\n";
    let lines = |is_rust| {
        let mut found: Vec<usize> = unplain(text, is_rust).iter().map(|(at, _)| *at).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(lines(true), [1, 2, 3]);
    assert_eq!(lines(false), [2]);
}

#[test]
fn only_tests_with_long_names_are_found() {
    let long = "a_b_c_d_e_f_g_h_i";
    let text = format!("fn {long}() {{}}\n#[x::test]\nfn {long}() {{}}\n#[test]\nfn a_b() {{}}\n");
    assert_eq!(
        long_tests(&text)
            .iter()
            .map(|(at, _)| *at)
            .collect::<Vec<_>>(),
        [3]
    );
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

/// Files that pages name must be there: a page that names one that was renamed misleads.
#[test]
fn pages_name_files_that_exist() {
    let mut files = Vec::new();
    for folder in ["crates", "sim", "testbed", "benches", "fuzz", "examples"] {
        walk(&root().join(folder), "rs", &mut files);
    }
    let known: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut faults = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        // The change log names what there was.
        if name(&page).ends_with("CHANGELOG.md") {
            continue;
        }
        for (number, line) in (1_usize..).zip(text.lines()) {
            let quoted = line.split('`').skip(1).step_by(2);
            for path in quoted.filter(|path| {
                path.ends_with(".rs") && !path.contains([' ', '*', '{']) && !path.contains("NAME")
            }) {
                let ending = format!("/{path}");
                if !known.iter().any(|file| file.ends_with(&ending)) {
                    faults.push(format!("{}:{number}: there is no `{path}`", name(&page)));
                }
            }
        }
    }
    report(&faults);
}
