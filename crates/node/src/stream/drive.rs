//! The task of one stream: between the program at this end and the connections to the peer.

use std::collections::VecDeque;
use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use ringway_dtl::Priority;
use ringway_transport::quic::{QuicConnection, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};

use super::datagrams::Beside;
use super::local::Local;
use super::pool::Use;
use super::record::RecordReader;
use super::resumable::{Event, Outcome, Resumable, ToLocal, code};
use super::table::Entry;
use super::wire::Frame;
use crate::connection::frame::framed;
use crate::limits::{STREAM_PATIENCE, STREAM_PATIENCE_IDLE_PRIORITY, STREAM_READ, STREAM_RECORD};

/// Bytes of records that wait to be given to the connection.
const AHEAD: usize = 4 * STREAM_RECORD;

/// Pieces that are read, or written to the program, at once: more packets than QUIC takes at once.
const PIECES: usize = 32;

/// Room for less than this is not worth a read: a new buffer is made.
const LEAST_READ: usize = STREAM_READ / 4;

/// How often it is looked whether datagrams have come, while an answer is owed.
const LOOK: Duration = Duration::from_millis(175);

/// The shortest sleep: what is due while the connection takes nothing must not spin.
const LEAST_SLEEP: Duration = Duration::from_millis(5);

/// How long the last records may take to be acknowledged.
const LINGER: Duration = Duration::from_secs(5);

/// A connection that carries the stream.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) connection: QuicConnection,
    pub(super) sink: SendStream,
    pub(super) stream: RecvStream,
    /// Of connections that were made here.
    pub(super) used: Option<Use>,
    /// Of those that peers made: dropped once the stream no longer needs the connection.
    pub(super) held: Option<oneshot::Sender<()>>,
}

/// What others want of a stream's task.
#[derive(Debug)]
pub(super) enum Order {
    /// The peer comes over another connection, has received so much, and allows so much.
    Attach {
        attachment: Box<Attachment>,
        attempt: u64,
        received: u64,
        limit: u64,
    },
    Priority(Priority),
    /// It may not go on.
    End(String),
}

/// A connection that was made for the stream.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) attachment: Attachment,
    /// What the peer has received, and allows.
    pub(super) received: u64,
    pub(super) limit: u64,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum NotDialled {
    /// It may be tried again.
    Again(String),
    /// The peer knows the stream no more, or wants it no more.
    Refused(String),
    /// It has ended well.
    Finished,
}

pub(super) type Dialling = Pin<Box<dyn Future<Output = Result<Dialled, NotDialled>> + Send>>;

/// Makes the stream's next connection, by attempt, priority, and what was received and is allowed.
pub(super) type Dialler = Box<dyn Fn(Redial) -> Dialling + Send>;

/// Has all paths to the peer tried.
pub(super) type PathRace = Box<dyn Fn() + Send>;

/// What the next connection has to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redial {
    pub(super) attempt: u64,
    pub(super) priority: Priority,
    pub(super) received: u64,
    pub(super) limit: u64,
    /// The one before is dead, as it seems.
    pub(super) in_haste: bool,
}

/// Time limits of a service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) idle: Option<Duration>,
    pub(super) time: Option<Duration>,
}

/// The task's state.
pub(super) struct Driver {
    core: Resumable,
    entry: Entry,
    times: Times,
    priority: Priority,
    attachment: Option<Attachment>,
    /// Of a UDP service, and what was counted of it.
    beside: Option<Beside>,
    counted: (u64, u64),
    reader: RecordReader,
    /// Records that wait to be given to the connection.
    outgoing: VecDeque<Bytes>,
    /// What is being written to the program, and whether its end comes behind that.
    to_local: VecDeque<Bytes>,
    ends_local: bool,
    /// Where the next bytes of the program are read, which needs no memory of its own then.
    buffer: BytesMut,
    /// Where what the connection has is read.
    pieces: [Bytes; PIECES],
    local_ended: bool,
    dialler: Option<Dialler>,
    dialling: Option<Dialling>,
    /// What the connection that is being made tells the peer of what was received and is allowed.
    told: (u64, u64),
    race_paths: PathRace,
    attempt: u64,
    /// When an answer was last owed, and the connection's count of datagrams then.
    mark: (Option<Instant>, u64),
    /// When that count was last looked at.
    looked: Instant,
    began: Instant,
    last_failure: Option<String>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

fn patience(priority: Priority) -> Duration {
    if priority.get() > 0.0 {
        STREAM_PATIENCE
    } else {
        STREAM_PATIENCE_IDLE_PRIORITY
    }
}

impl Driver {
    /// `dialler` is of those that have opened the stream.
    pub(super) fn new(
        entry: Entry,
        priority: Priority,
        times: Times,
        dialler: Option<Dialler>,
        race_paths: PathRace,
    ) -> Driver {
        let now = Instant::now();
        entry.meters.set_priority(priority.get());
        Driver {
            core: Resumable::new(now, dialler.is_some(), patience(priority)),
            entry,
            times,
            priority,
            attachment: None,
            beside: None,
            counted: (0, 0),
            reader: RecordReader::default(),
            outgoing: VecDeque::new(),
            to_local: VecDeque::new(),
            ends_local: false,
            buffer: BytesMut::new(),
            pieces: [const { Bytes::new() }; PIECES],
            local_ended: false,
            dialler,
            dialling: None,
            told: (0, 0),
            race_paths,
            attempt: 0,
            mark: (None, 0),
            looked: now,
            began: now,
            last_failure: None,
        }
    }

    /// What the first frames to the peer say: what was received, and what it may send.
    pub(super) fn position(&self) -> (u64, u64) {
        self.core.position()
    }

    /// The stream goes over this connection from now on. `told` and `heard` as in
    /// [`Resumable::handle_attached`].
    pub(super) fn attach(&mut self, attachment: Attachment, told: (u64, u64), heard: (u64, u64)) {
        let now = Instant::now();
        if self.core.handle_attached(now, told, heard).is_err() {
            self.core
                .reset(code::BROKEN, "it acknowledges what was not sent");
        }
        self.outgoing.clear();
        self.reader = RecordReader::default();
        self.mark = (None, 0);
        let meters = &self.entry.meters;
        meters.attached.store(true, Ordering::Relaxed);
        let over_link = attachment.used.as_ref().is_some_and(|it| it.0.over_link);
        meters.over_link.store(over_link, Ordering::Relaxed);
        self.attachment = Some(attachment);
        self.carry_datagrams();
    }

    /// Those of a UDP service go over the connection in use, if there is one.
    fn carry_datagrams(&self) {
        if let Some(beside) = &self.beside {
            let attachment = self.attachment.as_ref();
            beside.set(attachment.and_then(|it| it.connection.datagrams(&it.sink, beside.taker())));
        }
    }

    fn detach(&mut self) {
        if self.attachment.take().is_some() {
            self.carry_datagrams();
            self.core.handle_detached(Instant::now());
            self.outgoing.clear();
            self.entry.meters.attached.store(false, Ordering::Relaxed);
        }
    }

    /// Runs to the stream's end.
    pub(super) async fn run(
        mut self,
        mut local: Local,
        mut orders: mpsc::Receiver<Order>,
    ) -> Outcome {
        self.beside = local.beside.take();
        self.carry_datagrams();
        let outcome = loop {
            if let Some(outcome) = self.advance() {
                break outcome;
            }
            self.step(&mut local, &mut orders).await;
        };
        self.count();
        match &outcome {
            Outcome::Finished => {}
            // The program must not take what came for the whole.
            Outcome::Reset { .. } | Outcome::Lost => local.abort(),
        }
        if let Some(attachment) = self.attachment.take() {
            tokio::spawn(linger(attachment, self.outgoing));
        }
        outcome
    }

    /// What needs no waiting. Gives the end, if it has come.
    fn advance(&mut self) -> Option<Outcome> {
        let now = Instant::now();
        self.watch(now);
        self.core.handle_timeout(now);
        self.limit_time(now);
        // What is handed over early cannot be overtaken by an answer or a reset.
        let mut ahead: usize = self.outgoing.iter().map(Bytes::len).sum();
        while (ahead < AHEAD || self.core.resets())
            && let Some(record) = self.core.poll_record(now)
        {
            let (header, body) = record.encode();
            ahead += header.len() + body.as_ref().map_or(0, Bytes::len);
            self.outgoing.push_back(header);
            self.outgoing.extend(body);
        }
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Suspect => {
                    if let Some(used) = self.attachment.as_ref().and_then(|a| a.used.as_ref()) {
                        used.0.set_suspect(true);
                    }
                    (self.race_paths)();
                    self.dial(true);
                }
                Event::Ended(outcome) => return Some(outcome),
            }
        }
        let retired = self.attachment.as_ref().and_then(|a| a.used.as_ref());
        if retired.is_some_and(|used| used.0.is_retired()) {
            self.dial(false);
        }
        if self.attachment.is_none() && !self.core.needs_no_peer() {
            self.dial(true);
        }
        while self.to_local.len() < PIECES && !self.ends_local {
            match self.core.poll_local() {
                Some(ToLocal::Data(bytes)) => self.to_local.push_back(bytes),
                Some(ToLocal::End) => self.ends_local = true,
                None => break,
            }
        }
        self.count();
        None
    }

    /// Lets others see what the stream has carried, and what went beside it.
    fn count(&self) {
        let (sent, received) = self.core.moved();
        let meters = &self.entry.meters;
        let add = |meter: &AtomicU64, on: u64, beside: u64| {
            meter.store(on.saturating_add(beside), Ordering::Relaxed);
        };
        add(&meters.sent, sent, self.counted.0);
        add(&meters.received, received, self.counted.1);
    }

    /// Datagrams have gone or come beside the stream.
    fn handle_beside(&mut self, now: Instant) {
        if let Some(beside) = &self.beside {
            let (sent, received) = beside.counts();
            let before = std::mem::replace(&mut self.counted, (sent, received));
            let (went, came) = (sent != before.0, received != before.1);
            self.core.handle_beside(now, went, came);
        }
    }

    /// Whether the connection is alive, where an answer is owed: any datagram shows it.
    fn watch(&mut self, now: Instant) {
        let Some(attachment) = self.attachment.as_ref().filter(|a| a.used.is_some()) else {
            return;
        };
        let owed = self.core.owed();
        let Some(since) = owed else {
            self.mark = (None, 0);
            return;
        };
        if self.mark.0.is_none() {
            self.mark = (owed, attachment.connection.report().received);
            self.looked = now;
        // A report costs a lock: not at each step.
        } else if now >= since.max(self.looked) + LOOK {
            self.looked = now;
            let received = attachment.connection.report().received;
            if received != self.mark.1 {
                self.core.handle_heard(now);
                self.mark = (self.core.owed(), received);
                if let Some(used) = &attachment.used {
                    used.0.set_suspect(false);
                }
            }
        }
    }

    fn limit_time(&mut self, now: Instant) {
        let is_over = |since: Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
        };
        if is_over(self.began, self.times.time) {
            self.core
                .reset(code::TIME, "the service's time limit is over");
        } else if is_over(self.core.used(), self.times.idle) {
            self.core.reset(
                code::TIME,
                "nothing came or went within the service's limit",
            );
        }
    }

    fn dial(&mut self, in_haste: bool) {
        let Some(dialler) = self.dialler.as_ref().filter(|_| self.dialling.is_none()) else {
            return;
        };
        self.attempt += 1;
        self.told = self.core.position();
        let (received, limit) = self.told;
        self.dialling = Some(dialler(Redial {
            attempt: self.attempt,
            priority: self.priority,
            received,
            limit,
            in_haste,
        }));
    }

    /// Until something happens.
    async fn step(&mut self, local: &mut Local, orders: &mut mpsc::Receiver<Order>) {
        let room = self.core.room().min(STREAM_READ);
        let reads_local = room > 0 && !self.local_ended;
        let due = self.due();
        let writes_local = self.ends_local || !self.to_local.is_empty();
        let (sink, stream) = match &mut self.attachment {
            Some(it) => (Some(&mut it.sink), Some(&mut it.stream)),
            None => (None, None),
        };
        let happened = tokio::select! {
            order = orders.recv() => Happened::Order(order),
            dialled = dial(self.dialling.as_mut()), if self.dialling.is_some() => {
                Happened::Dialled(dialled)
            }
            read = read_pieces(stream, &mut self.pieces) => Happened::Read(read),
            written = write_pieces(sink, &mut self.outgoing), if !self.outgoing.is_empty() => {
                Happened::Sent(written)
            }
            read = read_local(&mut local.reader, &mut self.buffer, room), if reads_local => {
                Happened::LocalRead(read)
            }
            written = write_local(&mut local.writer, &self.to_local), if writes_local => {
                Happened::LocalWritten(written)
            }
            () = moved(self.beside.as_ref()) => Happened::Beside,
            () = sleep_until(due.into()) => Happened::Nothing,
        };
        self.handle(happened);
    }

    fn due(&self) -> Instant {
        let now = Instant::now();
        let mut due = now + Duration::from_secs(5);
        let limit = |since: Instant, limit: Option<Duration>| limit.map(|limit| since + limit);
        let candidates = [
            self.core.poll_timeout(now),
            limit(self.began, self.times.time),
            limit(self.core.used(), self.times.idle),
            self.core.owed().map(|owed| owed.max(self.looked) + LOOK),
        ];
        for at in candidates.into_iter().flatten() {
            due = due.min(at);
        }
        // Never in the past for long: a due time that nothing changes must not spin.
        due.max(now + LEAST_SLEEP)
    }

    fn handle(&mut self, happened: Happened) {
        let now = Instant::now();
        match happened {
            Happened::Order(order) => self.obey(order),
            Happened::Dialled(outcome) => self.take_dialled(outcome),
            Happened::Read(Some(count)) => self.read(now, count),
            // The peer has closed it, or it is dead.
            Happened::Read(None) | Happened::Sent(false) => self.detach(),
            Happened::Beside => self.handle_beside(now),
            Happened::Sent(true) | Happened::Nothing => {}
            Happened::LocalRead(Ok(0)) => {
                self.local_ended = true;
                self.core.handle_local_end();
            }
            Happened::LocalRead(Ok(_)) => {
                let bytes = self.buffer.split().freeze();
                self.core.handle_local(now, bytes);
            }
            Happened::LocalRead(Err(error)) => {
                self.local_ended = true;
                self.core.reset(code::LOCAL, closed_by(&error));
            }
            Happened::LocalWritten(Ok(bytes)) => self.written(now, bytes),
            Happened::LocalWritten(Err(error)) => {
                self.to_local.clear();
                self.ends_local = false;
                self.core.reset(code::LOCAL, closed_by(&error));
            }
        }
    }

    /// The program has taken so many bytes, or its end if there were none.
    fn written(&mut self, now: Instant, bytes: usize) {
        if self.to_local.is_empty() {
            self.ends_local = false;
            self.core.handle_end_written();
            return;
        }
        self.core.handle_written(now, bytes);
        take_off(&mut self.to_local, bytes);
    }

    /// So many pieces have come.
    fn read(&mut self, now: Instant, count: usize) {
        // A long record takes its time on a slow path.
        self.core.handle_heard(now);
        for at in 0..count.min(PIECES) {
            let piece = self.pieces.get_mut(at).map(std::mem::take);
            self.reader.push(piece.unwrap_or_default());
            if !self.read_records(now) {
                // The stream is over, and what is left means nothing.
                self.reader = RecordReader::default();
                return;
            }
        }
    }

    /// Those of the last piece; false if the peer breaks the protocol.
    fn read_records(&mut self, now: Instant) -> bool {
        loop {
            match self.reader.next() {
                Ok(Some(record)) => {
                    if let Err(broken) = self.core.handle_record(now, record) {
                        let peer = &self.entry.peer_name;
                        tracing::warn!(peer, %broken, "a peer breaks the protocol of streams");
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(malformed) => {
                    self.core.reset(code::BROKEN, malformed.to_string());
                    return false;
                }
            }
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Attach {
                attachment,
                attempt,
                received,
                limit,
            }) => self.accept(*attachment, attempt, received, limit),
            Some(Order::Priority(priority)) => {
                self.priority = priority;
                self.core.set_patience(patience(priority));
                self.entry.meters.set_priority(priority.get());
                if self.dialler.is_some() {
                    self.dialling = None;
                    self.dial(false);
                } else if let Some(attachment) = &self.attachment {
                    attachment.connection.set_priority(priority);
                }
            }
            Some(Order::End(reason)) => self.core.reset(code::WITHDRAWN, reason),
            None => self.core.reset(code::WITHDRAWN, "the daemon stops"),
        }
    }

    /// The peer comes over another connection.
    fn accept(&mut self, attachment: Attachment, attempt: u64, received: u64, limit: u64) {
        if attempt <= self.attempt {
            return;
        }
        self.attempt = attempt;
        self.detach();
        let position = self.core.position();
        let answer = Frame::Accepted {
            priority: self.priority.get(),
            received: position.0,
            limit: position.1,
            datagrams: None,
        };
        self.entry.meters.resumed.fetch_add(1, Ordering::Relaxed);
        self.attach(attachment, position, (received, limit));
        self.answer(&answer);
    }

    /// Sends a frame before any record.
    pub(super) fn answer(&mut self, frame: &Frame) {
        self.outgoing.push_front(framed(frame).into());
    }

    fn take_dialled(&mut self, outcome: Result<Dialled, NotDialled>) {
        self.dialling = None;
        match outcome {
            Ok(dialled) => {
                // What the old connection still carries is sent again over the new one.
                self.detach();
                self.entry.meters.resumed.fetch_add(1, Ordering::Relaxed);
                self.last_failure = None;
                let heard = (dialled.received, dialled.limit);
                self.attach(dialled.attachment, self.told, heard);
            }
            Err(NotDialled::Refused(reason)) => {
                self.core.reset(code::WITHDRAWN, reason);
                self.detach();
            }
            Err(NotDialled::Finished) => self.core.handle_finished(),
            Err(NotDialled::Again(reason)) => {
                if self.last_failure.as_ref() != Some(&reason) {
                    let peer = &self.entry.peer_name;
                    tracing::debug!(peer, reason, "a stream looks for another connection");
                    self.last_failure = Some(reason);
                }
            }
        }
    }
}

/// What a step has waited for.
enum Happened {
    Order(Option<Order>),
    Dialled(Result<Dialled, NotDialled>),
    /// So many pieces.
    Read(Option<usize>),
    Sent(bool),
    LocalRead(std::io::Result<usize>),
    LocalWritten(std::io::Result<usize>),
    Beside,
    Nothing,
}

fn closed_by(error: &std::io::Error) -> String {
    format!("the program at the other end has closed it: {error}")
}

/// Waits for ever without one.
async fn dial(dialling: Option<&mut Dialling>) -> Result<Dialled, NotDialled> {
    match dialling {
        Some(dialling) => dialling.await,
        None => std::future::pending().await,
    }
}

/// Until datagrams have gone or come beside the stream. Waits for ever where there are none.
async fn moved(beside: Option<&Beside>) {
    match beside {
        Some(beside) => beside.moved().await,
        None => std::future::pending().await,
    }
}

/// How many pieces have come; none if the stream is over. Waits for ever without one.
async fn read_pieces(stream: Option<&mut RecvStream>, pieces: &mut [Bytes]) -> Option<usize> {
    match stream {
        Some(stream) => stream.read_many_chunks(pieces).await.ok().flatten(),
        None => std::future::pending().await,
    }
}

/// Gives the connection what it takes; false if it is dead. Waits for ever without one.
async fn write_pieces(sink: Option<&mut SendStream>, pieces: &mut VecDeque<Bytes>) -> bool {
    let Some(sink) = sink else {
        return std::future::pending().await;
    };
    let before = pieces.len();
    let mut left = pieces.make_contiguous();
    let written = sink.write_many_chunks(&mut left).await;
    let done = before.saturating_sub(left.len());
    pieces.drain(..done);
    written.is_ok()
}

/// What the program has said, at most `room` bytes. No memory is asked for while some of the last
/// is left.
async fn read_local(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    room: usize,
) -> std::io::Result<usize> {
    if buffer.capacity() < LEAST_READ {
        buffer.reserve(STREAM_READ);
    }
    reader.take(room as u64).read_buf(buffer).await
}

/// Writes what the program takes of these at once; without any, its end.
async fn write_local(
    writer: &mut (impl AsyncWrite + Unpin),
    pieces: &VecDeque<Bytes>,
) -> std::io::Result<usize> {
    if pieces.is_empty() {
        return writer.shutdown().await.map(|()| 0);
    }
    let mut slices = [IoSlice::new(&[]); PIECES];
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        *slice = IoSlice::new(piece);
    }
    let count = pieces.len().min(PIECES);
    writer
        .write_vectored(slices.get(..count).unwrap_or_default())
        .await
}

/// So many bytes of these are gone.
fn take_off(pieces: &mut VecDeque<Bytes>, bytes: usize) {
    let mut left = bytes;
    while let Some(first) = pieces.front_mut() {
        let taken = left.min(first.len());
        left -= taken;
        first.advance(taken);
        if !first.is_empty() {
            break;
        }
        pieces.pop_front();
    }
}

/// Until the peer has the last records.
async fn linger(mut attachment: Attachment, outgoing: VecDeque<Bytes>) {
    let mut last: Vec<Bytes> = outgoing.into();
    let ending = async {
        attachment.sink.write_all_chunks(&mut last).await.ok()?;
        attachment.sink.finish().ok()?;
        attachment.sink.stopped().await.ok()
    };
    timeout(LINGER, ending).await.ok();
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A program that takes nine bytes at once gets all, whatever pieces they stand in.
    #[tokio::test]
    async fn pieces_are_written_whole_by_parts() {
        let (mut near, mut far) = tokio::io::duplex(9);
        let lengths = [3, 1, 20, 4, 9, 9, 40, 2];
        let content: Vec<u8> = (0..=u8::MAX).take(lengths.iter().sum()).collect();
        let mut rest = Bytes::from(content.clone());
        let pieces = lengths.iter().map(|length| rest.split_to(*length));
        let mut pieces: VecDeque<Bytes> = pieces.collect();
        let writing = async {
            while !pieces.is_empty() {
                let bytes = write_local(&mut near, &pieces).await.unwrap();
                take_off(&mut pieces, bytes);
            }
            write_local(&mut near, &pieces).await.unwrap();
        };
        let mut came = Vec::new();
        let (_, read) = tokio::join!(writing, far.read_to_end(&mut came));
        read.unwrap();
        assert_eq!(came, content);
    }

    /// Small reads share a buffer, of which none is asked for twice.
    #[tokio::test]
    async fn small_reads_share_one_buffer() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut buffer = BytesMut::new();
        let mut kept = Vec::new();
        for key in b'a'..b'k' {
            far.write_all(&[key]).await.unwrap();
            let read = read_local(&mut near, &mut buffer, STREAM_READ).await;
            assert_eq!(read.unwrap(), 1);
            kept.push(buffer.split().freeze());
        }
        assert_eq!(kept.concat(), b"abcdefghij");
        let first = kept[0].as_ptr().addr();
        let last = kept[9].as_ptr().addr();
        assert_eq!(last - first, 9, "each stands behind the one before");
    }
}
