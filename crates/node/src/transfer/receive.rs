//! The receiver's side: checks offers, takes chunks, keeps what it has when the sender goes away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bao_tree::ChunkRanges;
use bytes::Bytes;
use ringway_transport::quic::{QuicConnection, QuicError, RecvStream, SendStream};
use ringway_transport::{MemberId, Ping};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::bundle::{ALIGN, Bundle, Kind, invalid_list};
use super::content::{self, Partial};
use super::distribute::{self, Division, Share, Taking};
use super::live::{Channel, Checked, Live};
use super::pipe;
use super::record::{Direction, Phase, Record, TransferId};
use super::register::{TOO_MANY_FILES, Whose, begin, sender};
use super::rules::in_words;
use super::service::Context;
use super::wire::{Frame, FrameError, Offer, OfferedBundle};
use crate::connection::code::{FAILED, GIVEN_UP};
use crate::connection::{Opened, Serving, StreamService};
use crate::limits::{ACTIVE_RECEIVES_PER_MEMBER, BUNDLE_ENTRIES, BUNDLE_LIST};

/// Why a file was not taken, or not wholly.
#[derive(Debug)]
pub(super) enum Ended {
    /// Tell the sender, who may try later.
    Refuse(String, bool),
    /// The connection is gone or of no more use.
    Lost(String),
}

impl From<FrameError> for Ended {
    fn from(error: FrameError) -> Ended {
        Ended::Lost(error.to_string())
    }
}

/// What other members ask of this one's transfers.
#[derive(Debug)]
pub(super) struct Receiver {
    context: Arc<Context>,
}

impl Receiver {
    pub(super) fn new(context: Arc<Context>) -> Receiver {
        Receiver { context }
    }
}

impl StreamService for Receiver {
    fn kinds(&self) -> std::ops::RangeInclusive<u32> {
        0..=19
    }

    fn serve(&self, opened: Opened) -> Serving {
        let context = Arc::clone(&self.context);
        Box::pin(async move { handle_stream(&context, opened).await })
    }
}

async fn handle_stream(context: &Arc<Context>, opened: Opened) {
    let Opened {
        connection,
        mut sink,
        stream,
        first,
    } = opened;
    let connection = &connection;
    let ended = match Frame::decode(&first) {
        Some(Frame::Ping(ping)) => answer_ping(context, &ping, &mut sink).await,
        Some(Frame::Offer(offer) | Frame::OfferBundle(offer)) => {
            receive(context, connection, &offer, &mut sink, stream).await
        }
        Some(Frame::GiveUp(id)) => {
            let id = TransferId(*id);
            take_end(context, connection, id, &mut sink).await
        }
        Some(Frame::Ask(secret)) => {
            distribute::serve(context, connection, *secret, &mut sink, stream).await
        }
        Some(Frame::Come(id)) => {
            come(context, connection.peer(), TransferId(*id));
            Ok(())
        }
        _ => Err(FrameError::Malformed.into()),
    };
    match ended {
        Ok(()) => {}
        Err(Ended::Refuse(reason, try_later)) => {
            tracing::debug!(peer = %connection.peer(), reason, "a request was refused");
            let refusal = Frame::Refuse { reason, try_later };
            if refusal.write(&mut sink).await.is_ok() && sink.finish().is_ok() {
                // Until the peer has read it, or has gone.
                let _gone = sink.stopped().await;
            }
        }
        Err(Ended::Lost(reason)) => {
            tracing::info!(peer = %connection.peer(), reason, "a connection ended");
            connection.close(FAILED, &reason);
        }
    }
}

async fn answer_ping(context: &Context, ping: &[u8], sink: &mut SendStream) -> Result<(), Ended> {
    let ping = Ping::decode(ping).map_err(|_| FrameError::Malformed)?;
    let Some(pong) = context.member.answer(ping).await else {
        return Err(Ended::Lost("the PING is not for this member".to_owned()));
    };
    Frame::Pong(pong.encode().into()).write(sink).await?;
    sink.finish()
        .map_err(|error| Ended::Lost(error.to_string()))
}

/// A receiver has an answer to what this member sends. Another's is no concern of it.
fn come(context: &Context, peer: MemberId, id: TransferId) {
    let sent = context.find(id, Direction::Send);
    if let Some(live) = sent.filter(|live| live.lock_record().peer == peer) {
        live.woken.notify_one();
    }
}

/// The sender has given a transfer up. For one that is another's, or not known, nothing is done:
/// it does not wait here for this sender.
async fn take_end(
    context: &Arc<Context>,
    connection: &QuicConnection,
    id: TransferId,
    sink: &mut SendStream,
) -> Result<(), Ended> {
    if let Some(live) = context.find(id, Direction::Receive) {
        let sender = sender(context, connection.peer())?;
        match Whose::of(&context.directory, &live.record(), &sender) {
            Whose::Its if !live.phase().is_ended() => {
                context.set_phase(&live, Phase::Failed, Some(GIVEN_UP_THERE.to_owned()));
                live.cancelled.send_replace(true);
                let context = Arc::clone(context);
                tokio::spawn(async move { discard(&context, &live).await });
            }
            Whose::MayBeIts => return Err(Ended::Refuse(KEY_NOT_KNOWN.to_owned(), true)),
            Whose::Its | Whose::Anothers => {}
        }
    }
    Frame::GivenUp.write(sink).await?;
    sink.finish()
        .map_err(|error| Ended::Lost(error.to_string()))
}

async fn receive(
    context: &Arc<Context>,
    connection: &QuicConnection,
    offer: &Offer,
    sink: &mut SendStream,
    stream: RecvStream,
) -> Result<(), Ended> {
    check_bundle(offer)?;
    let (_slot, live) = begin(context, connection.peer(), offer)?;
    if context.active_with(connection.peer()) >= ACTIVE_RECEIVES_PER_MEMBER {
        let reason = "too many files of this sender are being received".to_owned();
        return Err(Ended::Refuse(reason, true));
    }
    // An attempt over a connection that has died makes way.
    let mut attempts = live.attempts.subscribe();
    let own = live.attempts.borrow().wrapping_add(1);
    live.attempts.send_replace(own);
    let running = live.running.lock().await;
    attempts.mark_unchanged();
    let ended = if *live.attempts.borrow() != own {
        Err(Ended::Lost(RESTARTED.to_owned()))
    } else if live.phase() == Phase::Done {
        Ok(())
    } else if ended_with_membership(&live.record()) {
        Err(Ended::Refuse(MEMBERSHIP_ENDED.to_owned(), true))
    } else if live.phase().is_ended() {
        Err(refused(GIVEN_UP_HERE))
    } else {
        let content = Content {
            connection,
            stream,
            attempts,
        };
        take_content(context, &live, offer, sink, content).await
    };
    live.set_channel(None);
    live.list.set(None);
    let closed = connection.close_reason();
    let given_up = matches!(
        &closed,
        Some(QuicError::ClosedByPeer { code, .. }) if *code == u64::from(GIVEN_UP)
    );
    match &ended {
        Ok(()) => {
            Frame::Finished.write(sink).await?;
            sink.finish()
                .map_err(|error| Ended::Lost(error.to_string()))?;
        }
        Err(Ended::Lost(_)) if given_up => {
            context.set_phase(&live, Phase::Failed, Some(GIVEN_UP_THERE.to_owned()));
        }
        Err(Ended::Lost(reason)) => {
            // Streams say only that the connection is lost; the connection knows why.
            let reason = closed.map_or_else(|| reason.clone(), |closed| closed.to_string());
            let reason = format!("waits for the sender: {reason}");
            context.set_phase(&live, Phase::Waiting, Some(reason));
        }
        Err(Ended::Refuse(reason, try_later)) => {
            let phase = if *try_later {
                Phase::Waiting
            } else {
                Phase::Failed
            };
            context.set_phase(&live, phase, Some(reason.clone()));
        }
    }
    drop(running);
    if matches!(live.phase(), Phase::Failed | Phase::Cancelled) {
        discard(context, &live).await;
    }
    ended
}

/// Refuses a bundle that is past the bounds, before anything of it is kept.
fn check_bundle(offer: &Offer) -> Result<(), Ended> {
    let Some(bundle) = offer.bundle else {
        return Ok(());
    };
    if bundle.head > BUNDLE_LIST || bundle.entries > BUNDLE_ENTRIES.into() {
        let most = format!("this member takes {BUNDLE_ENTRIES} files at once, and 64 MiB of names");
        return Err(refused(&most));
    }
    let aligned = usize::try_from(bundle.head).is_ok_and(|head| head.is_multiple_of(ALIGN));
    if bundle.head == 0 || bundle.head > offer.size || !aligned {
        return Err(FrameError::Malformed.into());
    }
    Ok(())
}

pub(super) fn described(offered: OfferedBundle) -> Bundle {
    Bundle {
        kind: if offered.folder {
            Kind::Folder
        } else {
            Kind::Several
        },
        paths: Vec::new(),
        packed: false,
        head: offered.head,
        entries: offered.entries,
        group: None,
        direct: false,
    }
}

/// Why a transfer has failed whose sender was revoked.
pub(super) const MEMBERSHIP_ENDED: &str = "the sender's membership has ended";

pub(super) fn ended_with_membership(record: &Record) -> bool {
    record.phase == Phase::Failed && record.reason.as_deref() == Some(MEMBERSHIP_ENDED)
}

pub(super) const STALLED: &str = "the sender has stalled";
pub(super) const RESTARTED: &str = "the sender has started over";
pub(super) const GIVEN_UP_THERE: &str = "the sender has given it up";
pub(super) const GIVEN_UP_HERE: &str = "the receiver has given this transfer up";
pub(super) const KEY_NOT_KNOWN: &str = "the receiver does not know yet that the sender has another key: it learns it from DNS or from other members";

pub(super) fn refused(reason: &str) -> Ended {
    Ended::Refuse(reason.to_owned(), false)
}

/// Removes what has come of a transfer that has ended without its file, once no attempt uses it
/// any more.
pub(super) async fn discard(context: &Arc<Context>, live: &Live) {
    let _running = live.running.lock().await;
    live.take_checked();
    let record = live.record();
    let (folder, stem) = (partial_folder(context, &record), stem(&record.id));
    let removing = tokio::task::spawn_blocking(move || Partial::discard(&folder, &stem));
    if let Err(error) = removing.await {
        tracing::warn!(%error, "a partial file stays behind");
    }
}

/// The sender's stream, and whether the attempt that reads it is still the latest.
struct Content<'a> {
    connection: &'a QuicConnection,
    stream: RecvStream,
    attempts: watch::Receiver<u64>,
}

/// The folder that a file goes to: the inbox as it was when the file was offered first, unless
/// that has gone, as with a home that was moved.
fn inbox(context: &Context, record: &Record) -> PathBuf {
    let began = record.path.parent().filter(|folder| folder.is_dir());
    began.map_or_else(|| context.receiving().inbox.clone(), Path::to_owned)
}

fn partial_folder(context: &Context, record: &Record) -> PathBuf {
    inbox(context, record).join(".partial")
}

fn stem(id: &TransferId) -> String {
    id.to_string()
}

async fn take_content(
    context: &Arc<Context>,
    live: &Arc<Live>,
    offer: &Offer,
    sink: &mut SendStream,
    mut content: Content<'_>,
) -> Result<(), Ended> {
    let checked = match live.take_checked() {
        Some(checked) => checked,
        None => open_partial(context, live, offer).await?,
    };
    if content.attempts.has_changed().unwrap_or(false) {
        // Checking a large file takes long; the attempt that came meanwhile need not do it again.
        live.keep_checked(checked);
        return Err(Ended::Lost(RESTARTED.to_owned()));
    }
    let partial = take_chunks(context, live, offer, sink, &mut content, checked).await?;
    // A membership that has ended meanwhile brings no file into the inbox.
    let sender = content.connection.peer();
    if context.directory.cached(&sender).is_none() {
        let record = live.record();
        let lost = context.directory.has_lost(&sender, record.peer_serial);
        if lost {
            let reason = Some(MEMBERSHIP_ENDED.to_owned());
            context.set_phase(live, Phase::Failed, reason);
            // It is not given up there: the sender may join again.
            return Err(Ended::Refuse(MEMBERSHIP_ENDED.to_owned(), true));
        }
        let reason = "the sender has another key or certificate now";
        return Err(Ended::Lost(reason.to_owned()));
    }
    let record = live.record();
    let (inbox, name) = (inbox(context, &record), record.file.clone());
    let mut partial = partial;
    let finished = tokio::task::spawn_blocking(move || {
        let path = partial.finish(&inbox, &name)?;
        Ok((path, partial.entries()))
    });
    let finished: std::io::Result<_> = finished.await.map_err(|error| disk(live, &error))?;
    let (path, entries) = finished.map_err(|error| not_stored(live, &error))?;
    if let Some(bundle) = &mut live.lock_record().bundle {
        // What the offer said of it was not proven.
        bundle.entries = entries.unwrap_or(bundle.entries);
    }
    live.lock_record().path = path;
    context.set_phase(live, Phase::Done, None);
    Partial::discard(&partial_folder(context, &record), &stem(&record.id));
    Ok(())
}

/// Accepts what is missing, and takes it: from the sender, or from others as well.
async fn take_chunks(
    context: &Arc<Context>,
    live: &Arc<Live>,
    offer: &Offer,
    sink: &mut SendStream,
    content: &mut Content<'_>,
    checked: Checked,
) -> Result<Partial, Ended> {
    let (partial, missing, present) = checked;
    let distributed = distributed(offer);
    live.begin(present);
    live.set_channel(Some(Channel {
        connection: content.connection.clone(),
        flow: None,
    }));
    context.set_phase(live, Phase::Active, None);
    let accept = Frame::Accept {
        missing: content::to_wire(&missing),
        present,
        takes_part: distributed.is_some().then_some(true),
    };
    accept.write(sink).await?;
    // Files of one receiver come as one stream.
    let Some((division, priority)) = distributed else {
        return write_content(context, live, partial, missing, content).await;
    };
    let taking = Taking {
        context,
        live,
        connection: content.connection,
        share: Share::new(division, partial, &missing, priority),
    };
    let Content {
        stream, attempts, ..
    } = content;
    taking.run(stream, sink, attempts).await?;
    open_partial_again(context, live, offer).await
}

/// A list that is none will not be another the next time.
fn not_stored(live: &Live, error: &std::io::Error) -> Ended {
    match invalid_list(error) {
        Some(invalid) => refused(&format!("the list of what is sent is not valid: {invalid}")),
        None => disk(live, error),
    }
}

/// The disk's fault is logged once for each transfer, however often the sender comes again.
pub(super) fn disk(live: &Live, error: &dyn std::fmt::Display) -> Ended {
    let record = live.record();
    let (from, file, size) = (&record.peer_name, &record.file, record.size);
    let folder = record
        .path
        .parent()
        .map(|folder| folder.display().to_string());
    let folder = folder.unwrap_or_default();
    if live.disk_failed.swap(true, Ordering::Relaxed) {
        tracing::debug!(from, file, %error, "a file could still not be stored");
    } else {
        tracing::error!(from, file, size, folder, %error, "a file could not be stored");
    }
    let size = in_words(size);
    let reason = format!("the receiver's disk is full or fails: the file has {size}");
    Ended::Refuse(reason, true)
}

async fn open_partial(
    context: &Arc<Context>,
    live: &Live,
    offer: &Offer,
) -> Result<Checked, Ended> {
    let record = live.record();
    let folder = partial_folder(context, &record);
    let (id, size) = (record.id, offer.size);
    let hash = blake3::Hash::from_bytes(*offer.hash);
    let head = offer.bundle.map(|bundle| bundle.head);
    let memory = match head {
        Some(head) => Some(memory_for(context, head)?),
        None => None,
    };
    let (slot, entries) = (
        live.list.clone(),
        offer.bundle.map_or(0, |bundle| bundle.entries),
    );
    // On a blocking thread: what is there of the file is read and hashed.
    let opened = tokio::task::spawn_blocking(move || {
        crate::home::create_own_folder(&folder).map_err(std::io::Error::other)?;
        let mut partial = Partial::open(&folder, &stem(&id), size, hash, head)?;
        if let Some(memory) = memory {
            partial = partial.with_list_in(slot, memory);
        }
        let (missing, present) = partial.missing()?;
        let space = rustix::fs::statvfs(&folder)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < size.saturating_sub(present) {
            let reason = format!("{free} bytes are free, the file has {size}");
            return Err(std::io::Error::other(reason));
        }
        // File systems that count no files say that none are free.
        if space.f_files > 0 && space.f_favail < entries {
            let reason = format!("{} files more have room, {entries} come", space.f_favail);
            return Err(std::io::Error::other(reason));
        }
        Ok((partial, missing, present))
    });
    let opened = opened.await.map_err(|error| disk(live, &error))?;
    opened.map_err(|error| not_stored(live, &error))
}

/// How the file is divided and what it is worth, if others get it as well and it may come from
/// them.
fn distributed(offer: &Offer) -> Option<(Division, f64)> {
    let distributed = offer.distributed.filter(|_| offer.bundle.is_none())?;
    Some((Division::of(offer.size)?, distributed.priority))
}

/// The file that has come, while others may still get it from the partial file as it was opened
/// before.
async fn open_partial_again(
    context: &Context,
    live: &Live,
    offer: &Offer,
) -> Result<Partial, Ended> {
    let record = live.record();
    let (folder, size) = (partial_folder(context, &record), offer.size);
    let hash = blake3::Hash::from_bytes(*offer.hash);
    let opened = tokio::task::spawn_blocking(move || {
        Partial::open(&folder, &stem(&record.id), size, hash, None)
    });
    let opened = opened.await.map_err(|error| disk(live, &error))?;
    opened.map_err(|error| disk(live, &error))
}

/// Room for a bundle's list, and as much for its index.
fn memory_for(context: &Context, head: u64) -> Result<OwnedSemaphorePermit, Ended> {
    let wanted = u32::try_from((2 * head).div_ceil(1 << 20)).unwrap_or(u32::MAX);
    let lists = Arc::clone(&context.lists).try_acquire_many_owned(wanted);
    lists.map_err(|_| Ended::Refuse(TOO_MANY_FILES.to_owned(), true))
}

/// Moves chunks from the stream to the disk. A full disk pipe stops reading, and so, by QUIC's
/// flow control, the sender.
async fn write_content(
    context: &Context,
    live: &Live,
    mut partial: Partial,
    missing: ChunkRanges,
    content: &mut Content<'_>,
) -> Result<Partial, Ended> {
    let (blocks, reader) = pipe::to_thread();
    let bytes = Arc::clone(&live.bytes);
    let writing = tokio::task::spawn_blocking(move || {
        let result = partial.decode(&missing, reader, &bytes);
        (partial, result)
    });
    let mut cancelled = live.cancelled.subscribe();
    let Content {
        connection,
        stream,
        attempts,
    } = content;
    let lost = tokio::select! {
        lost = forward(context, live, connection, stream, blocks) => lost,
        _ = attempts.changed() => Some(RESTARTED.to_owned()),
        _ = cancelled.wait_for(|cancelled| *cancelled) => {
            Some("cancelled here".to_owned())
        }
    };
    // The thread ends with its pipe: no other task may touch the partial file before.
    let written = writing.await;
    let (partial, result) = written.map_err(|error| disk(live, &error))?;
    if ended_with_membership(&live.record()) {
        return Err(Ended::Refuse(MEMBERSHIP_ENDED.to_owned(), true));
    }
    if *live.cancelled.borrow() {
        return Err(refused(GIVEN_UP_HERE));
    }
    match (result, lost) {
        (Ok(()), _) => Ok(partial),
        (Err(error), _) if invalid_list(&error).is_some() => Err(not_stored(live, &error)),
        (Err(error), _) if error.raw_os_error().is_some() => Err(disk(live, &error)),
        (Err(_), Some(lost)) => Err(Ended::Lost(lost)),
        (Err(error), None) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(Ended::Lost("the sender stopped in the middle".to_owned()))
        }
        (Err(error), None) => Err(Ended::Lost(format!("the content does not verify: {error}"))),
    }
}

/// Passes blocks on until the stream or the writing thread has ended; says why if the stream
/// broke.
async fn forward(
    context: &Context,
    live: &Live,
    connection: &QuicConnection,
    stream: &mut RecvStream,
    blocks: mpsc::Sender<Bytes>,
) -> Option<String> {
    let patience = context.patience.towards(connection);
    let may_stay = || context.may_stay(live, STALLED);
    loop {
        let read = patience.wait(read_block(stream), may_stay).await;
        let Some((block, ended)) = read else {
            return Some(STALLED.to_owned());
        };
        let bytes = u64::try_from(block.len()).unwrap_or(u64::MAX);
        connection.streams().received_bytes.add_many(bytes);
        // A thread that has ended early says itself why.
        let taken = block.is_empty() || blocks.send(block).await.is_ok();
        match ended {
            Some(reason) => return reason,
            None if taken => {}
            None => return None,
        }
    }
}

/// Up to a block of what comes: single packets would cost a change of threads each. With it, at
/// the end of the stream, why it ended: none if the sender has finished.
async fn read_block(stream: &mut RecvStream) -> (Bytes, Option<Option<String>>) {
    let mut block = vec![0; pipe::BLOCK];
    let mut filled = 0;
    let ended = loop {
        match stream.read(&mut block[filled..]).await {
            Ok(Some(read)) => filled += read,
            Ok(None) => break Some(None),
            Err(error) => break Some(Some(error.to_string())),
        }
        if filled == block.len() {
            break None;
        }
    };
    block.truncate(filled);
    (block.into(), ended)
}
