//! Members of other builds and versions, with which there are no links: how often that is looked
//! for, and said.

use std::time::{Duration, Instant};

use ringway_transport::Address;

/// How often an initiation that cannot be read is read as one of an earlier version.
const EARLIER_PAUSE: Duration = Duration::from_secs(1);

/// What is said then.
const EARLIER: &str = "a member speaks an earlier version of the link protocol, and gets no link: update all members of \
                       the ring together";

/// How often it is said that somebody runs another build.
const FOREIGN_PAUSE: Duration = Duration::from_secs(60);

/// What is said then.
const FOREIGN: &str = if cfg!(feature = "insecure") {
    "this build does not encrypt its links (feature `insecure`, for benchmarks only) and has no link with a member of a secure ring: \
             install a build without it"
} else {
    "refused a member whose build does not encrypt its links (feature `insecure`, for benchmarks only): it has to install a build \
              without it"
};

/// When others were met.
#[derive(Debug, Default)]
pub(super) struct OtherBuilds {
    /// When an earlier version was looked for last, and when it was said that there is one.
    looked: Option<Instant>,
    earlier_said: Option<Instant>,
    /// When it was last said that somebody runs another build.
    foreign_said: Option<Instant>,
}

impl OtherBuilds {
    /// An initiation could not be read: perhaps its sender's version is an earlier one. That is
    /// looked at once a second at most, and said once a minute. True if it is.
    pub(super) fn look_for_earlier(
        &mut self,
        now: Instant,
        path: &Address,
        is_earlier: impl FnOnce() -> bool,
    ) -> bool {
        if self.looked.is_some_and(|at| now < at + EARLIER_PAUSE) {
            return false;
        }
        self.looked = Some(now);
        if !is_earlier() {
            return false;
        }
        // Counted each time, for the log is not read by programs.
        if self.earlier_said.is_none_or(|at| now >= at + FOREIGN_PAUSE) {
            self.earlier_said = Some(now);
            tracing::warn!(%path, "{EARLIER}");
        }
        true
    }

    /// A build that differs from ours in whether links are encrypted has sent a handshake.
    pub(super) fn tell_foreign(&mut self, now: Instant, path: &Address) {
        if self
            .foreign_said
            .is_none_or(|said| now >= said + FOREIGN_PAUSE)
        {
            self.foreign_said = Some(now);
            tracing::warn!(%path, "{FOREIGN}");
        }
    }
}
