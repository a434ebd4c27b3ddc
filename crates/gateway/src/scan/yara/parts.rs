//! The parts of a text: its rules, imports and includes, each with its span.

use std::ops::Range;

use boreal_parser::error::Error;
use boreal_parser::file::YaraFileComponent;
use codespan_reporting::diagnostic::Diagnostic;

/// Words with which a part begins.
const WORDS: [&str; 5] = ["rule", "private", "global", "import", "include"];
/// Lines before a fault that are tried as the beginning of the part that has it.
const TRIED: usize = 64;

/// A rule, an import or an include.
#[derive(Debug)]
pub(super) struct Part {
    /// Its bytes in the text.
    pub(super) span: Range<usize>,
    pub(super) component: YaraFileComponent,
}

/// Where a text cannot be read, in bytes, and why, in one line.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) at: usize,
    pub(super) reason: String,
}

/// The parts of a text that can be read.
pub(super) fn read(text: &str) -> Result<Vec<Part>, Error> {
    let mut end = 0;
    let mut parts = Vec::new();
    for component in boreal_parser::parse(text)?.components {
        let begin = skip_blank(text, end);
        end = match &component {
            YaraFileComponent::Import(import) => import.span.end,
            YaraFileComponent::Include(include) => include.span.end,
            YaraFileComponent::Rule(rule) => end_of_rule(text, rule.condition.span.end),
        };
        let span = begin..end.clamp(begin, text.len());
        parts.push(Part { span, component });
    }
    Ok(parts)
}

/// All that can be read of a text of which something cannot, and what cannot.
pub(super) fn read_around_faults(text: &str) -> (Vec<Part>, Vec<Unread>) {
    let begins = begins(text);
    let (mut parts, mut unread) = (Vec::new(), Vec::new());
    let mut from = 0;
    loop {
        let error = match text.get(from..).map(read) {
            Some(Ok(more)) => {
                parts.extend(more.into_iter().map(|part| moved(part, from)));
                return (parts, unread);
            }
            Some(Err(error)) => error,
            None => return (parts, unread),
        };
        let fault = explain(from, &error.to_diagnostic());
        let at = fault.at;
        unread.push(fault);
        // The parts before the one with the fault.
        let next = begins.partition_point(|&begin| begin < at || begin <= from);
        let tried = begins.iter().take(next).rev().take(TRIED);
        let before = tried
            .take_while(|begin| **begin > from)
            .find_map(|&begin| read(text.get(from..begin)?).ok());
        let before = before.unwrap_or_default().into_iter();
        parts.extend(before.map(|part| moved(part, from)));
        match begins.get(next) {
            Some(&begin) => from = begin,
            None => return (parts, unread),
        }
    }
}

/// What the reader or the compiler says of a text that begins at this offset.
pub(super) fn explain(from: usize, diagnostic: &Diagnostic<()>) -> Unread {
    let label = diagnostic.labels.first();
    let at = label.map_or(0, |label| label.range.start);
    let mut reason = diagnostic.message.clone();
    for label in &diagnostic.labels {
        if !label.message.is_empty() {
            reason.push_str(": ");
            reason.push_str(&label.message);
        }
    }
    Unread {
        at: from.saturating_add(at),
        reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn moved(part: Part, by: usize) -> Part {
    let span = part.span.start.saturating_add(by)..part.span.end.saturating_add(by);
    Part { span, ..part }
}

/// Behind the closing brace. Only parentheses stand between it and the end of the condition.
fn end_of_rule(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        at = skip_blank(text, at);
        let is_parenthesis = text.get(at..).is_some_and(|rest| rest.starts_with(')'));
        at = at.saturating_add(1);
        if !is_parenthesis {
            return at;
        }
    }
}

/// The next offset that is neither blank nor in a comment.
fn skip_blank(text: &str, from: usize) -> usize {
    let mut rest = text.get(from..).unwrap_or_default();
    loop {
        rest = rest.trim_start();
        let after = if let Some(line) = rest.strip_prefix("//") {
            line.split_once('\n')
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/")
        } else {
            None
        };
        match after {
            Some((_, after)) => rest = after,
            None => return text.len().saturating_sub(rest.len()),
        }
    }
}

/// Where parts may begin: at lines with such a word, but in comments that begin with a line.
fn begins(text: &str) -> Vec<usize> {
    let mut begins = Vec::new();
    let mut in_comment = false;
    // The words before `rule` may stand on lines of their own.
    let mut waiting = false;
    let mut at: usize = 0;
    for line in text.split_inclusive('\n') {
        let begin = at;
        at = at.saturating_add(line.len());
        let line = line.trim();
        in_comment |= line.starts_with("/*");
        if in_comment {
            in_comment = !line.contains("*/");
            continue;
        }
        let word = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let is_begin = word.take(1).any(|word| WORDS.contains(&word));
        if is_begin && !waiting {
            begins.push(begin);
        }
        let mut words = line.split_whitespace();
        waiting = is_begin && words.all(|word| matches!(word, "private" | "global"));
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::{read, read_around_faults};

    #[test]
    fn each_part_can_be_read_by_itself() {
        let corpus: toml::Table =
            toml::from_str(include_str!("../../../tests/rules/rules.toml")).unwrap();
        for rule in corpus["rule"].as_array().unwrap() {
            let text = rule["text"].as_str().unwrap();
            let Ok(parts) = read(text) else { continue };
            for part in &parts {
                assert_eq!(read(&text[part.span.clone()]).unwrap().len(), 1, "{text}");
            }
            assert_eq!(parts.last().unwrap().span.end, text.len(), "{text}");
        }
    }

    fn texts(text: &str) -> Vec<&str> {
        let parts = read(text).unwrap();
        parts.iter().map(|part| &text[part.span.clone()]).collect()
    }

    #[test]
    fn parts_are_found_with_their_places() {
        let first = "private global rule a : b { condition: true /* } */ // }\n }";
        let text = format!(
            "/* rule */ import \"math\" // \u{fc}\n{first}rule b {{ condition: (1 == 1) }}"
        );
        let expected = ["import \"math\"", first, "rule b { condition: (1 == 1) }"];
        assert_eq!(texts(&text), expected);
        assert!(texts(" // nothing\n").is_empty());
    }

    #[test]
    fn what_lies_around_faults_is_read() {
        let text = "rule a { condition: true }\n\
             private\nrule b { condition: }\n\
             /*\nrule c { condition: ) }\n*/\n\
             rule d { condition: true }\n\
             rule e { condition: ( }\n\
             rule f { condition: true }\n";
        let (parts, unread) = read_around_faults(text);
        let texts: Vec<_> = parts.iter().map(|part| &text[part.span.clone()]).collect();
        let whole = |name| format!("rule {name} {{ condition: true }}");
        assert_eq!(texts, ["a", "d", "f"].map(whole));
        let at: Vec<_> = unread.iter().map(|fault| fault.at).collect();
        let braces: Vec<_> = ["}\n/*", "}\nrule f"]
            .map(|brace| text.find(brace).unwrap())
            .into();
        assert_eq!(at, braces, "{unread:?}");
    }
}
