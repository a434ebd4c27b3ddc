//! Packets from netfilter's queue, and verdicts to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::thread::{CapabilitySet, capabilities};

pub use super::wire::Queued;
use super::wire::{Incoming, Outgoing, messages};
use crate::limits::{MAX_QUEUED, QUEUE_SOCKET_BUFFER, VERDICT_BATCH};

/// Bytes of one read: a packet of 64 kB and what netlink says of it.
const READ: usize = 69_632;
/// The kernel's errno of a queue that somebody else holds.
const EBUSY: i32 = 16;
const EPERM: i32 = 1;
/// Which kernel this is.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// One queue of the kernel's, bound to this socket.
#[derive(Debug)]
pub struct Queue {
    socket: Socket,
    number: u16,
    buffer: Vec<u8>,
    filled: usize,
    out: Outgoing,
    waiting: usize,
}

impl Queue {
    /// Binds the queue of this number. `fail_open`: packets go on unseen when it is full; else they
    /// are dropped.
    ///
    /// # Errors
    /// The process has no CAP_NET_ADMIN, another one holds the queue, or this kernel loses
    /// verdicts.
    pub fn open(number: u16, fail_open: bool) -> io::Result<Self> {
        let release = std::fs::read_to_string(RELEASE).unwrap_or_default();
        if loses_verdicts(release.trim()) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "Linux {} lets blocked packets pass (its NF_REPEAT is NF_ACCEPT); 6.7.5 and newer, and 6.6 and older do not",
                    release.trim()
                ),
            ));
        }
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        // A full socket is no error that could be handled: the packets are gone by then, or went
        // on.
        socket.set_no_enobufs(true)?;
        // Without the privilege the machine's own limit stays.
        let _left = rustix::net::sockopt::set_socket_recv_buffer_size_force(
            socket.as_fd(),
            QUEUE_SOCKET_BUFFER,
        );
        let mut queue = Self {
            socket,
            number,
            buffer: vec![0; READ],
            filled: 0,
            out: Outgoing::default(),
            waiting: 0,
        };
        queue.out.bind(number, MAX_QUEUED, fail_open);
        queue.send()?;
        queue.bound()?;
        queue.socket.set_non_blocking(true)?;
        Ok(queue)
    }

    /// Waits for the kernel's answer to the binding.
    fn bound(&mut self) -> io::Result<()> {
        loop {
            self.read()?;
            for message in messages(self.buffer.get(..self.filled).unwrap_or_default()) {
                match message {
                    Incoming::Answer(0) => return Ok(()),
                    Incoming::Answer(code) => return Err(refusal(self.number, code)),
                    Incoming::Packet(_) | Incoming::Other => {}
                }
            }
        }
    }

    /// Takes what the kernel has; gives false if there is nothing at the moment.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self) -> io::Result<bool> {
        match self.read() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The packets of the latest [`receive`](Self::receive).
    pub fn packets(&self) -> impl Iterator<Item = Queued<'_>> {
        let bytes = self.buffer.get(..self.filled).unwrap_or_default();
        messages(bytes).filter_map(|message| match message {
            Incoming::Packet(queued) => Some(queued),
            Incoming::Answer(_) | Incoming::Other => None,
        })
    }

    /// Gives a verdict, with another mark or other bytes if the packet is to have them; it leaves
    /// with the next [`flush`](Self::flush), or when enough have come together.
    ///
    /// # Errors
    /// The socket fails.
    pub fn verdict(
        &mut self,
        id: u32,
        accept: bool,
        mark: Option<u32>,
        changed: Option<&[u8]>,
    ) -> io::Result<()> {
        self.out.verdict(self.number, id, accept, mark, changed);
        self.waiting = self.waiting.saturating_add(1);
        if self.waiting < VERDICT_BATCH {
            return Ok(());
        }
        self.flush()
    }

    /// Says what happens from now on to packets that come when it is full.
    ///
    /// # Errors
    /// The socket fails.
    pub fn set_fail_open(&mut self, fail_open: bool) -> io::Result<()> {
        self.flush()?;
        self.out.when_full(self.number, fail_open);
        self.send()
    }

    /// Sends the verdicts that wait.
    ///
    /// # Errors
    /// The socket fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        self.waiting = 0;
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        let sent = self.socket.send(self.out.bytes(), 0);
        self.out.clear();
        sent.map(|_| ())
    }

    fn read(&mut self) -> io::Result<()> {
        self.filled = 0;
        let mut room = self.buffer.as_mut_slice();
        let read = self.socket.recv(&mut room, 0)?;
        self.filled = read.min(self.buffer.len());
        Ok(())
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether a kernel takes "once more through the rules" for "accepted" (commits 6291b3a67ad5 of 6.7
/// and f82777e8ce6c, which is in 6.7.5 and 6.8).
fn loses_verdicts(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    matches!([number(), number()], [Some(6), Some(7)]) && number().unwrap_or(0) < 5
}

/// Whether this thread has what a queue takes; the kernel says the same of a queue that is held and
/// of a missing right.
fn may_bind() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN))
}

fn refusal(number: u16, code: i32) -> io::Error {
    let (kind, reason) = match code {
        EPERM if !may_bind() => (
            io::ErrorKind::PermissionDenied,
            format!("queue {number}: CAP_NET_ADMIN is missing"),
        ),
        EBUSY | EPERM => (
            io::ErrorKind::AddrInUse,
            format!("queue {number} is held by another program"),
        ),
        _ => {
            let error = io::Error::from_raw_os_error(code);
            (error.kind(), format!("queue {number}: {error}"))
        }
    };
    io::Error::new(kind, reason)
}

#[cfg(test)]
mod tests {
    use super::loses_verdicts;

    #[test]
    fn kernels_that_lose_verdicts_are_known() {
        for release in ["6.7.0", "6.7.4-arch1-1", "6.7-rc3", "6.7"] {
            assert!(loses_verdicts(release), "{release}");
        }
        for release in [
            "6.7.5",
            "6.7.12+bpo-amd64",
            "6.6.15",
            "6.8.0-31-generic",
            "6.18.44",
            "5.15",
            "7.3.1",
            "",
            "x",
        ] {
            assert!(!loses_verdicts(release), "{release}");
        }
    }
}
