//! A process that holds a secret key leaves no image of its memory behind.

use std::sync::Once;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps of this process, once; also that another process of the same user looks into
/// its memory. Called wherever a key comes into memory.
pub(crate) fn forbid() {
    static FORBIDDEN: Once = Once::new();
    FORBIDDEN.call_once(|| {
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        // The first also holds where the kernel hands dumps to a program, the second for whatever
        // this process starts.
        let forbidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        if let Err(error) = forbidden.and_then(|()| setrlimit(Resource::Core, none)) {
            tracing::warn!(%error, "a crash may leave this member's key in a core dump");
        }
    });
}

#[cfg(test)]
mod tests {
    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;
    use crate::identity::Identity;

    #[test]
    fn processes_with_keys_leave_no_core_dumps() {
        Identity::generate().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
    }
}
