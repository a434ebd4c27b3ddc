//! The way of bytes that are not inspected: from socket to socket within the kernel (splice(2)).

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

use crate::limits::TERMINATED_PENDING;

/// A pipe between two sockets.
#[derive(Debug)]
pub(super) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    pub(super) fn open() -> io::Result<Self> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Where the system allows less it carries less at once.
        fcntl_setpipe_size(&into, TERMINATED_PENDING).ok();
        Ok(Self { out, into })
    }

    /// Takes what the socket has; 0: its end, or the pipe is full.
    pub(super) fn fill(&self, socket: &Socket) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let taken = splice(socket, None, &self.into, None, TERMINATED_PENDING, flags);
        Ok(taken?)
    }

    /// Gives the socket what is in the pipe, so many bytes.
    pub(super) fn empty(&self, socket: &Socket, count: usize) -> io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        Ok(splice(&self.out, None, socket, None, count, flags)?)
    }
}
