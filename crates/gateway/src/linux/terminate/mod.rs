//! Connections that end at the gateway: to ports that the policy names (`terminate`) the gateway
//! accepts in the server's name, connects to the server in the client's, and relays their data
//! with the kernel's own TCP on either side.
//!
//! It is a second way for packets to the same [`Gateway`], not a second gateway: what is read is
//! put to it as the segments that it would have seen (`segment.rs`), and what it says of them holds
//! for the bytes. So there is one policy, one classifier, one audit, and a conversation here
//! announces flows there. What waits for a scan stops the sender by TCP's own window, nothing is
//! lost or repeated meanwhile, and what is decided is copied without asking.
//!
//! [`redirect`] makes the kernel bring such connections here. Without a listener, as after the
//! gateway was killed, they take the way of all others.

mod connection;
mod pipe;
pub mod redirect;
mod relay_buffer;
mod segment;
mod socket;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use serde::{Deserialize, Serialize};
use socket2::Socket;

use self::connection::{Accepted, Asks, Buffer, Connection, Outcome};
use self::socket::{listen, raise_files};
use crate::flow::Direction;
use crate::limits::{
    MAX_TERMINATED, TERMINATED_AGAIN, TERMINATED_QUIET, TERMINATED_SHARE, TERMINATED_TURN,
};
use crate::linux::shaper::Shaper;
use crate::packet::{LinkType, decode};
use crate::verdict::{Gateway, Moved, Verdict};

/// The bit that tokens of pieces have, and those of packets have not.
const OURS: u64 = 1 << 62;
const SERIAL_SHIFT: u32 = 32;
const SERIAL_MASK: u64 = (1 << 29) - 1;
const FROM_SERVER: u64 = 1 << 31;
/// What epoll says of listening sockets.
const LISTENER: u64 = u64::MAX;
/// Files of one connection: two sockets, and two pipes of two ends.
const FILES_OF_EACH: usize = 6;
/// Files that are left to the rest of the program: its queues, the audit, scanners, tools that it
/// runs.
const KEPT_FILES: usize = 128;
/// Told once, and then when it is waited for again.
const ONCE: epoll::EventFlags = epoll::EventFlags::ONESHOT;

/// Where connections are taken, at this machine's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doors {
    /// Port at 127.0.0.1.
    pub v4: u16,
    /// Port at ::1; none on a machine without IPv6.
    pub v6: Option<u16>,
}

/// What was carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminatedTotals {
    /// Connections that go on.
    pub open: u64,
    /// Connections that were taken.
    pub taken: u64,
    /// Connections that were reset: refused by the policy, broken by an end, or not taken by the
    /// server.
    pub reset: u64,
    /// How often there was no slot left: new connections then go on as packets, until there is.
    #[serde(default)]
    pub full: u64,
}

/// All terminated connections.
#[derive(Debug)]
pub struct Terminator {
    /// What knows the classes of their packets.
    shaper: Shaper,
    /// None while there is no slot: then new connections take the way of packets.
    listeners: Vec<Socket>,
    /// Where they listen.
    addresses: Vec<SocketAddr>,
    epoll: OwnedFd,
    connections: HashMap<u64, Connection>,
    /// How many of them each client has.
    clients: HashMap<IpAddr, usize>,
    /// Client and server of each.
    ends: HashMap<(SocketAddr, SocketAddr), u64>,
    next: u64,
    /// Connections that have something to do.
    stirred: BTreeSet<u64>,
    /// Those that ended in this turn: verdicts on them concern no other connection.
    gone: Vec<(SocketAddr, SocketAddr)>,
    /// No connection is accepted before.
    rests: Option<Duration>,
    /// Connections that there are files for.
    slots: usize,
    /// Nothing is due before.
    due: Option<Duration>,
    buffer: Box<Buffer>,
    totals: TerminatedTotals,
}

/// A piece's token.
fn token(serial: u64, direction: Direction, number: u32) -> u64 {
    let side = match direction {
        Direction::FromClient => 0,
        Direction::FromServer => FROM_SERVER,
    };
    OURS | ((serial & SERIAL_MASK) << SERIAL_SHIFT) | side | u64::from(number)
}

impl Terminator {
    /// Opens the doors.
    ///
    /// # Errors
    /// The process has no CAP_NET_ADMIN, or the system gives no socket.
    pub fn open(shaper: Shaper) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut listeners = vec![listen((Ipv4Addr::LOCALHOST, 0).into())?];
        // There are machines without IPv6.
        listeners.extend(listen((Ipv6Addr::LOCALHOST, 0).into()));
        let mut addresses = Vec::new();
        for listener in &listeners {
            addresses.extend(listener.local_addr()?.as_socket());
            add(&epoll, listener)?;
        }
        let files = usize::try_from(raise_files()).unwrap_or(usize::MAX);
        let slots = files.saturating_sub(KEPT_FILES) / FILES_OF_EACH;
        Ok(Self {
            slots: slots.clamp(1, MAX_TERMINATED),
            shaper,
            listeners,
            addresses,
            epoll,
            connections: HashMap::new(),
            clients: HashMap::new(),
            ends: HashMap::new(),
            next: 0,
            stirred: BTreeSet::new(),
            gone: Vec::new(),
            rests: None,
            due: None,
            buffer: connection::buffer(),
            totals: TerminatedTotals::default(),
        })
    }

    /// Where the doors are.
    #[must_use]
    pub fn doors(&self) -> Doors {
        let mut ports = self.addresses.iter().map(SocketAddr::port);
        Doors {
            v4: ports.next().unwrap_or(0),
            v6: ports.next(),
        }
    }

    /// There is no slot: without a listener new connections take the way of packets.
    fn shut(&mut self, now: Duration) {
        self.listeners.clear();
        self.totals.full = self.totals.full.saturating_add(1);
        self.rests = Some(now.saturating_add(TERMINATED_AGAIN));
    }

    /// Listens again, once there are some slots.
    fn reopen(&mut self, now: Duration) {
        let spare = self.slots.saturating_sub(self.connections.len());
        let listened: io::Result<Vec<Socket>> = self
            .addresses
            .iter()
            .filter(|_| spare > self.slots / 8)
            .map(|address| {
                let listener = listen(*address)?;
                add(&self.epoll, &listener)?;
                Ok(listener)
            })
            .collect();
        match listened {
            Ok(listeners) if !listeners.is_empty() => self.listeners = listeners,
            _ => self.rests = Some(now.saturating_add(TERMINATED_AGAIN)),
        }
    }

    /// What was carried so far.
    #[must_use]
    pub fn totals(&self) -> TerminatedTotals {
        TerminatedTotals {
            open: u64::try_from(self.connections.len()).unwrap_or(u64::MAX),
            ..self.totals
        }
    }

    /// Takes new connections, and carries what has come.
    ///
    /// # Errors
    /// The system does not say what has come.
    pub fn turn(&mut self, now: Duration, gateway: &mut Gateway) -> io::Result<()> {
        self.gone.clear();
        while let Some(moved) = gateway.poll_moved() {
            self.obey(&moved);
        }
        if self.rests.is_some_and(|until| until <= now) {
            self.rests = None;
            if self.listeners.is_empty() {
                self.reopen(now)
            } else {
                self.listen_on()
            }
        }
        let mut events = Vec::with_capacity(TERMINATED_TURN);
        let nothing = Timespec::default();
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, spare, Some(&nothing)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            let (data, flags) = (event.data, event.flags);
            match data.u64() {
                LISTENER => self.accept(now, gateway),
                stirred => {
                    let (serial, side) = (stirred >> 1, stirred & 1);
                    if let Some(connection) = self.connections.get_mut(&serial) {
                        // ONESHOT: with this event the kernel has disarmed the socket.
                        connection.armed(end(side)).take();
                        let gone = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
                        if flags.intersects(gone) {
                            let mut asks = Asks {
                                gateway: &mut *gateway,
                                buffer: &mut self.buffer,
                            };
                            connection.hang(now, end(side), &mut asks);
                        }
                        self.stirred.insert(serial);
                    }
                }
            }
        }
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            let due = self
                .connections
                .iter()
                .filter(|(_, connection)| connection.due().is_some_and(|due| due <= now));
            self.stirred.extend(due.map(|(serial, _)| *serial));
        }
        self.carry(now, gateway);
        Ok(())
    }

    /// A connection gets something else from now on, as its mark would have it in the kernel.
    fn obey(&mut self, moved: &Moved) {
        let Some(serial) = self.ends.get(&(moved.client, moved.server)) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(serial) {
            if moved.blocked {
                connection.shatter();
            } else {
                connection.shape(moved.class);
            }
            self.stirred.insert(*serial);
        }
    }

    /// Something was let go or reset since.
    #[must_use]
    pub fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// Carries what was let go since.
    pub fn carry(&mut self, now: Duration, gateway: &mut Gateway) {
        while let Some(serial) = self.stirred.pop_first() {
            let Some(connection) = self.connections.get_mut(&serial) else {
                continue;
            };
            let mut asks = Asks {
                gateway: &mut *gateway,
                buffer: &mut self.buffer,
            };
            match connection.turn(now, &mut asks) {
                Outcome::Goes => self.wait_for(serial),
                Outcome::Over => {
                    if let Some(connection) = self.forget(serial) {
                        connection.close();
                    }
                }
                Outcome::Broken => {
                    self.totals.reset = self.totals.reset.saturating_add(1);
                    drop(self.forget(serial));
                }
            }
        }
    }

    /// A piece that waited goes on, or does not. Returns whether it is one of a connection here,
    /// by its token.
    pub fn release(&mut self, now: Duration, token: u64, verdict: Verdict) -> bool {
        if token & OURS == 0 || token == u64::MAX {
            return false;
        }
        let serial = (token & !OURS) >> SERIAL_SHIFT;
        let direction = match token & FROM_SERVER {
            0 => Direction::FromClient,
            _ => Direction::FromServer,
        };
        let number = u32::try_from(token & (FROM_SERVER - 1)).unwrap_or(0);
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.release(now, direction, number, verdict);
            self.stirred.insert(serial);
        }
        true
    }

    /// A packet that the gateway would send to an end of a connection here: a reset ends it.
    /// Returns whether it is for one.
    pub fn claim(&mut self, packet: &[u8]) -> bool {
        let Ok(packet) = decode(LinkType::RawIp, packet) else {
            return false;
        };
        let (from, to) = (packet.source, packet.destination);
        let known = self.ends.get(&(from, to)).or(self.ends.get(&(to, from)));
        let Some(&serial) = known else {
            return self.gone.contains(&(from, to)) || self.gone.contains(&(to, from));
        };
        if packet.tcp.is_some_and(|tcp| tcp.rst)
            && let Some(connection) = self.connections.get_mut(&serial)
        {
            connection.shatter();
            self.stirred.insert(serial);
        }
        true
    }

    fn accept(&mut self, now: Duration, gateway: &mut Gateway) {
        for index in 0..self.listeners.len() {
            for _ in 0..TERMINATED_TURN {
                if self.connections.len() >= self.slots && !self.make_room(now) {
                    self.shut(now);
                    return;
                }
                match self.listeners.get(index).map(Socket::accept) {
                    Some(Ok((socket, client))) => self.take(now, socket, &client, gateway),
                    Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The client has gone.
                    Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // There are no files left, say: it is no use to look again at once.
                    Some(Err(_)) | None => {
                        self.rests = Some(now.saturating_add(TERMINATED_AGAIN));
                        return;
                    }
                }
            }
        }
        self.listen_on();
    }

    /// Listens again, once all new connections were accepted.
    fn listen_on(&self) {
        for listener in &self.listeners {
            let data = epoll::EventData::new_u64(LISTENER);
            let flags = epoll::EventFlags::IN | ONCE;
            epoll::modify(&self.epoll, listener, data, flags).ok();
        }
    }

    fn take(
        &mut self,
        now: Duration,
        socket: Socket,
        client: &socket2::SockAddr,
        gateway: &mut Gateway,
    ) {
        let server = socket.local_addr().ok();
        let server = server.and_then(|server| server.as_socket());
        let (Some(client), Some(server)) = (client.as_socket(), server) else {
            return;
        };
        // A connection to the listener's own address: there is nothing behind it.
        if server.ip().is_loopback() {
            return;
        }
        if let Some(&old) = self.ends.get(&(client, server)) {
            // A client that connects from the same port again has lost the old connection.
            if let Some(connection) = self.connections.get_mut(&old) {
                let mut asks = Asks {
                    gateway: &mut *gateway,
                    buffer: &mut self.buffer,
                };
                connection.end_by(now, Direction::FromClient, &mut asks);
            }
            self.totals.reset = self.totals.reset.saturating_add(1);
            drop(self.forget(old));
        }
        self.keep_to_share(host(client));
        self.next = self.next.wrapping_add(1) & SERIAL_MASK;
        let serial = self.next;
        self.totals.taken = self.totals.taken.saturating_add(1);
        self.ends.insert((client, server), serial);
        let accepted = Accepted {
            socket,
            client,
            server,
            shaper: self.shaper.clone(),
        };
        let mut asks = Asks {
            gateway,
            buffer: &mut self.buffer,
        };
        let begun = Connection::begin(now, accepted, serial, &mut asks);
        let added = begun.and_then(|connection| {
            let data = |side: u64| epoll::EventData::new_u64((serial << 1) | side);
            for side in [0, 1] {
                epoll::add(&self.epoll, connection.socket(end(side)), data(side), ONCE).ok()?;
            }
            Some(connection)
        });
        match added {
            Some(connection) => {
                self.connections.insert(serial, connection);
                let count = self.clients.entry(host(client)).or_default();
                *count = count.saturating_add(1);
                self.wait_for(serial);
            }
            None => {
                self.ends.remove(&(client, server));
                self.gone.push((client, server));
                self.totals.reset = self.totals.reset.saturating_add(1);
            }
        }
    }

    /// A client has a share of the slots: beyond it its own connection that was quiet for longest
    /// gives way, or one host could deny the port to all.
    fn keep_to_share(&mut self, client: IpAddr) {
        let share = (self.slots / TERMINATED_SHARE).max(1);
        if self.clients.get(&client).is_none_or(|count| *count < share) {
            return;
        }
        let of_client = self
            .connections
            .iter()
            .filter(|(_, connection)| host(connection.client) == client);
        let oldest = of_client.min_by_key(|(_, connection)| connection.moved);
        if let Some(serial) = oldest.map(|(serial, _)| *serial) {
            self.totals.reset = self.totals.reset.saturating_add(1);
            drop(self.forget(serial));
        }
    }

    /// The connection that was quiet for longest gives way. Returns whether one did.
    fn make_room(&mut self, now: Duration) -> bool {
        let oldest = self
            .connections
            .iter()
            .min_by_key(|(_, connection)| connection.moved);
        let quiet = oldest
            .filter(|(_, connection)| now.saturating_sub(connection.moved) >= TERMINATED_QUIET);
        let Some(serial) = quiet.map(|(serial, _)| *serial) else {
            return false;
        };
        self.totals.reset = self.totals.reset.saturating_add(1);
        drop(self.forget(serial));
        true
    }

    /// Waits for what this connection can do next, and for its ends to go, each of which is
    /// reported once.
    fn wait_for(&mut self, serial: u64) {
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        for side in [0, 1] {
            let wanted = connection.interest(end(side));
            let armed = *connection.armed(end(side));
            let idle = (false, false);
            // A hang-up cannot be masked (epoll_ctl(2)): a socket armed again would report it in a
            // loop.
            let reported = connection.is_hung(end(side)) && wanted == idle;
            if armed == Some(wanted) || (armed.is_none() && reported) {
                continue;
            }
            let mut flags = ONCE;
            flags.set(epoll::EventFlags::IN, wanted.0);
            flags.set(epoll::EventFlags::OUT, wanted.1);
            let data = epoll::EventData::new_u64((serial << 1) | side);
            let socket = connection.socket(end(side));
            epoll::modify(&self.epoll, socket, data, flags).ok();
            *connection.armed(end(side)) = Some(wanted);
        }
        self.due = match (self.due, connection.due()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    fn forget(&mut self, serial: u64) -> Option<Connection> {
        let connection = self.connections.remove(&serial)?;
        let client = host(connection.client);
        if let Some(count) = self.clients.get_mut(&client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.clients.remove(&client);
            }
        }
        let ends = (connection.client, connection.server);
        if self.ends.get(&ends) == Some(&serial) {
            self.ends.remove(&ends);
            self.gone.push(ends);
        }
        Some(connection)
    }
}

impl AsFd for Terminator {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// What counts as one client: an address, of IPv6 its network, all of which one host may use.
fn host(client: SocketAddr) -> IpAddr {
    match client.ip().to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

fn add(epoll: &OwnedFd, listener: &Socket) -> io::Result<()> {
    let data = epoll::EventData::new_u64(LISTENER);
    epoll::add(epoll, listener, data, epoll::EventFlags::IN | ONCE)?;
    Ok(())
}

/// The end that this side of a connection is.
fn end(side: u64) -> Direction {
    match side {
        0 => Direction::FromClient,
        _ => Direction::FromServer,
    }
}
