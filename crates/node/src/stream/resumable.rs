//! One end of a stream that outlives its connections. Sans-IO.
//!
//! Both ends keep what the other has not acknowledged. When a connection dies, the opener makes
//! another; each end says up to where it has received, and the other goes on there. No byte is
//! lost or comes twice, whatever a connection has lost.
//!
//! Run loop: after any `handle_*` drain [`Resumable::poll_record`] (while attached),
//! [`Resumable::poll_local`] and [`Resumable::poll_event`], then sleep until
//! [`Resumable::poll_timeout`] and call [`Resumable::handle_timeout`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::record::Record;
use crate::limits::{
    STREAM_ACK_BYTES, STREAM_ACK_DELAY, STREAM_BUFFER, STREAM_PING, STREAM_PING_UNUSED,
    STREAM_RECORD, STREAM_USED, STREAM_WAIT,
};

/// Codes of resets.
pub(crate) mod code {
    /// The program at the other end has closed its connection, or it broke.
    pub(crate) const LOCAL: u8 = 1;
    /// The peer has broken the protocol.
    pub(crate) const BROKEN: u8 = 2;
    /// A time limit of the service.
    pub(crate) const TIME: u8 = 3;
    /// The member may not use the service any more, or the daemon stops.
    pub(crate) const WITHDRAWN: u8 = 4;
}

/// The peer has broken the protocol: the stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// It acknowledges what was never sent, or less than before.
    #[error("it acknowledges what was not sent")]
    Ack,
    /// It leaves bytes out.
    #[error("it leaves bytes out")]
    Gap,
    /// It sends more than it may.
    #[error("it sends more than it may")]
    Overrun,
    /// It sends behind the end, or moves the end.
    #[error("it sends behind the end")]
    End,
}

/// How a stream has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Both ends have sent and received all.
    Finished,
    /// One end has ended it before.
    Reset {
        /// One of [`code`].
        code: u8,
        /// In words.
        reason: String,
        /// The other end has.
        by_peer: bool,
    },
    /// For [`STREAM_WAIT`] there was no connection that worked.
    Lost,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing comes over this connection: race another, and all paths to the peer. Those that
    /// have not opened the stream can only do the latter.
    Suspect,
    /// It is over. Nothing more comes.
    Ended(Outcome),
}

/// What is for the local program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToLocal {
    /// Content: say by [`Resumable::handle_written`] when it was written.
    Data(Bytes),
    /// Nothing more comes.
    End,
}

/// What this end sends.
#[derive(Debug, Default)]
struct Outgoing {
    /// From `acked` to `written`.
    unacked: VecDeque<Bytes>,
    acked: u64,
    /// Up to here it was sent over this connection.
    sent: u64,
    /// Up to here it was sent over any.
    sent_ever: u64,
    written: u64,
    limit: u64,
    ends: bool,
    end_sent: bool,
    end_sent_ever: bool,
    end_acked: bool,
}

impl Outgoing {
    /// Takes an acknowledgement, which may also be that of a new connection.
    fn acknowledge(&mut self, received: u64) -> Result<(), Broken> {
        let with_end = self.end_sent_ever && received == self.written.saturating_add(1);
        let bytes = if with_end { self.written } else { received };
        // One that was overtaken by that of a new connection is old, and says nothing new.
        if bytes > self.sent_ever {
            return Err(Broken::Ack);
        }
        self.end_acked |= with_end;
        while self.acked < bytes {
            let Some(first) = self.unacked.front_mut() else {
                break;
            };
            let over = usize::try_from(bytes.saturating_sub(self.acked)).unwrap_or(usize::MAX);
            let length = first.len().min(over);
            drop(first.split_to(length));
            if first.is_empty() {
                self.unacked.pop_front();
            }
            self.acked = self.acked.saturating_add(to_u64(length));
        }
        Ok(())
    }

    /// The peer has not acknowledged all that was sent.
    fn is_owed(&self) -> bool {
        self.sent > self.acked || self.end_sent && !self.end_acked
    }

    /// The bytes from `sent` on, as far as they stand together.
    fn next_piece(&self) -> Option<Bytes> {
        let most = self.limit.min(self.written).saturating_sub(self.sent);
        let most = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(STREAM_RECORD);
        let mut at = self.acked;
        for chunk in self.unacked.iter().filter(|_| most > 0) {
            let end = at.saturating_add(to_u64(chunk.len()));
            if end > self.sent {
                let start = usize::try_from(self.sent.saturating_sub(at)).unwrap_or(usize::MAX);
                let stop = start.saturating_add(most).min(chunk.len());
                return Some(chunk.slice(start.min(stop)..stop));
            }
            at = end;
        }
        None
    }
}

/// What this end receives.
#[derive(Debug, Default)]
struct Incoming {
    inbox: VecDeque<Bytes>,
    /// Up to here it has come, without a gap.
    received: u64,
    /// Up to here the local program has taken it.
    taken: u64,
    end: Option<u64>,
    end_given: bool,
    end_taken: bool,
}

impl Incoming {
    fn limit(&self) -> u64 {
        self.taken.saturating_add(to_u64(STREAM_BUFFER))
    }

    fn ended(&self) -> bool {
        self.end == Some(self.received)
    }

    /// What acknowledgements say.
    fn acknowledged(&self) -> u64 {
        self.received.saturating_add(u64::from(self.ended()))
    }

    fn take(&mut self, offset: u64, mut bytes: Bytes) -> Result<(), Broken> {
        if offset > self.received {
            return Err(Broken::Gap);
        }
        let end = offset.saturating_add(to_u64(bytes.len()));
        if end > self.limit() {
            return Err(Broken::Overrun);
        }
        if self.end.is_some_and(|last| end > last) {
            return Err(Broken::End);
        }
        let known = usize::try_from(self.received.saturating_sub(offset)).unwrap_or(usize::MAX);
        if known < bytes.len() {
            let fresh = bytes.split_off(known);
            self.received = end;
            self.inbox.push_back(fresh);
        }
        Ok(())
    }
}

/// The watch over a connection.
#[derive(Debug)]
struct Watch {
    /// When something last came over the connection.
    heard: Instant,
    /// Since when an answer is owed, of whatever kind.
    owed: Option<Instant>,
    pinged: bool,
    suspected: Option<Instant>,
    patience: Duration,
}

/// One end of a stream.
#[derive(Debug)]
pub(crate) struct Resumable {
    opener: bool,
    out: Outgoing,
    inc: Incoming,
    attached: bool,
    /// What was last acknowledged over this connection, and the limit given.
    told: (u64, u64),
    /// When the acknowledgement that waits has to leave.
    ack_at: Option<Instant>,
    pong: bool,
    ping: bool,
    reset: Option<(u8, String)>,
    watch: Watch,
    /// Since when there has been no connection that works.
    without: Option<Instant>,
    /// When content last came or went.
    used: Instant,
    suspects: bool,
    outcome: Option<Outcome>,
    /// The other end has said that it has finished.
    peer_finished: bool,
    ended: bool,
}

impl Resumable {
    /// A stream without a connection. `patience` is how long a peer that owes an answer may be
    /// silent.
    pub(crate) fn new(now: Instant, opener: bool, patience: Duration) -> Resumable {
        Resumable {
            opener,
            out: Outgoing::default(),
            inc: Incoming::default(),
            attached: false,
            told: (0, 0),
            ack_at: None,
            pong: false,
            ping: false,
            reset: None,
            watch: Watch {
                heard: now,
                owed: None,
                pinged: false,
                suspected: None,
                patience,
            },
            without: Some(now),
            used: now,
            suspects: false,
            outcome: None,
            peer_finished: false,
            ended: false,
        }
    }

    /// Getter: bytes sent by the local program, and received for it.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.out.written, self.inc.received)
    }

    /// Getter: what this end has received, and the limit it gives, for a new connection.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.inc.acknowledged(), self.inc.limit())
    }

    /// Getter: when content last came or went.
    pub(crate) fn used(&self) -> Instant {
        self.used
    }

    /// Getter: since when an answer is owed, of whatever kind.
    pub(crate) fn owed(&self) -> Option<Instant> {
        self.watch.owed
    }

    /// Getter: how many bytes may be read from the local program now.
    pub(crate) fn room(&self) -> usize {
        if self.out.ends || self.outcome.is_some() {
            return 0;
        }
        let kept = self.out.written.saturating_sub(self.out.acked);
        STREAM_BUFFER.saturating_sub(usize::try_from(kept).unwrap_or(usize::MAX))
    }

    /// Command: how long silence may last from now on.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.watch.patience = patience;
    }

    /// The local program has sent these, at most [`room`](Self::room).
    pub(crate) fn handle_local(&mut self, now: Instant, bytes: Bytes) {
        if bytes.is_empty() || self.out.ends {
            return;
        }
        self.used = now;
        self.out.written = self.out.written.saturating_add(to_u64(bytes.len()));
        self.out.unacked.push_back(bytes);
    }

    /// The local program sends nothing more.
    pub(crate) fn handle_local_end(&mut self) {
        self.out.ends = true;
    }

    /// The local program has taken so many bytes of what [`poll_local`](Self::poll_local) gave.
    pub(crate) fn handle_written(&mut self, now: Instant, bytes: usize) {
        self.used = now;
        let taken = self.inc.taken.saturating_add(to_u64(bytes));
        self.inc.taken = taken.min(self.inc.received);
        if self.inc.limit().saturating_sub(self.told.1) >= STREAM_ACK_BYTES {
            self.ack_at = Some(now);
        }
    }

    /// The local program knows that nothing more comes.
    pub(crate) fn handle_end_written(&mut self) {
        self.inc.end_taken = true;
        self.look_for_end();
    }

    /// Command: end the stream at once. The peer is told, if there is a connection.
    pub(crate) fn reset(&mut self, code: u8, reason: impl Into<String>) {
        if self.outcome.is_none() {
            let reason = reason.into();
            self.reset = Some((code, reason.clone()));
            let by_peer = false;
            self.outcome = Some(Outcome::Reset {
                code,
                reason,
                by_peer,
            });
        }
    }

    /// Another connection carries the stream from now on. `told` is what the peer was told with it
    /// of what this end has received and allows; `heard` is what the peer has said. Both may be
    /// old: the connection before may have gone on while this one was made.
    ///
    /// # Errors
    /// When the peer cannot have received that.
    pub(crate) fn handle_attached(
        &mut self,
        now: Instant,
        told: (u64, u64),
        heard: (u64, u64),
    ) -> Result<(), Broken> {
        let (received, limit) = heard;
        self.out.acknowledge(received)?;
        self.out.sent = self.out.acked;
        self.out.end_sent = self.out.end_acked;
        self.out.limit = self.out.limit.max(limit);
        self.told = told;
        self.attached = true;
        (self.ack_at, self.pong, self.ping) = (None, false, false);
        if self.told != self.position() {
            self.ack_at = Some(now);
        }
        self.handle_heard(now);
        self.look_for_end();
        Ok(())
    }

    /// The connection is gone.
    pub(crate) fn handle_detached(&mut self, now: Instant) {
        self.attached = false;
        self.watch.owed = None;
        self.without.get_or_insert(now);
    }

    /// Something has come over the connection in use: it is alive.
    pub(crate) fn handle_heard(&mut self, now: Instant) {
        if !self.attached {
            return;
        }
        self.watch.heard = now;
        self.watch.owed = self.out.is_owed().then_some(now);
        self.watch.pinged = false;
        self.watch.suspected = None;
        self.suspects = false;
        self.without = None;
    }

    /// Datagrams of the service have gone or come beside the records: the connection acknowledges
    /// what went. Only an opener looks for that.
    pub(crate) fn handle_beside(&mut self, now: Instant, sent: bool, received: bool) {
        self.used = now;
        if received {
            self.handle_heard(now);
        }
        if sent && self.attached && self.opener {
            self.watch.owed.get_or_insert(now);
        }
    }

    /// A record has come over the connection in use.
    ///
    /// # Errors
    /// When the peer breaks the protocol: the stream is over then.
    pub(crate) fn handle_record(&mut self, now: Instant, record: Record) -> Result<(), Broken> {
        self.handle_heard(now);
        let taken = self.take(now, record);
        if let Err(broken) = taken {
            self.reset(code::BROKEN, broken.to_string());
        }
        self.look_for_end();
        taken
    }

    fn take(&mut self, now: Instant, record: Record) -> Result<(), Broken> {
        match record {
            Record::Data { offset, bytes } => {
                self.used = now;
                self.inc.take(offset, bytes)?;
                self.owe_ack(now);
            }
            Record::Ack { received, limit } => {
                self.out.acknowledge(received)?;
                self.out.limit = self.out.limit.max(limit);
            }
            // Said again after each new connection: it has to be the same end.
            Record::End { offset } => {
                if self.inc.end.is_some_and(|end| end != offset) || offset < self.inc.received {
                    return Err(Broken::End);
                }
                if offset > self.inc.received {
                    return Err(Broken::Gap);
                }
                self.inc.end = Some(offset);
                self.ack_at = Some(now);
            }
            Record::Reset { code, reason } => {
                let by_peer = true;
                self.outcome.get_or_insert(Outcome::Reset {
                    code,
                    reason,
                    by_peer,
                });
            }
            Record::Ping => self.pong = true,
            Record::Pong => {}
        }
        Ok(())
    }

    fn owe_ack(&mut self, now: Instant) {
        let at_once = self.inc.received.saturating_sub(self.told.0) >= STREAM_ACK_BYTES;
        let at = if at_once { now } else { now + STREAM_ACK_DELAY };
        self.ack_at = Some(self.ack_at.map_or(at, |before| before.min(at)));
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.outcome.is_some() || self.peer_finished {
            return;
        }
        if self.lost_due().is_some_and(|due| now >= due) {
            if self.is_complete() {
                // The program here takes its time, and the peer is not needed for that.
                self.peer_finished = true;
                self.look_for_end();
            } else {
                self.outcome = Some(Outcome::Lost);
            }
            return;
        }
        if !self.attached {
            return;
        }
        if self.opener && now >= self.ping_due(now) && !self.watch.pinged {
            self.ping = true;
        }
        if self.suspect_due(now).is_some_and(|due| now >= due) {
            self.watch.suspected = Some(now);
            self.suspects = true;
            self.without = self.without.or(self.watch.owed.filter(|_| self.opener));
        }
    }

    /// Both ends have all that was sent: only the program here may not have taken it yet.
    fn is_complete(&self) -> bool {
        self.inc.ended() && self.out.end_acked
    }

    /// When the peer counts as gone, if nothing comes from it.
    fn lost_due(&self) -> Option<Instant> {
        // An opener asks far more often than that.
        let silent = (self.attached && !self.opener).then_some(self.watch.heard);
        let since = silent.into_iter().chain(self.without).min()?;
        Some(since + STREAM_WAIT)
    }

    fn ping_due(&self, now: Instant) -> Instant {
        let in_use = now.saturating_duration_since(self.used) < STREAM_USED;
        self.watch.heard
            + if in_use {
                STREAM_PING
            } else {
                STREAM_PING_UNUSED
            }
    }

    /// When the connection is suspected, if nothing comes. An opener is owed an answer; the other
    /// end expects to be asked.
    fn suspect_due(&self, now: Instant) -> Option<Instant> {
        let expected = if self.opener {
            self.watch.owed
        } else {
            (!self.is_complete()).then(|| self.ping_due(now))
        };
        Some(self.watch.suspected.or(expected)? + self.watch.patience)
    }

    /// When [`handle_timeout`](Self::handle_timeout) has to be called, or records have to be asked
    /// for.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        if self.ended || self.peer_finished {
            return None;
        }
        let mut due = self.lost_due();
        let mut also = |at: Option<Instant>| {
            if let Some(at) = at {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        };
        if self.attached {
            also(self.ack_at);
            let asks = self.opener && !self.watch.pinged && !self.ping;
            also(asks.then(|| self.ping_due(now)));
            also(self.suspect_due(now));
        }
        due
    }

    /// Getter: whether the peer is still to be told of a reset, which nothing may hold back.
    pub(crate) fn resets(&self) -> bool {
        self.reset.is_some() && self.attached
    }

    /// The next record to send over the connection in use. Give it to the connection before
    /// asking for another.
    pub(crate) fn poll_record(&mut self, now: Instant) -> Option<Record> {
        if !self.attached {
            return None;
        }
        if let Some((code, reason)) = self.reset.take() {
            return Some(Record::Reset { code, reason });
        }
        if matches!(self.outcome, Some(Outcome::Reset { .. } | Outcome::Lost)) {
            return None;
        }
        if std::mem::take(&mut self.pong) {
            return Some(Record::Pong);
        }
        // Before data: the peer may wait for room.
        if self.ack_at.is_some_and(|at| now >= at) {
            self.ack_at = None;
            self.told = self.position();
            let (received, limit) = self.told;
            self.look_for_end();
            return Some(Record::Ack { received, limit });
        }
        if std::mem::take(&mut self.ping) {
            self.watch.pinged = true;
            self.watch.owed.get_or_insert(now);
            return Some(Record::Ping);
        }
        if let Some(bytes) = self.out.next_piece() {
            let offset = self.out.sent;
            self.out.sent = offset.saturating_add(to_u64(bytes.len()));
            self.out.sent_ever = self.out.sent_ever.max(self.out.sent);
            self.watch.owed.get_or_insert(now);
            return Some(Record::Data { offset, bytes });
        }
        if self.out.ends && !self.out.end_sent && self.out.sent == self.out.written {
            (self.out.end_sent, self.out.end_sent_ever) = (true, true);
            self.watch.owed.get_or_insert(now);
            let offset = self.out.written;
            return Some(Record::End { offset });
        }
        None
    }

    /// The next thing for the local program.
    pub(crate) fn poll_local(&mut self) -> Option<ToLocal> {
        if let Some(bytes) = self.inc.inbox.pop_front() {
            return Some(ToLocal::Data(bytes));
        }
        if self.inc.ended() && !self.inc.end_given {
            self.inc.end_given = true;
            return Some(ToLocal::End);
        }
        None
    }

    /// What the caller has to do.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.suspects) {
            return Some(Event::Suspect);
        }
        if self.ended || self.reset.is_some() && self.attached {
            return None;
        }
        let outcome = self.outcome.clone()?;
        self.ended = true;
        Some(Event::Ended(outcome))
    }

    /// All is sent and received, and the peer knows it.
    fn look_for_end(&mut self) {
        let told = self.inc.ended() && self.told.0 == self.inc.acknowledged();
        let settled = self.peer_finished || (self.out.end_acked && told);
        // What has come and was not given to the program yet is still to be given.
        if settled && self.inc.end_taken && self.outcome.is_none() {
            self.outcome = Some(Outcome::Finished);
        }
    }

    /// Whether the peer has said its end, and this end has: what a connection that closes then
    /// means is no loss.
    pub(crate) fn is_through(&self) -> bool {
        self.inc.ended() && self.out.ends && self.out.end_sent_ever
    }

    /// The other end says that it has finished: what it has received then is all.
    pub(crate) fn handle_finished(&mut self) {
        if self.is_through() {
            self.peer_finished = true;
            self.look_for_end();
        } else {
            self.outcome.get_or_insert(Outcome::Lost);
        }
    }

    /// Getter: whether the peer has nothing more to say or to hear.
    pub(crate) fn needs_no_peer(&self) -> bool {
        self.peer_finished
    }
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
