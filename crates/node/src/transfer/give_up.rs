//! Ends of which the receiver has still to be notified: of a transfer that was cancelled here, or
//! has failed here, while the receiver was away. It would wait there, with its parts, for a month.

use std::sync::Arc;

use ringway_transport::quic::QuicConnection;
use tokio::time::timeout;

use super::live::Live;
use super::record::{Direction, Phase, Record};
use super::send::{self, Ended};
use super::service::Context;
use super::wire::{Frame, FrameError};
use crate::clock::unix_seconds;
use crate::connection::code::DONE;
use crate::limits::{GIVE_UP_LONGEST, GIVE_UP_TIME, RETRY_FIRST, WAITING_RECEIVE_TIME};

/// Whether the receiver may still wait for a file that does not come any more.
pub(super) fn is_due(record: &Record) -> bool {
    let ended = matches!(record.phase, Phase::Failed | Phase::Cancelled);
    record.direction == Direction::Send && ended && record.offered
}

/// Notifies the receiver until it has answered, or has given up by itself.
pub(super) async fn run(context: Arc<Context>, live: Arc<Live>) {
    let mut pause = RETRY_FIRST;
    loop {
        let record = live.record();
        if !is_due(&record) {
            return;
        }
        let waits_no_longer = record.created + WAITING_RECEIVE_TIME.as_secs() < unix_seconds();
        match attempt(&context, &live).await {
            Err(Ended::Later(reason)) if !waits_no_longer => {
                tracing::debug!(id = %record.id, reason, "the receiver does not know yet that a transfer has ended");
            }
            // It knows, or is not a member any more, or has let go long ago.
            _ => {
                live.lock_record().offered = false;
                return context.save(&live);
            }
        }
        pause = match timeout(pause, live.woken.notified()).await {
            Ok(()) => RETRY_FIRST,
            Err(_) => (pause * 2).min(GIVE_UP_LONGEST),
        };
    }
}

async fn attempt(context: &Context, live: &Live) -> Result<(), Ended> {
    let line = context.line_to(live.record().peer);
    let line = line.acquire().await;
    let _turn = line.map_err(|error| Ended::Later(error.to_string()))?;
    let connection = send::connect(context, live).await?;
    let late = |_| Ended::Later("the peer does not answer".to_owned());
    timeout(GIVE_UP_TIME, notify(live, &connection))
        .await
        .map_err(late)??;
    connection.close(DONE, "the receiver knows");
    Ok(())
}

async fn notify(live: &Live, connection: &QuicConnection) -> Result<(), Ended> {
    let (mut sink, mut answers) = connection.open_bi().await?;
    let id = live.record().id.0.into();
    Frame::GiveUp(id).write(&mut sink).await?;
    match Frame::read(&mut answers).await? {
        Frame::GivenUp => Ok(()),
        Frame::Refuse { reason, .. } => Err(Ended::Later(reason)),
        _ => Err(FrameError::Malformed.into()),
    }
}
