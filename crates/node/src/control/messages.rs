//! Requests about messages.

use std::time::Duration;

use ringway_dtl::Priority;
use tokio::io::Interest;

use super::message::{BatchStatus, Body, Reply};
use super::server::{Answers, Failure, Services};
use crate::limits::{BATCHED_BYTES, BATCHED_MESSAGES};
use crate::message::{MessageError, Question, ToSend};

/// How often it is looked whether somebody who follows messages has gone.
const LOOK: Duration = Duration::from_secs(2);

impl From<MessageError> for Failure {
    fn from(error: MessageError) -> Failure {
        if error.is_usage() {
            Failure::Usage(error.to_string())
        } else {
            Failure::Failed(error.to_string())
        }
    }
}

/// What is to be sent, and to whom.
pub(super) struct Sending {
    pub(super) peers: Vec<String>,
    pub(super) body: Vec<u8>,
    pub(super) priority: Priority,
    pub(super) attach: Vec<String>,
}

impl Services {
    /// Sends a message to each of the peers: to all, or to none if one is not known.
    pub(super) async fn send_message(
        &self,
        sending: Sending,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        if sending.peers.is_empty() {
            return Err(Failure::Usage(
                "a message needs a member to go to".to_owned(),
            ));
        }
        let mut certificates = Vec::new();
        for peer in &sending.peers {
            let certificate = self.peer(peer).await?;
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
        for to in certificates {
            let message = ToSend {
                body: sending.body.clone(),
                attach: sending.attach.clone(),
                priority: sending.priority,
            };
            let status = self.messages.send(to, message).await?;
            answers.send(&Reply::Message(Box::new(status))).await?;
        }
        Ok(())
    }

    /// Sends messages to one member, by one write to the disk.
    pub(super) async fn send_batch(
        &self,
        peer: String,
        bodies: Vec<Body>,
        priority: Priority,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let bytes: usize = bodies.iter().map(|body| body.0.len()).sum();
        if bodies.len() > BATCHED_MESSAGES || bytes > BATCHED_BYTES {
            return Err(Failure::Usage(format!(
                "a batch has at most {BATCHED_MESSAGES} messages and {BATCHED_BYTES} bytes: send several"
            )));
        }
        let to = self.peer(&peer).await?;
        let peer = to.name().to_string();
        let bodies = bodies.into_iter().map(|body| body.0).collect();
        let status = match self.messages.send_all(to, bodies, priority).await {
            Ok(sent) => BatchStatus {
                peer,
                stored: sent.stored,
                last: Some(sent.last.to_string()),
                full: full(sent.left)?,
            },
            Err(error) => BatchStatus {
                peer,
                stored: 0,
                last: None,
                full: full(Some(error))?,
            },
        };
        answers.send(&Reply::Batch(status)).await?;
        Ok(())
    }

    pub(super) async fn list_messages(
        &self,
        question: Question,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        for status in self.messages.list(question).await?.messages {
            answers.send(&Reply::Message(Box::new(status))).await?;
        }
        Ok(())
    }

    /// Gives what was not read, and what comes, until the one who asks has gone.
    pub(super) async fn follow_messages(
        &self,
        mut question: Question,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let mut changes = self.messages.changes();
        loop {
            changes.mark_unchanged();
            loop {
                let page = self.messages.list(question.clone()).await?;
                if page.messages.is_empty() {
                    break;
                }
                question.behind = page.last;
                for status in page.messages {
                    answers.send(&Reply::Message(Box::new(status))).await?;
                }
            }
            loop {
                let changed = tokio::time::timeout(LOOK, changes.changed()).await;
                match changed {
                    Ok(Ok(())) => break,
                    Ok(Err(_)) => return Err(MessageError::Stopping.into()),
                    Err(_) if answers.has_gone().await => return Ok(()),
                    Err(_) => {}
                }
            }
        }
    }
}

/// Why some messages have to wait, if that is why they were not taken.
fn full(left: Option<MessageError>) -> Result<Option<String>, Failure> {
    match left {
        None => Ok(None),
        Some(error @ MessageError::Full(_)) => Ok(Some(error.to_string())),
        Some(error) => Err(error.into()),
    }
}

impl Answers {
    /// True once the one who asked has closed the connection.
    async fn has_gone(&self) -> bool {
        let ready = self.writing.as_ref().ready(Interest::WRITABLE).await;
        ready.is_ok_and(|ready| ready.is_write_closed())
    }
}
