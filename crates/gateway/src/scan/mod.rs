//! Scanners: who says whether a file is clean.

mod clamd;

pub use clamd::Clamd;

use crate::verdict::{ScanJob, Scanned};

/// Looks at windows of files. The windows of one file come in their order.
pub trait Scanner: Send {
    /// Looks at one window. What can only be told of a whole file is told with its last window.
    fn scan(&mut self, job: &ScanJob) -> Scanned;
}
