//! A member within one's own program.

use std::ops::Deref;
use std::path::PathBuf;

use ringway_client::{Client, ClientError, Place};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::control::ControlPlace;
use crate::daemon::{Daemon, DaemonError, Ended, Options, Ready};

/// Why a member does not run in this program.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// It cannot start, or has ended.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// It does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Its task has failed.
    #[error("the member's task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// A member that runs in this program, as the daemon of its home folder. It does what a [`Client`]
/// does, and other programs reach it as any daemon. It stops when it is dropped.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use ringway_node::Member;
///
/// // A home folder that has joined a ring: `ringway --home /srv/oslo join INVITE`.
/// let member = Member::start("/srv/oslo").await?;
/// println!("this is {} of {}", member.name(), member.ring());
/// member.send(&["report.pdf"], &["lima"], &Default::default()).await?;
/// member.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Member {
    client: Client,
    ready: Ready,
    /// Dropping it stops the daemon.
    stop: oneshot::Sender<()>,
    daemon: JoinHandle<Result<Ended, DaemonError>>,
}

impl Member {
    /// Starts the member whose home folder this is, with the configuration that is there.
    ///
    /// # Errors
    /// [`DaemonError`] where the home has no member, or its daemon cannot start.
    pub async fn start(home: impl Into<PathBuf>) -> Result<Member, MemberError> {
        let daemon = Daemon::start(Options {
            home: home.into(),
            upload_limit: None,
            control: ControlPlace::default(),
        });
        let daemon = daemon.await?;
        let ready = daemon.ready().clone();
        let (stop, stopped) = oneshot::channel();
        let daemon = tokio::spawn(daemon.run(async {
            // Also when the member is dropped.
            stopped.await.unwrap_or_default();
        }));
        let client = Client::connect(&Place::Socket(ready.socket.clone())).await?;
        Ok(Member {
            client,
            ready,
            stop,
            daemon,
        })
    }

    /// Who it is, and where other programs reach it.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// A client of it, which may be cloned.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Stops it, and waits until it has ended. What was recorded goes on with the next start.
    ///
    /// # Errors
    /// When it had ended before by itself.
    pub async fn stop(self) -> Result<Ended, MemberError> {
        drop(self.stop);
        Ok(self.daemon.await??)
    }

    /// Waits until it ends by itself: it was revoked, has left, or has another key.
    ///
    /// # Errors
    /// As [`stop`](Member::stop).
    pub async fn ended(&mut self) -> Result<Ended, MemberError> {
        Ok((&mut self.daemon).await??)
    }
}

impl Deref for Member {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
