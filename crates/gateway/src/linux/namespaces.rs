//! A network of the process's own: namespaces in which it is root, whatever user it is outside.
//!
//! Nothing of the machine's own network is seen or touched from inside, and the kernel removes all
//! of it with the last process in it. `ringway demo` has a border there.

use std::fmt::{self, Display, Formatter};
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, unshare_unsafe};

/// With these no user namespace is needed.
const PRIVILEGED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW);

/// What was being done when the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A user namespace of the process's own.
    User,
    /// The process as root in it.
    Root,
    /// A network of its own.
    Network,
    /// Mounts of its own.
    Mounts,
    /// That network's interfaces below `/sys`.
    Interfaces,
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::User => "a user namespace of its own",
            Step::Root => "being root in a user namespace of its own",
            Step::Network => "a network namespace of its own",
            Step::Mounts => "a mount namespace of its own",
            Step::Interfaces => "a /sys of its own",
        })
    }
}

/// The system grants no such namespaces.
#[derive(Debug, thiserror::Error)]
#[error("{step} was refused: {error}")]
pub struct Refused {
    /// What it refused.
    pub step: Step,
    /// Why, in its words.
    pub error: io::Error,
}

/// Moves this process into a network and mounts of its own, as root of them: by a user namespace
/// where it may not do so without. Call it before there is a second thread.
///
/// # Errors
/// The system refuses; some of it may have been done, so that the process should end.
pub fn isolate() -> Result<(), Refused> {
    let at = |step| move |error: io::Error| Refused { step, error };
    let has = capabilities(None).map_err(|error| at(Step::User)(error.into()))?;
    if !has.effective.contains(PRIVILEGED) {
        become_root()?;
    }
    leave(UnshareFlags::NEWNET).map_err(at(Step::Network))?;
    leave(UnshareFlags::NEWNS).map_err(at(Step::Mounts))?;
    // What is mounted from here on stays here.
    let own = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", own).map_err(|error| at(Step::Mounts)(error.into()))?;
    // The gateway looks for its interfaces there. Without the right to write, because a container's
    // has none, and then a new one with it is refused.
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("sysfs", "/sys", "sysfs", flags, None).map_err(|error| at(Step::Interfaces)(error.into()))
}

/// Moves this thread, and those that it starts, into a further network.
///
/// # Errors
/// The system refuses.
pub fn leave_network() -> io::Result<()> {
    leave(UnshareFlags::NEWNET)
}

/// Root of a user namespace, in which there is no other user.
fn become_root() -> Result<(), Refused> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    leave(UnshareFlags::NEWUSER).map_err(|error| Refused {
        step: Step::User,
        error,
    })?;
    // Groups can be mapped without privileges only where they cannot be given up
    // (user_namespaces(7)).
    let files = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ];
    for (file, text) in files {
        let written = std::fs::write(format!("/proc/self/{file}"), text);
        written.map_err(|error| Refused {
            step: Step::Root,
            error,
        })?;
    }
    Ok(())
}

fn leave(what: UnshareFlags) -> io::Result<()> {
    // SAFETY: only sharing file descriptors could make this unsound, and that goes on.
    #[expect(unsafe_code, reason = "namespaces are left and nothing else")]
    let left = unsafe { unshare_unsafe(what) };
    Ok(left?)
}
