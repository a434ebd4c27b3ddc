//! Where in a file of the user's something stands.

/// The line, from 1, of an offset into the text.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    let before = text
        .as_bytes()
        .get(..offset.min(text.len()))
        .unwrap_or_default();
    before
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        .saturating_add(1)
}
