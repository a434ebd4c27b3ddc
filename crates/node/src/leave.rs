//! A member leaves its ring for good: the authority ends its certificate, and its key and state go
//! from this machine. Received files, evidence and the configuration stay.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub use ringway_client::leave::{LeaveOptions, Left};

use crate::certificate::{Certificate, RingId};
use crate::config::{Config, ConfigError};
use crate::enrol::{self, AskError, Locator};
use crate::home::{self, HomeError};
use crate::identity::{Identity, IdentityError};
use crate::state::{Membership, State, StateError};

/// Why a member has not left. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum LeaveError {
    /// No member has joined with this home.
    #[error("{0} is not a member's home: there is nothing to leave")]
    NotAMember(String),
    /// Files are under way.
    #[error(
        "{0} transfers are under way: `ringway transfers` lists them. Wait for them, or give them up with --force"
    )]
    Transfers(usize),
    /// The authority has not heard of it.
    #[error(
        "{reason}. Nothing was changed: try again later, or leave with --offline, and have the ring's owner run `ringway ring revoke {name}`"
    )]
    NotTold {
        /// The member.
        name: String,
        /// Why.
        reason: AskError,
    },
    /// Who asks is not the one whose member it is.
    #[error("only the daemon's own user, and root, may end its membership")]
    NotOwn,
    /// The daemon is ending.
    #[error("this member is stopping")]
    Stopping,
    /// A file could not be read or removed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The key could not be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl LeaveError {
    /// True when the user's input was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            LeaveError::NotAMember(_) | LeaveError::NotOwn => true,
            LeaveError::Config(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// The member that leaves.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) domain: String,
    pub(crate) identity: Identity,
    pub(crate) ring: RingId,
    pub(crate) inbox: PathBuf,
}

impl Leaving {
    /// Tells the authority, unless that is not to be done. `open` is how many transfers are under
    /// way.
    pub(crate) async fn tell(
        &self,
        own: &Certificate,
        locator: &Locator,
        open: usize,
        options: LeaveOptions,
    ) -> Result<Left, LeaveError> {
        if open > 0 && !options.force {
            return Err(LeaveError::Transfers(open));
        }
        let name = own.name().to_string();
        if !options.offline {
            let told = enrol::depart(locator, &self.identity, &self.ring, own).await;
            if let Err(reason) = told {
                return Err(LeaveError::NotTold { name, reason });
            }
        }
        Ok(Left {
            name,
            ring: self.domain.clone(),
            told: !options.offline,
            given_up: open,
            inbox: self.inbox.clone(),
        })
    }
}

/// Leaves the ring where no daemon runs in `home`.
///
/// # Errors
/// When a daemon runs there, it is no member's home, transfers are under way, or the authority does
/// not answer.
pub async fn leave(home: &Path, options: LeaveOptions) -> Result<Left, LeaveError> {
    let none = || LeaveError::NotAMember(home.display().to_string());
    if !home::state_path(home).try_exists().unwrap_or(true) {
        return Err(none());
    }
    let _lock = home::lock(home)?;
    let state = State::open(home)?;
    let Membership {
        certificate,
        domain,
        ring,
        statement,
        ..
    } = state.membership()?.ok_or_else(none)?;
    let config = Config::load(home)?;
    let leaving = Leaving {
        domain,
        identity: Identity::load(&home::identity_path(home))?,
        ring,
        inbox: home.join(&config.receive.directory),
    };
    let transfers = state.transfers()?;
    let open = transfers
        .iter()
        .filter(|record| !record.phase.is_ended())
        .count();
    let locator = Locator::new(&leaving.domain, config.node.resolver.clone());
    let stated = statement.contact().map(|contact| contact.enrol.clone());
    let locator = locator.stated(stated);
    let left = leaving.tell(&certificate, &locator, open, options).await?;
    // From here on the key is good for nothing.
    drop(state);
    wipe(home)?;
    Ok(left)
}

/// Removes the keys and the state of a member that has left.
pub(crate) fn wipe(home: &Path) -> Result<(), HomeError> {
    for secret in [home::identity_path(home), home::next_identity_path(home)] {
        overwrite(&secret)?;
        remove(&secret)?;
    }
    // The state after the keys: a wipe that was cut off is taken up again.
    let state = home::state_path(home);
    for database in [home::messages_path(home), state.clone()] {
        for log in ["-wal", "-shm"] {
            let mut path = database.clone().into_os_string();
            path.push(log);
            remove(Path::new(&path))?;
        }
        remove(&database)?;
    }
    remove(&home::request_path(home))?;
    let trees = home::trees_path(home);
    match fs::remove_dir_all(&trees) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(HomeError::new("removing", &trees, error));
        }
        _ => {}
    }
    let synced = home::sync_folder_of(&state);
    synced.map_err(|error| HomeError::new("writing", home, error))
}

/// Where the file system writes in place, nothing of the key stays on the disk.
fn overwrite(path: &Path) -> Result<(), HomeError> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        file.write_all(&vec![0; length.min(4_096)])?;
        file.sync_all()
    };
    match write() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HomeError::new("overwriting", path, error))
        }
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> Result<(), HomeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HomeError::new("removing", path, error))
        }
        _ => Ok(()),
    }
}
