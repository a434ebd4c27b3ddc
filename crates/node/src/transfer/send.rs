//! The sender's side: one task for each file, trying until the peer has it or has refused it.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bao_tree::ChunkRanges;
use bytes::Bytes;
use ringway_dtl::LimitedBy;
use ringway_transport::quic::{QuicConnection, QuicError, RecvStream, SendStream, member_address};
use ringway_transport::{Address, MemberId};
use tokio::sync::AcquireError;
use tokio::time::timeout;

use super::bundle::{Bundle, Walked};
use super::content::{self, EncodeFailed, Source};
use super::distribute::{Distributed, Distribution, Giving};
use super::give_up;
use super::live::{Channel, Live};
use super::pipe;
use super::record::{Phase, Record};
use super::route;
use super::service::Context;
use super::uplink::Flow;
use super::wire::{Frame, FrameError, Offer, OfferedBundle};
use crate::certificate::Certificate;
use crate::connection::code::{DONE, FAILED, GIVEN_UP};
use crate::directory::DirectoryError;
use crate::limits::{
    ANSWER_TIME, REFUSAL_TIME, RETRY_FIRST, RETRY_LONGEST, ROUTE_LOOK, STILL_AFTER_RETURN,
};
use crate::text::printable;

/// Why an attempt ends that has stood still for too long.
const NO_TURN: &str = "the upload limit leaves nothing to it";
pub(super) const NOT_TAKEN: &str = "the peer takes nothing";
/// Why a transfer ends whose file came as a descriptor: that went with the daemon before this one.
const NOT_HANDED: &str =
    "the file was handed over, which ended with the daemon's restart: send it again";
const NOT_SAID: &str = "the peer does not say that it has the file";

/// Why an attempt ended without the file being there.
#[derive(Debug)]
pub(super) enum Ended {
    /// Worth another try.
    Later(String),
    /// Never worth another try.
    Never(String),
}

impl From<FrameError> for Ended {
    fn from(error: FrameError) -> Ended {
        Ended::Later(error.to_string())
    }
}

impl From<QuicError> for Ended {
    fn from(error: QuicError) -> Ended {
        Ended::Later(error.to_string())
    }
}

/// Sends one file, however long that takes.
pub(super) async fn run(context: Arc<Context>, live: Arc<Live>) {
    let mut cancelled = live.cancelled.subscribe();
    let sending = async {
        let mut source = None;
        let mut pause = RETRY_FIRST;
        loop {
            let before = live.bytes.load(Ordering::Relaxed);
            let ended = tokio::select! {
                ended = attempt(&context, &live, &mut source) => ended,
                () = wait_standstill(&live) => Err(Ended::Later(BACK.to_owned())),
            };
            if matches!(ended, Err(Ended::Never(_))) {
                live.close(GIVEN_UP, "failed");
            }
            live.set_channel(None);
            match ended {
                Ok(()) => {
                    live.lock_record().offered = false;
                    note_growth(&live, source.as_deref());
                    return context.set_phase(&live, Phase::Done, None);
                }
                Err(Ended::Never(reason)) => {
                    return context.set_phase(&live, Phase::Failed, Some(reason));
                }
                Err(Ended::Later(reason)) => {
                    tracing::info!(id = %live.record().id, reason, "a transfer waits");
                    context.set_phase(&live, Phase::Waiting, Some(reason));
                }
            }
            // An attempt that moved something has found a path that works, so the next one comes
            // soon.
            if live.bytes.load(Ordering::Relaxed) > before {
                pause = RETRY_FIRST;
            }
            pause = match timeout(pause, live.woken.notified()).await {
                Ok(()) => RETRY_FIRST,
                Err(_) => (pause * 2).min(RETRY_LONGEST),
            };
        }
    };
    tokio::select! {
        () = sending => {}
        _ = cancelled.wait_for(|cancelled| *cancelled) => live.close(GIVEN_UP, "cancelled"),
    }
    live.set_channel(None);
    live.origin.set(None);
    live.list.set(None);
    give_up::run(context, live).await;
}

const BACK: &str = "connects again, as the network or the peer is back";

/// Ends when an attempt stands still although the network or the peer has come back: QUIC would
/// repeat what was lost after a pause as long as the outage was.
async fn wait_standstill(live: &Live) {
    loop {
        // A connection that stands is found dead by QUIC, unless it was this end that was away: a
        // peer that is heard again may only have had nothing to say.
        let phase = tokio::select! {
            () = live.woken.notified() => Phase::Connecting,
            () = live.moved.notified() => Phase::Active,
        };
        let before = live.bytes.load(Ordering::Relaxed);
        if live.phase() != phase {
            continue;
        }
        tokio::time::sleep(STILL_AFTER_RETURN).await;
        if live.phase() == phase && live.bytes.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

/// One attempt. It has a permit among those that send only once it has a connection: a peer that is
/// away keeps no file for others waiting.
async fn attempt(
    context: &Context,
    live: &Live,
    source: &mut Option<Arc<Source>>,
) -> Result<(), Ended> {
    let stopping = |error: AcquireError| Ended::Later(error.to_string());
    let source = match source {
        Some(source) => Arc::clone(source),
        None => Arc::clone(source.insert(read_source(context, live).await?)),
    };
    // Some to each peer look for it, and the others wait for them.
    let line = context.line_to(live.record().peer);
    let line = line.acquire_owned().await.map_err(stopping)?;
    let mut permit = pin!(context.sends.acquire());
    let (connection, _place) = loop {
        // Why the last attempt failed stays to be seen until this one has come further.
        let reason = live.record().reason;
        context.set_phase(live, Phase::Connecting, reason);
        let connection = connect(context, live).await?;
        tokio::select! {
            biased;
            permit = &mut permit => break (connection, permit.map_err(stopping)?),
            // The peer does not wait for long; the turn is not lost by that.
            _ = connection.closed() => {}
        }
    };
    drop(line);
    deliver(context, live, source, connection).await
}

async fn deliver(
    context: &Context,
    live: &Live,
    source: Arc<Source>,
    connection: QuicConnection,
) -> Result<(), Ended> {
    let record = live.record();
    let flow = context.uplink.flow(record.priority);
    let flow = Arc::new(flow.map_err(|error| Ended::Later(error.to_string()))?);
    live.set_channel(Some(Channel {
        connection: connection.clone(),
        flow: Some(Arc::clone(&flow)),
    }));
    // A change of priority between the record's copy and now must not be lost.
    live.set_priority(live.record().priority);
    let (mut sink, mut answers) = connection.open_bi().await?;
    // On disk before the peer knows of it.
    live.lock_record().offered = true;
    context.save(live);
    let distribution = distribution(live, &record, &source);
    let offered = offer(&record, &source, distribution.is_some());
    offered.write(&mut sink).await?;
    let answer = timeout(ANSWER_TIME, Frame::read(&mut answers)).await;
    let answer =
        answer.map_err(|_| Ended::Later("the peer does not answer the offer".to_owned()))?;
    match answer.map_err(|error| not_taken(&record, &connection, error))? {
        Frame::Finished => {}
        Frame::Refuse { reason, try_later } => return Err(refused(live, &reason, try_later)),
        Frame::Accept {
            missing,
            present,
            takes_part,
        } => {
            let ranges = content::from_wire(&missing).ok_or(FrameError::Malformed)?;
            live.begin(present.min(source.size));
            context.set_phase(live, Phase::Active, None);
            look_at_route(context, &connection, &flow).await;
            let takes_part = takes_part == Some(true);
            let sending = async {
                if let Some(distribution) = distribution.filter(|_| takes_part) {
                    let giving = Giving {
                        context,
                        live,
                        connection: &connection,
                        flow: &flow,
                        source,
                        distribution,
                    };
                    return giving.run(&ranges, &mut sink, answers).await;
                }
                let missing = Missing { source, ranges };
                let sent = send_content(context, live, &connection, &flow, missing, &mut sink);
                if let Err(ended) = sent.await {
                    return Err(or_refused(live, ended, &mut answers).await);
                }
                finished(context, live, &connection, &mut answers).await
            };
            tokio::select! {
                sent = sending => sent?,
                never = follow_route(context, &connection, &flow) => match never {},
            }
        }
        _ => return Err(FrameError::Malformed.into()),
    }
    connection.close(DONE, "the file has arrived");
    live.set_channel(None);
    Ok(())
}

/// How receivers of one command give a file to each other, if they may.
fn distribution(live: &Live, record: &Record, source: &Source) -> Option<Arc<Distribution>> {
    let bundle = record.bundle.as_ref()?;
    if bundle.has_list() || bundle.direct || bundle.group.is_none() {
        return None;
    }
    live.origin.get()?.distribution.get(source.size)
}

fn offer(record: &Record, source: &Source, is_distributed: bool) -> Frame {
    let bundle = source.list().map(|list| OfferedBundle {
        head: list.head(),
        entries: list.entries().into(),
        folder: list.is_one_folder(),
    });
    let is_bundle = bundle.is_some();
    let offer = Offer {
        id: record.id.0.into(),
        file: record.file.clone(),
        size: source.size,
        hash: (*source.hash.as_bytes()).into(),
        bundle,
        distributed: is_distributed.then(|| Distributed {
            priority: record.priority.get(),
        }),
    };
    if is_bundle {
        return Frame::OfferBundle(offer);
    }
    Frame::Offer(offer)
}

/// Why there is no answer to an offer. Releases that know no bundles close the connection.
fn not_taken(record: &Record, connection: &QuicConnection, error: FrameError) -> Ended {
    let bundle = record.bundle.as_ref().is_some_and(Bundle::has_list);
    match connection.close_reason() {
        Some(QuicError::ClosedByPeer { code, reason, .. })
            if bundle && code == u64::from(FAILED) && is_not_known(&reason.to_string()) =>
        {
            Ended::Never(format!(
                "{} runs a release before 0.3 and takes no folders, and no several files at once",
                record.peer_name
            ))
        }
        _ => error.into(),
    }
}

/// What releases say to a frame that they do not know.
fn is_not_known(reason: &str) -> bool {
    reason.contains("malformed") || reason.contains("not known here")
}

/// A file that was longer when it had been sent than when it was read: what was sent is whole, and
/// a part.
fn note_growth(live: &Live, source: Option<&Source>) {
    let grown = source.map_or(0, Source::grown_by);
    if grown > 0 {
        live.add_note(format!(
            "the file has grown by {grown} bytes since it was read: they were not sent"
        ));
    }
}

/// Finds and hashes what is to be sent; once for each run of the daemon, and for all receivers.
async fn read_source(context: &Context, live: &Live) -> Result<Arc<Source>, Ended> {
    let later = |error: &dyn std::fmt::Display| Ended::Later(error.to_string());
    let origin = live.origin.get().unwrap_or_default();
    let mut shared = origin.source.lock().await;
    let source = match shared.upgrade() {
        Some(source) => source,
        None => {
            let turn = context.hashes.acquire().await;
            let _turn = turn.map_err(|error| later(&error))?;
            context.set_phase(live, Phase::Hashing, None);
            let record = live.record();
            let handed = origin.handed();
            if record.handed && handed.is_none() {
                return Err(Ended::Never(NOT_HANDED.to_owned()));
            }
            let tree = context.trees.join(format!("{}.tree", record.id));
            let (home, path) = (context.home.clone(), record.path.clone());
            let read = tokio::task::spawn_blocking(move || read(record, handed, &tree, &home));
            let read = read.await.map_err(|error| later(&error))?;
            let source = Arc::new(read.map_err(|error| Ended::Never(said_of(&path, &error)))?);
            *shared = Arc::downgrade(&source);
            source
        }
    };
    let mut record = live.lock_record();
    if record.hash.is_some_and(|hash| hash != source.hash) {
        return Err(Ended::Never(changed(&record.path)));
    }
    record.hash = Some(source.hash);
    record.size = source.size;
    if let (Some(bundle), Some(list)) = (&mut record.bundle, source.list()) {
        (bundle.head, bundle.entries) = (list.head(), list.entries().into());
    }
    drop(record);
    live.list.set(source.list().map(Arc::clone));
    live.set_notes(source.notes());
    Ok(source)
}

/// Why something cannot be read, with the path of what it is.
fn said_of(path: &Path, error: &io::Error) -> String {
    match error.get_ref() {
        // It names what is in a folder.
        Some(named) if error.raw_os_error().is_none() => printable(&named.to_string(), 300),
        _ => format!("{}: {error}", printable(&path.to_string_lossy(), 300)),
    }
}

fn read(record: Record, handed: Option<File>, tree: &Path, home: &Path) -> io::Result<Source> {
    let bundle = record.bundle.filter(Bundle::has_list);
    match (bundle, handed) {
        (Some(bundle), Some(file)) if bundle.packed => Source::packed(file, bundle.head, tree),
        (Some(bundle), _) => {
            let walked = Walked::new(&bundle.paths, Some(home));
            Source::walked(walked.map_err(io::Error::other)?, tree)
        }
        (None, Some(file)) => Source::read(file, tree),
        (None, None) => Source::open(&record.path, tree),
    }
}

fn changed(path: &Path) -> String {
    let path = printable(&path.to_string_lossy(), 300);
    format!("{path} has changed since the transfer began: send it again")
}

/// The peer's certificate, by which its key is known. If that is another than it was, the transfer
/// is with that key from now on.
async fn current_peer(context: &Context, live: &Live) -> Result<Certificate, Ended> {
    let record = live.record();
    let directory = &context.directory;
    let found = match record.peer_name.parse() {
        Ok(name) if directory.has_heir(&record.peer, record.peer_serial) => {
            directory.heir(record.peer_serial, &name).await
        }
        _ => directory.find(&record.peer.to_string()).await,
    };
    let certificate = found.map_err(|error| match error {
        DirectoryError::Revoked(_) => Ended::Never(error.to_string()),
        _ => Ended::Later(error.to_string()),
    })?;
    context.follow(live, &certificate);
    Ok(certificate)
}

pub(super) async fn connect(context: &Context, live: &Live) -> Result<QuicConnection, Ended> {
    let certificate = current_peer(context, live).await?;
    let priority = live.record().priority;
    let connecting = context.connections.connect(certificate, priority);
    connecting
        .await
        .map_err(|error| Ended::Later(error.to_string()))
}

/// Puts the transfer under the cap of the interface by which it leaves, again and again.
async fn follow_route(
    context: &Context,
    connection: &QuicConnection,
    flow: &Flow,
) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(ROUTE_LOOK).await;
        look_at_route(context, connection, flow).await;
    }
}

async fn look_at_route(context: &Context, connection: &QuicConnection, flow: &Flow) {
    if !context.uplink.has_interface_caps() {
        return;
    }
    let host = next_host(context, connection).await;
    let interface = match host.map(route::interface_to) {
        Some(Ok(interface)) => interface,
        Some(Err(error)) => {
            tracing::warn!(%error, "by which interface a transfer leaves is not known: no interface's cap counts for it");
            None
        }
        None => None,
    };
    if let Err(error) = flow.leaves_by(interface.as_deref()) {
        tracing::warn!(%error, "a transfer stays under the cap that it was under");
    }
}

/// The host to which the transfer's packets go, as far as it is known: not by mail, and not by a
/// program.
async fn next_host(context: &Context, connection: &QuicConnection) -> Option<IpAddr> {
    let remote = connection.remote()?;
    if remote != member_address(&connection.peer()) {
        return Some(remote.ip());
    }
    let links = context.member.status().await?.links;
    let address_of = |member: MemberId| {
        let member = member.to_string();
        let link = links.iter().find(|link| link.member == member)?;
        link.address.parse::<Address>().ok()
    };
    match address_of(connection.peer())? {
        Address::Relay(relay) => address_of(relay.parent)?.ip(),
        address => address.ip(),
    }
}

pub(super) fn refused(live: &Live, reason: &str, try_later: bool) -> Ended {
    let reason = printable(reason, 200);
    if try_later {
        Ended::Later(format!("not taken yet: {reason}"))
    } else {
        live.lock_record().offered = false;
        Ended::Never(format!("refused: {reason}"))
    }
}

/// Why sending has ended in the middle: a receiver that refuses the rest stops the stream, and says
/// why beside it.
async fn or_refused(live: &Live, ended: Ended, answers: &mut RecvStream) -> Ended {
    if let Ended::Never(_) = &ended {
        return ended;
    }
    match timeout(REFUSAL_TIME, Frame::read(answers)).await {
        Ok(Ok(Frame::Refuse { reason, try_later })) => refused(live, &reason, try_later),
        _ => ended,
    }
}

/// Whether it is others on the way that hold a transfer of priority 0 back, and not the receiver.
fn is_held_back(connection: &QuicConnection) -> bool {
    let report = connection.report();
    report.priority.is_scavenger() && report.limited_by != Some(LimitedBy::Application)
}

/// What the receiver lacks of a file.
struct Missing {
    source: Arc<Source>,
    ranges: ChunkRanges,
}

async fn send_content(
    context: &Context,
    live: &Live,
    connection: &QuicConnection,
    flow: &Flow,
    missing: Missing,
    sink: &mut SendStream,
) -> Result<(), Ended> {
    let Missing { source, ranges } = missing;
    let (writer, mut blocks) = pipe::to_task();
    let path = live.record().path;
    let reading = tokio::task::spawn_blocking(move || {
        let mut writer = writer;
        source.encode(&ranges, &mut writer)?;
        std::io::Write::flush(&mut writer).map_err(EncodeFailed::Io)
    });
    while let Some(block) = blocks.recv().await {
        let bytes = u64::try_from(block.len()).unwrap_or(u64::MAX);
        send_block(context, live, connection, flow, block, sink).await?;
        live.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    let read = reading.await;
    let read = read.map_err(|error| Ended::Later(error.to_string()))?;
    read.map_err(|failed| encode_failed(&path, failed))?;
    sink.finish()
        .map_err(|error| Ended::Later(error.to_string()))
}

/// Sends some bytes when it is their turn, as long as they are taken.
pub(super) async fn send_block(
    context: &Context,
    live: &Live,
    connection: &QuicConnection,
    flow: &Flow,
    block: Bytes,
    sink: &mut SendStream,
) -> Result<(), Ended> {
    let patience = context.patience.towards(connection);
    let late = |what: &str| Ended::Later(what.to_owned());
    let may_stay = || context.may_stay(live, NO_TURN);
    let turn = patience.wait(flow.acquire(block.len()), may_stay).await;
    turn.ok_or_else(|| late(NO_TURN))?;
    let bytes = u64::try_from(block.len()).unwrap_or(u64::MAX);
    live.begin_write();
    let may_stay = || is_held_back(connection) && context.may_stay(live, NOT_TAKEN);
    let written = patience.wait(sink.write_chunk(block), may_stay).await;
    live.end_write();
    let written = written.ok_or_else(|| late(NOT_TAKEN))?;
    written.map_err(|error| late(&error.to_string()))?;
    connection.streams().sent_bytes.add_many(bytes);
    Ok(())
}

/// Another attempt cannot mend a file that is no longer the one that was offered.
pub(super) fn encode_failed(path: &Path, failed: EncodeFailed) -> Ended {
    match failed {
        EncodeFailed::Changed(inner) => Ended::Never(changed(inner.as_deref().unwrap_or(path))),
        EncodeFailed::Io(error) => Ended::Later(format!("reading {}: {error}", path.display())),
    }
}

/// The receiver says so when the whole file is on its disk; a peer that is gone ends the connection
/// instead.
async fn finished(
    context: &Context,
    live: &Live,
    connection: &QuicConnection,
    answers: &mut RecvStream,
) -> Result<(), Ended> {
    let patience = context.patience.towards(connection);
    let may_stay = || is_held_back(connection) && context.may_stay(live, NOT_SAID);
    let answer = patience.wait(Frame::read(answers), may_stay).await;
    let late = || Ended::Later(NOT_SAID.to_owned());
    match answer.ok_or_else(late)?? {
        Frame::Finished => Ok(()),
        Frame::Refuse { reason, try_later } => Err(refused(live, &reason, try_later)),
        _ => Err(FrameError::Malformed.into()),
    }
}

/// Tests an address: a PING over QUIC, and the PONG that came back.
pub(crate) async fn ping(
    endpoint: &ringway_transport::quic::QuicEndpoint,
    address: std::net::SocketAddr,
    ping: &ringway_transport::Ping,
) -> Option<ringway_transport::Pong> {
    let exchange = async {
        let priority = ringway_dtl::Priority::NORMAL;
        let connection = endpoint
            .connect(address, ping.target, priority)
            .await
            .ok()?;
        let (mut sink, mut answers) = connection.open_bi().await.ok()?;
        Frame::Ping(ping.encode().into())
            .write(&mut sink)
            .await
            .ok()?;
        let Ok(Frame::Pong(pong)) = Frame::read(&mut answers).await else {
            return None;
        };
        connection.close(DONE, "tested");
        ringway_transport::Pong::decode(&pong).ok()
    };
    timeout(Duration::from_secs(5), exchange)
        .await
        .ok()
        .flatten()
}
