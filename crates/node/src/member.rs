//! The member's one task: it owns links, ring position, validation and transports, and moves
//! between them.
//!
//! ```text
//! transports → links → { overlay, HELLO and validation, leaves' lookups } → links → transports
//! ```
//!
//! Everything that decides is sans-IO and lives elsewhere; here is the clock, the sockets and the
//! wiring. Others talk to the task through a [`MemberHandle`].

#[cfg(test)]
mod attacks;
mod echo;
mod effort;
mod heard;
mod hidden;
mod joining;
mod mapping;
mod messages;
mod network;
mod parents;
mod paths;
mod reach;
mod records;
mod relay;
mod returns;
mod ring;
mod runtime;
mod status;
mod through;
mod transports;
mod whereabouts;

use std::net::SocketAddr;
use std::time::Duration;

use ringway_overlay::{Destination, RingKey};
use ringway_transport::{Address, MemberId, Ping, Pong};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::messages::Arrived;
pub use self::messages::MessageSender;
pub(crate) use self::network::{Network, NetworkError};
pub(crate) use self::records::RecordOutcome;
pub(crate) use self::runtime::{Inboxes, Runtime, Setup};
pub use self::through::{Delivered, RingMessage};
pub(crate) use self::transports::listens_at;
#[cfg(feature = "fuzzing")]
pub(crate) use self::whereabouts::decode_anything as decode_whereabout;

use crate::certificate::Certificate;
use crate::control::{PathsStatus, Status};
use crate::limits::COMMANDS;

/// Why a peer could not be asked or reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error("`{0}` does not answer at any address known: is its `ringway node` running?")]
    Silent(String),
    #[error("`{0}` has no address that is known here")]
    NoAddress(String),
    #[error(
        "the ring does not know where the leaf `{0}` is: is its `ringway node` running? If it has only just started, try again in a \
         few seconds"
    )]
    NotFound(String),
    #[error(
        "this member hides its address from all but its parents (`node.hide_address` in ringway.toml), and `{0}` cannot be reached \
         through a parent or by mail now: `ringway status` lists the parents"
    )]
    Hidden(String),
    #[error(
        "this member hides its address from all but its parents (`node.hide_address` in ringway.toml), and the leaf `{0}` has none of \
         them as its parent: `{0}` can call this member, unless it hides as well"
    )]
    NoCommonParent(String),
    #[error("`{0}` advertises no QUIC address")]
    NoQuic(String),
    #[error("this member is stopping")]
    Stopping,
}

/// Why a key could not be looked up, or a message not be sent through the ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupFailed {
    #[error("this member is not part of the ring yet: `ringway status` shows how far it is")]
    NotInRing,
    #[error("this leaf has no parent yet: `ringway status` shows how far it is")]
    NoParent,
    #[error("only routers send messages through the ring, and this member is a leaf")]
    Leaf,
    #[error("no answer within the time")]
    TimedOut,
    #[error("{0}")]
    Overlay(String),
    #[error("this member is stopping")]
    Stopping,
}

/// A lookup's outcome.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) owner: RingKey,
    /// Whether several members agree on it; for a leaf, its parent says so.
    pub(crate) verified: bool,
    pub(crate) hops: Vec<RingKey>,
    /// How many questions were asked; of a leaf, those to its parents.
    pub(crate) questions: u32,
    pub(crate) elapsed: Duration,
}

/// What became of an echo.
#[derive(Clone, Debug)]
pub(crate) struct Echoed {
    /// The link's path.
    pub(crate) address: Option<Address>,
    /// None if no answer within the time.
    pub(crate) rtt: Option<Duration>,
}

/// What others ask of the task.
#[derive(Debug)]
enum Command {
    Reach {
        certificate: Box<Certificate>,
        reply: oneshot::Sender<Result<Vec<SocketAddr>, Unreachable>>,
    },
    Answer {
        ping: Box<Ping>,
        reply: oneshot::Sender<Option<Pong>>,
    },
    Echo {
        certificate: Box<Certificate>,
        reply: oneshot::Sender<Result<Echoed, Unreachable>>,
    },
    Lookup {
        target: RingKey,
        reply: oneshot::Sender<Result<Found, LookupFailed>>,
    },
    Put {
        name: Vec<u8>,
        value: Vec<u8>,
        lifetime: Duration,
        reply: oneshot::Sender<Result<RecordOutcome, LookupFailed>>,
    },
    Get {
        point: RingKey,
        reply: oneshot::Sender<Result<RecordOutcome, LookupFailed>>,
    },
    Through {
        to: Destination,
        body: Vec<u8>,
        reply: oneshot::Sender<Result<Delivered, LookupFailed>>,
    },
    Paths {
        certificate: Box<Certificate>,
        reply: oneshot::Sender<Box<PathsStatus>>,
    },
    Messages {
        certificate: Box<Certificate>,
        reply: oneshot::Sender<MessageSender>,
    },
    Status {
        reply: oneshot::Sender<Box<Status>>,
    },
    /// DNS has a newer statement of the ring's owner.
    Stated(Vec<u8>),
    Revoked,
    /// This member's certificate is another, for the same key.
    Renewed(Box<Certificate>),
}

/// A way to talk to the member's task. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MemberHandle {
    commands: mpsc::Sender<Command>,
}

impl MemberHandle {
    fn channel() -> (MemberHandle, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        (MemberHandle { commands }, receiver)
    }

    /// A handle whose every search for `peer` ends with `outcome`; one for another never ends.
    #[cfg(test)]
    pub(crate) fn reaching(
        peer: MemberId,
        outcome: Result<Vec<SocketAddr>, Unreachable>,
    ) -> MemberHandle {
        let (handle, mut commands) = MemberHandle::channel();
        tokio::spawn(async move {
            let mut endless = Vec::new();
            while let Some(command) = commands.recv().await {
                match command {
                    Command::Reach { certificate, reply } if certificate.member() == peer => {
                        reply.send(outcome.clone()).unwrap_or_default();
                    }
                    Command::Reach { reply, .. } => endless.push(reply),
                    _ => {}
                }
            }
        });
        handle
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Makes a link to the peer and gives its proven QUIC addresses, cheapest first.
    pub(crate) async fn reach(
        &self,
        certificate: Certificate,
    ) -> Result<Vec<SocketAddr>, Unreachable> {
        let certificate = Box::new(certificate);
        let answer = self
            .ask(|reply| Command::Reach { certificate, reply })
            .await;
        answer.unwrap_or(Err(Unreachable::Stopping))
    }

    /// The PONG to a PING, if it is for us.
    pub(crate) async fn answer(&self, ping: Ping) -> Option<Pong> {
        let ping = Box::new(ping);
        self.ask(|reply| Command::Answer { ping, reply })
            .await
            .flatten()
    }

    /// Measures one round trip over the link to the peer.
    pub(crate) async fn echo(&self, certificate: Certificate) -> Result<Echoed, Unreachable> {
        let certificate = Box::new(certificate);
        let answer = self.ask(|reply| Command::Echo { certificate, reply }).await;
        answer.unwrap_or(Err(Unreachable::Stopping))
    }

    /// Finds the router responsible for `target`.
    pub(crate) async fn lookup(&self, target: RingKey) -> Result<Found, LookupFailed> {
        let answer = self.ask(|reply| Command::Lookup { target, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Leaves a record of this member in the ring.
    pub(crate) async fn put(
        &self,
        name: Vec<u8>,
        value: Vec<u8>,
        lifetime: Duration,
    ) -> Result<RecordOutcome, LookupFailed> {
        let command = |reply| Command::Put {
            name,
            value,
            lifetime,
            reply,
        };
        let answer = self.ask(command).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Finds the newest record at a point of the ring.
    pub(crate) async fn get(&self, point: RingKey) -> Result<RecordOutcome, LookupFailed> {
        let answer = self.ask(|reply| Command::Get { point, reply }).await;
        answer.unwrap_or(Err(LookupFailed::Stopping))
    }

    /// Every way to the peer that is known, or none when the member is stopping.
    pub(crate) async fn paths(&self, certificate: &Certificate) -> Option<PathsStatus> {
        let certificate = Box::new(certificate.clone());
        self.ask(|reply| Command::Paths { certificate, reply })
            .await
            .map(|paths| *paths)
    }

    /// A way to send messages to the peer's application, or none when the member is stopping.
    pub(crate) async fn messages_to(&self, certificate: &Certificate) -> Option<MessageSender> {
        let certificate = Box::new(certificate.clone());
        self.ask(|reply| Command::Messages { certificate, reply })
            .await
    }

    /// What the member sees, or none when it is stopping.
    pub(crate) async fn status(&self) -> Option<Status> {
        self.ask(|reply| Command::Status { reply })
            .await
            .map(|status| *status)
    }

    /// DNS has a newer statement of the ring's owner: others are told.
    pub(crate) async fn stated(&self, statement: Vec<u8>) {
        if self
            .commands
            .send(Command::Stated(statement))
            .await
            .is_err()
        {
            tracing::debug!("the member's task has ended");
        }
    }

    /// Memberships may have ended: links with those who are no longer good are to end.
    pub(crate) async fn memberships_changed(&self) {
        if self.commands.send(Command::Revoked).await.is_err() {
            tracing::debug!("the member's task has ended");
        }
    }
}

impl MemberHandle {
    /// This member shows another certificate from now on, for the same key.
    pub(crate) async fn renewed(&self, certificate: Certificate) {
        let certificate = Box::new(certificate);
        let sent = self.commands.send(Command::Renewed(certificate)).await;
        if sent.is_err() {
            tracing::debug!("the member's task has ended");
        }
    }
}

/// What the task tells itself from work done elsewhere.
#[derive(Debug)]
enum Outcome {
    /// DNS has answered for a router.
    Resolved(RingKey, Option<Box<Certificate>>),
    /// DNS has answered for a router that is to pass packets on.
    RelayResolved(MemberId, Option<Box<Certificate>>),
    /// A PING over QUIC has been answered.
    Pong(MemberId, Box<Pong>),
    /// A transport has a session for this address, or the reason why it has none.
    Connected(Address, Result<ringway_transport::Session, String>),
}
