//! Routers that this member remembers, and that have other keys or newer certificates now: without
//! this a leaf all of whose routers have changed their keys would know none, and so would a router
//! that comes back to a ring in which all others have.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::certificate::{Certificate, RingId};
use crate::clock::unix_seconds;
use crate::directory::Directory;
use crate::limits::FOLLOW_AT_START;
use crate::renewal::renewed_by;
use crate::state::{State, StateError};

/// How often it is looked whether somebody has changed its key.
const LOOK: Duration = Duration::from_secs(2);

/// What is needed for it.
#[derive(Clone, Debug)]
pub(super) struct RouterFollower {
    pub(super) ring: RingId,
    pub(super) state: Arc<State>,
    pub(super) directory: Arc<Directory>,
}

impl RouterFollower {
    /// Before a router looks for its ring. DNS that does not answer holds it up for a moment only.
    pub(super) async fn at_start(&self) {
        let following = async {
            if let Err(error) = self.directory.refresh_statement().await {
                tracing::debug!(%error, "no newer statement");
            }
            self.follow().await
        };
        match timeout(FOLLOW_AT_START, following).await {
            Ok(Err(error)) => tracing::error!(%error, "known routers could not be looked at"),
            Ok(Ok(_)) => {}
            Err(_) => tracing::debug!("DNS does not answer; known routers may have other keys"),
        }
    }

    /// For ever.
    pub(super) async fn run(self) {
        let mut look = tokio::time::interval(LOOK);
        let mut done = 0;
        loop {
            look.tick().await;
            let number = self.directory.statement().number();
            if number <= done {
                continue;
            }
            match self.follow().await {
                Ok(true) => done = number,
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "known routers could not be looked at"),
            }
        }
    }

    /// True if every router is remembered by the key that it has.
    async fn follow(&self) -> Result<bool, StateError> {
        let mut all = true;
        for old in self.state.routers(&self.ring)? {
            if self.directory.statement().heir(old.serial()).is_none() {
                self.follow_renewed(&old).await?;
                continue;
            }
            match self.directory.heir(old.serial(), old.name()).await {
                Ok(new) => self.state.follow_router(&old, &new)?,
                Err(error) => {
                    tracing::debug!(%error, "a router has another key, which is not known yet");
                    all = false;
                }
            }
        }
        Ok(all)
    }

    /// A router whose certificate ends before long, or has ended, has a newer one if it runs.
    async fn follow_renewed(&self, old: &Certificate) -> Result<(), StateError> {
        if unix_seconds() < renewed_by(old) {
            return Ok(());
        }
        match self.directory.newest(old.member()).await {
            Ok(new) if new.serial() > old.serial() => self.state.follow_router(old, &new),
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, name = %old.name(), "no newer certificate of a known router");
                Ok(())
            }
        }
    }
}
