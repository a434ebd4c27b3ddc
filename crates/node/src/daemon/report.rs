//! Reports to the ring's authority once a day that this member is there, and by which version of
//! the program: what `ringway ring members` shows its owner.

use std::sync::Arc;

use crate::certificate::Certificate;
use crate::directory::Directory;
use crate::enrol;
use crate::identity::Identity;
use crate::limits::{REPORT_FIRST, REPORT_PAUSE};
use crate::state::Membership;

/// What is needed for it.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) identity: Identity,
    /// As it was at the start.
    pub(super) membership: Membership,
    pub(super) directory: Arc<Directory>,
    /// True for a member that hides its address: it shows that to no authority without need.
    pub(super) hidden: bool,
}

impl Reporter {
    /// Works for ever.
    pub(super) async fn run(self) {
        if self.hidden {
            return;
        }
        tokio::time::sleep(REPORT_FIRST.mul_f64(rand::random())).await;
        loop {
            if let Err(reason) = self.report().await {
                tracing::debug!(%reason, "the authority has not heard that this member is there");
            }
            let part = 0.5 + rand::random::<f64>() / 2.0;
            tokio::time::sleep(REPORT_PAUSE.mul_f64(part)).await;
        }
    }

    async fn report(&self) -> Result<(), enrol::AskError> {
        let Membership {
            ring, certificate, ..
        } = &self.membership;
        let own: Certificate = self.directory.own(certificate);
        let locator = self.directory.locator();
        enrol::report(&locator, &self.identity, ring, &own).await
    }
}
