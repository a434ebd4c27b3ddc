//! Where the daemon of a member is reached.

use std::path::{Path, PathBuf};

use crate::connection::ClientError;

/// Where commands reach the member that is a service of this machine.
pub const SERVICE_SOCKET: &str = "/run/ringway/node/control.sock";

/// Path of the control socket in a member's home folder.
#[must_use]
pub fn socket_path(home: &Path) -> PathBuf {
    home.join("control.sock")
}

/// Path of the configuration in a member's home folder.
#[must_use]
pub fn config_path(home: &Path) -> PathBuf {
    home.join("ringway.toml")
}

/// Where a program reaches a member's daemon.
///
/// A daemon of another machine, by its HTTP API and a token, will be one more of these.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Its control socket.
    Socket(PathBuf),
    /// The home folder of the member, with the socket in it.
    Home(PathBuf),
}

impl Place {
    /// Where `ringway` looks without options: the home folder that `RINGWAY_HOME` names; else the
    /// user's own member, if there is one; else the member that is a service of this machine.
    ///
    /// # Errors
    /// [`ClientError::NoHome`] when the environment names no folder at all.
    pub fn usual() -> Result<Place, ClientError> {
        Place::chosen(None)
    }

    /// The same where `home`, if it is given, comes first.
    ///
    /// # Errors
    /// As [`Place::usual`].
    pub fn chosen(home: Option<PathBuf>) -> Result<Place, ClientError> {
        if let Some(home) = home.or_else(|| variable("RINGWAY_HOME")) {
            return Ok(Place::Home(home));
        }
        // The default of the XDG Base Directory Specification.
        let data =
            || variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
        let home = data().ok_or(ClientError::NoHome)?.join("ringway");
        let service = Path::new(SERVICE_SOCKET);
        if !config_path(&home).exists() && service.exists() {
            return Ok(Place::Socket(service.to_owned()));
        }
        Ok(Place::Home(home))
    }

    /// The control socket there.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        match self {
            Place::Socket(socket) => socket.clone(),
            Place::Home(home) => socket_path(home),
        }
    }
}

/// A variable of the environment that names a folder.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_home_comes_first() {
        let home = PathBuf::from("/srv/oslo");
        let place = Place::chosen(Some(home.clone())).unwrap();
        assert_eq!(place, Place::Home(home));
        assert_eq!(place.socket(), Path::new("/srv/oslo/control.sock"));
        let socket = PathBuf::from("/run/x.sock");
        assert_eq!(Place::Socket(socket.clone()).socket(), socket);
    }
}
