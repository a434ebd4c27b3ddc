//! Root acts as the user whose folder it works in.
//!
//! The daemons run as users of their own. What root would leave in their folders, such as a
//! database's journal, they could not open: so a command of root's takes the folder's owner's place
//! while it works there, and everything new is that user's.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ringway_terminal::Failure;
use rustix::process::{Gid, Uid, getegid, geteuid, getuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid,
};

/// While it lives this thread, and those that it starts, are the folder's owner's.
#[must_use]
pub(crate) struct Acting {
    /// Who it was before; none if nothing had to change.
    before: Option<(Uid, Gid)>,
}

impl Acting {
    /// Takes the place of the owner of `folder`. Who is not root stays who he is, and so does root
    /// in folders of its own and those that are not there yet.
    ///
    /// Files named on the command line are root's: they can be read and written still.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn owner_of(folder: &Path) -> Result<Acting, Failure> {
        let Some((uid, gid)) = another_owner(folder) else {
            return Ok(Acting { before: None });
        };
        let before = Some((geteuid(), getegid()));
        let taken = become_user(uid, gid).and_then(|()| keep_files());
        taken.map_err(|error| {
            Failure::failed(format_args!(
                "`{}` is user {}'s, whose place root could not take: {error}",
                folder.display(),
                uid.as_raw()
            ))
        })?;
        Ok(Acting { before })
    }

    /// Root in its own name, within what it does as somebody else.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn root() -> Result<Acting, Failure> {
        if !getuid().is_root() {
            return Ok(Acting { before: None });
        }
        let before = Some((geteuid(), getegid()));
        become_user(Uid::ROOT, Gid::ROOT).map_err(|error| {
            Failure::failed(format_args!("root could not take its own place: {error}"))
        })?;
        Ok(Acting { before })
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let Some((uid, gid)) = self.before else {
            return;
        };
        let mut back = become_user(uid, gid);
        if !uid.is_root() {
            back = back.and_then(|()| keep_files());
        }
        if let Err(error) = back {
            tracing::warn!(%error, "this command goes on as another user");
        }
    }
}

/// The folder's owner, if this is root and the owner is somebody else.
pub(crate) fn another_owner(folder: &Path) -> Option<(Uid, Gid)> {
    if !getuid().is_root() {
        return None;
    }
    let metadata = fs::metadata(folder).ok()?;
    let owner = Uid::from_raw(metadata.uid());
    (!owner.is_root()).then(|| (owner, Gid::from_raw(metadata.gid())))
}

/// The real user stays root, so that there is a way back.
fn become_user(uid: Uid, gid: Gid) -> io::Result<()> {
    // Only root may change its group.
    set_thread_res_uid(None, Uid::ROOT, None)?;
    set_thread_res_gid(None, gid, None)?;
    if !uid.is_root() {
        set_thread_res_uid(None, uid, None)?;
    }
    Ok(())
}

/// What the command line names may be in folders that only root reads.
fn keep_files() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective = CapabilitySet::DAC_OVERRIDE;
    Ok(set_capabilities(None, sets)?)
}
