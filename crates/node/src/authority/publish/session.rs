//! One TCP connection to a DNS server (RFC 7766) on which every request and every answer is signed.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use hickory_proto::op::{Message, MessageType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::fault::Fault;
use super::key::TsigKey;
use super::signed::{self, Sealed};
use crate::clock::unix_seconds;
use crate::limits::UPDATE_TIME;

pub(super) struct Session<'a> {
    stream: TcpStream,
    key: &'a TsigKey,
    next: u16,
}

impl<'a> Session<'a> {
    /// Connects to the first of `addresses` that answers.
    pub(super) async fn connect(
        addresses: &[SocketAddr],
        key: &'a TsigKey,
    ) -> Result<Session<'a>, Fault> {
        let connected = timeout(UPDATE_TIME, TcpStream::connect(addresses)).await;
        let stream = connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(Fault::Unreachable)?;
        // Ids only distinguish the requests of this connection; what cannot be guessed is the MAC.
        Ok(Session {
            stream,
            key,
            next: 1,
        })
    }

    /// The answer to one request.
    pub(super) async fn ask(&mut self, request: Message) -> Result<Message, Fault> {
        let mut answers = self.ask_all(vec![request]).await?;
        answers.pop().ok_or(Fault::Malformed)
    }

    /// The answers to at most [`UPDATE_QUERIES`](crate::limits::UPDATE_QUERIES) requests, in their
    /// order. The server may answer in another (RFC 7766 §6.2.1.1).
    pub(super) async fn ask_all(&mut self, batch: Vec<Message>) -> Result<Vec<Message>, Fault> {
        let mut waiting: HashMap<u16, (usize, Sealed)> = HashMap::new();
        let mut frames = Vec::new();
        let mut answers: Vec<Option<Message>> = batch.iter().map(|_| None).collect();
        for (index, mut message) in batch.into_iter().enumerate() {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            message.metadata.id = id;
            let sealed = signed::seal(message, self.key, unix_seconds())
                .map_err(|error| Fault::Broken(io::Error::other(error)))?;
            let length = u16::try_from(sealed.bytes.len())
                .map_err(|_| Fault::Broken(io::Error::other("a record is too long for DNS")))?;
            frames.extend_from_slice(&length.to_be_bytes());
            frames.extend_from_slice(&sealed.bytes);
            waiting.insert(id, (index, sealed));
        }
        within(self.stream.write_all(&frames)).await?;
        while !waiting.is_empty() {
            let bytes = self.read().await?;
            let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
            let request = id.and_then(|id| waiting.remove(&id));
            let (index, request) = request.ok_or(Fault::Malformed)?;
            // RFC 8945 §4.3.1: the signature of a response covers that of its request.
            let answer = signed::open(&bytes, &request, self.key, unix_seconds())?;
            if answer.message_type != MessageType::Response {
                return Err(Fault::Malformed);
            }
            if let Some(slot) = answers.get_mut(index) {
                *slot = Some(answer);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    async fn read(&mut self) -> Result<Vec<u8>, Fault> {
        let length = within(self.stream.read_u16()).await?;
        let mut bytes = vec![0; usize::from(length)];
        within(self.stream.read_exact(&mut bytes)).await?;
        Ok(bytes)
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> Result<T, Fault> {
    let done = timeout(UPDATE_TIME, work)
        .await
        .map_err(|_| Fault::Silent)?;
    done.map_err(Fault::Broken)
}
