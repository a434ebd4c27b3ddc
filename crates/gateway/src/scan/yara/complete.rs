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

use std::collections::HashMap;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Look;
use yara_x_parser::Parser;
use yara_x_parser::ast::{
    AST, Expr, HexSubPattern, HexToken, MatchAnchor, OfItems, Pattern, Quantifier, Regexp,
    RegexpPattern, Rule, RuleFlags, TextPattern, WithSpan as _,
};
use yara_x_parser::cst::{Event, SyntaxKind};

use super::WHOLE;
use crate::limits::{MAX_RULE_MATCHES, SCAN_OVERLAP};

/// Bytes on either side of a match that decide whether it is one: two of `fullword` and `\b` in
/// wide text, six of what `base64wide` decodes.
const AROUND: usize = 8;
/// The last place of which a condition may ask (`$a at 0`, `$a in (0..1024)`). What begins later
/// may be passed over after [`MAX_RULE_MATCHES`] others, and in a window after others than in the
/// file.
const NEAR: usize = MAX_RULE_MATCHES / 2;
// Before a match is found that begins there, nothing is found that begins further on than by its
// length and a few bytes.
const _: () = assert!(NEAR + SCAN_OVERLAP + 64 < MAX_RULE_MATCHES);

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
    let trees: Vec<_> = texts.iter().map(|text| AST::from(*text)).collect();
    // A global rule keeps others from holding.
    let global = |rule: &Rule<'_>| rule.flags.contains(RuleFlags::Global);
    let unclear = |tree: &AST<'_>| !tree.errors().is_empty() || tree.rules().any(global);
    if trees.iter().any(unclear) {
        return Rest::All;
    }
    let left: Option<Vec<_>> = texts
        .iter()
        .zip(&trees)
        .map(|(text, tree)| left(text, tree, overlap))
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

/// What is left of a text, with how many rules, and without how many.
#[derive(Default)]
struct Left {
    text: String,
    kept: usize,
    dropped: usize,
}

/// Leaves out the rules that are complete. One whose name is there once more stays: another rule
/// may need it.
fn left(text: &str, tree: &AST<'_>, overlap: usize) -> Option<Left> {
    let mut names: HashMap<&str, usize> = tree
        .rules()
        .filter(|rule| is_complete(rule, overlap))
        .map(|rule| (rule.identifier.name, 0))
        .collect();
    let mut places = Vec::new();
    for event in Parser::new(text.as_bytes()) {
        match event {
            // The tree does not tell where a rule begins and ends.
            Event::Begin {
                kind: SyntaxKind::RULE_DECL,
                span,
            } => places.push(span),
            Event::Token {
                kind: SyntaxKind::IDENT,
                span,
            } => {
                if let Some(count) = names.get_mut(text.get(span.range())?) {
                    *count = count.saturating_add(1);
                }
            }
            _ => {}
        }
    }
    let mut places = places.into_iter();
    let mut left = Left::default();
    let mut from = 0;
    for rule in tree.rules() {
        let name = &rule.identifier;
        let place = places.find(|place| place.contains(&name.span()))?;
        if names.get(name.name) != Some(&1) {
            left.kept = left.kept.saturating_add(1);
            continue;
        }
        left.text.push_str(text.get(from..place.start())?);
        // What stood on either side must not become one word.
        left.text.push('\n');
        left.dropped = left.dropped.saturating_add(1);
        from = place.end();
    }
    left.text.push_str(text.get(from..)?);
    Some(left)
}

/// It holds of a whole file only if it holds of a window.
fn is_complete(rule: &Rule<'_>, overlap: usize) -> bool {
    let whole = rule.tags.iter().flatten().any(|tag| tag.name == WHOLE);
    let fits = |pattern| {
        let length = longest(pattern).and_then(|longest| longest.checked_add(2 * AROUND));
        length.is_some_and(|length| length <= overlap)
    };
    !whole
        && !rule.flags.contains(RuleFlags::Global)
        && needs_one_match(&rule.condition)
        && rule.patterns.iter().flatten().all(fits)
}

/// One match of one pattern is enough for the condition, and without a match it does not hold.
fn needs_one_match(condition: &Expr<'_>) -> bool {
    match condition {
        Expr::False { .. } => true,
        Expr::PatternMatch(found) => found.anchor.as_ref().is_none_or(is_near),
        Expr::Of(of) => {
            let any = match &of.quantifier {
                Quantifier::Any { .. } => true,
                Quantifier::Expr(count) => number(count) == Some(1),
                _ => false,
            };
            any && of.anchor.is_none() && matches!(of.items, OfItems::PatternSet(_))
        }
        Expr::Or(either) => either.operands().all(needs_one_match),
        _ => false,
    }
}

fn is_near(anchor: &MatchAnchor<'_>) -> bool {
    let near = |place| number(place).is_some_and(|place| place <= NEAR);
    match anchor {
        MatchAnchor::At(at) => near(&at.expr),
        MatchAnchor::In(within) => {
            near(&within.range.lower_bound) && near(&within.range.upper_bound)
        }
    }
}

/// A number that is written as such.
fn number(expression: &Expr<'_>) -> Option<usize> {
    match expression {
        Expr::LiteralInteger(number) if !number.is_unsigned => usize::try_from(number.value).ok(),
        _ => None,
    }
}

/// Bytes of the longest match, or more; none where there is no bound or it is not known.
fn longest(pattern: &Pattern<'_>) -> Option<usize> {
    match pattern {
        Pattern::Text(text) => longest_text(text),
        Pattern::Hex(hex) => longest_hex(&hex.sub_patterns),
        Pattern::Regexp(regexp) => longest_regexp(regexp),
    }
}

fn longest_text(pattern: &TextPattern<'_>) -> Option<usize> {
    let modifiers = &pattern.modifiers;
    let mut length = pattern.text.value.len();
    if modifiers.wide().is_some() {
        length = length.checked_mul(2)?;
    }
    let wide = modifiers.base64wide().is_some();
    if wide || modifiers.base64().is_some() {
        // Four letters for three bytes, begun ones as well.
        length = length.checked_mul(2)?.checked_add(4)?;
    }
    if wide {
        length = length.checked_mul(2)?;
    }
    Some(length)
}

fn longest_hex(pattern: &HexSubPattern) -> Option<usize> {
    let mut length: usize = 0;
    for token in pattern.iter() {
        let more = match token {
            HexToken::Byte(_) | HexToken::NotByte(_) => 1,
            HexToken::Jump(jump) => usize::try_from(jump.end?).ok()?,
            HexToken::Alternative(either) => {
                let mut most = 0;
                for pattern in &either.alternatives {
                    most = most.max(longest_hex(pattern)?);
                }
                most
            }
        };
        length = length.checked_add(more)?;
    }
    Some(length)
}

fn longest_regexp(pattern: &RegexpPattern<'_>) -> Option<usize> {
    let modifiers = &pattern.modifiers;
    let length = longest_of(&pattern.regexp, modifiers.nocase().is_some())?;
    if modifiers.wide().is_some() {
        return length.checked_mul(2);
    }
    Some(length)
}

/// Reads it as YARA-X does, of bytes. An edge of a window looks like an end of the file to `^` and
/// `$`, and `\<`, which is an assertion here, is a letter there: of those that look around only
/// `\b` is left.
fn longest_of(regexp: &Regexp<'_>, nocase: bool) -> Option<usize> {
    let read = ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(nocase || regexp.case_insensitive)
        .dot_matches_new_line(regexp.dot_matches_new_line)
        .build()
        .parse(regexp.src)
        .ok()?;
    let properties = read.properties();
    let mut looks = properties.look_set().iter();
    if !looks.all(|look| look == Look::WordAscii) {
        return None;
    }
    properties.maximum_len()
}
