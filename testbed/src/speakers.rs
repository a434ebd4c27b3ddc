//! Small programs that speak protocols whose own programs are gone, over real sockets, from the
//! published formats.
//!
//! | module | speaks |
//! |---|---|
//! | `borrowed` | the head and body of HTTP that Gnutella and FastTrack borrowed |
//! | `fasttrack` | [`FastTrack`]: Kazaa's transfers, asked for and pushed |
//! | `gnutella` | [`Gnutella`]: the handshake between nodes; transfers, asked for and pushed |
//! | `msn` | [`Switchboard`] and [`Chatter`]: MSN Messenger's conversations and invitations to take a file |
//! | `msnftp` | [`Msnftp`]: its file transfer |
//!
//! A program that has a file answers for as long as the test runs; one that wants it gives what has
//! arrived when the other side is done, or when the connection was reset.

mod borrowed;
mod fasttrack;
mod gnutella;
mod msn;
mod msnftp;

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

pub use fasttrack::FastTrack;
pub use gnutella::Gnutella;
pub use msn::{Chatter, Invitation, Switchboard};
pub use msnftp::Msnftp;

/// A file that somebody has.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Arc<Vec<u8>>,
}

impl Shared {
    /// A file.
    #[must_use]
    pub fn new(name: &str, bytes: Vec<u8>) -> Shared {
        Shared {
            name: name.to_owned(),
            bytes: Arc::new(bytes),
        }
    }
}

/// A protocol in which a file goes from one side to the other.
pub trait Speaker: Copy + Send + 'static {
    /// Asks for a file on a connection to the peer that has it; gives what has arrived of its
    /// bytes.
    ///
    /// # Errors
    /// When nothing came that could be read as this protocol, a reset at once included.
    fn fetch(self, stream: TcpStream, name: &str) -> std::io::Result<Vec<u8>>;

    /// Answers one connection.
    ///
    /// # Errors
    /// When the other side goes, or is reset.
    fn answer(self, stream: TcpStream, file: &Shared) -> std::io::Result<()>;

    /// Answers every connection, for as long as the test runs.
    fn serve(self, listener: TcpListener, file: Shared) {
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let file = file.clone();
                // Somebody who goes, or is reset, gets no more.
                thread::spawn(move || self.answer(stream, &file).ok());
            }
        });
    }
}

/// A protocol in which the peer that has a file may also connect to the one that wants it.
pub trait Pusher: Speaker {
    /// Connects, says which file there is, and answers the request that comes.
    ///
    /// # Errors
    /// When the other side goes, or is reset.
    fn push(self, stream: TcpStream, file: &Shared) -> std::io::Result<()>;

    /// Takes such a call; gives what has arrived of the file's bytes.
    ///
    /// # Errors
    /// When nothing came that could be read as this protocol.
    fn take(self, stream: TcpStream, name: &str) -> std::io::Result<Vec<u8>>;
}

/// A line with its end, byte by byte: what follows may be no text.
fn line(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Up to so many bytes; fewer when the other side is done or the connection was reset.
fn up_to(stream: &mut TcpStream, size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    // What was read before a reset is kept.
    stream.take(size).read_to_end(&mut bytes).ok();
    bytes
}

/// Something that is none of this protocol.
fn strange(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned())
}
