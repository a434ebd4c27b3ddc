//! A router whose address is not this machine's: the machine has moved, or is about to.
//!
//! The owner says where the router goes on (`ringway ring move`), and it comes for the certificate:
//! while it runs, as for another key (`key`), or here, before it listens anywhere. Then it waits
//! until the new address is there.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::key::KeyKeeper;
use super::routers::RouterFollower;
use super::{DaemonError, Opened, boot, known};
use crate::certificate::Certificate;
use crate::directory::Directory;
use crate::home;
use crate::machine::{self, Changes, Lines};
use crate::member::listens_at;

/// How often it is looked whether the addresses are there. Where changes are noticed it is looked
/// then, too.
const LOOK: Duration = Duration::from_secs(5);

/// A member that may begin to listen.
pub(super) struct Ready {
    pub(super) opened: Opened,
    pub(super) directory: Arc<Directory>,
    pub(super) routers: RouterFollower,
}

/// Waits for the machine's addresses, and takes a certificate for another one if the owner has
/// moved this router. An address that is simply not here is refused later, by name.
pub(super) async fn ready(
    home: &Path,
    mut opened: Opened,
    changes: &mut Changes,
) -> Result<Ready, DaemonError> {
    let mut lines = Lines::default();
    loop {
        let (directory, routers) = known(&opened.membership, &opened.config, &opened.state).await?;
        let own = opened.membership.certificate.clone();
        let listens = listens_at(&opened.config, &own);
        machine::await_addresses(&listens, changes).await;
        let missing = machine::missing(listens);
        let moved = if missing.is_some() {
            is_asked(&directory, &own) && goes_on(home, &opened, &directory, changes).await
        } else {
            arrived(home);
            false
        };
        let waits = missing.filter(|_| !moved && is_ahead(home, &own));
        if let Some(missing) = waits {
            if lines.due() {
                tracing::warn!(%missing, "this router has moved to an address that is not this machine's yet: the start waits for it");
            }
            timeout(LOOK, changes.next()).await.unwrap_or_default();
        } else if !moved {
            return Ok(Ready {
                opened,
                directory,
                routers,
            });
        }
        opened = boot::opened(home).await?;
    }
}

/// True if the owner wants this member to have another certificate.
fn is_asked(directory: &Directory, own: &Certificate) -> bool {
    let statement = directory.statement();
    statement.asks(own.serial()) || statement.heir(own.serial()).is_some()
}

/// True if the home has another certificate now.
async fn goes_on(
    home: &Path,
    opened: &Opened,
    directory: &Arc<Directory>,
    changes: &Changes,
) -> bool {
    let keeper = KeyKeeper {
        home: home.to_owned(),
        membership: opened.membership.clone(),
        state: Arc::clone(&opened.state),
        directory: Arc::clone(directory),
        network: changes.clone(),
    };
    keeper.at_start().await
}

/// True if the certificate came with a move, and the machine has not followed so far.
fn is_ahead(home: &Path, own: &Certificate) -> bool {
    let serial = home::read_private(&home::moved_path(home)).ok();
    serial.is_some_and(|serial| serial == own.serial().to_string().as_bytes())
}

fn arrived(home: &Path) {
    let path = home::moved_path(home);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "a file stays behind");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Says when an address at which a router listens goes, and what helps.
pub(super) async fn watch_addresses(listens: Vec<SocketAddr>, mut changes: Changes) {
    let mut gone = None;
    loop {
        let missing = machine::missing(listens.iter().copied());
        match (missing, gone) {
            (Some(address), None) => {
                tracing::warn!(%address, "this machine has lost the address at which this router is reached. If it has another now, `ringway ring move NAME ADDR:PORT` on the owner's machine is all that is needed: this router goes on there by itself");
            }
            (None, Some(address)) => tracing::info!(%address, "the address is back"),
            _ => {}
        }
        gone = missing;
        timeout(LOOK * 2, changes.next()).await.unwrap_or_default();
    }
}
