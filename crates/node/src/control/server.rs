//! The daemon's side of the control socket.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_overlay::limits::{MAX_RECORD_LIFETIME, MAX_RECORD_NAME, MAX_RECORD_VALUE};
use ringway_overlay::{Destination, Record, RingKey};
use ringway_transport::{Place, Places};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::time::timeout;

use super::descriptor::{self, Caller};
use super::message::{
    AskedPriority, ControlError, Line, MALFORMED, PathsStatus, Pong, RecordFound, RecordStored,
    Reply, Request, RouteFound, RouteTarget, RouterRef, Speaker, TransferStatus,
};
use super::messages::Sending;
use super::socket::ControlSocket;
use super::stream_server;
use crate::certificate::Certificate;
use crate::daemon::Leaver;
use crate::directory::{Directory, DirectoryError};
use crate::leave::{LeaveError, LeaveOptions};
use crate::limits::{CONTROL_CONNECTIONS, CONTROL_TIME};
use crate::member::{MemberHandle, Unreachable};
use crate::member_list::MemberList;
use crate::message::{MessageError, Messages, Question};
use crate::priorities::{Priorities, PriorityRefused};
use crate::stream::Streams;
use crate::transfer::{TransferError, Transfers, check_deadline};

/// How often a watched transfer is reported.
const WATCH: Duration = Duration::from_millis(100);
/// What a member of the socket's group is told that names a file and does not hand it over: the
/// daemon might read what that one may not.
pub(super) const NOT_HANDED: &str = "the file was not handed over, and only the daemon's own user may name one: send it by a `ringway` of this version";
/// What programs are told that ask for what this daemon does not do.
pub(super) const NOT_DONE: &str = "this member daemon does not do that";
/// Pause between two pings.
const PING_PAUSE: Duration = Duration::from_millis(500);

/// What a transfer's priority comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Steering {
    Fixed(Priority),
    /// A deadline in Unix seconds, which may ask for so much.
    By {
        by: u64,
        most: Priority,
    },
}

/// What requests are answered from.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) member: MemberHandle,
    pub(crate) transfers: Transfers,
    pub(crate) priorities: Priorities,
    pub(crate) streams: Streams,
    pub(crate) directory: Arc<Directory>,
    pub(crate) certificate: Certificate,
    /// The owner's list of members.
    pub(crate) list: Arc<MemberList>,
    pub(crate) leaver: Leaver,
    pub(crate) messages: Messages,
}

/// Serves for ever.
pub(crate) async fn serve(socket: ControlSocket, services: Services) {
    let places = Places::new(CONTROL_CONNECTIONS);
    loop {
        let stream = socket.accept().await;
        let services = services.clone();
        let place = places.wait().await;
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &services, place).await {
                tracing::debug!(%error, "a control connection ended");
            }
        });
    }
}

pub(super) struct Answers {
    pub(super) writing: OwnedWriteHalf,
    /// Whether the first reply has said who speaks.
    introduced: bool,
}

impl Answers {
    pub(super) async fn send(&mut self, reply: &Reply) -> io::Result<()> {
        let mut line = if self.introduced {
            serde_json::to_vec(reply)?
        } else {
            let speaker = Speaker::own();
            let content = reply;
            serde_json::to_vec(&Line { content, speaker })?
        };
        self.introduced = true;
        line.push(b'\n');
        self.writing.write_all(&line).await
    }
}

/// Why a request cannot be read: what its sender's version has to do with it, and what mends that.
fn malformed(line: &[u8], error: &serde_json::Error) -> String {
    let (asker, own) = (Speaker::of(line), Speaker::own());
    if asker.is_newer() {
        format!(
            "this member daemon is {own} and does not know what {asker} asks: restart it, so that it is of that version too"
        )
    } else if asker == own {
        format!("{MALFORMED}: {error}")
    } else {
        format!(
            "{MALFORMED} ({error}): it came from {asker}, and this member daemon is {own}: use its `ringway`"
        )
    }
}

async fn answer(stream: UnixStream, services: &Services, place: Place) -> io::Result<()> {
    let (line, file) = tokio::select! {
        read = timeout(CONTROL_TIME, descriptor::receive(&stream)) => read??,
        () = place.must_go() => return Err(io::ErrorKind::ConnectionAborted.into()),
    };
    place.keep();
    let caller = Caller::of(&stream, file);
    let request = serde_json::from_slice(&line);
    let (reading, writing) = stream.into_split();
    let mut answers = Answers {
        writing,
        introduced: false,
    };
    let outcome = match request {
        Ok(request) if stream_server::is_kept(&request) => {
            // Streams have bounds of their own.
            drop(place);
            let kept = services.keep(request, caller, reading, answers).await;
            let Err((failed, failure)) = kept else {
                return Ok(());
            };
            answers = failed;
            Err(failure)
        }
        Ok(request) => services.handle(request, caller, &mut answers).await,
        Err(error) => Err(Failure::Usage(malformed(&line, &error))),
    };
    match outcome {
        Ok(()) => answers.send(&Reply::Done).await,
        Err(Failure::Connection(error)) => Err(error),
        Err(Failure::Usage(message)) => {
            answers
                .send(&Reply::Error(ControlError {
                    usage: true,
                    message,
                }))
                .await
        }
        Err(Failure::Failed(message)) => {
            answers
                .send(&Reply::Error(ControlError {
                    usage: false,
                    message,
                }))
                .await
        }
    }
}

#[derive(Debug)]
pub(super) enum Failure {
    Connection(io::Error),
    Usage(String),
    Failed(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Connection(error)
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Failure {
        if error.is_usage() {
            Failure::Usage(error.to_string())
        } else {
            Failure::Failed(error.to_string())
        }
    }
}

impl From<PriorityRefused> for Failure {
    fn from(error: PriorityRefused) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Failure {
        match error {
            DirectoryError::Absent(..) => Failure::Usage(error.to_string()),
            _ => Failure::Failed(error.to_string()),
        }
    }
}

impl From<LeaveError> for Failure {
    fn from(error: LeaveError) -> Failure {
        if error.is_usage() {
            Failure::Usage(error.to_string())
        } else {
            Failure::Failed(error.to_string())
        }
    }
}

impl Services {
    async fn handle(
        &self,
        request: Request,
        caller: Caller,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        match request {
            Request::Status => self.status(answers).await?,
            Request::Send {
                path,
                peer,
                priority,
                by,
            } => {
                let steering = self.steering(&priority, by, &caller)?;
                let status = self.send_file(&path, &peer, steering, caller).await?;
                answers.send(&Reply::Transfer(Box::new(status))).await?;
            }
            Request::SendAll(all) => self.send_all(*all, caller, answers).await?,
            Request::Transfers => self.list_transfers(answers).await?,
            Request::Watch { transfer } => self.watch(&transfer, answers).await?,
            Request::Priority { transfer, priority } => {
                let priority = self.priorities.asked(&priority, caller.is_own())?;
                let reply = match self.streams.set_priority(&transfer, priority)? {
                    Some(status) => Reply::Stream(Box::new(status)),
                    None => self.set_priority(&transfer, priority).await?,
                };
                answers.send(&reply).await?;
            }
            Request::Deadline { transfer, by } => {
                let most = self.priorities.most(caller.is_own());
                self.steer(&transfer, Steering::By { by, most }, answers)
                    .await?;
            }
            Request::Cancel { transfer } => {
                let status = self.transfers.cancel(&transfer)?;
                answers.send(&Reply::Transfer(Box::new(status))).await?;
            }
            Request::Inbox => self.list_inbox(answers).await?,
            Request::Answer {
                transfer,
                accept,
                reason,
            } => {
                let answered = self.transfers.answer(&transfer, accept, reason.as_deref());
                answers.send(&Reply::Inbox(Box::new(answered?))).await?;
            }
            Request::Leave(options) => self.leave(options, &caller, answers).await?,
            Request::Services { .. } | Request::Streams => {
                self.about_streams(request, answers).await?;
            }
            Request::Message { .. }
            | Request::Batch { .. }
            | Request::Messages { .. }
            | Request::MarkRead { .. } => {
                self.handle_messages(request, caller.is_own(), answers)
                    .await?;
            }
            request => self.handle_ring(request, answers).await?,
        }
        Ok(())
    }

    /// What is asked about members, ways to them, and records.
    async fn handle_ring(&self, request: Request, answers: &mut Answers) -> Result<(), Failure> {
        match request {
            Request::Ping {
                peer,
                count,
                through_ring,
            } => self.ping(&peer, count, through_ring, answers).await?,
            Request::Path { peer } => {
                let paths = self.paths(&peer).await?;
                answers.send(&Reply::Paths(Box::new(paths))).await?;
            }
            Request::Route { target } => {
                let route = self.route(&target).await?;
                answers.send(&Reply::Route(route)).await?;
            }
            Request::Members => self.list_members(answers).await?,
            Request::Put {
                name,
                value,
                lifetime_s,
            } => {
                let stored = self.put(name, value, lifetime_s).await?;
                answers.send(&Reply::Stored(stored)).await?;
            }
            Request::Get { peer, name } => {
                let found = self.get(&peer, name).await?;
                answers.send(&Reply::Record(found)).await?;
            }
            Request::Count(counts) => self.leave_counts(counts, answers).await?,
            Request::Tally { name } => self.tally(name, answers).await?,
            _ => return Err(Failure::Failed(NOT_DONE.to_owned())),
        }
        Ok(())
    }

    async fn list_transfers(&self, answers: &mut Answers) -> Result<(), Failure> {
        for status in self.transfers.list() {
            answers.send(&Reply::Transfer(Box::new(status))).await?;
        }
        Ok(())
    }

    async fn status(&self, answers: &mut Answers) -> Result<(), Failure> {
        let status = self.member.status().await;
        let mut status =
            status.ok_or_else(|| Failure::Failed("this member is stopping".to_owned()))?;
        status.caps = self.transfers.caps();
        let pending = u64::try_from(self.messages.pending()).unwrap_or(u64::MAX);
        let counters = &mut status.counters;
        counters.insert("messages_pending".to_owned(), pending);
        counters.insert("message_writes".to_owned(), self.messages.writes());
        Ok(answers.send(&Reply::Status(Box::new(status))).await?)
    }

    async fn handle_messages(
        &self,
        request: Request,
        is_own: bool,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        match request {
            Request::Message {
                peers,
                body,
                priority,
                attach,
            } => {
                let sending = Sending {
                    peers,
                    body,
                    priority: self.priorities.asked(&priority, is_own)?,
                    attach,
                };
                self.send_message(sending, answers).await
            }
            Request::Batch {
                peer,
                bodies,
                priority,
            } => {
                let priority = self.priorities.asked(&priority, is_own)?;
                self.send_batch(peer, bodies, priority, answers).await
            }
            Request::Messages {
                peer,
                follow,
                after,
            } => {
                let question = Question {
                    peer,
                    after,
                    behind: 0,
                    unread: follow,
                };
                if follow {
                    self.follow_messages(question, answers).await
                } else {
                    self.list_messages(question, answers).await
                }
            }
            Request::MarkRead { peer, upto } => Ok(self.messages.mark_read(peer, upto).await?),
            _ => Err(Failure::Failed(NOT_DONE.to_owned())),
        }
    }

    /// Of a transfer, or of a message.
    async fn set_priority(&self, id: &str, priority: Priority) -> Result<Reply, Failure> {
        match self.transfers.set_priority(id, priority) {
            Err(error @ TransferError::Unknown(_)) => {
                match self.messages.set_priority(id, priority).await {
                    Ok(status) => Ok(Reply::Message(Box::new(status))),
                    Err(MessageError::Unknown(_)) => Err(error.into()),
                    Err(error) => Err(error.into()),
                }
            }
            set => Ok(Reply::Transfer(Box::new(set?))),
        }
    }

    /// The priority that is asked for, or else the deadline that chooses it, if the caller may.
    pub(super) fn steering(
        &self,
        asked: &AskedPriority,
        by: Option<u64>,
        caller: &Caller,
    ) -> Result<Steering, Failure> {
        let is_own = caller.is_own();
        let Some(by) = by else {
            return Ok(Steering::Fixed(self.priorities.asked(asked, is_own)?));
        };
        check_deadline(by)?;
        let most = self.priorities.most(is_own);
        Ok(Steering::By { by, most })
    }

    async fn steer(
        &self,
        transfer: &str,
        steering: Steering,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let status = match steering {
            Steering::Fixed(priority) => self.transfers.set_priority(transfer, priority)?,
            Steering::By { by, most } => self.transfers.set_deadline(transfer, by, most)?,
        };
        answers.send(&Reply::Transfer(Box::new(status))).await?;
        Ok(())
    }

    async fn send_file(
        &self,
        path: &Path,
        peer: &str,
        steering: Steering,
        caller: Caller,
    ) -> Result<TransferStatus, Failure> {
        if !path.is_absolute() {
            return Err(Failure::Usage("the path must be absolute".to_owned()));
        }
        let file = caller.into_file(path);
        let file = file.ok_or_else(|| Failure::Usage(NOT_HANDED.to_owned()))?;
        let peer = self.find(peer).await?;
        let own = &self.certificate;
        Ok(match steering {
            Steering::Fixed(priority) => self.transfers.send(file, &peer, own, priority)?,
            Steering::By { by, most } => {
                let first = Priority::SCAVENGER;
                let status = self.transfers.send(file, &peer, own, first)?;
                self.transfers.set_deadline(&status.id, by, most)?
            }
        })
    }

    async fn list_members(&self, answers: &mut Answers) -> Result<(), Failure> {
        for member in self.members().await {
            answers.send(&Reply::Member(Box::new(member))).await?;
        }
        Ok(())
    }

    async fn list_inbox(&self, answers: &mut Answers) -> Result<(), Failure> {
        for item in self.transfers.inbox() {
            answers.send(&Reply::Inbox(Box::new(item))).await?;
        }
        Ok(())
    }

    async fn leave(
        &self,
        options: LeaveOptions,
        caller: &Caller,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        // Who may use the member need not be the one whose it is.
        if !caller.is_own() {
            return Err(LeaveError::NotOwn.into());
        }
        let left = self.leaver.tell(self.transfers.open(), options).await?;
        // Before the daemon ends. Who has asked may have gone: the authority knows already.
        answers.send(&Reply::Left(left)).await.ok();
        Ok(self.leaver.end().await?)
    }

    async fn watch(&self, transfer: &str, answers: &mut Answers) -> Result<(), Failure> {
        let mut tick = tokio::time::interval(WATCH);
        loop {
            tick.tick().await;
            let (status, ended) = self.transfers.status(transfer)?;
            answers.send(&Reply::Transfer(Box::new(status))).await?;
            if ended {
                return Ok(());
            }
        }
    }

    async fn ping(
        &self,
        peer: &str,
        count: u32,
        through_ring: bool,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        if !(1..=1_000).contains(&count) {
            return Err(Failure::Usage("--count may be 1 to 1000".to_owned()));
        }
        let certificate = self.peer(peer).await?;
        let key = certificate.ring_key();
        if through_ring && key.is_none() {
            let text = format!("`{peer}` is a leaf: only routers are reached through the ring");
            return Err(Failure::Usage(text));
        }
        let key = key.filter(|_| through_ring);
        let (mut answered, mut silent) = (false, None);
        for sequence in 1..=count {
            let mut pong = Pong {
                sequence,
                peer: certificate.name().to_string(),
                address: None,
                via: None,
                rtt_ms: None,
                ways: None,
            };
            silent = match key {
                Some(key) => self.ping_through_ring(key, &mut pong).await,
                None => self.ping_by_link(&certificate, &mut pong).await,
            };
            answered |= pong.rtt_ms.is_some();
            answers.send(&Reply::Pong(pong)).await?;
            if sequence < count {
                tokio::time::sleep(PING_PAUSE).await;
            }
        }
        match silent {
            Some(reason) if !answered => {
                let reason = self.with_last_errors(reason, &certificate).await;
                Err(Failure::Failed(reason))
            }
            _ => Ok(()),
        }
    }

    /// Why a peer is not reached, and what has failed at each of its addresses.
    async fn with_last_errors(&self, mut reason: String, certificate: &Certificate) -> String {
        let paths = self.member.paths(certificate).await.unwrap_or_default();
        for error in paths.last_errors() {
            reason.push_str("; ");
            reason.push_str(error);
        }
        reason
    }

    /// Another member than this one.
    pub(super) async fn peer(&self, peer: &str) -> Result<Certificate, Failure> {
        let certificate = self.find(peer).await?;
        if certificate.member() == self.certificate.member() {
            return Err(Failure::Usage(format!("`{peer}` is this member")));
        }
        Ok(certificate)
    }

    /// One ping from router to router. Gives why there was no answer.
    async fn ping_through_ring(&self, key: RingKey, pong: &mut Pong) -> Option<String> {
        let delivered = self.member.probe_through(Destination::Member(key)).await;
        pong.ways = Some(delivered.as_ref().map_or(0, |delivered| delivered.ways));
        match delivered {
            Ok(delivered) => {
                pong.rtt_ms = Some(delivered.elapsed.as_secs_f64() * 1e3);
                None
            }
            Err(reason) => Some(format!("`{}`: {reason}", pong.peer)),
        }
    }

    /// One ping over the link to the peer. Gives why there was no answer.
    async fn ping_by_link(&self, certificate: &Certificate, pong: &mut Pong) -> Option<String> {
        let echoed = match self.member.echo(certificate.clone()).await {
            Ok(echoed) => echoed,
            Err(reason) => return Some(reason.to_string()),
        };
        let address = echoed.address.as_ref();
        pong.via = address.and_then(|address| self.directory.relay_name(address));
        pong.address = address.map(ToString::to_string);
        pong.rtt_ms = echoed.rtt.map(|rtt| rtt.as_secs_f64() * 1e3);
        let peer = &pong.peer;
        match (&pong.rtt_ms, &pong.via) {
            (Some(_), _) => None,
            (None, Some(via)) => Some(format!(
                "`{peer}` is linked by relay via {via} but does not answer"
            )),
            (None, None) => Some(format!(
                "`{peer}` is linked at {} but does not answer",
                pong.address.as_deref().unwrap_or("no address")
            )),
        }
    }

    async fn paths(&self, peer: &str) -> Result<PathsStatus, Failure> {
        let certificate = self.peer(peer).await?;
        // A link has to be there before anything can be said of it; the echo shows that it carries
        // something.
        let echoed = self.member.echo(certificate.clone()).await;
        let paths = self.member.paths(&certificate).await;
        let paths = paths.ok_or_else(|| Failure::Failed("this member is stopping".to_owned()))?;
        let why = |error: Unreachable| match &paths.other_version {
            Some(version) => format!("no link with `{peer}`: {version}"),
            None => error.to_string(),
        };
        Ok(PathsStatus {
            reason: echoed.err().map(why),
            ..paths
        })
    }

    async fn route(&self, target: &RouteTarget) -> Result<RouteFound, Failure> {
        let point = match target {
            RouteTarget::Text(text) => RingKey::point(text.as_bytes()),
            RouteTarget::Peer(peer) => {
                let certificate = self.find(peer).await?;
                let member = certificate.member();
                certificate
                    .ring_key()
                    .unwrap_or_else(|| RingKey::point(member.as_bytes()))
            }
        };
        let found = self.member.lookup(point).await;
        let found =
            found.map_err(|error| Failure::Failed(format!("the lookup failed: {error}")))?;
        let mut hops = Vec::new();
        for hop in &found.hops {
            hops.push(self.router_ref(hop).await);
        }
        Ok(RouteFound {
            target: point.to_string(),
            owner: self.router_ref(&found.owner).await,
            verified: found.verified,
            hops,
            elapsed_ms: found.elapsed.as_secs_f64() * 1e3,
        })
    }

    async fn put(
        &self,
        name: String,
        value: Vec<u8>,
        lifetime_s: u64,
    ) -> Result<RecordStored, Failure> {
        checked_name(&name)?;
        if value.len() > MAX_RECORD_VALUE {
            return Err(Failure::Usage(format!(
                "the value has {} bytes; a record may have {MAX_RECORD_VALUE}: send a file for more",
                value.len()
            )));
        }
        let most = MAX_RECORD_LIFETIME.as_secs();
        if !(1..=most).contains(&lifetime_s) {
            return Err(Failure::Usage(format!(
                "a record lasts for a second to {most} seconds (30 days)"
            )));
        }
        let lifetime = Duration::from_secs(lifetime_s);
        let put = self.member.put(name.clone().into(), value, lifetime).await;
        let put = put.map_err(|error| {
            Failure::Failed(format!(
                "`{name}` is kept here and will be put again, but is not in the ring yet: {error}"
            ))
        })?;
        if put.copies == 0 {
            return Err(Failure::Failed(format!(
                "`{name}` is kept here and will be put again, but none of the {} routers that ought to keep it has taken it",
                put.group
            )));
        }
        Ok(RecordStored {
            name,
            copies: put.copies,
            group: put.group,
            verified: put.verified,
        })
    }

    async fn get(&self, peer: &str, name: String) -> Result<RecordFound, Failure> {
        checked_name(&name)?;
        let certificate = self.find(peer).await?;
        let member = certificate.member();
        let point = Record::point(member.as_bytes(), name.as_bytes());
        let found = self.member.get(point).await;
        let found = found.map_err(|error| {
            Failure::Failed(format!("`{name}` could not be looked for: {error}"))
        })?;
        // One without a value says that there is none any more.
        let record = found.record.filter(|record| !record.value.is_empty());
        Ok(RecordFound {
            peer: certificate.name().to_string(),
            name,
            number: record.as_ref().map(|record| record.number),
            expires: record.as_ref().map(|record| record.expires),
            value: record.map(|record| record.value),
            answers: found.answers,
            group: found.group,
            verified: found.verified,
        })
    }

    async fn router_ref(&self, key: &RingKey) -> RouterRef {
        let certificate = self.directory.router(*key).await.ok();
        RouterRef {
            ring_key: key.to_string(),
            name: certificate.map(|certificate| certificate.name().to_string()),
        }
    }
}

pub(super) fn checked_name(name: &str) -> Result<(), Failure> {
    if (1..=MAX_RECORD_NAME).contains(&name.len()) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the name of a record has 1 to {MAX_RECORD_NAME} bytes, not {}",
        name.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::CONTROL;

    #[test]
    fn message_says_which_side_is_older() {
        let error = serde_json::from_str::<Request>("{}").unwrap_err();
        let line = |control: u32| {
            format!(r#"{{"command":"fly","control":{control},"ringway":"9.1.0"}}"#).into_bytes()
        };
        let newer = malformed(&line(CONTROL + 1), &error);
        assert!(
            newer.contains("what ringway 9.1.0 (control protocol"),
            "{newer}"
        );
        assert!(newer.contains("restart it"), "{newer}");
        for older in [line(CONTROL - 1), br#"{"command":"fly"}"#.to_vec()] {
            let older = malformed(&older, &error);
            assert!(
                older.starts_with(MALFORMED) && older.contains("use its `ringway`"),
                "{older}"
            );
        }
        let broken = Speaker {
            ringway: Some("\x1b[2J".repeat(99)),
            control: Some(9),
        };
        let shown = broken.to_string();
        assert!(!shown.contains('\x1b') && shown.len() < 100, "{shown}");
    }
}
