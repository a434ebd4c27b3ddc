//! The control socket of the running gateway: one JSON object a line, one request a connection.

use std::sync::Arc;

use ringway_gateway::service::{Apply, Controller, CrossingFlows};
use ringway_node::control::ControlSocket;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::message::{Reply, Request};
use crate::limits::{GATE_FLOWS, GATE_REQUEST, GATE_REQUEST_TIME, GATE_REQUESTS};

/// Answers for ever, [`GATE_REQUESTS`] at once.
pub(super) async fn serve(socket: &ControlSocket, controller: &Arc<Controller>) {
    let permits = Arc::new(Semaphore::new(GATE_REQUESTS));
    // It is never closed.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let stream = socket.accept().await;
        let controller = Arc::clone(controller);
        tokio::spawn(async move {
            match timeout(GATE_REQUEST_TIME, answer(controller, stream, permit)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a control connection ended"),
                Err(_) => tracing::debug!("a control connection was too slow"),
            }
        });
    }
}

async fn answer(
    controller: Arc<Controller>,
    stream: UnixStream,
    permit: OwnedSemaphorePermit,
) -> std::io::Result<()> {
    // Work that outlasts its connection keeps the permit.
    let permit = Arc::new(permit);
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    BufReader::new(reader.take(GATE_REQUEST))
        .read_until(b'\n', &mut line)
        .await?;
    let reply = match serde_json::from_slice(&line) {
        Ok(request) => {
            let permit = Arc::clone(&permit);
            let work = spawn_blocking(move || {
                let _permit = permit;
                reply(&controller, request)
            });
            work.await.map_err(std::io::Error::other)?
        }
        Err(error) => Reply::Refused(vec![format!("no request: {error}")]),
    };
    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    writer.write_all(&bytes).await
}

/// Answers; waits for queues, and for tools where a policy changes.
fn reply(controller: &Controller, request: Request) -> Reply {
    match request {
        Request::Status => Reply::Status(Box::new(controller.status())),
        // The bound holds whatever the client asks for.
        Request::Flows { most } => {
            let CrossingFlows { known, others } = controller.flows(most.min(GATE_FLOWS));
            Reply::Flows { known, others }
        }
        Request::Top { by } => Reply::Top(controller.top(by).map(Box::new)),
        Request::Torrents => Reply::Torrents(controller.torrents(GATE_FLOWS)),
        Request::Quotas => Reply::Quotas(controller.quotas()),
        Request::Why { flow } => Reply::Why(controller.why(flow)),
        Request::Apply {
            file,
            text,
            mode,
            confirm,
        } => {
            let applied = controller.apply(&Apply {
                file: &file,
                text: &text,
                mode,
                confirm,
            });
            applied.map_or_else(Reply::Refused, Reply::Done)
        }
        Request::Confirm => match controller.confirm() {
            Ok(name) => Reply::Done(format!("{name} stays")),
            Err(error) => Reply::Refused(vec![error.to_string()]),
        },
    }
}

#[cfg(test)]
mod tests;
