//! What a file's reader says of a wrong key or value, in words of this project.

/// `message` as `serde` has it, told by keys and values: its own words are those of a programming
/// language. Any other message stays as it is.
pub(crate) fn of_reader(message: &str) -> String {
    let parts = |start: &str| message.strip_prefix(start)?.split_once('`');
    if let Some((key, rest)) = parts("unknown field `") {
        return format!("there is no key `{key}` here{}", instead(rest, "can be"));
    }
    if let Some((value, rest)) = parts("unknown variant `") {
        return format!("`{value}` cannot stand here{}", instead(rest, "can"));
    }
    if let Some((key, _)) = parts("missing field `") {
        return format!("the key `{key}` is missing");
    }
    message.to_owned()
}

/// What may be there, which follows behind "expected".
fn instead(rest: &str, can: &str) -> String {
    let expected = [", expected one of ", ", expected "]
        .into_iter()
        .find_map(|word| rest.strip_prefix(word));
    expected.map_or_else(String::new, |expected| format!(": {expected} {can}"))
}

#[cfg(test)]
mod tests {
    use super::of_reader;

    #[test]
    fn readers_words_become_ours() {
        for (theirs, ours) in [
            (
                "unknown field `colour`, expected one of `name`, `action`",
                "there is no key `colour` here: `name`, `action` can be",
            ),
            (
                "unknown variant `burn`, expected `allow` or `block`",
                "`burn` cannot stand here: `allow` or `block` can",
            ),
            ("missing field `action`", "the key `action` is missing"),
            (
                "unknown field `a`, there are no fields",
                "there is no key `a` here",
            ),
            ("invalid type: integer", "invalid type: integer"),
        ] {
            assert_eq!(of_reader(theirs), ours);
        }
    }
}
