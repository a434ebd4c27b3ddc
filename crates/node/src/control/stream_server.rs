//! Requests about services and streams. Some keep their connection: it becomes the stream.

use ringway_dtl::Priority;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use super::descriptor::Caller;
use super::message::{AskedPriority, Reply, Request};
use super::server::{Answers, Failure, NOT_DONE, Services};
use crate::stream::{Handed, Ready, StreamError};

/// Whether the connection of a request belongs to it from then on.
pub(super) fn is_kept(request: &Request) -> bool {
    matches!(
        request,
        Request::Open { .. } | Request::Serve { .. } | Request::Take { .. }
    )
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        match error {
            StreamError::Usage(message) => Failure::Usage(message),
            StreamError::Failed(message) => Failure::Failed(message),
        }
    }
}

/// The socket again, once no line is to be sent any more.
fn whole(reading: OwnedReadHalf, answers: Answers) -> Result<UnixStream, Failure> {
    let joined = reading.reunite(answers.writing);
    joined.map_err(|error| Failure::Failed(error.to_string()))
}

impl Services {
    /// Answers one of those. The way to say so is given back where it fails before it is answered.
    pub(super) async fn keep(
        &self,
        request: Request,
        caller: Caller,
        reading: OwnedReadHalf,
        mut answers: Answers,
    ) -> Result<(), (Answers, Failure)> {
        let is_own = caller.is_own();
        match request {
            Request::Open {
                peer,
                service,
                priority,
            } => {
                let priority = self.checked(priority, is_own);
                match self.opened(&peer, &service, priority, caller).await {
                    Ok((ready, handed)) => {
                        let status = Box::new(ready.status());
                        let reply = match &handed {
                            None => Reply::Opened(status),
                            Some(_) => Reply::Joined(status),
                        };
                        // Behind this answer the socket carries bytes, and no replies.
                        if answers.send(&reply).await.is_ok()
                            && let Ok(socket) = whole(reading, answers)
                        {
                            ready.run(socket, handed);
                        }
                        Ok(())
                    }
                    Err(failure) => Err((answers, failure)),
                }
            }
            Request::Take { id } => match self.streams.announced(&id) {
                Ok(status) => {
                    let opened = Reply::Opened(Box::new(status));
                    if answers.send(&opened).await.is_ok()
                        && let Ok(socket) = whole(reading, answers)
                        && let Err(error) = self.streams.take(&id, socket)
                    {
                        tracing::info!(%error, "a stream was taken too late");
                    }
                    Ok(())
                }
                Err(error) => Err((answers, error.into())),
            },
            Request::Serve {
                name,
                from,
                priority,
            } => {
                let priority = self.checked(priority, is_own);
                let served = self.serve_program(&name, from, priority, reading, &mut answers);
                match served.await {
                    Ok(()) => Ok(()),
                    Err(failure) => Err((answers, failure)),
                }
            }
            _ => Ok(()),
        }
    }

    /// The priority that is asked for, if it may be.
    fn checked(
        &self,
        asked: Option<AskedPriority>,
        is_own: bool,
    ) -> Result<Option<Priority>, Failure> {
        let checked = asked.map(|asked| self.priorities.asked(&asked, is_own));
        Ok(checked.transpose()?)
    }

    async fn opened(
        &self,
        peer: &str,
        service: &str,
        priority: Result<Option<Priority>, Failure>,
        caller: Caller,
    ) -> Result<(Ready, Option<Handed>), Failure> {
        let handed = caller.take_file().map(Handed::new).transpose()?;
        let priority = priority?;
        let peer = self.peer(peer).await?;
        let ready = self.streams.open(peer, service, priority).await?;
        if handed.is_some() && ready.is_of_datagrams() {
            let reason =
                format!("`{service}` is a UDP service: the socket handed over is a stream's");
            return Err(Failure::Usage(reason));
        }
        Ok((ready, handed))
    }

    /// Until the program closes its connection.
    async fn serve_program(
        &self,
        name: &str,
        from: Vec<String>,
        priority: Result<Option<Priority>, Failure>,
        mut reading: OwnedReadHalf,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let priority = priority?.unwrap_or(Priority::NORMAL);
        let (mut program, status) = self.streams.offer_program(name, from, priority)?;
        answers.send(&Reply::Serving(Box::new(status))).await?;
        let mut byte = [0];
        loop {
            let announced = tokio::select! {
                announced = program.next() => announced,
                // Nothing is to come: it is gone, or breaks the protocol.
                _ = reading.read(&mut byte) => return Ok(()),
            };
            let Some(announced) = announced else {
                return Ok(());
            };
            let incoming = Reply::Incoming {
                id: announced.id,
                peer: announced.peer,
                service: program.name().to_owned(),
            };
            answers.send(&incoming).await?;
        }
    }

    /// Answers those that do not.
    pub(super) async fn about_streams(
        &self,
        request: Request,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        match request {
            Request::Services { peer } => self.list_services(peer.as_deref(), answers).await,
            Request::Streams => self.list_streams(answers).await,
            _ => Err(Failure::Failed(NOT_DONE.to_owned())),
        }
    }

    async fn list_services(
        &self,
        peer: Option<&str>,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let all = match peer {
            Some(peer) => {
                let peer = self.peer(peer).await?;
                self.streams.services_of(&peer).await?
            }
            None => self.streams.own_services(),
        };
        for service in all {
            answers.send(&Reply::Service(Box::new(service))).await?;
        }
        Ok(())
    }

    async fn list_streams(&self, answers: &mut Answers) -> Result<(), Failure> {
        for stream in self.streams.list() {
            answers.send(&Reply::Stream(Box::new(stream))).await?;
        }
        Ok(())
    }
}
