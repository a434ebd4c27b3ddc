//! One terminated connection: a socket towards each end, and what is between them.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use socket2::Socket;

use super::pipe::Pipe;
use super::relay_buffer::{Next, PieceVerdict, RelayBuffer};
use super::segment::{Flags, HEADERS, Segment};
use super::socket::{connect, prepare};
use crate::flow::Direction;
use crate::limits::{TERMINATED_CONNECT, TERMINATED_READ, TERMINATED_READS};
use crate::linux::shaper::Shaper;
use crate::packet::LinkType;
use crate::verdict::{Gateway, Offload, Verdict};

/// What of it the gateway is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    All,
    /// What the client sends.
    Client,
    Nothing,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Goes,
    /// Both ends have sent all, and received it.
    Over,
    /// Both ends are to be reset.
    Broken,
}

/// Between two ends.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    shaper: Shaper,
    to_client: Socket,
    to_server: Socket,
    from_client: RelayBuffer,
    from_server: RelayBuffer,
    /// The number of each end's SYN.
    first: u32,
    /// Its contents were to be followed: where the gateway has forgotten it, the policy says
    /// whether the rest may go on unread.
    read: bool,
    /// Of each direction more came at once than a reading takes.
    bulk: [bool; 2],
    /// An end has gone, and epoll has reported it.
    hung: [bool; 2],
    /// What each direction's bytes that are not inspected go through, once there are any.
    pipes: [Option<Pipe>; 2],
    /// Of each direction something has left that was not reported to the gateway.
    left: [bool; 2],
    /// Until when the server has to accept; `None`: it has.
    connecting: Option<Duration>,
    asked: Asked,
    /// When something last came or left.
    pub(super) moved: Duration,
    broken: bool,
    /// What is waited for at either end: that it sends, that it takes.
    armed: [Option<(bool, bool)>; 2],
    /// The upper bits of its tokens.
    serial: u64,
}

/// What readings go through, with room for headers before the bytes.
pub(super) type Buffer = [u8];

/// Who is asked about what is read, and through which buffer.
pub(super) struct Asks<'a> {
    pub(super) gateway: &'a mut Gateway,
    pub(super) buffer: &'a mut Buffer,
}

/// A connection that a client has opened.
pub(super) struct Accepted {
    pub(super) socket: Socket,
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) shaper: Shaper,
}

/// A buffer.
pub(super) fn buffer() -> Box<Buffer> {
    vec![0; HEADERS.saturating_add(TERMINATED_READ)].into_boxed_slice()
}

impl Connection {
    /// Takes an accepted connection and connects to the server in the client's name. `None`: the
    /// policy refuses, or no socket can connect.
    pub(super) fn begin(
        now: Duration,
        accepted: Accepted,
        serial: u64,
        asks: &mut Asks<'_>,
    ) -> Option<Self> {
        let Accepted {
            socket: to_client,
            client,
            server,
            shaper,
        } = accepted;
        prepare(&to_client).ok()?;
        // Each has numbers of its own: the same ends may come again, and what they say is something
        // else.
        let first = u32::try_from(serial & u64::from(u32::MAX)).unwrap_or(0);
        let first = first.wrapping_mul(0x9e37_79b9);
        let syn = Segment {
            from: client,
            to: server,
            sequence: first,
            acknowledged: None,
            flags: Flags {
                syn: true,
                ..Flags::default()
            },
        };
        let verdict = asks.offer(now, u64::MAX, false, &syn, 0)?;
        if !verdict.accepts() {
            return None;
        }
        let to_server = connect(client, server).ok()?;
        let mut connection = Self {
            client,
            server,
            shaper,
            to_client,
            to_server,
            from_client: RelayBuffer::new(first),
            from_server: RelayBuffer::new(first),
            first,
            read: false,
            bulk: [false; 2],
            hung: [false; 2],
            pipes: [None, None],
            left: [false; 2],
            connecting: Some(now.saturating_add(TERMINATED_CONNECT)),
            asked: Asked::All,
            moved: now,
            broken: false,
            armed: [Some((false, false)); 2],
            serial,
        };
        connection.follow(verdict.offload());
        Some(connection)
    }

    pub(super) fn socket(&self, end: Direction) -> &Socket {
        match end {
            Direction::FromClient => &self.to_client,
            Direction::FromServer => &self.to_server,
        }
    }

    /// What is waited for at this end; nothing, once it was reported.
    pub(super) fn armed(&mut self, end: Direction) -> &mut Option<(bool, bool)> {
        let [client, server] = &mut self.armed;
        match end {
            Direction::FromClient => client,
            Direction::FromServer => server,
        }
    }

    fn way(&mut self, direction: Direction) -> &mut RelayBuffer {
        match direction {
            Direction::FromClient => &mut self.from_client,
            Direction::FromServer => &mut self.from_server,
        }
    }

    /// It is to be reset.
    pub(super) fn shatter(&mut self) {
        self.broken = true;
    }

    /// Whether to listen for more of this end, and whether it takes more, as far as that is waited
    /// for.
    pub(super) fn interest(&self, end: Direction) -> (bool, bool) {
        let (own, other) = match end {
            Direction::FromClient => (&self.from_client, &self.from_server),
            Direction::FromServer => (&self.from_server, &self.from_client),
        };
        if self.connecting.is_some() {
            return (false, end == Direction::FromServer);
        }
        (own.has_room(), other.next().is_some())
    }

    /// An end has gone, or both have: where it broke off, so does the other one.
    pub(super) fn hang(&mut self, now: Duration, end: Direction, asks: &mut Asks<'_>) {
        if let Some(hung) = self.hung.get_mut(index_of(end)) {
            *hung = true;
        }
        // While connecting, the server's half itself resets the client.
        let connecting = self.connecting.is_some() && end == Direction::FromServer;
        if !connecting && !matches!(self.socket(end).take_error(), Ok(None)) {
            self.end_by(now, end, asks);
        }
    }

    /// It was reported that this end has gone, which would be reported again and again.
    pub(super) fn is_hung(&self, end: Direction) -> bool {
        self.hung.get(index_of(end)).copied().unwrap_or(false)
    }

    /// When it has something to do without anything coming.
    pub(super) fn due(&self) -> Option<Duration> {
        let repeats = [self.from_client.due(), self.from_server.due()];
        repeats.into_iter().chain([self.connecting]).flatten().min()
    }

    /// Does what can be done: reads what comes, asks about it, and writes what may leave.
    pub(super) fn turn(&mut self, now: Duration, asks: &mut Asks<'_>) -> Outcome {
        if self.connecting.is_some() && !self.is_connected(now, asks) {
            return self.outcome();
        }
        for direction in [Direction::FromServer, Direction::FromClient] {
            self.repeat(now, direction, asks);
            self.write(now, direction, asks);
            for _ in 0..TERMINATED_READS {
                if self.broken || !self.read(now, direction, asks) {
                    break;
                }
            }
            self.acknowledge(now, direction, asks);
        }
        self.outcome()
    }

    fn outcome(&self) -> Outcome {
        if self.broken {
            Outcome::Broken
        } else if self.from_client.is_shut() && self.from_server.is_shut() {
            Outcome::Over
        } else {
            Outcome::Goes
        }
    }

    /// Whether the server has accepted the connection.
    fn is_connected(&mut self, now: Duration, asks: &mut Asks<'_>) -> bool {
        let late = self.connecting.is_some_and(|until| now >= until);
        let refused = !matches!(self.to_server.take_error(), Ok(None));
        if refused || late {
            self.end_by(now, Direction::FromServer, asks);
            return false;
        }
        if self.to_server.peer_addr().is_err() {
            return false;
        }
        self.connecting = None;
        self.moved = now;
        // The gateway sees nothing of this handshake. Without these segments the flow would count
        // as one that the server has not answered.
        let (first, behind) = (self.first, self.first.wrapping_add(1));
        let flags = Flags {
            syn: true,
            ..Flags::default()
        };
        for (direction, sequence, flags) in [
            (Direction::FromServer, first, flags),
            (Direction::FromClient, behind, Flags::default()),
        ] {
            let segment = self.segment(direction, sequence, flags);
            let verdict = asks.offer(now, u64::MAX, self.read, &segment, 0);
            if !verdict.is_some_and(|verdict| verdict.accepts()) {
                self.broken = true;
            }
            self.follow(verdict.and_then(|verdict| verdict.offload()));
        }
        true
    }

    /// One of the ends has broken the connection: the gateway is notified, and the other end
    /// reset.
    pub(super) fn end_by(&mut self, now: Duration, end: Direction, asks: &mut Asks<'_>) {
        let sequence = self.way(end).begin().0;
        let flags = Flags {
            rst: true,
            ..Flags::default()
        };
        let reset = self.segment(end, sequence, flags);
        asks.offer(now, u64::MAX, self.read, &reset, 0);
        self.broken = true;
    }

    fn segment(&self, direction: Direction, sequence: u32, flags: Flags) -> Segment {
        let (from, to, other) = match direction {
            Direction::FromClient => (self.client, self.server, &self.from_server),
            Direction::FromServer => (self.server, self.client, &self.from_client),
        };
        Segment {
            from,
            to,
            sequence,
            acknowledged: Some(other.delivered()),
            flags,
        }
    }

    fn token(&self, direction: Direction, number: u32) -> u64 {
        super::token(self.serial, direction, number)
    }

    fn is_asked(&self, direction: Direction) -> bool {
        match self.asked {
            Asked::All => true,
            Asked::Client => direction == Direction::FromClient,
            Asked::Nothing => false,
        }
    }

    /// Takes what one end has sent into the pipe, once, without looking at it. Returns whether
    /// there may be more; `None`: it has to be read.
    fn pipe(&mut self, direction: Direction) -> Option<bool> {
        let index = index_of(direction);
        let bulk = self.bulk.get(index).copied().unwrap_or(false);
        if !bulk || self.is_asked(direction) || !self.way(direction).may_pipe() {
            return None;
        }
        if self.pipes.get(index)?.is_none() {
            *self.pipes.get_mut(index)? = Some(Pipe::open().ok()?);
        }
        let pipe = self.pipes.get(index)?.as_ref()?;
        match pipe.fill(self.socket(direction)) {
            // The end, or a fault.
            Ok(0) => None,
            Ok(count) => {
                self.way(direction).pipe(count);
                Some(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !self.way(direction).choke() {
                    return Some(false);
                }
                // Nothing is there, or a byte that is urgent (RFC 9293 §3.8.5), which a pipe stops
                // at. Who says little needs no pipe.
                *self.pipes.get_mut(index)? = None;
                *self.bulk.get_mut(index)? = false;
                None
            }
            Err(_) => None,
        }
    }

    /// Takes what one end has sent, once. Returns whether there may be more.
    fn read(&mut self, now: Duration, direction: Direction, asks: &mut Asks<'_>) -> bool {
        if !self.way(direction).has_room() {
            return false;
        }
        if let Some(more) = self.pipe(direction) {
            if more {
                self.moved = now;
                self.write(now, direction, asks);
            }
            return more;
        }
        let Some(room) = asks.buffer.get_mut(HEADERS..) else {
            return false;
        };
        let most = room.len();
        let count = match (&mut self.socket(direction)).read(room) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => {
                self.end_by(now, direction, asks);
                return false;
            }
        };
        self.moved = now;
        if let Some(bulk) = self.bulk.get_mut(index_of(direction)) {
            *bulk |= count == most;
        }
        let (sequence, number) = self.way(direction).begin();
        let (mut fate, mut settled) = (PieceVerdict::Passes, None);
        // Ends are always reported: the flow is over then.
        if self.is_asked(direction) || count == 0 {
            let flags = Flags {
                fin: count == 0,
                ..Flags::default()
            };
            let segment = self.segment(direction, sequence, flags);
            let token = self.token(direction, number);
            let verdict = asks.offer(now, token, self.read, &segment, count);
            (fate, settled) = self.judge(direction, verdict);
        }
        let bytes = HEADERS.saturating_add(count);
        let bytes = asks.buffer.get(HEADERS..bytes).unwrap_or_default();
        let sent = match fate {
            PieceVerdict::Passes if count > 0 && self.way(direction).is_empty() => {
                self.send(direction, bytes)
            }
            _ => 0,
        };
        let way = self.way(direction);
        way.pass(sent);
        if sent < count || count == 0 {
            let rest = bytes.get(sent..).unwrap_or_default();
            way.keep(now, number, rest, fate, settled);
        }
        self.note_left(direction, sent > 0);
        self.write(now, direction, asks);
        // Where less came than there is room for, no more is there.
        count == most
    }

    /// What a verdict means for the piece that it is on; what follows for the connection follows at
    /// once where the piece does not wait.
    fn judge(
        &mut self,
        direction: Direction,
        verdict: Option<Verdict>,
    ) -> (PieceVerdict, Option<Offload>) {
        let Some(verdict) = verdict else {
            self.broken = true;
            return (PieceVerdict::Again, None);
        };
        if verdict.is_held() {
            return (PieceVerdict::Waits, verdict.offload());
        }
        let free = !self.is_asked(direction);
        self.follow(verdict.offload());
        // The end of what is not inspected goes on whatever the verdict is.
        if verdict.accepts() || free {
            (PieceVerdict::Passes, None)
        } else {
            (PieceVerdict::Again, None)
        }
    }

    /// Does for the connection what its mark would do in the kernel.
    fn follow(&mut self, settled: Option<Offload>) {
        let Some(settled) = settled else {
            return;
        };
        match settled {
            Offload::Allowed => self.asked = Asked::Nothing,
            Offload::Shaped(class) => {
                self.asked = Asked::Nothing;
                self.shape(Some(class));
            }
            Offload::Blocked => self.broken = true,
            // The client's requests are still read: the next one may ask for something else.
            Offload::AnswersPass => {
                self.asked = Asked::Client;
                self.read = true;
            }
            Offload::Watched => {
                self.asked = Asked::All;
                self.read = true;
            }
            Offload::WatchedIn(class) => {
                self.asked = Asked::All;
                self.read = true;
                self.shape(Some(class));
            }
        }
    }

    /// Both ends' packets leave in this class, or in none. The client is inside.
    pub(super) fn shape(&self, class: Option<usize>) {
        let client = self.client.ip();
        let priority = class.map_or(0, |class| self.shaper.priority(class, client));
        for socket in [&self.to_client, &self.to_server] {
            // An interface without classes has no use for it.
            socket.set_priority(priority).ok();
        }
    }

    /// Lets a piece go that waited, or not. It may be of a connection that is past that.
    pub(super) fn release(
        &mut self,
        now: Duration,
        direction: Direction,
        number: u32,
        verdict: Verdict,
    ) {
        let fate = if verdict.accepts() {
            PieceVerdict::Passes
        } else {
            PieceVerdict::Again
        };
        let settled = self.way(direction).release(now, number, fate).flatten();
        self.follow(settled);
    }

    /// Offers what was not taken again, once its time has come.
    fn repeat(&mut self, now: Duration, direction: Direction, asks: &mut Asks<'_>) {
        let (number, sequence, count) = match self.way(direction).repeat(now) {
            Ok(Some(repeat)) => {
                let count = repeat.bytes.len();
                let end = HEADERS.saturating_add(count);
                match asks.buffer.get_mut(HEADERS..end) {
                    Some(room) => room.copy_from_slice(repeat.bytes),
                    None => return,
                }
                (repeat.number, repeat.sequence, count)
            }
            Ok(None) => return,
            Err(()) => {
                self.broken = true;
                return;
            }
        };
        let flags = Flags {
            fin: count == 0,
            ..Flags::default()
        };
        let segment = self.segment(direction, sequence, flags);
        let token = self.token(direction, number);
        let verdict = asks.offer(now, token, self.read, &segment, count);
        let (fate, settled) = self.judge(direction, verdict);
        self.way(direction).release(now, number, fate);
        self.follow(settled.filter(|_| fate == PieceVerdict::Passes));
    }

    /// Writes what may leave, and reports to the gateway that the other end has it.
    fn write(&mut self, now: Duration, direction: Direction, asks: &mut Asks<'_>) {
        let mut wrote = false;
        loop {
            let mut other = self.socket(direction.other());
            let way = match direction {
                Direction::FromClient => &self.from_client,
                Direction::FromServer => &self.from_server,
            };
            let count = match way.next() {
                None => break,
                Some(Next::End) => {
                    // It has gone already; what it sent is read first.
                    other.shutdown(Shutdown::Write).ok();
                    Ok(0)
                }
                Some(Next::Bytes(bytes)) => other.write(bytes),
                Some(Next::Piped(count)) => {
                    let pipe = self.pipes.get(index_of(direction)).and_then(Option::as_ref);
                    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
                    pipe.map_or_else(|| Err(gone()), |pipe| pipe.empty(other, count))
                }
            };
            let count = match count {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.end_by(now, direction.other(), asks),
            };
            self.way(direction).left(count);
            wrote = true;
        }
        if wrote {
            self.moved = now;
        }
        self.note_left(direction, wrote);
    }

    fn note_left(&mut self, direction: Direction, some: bool) {
        if let Some(left) = self.left.get_mut(index_of(direction)) {
            *left |= some;
        }
    }

    /// Writes as much as the other end takes at once.
    fn send(&self, direction: Direction, bytes: &[u8]) -> usize {
        // What went wrong is reported with the next writing.
        let mut other = self.socket(direction.other());
        other.write(bytes).unwrap_or_default()
    }

    /// Tells the gateway what the other end has by now: who follows a direction keeps what its
    /// receiver may still lack.
    fn acknowledge(&mut self, now: Duration, direction: Direction, asks: &mut Asks<'_>) {
        let back = direction.other();
        let left = self.left.get_mut(index_of(direction));
        let some = left.is_some_and(std::mem::take);
        // Who does not follow what was said does not want to know who has it.
        if !some || !self.is_asked(direction) || !self.is_asked(back) {
            return;
        }
        let sequence = self.way(back).begin().0;
        let segment = self.segment(back, sequence, Flags::default());
        // An acknowledgement alone: no piece waits for it.
        let verdict = asks.offer(now, u64::MAX, self.read, &segment, 0);
        self.follow(verdict.and_then(|verdict| verdict.offload()));
    }

    /// Ends both sockets in order: whatever has been written leaves.
    pub(super) fn close(self) {
        for socket in [&self.to_client, &self.to_server] {
            socket.set_linger(None).ok();
        }
    }
}

fn index_of(direction: Direction) -> usize {
    match direction {
        Direction::FromClient => 0,
        Direction::FromServer => 1,
    }
}

impl Asks<'_> {
    /// Puts a segment to the gateway; the bytes stand in the buffer, and others in their place
    /// where it wants so. `read`: the connection's contents were to be followed. `None`: it is no
    /// segment.
    fn offer(
        &mut self,
        now: Duration,
        token: u64,
        read: bool,
        segment: &Segment,
        count: usize,
    ) -> Option<Verdict> {
        let begins = segment.write(self.buffer, count)?;
        let end = HEADERS.saturating_add(count);
        let packet = self.buffer.get(begins..end)?;
        self.gateway.set_watched(read);
        let verdict = (self.gateway).handle_queued(now, token, LinkType::RawIp, packet);
        if let Some(payload) = self.gateway.take_rewritten()
            && let Some(room) = self.buffer.get_mut(HEADERS..end)
            && room.len() == payload.len()
        {
            room.copy_from_slice(&payload);
        }
        Some(verdict)
    }
}
