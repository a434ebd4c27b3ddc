//! Notices when another program changes the packet filter.
//!
//! A firewall that reloads its rules takes out all others. Until somebody looks again, nothing is
//! asked about, and a connection that begins then is decided late or never. nftables, by which
//! iptables works on current systems, announces each change; iptables' own tables (`legacy`) do
//! not, and are looked at from time to time.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::priority::reset_priority;
use crate::limits::RULES_SETTLE;

/// `NFNLGRP_NFTABLES` of `linux/netfilter/nfnetlink.h`.
const CHANGES: u32 = 7;

/// The thread that notices. It ends with this.
#[derive(Debug)]
pub struct RulesetWatch {
    /// Rings at the end.
    end: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl RulesetWatch {
    /// Calls `changed` after each change of nftables' rules, whosoever made it, but at most once in
    /// [`RULES_SETTLE`].
    ///
    /// # Errors
    /// The kernel announces nothing to this process, or the system gives no thread.
    pub fn start(changed: impl Fn() + Send + 'static) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        socket.add_membership(CHANGES)?;
        socket.set_non_blocking(true)?;
        let end = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let ending = Arc::clone(&end);
        let thread = std::thread::Builder::new()
            .name("ruleset".to_owned())
            .spawn(move || {
                reset_priority();
                if let Err(error) = watch(&socket, &ending, &changed) {
                    tracing::warn!(%error, "changes of the packet filter are noticed by looks only");
                }
            })?;
        Ok(Self {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for RulesetWatch {
    fn drop(&mut self) {
        // A counter that is full has rung already.
        let _rung = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            thread.join().ok();
        }
    }
}

/// Returns at the end.
fn watch(socket: &Socket, end: &OwnedFd, changed: &dyn Fn()) -> io::Result<()> {
    let settle = Timespec::try_from(RULES_SETTLE).map_err(io::Error::other)?;
    loop {
        let mut watched =
            [socket.as_fd(), end.as_fd()].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        match poll(&mut watched, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [announced, ending] = watched.map(|one| !one.revents().is_empty());
        if ending {
            return Ok(());
        }
        if !announced {
            continue;
        }
        changed();
        // A reload is many changes one after another, and so is what puts our rules back: what
        // comes in this time is answered by one look at its end.
        let mut ending = [PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)];
        if poll(&mut ending, Some(&settle)).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        if drain(socket)? {
            changed();
        }
    }
}

/// Throws away what was announced, of which only that counts; returns whether there was any.
fn drain(socket: &Socket) -> io::Result<bool> {
    let mut buffer = [0; 8_192];
    let mut any = false;
    loop {
        match socket.recv(&mut buffer.as_mut_slice(), 0) {
            Ok(_) => any = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
            // More was announced than there is room for (ENOBUFS): there was some.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
            {
                any = true;
            }
            Err(error) => return Err(error),
        }
    }
}
