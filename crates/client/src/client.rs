//! The typed client: one method for each thing that a member does for a program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::connection::{ClientError, Connection};
use crate::message::{
    AskedPriority, KnownMember, RecordFound, RecordStored, Reply, Request, Speaker, Status,
    TransferStatus,
};
use crate::place::Place;
use crate::send_all::{Handed, SendAll, SendPath};
use crate::sending;
use crate::versions::CONTROL;

/// A member, through its daemon. Cheap to clone; each request has a connection of its own, so that
/// any number may be under way at once.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    name: String,
    member: String,
    ring: String,
    daemon: Speaker,
}

/// How files are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SendOptions {
    /// 0 gives way to all other traffic, 1 is one flow's share, N that of N flows; or the name of a
    /// class of the daemon's configuration.
    pub priority: AskedPriority,
    /// When it has to have arrived, Unix seconds: then that chooses the priority.
    pub by: Option<u64>,
}

impl Default for SendOptions {
    fn default() -> SendOptions {
        SendOptions {
            priority: 1.0.into(),
            by: None,
        }
    }
}

impl Client {
    /// Connects to the member at `place`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] and [`ClientError::NotPermitted`] where no daemon answers there,
    /// [`ClientError::Incompatible`] for one of an older version.
    pub async fn connect(place: &Place) -> Result<Client, ClientError> {
        let socket = place.socket();
        let mut connection = Connection::request(&socket, &Request::Status).await?;
        let Some(Reply::Status(status)) = connection.next().await? else {
            return Err(ClientError::Unexpected);
        };
        let daemon = connection.daemon().cloned().unwrap_or_default();
        if daemon.control.unwrap_or_default() < CONTROL {
            return Err(ClientError::Incompatible { daemon });
        }
        Ok(Client {
            socket,
            name: status.name,
            member: status.member,
            ring: status.ring,
            daemon,
        })
    }

    /// Connects to the member that `ringway` without options would use.
    ///
    /// # Errors
    /// As [`connect`](Client::connect), and [`ClientError::NoHome`].
    pub async fn connect_usual() -> Result<Client, ClientError> {
        Client::connect(&Place::usual()?).await
    }

    /// The member's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The member's id in base32.
    #[must_use]
    pub fn member(&self) -> &str {
        &self.member
    }

    /// Domain of the ring.
    #[must_use]
    pub fn ring(&self) -> &str {
        &self.ring
    }

    /// Version and release of the daemon.
    #[must_use]
    pub fn daemon(&self) -> &Speaker {
        &self.daemon
    }

    /// Sends any request: for those that have no method here.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub async fn request(&self, request: &Request) -> Result<Connection, ClientError> {
        Connection::request(&self.socket, request).await
    }

    /// What the member sees of itself and its ring.
    ///
    /// # Errors
    /// As for all requests: the daemon does not answer, or refuses.
    pub async fn status(&self) -> Result<Status, ClientError> {
        let status = |reply| match reply {
            Reply::Status(status) => Some(*status),
            _ => None,
        };
        self.request(&Request::Status).await?.only(status).await
    }

    /// The members that this one knows of, by name.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn members(&self) -> Result<Vec<KnownMember>, ClientError> {
        let member = |reply| match reply {
            Reply::Member(member) => Some(*member),
            _ => None,
        };
        self.request(&Request::Members).await?.each(member).await
    }

    /// Sends `paths`, files and folders, to each of `peers`, names or ids of members: one transfer
    /// for each peer, with all of them. They are recorded when this returns, and go on whatever
    /// becomes of this program.
    ///
    /// Folders, and several paths at once, are read by the daemon: it has to run as this user. A
    /// single file is opened here.
    ///
    /// # Errors
    /// [`ClientError::File`] when a path cannot be read, and as [`status`](Client::status).
    pub async fn send(
        &self,
        paths: &[impl AsRef<Path>],
        peers: &[impl AsRef<str>],
        options: &SendOptions,
    ) -> Result<Vec<TransferStatus>, ClientError> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        let mut peers: Vec<String> = peers.iter().map(|peer| peer.as_ref().to_owned()).collect();
        let (paths, file) = sending::look(&paths)?;
        let request = match (paths.as_slice(), &file) {
            // One file for one member has the form that every release knows.
            ([SendPath(path)], Some(_)) if peers.len() == 1 => Request::Send {
                path: path.clone(),
                peer: peers.swap_remove(0),
                priority: options.priority.clone(),
                by: options.by,
            },
            _ => Request::SendAll(Box::new(SendAll {
                paths,
                name: None,
                peers,
                priority: options.priority.clone(),
                by: options.by,
                direct: false,
                handed: file.as_ref().map_or(Handed::Nothing, |_| Handed::File),
            })),
        };
        // The daemon may be another user's.
        let connection = Connection::request_with(&self.socket, &request, file.as_ref()).await?;
        connection.each(as_transfer).await
    }

    /// All transfers that the daemon knows, oldest first.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn transfers(&self) -> Result<Vec<TransferStatus>, ClientError> {
        let connection = self.request(&Request::Transfers).await?;
        connection.each(as_transfer).await
    }

    /// Follows one transfer, by its id or an unambiguous beginning of it.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn watch(&self, transfer: &str) -> Result<Watch, ClientError> {
        let transfer = transfer.to_owned();
        let connection = self.request(&Request::Watch { transfer }).await?;
        Ok(Watch { connection })
    }

    /// Changes the priority of a transfer: to a number, or to that of a class by its name.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn set_priority(
        &self,
        transfer: &str,
        priority: impl Into<AskedPriority>,
    ) -> Result<TransferStatus, ClientError> {
        let request = Request::Priority {
            transfer: transfer.to_owned(),
            priority: priority.into(),
        };
        self.request(&request).await?.only(as_transfer).await
    }

    /// Gives a transfer up.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn cancel(&self, transfer: &str) -> Result<TransferStatus, ClientError> {
        let transfer = transfer.to_owned();
        let connection = self.request(&Request::Cancel { transfer }).await?;
        connection.only(as_transfer).await
    }

    /// Leaves a small record in the ring for `lifetime`, at most 30 days: a name of 1 to 64 bytes
    /// and a value of at most 400. An empty value removes it.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn put(
        &self,
        name: &str,
        value: &[u8],
        lifetime: Duration,
    ) -> Result<RecordStored, ClientError> {
        let request = Request::Put {
            name: name.to_owned(),
            value: value.to_owned(),
            lifetime_s: lifetime.as_secs(),
        };
        let stored = |reply| match reply {
            Reply::Stored(stored) => Some(stored),
            _ => None,
        };
        self.request(&request).await?.only(stored).await
    }

    /// Finds the record that a member has left by this name; without a value if there is none.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn get(&self, peer: &str, name: &str) -> Result<RecordFound, ClientError> {
        let request = Request::Get {
            peer: peer.to_owned(),
            name: name.to_owned(),
        };
        let found = |reply| match reply {
            Reply::Record(found) => Some(found),
            _ => None,
        };
        self.request(&request).await?.only(found).await
    }
}

fn as_transfer(reply: Reply) -> Option<TransferStatus> {
    match reply {
        Reply::Transfer(transfer) => Some(*transfer),
        _ => None,
    }
}

/// A transfer that is followed.
#[derive(Debug)]
pub struct Watch {
    connection: Connection,
}

impl Watch {
    /// Its next state, about ten times a second; none after that in which it has ended. A call that
    /// is given up loses nothing.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn next(&mut self) -> Result<Option<TransferStatus>, ClientError> {
        let Some(reply) = self.connection.next().await? else {
            return Ok(None);
        };
        as_transfer(reply).map(Some).ok_or(ClientError::Unexpected)
    }

    /// Its last state.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn end(mut self) -> Result<TransferStatus, ClientError> {
        let mut last = None;
        while let Some(transfer) = self.next().await? {
            last = Some(transfer);
        }
        last.ok_or(ClientError::Unexpected)
    }
}
