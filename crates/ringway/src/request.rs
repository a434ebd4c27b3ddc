//! The control socket as the commands see it: typed answers or a [`Failure`].

use std::fs::File;

use ringway_node::control::{
    Client, KnownMember, PathsStatus, Pong, Reply, Request, RouteFound, Status, TransferStatus,
};

use crate::context::Context;
use ringway_terminal::Failure;

/// Sends one request to the daemon of the chosen home.
pub(crate) async fn ask(context: &Context, request: &Request) -> Result<Client, Failure> {
    let socket = context.socket()?;
    Ok(Client::request(&socket, request).await?)
}

/// Queues a file, which is handed over: the daemon may be another user's.
pub(crate) async fn send(
    context: &Context,
    request: &Request,
    file: &File,
) -> Result<TransferStatus, Failure> {
    let socket = context.socket()?;
    let client = Client::request_with(&socket, request, Some(file)).await?;
    only(client, as_transfer).await
}

/// What the member sees.
pub(crate) async fn status(context: &Context) -> Result<Status, Failure> {
    only(ask(context, &Request::Status).await?, |reply| match reply {
        Reply::Status(status) => Some(*status),
        _ => None,
    })
    .await
}

/// The one transfer that `request` is about.
pub(crate) async fn transfer(
    context: &Context,
    request: &Request,
) -> Result<TransferStatus, Failure> {
    only(ask(context, request).await?, as_transfer).await
}

/// All transfers, oldest first.
pub(crate) async fn transfers(context: &Context) -> Result<Vec<TransferStatus>, Failure> {
    all_transfers(ask(context, &Request::Transfers).await?).await
}

/// All transfers that are answered.
pub(crate) async fn all_transfers(client: Client) -> Result<Vec<TransferStatus>, Failure> {
    let replies = client.all().await?;
    replies
        .into_iter()
        .map(|reply| as_transfer(reply).ok_or_else(odd))
        .collect()
}

/// The next state of a followed transfer, none at its end.
pub(crate) async fn next_transfer(client: &mut Client) -> Result<Option<TransferStatus>, Failure> {
    client
        .next()
        .await?
        .map(|reply| as_transfer(reply).ok_or_else(odd))
        .transpose()
}

/// The next answer to a ping, none at the end.
pub(crate) async fn next_pong(client: &mut Client) -> Result<Option<Pong>, Failure> {
    let pong = |reply| match reply {
        Reply::Pong(pong) => Ok(pong),
        _ => Err(odd()),
    };
    client.next().await?.map(pong).transpose()
}

/// Every way to a peer.
pub(crate) async fn paths(context: &Context, peer: String) -> Result<PathsStatus, Failure> {
    let request = Request::Path { peer };
    only(ask(context, &request).await?, |reply| match reply {
        Reply::Paths(paths) => Some(*paths),
        _ => None,
    })
    .await
}

/// Where a lookup ended.
pub(crate) async fn route(context: &Context, request: &Request) -> Result<RouteFound, Failure> {
    only(ask(context, request).await?, |reply| match reply {
        Reply::Route(found) => Some(found),
        _ => None,
    })
    .await
}

/// The members that the daemon knows of, by name.
pub(crate) async fn members(context: &Context) -> Result<Vec<KnownMember>, Failure> {
    as_members(ask(context, &Request::Members).await?.all().await?)
}

/// The members that the replies to [`Request::Members`] name.
pub(crate) fn as_members(replies: Vec<Reply>) -> Result<Vec<KnownMember>, Failure> {
    let member = |reply| match reply {
        Reply::Member(member) => Ok(*member),
        _ => Err(odd()),
    };
    replies.into_iter().map(member).collect()
}

fn as_transfer(reply: Reply) -> Option<TransferStatus> {
    match reply {
        Reply::Transfer(transfer) => Some(*transfer),
        _ => None,
    }
}

pub(crate) async fn only<T>(
    client: Client,
    pick: impl Fn(Reply) -> Option<T>,
) -> Result<T, Failure> {
    let mut replies = client.all().await?.into_iter();
    match (replies.next().and_then(pick), replies.next()) {
        (Some(answer), None) => Ok(answer),
        _ => Err(odd()),
    }
}

pub(crate) fn odd() -> Failure {
    Failure::failed(
        "the member daemon answered something else than was asked: restart it with this version",
    )
}
