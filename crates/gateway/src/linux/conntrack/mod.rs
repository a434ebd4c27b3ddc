//! What the kernel has carried: its connection tracking, with counters, over netlink.
//!
//! Two sockets: one for events, which come by themselves, and one for looks, which are asked for.
//! Events of connections that begin are not wanted: the gateway knows those that it was asked
//! about, and the others show with the next look or with their end.

mod message;
mod sides;
pub mod switch;

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use self::message::{Incoming, ask, ask_all, messages, set_mark};
use super::marks::Marks;
use super::netlink::Outgoing;
use super::terminate::redirect::CLIENTS_ZONE;
use crate::accounting::KernelFlow;
use crate::limits::CONNTRACK_SOCKET_BUFFER;
use crate::verdict::Offload;

#[cfg(feature = "fuzzing")]
pub(crate) use self::message::read_anything;
pub use self::sides::BorderSides;

/// Bytes of one read: the kernel fills at most this much of a dump at once.
const READ: usize = 65_536;
/// NFNLGRP_CONNTRACK_UPDATE and NFNLGRP_CONNTRACK_DESTROY of `linux/netfilter/nfnetlink.h`.
const UPDATES: u32 = 2;
const ENDS: u32 = 3;
/// The kernel's errno where no connection is as asked for.
const ENOENT: i32 = 2;

/// Something about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has changed: its state or its mark.
    Changed(KernelFlow),
    /// It is there no more; its counts are final.
    Ended(KernelFlow),
}

/// The kernel's events, and looks at what it has.
#[derive(Debug)]
pub struct Conntrack {
    events: Socket,
    looks: Socket,
    buffer: Vec<u8>,
    /// Events may have been lost since this was asked for.
    lost: u64,
}

impl Conntrack {
    /// Listens to events from now on.
    ///
    /// # Errors
    /// The process has no CAP_NET_ADMIN, or the kernel has no netlink of connection tracking
    /// (`nf_conntrack_netlink`).
    pub fn open() -> io::Result<Self> {
        let mut events = Socket::new(NETLINK_NETFILTER)?;
        events.bind(&SocketAddr::new(0, 0))?;
        // Without the privilege the machine's own limit stays.
        let _left = rustix::net::sockopt::set_socket_recv_buffer_size_force(
            events.as_fd(),
            CONNTRACK_SOCKET_BUFFER,
        );
        events.add_membership(UPDATES)?;
        events.add_membership(ENDS)?;
        events.set_non_blocking(true)?;
        let mut looks = Socket::new(NETLINK_NETFILTER)?;
        looks.bind(&SocketAddr::new(0, 0))?;
        let mut conntrack = Self {
            events,
            looks,
            buffer: vec![0; READ],
            lost: 0,
        };
        // Fails where the module is missing, with the error of the kernel.
        conntrack.look(Duration::ZERO, &mut |_| {})?;
        Ok(conntrack)
    }

    /// Takes the events that have come.
    ///
    /// # Errors
    /// The socket fails. Events that found no room are no error: they are counted.
    pub fn receive(&mut self, now: Duration, take: &mut dyn FnMut(Event)) -> io::Result<()> {
        loop {
            let mut room = self.buffer.as_mut_slice();
            let read = match self.events.recv(&mut room, 0) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.lost = self.lost.saturating_add(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for message in messages(self.buffer.get(..read).unwrap_or_default(), now) {
                match message {
                    Incoming::There(flow) if crosses(&flow) => take(Event::Changed(flow)),
                    Incoming::Gone(flow) if crosses(&flow) => take(Event::Ended(flow)),
                    Incoming::There(_) | Incoming::Gone(_) => {}
                    Incoming::Done | Incoming::Failed(_) | Incoming::Other => {}
                }
            }
        }
    }

    /// How often events found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Looks at all connections.
    ///
    /// # Errors
    /// The socket or the kernel fails.
    pub fn look(&mut self, now: Duration, take: &mut dyn FnMut(KernelFlow)) -> io::Result<()> {
        let mut out = Outgoing::default();
        ask_all(&mut out);
        self.looks.send(out.bytes(), 0)?;
        self.answers(now, take)
    }

    /// Looks at these connections. One that is there no more is left out.
    ///
    /// # Errors
    /// The socket or the kernel fails.
    pub fn look_at(
        &mut self,
        now: Duration,
        flows: &[KernelFlow],
        take: &mut dyn FnMut(KernelFlow),
    ) -> io::Result<()> {
        for flow in flows {
            let mut out = Outgoing::default();
            ask(&mut out, flow);
            self.looks.send(out.bytes(), 0)?;
            self.answer(now, take)?;
        }
        Ok(())
    }

    /// Gives a connection the mark of this verdict: its next packet gets it. One that is there no
    /// more is left out.
    ///
    /// # Errors
    /// The socket or the kernel fails.
    pub fn mark(&mut self, flow: &KernelFlow, marks: Marks, verdict: Offload) -> io::Result<()> {
        let mut out = Outgoing::default();
        set_mark(&mut out, flow, marks.kept_value(verdict), marks.kept());
        self.looks.send(out.bytes(), 0)?;
        self.answer(Duration::ZERO, &mut |_| {})
    }

    /// Reads until the look is over.
    fn answers(&mut self, now: Duration, take: &mut dyn FnMut(KernelFlow)) -> io::Result<()> {
        loop {
            let read = self.read()?;
            for message in messages(self.buffer.get(..read).unwrap_or_default(), now) {
                match message {
                    Incoming::There(flow) if crosses(&flow) => take(flow),
                    Incoming::There(_) => {}
                    Incoming::Done => return Ok(()),
                    Incoming::Failed(code) => return failed(code),
                    Incoming::Gone(_) | Incoming::Other => {}
                }
            }
        }
    }

    /// Reads the answer to one question.
    fn answer(&mut self, now: Duration, take: &mut dyn FnMut(KernelFlow)) -> io::Result<()> {
        let read = self.read()?;
        for message in messages(self.buffer.get(..read).unwrap_or_default(), now) {
            match message {
                Incoming::There(flow) if crosses(&flow) => take(flow),
                Incoming::There(_) => {}
                Incoming::Failed(ENOENT) => {}
                Incoming::Failed(code) => return failed(code),
                Incoming::Gone(_) | Incoming::Done | Incoming::Other => {}
            }
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<usize> {
        loop {
            let mut room = self.buffer.as_mut_slice();
            match self.looks.recv(&mut room, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// Of a connection that ends at the gateway the server's half crosses the border; the client's has
/// the same ends, in a zone of its own.
fn crosses(flow: &KernelFlow) -> bool {
    flow.zone != CLIENTS_ZONE
}

fn failed(code: i32) -> io::Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(code))
}
