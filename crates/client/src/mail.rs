//! Messages between members: small, stored, and signed for.

use crate::client::Client;
use crate::connection::{ClientError, Connection};
use crate::message::{MessageStatus, Reply, Request};

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
