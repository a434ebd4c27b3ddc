//! Text as a reader meets it: paragraphs and sentences of Markdown files and of comments.

/// A paragraph, list item, heading or table cell, with the line on which it begins, from 1.
pub(crate) struct Block {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The blocks of a Markdown text; code is left out.
pub(crate) fn blocks(markdown: &str) -> Vec<Block> {
    let mut reader = Reader::default();
    for (index, line) in markdown.lines().enumerate() {
        reader.take(index + 1, line.trim());
    }
    reader.end();
    reader.blocks
}

#[derive(Default)]
struct Reader {
    blocks: Vec<Block>,
    open: Option<Block>,
    code: bool,
}

impl Reader {
    fn take(&mut self, number: usize, line: &str) {
        if line.starts_with("```") {
            self.code = !self.code;
            return self.end();
        }
        if self.code {
            return;
        }
        if line.is_empty() || line.starts_with("<!--") {
            return self.end();
        }
        if line.starts_with('|') {
            self.end();
            for cell in line.trim_matches('|').split('|') {
                self.begin(number, cell.trim());
                self.end();
            }
            return;
        }
        if let Some(heading) = line.strip_prefix('#') {
            self.end();
            self.begin(number, heading.trim_start_matches('#').trim());
            return self.end();
        }
        if let Some(item) = list_item(line) {
            self.end();
            return self.begin(number, item);
        }
        match &mut self.open {
            Some(block) => {
                block.text.push(' ');
                block.text.push_str(line);
            }
            None => self.begin(number, line),
        }
    }

    fn begin(&mut self, line: usize, text: &str) {
        let text = text.to_owned();
        self.open = Some(Block { line, text });
    }

    fn end(&mut self) {
        self.blocks.extend(self.open.take());
    }
}

/// What stands behind the mark of a list item.
fn list_item(line: &str) -> Option<&str> {
    if let Some(item) = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
    {
        return Some(item);
    }
    let (number, item) = line.split_once(". ")?;
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !number.is_empty()).then_some(item)
}

/// How many words each sentence of a block has. Code in backquotes is a word, and so is the text of
/// a link.
pub(crate) fn sentences(block: &str) -> Vec<usize> {
    let plain = without_links(&without_code(block));
    let mut lengths = Vec::new();
    let mut words = 0;
    let all: Vec<&str> = plain.split_whitespace().collect();
    for (index, word) in all.iter().enumerate() {
        words += usize::from(word.chars().any(char::is_alphanumeric));
        let next = all.get(index + 1).copied().unwrap_or_default();
        if ends(word, next) {
            lengths.push(words);
            words = 0;
        }
    }
    lengths.push(words);
    lengths.retain(|&length| length > 0);
    lengths
}

/// True if a sentence ends with this word. A colon or semicolon ends one before a capital only.
fn ends(word: &str, next: &str) -> bool {
    let bare = word.trim_end_matches(['"', '”', ')', ']', '*', '_']);
    if ["e.g.", "i.e.", "vs.", "cf."].contains(&bare) {
        return false;
    }
    let capital = next
        .trim_start_matches(['"', '“', '(', '[', '*'])
        .starts_with(|first: char| first.is_uppercase());
    bare.ends_with(['.', '!', '?']) || (bare.ends_with([':', ';']) && capital)
}

pub(crate) fn without_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    while let Some(_code) = parts.next() {
        plain.push_str("code");
        plain.push_str(parts.next().unwrap_or_default());
    }
    plain
}

/// `[text](target)` becomes `text`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        plain.push_str(&rest[..middle]);
        rest = &rest[middle + 2..];
        rest = rest.find(')').map_or("", |end| &rest[end + 1..]);
    }
    plain.push_str(rest);
    plain.replace('[', "")
}

/// The comments of a source file as Markdown, line for line; other lines are blank.
pub(crate) fn comments(source: &str) -> String {
    let comment = |line: &str| {
        let text = line.trim_start().strip_prefix("//")?;
        let text = text.strip_prefix(['/', '!']).unwrap_or(text);
        Some(text.strip_prefix(' ').unwrap_or(text).to_owned())
    };
    let lines = source.lines().map(|line| comment(line).unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The numbers of the lines of prose that are wider than this; code, tables and what cannot be
/// broken are left out. `markdown` are the lines without what makes them comments.
pub(crate) fn too_wide(lines: &[&str], markdown: &str, most: usize) -> Vec<usize> {
    let mut code = false;
    let mut wide = Vec::new();
    for (index, (line, text)) in lines.iter().zip(markdown.lines()).enumerate() {
        let text = text.trim();
        if text.starts_with("```") {
            code = !code;
        }
        let longest = text.split_whitespace().map(str::len).max().unwrap_or(0);
        let exempt = code || text.starts_with('|') || text.is_empty() || longest > most / 2;
        if !exempt && line.chars().count() > most {
            wide.push(index + 1);
        }
    }
    wide
}

#[test]
fn sentences_are_told_apart() {
    let text = "One two. Three `a. b` four, five; six: Seven [eight nine](x.md#y)! Ten";
    assert_eq!(sentences(text), [2, 5, 3, 1]);
    assert_eq!(sentences("See e.g. RFC 9000, 10.2. Or not"), [5, 2]);
}

#[test]
fn blocks_are_paragraphs_items_and_cells_without_code() {
    let text = "# Head\nOne\ntwo\n\n- three\n  four\n- five\n```\nsix\n```\n| seven | eight |";
    let found: Vec<_> = blocks(text).into_iter().map(|b| (b.line, b.text)).collect();
    let found: Vec<_> = found.iter().map(|(n, text)| (*n, text.as_str())).collect();
    let expected = [
        (1, "Head"),
        (2, "One two"),
        (5, "three four"),
        (7, "five"),
        (11, "seven"),
        (11, "eight"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn code_tables_and_addresses_may_be_wide() {
    let (word, blank) = ("word ".repeat(5), String::new());
    let link = format!("see {}", "x".repeat(30));
    let text = [
        &word,
        &format!("| {word}"),
        "```",
        &word,
        "```",
        &link,
        &blank,
    ]
    .join("\n");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(too_wide(&lines, &text, 20), [1]);
}
