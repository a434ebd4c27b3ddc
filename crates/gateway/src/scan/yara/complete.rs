//! Which rules the windows of a file answer completely, so that the whole file need not be asked
//! about them.
//!
//! A window begins before the end of the one before, by the overlap. So there is a window with all
//! of a match that is no longer than that, and with what lies around it: there the pattern is found
//! as it is in the whole file. A rule that holds wherever one of its patterns is found, and needs
//! nothing else, holds of a whole file only if it holds of that window. Whatever is not known to be
//! so counts as not complete: then the whole file is asked as well, which is only slower.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use boreal_parser::expression::{Expression, ExpressionKind, ForSelection};
use boreal_parser::file::YaraFileComponent;
use boreal_parser::hex_string::Token;
use boreal_parser::regex::{AssertionKind, Node, RepetitionKind, RepetitionRange};
use boreal_parser::rule::{Rule, VariableDeclaration, VariableDeclarationValue, VariableModifiers};

use super::WHOLE;
use super::parts::{self, Part};
use crate::limits::{MAX_RULE_MATCHES, SCAN_OVERLAP};

/// Bytes on either side of a match that decide whether it is one: two of `fullword` and `\b` in
/// wide text, six of what `base64wide` decodes.
const AROUND: usize = 8;
/// The last position of which a condition may ask (`$a at 0`, `$a in (0..1024)`). What begins later
/// may be passed over after [`MAX_RULE_MATCHES`] others, and in a window after others than in the
/// file.
const NEAR: usize = MAX_RULE_MATCHES / 2;
// Before a match is found that begins there, nothing is found that begins further on than by its
// length and a few bytes.
const _: () = assert!(NEAR + SCAN_OVERLAP + 64 < MAX_RULE_MATCHES);

/// Bytes of a match past which the search for one takes long. Around each position where a part of
/// a longer pattern is found, the engine looks at some thousand bytes, for each of them once more.
const LONG: usize = 256;

/// A set of rules without one in so many is not worth being compiled and kept beside the whole set.
const WORTH: usize = 8;

/// What whole files are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// All rules.
    All,
    /// The rules that are left in these texts, one for each that was given.
    These(Vec<String>),
    /// No rule.
    Nothing,
}

/// What of the rules in these texts, which compile, the windows do not answer.
pub(super) fn rest(texts: &[&str], overlap: usize) -> Rest {
    let read: Result<Vec<_>, _> = texts.iter().map(|text| parts::read(text)).collect();
    let Ok(read) = read else {
        return Rest::All;
    };
    // A global rule keeps others from holding.
    if read
        .iter()
        .flatten()
        .filter_map(rule)
        .any(|rule| rule.is_global)
    {
        return Rest::All;
    }
    let left: Option<Vec<_>> = texts
        .iter()
        .zip(&read)
        .map(|(text, parts)| left(text, parts, overlap))
        .collect();
    let Some(left) = left else {
        return Rest::All;
    };
    let kept: usize = left.iter().map(|left| left.kept).sum();
    let dropped: usize = left.iter().map(|left| left.dropped).sum();
    if dropped == 0 || dropped < kept / WORTH {
        return Rest::All;
    }
    if kept == 0 {
        return Rest::Nothing;
    }
    Rest::These(left.into_iter().map(|left| left.text).collect())
}

fn rule(part: &Part) -> Option<&Rule> {
    match &part.component {
        YaraFileComponent::Rule(rule) => Some(rule),
        _ => None,
    }
}

/// What is left of a text, with how many rules, and without how many.
#[derive(Default)]
struct Left {
    text: String,
    kept: usize,
    dropped: usize,
}

/// Leaves out the rules that are complete. One whose name is in a condition stays: that rule may
/// need it.
fn left(text: &str, parts: &[Part], overlap: usize) -> Option<Left> {
    let (mut names, mut beginnings) = (HashSet::new(), Vec::new());
    for part in parts {
        let Some(rule) = rule(part) else { continue };
        let condition = text.get(rule.condition.span.start..part.span.end)?;
        for (name, is_beginning) in words(condition) {
            if is_beginning {
                beginnings.push(name);
            }
            names.insert(name);
        }
    }
    let is_named = |name: &str| {
        names.contains(name)
            || beginnings
                .iter()
                .any(|beginning| name.starts_with(beginning))
    };
    let mut left = Left::default();
    let mut from = 0;
    for part in parts {
        let Some(rule) = rule(part) else { continue };
        if is_named(&rule.name) || !is_complete(rule, overlap) {
            left.kept = left.kept.saturating_add(1);
            continue;
        }
        left.text.push_str(text.get(from..part.span.start)?);
        // What stood on either side must not become one word.
        left.text.push('\n');
        left.dropped = left.dropped.saturating_add(1);
        from = part.span.end;
    }
    left.text.push_str(text.get(from..)?);
    Some(left)
}

/// The words of a condition that may name rules, and whether they may be beginnings of names, with
/// a star behind them.
fn words(condition: &str) -> impl Iterator<Item = (&str, bool)> {
    let in_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut rest = condition;
    std::iter::from_fn(move || {
        loop {
            let (before, word) = rest.split_at_checked(rest.find(in_word)?)?;
            let end = word.find(|letter| !in_word(letter));
            let (word, after) = word.split_at_checked(end.unwrap_or(word.len()))?;
            rest = after;
            // Names of patterns.
            if !before.ends_with(['$', '#', '@', '!']) {
                // A comment may stand before the star.
                return Some((word, after.trim_start().starts_with(['*', '/'])));
            }
        }
    })
}

/// It holds of a whole file only if it holds of a window.
fn is_complete(rule: &Rule, overlap: usize) -> bool {
    let whole = rule.tags.iter().any(|tag| tag.tag == WHOLE);
    let fits = |pattern| {
        let length = longest(pattern).and_then(|longest| longest.checked_add(2 * AROUND));
        length.is_some_and(|length| length <= overlap)
    };
    !whole && !rule.is_global && needs_one_match(&rule.condition) && rule.variables.iter().all(fits)
}

/// One match of one pattern is enough for the condition, and without a match it does not hold.
fn needs_one_match(condition: &Expression) -> bool {
    match &condition.expr {
        ExpressionKind::Boolean(false) | ExpressionKind::Variable(_) => true,
        ExpressionKind::VariableAt { offset, .. } => is_near(offset),
        ExpressionKind::VariableIn { from, to, .. } => is_near(from) && is_near(to),
        ExpressionKind::For {
            selection,
            body: None,
            ..
        } => match selection {
            ForSelection::Any => true,
            ForSelection::Expr {
                expr,
                as_percent: false,
            } => number(expr) == Some(1),
            _ => false,
        },
        ExpressionKind::Or(either) => either.iter().all(needs_one_match),
        _ => false,
    }
}

fn is_near(offset: &Expression) -> bool {
    number(offset).is_some_and(|offset| offset <= NEAR)
}

/// A number that is written as such.
fn number(expression: &Expression) -> Option<usize> {
    match expression.expr {
        ExpressionKind::Integer(number) => usize::try_from(number).ok(),
        _ => None,
    }
}

/// The search for one match may take long.
pub(super) fn is_long(pattern: &VariableDeclaration) -> bool {
    let is_text = matches!(pattern.value, VariableDeclarationValue::Bytes(_));
    !is_text && longest(pattern).is_none_or(|longest| longest > LONG)
}

/// Bytes of the longest match, or more; none where there is no bound or it is not known.
fn longest(pattern: &VariableDeclaration) -> Option<usize> {
    let modifiers = &pattern.modifiers;
    match &pattern.value {
        VariableDeclarationValue::Bytes(text) => longest_text(text.len(), modifiers),
        VariableDeclarationValue::HexString(tokens) => longest_hex(tokens),
        VariableDeclarationValue::Regex(regexp) => {
            longest_of(&regexp.ast)?.checked_mul(if modifiers.wide { 2 } else { 1 })
        }
    }
}

fn longest_text(mut length: usize, modifiers: &VariableModifiers) -> Option<usize> {
    if modifiers.wide {
        length = length.checked_mul(2)?;
    }
    if let Some(base64) = &modifiers.base64 {
        // Four letters for three bytes, begun ones as well.
        length = length.checked_mul(2)?.checked_add(4)?;
        if base64.wide {
            length = length.checked_mul(2)?;
        }
    }
    Some(length)
}

fn longest_hex(tokens: &[Token]) -> Option<usize> {
    tokens.iter().try_fold(0_usize, |length, token| {
        let more = match token {
            Token::Byte(_)
            | Token::NotByte(_)
            | Token::MaskedByte(..)
            | Token::NotMaskedByte(..) => 1,
            Token::Jump(jump) => usize::try_from(jump.to?).ok()?,
            Token::Alternatives(either) => most(either.iter().map(|tokens| longest_hex(tokens)))?,
        };
        length.checked_add(more)
    })
}

/// An edge of a window looks like an end of the file to `^` and `$`: of what looks around only
/// `\b` is left.
fn longest_of(node: &Node) -> Option<usize> {
    match node {
        Node::Empty | Node::Assertion(AssertionKind::WordBoundary) => Some(0),
        Node::Assertion(_) => None,
        Node::Class(_) | Node::Dot | Node::Literal(_) => Some(1),
        Node::Char(letter) => Some(letter.c.len_utf8()),
        Node::Group(node) => longest_of(node),
        Node::Concat(nodes) => nodes.iter().try_fold(0_usize, |length, node| {
            length.checked_add(longest_of(node)?)
        }),
        Node::Alternation(either) => most(either.iter().map(longest_of)),
        Node::Repetition { node, kind, .. } => {
            let times = match kind {
                RepetitionKind::ZeroOrOne => 1,
                RepetitionKind::Range(
                    RepetitionRange::Exactly(times) | RepetitionRange::Bounded(_, times),
                ) => usize::try_from(*times).ok()?,
                // `*` and `+` have no longest match, so no overlap of two windows is enough for
                // one.
                _ => return None,
            };
            longest_of(node)?.checked_mul(times)
        }
    }
}

/// The largest of them; none if one is not known.
fn most(mut lengths: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    lengths.try_fold(0, |most, length| Some(most.max(length?)))
}
