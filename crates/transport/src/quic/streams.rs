//! Streams of one connection that share what it may send in the proportion of their priorities.
//!
//! One task for each connection writes for all of them, so that it decides whose piece is next:
//! start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). What stands in QUIC's send buffer
//! can no longer be reordered; it is kept small.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use noq::{SendStream, StoppedError, VarInt, WriteError};
use ringway_dtl::Priority;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::controller::Control;
use crate::limits::{
    QUIC_SEND_WINDOW, STREAM_AHEAD_LEAST, STREAM_CREDIT_PIECES, STREAM_PIECE, STREAM_WEIGHT_LEAST,
};

type Answer = oneshot::Sender<Result<(), WriteError>>;

/// Tells when a chunk is written, or why it is not.
pub(crate) type Written = oneshot::Receiver<Result<(), WriteError>>;

/// The sending side of a stream that has a priority among the streams of its connection. Dropping
/// it finishes it.
///
/// Getter: [`priority`](Self::priority). Commands: [`write_chunk`](Self::write_chunk),
/// [`set_priority`](Self::set_priority), [`finish`](Self::finish), [`reset`](Self::reset).
#[derive(Debug)]
pub struct PriorityStream {
    id: u64,
    scheduler: Arc<StreamScheduler>,
}

impl PriorityStream {
    /// Writes all of `chunk`; nothing, if that is empty. It waits for the stream's turn, and for
    /// the peer to read. If the wait is given up, the rest of the chunk is written
    /// nevertheless.
    ///
    /// # Errors
    /// [`WriteError`] when the peer has stopped the stream, the stream is finished, or the
    /// connection has ended.
    pub async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        // The task that writes takes only what has something, and would never answer.
        if chunk.is_empty() {
            return Ok(());
        }
        loop {
            let (is_taken, done) = self.offer(&chunk)?;
            done.await.unwrap_or(Err(WriteError::ClosedStream))?;
            if is_taken {
                return Ok(());
            }
        }
    }

    /// Gives a chunk that has something to the task that writes. Whether it was taken: otherwise
    /// the rest of one whose writer has given up goes first, and this tells when that is written.
    pub(crate) fn offer(&self, chunk: &Bytes) -> Result<(bool, Written), WriteError> {
        let (answer, written) = oneshot::channel();
        let mut streams = self.scheduler.lock();
        let entry = streams.entries.get_mut(&self.id);
        let entry = entry.filter(|entry| !entry.finishes);
        let entry = entry.ok_or(WriteError::ClosedStream)?;
        entry.written = Some(answer);
        let is_taken = entry.chunk.is_empty();
        if is_taken {
            entry.chunk = chunk.clone();
        }
        streams.wake();
        Ok((is_taken, written))
    }

    /// Ends once the peer has acknowledged everything of a stream that is finished (`None`), or has
    /// stopped it. `None` at once if this side has reset it.
    pub(crate) fn delivered(
        &self,
    ) -> Option<impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + use<>> {
        let streams = self.scheduler.lock();
        let entry = streams.entries.get(&self.id);
        entry.map(|entry| entry.sink.stopped())
    }

    /// Changes the priority from elsewhere, while this is being written to.
    #[must_use]
    pub fn handle(&self) -> PriorityHandle {
        PriorityHandle {
            id: self.id,
            scheduler: Arc::downgrade(&self.scheduler),
        }
    }

    /// The stream's priority among those of its connection.
    #[must_use]
    pub fn priority(&self) -> Priority {
        let streams = self.scheduler.lock();
        let entry = streams.entries.get(&self.id);
        entry.map_or(Priority::NORMAL, |entry| entry.priority)
    }

    /// Changes the stream's priority among those of its connection, from the next piece on: N gets
    /// N times what 1 gets, 0 what the others leave. What the connection as a whole is worth is
    /// the connection's own priority, and stays as it is.
    pub fn set_priority(&self, priority: Priority) {
        self.scheduler.lock().set_priority(self.id, priority);
    }

    /// Says that nothing more comes, once the rest of a chunk whose writer has given up is written.
    /// `false` if the stream has ended already.
    pub fn finish(&mut self) -> bool {
        let mut streams = self.scheduler.lock();
        let entry = streams.entries.get_mut(&self.id);
        let Some(entry) = entry.filter(|entry| !entry.finishes) else {
            return false;
        };
        entry.finishes = true;
        !entry.chunk.is_empty() || entry.sink.finish().is_ok()
    }

    /// Ends the stream at once; what is not yet acknowledged is lost. `false` if it has ended
    /// already.
    pub fn reset(&mut self, code: u32) -> bool {
        let entry = self.scheduler.lock().entries.remove(&self.id);
        entry.is_some_and(|mut entry| entry.sink.reset(VarInt::from_u32(code)).is_ok())
    }
}

impl Drop for PriorityStream {
    fn drop(&mut self) {
        let mut streams = self.scheduler.lock();
        if let Some(entry) = streams.entries.get_mut(&self.id) {
            entry.closes = true;
        }
        streams.let_go(self.id);
    }
}

/// Sets the priority of a [`PriorityStream`] that somebody else writes to. It does not keep the
/// stream; once that has ended, it does nothing.
#[derive(Debug, Clone)]
pub struct PriorityHandle {
    id: u64,
    scheduler: Weak<StreamScheduler>,
}

impl PriorityHandle {
    /// As [`PriorityStream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        if let Some(scheduler) = self.scheduler.upgrade() {
            scheduler.lock().set_priority(self.id, priority);
        }
    }
}

/// What writes for the streams of a connection. Dropping it ends them.
#[derive(Debug)]
pub(super) struct StreamScheduler {
    streams: Arc<Mutex<Streams>>,
    task: AbortHandle,
}

impl Drop for StreamScheduler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl StreamScheduler {
    /// Starts the task that writes.
    pub(super) fn start(control: Arc<Control>) -> StreamScheduler {
        let streams = Arc::new(Mutex::new(Streams {
            entries: BTreeMap::new(),
            present: 0.0,
            window: QUIC_SEND_WINDOW,
            control,
            waker: None,
        }));
        let of_task = Arc::clone(&streams);
        let writing = poll_fn(move |cx| lock(&of_task).poll(cx));
        let task = tokio::spawn(writing).abort_handle();
        StreamScheduler { streams, task }
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }

    /// A stream that the task writes from now on.
    pub(super) fn stream(
        self: &Arc<Self>,
        connection: &noq::Connection,
        sink: SendStream,
        priority: Priority,
    ) -> PriorityStream {
        let id = VarInt::from(sink.id()).into_inner();
        let mut streams = self.lock();
        let entry = Entry {
            sink,
            connection: connection.clone(),
            priority,
            chunk: Bytes::new(),
            written: None,
            tag: streams.present,
            is_blocked: false,
            finishes: false,
            closes: false,
        };
        streams.entries.insert(id, entry);
        drop(streams);
        let scheduler = Arc::clone(self);
        PriorityStream { id, scheduler }
    }
}

fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    // A panic elsewhere leaves at worst a stream out of turn.
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One stream.
#[derive(Debug)]
struct Entry {
    sink: SendStream,
    connection: noq::Connection,
    priority: Priority,
    /// What is to be written, and who waits for that.
    chunk: Bytes,
    written: Option<Answer>,
    /// Bytes written ÷ weight: where the next piece begins in virtual time.
    tag: f64,
    /// Whether QUIC has just taken nothing of it.
    is_blocked: bool,
    /// Nothing comes after `chunk`.
    finishes: bool,
    /// Dropped by its user.
    closes: bool,
}

impl Entry {
    fn weight(&self) -> f64 {
        if self.priority.is_scavenger() {
            1.0
        } else {
            self.priority.get().max(STREAM_WEIGHT_LEAST)
        }
    }

    fn answer(&mut self, result: Result<(), WriteError>) {
        if let Some(written) = self.written.take() {
            // The writer may have stopped waiting for it.
            written.send(result).unwrap_or_default();
        }
    }
}

/// All streams of a connection that have priorities; as many as the peer allows at once
/// ([`QUIC_STREAMS`](crate::limits::QUIC_STREAMS)).
#[derive(Debug)]
struct Streams {
    entries: BTreeMap<u64, Entry>,
    /// The virtual time: where the piece that was written last began.
    present: f64,
    /// Bytes that QUIC may hold unacknowledged.
    window: u64,
    control: Arc<Control>,
    waker: Option<Waker>,
}

impl Streams {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn set_priority(&mut self, id: u64, priority: Priority) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.priority = priority;
            // What it had ahead of its turn was reckoned by the old weight.
            entry.tag = self.present;
        }
    }

    /// Writes as much as QUIC takes. Never ready: the task ends when there is no handle.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker = Some(cx.waker().clone());
        self.unblock();
        while let Some(id) = self.next() {
            self.bound_what_is_ahead(id);
            self.write_piece(cx, id);
            self.let_go(id);
        }
        Poll::Pending
    }

    fn unblock(&mut self) {
        for entry in self.entries.values_mut() {
            entry.is_blocked = false;
        }
    }

    /// Whose turn it is: any positive priority goes before 0. `None` if QUIC takes nothing from
    /// those that have something.
    fn next(&self) -> Option<u64> {
        let ready = |entry: &&Entry| !entry.chunk.is_empty() && !entry.is_blocked;
        let ready = self.entries.iter().filter(|(_, entry)| ready(entry));
        let first = ready.min_by(|(_, one), (_, other)| {
            let late = |entry: &Entry| entry.priority.is_scavenger();
            let by_class = late(one).cmp(&late(other));
            by_class.then(one.tag.total_cmp(&other.tag))
        });
        first.map(|(id, _)| *id)
    }

    fn write_piece(&mut self, cx: &mut Context<'_>, id: u64) {
        let present = self.present;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let piece = entry
            .chunk
            .slice(..entry.chunk.len().min(usize::from(STREAM_PIECE)));
        match Pin::new(&mut entry.sink).poll_write(cx, &piece) {
            Poll::Pending => entry.is_blocked = true,
            Poll::Ready(Err(error)) => {
                entry.chunk.clear();
                entry.answer(Err(error));
            }
            Poll::Ready(Ok(bytes)) => {
                entry.chunk.advance(bytes.min(entry.chunk.len()));
                let weight = entry.weight();
                // A stream that had nothing to write, or whose reader has let it wait, has no claim
                // to what others have had meanwhile.
                let credit = f64::from(STREAM_CREDIT_PIECES) * f64::from(STREAM_PIECE) / weight;
                let begins = entry.tag.max(present - credit);
                // No more than a piece.
                let written = u16::try_from(bytes).unwrap_or(STREAM_PIECE);
                entry.tag = begins + f64::from(written) / weight;
                if entry.chunk.is_empty() {
                    entry.answer(Ok(()));
                    if entry.finishes {
                        // A stream that has ended meanwhile needs no end.
                        entry.sink.finish().unwrap_or_default();
                    }
                }
                self.present = present.max(begins);
                // There was room: those before it in turn may have some now.
                self.unblock();
            }
        }
    }

    /// Forgets a stream that was dropped and has nothing more to write; that finishes it.
    fn let_go(&mut self, id: u64) {
        let ended = |entry: &Entry| entry.closes && entry.chunk.is_empty();
        if self.entries.get(&id).is_some_and(ended) {
            self.entries.remove(&id);
        }
    }

    /// Lets QUIC hold twice what may be in flight: a round trip's worth waits, so that a change of
    /// priority shows after one.
    fn bound_what_is_ahead(&mut self, id: u64) {
        let (Some(report), Some(entry)) = (self.control.report(), self.entries.get(&id)) else {
            return;
        };
        let wanted = report.window.saturating_mul(2);
        let wanted = wanted.clamp(STREAM_AHEAD_LEAST, QUIC_SEND_WINDOW);
        // Each change wakes the connection.
        if wanted.abs_diff(self.window) > self.window / 8 {
            self.window = wanted;
            entry.connection.set_send_window(wanted);
        }
    }
}
