//! Giving pieces to other receivers of the same file.

use std::sync::Arc;

use bytes::Bytes;
use ringway_transport::quic::{QuicConnection, RecvStream, SendStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::share::{Secret, Share};
use crate::connection::code::DONE;
use crate::limits::{NEWS_PAUSE, PIECES_ASKED, VOUCH_TIME};
use crate::transfer::pipe;
use crate::transfer::receive::{Ended, refused};
use crate::transfer::register::sender;
use crate::transfer::service::Context;
use crate::transfer::wire::{Frame, FrameError};

/// Serves one other receiver, until it has gone or the file is given no more.
pub(in crate::transfer) async fn serve(
    context: &Context,
    connection: &QuicConnection,
    secret: Secret,
    sink: &mut SendStream,
    mut stream: RecvStream,
) -> Result<(), Ended> {
    sender(context, connection.peer())?;
    // Strangers learn by that nothing but time.
    let found = timeout(VOUCH_TIME, context.shares.find(&secret)).await;
    let share = found.map_err(|_| refused("no such file is given here"))?;
    let _slot = share
        .askers
        .try_acquire()
        .map_err(|_| refused("too many ask for this file"))?;
    share.change(|gatherer| gatherer.handle_asker(connection.peer()));
    connection.set_priority(share.priority);
    let mut ended = share.ended.subscribe();
    let (asks, asked) = mpsc::channel(PIECES_ASKED);
    let served = tokio::select! {
        listened = listen(&share, &mut stream, asks) => listened,
        given = give(context, connection, &share, asked, sink) => given,
        // In the middle of a piece there is no place for words.
        _ = ended.wait_for(|ended| *ended) => {
            connection.close(DONE, "the file is given no more");
            return Ok(());
        }
    };
    // Who has asked for enough closes the connection; that is no fault.
    served.or_else(|error| match error {
        FrameError::Malformed => Err(error.into()),
        FrameError::Ended(_) => Ok(()),
    })
}

async fn listen(
    share: &Share,
    stream: &mut RecvStream,
    asks: mpsc::Sender<u32>,
) -> Result<(), FrameError> {
    loop {
        match Frame::read(stream).await? {
            // More than it may ask for, or what is not here, is no request.
            Frame::Get(piece) if share.lock().has(piece) => {
                asks.try_send(piece).map_err(|_| FrameError::Malformed)?;
            }
            _ => return Err(FrameError::Malformed),
        }
    }
}

async fn give(
    context: &Context,
    connection: &QuicConnection,
    share: &Arc<Share>,
    mut asked: mpsc::Receiver<u32>,
    sink: &mut SendStream,
) -> Result<(), FrameError> {
    let ended = |error: &dyn std::fmt::Display| FrameError::Ended(error.to_string());
    let flow = context.uplink.flow(share.priority);
    let flow = flow.map_err(|error| ended(&error))?;
    let mut changed = share.changed.subscribe();
    let (mut told, mut next) = (0, Instant::now());
    loop {
        if Instant::now() >= next {
            changed.mark_unchanged();
            let (news, count) = share.lock().news(told);
            if count > told {
                Frame::Has(news.to_wire()).write(sink).await?;
                (told, next) = (count, Instant::now() + NEWS_PAUSE);
            }
        }
        let news = async {
            sleep_until(next).await;
            changed.changed().await
        };
        let piece = tokio::select! {
            piece = asked.recv() => piece,
            _ = news => continue,
        };
        // The other side of the pipe ends with the stream.
        let Some(piece) = piece else {
            return Ok(());
        };
        let content = share.read(piece).await.map_err(|error| ended(&error))?;
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Frame::Piece { piece, bytes }.write(sink).await?;
        let mut content = Bytes::from(content);
        while !content.is_empty() {
            let block = content.split_to(pipe::BLOCK.min(content.len()));
            flow.acquire(block.len()).await;
            sink.write_chunk(block)
                .await
                .map_err(|error| ended(&error))?;
        }
        connection.streams().sent_bytes.add_many(bytes);
    }
}
