//! A ring's authority in a temporary folder, and its server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_node::authority::{Authority, InitOptions, InviteOptions, Server, ServerHandle};
use ringway_node::certificate::Role;
use ringway_testbed::free_address;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A ring in a folder that goes with it.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) dns: SocketAddr,
    pub(crate) enrol: SocketAddr,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::with(|_| {})
    }

    /// One of a ring with other options.
    pub(crate) fn with(change: impl FnOnce(&mut InitOptions)) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
        let place = Place { folder, dns, enrol };
        let mut options = place.options();
        change(&mut options);
        Authority::init(&place.owner(), &options).unwrap();
        place
    }

    pub(crate) fn options(&self) -> InitOptions {
        InitOptions {
            domain: "ring.test".to_owned(),
            dns: self.dns.into(),
            enrol: self.enrol.into(),
            successors: 3,
            group: 9,
            lifetime: ringway_node::limits::CERTIFICATE_LIFETIME,
        }
    }

    pub(crate) fn owner(&self) -> PathBuf {
        self.folder.path().join("owner")
    }

    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn authority(&self) -> Authority {
        Authority::open(&self.owner()).unwrap()
    }

    pub(crate) fn invite(&self, name: &str, role: Role) -> String {
        self.invite_for(name, role, 600)
    }

    /// An invite that is good for so many seconds.
    pub(crate) fn invite_for(&self, name: &str, role: Role, seconds: u64) -> String {
        let options = InviteOptions {
            name: name.to_owned(),
            role,
            valid_for: Duration::from_secs(seconds),
            spoken: false,
        };
        self.authority().invite(&options).unwrap().to_string()
    }

    /// A spoken invite for a leaf.
    pub(crate) fn spoken(&self, name: &str, seconds: u64) -> String {
        let options = InviteOptions {
            name: name.to_owned(),
            role: Role::Leaf,
            valid_for: Duration::from_secs(seconds),
            spoken: true,
        };
        let invite = self.authority().invite(&options).unwrap();
        invite.spoken().unwrap().to_string()
    }

    /// Serves until the result is dropped.
    pub(crate) async fn serve(&self) -> Serving {
        let server = Server::bind(self.authority()).await.unwrap();
        let handle = server.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                // Dropped or sent to: either way it is over.
                stopped.await.unwrap_or_default();
            };
            server.run(stopped).await.unwrap();
        });
        Serving {
            stop: Some(stop),
            handle,
            task,
        }
    }
}

/// A running server.
pub(crate) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    pub(crate) handle: ServerHandle,
    task: JoinHandle<()>,
}

impl Serving {
    /// Stops it, and waits until it has.
    pub(crate) async fn end(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Every file below `folder` with its content, to see that nothing has changed. Begins again where
/// one has gone meanwhile, as those of a database do that somebody closes.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    loop {
        match read_files(folder) {
            Ok(mut found) => {
                found.sort();
                return found;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder.exists() => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => panic!("{}: {error}", folder.display()),
        }
    }
}

fn read_files(folder: &Path) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(read_files(&path)?);
        } else {
            let content = std::fs::read(&path)?;
            found.push((path, content));
        }
    }
    Ok(found)
}
