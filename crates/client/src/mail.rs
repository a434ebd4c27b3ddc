//! Messages between members: small, stored, and signed for.

use crate::client::Client;
use crate::connection::{ClientError, Connection};
use crate::limits::{BATCH_PAUSE, BATCHED_BYTES, BATCHED_MESSAGES};
use crate::message::{AskedPriority, BatchStatus, Body, MessageStatus, Reply, Request};

/// Received messages, those that were not read first, and then each as it comes.
#[derive(Debug)]
pub struct Messages {
    client: Client,
    connection: Connection,
}

impl Messages {
    /// The next message. A call that is given up loses nothing. What is not
    /// [marked as read](Messages::mark_read) the next program that follows is given again.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when the daemon ends, and as [`Client::status`].
    pub async fn next(&mut self) -> Result<MessageStatus, ClientError> {
        let reply = self.connection.next().await?;
        let reply = reply.ok_or(ClientError::Unexpected)?;
        as_message(reply).ok_or(ClientError::Unexpected)
    }

    /// Marks this one, and all before it from the same member, as read.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub async fn mark_read(&self, message: &MessageStatus) -> Result<(), ClientError> {
        self.client.mark_read(&message.peer, &message.id).await
    }
}

/// Messages.
impl Client {
    /// Sends a message of at most 64 KiB to each of `peers`. It is on the disk when this returns,
    /// and is sent until the member has signed for it.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn message(
        &self,
        peers: &[impl AsRef<str>],
        body: impl AsRef<[u8]>,
    ) -> Result<Vec<MessageStatus>, ClientError> {
        let request = Request::Message {
            peers: peers.iter().map(|peer| peer.as_ref().to_owned()).collect(),
            body: body.as_ref().to_owned(),
            priority: 1.0.into(),
            attach: Vec::new(),
        };
        self.request(&request).await?.each(as_message).await
    }

    /// Sends many messages to one member, in order: as many as fit go by one request, and are
    /// stored by one write to the disk. Waits while too many wait for the member to sign for them,
    /// and returns once all are on the disk. `priority` is 1 or what the caller may ask for.
    ///
    /// # Errors
    /// As [`status`](Client::status). How many were stored before that is not known then: a program
    /// that has to know sends [batches](Client::message_batch).
    pub async fn send_messages(
        &self,
        peer: &str,
        bodies: impl IntoIterator<Item = impl AsRef<[u8]>>,
        priority: &AskedPriority,
    ) -> Result<usize, ClientError> {
        let mut batch = Vec::new();
        let (mut bytes, mut sent) = (0, 0);
        for body in bodies {
            let body = body.as_ref().to_owned();
            let is_full = batch.len() == BATCHED_MESSAGES || bytes + body.len() > BATCHED_BYTES;
            if is_full && !batch.is_empty() {
                sent += self
                    .send_all(peer, std::mem::take(&mut batch), priority)
                    .await?;
                bytes = 0;
            }
            bytes += body.len();
            batch.push(Body(body));
        }
        if !batch.is_empty() {
            sent += self.send_all(peer, batch, priority).await?;
        }
        Ok(sent)
    }

    /// One batch, in as many requests as it takes until there was room for all of it.
    async fn send_all(
        &self,
        peer: &str,
        mut bodies: Vec<Body>,
        priority: &AskedPriority,
    ) -> Result<usize, ClientError> {
        let all = bodies.len();
        loop {
            let sent = self.message_batch(peer, &bodies, priority).await?;
            bodies.drain(..sent.stored.min(bodies.len()));
            if bodies.is_empty() {
                return Ok(all);
            }
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    }

    /// Sends at most 1 000 messages, of 512 KiB together, to one member: they are on the disk when
    /// this returns, or the first ones, where there was no room for all.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn message_batch(
        &self,
        peer: &str,
        bodies: &[Body],
        priority: &AskedPriority,
    ) -> Result<BatchStatus, ClientError> {
        let request = Request::Batch {
            peer: peer.to_owned(),
            bodies: bodies.to_owned(),
            priority: priority.clone(),
        };
        let as_batch = |reply| match reply {
            Reply::Batch(batch) => Some(batch),
            _ => None,
        };
        self.request(&request).await?.only(as_batch).await
    }

    /// The newest 256 messages sent and received, oldest first: all of them, or those with one
    /// member.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn history(&self, peer: Option<&str>) -> Result<Vec<MessageStatus>, ClientError> {
        let request = Request::Messages {
            peer: peer.map(str::to_owned),
            follow: false,
            after: None,
        };
        self.request(&request).await?.each(as_message).await
    }

    /// Follows what is received: from all, or from one member.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn messages(&self, peer: Option<&str>) -> Result<Messages, ClientError> {
        let request = Request::Messages {
            peer: peer.map(str::to_owned),
            follow: true,
            after: None,
        };
        Ok(Messages {
            client: self.clone(),
            connection: self.request(&request).await?,
        })
    }

    /// Marks all messages received from `peer`, up to the one with this id, as read.
    ///
    /// # Errors
    /// As [`status`](Client::status).
    pub async fn mark_read(&self, peer: &str, upto: &str) -> Result<(), ClientError> {
        let request = Request::MarkRead {
            peer: peer.to_owned(),
            upto: upto.to_owned(),
        };
        self.request(&request).await?.all().await?;
        Ok(())
    }
}

fn as_message(reply: Reply) -> Option<MessageStatus> {
    match reply {
        Reply::Message(message) => Some(*message),
        _ => None,
    }
}
