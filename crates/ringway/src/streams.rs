//! `ringway services`, `streams` and `connect`.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use ringway_node::control::{AskedPriority, Client, Reply, Request, ServiceStatus, StreamStatus};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::UnixStream;

use crate::cli::{ConnectArgs, ServicesArgs};
use crate::context::Context;
use crate::request;
use ringway_terminal::{Failure, Table};

/// Digits of an id that are shown to people; enough for every command that takes one.
const SHOWN_ID_DIGITS: usize = 8;

/// Lists services: own ones, or those that a peer offers.
pub(crate) async fn services(context: &Context, args: ServicesArgs) -> Result<(), Failure> {
    let of_peer = args.peer.is_some();
    let all = services_of(&context.socket()?, args.peer).await?;
    if context.output.json() {
        return all
            .iter()
            .try_for_each(|service| context.output.object("ringway.service/1", service));
    }
    let mut table = Table::new(match of_peer {
        true => &["NAME", "PROTOCOL", "PORT", "PRIORITY"],
        false => &["NAME", "TO", "FROM", "PRIORITY", "OPEN", "MAX"],
    });
    for service in &all {
        let priority = service.priority.to_string();
        let name = service.name.clone();
        if of_peer {
            let port = service
                .port
                .map_or_else(|| "-".to_owned(), |it| it.to_string());
            table.row(&[name, service.protocol.clone(), port, priority]);
        } else {
            let to = service.to.clone();
            let from = match service.from.as_slice() {
                [] => "none may".to_owned(),
                from => from.join(" "),
            };
            table.row(&[
                name,
                to.unwrap_or_else(|| "a program".to_owned()),
                from,
                priority,
                service.open.to_string(),
                service.max.to_string(),
            ]);
        }
    }
    context.output.line(&table.text())
}

/// What a peer offers, or this member.
pub(crate) async fn services_of(
    socket: &Path,
    peer: Option<String>,
) -> Result<Vec<ServiceStatus>, Failure> {
    let client = Client::request(socket, &Request::Services { peer }).await?;
    let service = |reply| match reply {
        Reply::Service(service) => Ok(*service),
        _ => Err(request::odd()),
    };
    client.all().await?.into_iter().map(service).collect()
}

/// Lists the open streams.
pub(crate) async fn list(context: &Context) -> Result<(), Failure> {
    let replies = request::ask(context, &Request::Streams)
        .await?
        .all()
        .await?;
    let stream = |reply| match reply {
        Reply::Stream(stream) => Ok(*stream),
        _ => Err(request::odd()),
    };
    let all: Vec<StreamStatus> = replies.into_iter().map(stream).collect::<Result<_, _>>()?;
    if context.output.json() {
        return all
            .iter()
            .try_for_each(|stream| context.output.object("ringway.stream/1", stream));
    }
    let head = [
        "ID",
        "PEER",
        "SERVICE",
        "DIRECTION",
        "STATE",
        "WAY",
        "SENT",
        "RECEIVED",
        "PRIORITY",
    ];
    let mut table = Table::new(&head);
    for stream in &all {
        table.row(&[
            short(&stream.id).to_owned(),
            stream.peer.clone(),
            stream.service.clone(),
            stream.direction.clone(),
            stream.state.clone(),
            stream.way.clone().unwrap_or_else(|| "-".to_owned()),
            HumanBytes(stream.sent).to_string(),
            HumanBytes(stream.received).to_string(),
            stream.priority.to_string(),
        ]);
    }
    context.output.line(&table.text())
}

/// Shows a stream whose priority was changed.
pub(crate) fn show(context: &Context, stream: &StreamStatus) -> Result<(), Failure> {
    context.output.either("ringway.stream/1", stream, || {
        let StreamStatus {
            id,
            service,
            peer,
            priority,
            ..
        } = stream;
        format!("{} ({peer}/{service}) has priority {priority}", short(id))
    })
}

/// As much of an id as people need.
pub(crate) fn short(id: &str) -> &str {
    id.get(..SHOWN_ID_DIGITS).unwrap_or(id)
}

/// A service of a member, and how to ask for it.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    /// The daemon's socket.
    pub(crate) socket: PathBuf,
    /// Whose.
    pub(crate) peer: String,
    /// Which.
    pub(crate) service: String,
    /// None for the service's own.
    pub(crate) priority: Option<AskedPriority>,
}

impl Destination {
    /// Reads `PEER/SERVICE`.
    pub(crate) fn parse(
        context: &Context,
        text: &str,
        priority: Option<AskedPriority>,
    ) -> Result<Destination, Failure> {
        let parts = text.split_once('/');
        let named = parts.filter(|(peer, service)| !peer.is_empty() && !service.is_empty());
        let (peer, service) = named.ok_or_else(|| {
            Failure::usage(format_args!(
                "`{text}` names no service: write the member, a slash and the service, such as `oslo/ssh`"
            ))
        })?;
        Ok(Destination {
            socket: context.socket()?,
            peer: peer.to_owned(),
            service: service.to_owned(),
            priority,
        })
    }

    fn request(&self) -> Request {
        Request::Open {
            peer: self.peer.clone(),
            service: self.service.clone(),
            priority: self.priority.clone(),
        }
    }

    /// A stream to it.
    pub(crate) async fn open(&self) -> Result<Open, Failure> {
        let mut client = Client::request(&self.socket, &self.request()).await?;
        match client.next().await? {
            Some(Reply::Opened(_)) => Ok(Open::of(client)),
            _ => Err(request::odd()),
        }
    }

    /// Joins it with a program's connected socket until both sides have ended. The daemon does, so
    /// that no byte passes through this process; one of a release before leaves it to `copying`.
    pub(crate) async fn carry<S: Into<OwnedFd>>(
        &self,
        socket: S,
        copying: impl AsyncFnOnce(OwnedFd, Open) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let socket = std::fs::File::from(socket.into());
        let mut client = Client::request_with(&self.socket, &self.request(), Some(&socket)).await?;
        match client.next().await? {
            Some(Reply::Joined(_)) => {
                drop(socket);
                // What comes is the end.
                client.next().await.ok();
            }
            Some(Reply::Opened(_)) => {
                // What breaks a connection is for its ends to see.
                copying(socket.into(), Open::of(client)).await.ok();
            }
            _ => return Err(request::odd()),
        }
        Ok(())
    }
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct Open {
    /// What came of it already.
    pub(crate) early: Vec<u8>,
    /// The rest.
    pub(crate) stream: UnixStream,
}

impl Open {
    fn of(client: Client) -> Open {
        let bytes = client.into_bytes();
        let early = bytes.buffer().to_vec();
        let stream = bytes.into_inner();
        Open { early, stream }
    }

    /// Joins it with a program until both sides have ended, or the service has if `ends_with_it`.
    pub(crate) async fn join(
        self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        ends_with_it: bool,
    ) -> std::io::Result<()> {
        let Open { early, stream } = self;
        let (mut reading, mut writing) = stream.into_split();
        let there = async {
            copy(&mut from, &mut writing).await?;
            writing.shutdown().await
        };
        let back = async {
            to.write_all(&early).await?;
            copy(&mut reading, &mut to).await?;
            to.flush().await?;
            to.shutdown().await
        };
        tokio::pin!(there, back);
        let mut sends = true;
        loop {
            tokio::select! {
                sent = &mut there, if sends => {
                    sends = false;
                    // The service may have more to say.
                    sent.or_else(|error| match error.kind() {
                        std::io::ErrorKind::BrokenPipe => Ok(()),
                        _ => Err(error),
                    })?;
                }
                received = &mut back => {
                    received?;
                    return if sends && !ends_with_it { there.await } else { Ok(()) };
                }
            }
        }
    }
}

/// Joins a service with standard input and output.
pub(crate) async fn connect(context: &Context, args: &ConnectArgs) -> Result<(), Failure> {
    let destination = Destination::parse(context, &args.to, args.priority.clone())?;
    let failed = |error| Failure::failed(format_args!("{}: {error}", args.to));
    let input = unbuffered(std::io::stdin().as_fd()).map_err(failed)?;
    let output = unbuffered(std::io::stdout().as_fd()).map_err(failed)?;
    let open = destination.open().await?;
    open.join(input, output, true).await.map_err(failed)
}

/// A standard stream without the buffer that the standard library puts before it.
fn unbuffered(standard: BorrowedFd<'_>) -> std::io::Result<File> {
    let own = standard.try_clone_to_owned()?;
    Ok(File::from_std(std::fs::File::from(own)))
}
