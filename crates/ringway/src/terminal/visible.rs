//! Names and words of others on a terminal: what would move its cursor, or turn around the order of
//! what is shown, is shown as an escape.

use std::borrow::Cow;

/// The text with control characters, and those of the Unicode bidirectional algorithm, as `\u{..}`.
/// Line ends and tabs stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmful(c) {
            shown.extend(c.escape_unicode())
        } else {
            shown.push(c)
        }
    }
    Cow::Owned(shown)
}

fn is_harmful(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    control
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_done() {
        assert_eq!(visible("a\u{1b}[2Jb\u{7}"), "a\\u{1b}[2Jb\\u{7}");
        assert_eq!(visible("x\u{202e}fdp.exe"), "x\\u{202e}fdp.exe");
        for plain in ["two\nlines\tand a tab", "שלום → ä"] {
            assert!(matches!(visible(plain), Cow::Borrowed(_)), "{plain}");
        }
    }
}
