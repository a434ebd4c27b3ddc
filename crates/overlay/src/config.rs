//! What a member of the ring can be configured with.

use std::time::Duration;

use crate::limits::{
    MAX_GROUP, MAX_RETRIES, MAX_SUCCESSORS, MIN_GROUP, MIN_INTERVAL, MIN_SUCCESSORS,
};
use crate::lookup::inquiry::Rule;
use crate::view::is_group_size;

/// The settings of one member. All members of a ring have the same `successors` and `group`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Entries of the successor list, Zave's r: 2 to 16. The ring survives the death of r − 1
    /// neighbours between two rounds of stabilisation. Default 3.
    pub successors: usize,
    /// Time between two rounds of stabilisation, ± 25 % at random. At least 10 ms. Default 1 s.
    pub stabilise_interval: Duration,
    /// Members of a group, g: odd, 5 to 15. All members of a ring should have the same. Default 9.
    pub group: usize,
    /// Time between two questions to members of the own group, ± 25 % at random. At least 10 ms.
    /// Default 2 s.
    pub group_interval: Duration,
    /// How a member with credentials looks things up. Default verified.
    pub lookups: Rule,
    /// The share of the views met in lookups that a neighbour of their author is told of, 0 to 1.
    /// Default 1/3.
    pub witness_share: f64,
    /// Time between two refreshed fingers, ± 25 % at random; sixteen times as often until the
    /// first pass is complete. At least 10 ms. Default 16 s.
    pub finger_interval: Duration,
    /// Time without an answer after which a request is repeated. At least 10 ms. Default 500 ms.
    pub request_timeout: Duration,
    /// Repetitions after which the asked member counts as dead: 0 to 10. Default 2.
    pub retries: u32,
    /// Time after which a lookup fails. At least 10 ms. Default 10 s.
    pub lookup_timeout: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            successors: 3,
            stabilise_interval: Duration::from_secs(1),
            group: 9,
            group_interval: Duration::from_secs(2),
            lookups: Rule::Verified,
            witness_share: 1.0 / 3.0,
            finger_interval: Duration::from_secs(16),
            request_timeout: Duration::from_millis(500),
            retries: 2,
            lookup_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a [`Config`] is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// `successors` is out of range.
    #[error("successors is {0}; it must be {MIN_SUCCESSORS} to {MAX_SUCCESSORS}")]
    Successors(usize),
    /// `group` is out of range, or even.
    #[error("group is {0}; it must be odd, from {MIN_GROUP} to {MAX_GROUP}")]
    Group(usize),
    /// `witness_share` is no share.
    #[error("witness_share is {0}; it must be 0 to 1")]
    WitnessShare(f64),
    /// `retries` is out of range.
    #[error("retries is {0}; it must be 0 to {MAX_RETRIES}")]
    Retries(u32),
    /// A time is too short.
    #[error("{name} is {value:?}; it must be at least {MIN_INTERVAL:?}")]
    TooShort {
        /// The field's name.
        name: &'static str,
        /// What it was set to.
        value: Duration,
    },
}

impl Config {
    /// Whether every field is in its range.
    ///
    /// # Errors
    ///
    /// Names the first field that is not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(MIN_SUCCESSORS..=MAX_SUCCESSORS).contains(&self.successors) {
            return Err(ConfigError::Successors(self.successors));
        }
        if self.retries > MAX_RETRIES {
            return Err(ConfigError::Retries(self.retries));
        }
        if !is_group_size(self.group) {
            return Err(ConfigError::Group(self.group));
        }
        if !(0.0..=1.0).contains(&self.witness_share) {
            return Err(ConfigError::WitnessShare(self.witness_share));
        }
        let times = [
            ("stabilise_interval", self.stabilise_interval),
            ("group_interval", self.group_interval),
            ("finger_interval", self.finger_interval),
            ("request_timeout", self.request_timeout),
            ("lookup_timeout", self.lookup_timeout),
        ];
        match times.into_iter().find(|(_, value)| *value < MIN_INTERVAL) {
            Some((name, value)) => Err(ConfigError::TooShort { name, value }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_passes_and_bad_values_are_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        for successors in [0, 1, 17] {
            let config = Config {
                successors,
                ..Config::default()
            };
            assert_eq!(config.validate(), Err(ConfigError::Successors(successors)));
        }
        for group in [0, 3, 4, 8, 16, 17] {
            let config = Config {
                group,
                ..Config::default()
            };
            assert_eq!(config.validate(), Err(ConfigError::Group(group)));
        }
        let config = Config {
            retries: 11,
            ..Config::default()
        };
        assert_eq!(config.validate(), Err(ConfigError::Retries(11)));
        let config = Config {
            request_timeout: Duration::ZERO,
            ..Config::default()
        };
        let error = config.validate().unwrap_err();
        assert!(
            error.to_string().starts_with("request_timeout is 0ns"),
            "{error}"
        );
    }
}
