//! Scanners: who says whether a file is clean.

mod chain;
mod clamd;
mod hashes;
mod yara;

pub use chain::Chain;
pub use clamd::{Clamd, Takes};
pub use hashes::{HashLists, Hashes};
pub use yara::{Yara, YaraError, YaraFault, YaraRules};

use crate::verdict::{ScanJob, Scanned};

/// Makes a scanner, in the thread that it works in; again if one has ended by a fault.
pub type Start = Box<dyn Fn() -> Box<dyn Scanner> + Send>;

/// Looks at windows of files. The windows of one file come in their order.
pub trait Scanner {
    /// Looks at one window. What only a whole file shows is reported with its last window.
    fn scan(&mut self, job: &ScanJob) -> Scanned;
}
