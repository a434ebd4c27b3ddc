//! Requests that ask for no coded files: what a scanner reads is the file itself.

/// A request's head with blanks in place of the codings that it accepts (RFC 9110 §12.5.3: an empty
/// field accepts none). `None`: it names none, or is no head.
pub(super) fn blanked(payload: &[u8]) -> Option<Vec<u8>> {
    const FIELD: &[u8] = b"\naccept-encoding:";
    let end = payload.windows(4).position(|window| window == b"\r\n\r\n");
    let head = payload.get(..end.unwrap_or(payload.len()))?;
    let at = head
        .windows(FIELD.len())
        .position(|window| window.eq_ignore_ascii_case(FIELD))?;
    let from = at.checked_add(FIELD.len())?;
    let value = head.get(from..)?;
    let length = value
        .iter()
        .position(|&byte| byte == b'\r')
        .unwrap_or(value.len());
    let mut rewritten = payload.to_vec();
    let value = rewritten.get_mut(from..from.checked_add(length)?)?;
    if value.trim_ascii().is_empty() {
        return None;
    }
    value.fill(b' ');
    Some(rewritten)
}
