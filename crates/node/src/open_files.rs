//! How many files and sockets this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::OPEN_FILES;

/// Raises the limit that the system sets at first towards [`OPEN_FILES`], as far as it may be:
/// without that the bounds on connections would not be those that count.
pub(crate) fn raise_limit() {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if now.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: now.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::info!(%error, "the number of open files stays limited as it was");
    }
}
