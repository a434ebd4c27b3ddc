//! From a file's text to its form: what is no TOML, which keys there are not, and which values are
//! of another kind. All of that is found at once.

use serde::de::DeserializeOwned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::error::PolicyError;
use crate::limits::MAX_POLICY_FAULTS;
use crate::lines::line_of;
use crate::wording;

/// The file as far as it has its form, and what has not. `None`: nothing is left to look at.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> (Option<T>, Vec<PolicyError>) {
    let fault = |error: &toml::de::Error| {
        let line = error.span().map_or(0, |span| line_of(text, span.start));
        PolicyError::new(line, wording::of_reader(error.message()))
    };
    let (mut table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // One slip makes several errors, of which the first in a line says what it is.
        let mut faults: Vec<PolicyError> = errors.iter().map(fault).collect();
        faults.sort_by_key(|fault| fault.line);
        faults.dedup_by_key(|fault| fault.line);
        return (None, faults);
    }
    let (mut faults, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..MAX_POLICY_FAULTS {
        let error = match T::deserialize(Deserializer::from(table.clone())) {
            Ok(form) => return (Some(form), faults),
            Err(error) => error,
        };
        // A key that was taken out for its value is not missing, once for each.
        let lacks = |key: &String| error.message() == format!("missing field `{key}`");
        match taken.iter().position(lacks) {
            Some(place) => drop(taken.swap_remove(place)),
            None => faults.push(fault(&error)),
        }
        // What is wrong is taken out, so that the next reading comes further.
        let span = error.span();
        let Some(key) = span.and_then(|span| take_out(table.get_mut(), span.start)) else {
            break;
        };
        taken.push(key);
    }
    (None, faults)
}

/// Takes out the key or value that an offset lies in; returns the key, empty for an item of a list.
fn take_out(table: &mut DeTable<'_>, at: usize) -> Option<String> {
    let within = table.iter().find_map(|(key, value)| {
        let value_has = is_leaf(value.get_ref()) && value.span().contains(&at);
        (key.span().contains(&at) || value_has).then(|| key.get_ref().clone().into_owned())
    });
    if let Some(key) = within {
        table.remove(&*key);
        return Some(key);
    }
    for (_, value) in table.iter_mut() {
        if let Some(key) = take_out_of(value.get_mut(), at) {
            return Some(key);
        }
    }
    // What lacks a key is taken out as a whole: its error stands at its beginning.
    let whole = table.iter().find(|(_, value)| value.span().start == at);
    let key = whole.map(|(key, _)| key.get_ref().clone().into_owned())?;
    table.remove(&*key);
    Some(key)
}

fn take_out_of(value: &mut DeValue<'_>, at: usize) -> Option<String> {
    match value {
        DeValue::Table(table) => take_out(table, at),
        DeValue::Array(items) => {
            for item in items.iter_mut() {
                if let Some(key) = take_out_of(item.get_mut(), at) {
                    return Some(key);
                }
            }
            let place = items.iter().position(|item| item.span().start == at)?;
            let rest = std::mem::replace(items, DeArray::new())
                .into_iter()
                .enumerate();
            let rest = rest.filter(|(number, _)| *number != place);
            *items = rest.map(|(_, item)| item).collect();
            Some(String::new())
        }
        _ => None,
    }
}

/// It is no table, nor a list of them.
fn is_leaf(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(_) => false,
        DeValue::Array(items) => !items
            .iter()
            .any(|item| matches!(item.get_ref(), DeValue::Table(_))),
        _ => true,
    }
}
