//! Whether what stands in `ringway.toml` has the right type.
//!
//! Types are checked here and not by serde, whose words are those of programmers.

mod keys;

use std::net::SocketAddr;
use std::ops::Range;

use ringway_dtl::Priority;
use ringway_transport::{Address, WebAddress};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use self::keys::{ANY, FILE, Key, Kind};
use super::Globs;
use super::bytes::parse_bytes;
use super::document::Wrong;
use crate::certificate::Name;
use crate::endpoint::Endpoint;

/// Where a table stands that does not: behind all else.
const END: Range<usize> = usize::MAX..usize::MAX;

/// The first thing in the file that is none of the keys, or not of its kind.
pub(super) fn check(root: &DeTable<'_>) -> Option<(Option<Range<usize>>, Wrong)> {
    let mut all = Vec::new();
    check_table(root, FILE, "", &END, &mut all);
    let (span, wrong) = all.into_iter().min_by_key(|(span, _)| span.start)?;
    Some(((span != END).then_some(span), wrong))
}

/// What must stand behind a key, such as `limits.upload`; none if there is no such key.
pub(super) fn needed(key: &str) -> Option<String> {
    const NONE: &[Key] = &[];
    let ((mut keys, mut others), mut found) = ((FILE, NONE), None);
    for step in key.split('.') {
        let mut known = keys.iter().chain(others);
        let key = known.find(|key| key.name == step)?;
        found = Some(key);
        (keys, others) = match key.kind {
            Kind::Table(keys) | Kind::Tables(keys) => (keys, NONE),
            Kind::TablesOrTable(keys, others) => (keys, others),
            _ => (NONE, NONE),
        };
    }
    found.map(Key::needed)
}

impl Key {
    /// In the user's words.
    fn needed(&self) -> String {
        let Key { name, example, .. } = self;
        let what = match self.kind {
            Kind::Flag => "true or false, without quotes, is needed".to_owned(),
            Kind::Whole(least, ANY) => format!("a whole number from {least} is needed"),
            Kind::Whole(least, most) => {
                format!("a whole number from {least} to {most} is needed")
            }
            Kind::Bytes => {
                "a whole number of bytes from 0, or one with a unit in quotes, is needed".to_owned()
            }
            Kind::Priority => "a number from 0 to 1000 is needed".to_owned(),
            Kind::Text => "a text in quotes that is not empty is needed".to_owned(),
            Kind::Texts => "a list of texts in quotes is needed".to_owned(),
            Kind::Command => {
                "a program by its absolute path, and its arguments, as a list of texts in quotes are needed".to_owned()
            }
            Kind::Globs => "a list of patterns in quotes is needed".to_owned(),
            Kind::Names => {
                "a list of members' names in quotes, or of \"*\" for all, is needed".to_owned()
            }
            Kind::Addresses | Kind::WebAddresses => {
                "a list of addresses in quotes is needed".to_owned()
            }
            Kind::Pair => "a list of two texts in quotes is needed".to_owned(),
            Kind::Endpoint => {
                "a host name or an IP address, and a port from 1, in quotes, are needed".to_owned()
            }
            Kind::Socket => "an IP address and a port from 1, in quotes, are needed".to_owned(),
            Kind::SocketOrAny => "an IP address and a port, in quotes, are needed".to_owned(),
            Kind::Choice(words) => format!("one of {} is needed", quoted(words)),
            Kind::Choices(words) => format!("a list of {} is needed", quoted(words)),
            Kind::Variables => "a table of texts is needed".to_owned(),
            Kind::Table(_) if example.starts_with('[') => {
                return format!(
                    "write [{name}], in single brackets, above its keys: it stands once"
                );
            }
            Kind::Table(_) => "a table is needed".to_owned(),
            Kind::Tables(_) | Kind::TablesOrTable(..) => {
                return format!("write [[{name}]], in double brackets, above the keys of each");
            }
        };
        format!("{what}, such as `{example}`")
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.join(""),
    }
}

type Found = Vec<(Range<usize>, Wrong)>;

fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}.{name}"),
    }
}

fn check_table(
    table: &DeTable<'_>,
    keys: &[Key],
    prefix: &str,
    span: &Range<usize>,
    all: &mut Found,
) {
    for (name, value) in table {
        let full = join(prefix, name.get_ref());
        match keys.iter().find(|key| key.name == name.get_ref().as_ref()) {
            Some(key) => check_value(value, key, &full, &name.span(), all),
            None => {
                let reason = unknown(name.get_ref(), keys, prefix);
                all.push((name.span(), Wrong::new(full, reason)));
            }
        }
    }
    for key in keys {
        if key.is_needed && !table.contains_key(key.name) {
            let reason = match key.kind {
                Kind::Table(_) => format!("the line `{}` is missing", key.example),
                _ => format!("it is missing: write, for example, `{}`", key.example),
            };
            all.push((span.clone(), Wrong::new(join(prefix, key.name), reason)));
        }
    }
}

fn unknown(name: &str, keys: &[Key], prefix: &str) -> String {
    let elsewhere = |key: &&Key| match key.kind {
        Kind::Table(keys) | Kind::Tables(keys) => keys.iter().any(|key| key.name == name),
        Kind::TablesOrTable(list, table) => list.iter().chain(table).any(|key| key.name == name),
        _ => false,
    };
    if let Some(table) = FILE.iter().find(elsewhere) {
        return format!(
            "there is no such key here: it belongs below {}",
            table.example
        );
    }
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    match prefix {
        "" => format!("there is no such table; there are {}", names.join(", ")),
        _ => format!("there is no such key; there are {}", names.join(", ")),
    }
}

/// `span` is where the key stands.
fn check_value(
    value: &Spanned<DeValue<'_>>,
    key: &Key,
    full: &str,
    span: &Range<usize>,
    all: &mut Found,
) {
    let inner = value.get_ref();
    let fits = match (key.kind, inner) {
        (Kind::Table(keys), DeValue::Table(table)) => {
            check_table(table, keys, full, span, all);
            true
        }
        (Kind::TablesOrTable(_, keys), DeValue::Table(table)) => {
            check_table(table, keys, full, span, all);
            true
        }
        (Kind::Tables(keys) | Kind::TablesOrTable(keys, _), DeValue::Array(list)) => {
            for (position, item) in list.iter().enumerate() {
                let full = join(full, &position.to_string());
                match item.get_ref() {
                    DeValue::Table(table) => check_table(table, keys, &full, &item.span(), all),
                    _ => all.push((item.span(), Wrong::new(full, key.needed()))),
                }
            }
            true
        }
        (Kind::Variables, DeValue::Table(table)) => {
            for (name, value) in table.iter().filter(|(_, value)| !value.get_ref().is_str()) {
                let full = join(full, name.get_ref());
                all.push((value.span(), Wrong::new(full, key.needed())));
            }
            true
        }
        (kind, value) => is_plain(kind, value),
    };
    if !fits {
        all.push((span.clone(), Wrong::new(full, key.needed())));
        return;
    }
    for item in inner.as_array().into_iter().flat_map(|list| list.iter()) {
        let text = item.get_ref().as_str().unwrap_or_default();
        if let Err(reason) = check_item(key.kind, text) {
            let reason = format!("{reason}; right is, for example, `{}`", key.example);
            all.push((item.span(), Wrong::new(full, reason)));
        }
    }
}

/// One text of a list.
fn check_item(kind: Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Names if text == "*" => Ok(()),
        Kind::Names => {
            let name = text.parse::<Name>();
            name.map(drop).map_err(|error| error.to_string())
        }
        Kind::Globs => Globs::new(vec![text.to_owned()])
            .map(drop)
            .map_err(|error| format!("`{}` is no pattern: {}", text.escape_debug(), error.kind())),
        Kind::WebAddresses => {
            let address = text.parse::<WebAddress>();
            address.map(drop).map_err(|error| error.to_string())
        }
        Kind::Addresses => match text.parse::<Address>() {
            Err(error) => Err(error.to_string()),
            Ok(address) if !address.is_dialable() => {
                Err(format!("nothing can be sent to `{address}`"))
            }
            Ok(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether a value without tables in it is of this kind.
fn is_plain(kind: Kind, value: &DeValue<'_>) -> bool {
    let texts = |fits: &dyn Fn(&str) -> bool| {
        let list = value.as_array();
        list.is_some_and(|list| {
            list.iter()
                .all(|item| item.get_ref().as_str().is_some_and(fits))
        })
    };
    match kind {
        Kind::Flag => value.is_bool(),
        Kind::Whole(least, most) => value
            .as_integer()
            .and_then(whole)
            .is_some_and(|number| (least..=most).contains(&number)),
        Kind::Bytes => match value.as_str() {
            Some(text) => parse_bytes(text).is_some(),
            None => value.as_integer().and_then(whole).is_some(),
        },
        Kind::Priority => is_priority(value),
        Kind::Text => value.as_str().is_some_and(|text| !text.is_empty()),
        Kind::Texts | Kind::Names | Kind::Globs | Kind::WebAddresses => texts(&|_| true),
        Kind::Addresses | Kind::Command => {
            texts(&|_| true) && value.as_array().is_some_and(|list| !list.is_empty())
        }
        Kind::Pair => texts(&|_| true) && value.as_array().is_some_and(|list| list.len() == 2),
        Kind::Endpoint => {
            let place = value.as_str().map(str::parse::<Endpoint>);
            place.is_some_and(|place| place.is_ok_and(|place| place.port() != 0))
        }
        Kind::Socket => socket(value).is_some_and(|socket| socket.port() != 0),
        Kind::SocketOrAny => socket(value).is_some(),
        Kind::Choice(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        Kind::Choices(words) => texts(&|text| words.contains(&text)),
        Kind::Variables | Kind::Table(_) | Kind::Tables(_) | Kind::TablesOrTable(..) => false,
    }
}

fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn is_priority(value: &DeValue<'_>) -> bool {
    let number = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<Priority>(),
        DeValue::Float(number) => number.as_str().parse::<Priority>(),
        _ => return false,
    };
    number.is_ok()
}

fn socket(value: &DeValue<'_>) -> Option<SocketAddr> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::keys::SERVER;
    use super::*;

    /// Puts an example where it belongs.
    fn file(table: &str, key: &Key) -> String {
        match key.kind {
            Kind::Table(_) | Kind::Tables(_) if key.example.starts_with('[') => String::new(),
            _ => format!("{table}\n{}\n", key.example),
        }
    }

    #[test]
    fn every_example_is_right_itself() {
        let of = |keys: &'static [Key], table: &str| {
            for key in keys {
                let text = file(table, key);
                let root = DeTable::parse(&text).unwrap();
                let mut all = Vec::new();
                let mut inner = root.get_ref();
                if let Some((_, value)) = inner.iter().next().filter(|_| !table.is_empty()) {
                    inner = value.get_ref().as_table().unwrap();
                    for (name, value) in inner {
                        assert_eq!(name.get_ref(), key.name);
                        check_value(value, key, key.name, &(0..0), &mut all);
                    }
                }
                assert!(all.is_empty(), "{all:?}");
            }
        };
        for table in FILE {
            match table.kind {
                Kind::Table(keys) | Kind::Tables(keys) => of(keys, "[x]"),
                Kind::TablesOrTable(list, table) => {
                    of(list, "[x]");
                    of(table, "[x]");
                }
                _ => {}
            }
        }
        of(SERVER, "[x]");
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        for table in FILE {
            let keys: Vec<&Key> = match table.kind {
                Kind::Table(keys) | Kind::Tables(keys) => keys.iter().collect(),
                Kind::TablesOrTable(list, table) => list.iter().chain(table).collect(),
                _ => panic!("{table:?}"),
            };
            for key in keys {
                let full = format!("`{}.{}`", table.name, key.name);
                let alone = format!("`{}`", key.name);
                assert!(page.contains(&full) || page.contains(&alone), "{full}");
            }
        }
        for key in SERVER {
            assert!(page.contains(key.name), "{}", key.name);
        }
    }
}
