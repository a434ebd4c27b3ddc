//! A file that is gathered in memory and handed to the daemon by its descriptor (`FILDES` of
//! clamd(8)): it is copied once, and the daemon reads it where it is.

use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Bytes of a file, in memory of this process that has no name.
#[derive(Debug)]
pub(super) struct Gathered {
    file: File,
    length: u64,
}

impl Gathered {
    pub(super) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("ringway-scan", flags)?;
        Ok(Self {
            file: file.into(),
            length: 0,
        })
    }

    /// Bytes so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.length = self.length.saturating_add(count);
        Ok(())
    }

    /// Gives what was gathered piece by piece.
    pub(super) fn each(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            let read = self.file.read_at(&mut piece, at)?;
            let bytes = piece.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            take(bytes)?;
            at = at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        }
    }

    /// Seals it, so that it does not change while it is scanned, and hands it over.
    pub(super) fn hand_over(self, stream: &mut UnixStream) -> io::Result<()> {
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&self.file, seals)?;
        stream.write_all(b"zFILDES\0")?;
        let descriptors = [self.file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("no room for a descriptor"));
        }
        // A descriptor travels with a byte at least.
        let byte = [IoSlice::new(&[0])];
        sendmsg(&*stream, &byte, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Bytes that are copied at once where a file becomes a stream after all.
const PIECE: usize = 65_536;
