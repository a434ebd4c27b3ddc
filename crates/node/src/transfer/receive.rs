//! The receiver's side: checks offers, takes chunks, keeps what it has when the sender goes away.

use std::path::PathBuf;
use std::sync::Arc;

use bao_tree::ChunkRanges;
use bytes::Bytes;
use ringway_dtl::Priority;
use ringway_transport::quic::{QuicConnection, RecvStream, SendStream};
use ringway_transport::{MemberId, Ping};

use super::content::{self, Partial, safe_file_name};
use super::live::{Channel, Live, Stop};
use super::pipe;
use super::record::{Direction, Phase, Record, TransferId};
use super::service::Context;
use super::wire::{Frame, FrameError, Offer};
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::limits::ANSWER_TIME;

/// Why a file was not taken, or not wholly.
#[derive(Debug)]
enum Ended {
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

/// Accepts connections for as long as the endpoint lives.
pub(super) async fn serve(context: Arc<Context>) {
    while let Some(connection) = context.endpoint.accept().await {
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            while let Ok((sink, stream)) = connection.accept_bi().await {
                handle_stream(&context, &connection, sink, stream).await;
            }
        });
    }
}

async fn handle_stream(
    context: &Arc<Context>,
    connection: &QuicConnection,
    mut sink: SendStream,
    mut stream: RecvStream,
) {
    let first = tokio::time::timeout(ANSWER_TIME, Frame::read(&mut stream)).await;
    let ended = match first {
        Ok(Ok(Frame::Ping(ping))) => answer_ping(context, &ping, &mut sink).await,
        Ok(Ok(Frame::Offer(offer))) => {
            receive(context, connection, &offer, &mut sink, stream).await
        }
        Ok(Ok(_)) => Err(FrameError::Malformed.into()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Ended::Lost("the peer says nothing".to_owned())),
    };
    match ended {
        Ok(()) => {}
        Err(Ended::Refuse(reason, try_later)) => {
            tracing::info!(peer = %connection.peer(), reason, "an offer was refused");
            let refusal = Frame::Refuse { reason, try_later };
            if refusal.write(&mut sink).await.is_ok() && sink.finish().is_ok() {
                // Until the peer has read it, or has gone.
                let _gone = sink.stopped().await;
            }
        }
        Err(Ended::Lost(reason)) => {
            tracing::info!(peer = %connection.peer(), reason, "a connection ended");
            connection.close(1, &reason);
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

async fn receive(
    context: &Arc<Context>,
    connection: &QuicConnection,
    offer: &Offer,
    sink: &mut SendStream,
    stream: RecvStream,
) -> Result<(), Ended> {
    let Ok(_place) = context.receives.try_acquire() else {
        return Err(Ended::Refuse(
            "too many files are being received".to_owned(),
            true,
        ));
    };
    let live = register(context, connection.peer(), offer)?;
    // An attempt over a connection that has died makes way.
    live.stop.send_replace(Stop::Superseded);
    let running = live.running.lock().await;
    live.stop.send_replace(Stop::No);
    let mut stop = live.stop.subscribe();
    let ended = if live.phase() == Phase::Done {
        Ok(())
    } else {
        tokio::select! {
            result = take_content(context, connection, &live, offer, sink, stream) => result,
            stop = stop.wait_for(|stop| *stop != Stop::No) => Err(match stop.as_deref() {
                Ok(Stop::Cancelled) => Ended::Refuse("the receiver has cancelled it".to_owned(), false),
                _ => Ended::Lost("the sender has begun anew".to_owned()),
            }),
        }
    };
    live.set_channel(None);
    drop(running);
    match &ended {
        Ok(()) => {
            Frame::Finished.write(sink).await?;
            sink.finish()
                .map_err(|error| Ended::Lost(error.to_string()))?;
        }
        Err(Ended::Lost(reason)) => {
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
    if live.phase() == Phase::Cancelled {
        Partial::discard(&partial_folder(context), &stem(&live.record().id));
    }
    ended
}

/// Checks whether the file may come, and finds or makes the transfer's record.
fn register(context: &Context, peer: MemberId, offer: &Offer) -> Result<Arc<Live>, Ended> {
    let refuse = |reason: &str| Ended::Refuse(reason.to_owned(), false);
    let certificate: Certificate = context.directory.cached(&peer).ok_or_else(|| {
        Ended::Refuse(
            "no valid certificate of the sender is known".to_owned(),
            true,
        )
    })?;
    let name = certificate.name().to_string();
    if !context.receive.accepts(&name) {
        return Err(refuse("this member takes no files from the sender"));
    }
    if offer.size > context.receive.max_bytes {
        return Err(refuse("the file is larger than this member takes"));
    }
    let file =
        safe_file_name(&offer.file).ok_or_else(|| refuse("the file's name cannot be used"))?;
    let id = TransferId(*offer.id);
    let hash = blake3::Hash::from_bytes(*offer.hash);
    if let Some(live) = context.find(id, Direction::Receive) {
        let record = live.record();
        let same = record.peer == peer && record.hash == Some(hash) && record.size == offer.size;
        return match record.phase {
            Phase::Cancelled | Phase::Failed => {
                Err(refuse("the receiver has given this transfer up"))
            }
            _ if same => Ok(live),
            _ => Err(refuse(
                "the file is not the one that this transfer began with",
            )),
        };
    }
    let record = Record {
        id,
        direction: Direction::Receive,
        peer,
        peer_name: name,
        path: context.inbox.join(&file),
        file,
        size: offer.size,
        priority: Priority::NORMAL,
        phase: Phase::Waiting,
        reason: None,
        hash: Some(hash),
        created: unix_seconds(),
    };
    context
        .add(record)
        .map_err(|error| Ended::Refuse(error.to_string(), true))
}

fn partial_folder(context: &Context) -> PathBuf {
    context.inbox.join(".partial")
}

fn stem(id: &TransferId) -> String {
    id.to_string()
}

async fn take_content(
    context: &Arc<Context>,
    connection: &QuicConnection,
    live: &Arc<Live>,
    offer: &Offer,
    sink: &mut SendStream,
    stream: RecvStream,
) -> Result<(), Ended> {
    let (partial, missing, present) = open_partial(context, live, offer).await?;
    live.begin(present);
    live.set_channel(Some(Channel {
        connection: connection.clone(),
        flow: None,
    }));
    context.set_phase(live, Phase::Active, None);
    let accept = Frame::Accept {
        missing: content::to_wire(&missing),
        present,
    };
    accept.write(sink).await?;
    let partial = write_content(live, partial, missing, stream).await?;
    let (inbox, name) = (context.inbox.clone(), live.record().file);
    let finished = tokio::task::spawn_blocking(move || partial.finish(&inbox, &name)).await;
    let path = finished
        .map_err(|error| disk(&error))?
        .map_err(|error| disk(&error))?;
    live.lock_record().path = path;
    context.set_phase(live, Phase::Done, None);
    Ok(())
}

fn disk(error: &dyn std::fmt::Display) -> Ended {
    Ended::Refuse(format!("the receiver's disk: {error}"), true)
}

async fn open_partial(
    context: &Arc<Context>,
    live: &Live,
    offer: &Offer,
) -> Result<(Partial, ChunkRanges, u64), Ended> {
    let folder = partial_folder(context);
    let (id, size) = (live.record().id, offer.size);
    let hash = blake3::Hash::from_bytes(*offer.hash);
    let opened = tokio::task::spawn_blocking(move || {
        crate::home::create_private_folder(&folder).map_err(std::io::Error::other)?;
        let partial = Partial::open(&folder, &stem(&id), size, hash)?;
        let (missing, present) = partial.missing()?;
        let space = rustix::fs::statvfs(&folder)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < size.saturating_sub(present) {
            return Err(std::io::Error::other(format!(
                "{free} bytes are free, the file has {size}"
            )));
        }
        Ok((partial, missing, present))
    });
    opened
        .await
        .map_err(|error| disk(&error))?
        .map_err(|error| disk(&error))
}

/// Moves chunks from the stream to the disk. A full disk pipe stops reading, and so, by QUIC's flow control, the sender.
async fn write_content(
    live: &Live,
    mut partial: Partial,
    missing: ChunkRanges,
    mut stream: RecvStream,
) -> Result<Partial, Ended> {
    let (blocks, reader) = pipe::to_thread();
    let bytes = Arc::clone(&live.bytes);
    let writing = tokio::task::spawn_blocking(move || {
        let result = partial.decode(&missing, reader, &bytes);
        (partial, result)
    });
    let mut lost = None;
    loop {
        let (block, ended) = read_block(&mut stream).await;
        // A thread that has ended early says below why.
        let taken = block.is_empty() || blocks.send(block).await.is_ok();
        match ended {
            Some(reason) => lost = reason,
            None if taken => continue,
            None => {}
        }
        break;
    }
    drop(blocks);
    let (partial, result) = writing.await.map_err(|error| disk(&error))?;
    match (result, lost) {
        (Ok(()), _) => Ok(partial),
        (Err(_), Some(lost)) => Err(Ended::Lost(lost)),
        (Err(error), None) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(Ended::Lost("the sender stopped in the middle".to_owned()))
        }
        (Err(error), None) if error.kind() == std::io::ErrorKind::StorageFull => Err(disk(&error)),
        (Err(error), None) => Err(Ended::Lost(format!("the content does not verify: {error}"))),
    }
}

/// Up to a block of what comes: single packets would cost a change of threads each. With it, at the end of the
/// stream, why it ended: none if the sender has finished.
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
