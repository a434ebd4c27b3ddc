//! Streams that begin here, and what peers offer.

use std::sync::Arc;
use std::time::Duration;

use minicbor::bytes::ByteArray;
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::drive::{Attachment, Dialled, Driver, NotDialled, Order, PathRace, Redial, Times};
use super::local::{Handed, Local};
use super::pool::Use;
use super::table::Entry;
use super::wire::{Attach, Frame, Offered, Open, StreamId};
use super::{Inner, StreamError, Streams};
use crate::certificate::Certificate;
use crate::config::ServiceName;
use crate::connection::frame::FrameError;
use crate::control::{ServiceStatus, StreamStatus};
use crate::limits::{STREAM_ANSWER, STREAM_BUFFER, STREAM_DIAL_PAUSE, STREAM_HEAD_START, STREAMS};

/// Connections that are tried for a stream that is not there yet.
const TRIES: u32 = 3;

/// How long nothing may come over a connection to which a first frame was given.
const FIRST_SILENCE: Duration = Duration::from_millis(1500);

/// Orders that wait for a stream's task.
pub(super) const ORDERS: usize = 8;

/// A stream that the peer has accepted, and that no program has yet.
#[derive(Debug)]
pub(crate) struct Ready {
    listed: Listed,
    driver: Driver,
    orders: mpsc::Receiver<Order>,
    /// It is of a UDP service, and its datagrams may travel beside it.
    datagrams: bool,
}

/// The stream in the table, for as long as this lives.
#[derive(Debug)]
struct Listed {
    streams: Streams,
    entry: Entry,
}

impl Drop for Listed {
    fn drop(&mut self) {
        // One that has ended is gone already.
        self.streams.inner.table.remove(&self.entry, false);
    }
}

impl Ready {
    /// What is known of it.
    pub(crate) fn status(&self) -> StreamStatus {
        self.listed.entry.status()
    }

    /// Whether it is of a UDP service whose datagrams may travel beside it.
    pub(crate) fn is_of_datagrams(&self) -> bool {
        self.datagrams
    }

    /// The program at the other end of this socket has the stream from now on. Where it has handed
    /// another socket over, that one carries the bytes, and this one says for how long.
    pub(crate) fn run(self, socket: UnixStream, handed: Option<Handed>) {
        tokio::spawn(async move {
            let Some(handed) = handed else {
                let local = if self.datagrams {
                    Local::unix_datagrams(socket)
                } else {
                    Local::unix(socket)
                };
                return self.carry(local).await;
            };
            let ends = self.listed.entry.orders.clone();
            match Local::handed(handed) {
                Ok(local) => {
                    let carried = self.carry(local);
                    tokio::pin!(carried);
                    tokio::select! {
                        () = &mut carried => return,
                        () = gone(socket) => {}
                    }
                    let order = Order::End("the program has gone".to_owned());
                    // A stream that takes no order is ending.
                    ends.try_send(order).ok();
                    carried.await;
                }
                Err(error) => tracing::warn!(%error, "a socket that was handed over is of no use"),
            }
        });
    }

    async fn carry(self, local: Local) {
        let outcome = self.driver.run(local, self.orders).await;
        let Listed { streams, entry } = &self.listed;
        streams.inner.close(entry, &outcome);
    }
}

impl Streams {
    /// Opens a stream to a service of a peer, with the service's own priority if none is given.
    pub(crate) async fn open(
        &self,
        peer: Certificate,
        service: &str,
        priority: Option<Priority>,
    ) -> Result<Ready, StreamError> {
        let service: ServiceName = service.parse().map_err(|error| {
            StreamError::Usage(format!("`{}`: {error}", service.escape_debug()))
        })?;
        let service = service.as_str();
        let inner = &self.inner;
        let full = || {
            StreamError::Failed(format!(
                "{STREAMS} streams are open: `ringway streams` lists them"
            ))
        };
        if inner.table.count(|_| true) >= STREAMS {
            return Err(full());
        }
        let asked = priority.unwrap_or(Priority::NORMAL);
        let open = |id: StreamId| {
            Frame::Open(Open {
                id: ByteArray::from(id),
                service: service.to_owned(),
                priority: priority.map(Priority::get),
                carried_at: asked.get(),
                limit: u64::try_from(STREAM_BUFFER).unwrap_or(u64::MAX),
                datagrams: Some(true),
            })
        };
        let (attachment, id, answer) = self.first(&peer, asked, &open).await?;
        let Frame::Accepted {
            priority: given,
            received,
            limit,
            datagrams,
        } = answer
        else {
            return Err(refusal(&peer, answer));
        };
        let (orders, receiver) = mpsc::channel(ORDERS);
        let name = peer.name().to_string();
        let entry = Entry::new(id, (peer.member(), name), service, true, orders);
        if !inner.table.insert(entry.clone(), |_| true) {
            return Err(full());
        }
        let given = Priority::new(given).unwrap_or(asked);
        let race_paths = inner.path_race(peer.member());
        let dialler = dialler(Arc::clone(inner), peer, id);
        let times = Times::default();
        let mut driver = Driver::new(entry.clone(), asked, times, Some(dialler), race_paths);
        driver.attach(attachment, driver.position(), (received, limit));
        // What its user has not said, the service does.
        if priority.is_none() && given != asked {
            entry.orders.try_send(Order::Priority(given)).ok();
        }
        let streams = self.clone();
        Ok(Ready {
            listed: Listed { streams, entry },
            driver,
            orders: receiver,
            datagrams: datagrams == Some(true),
        })
    }

    /// The answer to a stream's first frame, which is made of a random id. A warm connection may be
    /// dead: then once more, with another id, as the peer may have taken the first.
    async fn first(
        &self,
        peer: &Certificate,
        priority: Priority,
        frame: &(dyn Fn(StreamId) -> Frame + Send + Sync),
    ) -> Result<(Attachment, StreamId, Frame), StreamError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let pool = &self.inner.pool;
            let got = pool.get(peer.clone(), priority, STREAM_HEAD_START).await;
            let used = got.map_err(StreamError::failed)?;
            let mut id = StreamId::default();
            getrandom::fill(&mut id).map_err(StreamError::failed)?;
            let frame = frame(id);
            let answered = tokio::select! {
                answered = timeout(STREAM_ANSWER, exchange(&used, &frame)) => answered,
                () = silence(&used) => Ok(Err(FrameError::Ended("nothing comes over it".to_owned()))),
            };
            match answered {
                Ok(Ok((attachment, answer))) => {
                    let attachment = Attachment {
                        used: Some(used),
                        ..attachment
                    };
                    return Ok((attachment, id, answer));
                }
                Err(_) => {
                    let name = peer.name();
                    return Err(StreamError::Failed(format!(
                        "`{name}` does not answer: `ringway path {name}` shows the ways to it"
                    )));
                }
                Ok(Err(error)) => {
                    // The pool gives another connection the next time.
                    used.0.set_suspect(true);
                    if tries >= TRIES {
                        return Err(StreamError::Failed(format!("`{}`: {error}", peer.name())));
                    }
                }
            }
        }
    }

    /// What a peer offers to this member.
    pub(crate) async fn services_of(
        &self,
        peer: &Certificate,
    ) -> Result<Vec<ServiceStatus>, StreamError> {
        let list = |_| Frame::List;
        let (_, _, answer) = self.first(peer, Priority::NORMAL, &list).await?;
        let Frame::Listed(all) = answer else {
            return Err(refusal(peer, answer));
        };
        let peer = peer.name().to_string();
        let status = |offered: Offered| ServiceStatus {
            name: offered.name,
            peer: Some(peer.clone()),
            protocol: offered.protocol,
            to: None,
            port: offered.port,
            from: Vec::new(),
            priority: offered.priority,
            max: 0,
            open: 0,
        };
        let mut all: Vec<ServiceStatus> = all.into_iter().map(status).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }
}

fn refusal(peer: &Certificate, answer: Frame) -> StreamError {
    let peer = peer.name();
    StreamError::Failed(match answer {
        Frame::Refused(reason) => format!("`{peer}` {reason}"),
        _ => format!(
            "`{peer}` answers something else than was asked: its ringway is of another version"
        ),
    })
}

/// Until a program has closed its connection, on which it has nothing more to say.
async fn gone(mut socket: UnixStream) {
    let mut rest = [0];
    while socket.read(&mut rest).await.is_ok_and(|length| length > 0) {}
}

/// Ends once nothing at all has come over a connection for some time.
async fn silence(used: &Use) {
    let heard = || used.0.connection.report().received;
    let before = heard();
    sleep(FIRST_SILENCE).await;
    // Its QUIC acknowledges what was sent: it is alive, if slow.
    if heard() != before {
        std::future::pending::<()>().await;
    }
}

/// One frame each way, on a stream of its own.
async fn exchange(used: &Use, frame: &Frame) -> Result<(Attachment, Frame), FrameError> {
    let connection = used.0.connection.clone();
    let opened = connection.open_bi().await;
    let ended = |error: ringway_transport::quic::QuicError| FrameError::Ended(error.to_string());
    let (mut sink, mut stream) = opened.map_err(ended)?;
    frame.write(&mut sink).await?;
    let answer = Frame::read(&mut stream).await?;
    let attachment = Attachment {
        connection,
        sink,
        stream,
        used: None,
        held: None,
    };
    Ok((attachment, answer))
}

/// Makes further connections for a stream.
fn dialler(inner: Arc<Inner>, peer: Certificate, id: StreamId) -> super::drive::Dialler {
    Box::new(move |redial| {
        let (inner, peer) = (Arc::clone(&inner), peer.clone());
        Box::pin(async move {
            let dialled = timeout(STREAM_ANSWER, again(&inner, peer, id, redial)).await;
            let dialled = dialled
                .unwrap_or_else(|_| Err(NotDialled::Again("no answer within the time".to_owned())));
            if matches!(dialled, Err(NotDialled::Again(_))) {
                sleep(STREAM_DIAL_PAUSE).await;
            }
            dialled
        })
    })
}

async fn again(
    inner: &Inner,
    peer: Certificate,
    id: StreamId,
    redial: Redial,
) -> Result<Dialled, NotDialled> {
    let again = |error: &dyn std::fmt::Display| NotDialled::Again(error.to_string());
    // Its key may be another by now.
    let peer = inner.directory.cached(&peer.member()).unwrap_or(peer);
    // Both ways at once where a stream stands still.
    let head_start = if redial.in_haste {
        Duration::ZERO
    } else {
        STREAM_HEAD_START
    };
    let got = inner.pool.get(peer, redial.priority, head_start).await;
    let used = got.map_err(|error| again(&error))?;
    let attach = Frame::Attach(Attach {
        id: ByteArray::from(id),
        attempt: redial.attempt,
        received: redial.received,
        limit: redial.limit,
        priority: Some(redial.priority.get()),
        carried_at: redial.priority.get(),
    });
    let asked = timeout(ATTACH_TIME, exchange(&used, &attach)).await;
    let asked = asked.unwrap_or_else(|_| Err(FrameError::Ended("no answer".to_owned())));
    let (attachment, answer) = asked.map_err(|error| {
        used.0.set_suspect(true);
        again(&error)
    })?;
    match answer {
        Frame::Accepted {
            received, limit, ..
        } => Ok(Dialled {
            attachment: Attachment {
                used: Some(used),
                ..attachment
            },
            received,
            limit,
        }),
        Frame::Finished => Err(NotDialled::Finished),
        Frame::Refused(reason) => Err(NotDialled::Refused(reason)),
        _ => Err(again(&FrameError::Malformed)),
    }
}

/// How long the peer may take to answer on a connection that has only just worked.
const ATTACH_TIME: Duration = Duration::from_secs(3);

impl Inner {
    /// What has all paths to `peer` tried.
    pub(super) fn path_race(&self, peer: MemberId) -> PathRace {
        let connections = self.pool.connections().clone();
        Box::new(move || {
            let connections = connections.clone();
            tokio::spawn(async move { connections.race_paths(peer).await });
        })
    }

    /// A stream is over: says so in the log.
    pub(super) fn close(&self, entry: &Entry, outcome: &super::resumable::Outcome) {
        use super::resumable::Outcome;
        let finished = *outcome == Outcome::Finished;
        self.table.remove(entry, finished);
        // One line for each stream: who used what, and for how long.
        let status = entry.status();
        let how = match outcome {
            Outcome::Finished => "finished".to_owned(),
            Outcome::Lost => "no connection for too long".to_owned(),
            Outcome::Reset {
                reason,
                by_peer: true,
                ..
            } => format!("ended by the peer: {reason}"),
            Outcome::Reset { reason, .. } => format!("ended here: {reason}"),
        };
        tracing::info!(
            peer = entry.peer_name,
            service = entry.service,
            direction = status.direction,
            seconds = entry.began.elapsed().as_secs_f64(),
            sent = status.sent,
            received = status.received,
            resumed = status.resumed,
            how,
            "a stream ended"
        );
    }
}
