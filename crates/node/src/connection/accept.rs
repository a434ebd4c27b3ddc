//! Connections that other members open, and their streams, each handed to the service that it is
//! for.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use ringway_transport::quic::{QuicConnection, QuicEndpoint, RecvStream, SendStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::slot::{ConnectionSlot, OpenConnections};
use super::{Connections, code, frame};
use crate::limits::{ANSWER_TIME, FRAME_BYTES, STREAMS_PER_CONNECTION};

/// A stream that a peer has opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What it belongs to.
    pub(crate) connection: QuicConnection,
    /// To the peer.
    pub(crate) sink: SendStream,
    /// From the peer, behind the first frame.
    pub(crate) stream: RecvStream,
    /// The first frame: of a kind that the service has, else anything.
    pub(crate) first: Vec<u8>,
}

/// The work on one stream.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that other members ask for by streams.
pub(crate) trait StreamService: Debug + Send + Sync {
    /// The kinds of first frames that are for it.
    fn kinds(&self) -> RangeInclusive<u32>;

    /// Serves one stream to its end. Whether the peer may have it is asked here: that it is a
    /// member is all that is known.
    fn serve(&self, opened: Opened) -> Serving;
}

impl Connections {
    /// Accepts connections for as long as the endpoints live. Services are registered before.
    pub(crate) fn start(&self) {
        let open = OpenConnections::default();
        for endpoint in [&self.inner.endpoint, &self.inner.over_links] {
            let endpoint = Arc::clone(endpoint);
            tokio::spawn(accept(self.clone(), endpoint, Arc::clone(&open)));
        }
    }
}

async fn accept(connections: Connections, endpoint: Arc<QuicEndpoint>, open: OpenConnections) {
    while let Some(connection) = endpoint.accept().await {
        let peer = connection.peer();
        let Some(slot) = ConnectionSlot::take(&open, peer) else {
            connection.close(code::TOO_MANY, "too many connections of this member");
            continue;
        };
        let connections = connections.clone();
        tokio::spawn(async move {
            let _slot = slot;
            accept_streams(&connections, &connection).await;
        });
    }
}

/// Ends when the connection does, or closes it when for some time it has had no stream. One that
/// has ended is not closed again: those who serve its streams are told how it ended.
async fn accept_streams(connections: &Connections, connection: &QuicConnection) {
    let places = Arc::new(Semaphore::new(STREAMS_PER_CONNECTION));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (sink, stream) = match timeout(ANSWER_TIME, connection.accept_bi()).await {
            Ok(Ok(streams)) => streams,
            Ok(Err(_ended)) => return,
            // This place is the only one that is taken: the peer has no use for the connection.
            Err(_) if places.available_permits() + 1 == STREAMS_PER_CONNECTION => {
                return connection.close(code::DONE, "nothing more to do");
            }
            Err(_) => continue,
        };
        let (connections, connection) = (connections.clone(), connection.clone());
        tokio::spawn(async move {
            let _place = place;
            hand_over(&connections, connection, sink, stream).await;
        });
    }
}

async fn hand_over(
    connections: &Connections,
    connection: QuicConnection,
    sink: SendStream,
    mut stream: RecvStream,
) {
    let first = timeout(ANSWER_TIME, frame::read(&mut stream, FRAME_BYTES)).await;
    let first = match first {
        Ok(Ok(first)) => first,
        Ok(Err(error)) => return drop_connection(&connection, &error.to_string()),
        Err(_) => return drop_connection(&connection, "the peer says nothing"),
    };
    let service = frame::kind(&first).and_then(|kind| connections.service_for(kind));
    let Some(service) = service else {
        return drop_connection(&connection, "what the peer asks for is not known here");
    };
    let opened = Opened {
        connection,
        sink,
        stream,
        first,
    };
    service.serve(opened).await;
}

fn drop_connection(connection: &QuicConnection, reason: &str) {
    tracing::info!(peer = %connection.peer(), reason, "a connection ended");
    connection.close(code::FAILED, reason);
}
