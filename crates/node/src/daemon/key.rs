//! Changes the member's key while its daemon runs: once the ring's owner asks for it, or has
//! granted what was asked for on paper.
//!
//! The new certificate comes from the authority, or from DNS if an earlier answer was lost on its
//! way. With it on disk the daemon ends, to be started again as the member with the new key: every
//! link, every view and every place in the ring was the old key's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::Ending;
use crate::directory::Directory;
use crate::enrol::{RotateError, Rotation};
use crate::limits::{ROTATION_RETRY_FIRST, ROTATION_RETRY_LONGEST};
use crate::machine::Changes;
use crate::rotation::RotationReply;
use crate::state::{Membership, State};

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);

/// What is needed for it.
#[derive(Debug)]
pub(super) struct KeyKeeper {
    pub(super) home: PathBuf,
    pub(super) membership: Membership,
    pub(super) state: Arc<State>,
    pub(super) directory: Arc<Directory>,
    pub(super) network: Changes,
}

/// What became of one try.
enum Tried {
    Done,
    /// The owner has put another key in the place of this one, and it is not here.
    Lost,
}

impl KeyKeeper {
    /// Works until the member has another key, or has lost its own to somebody.
    pub(super) async fn run(mut self, ending: mpsc::Sender<Ending>) {
        let mut look = tokio::time::interval(LOOK);
        let (mut next_try, mut pause) = (Instant::now(), ROTATION_RETRY_FIRST);
        let (mut seen, mut changes) = (0, None);
        let ended = loop {
            look.tick().await;
            let now = self.state.changes_of_others().ok();
            if now.is_none() || now != changes {
                changes = now;
                if self.is_done_on_disk() {
                    break Ending::Rotated;
                }
            }
            let statement = self.directory.statement();
            let serial = self.directory.own(&self.membership.certificate).serial();
            let replaced = statement.heir(serial).is_some();
            if !replaced && !statement.asks(serial) {
                continue;
            }
            // A newer statement may be what was waited for, and so may the network.
            if self.network.seen() || statement.number() > seen {
                seen = statement.number();
                (next_try, pause) = (Instant::now(), ROTATION_RETRY_FIRST);
            }
            if Instant::now() < next_try {
                continue;
            }
            match self.attempt(replaced).await {
                Ok(Tried::Done) => break Ending::Rotated,
                Ok(Tried::Lost) => break Ending::Replaced,
                Err(reason) => {
                    tracing::warn!(%reason, again_in = ?pause, "this member is to change its key and could not yet");
                    next_try = Instant::now() + pause;
                    pause = (pause * 2).min(ROTATION_RETRY_LONGEST);
                }
            }
        };
        if ending.send(ended).await.is_err() {
            tracing::debug!("the daemon is stopping already");
        }
    }

    /// One try, before the member listens anywhere. True if it has another key now.
    pub(super) async fn at_start(&self) -> bool {
        let statement = self.directory.statement();
        let replaced = statement
            .heir(self.membership.certificate.serial())
            .is_some();
        match self.attempt(replaced).await {
            Ok(Tried::Done) => true,
            // The daemon finds that out by itself, and says so.
            Ok(Tried::Lost) => false,
            Err(reason) => {
                tracing::warn!(%reason, "this router is to have another certificate and could not get it yet");
                false
            }
        }
    }

    /// `ringway rotate --with` may have been faster.
    fn is_done_on_disk(&self) -> bool {
        let own = self.membership.certificate.member();
        let stored = self.state.membership().ok().flatten();
        stored.is_some_and(|stored| stored.certificate.member() != own)
    }

    async fn attempt(&self, replaced: bool) -> Result<Tried, RotateError> {
        let own = &self.directory.own(&self.membership.certificate);
        let membership = Membership {
            certificate: own.clone(),
            ..self.membership.clone()
        };
        let rotation = Rotation::begin(&self.home, membership)?;
        // An earlier request may have been granted and its reply lost. DNS has the certificate
        // then.
        if replaced {
            match self.directory.heir(own.serial(), own.name()).await {
                Ok(certificate) if rotation.is_for_next(&certificate) => {
                    let statement = (*self.directory.statement()).clone();
                    let reply = RotationReply {
                        certificate,
                        statement,
                    };
                    return self.adopt(&rotation, &reply);
                }
                Ok(_) => return Ok(Tried::Lost),
                Err(error) => tracing::debug!(%error, "the new certificate is not in DNS"),
            }
        }
        let reply = rotation.ask(&self.directory.locator()).await?;
        self.adopt(&rotation, &reply)
    }

    fn adopt(&self, rotation: &Rotation, reply: &RotationReply) -> Result<Tried, RotateError> {
        let rotated = rotation.adopt(&self.state, reply)?;
        tracing::info!(
            member = rotated.member,
            was = rotated.was,
            address = rotated.address.map(tracing::field::display),
            "this member has another key"
        );
        Ok(Tried::Done)
    }
}
