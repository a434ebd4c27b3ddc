//! Ends the membership of a running member: see `crate::leave`.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Keeping;
use super::report::Reporter;
use crate::certificate::Certificate;
use crate::config::Config;
use crate::directory::Directory;
use crate::leave::{LeaveError, LeaveOptions, Leaving, Left};

/// What ends it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Leaver {
    leaving: Leaving,
    /// The certificate at the start.
    own: Certificate,
    directory: Arc<Directory>,
    order: mpsc::Sender<()>,
}

impl Leaver {
    /// Also what says that the daemon is to end and to remove its keys.
    pub(super) fn new(
        leaving: Leaving,
        own: Certificate,
        directory: Arc<Directory>,
    ) -> (Leaver, mpsc::Receiver<()>) {
        let (order, ordered) = mpsc::channel(1);
        let leaver = Leaver {
            leaving,
            own,
            directory,
            order,
        };
        (leaver, ordered)
    }

    /// Tells the authority. The member is to be ended then by [`Leaver::end`].
    pub(crate) async fn tell(
        &self,
        open: usize,
        options: LeaveOptions,
    ) -> Result<Left, LeaveError> {
        let own = self.directory.own(&self.own);
        let locator = self.directory.locator();
        self.leaving.tell(&own, &locator, open, options).await
    }

    /// Has the daemon leave the ring in order, and remove its keys.
    pub(crate) async fn end(&self) -> Result<(), LeaveError> {
        let sent = self.order.send(()).await;
        sent.map_err(|_| LeaveError::Stopping)
    }
}

impl Keeping {
    /// What speaks to the authority for the member.
    pub(super) fn voices(
        &self,
        config: &Config,
        home: &Path,
    ) -> (Reporter, Leaver, mpsc::Receiver<()>) {
        let reporter = Reporter {
            identity: self.identity.clone(),
            membership: self.membership.clone(),
            directory: Arc::clone(&self.directory),
            hidden: config.node.hide_address,
        };
        let leaving = Leaving {
            domain: self.membership.domain.clone(),
            identity: self.identity.clone(),
            ring: self.membership.ring,
            inbox: home.join(&config.receive.directory),
        };
        // As it was at the start; the directory knows a newer one.
        let own = self.membership.certificate.clone();
        let (leaver, left) = Leaver::new(leaving, own, Arc::clone(&self.directory));
        (reporter, leaver, left)
    }
}
