//! What is wrong with a policy.

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PolicyError {
    /// Line of the file, from 1; 0 where the fault is in no single line.
    pub line: usize,
    /// What is wrong and what is expected.
    pub reason: String,
}

impl PolicyError {
    pub(super) fn new(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}
