//! `[[class]]`: names of priorities.

use std::collections::BTreeSet;

use ringway_dtl::Priority;
use serde::Deserialize;

use super::{Config, Wrong};
use crate::limits::{CLASS_NAME_BYTES, CLASSES};

/// The classes of a member that names none.
pub(crate) const PREDEFINED: [(&str, f64); 3] = [("backup", 0.0), ("work", 1.0), ("live", 8.0)];

/// `[[class]]`: a name for a priority.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// Letters, digits, `-` and `_`; a letter first.
    pub name: String,
    /// What it stands for.
    pub priority: f64,
}

/// Whether this could be the name of a class: nothing that is a number is.
#[must_use]
pub fn is_class_name(name: &str) -> bool {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on = characters.all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_number = name.parse::<f64>().is_ok();
    begins && goes_on && name.len() <= CLASS_NAME_BYTES && !is_number
}

impl Config {
    pub(super) fn check_classes(&self) -> Result<(), Wrong> {
        let mut names = BTreeSet::new();
        for (index, class) in self.class.iter().enumerate() {
            let ClassConfig { name, priority } = class;
            let wrong =
                |key: &str, reason: String| Err(Wrong::new(format!("class.{index}.{key}"), reason));
            if !is_class_name(name) {
                let name = name.escape_debug();
                return wrong(
                    "name",
                    format!(
                        "`{name}` is no class's name: it has up to {CLASS_NAME_BYTES} letters, digits, `-` and `_`, a letter first, and is no number, such as `name = \"backup\"`"
                    ),
                );
            }
            if !names.insert(name) {
                return wrong("name", "another class has this name".to_owned());
            }
            if let Err(error) = Priority::new(*priority) {
                return wrong("priority", error.to_string());
            }
        }
        if self.class.len() > CLASSES {
            let reason = format!("there are more than {CLASSES} classes: join some");
            return Err(Wrong::new(format!("class.{CLASSES}.name"), reason));
        }
        match self.limits.max_priority.map(Priority::new) {
            Some(Err(error)) => Err(Wrong::new("limits.max_priority", error.to_string())),
            _ => Ok(()),
        }
    }
}
