//! What priorities are called here, and who may ask for how much.

use std::sync::{Arc, Mutex, PoisonError};

use ringway_dtl::{InvalidPriority, Priority};

use crate::config::{Config, PREDEFINED};
use crate::control::AskedPriority;
use crate::limits::{MAX_GROUP_PRIORITY, MAX_RELEASE};
use crate::text::printable;

/// Why a priority is refused: the asker is at fault.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum PriorityRefused {
    #[error("there is no class `{name}`: there are {classes}; or give a number from 0 to 1000")]
    Unknown { name: String, classes: String },
    #[error(
        "{asked} is above priority {most}, the highest that users of this socket may ask for: `max_priority` below [limits] in ringway.toml sets it; the daemon's own user and root may ask for any"
    )]
    TooHigh { asked: Priority, most: Priority },
    #[error(transparent)]
    Invalid(#[from] InvalidPriority),
}

/// The rules at one time.
#[derive(Clone, Debug, PartialEq)]
struct Rules {
    /// In the order of the file.
    classes: Vec<(String, Priority)>,
    /// The highest that others than the daemon's own user and root may ask for.
    most_of_group: Priority,
}

/// The rules of a member, which change when its configuration is read again. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Priorities {
    rules: Arc<Mutex<Arc<Rules>>>,
}

impl Rules {
    fn of(config: &Config) -> Rules {
        let class = |name: &str, flows: f64| {
            let priority = Priority::new(flows).ok()?;
            Some((name.to_owned(), priority))
        };
        let named = config.class.iter();
        let named = named.filter_map(|of| class(&of.name, of.priority));
        let mut classes: Vec<_> = named.collect();
        if classes.is_empty() {
            classes = PREDEFINED
                .iter()
                .filter_map(|(name, flows)| class(name, *flows))
                .collect();
        }
        let most = config.limits.max_priority.unwrap_or(MAX_GROUP_PRIORITY);
        Rules {
            classes,
            most_of_group: Priority::new(most).unwrap_or_default(),
        }
    }

    fn named(&self, name: &str) -> Result<Priority, PriorityRefused> {
        let fits = |class: &&(String, Priority)| class.0 == name;
        let found = self.classes.iter().find(fits);
        found.map(|(_, priority)| *priority).ok_or_else(|| {
            let classes = self.classes.iter();
            let classes = classes.map(|(name, priority)| format!("{name} ({priority})"));
            PriorityRefused::Unknown {
                name: printable(name, MAX_RELEASE),
                classes: classes.collect::<Vec<_>>().join(", "),
            }
        })
    }
}

impl Priorities {
    pub(crate) fn of(config: &Config) -> Priorities {
        Priorities {
            rules: Arc::new(Mutex::new(Arc::new(Rules::of(config)))),
        }
    }

    /// What counts from now on, for what is asked from now on.
    pub(crate) fn configure(&self, config: &Config) {
        let rules = Arc::new(Rules::of(config));
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The highest that somebody may ask for; `is_own` are the daemon's own user and root.
    pub(crate) fn most(&self, is_own: bool) -> Priority {
        if is_own {
            return Priority::new(ringway_dtl::limits::MAX_PRIORITY).unwrap_or_default();
        }
        self.rules().most_of_group
    }

    /// What is asked for, by number or by the name of a class, if it may be.
    pub(crate) fn asked(
        &self,
        asked: &AskedPriority,
        is_own: bool,
    ) -> Result<Priority, PriorityRefused> {
        let priority = match asked {
            AskedPriority::Flows(flows) => Priority::new(*flows)?,
            AskedPriority::Class(name) => self.rules().named(name)?,
        };
        let most = self.most(is_own);
        if priority > most {
            return Err(PriorityRefused::TooHigh {
                asked: priority,
                most,
            });
        }
        Ok(priority)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn priorities(text: &str) -> Priorities {
        Priorities::of(&Config::parse(&format!("[node]\n{text}"), Path::new("f")).unwrap())
    }

    fn class(name: &str) -> AskedPriority {
        AskedPriority::Class(name.to_owned())
    }

    #[test]
    fn names_stand_for_numbers() {
        let predefined = priorities("");
        let asked = |name| predefined.asked(&class(name), true).map(Priority::get);
        assert_eq!(asked("backup"), Ok(0.0));
        assert_eq!(asked("work"), Ok(1.0));
        assert_eq!(asked("live"), Ok(8.0));
        assert_eq!(
            asked("bulk\n").unwrap_err().to_string(),
            "there is no class `bulk`: there are backup (0), work (1), live (8); or give a number from 0 to 1000"
        );
        let own = priorities("[[class]]\nname = \"bulk\"\npriority = 0.25\n");
        let asked = own.asked(&class("bulk"), true).map(Priority::get);
        assert_eq!(asked, Ok(0.25));
        assert!(own.asked(&class("backup"), true).is_err());
    }

    #[test]
    fn the_group_may_ask_for_less() {
        let usual = priorities("");
        let flows = |flows| AskedPriority::Flows(flows);
        assert!(usual.asked(&flows(1000.0), true).is_ok());
        assert!(usual.asked(&flows(8.0), false).is_ok());
        let refused = usual.asked(&flows(8.5), false).unwrap_err();
        assert!(matches!(refused, PriorityRefused::TooHigh { .. }));
        usual.configure(
            &Config::parse("[node]\n[limits]\nmax_priority = 1\n", Path::new("f")).unwrap(),
        );
        assert!(usual.asked(&class("live"), false).is_err());
        assert_eq!(
            usual.asked(&class("live"), true).map(Priority::get),
            Ok(8.0)
        );
        assert_eq!(usual.most(false), Priority::NORMAL);
        for bad in [-1.0, 1e9, f64::NAN] {
            let refused = usual.asked(&flows(bad), true);
            assert!(matches!(refused, Err(PriorityRefused::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn wrong_classes_are_refused_with_the_mend() {
        for (text, part) in [
            ("[[class]]\nname = \"1st\"\npriority = 1\n", "class's name"),
            ("[[class]]\nname = \"inf\"\npriority = 1\n", "class's name"),
            ("[[class]]\nname = \"a b\"\npriority = 1\n", "class's name"),
            ("[[class]]\nname = \"a\"\npriority = -1\n", "from 0 to 1000"),
            (
                "[[class]]\nname = \"a\"\npriority = \"1\"\n",
                "from 0 to 1000",
            ),
            ("[[class]]\nname = \"a\"\n", "priority"),
            (
                "[[class]]\nname = \"a\"\npriority = 1\n[[class]]\nname = \"a\"\npriority = 2\n",
                "another class",
            ),
            ("[limits]\nmax_priority = 1e4\n", "from 0 to 1000"),
        ] {
            let read = Config::parse(&format!("[node]\n{text}"), Path::new("f"));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
