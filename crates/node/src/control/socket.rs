//! Where the control socket is, and whose.

use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

/// The groups of this machine (group(5)).
const GROUPS: &str = "/etc/group";

/// Where commands reach a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlace {
    /// The socket; without it `control.sock` in the home folder.
    pub path: Option<PathBuf>,
    /// Name or number of a group whose members may use it, besides the daemon's user.
    pub group: Option<String>,
}

/// Why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ControlServerError {
    /// The group of its users is not known here.
    #[error(
        "there is no group `{0}` in {GROUPS}: make it (`groupadd --system {0}`), or name another, or its number, by --control-group"
    )]
    NoGroup(String),
    /// Another daemon has it.
    #[error("a daemon runs already at {}: stop it first", .0.display())]
    Running(PathBuf),
    /// The system refused.
    #[error("the control socket {}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The listening socket; its file goes with it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Listens at `path`, for this user only. A socket that a killed daemon has left is replaced.
    ///
    /// # Errors
    /// Another daemon has it, or the system refuses.
    pub async fn bind(path: &Path) -> Result<ControlSocket, ControlServerError> {
        ControlSocket::bind_for(path, None).await
    }

    /// The same for the members of a group as well, given by its name or number: each of them may
    /// do what this user may do with the daemon.
    ///
    /// # Errors
    /// As [`bind`](ControlSocket::bind), and when there is no such group or this user is not in it.
    pub async fn bind_for(
        path: &Path,
        group: Option<&str>,
    ) -> Result<ControlSocket, ControlServerError> {
        let group = group.map(group_id).transpose()?;
        let failed = |source| ControlServerError::Io {
            path: path.to_owned(),
            source,
        };
        if UnixStream::connect(path).await.is_ok() {
            return Err(ControlServerError::Running(path.to_owned()));
        }
        // Made under another name and moved: at no moment can others connect, or is the old one
        // half gone.
        let fresh = path.with_extension(format!("sock.{}", std::process::id()));
        remove_if_there(&fresh).map_err(failed)?;
        let listener = UnixListener::bind(&fresh).map_err(failed)?;
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        if group.is_some() {
            chown(&fresh, None, group).map_err(failed)?;
        }
        // After the group: until then it is this user's alone, whatever the umask.
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        std::fs::rename(&fresh, path).map_err(failed)?;
        let path = path.to_owned();
        Ok(ControlSocket { listener, path })
    }

    /// The next connection. What the system refuses for a moment is tried again.
    pub async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "accepting a control connection failed");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Err(error) = remove_if_there(&self.path) {
            tracing::warn!(%error, "the control socket stays behind");
        }
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The number of a group.
fn group_id(group: &str) -> Result<u32, ControlServerError> {
    let unknown = || ControlServerError::NoGroup(group.to_owned());
    group.parse().or_else(|_| {
        let known = std::fs::read_to_string(GROUPS).unwrap_or_default();
        numbered(&known, group).ok_or_else(unknown)
    })
}

/// The number of a group in text of the form of group(5).
fn numbered(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        // The second one is a password.
        fields.nth(1).filter(|_| found)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn groups_are_found_by_whole_names() {
        let groups = "root:x:0:\nringway-admin:x:7:\nringway:x:998:anna,bert\nodd\n";
        assert_eq!(numbered(groups, "ringway"), Some(998));
        assert_eq!(numbered(groups, "ring"), None);
        assert_eq!(numbered(groups, "odd"), None);
    }

    #[tokio::test]
    async fn socket_is_for_its_user_or_a_group() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        let alone = ControlSocket::bind(&path).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(alone);
        let own = rustix::process::getegid().as_raw().to_string();
        let shared = ControlSocket::bind_for(&path, Some(&own)).await.unwrap();
        assert_eq!(mode(&path), 0o660);
        drop(shared);
        let refused = ControlSocket::bind_for(&path, Some("no-such-group")).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("groupadd"), "{refused}");
        assert!(!path.exists());
    }
}
