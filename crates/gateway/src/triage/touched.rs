//! Applications that a policy cares about.

use std::collections::BTreeSet;

use crate::classify::{BITTORRENT, I2P, SHADOWSOCKS, SignatureSet, UNKNOWN};
use crate::policy::Policy;

/// Applications that a flow may get without a signature of their own: by its shape, by what its
/// ends do in other flows, or because another conversation has named it
/// (`classify/surroundings.rs`, `opening.rs`).
const CONCLUDED: [&str; 8] = [
    BITTORRENT,
    "dcc",
    "edonkey",
    I2P,
    "msnftp",
    SHADOWSOCKS,
    "tor",
    "xmpp",
];

/// Whose conversations have to be read for an application to be found: those that announce it, and
/// those that distinguish it from another one.
const WITNESSES: [(&str, &str); 3] = [("dcc", "irc"), ("msnftp", "msn"), ("edonkey", BITTORRENT)];

/// Applications that some rule may do anything to but let pass.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    applications: BTreeSet<String>,
    everything: bool,
    by_other_means: bool,
}

impl Touched {
    /// `everything`: all of them, and flows that have no name.
    pub(super) fn new(set: &SignatureSet, policy: &Policy, everything: bool) -> Self {
        let concluded = CONCLUDED.into_iter().chain([UNKNOWN]);
        let mut applications: BTreeSet<String> = set
            .applications()
            .into_iter()
            .chain(concluded.map(str::to_owned))
            .filter(|application| everything || policy.touches(application))
            .collect();
        // A conversation that the kernel passes announces nothing to user space.
        for (application, witness) in WITNESSES {
            if applications.contains(application) {
                applications.insert(witness.to_owned());
            }
        }
        Self {
            by_other_means: CONCLUDED
                .iter()
                .chain(&[UNKNOWN])
                .any(|application| applications.contains(*application)),
            applications,
            everything,
        }
    }

    pub(super) fn contains(&self, application: &str) -> bool {
        self.everything || self.applications.contains(application)
    }

    pub(super) fn everything(&self) -> bool {
        self.everything
    }

    /// Flows that no signature names matter.
    pub(super) fn by_other_means(&self) -> bool {
        self.by_other_means
    }
}
