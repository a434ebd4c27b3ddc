//! What happens at a member, one event after the other.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use crate::client::Client;
use crate::connection::ClientError;
use crate::limits::{EVENT_POLL, EVENTS};
use crate::mail::Messages;
use crate::message::{MessageStatus, TransferStatus};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A transfer is new, or its state, priority or progress has changed.
    Transfer(Box<TransferStatus>),
    /// A message has come.
    Message(Box<MessageStatus>),
}

/// The events of a member, from when this was made on.
#[derive(Debug)]
pub struct Events {
    arriving: mpsc::Receiver<Result<Event, ClientError>>,
}

impl Events {
    /// The next one; none after an error. A call that is given up loses nothing.
    ///
    /// # Errors
    /// [`ClientError::Closed`] and [`ClientError::NotRunning`] when the daemon ends, and as
    /// [`Client::status`].
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        self.arriving.recv().await.transpose()
    }
}

impl Client {
    /// Follows what happens. The daemon does not announce changes of transfers: they are asked for
    /// twice a second, and what changes in between is one event. Messages come as they come, unread
    /// ones first; where the daemon refuses to give them, there are none.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn events(&self) -> Result<Events, ClientError> {
        let before = by_id(self.transfers().await?);
        let messages = self.messages(None).await?;
        let (events, arriving) = mpsc::channel(EVENTS);
        tokio::spawn(follow_transfers(self.clone(), before, events.clone()));
        tokio::spawn(follow_messages(messages, events));
        Ok(Events { arriving })
    }
}

type Sender = mpsc::Sender<Result<Event, ClientError>>;

fn by_id(transfers: Vec<TransferStatus>) -> BTreeMap<String, TransferStatus> {
    let pairs = transfers.into_iter();
    pairs.map(|status| (status.id.clone(), status)).collect()
}

/// Whether a program would care.
fn differs(before: &TransferStatus, now: &TransferStatus) -> bool {
    let told = |status: &TransferStatus| (status.bytes, status.size, status.priority);
    before.state != now.state || before.reason != now.reason || told(before) != told(now)
}

async fn follow_transfers(
    client: Client,
    mut before: BTreeMap<String, TransferStatus>,
    events: Sender,
) {
    loop {
        tokio::select! {
            () = events.closed() => return,
            () = tokio::time::sleep(EVENT_POLL) => {}
        }
        let now = match client.transfers().await {
            Ok(now) => now,
            Err(error) => return tell(&events, Err(error)).await,
        };
        for status in &now {
            if before
                .get(&status.id)
                .is_none_or(|before| differs(before, status))
            {
                tell(&events, Ok(Event::Transfer(Box::new(status.clone())))).await;
            }
        }
        before = by_id(now);
    }
}

async fn follow_messages(mut messages: Messages, events: Sender) {
    loop {
        let message = tokio::select! {
            () = events.closed() => return,
            message = messages.next() => message,
        };
        // A daemon without messages has transfers all the same.
        if matches!(message, Err(ClientError::Refused(_))) {
            return;
        }
        let ended = message.is_err();
        tell(
            &events,
            message.map(|message| Event::Message(Box::new(message))),
        )
        .await;
        if ended {
            return;
        }
    }
}

/// Waits for who does not come after. Who has gone needs no more.
async fn tell(events: &Sender, event: Result<Event, ClientError>) {
    events.send(event).await.ok();
}
