//! Why the gateway cannot begin, or go on.

use std::fmt::Display;

/// Why the gateway cannot begin, or go on: one line that says what happened to what, and what mends
/// it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// What was asked for cannot be done: a setting or the policy is to be changed.
    #[error("{0}")]
    Usage(String),
    /// The machine refuses.
    #[error("{0}")]
    Failed(String),
}

impl ServiceError {
    pub(super) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    pub(super) fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// A setting or the policy is to be changed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}
