//! Priority: how many TCP flows a transfer is worth.

use std::fmt;
use std::str::FromStr;

use crate::limits::{MAX_ERROR_TEXT, MAX_PRIORITY};

/// How aggressive a transfer is: 0 is less than best effort, N > 0 is worth N TCP flows.
///
/// Always finite, never negative and at most [`MAX_PRIORITY`]. Source: the paper, equation 1.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
pub struct Priority(f64);

impl Priority {
    /// Less than best effort: takes what others leave.
    pub const SCAVENGER: Priority = Priority(0.0);
    /// Worth one TCP flow.
    pub const NORMAL: Priority = Priority(1.0);

    /// Checks a number of TCP flows; fractions are allowed.
    ///
    /// # Errors
    /// [`InvalidPriority`] when `flows` is NaN, negative, infinite or above [`MAX_PRIORITY`].
    pub fn new(flows: f64) -> Result<Priority, InvalidPriority> {
        if flows.is_nan() {
            return Err(InvalidPriority::NotANumber);
        }
        if flows.is_infinite() {
            return Err(InvalidPriority::Infinite);
        }
        if flows < 0.0 {
            return Err(InvalidPriority::Negative(flows));
        }
        if flows > MAX_PRIORITY {
            return Err(InvalidPriority::TooLarge(flows));
        }
        // Adding zero turns -0.0, which passes the test above, into 0.0: it must print as 0.
        Ok(Priority(flows + 0.0))
    }

    /// The number of TCP flows, in 0 ..= [`MAX_PRIORITY`].
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// Whether this is priority 0.
    #[must_use]
    pub fn is_scavenger(self) -> bool {
        self.0 <= 0.0
    }
}

impl Default for Priority {
    /// [`Priority::NORMAL`].
    fn default() -> Priority {
        Priority::NORMAL
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Priority {
    type Err = InvalidPriority;

    fn from_str(text: &str) -> Result<Priority, InvalidPriority> {
        let number = text.trim().parse::<f64>().map_err(|_| {
            InvalidPriority::Unreadable(text.chars().take(MAX_ERROR_TEXT).collect())
        })?;
        Priority::new(number)
    }
}

impl TryFrom<f64> for Priority {
    type Error = InvalidPriority;

    fn try_from(flows: f64) -> Result<Priority, InvalidPriority> {
        Priority::new(flows)
    }
}

/// Why a number is no [`Priority`]. The caller, or the user behind it, is at fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPriority {
    /// The value is NaN.
    #[error("priority is not a number (NaN): give a number from 0 to {MAX_PRIORITY}")]
    NotANumber,
    /// The value is infinite.
    #[error("priority is infinite: give a number from 0 to {MAX_PRIORITY}")]
    Infinite,
    /// The value is below zero.
    #[error("priority {0} is negative: give 0 for less than best effort, or up to {MAX_PRIORITY}")]
    Negative(f64),
    /// The value is above [`MAX_PRIORITY`].
    #[error("priority {0} is too large: the largest is {MAX_PRIORITY}")]
    TooLarge(f64),
    /// The text is no decimal number; it is repeated up to [`MAX_ERROR_TEXT`] characters.
    #[error(
        "priority {0:?} is no number: give a number from 0 to {MAX_PRIORITY}, such as 0, 0.5 or 2"
    )]
    Unreadable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_whole_range() {
        for flows in [0.0, f64::MIN_POSITIVE, 0.25, 1.0, 4.0, MAX_PRIORITY] {
            assert_eq!(Priority::new(flows).unwrap().get(), flows);
        }
        assert!(Priority::new(-0.0).unwrap().get().is_sign_positive());
        assert!(Priority::SCAVENGER.is_scavenger());
        assert!(!Priority::new(f64::MIN_POSITIVE).unwrap().is_scavenger());
    }

    #[test]
    fn refuses_what_is_no_priority_and_says_why() {
        assert_eq!(Priority::new(f64::NAN), Err(InvalidPriority::NotANumber));
        assert_eq!(Priority::new(f64::INFINITY), Err(InvalidPriority::Infinite));
        assert_eq!(
            Priority::new(f64::NEG_INFINITY),
            Err(InvalidPriority::Infinite)
        );
        assert_eq!(
            Priority::new(-0.5).unwrap_err().to_string(),
            "priority -0.5 is negative: give 0 for less than best effort, or up to 1000"
        );
        assert_eq!(
            Priority::new(1000.5).unwrap_err().to_string(),
            "priority 1000.5 is too large: the largest is 1000"
        );
    }

    #[test]
    fn text_round_trips_and_errors_are_short() {
        for text in ["0", "0.25", "1", "1000"] {
            assert_eq!(text.parse::<Priority>().unwrap().to_string(), text);
        }
        assert_eq!("nan".parse::<Priority>(), Err(InvalidPriority::NotANumber));
        assert_eq!("inf".parse::<Priority>(), Err(InvalidPriority::Infinite));
        let error = "fast".repeat(100).parse::<Priority>().unwrap_err();
        assert_eq!(error, InvalidPriority::Unreadable("fast".repeat(8)));
    }
}
