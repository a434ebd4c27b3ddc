//! Getting a file from its sender and from others that get it: the receiver's side.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::{QuicConnection, RecvStream, SendStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::pieces::Pieces;
use super::share::{Secret, Share};
use crate::connection::code::DONE;
use crate::limits::{ANSWER_TIME, SHARE_BEAT, SHARE_LINGER};
use crate::transfer::live::Live;
use crate::transfer::receive::{
    Ended, GIVEN_UP_HERE, MEMBERSHIP_ENDED, RESTARTED, STALLED, disk, ended_with_membership,
    refused,
};
use crate::transfer::service::Context;
use crate::transfer::wire::{Frame, FrameError};

/// How often it is looked whether something takes too long.
const LOOK: Duration = Duration::from_secs(1);

/// How a file comes that others get as well.
pub(in crate::transfer) struct Taking<'a> {
    pub(in crate::transfer) context: &'a Arc<Context>,
    pub(in crate::transfer) live: &'a Arc<Live>,
    pub(in crate::transfer) connection: &'a QuicConnection,
    pub(in crate::transfer) share: Arc<Share>,
}

impl Taking<'_> {
    /// Ends when all is here.
    pub(in crate::transfer) async fn run(
        &self,
        stream: &mut RecvStream,
        sink: &mut SendStream,
        attempts: &mut watch::Receiver<u64>,
    ) -> Result<(), Ended> {
        // Parts of pieces come again: only whole ones count as present.
        let (has, _) = self.share.lock().news(0);
        self.live.begin(self.share.division().bytes_of(&has));
        let mut cancelled = self.live.cancelled.subscribe();
        let ended = tokio::select! {
            taken = self.take(stream) => match taken {
                Ok(never) => match never {},
                Err(ended) => Err(ended),
            },
            told = self.tell(sink) => told,
            _ = attempts.changed() => Err(Ended::Lost(RESTARTED.to_owned())),
            _ = cancelled.wait_for(|cancelled| *cancelled) => Err(refused(GIVEN_UP_HERE)),
        };
        let ended = match ended {
            Err(_) if ended_with_membership(&self.live.record()) => {
                Err(Ended::Refuse(MEMBERSHIP_ENDED.to_owned(), true))
            }
            ended => ended,
        };
        let (context, share) = (Arc::clone(self.context), Arc::clone(&self.share));
        match &ended {
            Ok(()) => drop(tokio::spawn(async move {
                tokio::time::sleep(SHARE_LINGER).await;
                context.shares.remove(&share);
            })),
            Err(_) => context.shares.remove(&share),
        }
        ended
    }

    /// Takes what the sender says and gives.
    async fn take(&self, stream: &mut RecvStream) -> Result<Infallible, Ended> {
        loop {
            match Frame::read(stream).await? {
                Frame::Shared(shared) => {
                    let secret: Secret = *shared.secret;
                    // It names others again as they come and go; the secret stays.
                    if *self.share.secret.get_or_init(|| secret) != secret {
                        return Err(FrameError::Malformed.into());
                    }
                    self.context.shares.add(secret, &self.share);
                    let others = shared.others.iter().map(|other| MemberId::new(**other));
                    self.share.change(|gatherer| gatherer.name(others));
                }
                Frame::Piece { piece, bytes } => {
                    let content = read_content(&self.share, stream, bytes).await?;
                    let written = take_piece(&self.share, self.live, None, piece, content).await;
                    match written {
                        Ok(()) => {}
                        Err(error) if error.raw_os_error().is_some() => {
                            return Err(disk(self.live, &error));
                        }
                        Err(error) => {
                            let reason = format!("the content does not verify: {error}");
                            return Err(Ended::Lost(reason));
                        }
                    }
                    self.live.givers.add(self.connection.peer(), bytes);
                    self.connection.streams().received_bytes.add_many(bytes);
                }
                _ => return Err(FrameError::Malformed.into()),
            }
        }
    }

    /// Asks others that the sender has named.
    fn ask_next(&self, givers: &mut JoinSet<()>) {
        loop {
            let next = self.share.lock().poll_dial();
            let Some(giver) = next else {
                return;
            };
            let (context, live) = (Arc::clone(self.context), Arc::clone(self.live));
            givers.spawn(ask(context, live, Arc::clone(&self.share), giver));
        }
    }

    /// Asks others, and tells the sender what is here and what others do not give; until all is
    /// here.
    async fn tell(&self, sink: &mut SendStream) -> Result<(), Ended> {
        let mut givers = JoinSet::new();
        let mut changed = self.share.changed.subscribe();
        let (_, mut told) = self.share.lock().news(0);
        let (mut beat, mut came) = (Instant::now(), Instant::now());
        loop {
            changed.mark_unchanged();
            self.ask_next(&mut givers);
            let now = self.share.now();
            let silent = self.share.lock().handle_timeout(now);
            if !silent.is_empty() {
                self.share.changed.send_replace(());
            }
            let (news, count) = self.share.lock().news(told);
            // The sender takes what is said here for a sign of life.
            if count > told {
                came = Instant::now();
            } else if is_stalled(self.context, self.live, self.connection, came) {
                return Err(Ended::Lost(STALLED.to_owned()));
            }
            if count > told || beat.elapsed() >= SHARE_BEAT {
                Frame::Has(news.to_wire()).write(sink).await?;
                (told, beat) = (count, Instant::now());
            }
            if self.share.lock().is_complete() {
                return Ok(());
            }
            let wants = self.share.lock().poll_wants(now);
            if wants.len() > 0 {
                Frame::Wants(wants.to_wire()).write(sink).await?;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

/// Whether nothing has come for so long that the attempt ends.
pub(super) fn is_stalled(
    context: &Context,
    live: &Live,
    connection: &QuicConnection,
    since: Instant,
) -> bool {
    let patience = context.patience.towards(connection);
    let waited = since.elapsed();
    waited >= patience.with_room || waited >= patience.always && !context.may_stay(live, STALLED)
}

async fn read_content(
    share: &Share,
    stream: &mut RecvStream,
    bytes: u64,
) -> Result<Vec<u8>, FrameError> {
    let length = usize::try_from(bytes.min(share.division().longest() + 1));
    let length = length.map_err(|_| FrameError::Malformed)?;
    if bytes > share.division().longest() {
        return Err(FrameError::Malformed);
    }
    let mut content = vec![0; length];
    let read = stream.read_exact(&mut content).await;
    read.map_err(|error| FrameError::Ended(error.to_string()))?;
    Ok(content)
}

/// A piece has come: from another receiver, or from the sender.
async fn take_piece(
    share: &Arc<Share>,
    live: &Live,
    giver: Option<MemberId>,
    piece: u32,
    content: Vec<u8>,
) -> std::io::Result<()> {
    if piece >= share.division().count() {
        return Err(std::io::Error::other("no piece of the file"));
    }
    share.write(piece, content).await?;
    if share.change(|gatherer| gatherer.handle_piece(giver, piece)) {
        let bytes = share.division().bytes(piece);
        live.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    Ok(())
}

/// Asks another receiver for pieces, until it is asked no more.
async fn ask(context: Arc<Context>, live: Arc<Live>, share: Arc<Share>, giver: MemberId) {
    let asked = ask_for_pieces(&context, &live, &share, giver).await;
    let reason = match asked {
        Ok(never) => match never {},
        Err(reason) => reason,
    };
    let id = live.record().id;
    tracing::info!(%id, %giver, reason, "a receiver is asked for no more pieces");
    share.change(|gatherer| gatherer.shun(giver));
}

async fn ask_for_pieces(
    context: &Context,
    live: &Live,
    share: &Arc<Share>,
    giver: MemberId,
) -> Result<Infallible, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let secret = share.secret.get().copied();
    let secret = secret.ok_or("the sender has not vouched for this member")?;
    let certificate = context.directory.find(&giver.to_string()).await;
    let certificate = certificate.map_err(|error| text(&error))?;
    let connecting = context.connections.connect(certificate, Priority::NORMAL);
    let connected = timeout(ANSWER_TIME, connecting).await;
    let connection = connected.map_err(|error| text(&error))?;
    let connection = connection.map_err(|error| text(&error))?;
    let (mut sink, mut stream) = connection.open_bi().await.map_err(|error| text(&error))?;
    // Whichever ends first ends the other.
    let asked = async {
        Frame::Ask(secret.into()).write(&mut sink).await?;
        tokio::select! {
            taken = take_from(live, share, &connection, &mut stream) => taken,
            asked = get(share, giver, &mut sink) => asked,
        }
    };
    let ended = asked.await;
    connection.close(DONE, "nothing more to ask");
    match ended {
        Ok(never) => match never {},
        Err(error) => Err(text(&error)),
    }
}

/// Asks for one piece after the other.
async fn get(
    share: &Share,
    giver: MemberId,
    sink: &mut SendStream,
) -> Result<Infallible, FrameError> {
    let mut changed = share.changed.subscribe();
    loop {
        changed.mark_unchanged();
        if share.lock().is_shunned(giver) {
            return Err(FrameError::Ended("it gives nothing".to_owned()));
        }
        let now = share.now();
        let piece = share.lock().poll_get(giver, now);
        match piece {
            Some(piece) => Frame::Get(piece).write(sink).await?,
            None => changed
                .changed()
                .await
                .map_err(|error| FrameError::Ended(error.to_string()))?,
        }
    }
}

async fn take_from(
    live: &Live,
    share: &Arc<Share>,
    connection: &QuicConnection,
    stream: &mut RecvStream,
) -> Result<Infallible, FrameError> {
    let giver = connection.peer();
    loop {
        match Frame::read(stream).await? {
            Frame::Has(bounds) => {
                let pieces = Pieces::from_wire(&bounds, share.division().count());
                let pieces = pieces.ok_or(FrameError::Malformed)?;
                share.change(|gatherer| gatherer.handle_has(giver, &pieces));
            }
            // What was not asked for is not taken.
            Frame::Piece { piece, bytes } if share.lock().is_asked(giver, piece) => {
                let content = read_content(share, stream, bytes).await?;
                let taken = take_piece(share, live, Some(giver), piece, content).await;
                taken.map_err(|error| FrameError::Ended(error.to_string()))?;
                live.givers.add(giver, bytes);
                connection.streams().received_bytes.add_many(bytes);
            }
            Frame::Refuse { reason, .. } => {
                return Err(FrameError::Ended(crate::text::printable(&reason, 200)));
            }
            _ => return Err(FrameError::Malformed),
        }
    }
}
