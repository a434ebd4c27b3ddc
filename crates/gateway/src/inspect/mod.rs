//! What flows carry: files and messages, read from the bytes of both directions in their order.
//!
//! One file per protocol. A [`Decoder`] belongs to one connection, is given each direction's bytes
//! as soon as they are contiguous, in pieces of any size, and tells what it [`Seen`] in them. It
//! holds a bounded part of what it was given, and when it cannot follow it says so ([`Seen::Lost`])
//! instead of guessing.

mod bytestream;
mod dcc;
mod held;
mod http;
mod irc;
mod msn;
mod msnftp;
mod names;
mod push;
mod reading;
mod xmpp;

use std::net::SocketAddr;

use self::reading::UntilLost;
use crate::flow::Direction;

/// What a decoder tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A file is asked for or offered; its bytes may follow on this connection, on another one, or
    /// never.
    Offer(FileHead),
    /// Bytes of a file begin: all [`Seen::Data`] until [`Seen::End`] belong to it.
    Begin(FileHead),
    /// The file's next bytes.
    Data(&'a [u8]),
    /// The file is whole: its last byte was in the data before. What is cut off has no end.
    End,
    /// A message between people.
    Message(Message),
    /// A connection that will be made, and what it will carry.
    Expect(Expected),
    /// The decoder cannot follow this connection any more, and why.
    Lost(&'static str),
}

/// What is known of a file before its first byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHead {
    /// Its name without folders, as its receiver would show it (percent and MIME encodings taken
    /// off).
    pub name: Option<String>,
    /// Its media type in lower case, without parameters.
    pub kind: Option<String>,
    /// Its length in bytes.
    pub size: Option<u64>,
    /// Who sends its bytes, if they come on this connection.
    pub sender: Option<Direction>,
    /// What comes of it.
    pub form: FileForm,
}

/// What comes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileForm {
    /// Its own bytes, all of them.
    #[default]
    Whole,
    /// A part of it, or several.
    Part,
    /// Its bytes in a coding (compressed), which are not read as they are.
    Encoded,
}

/// A message between people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its text.
    pub text: String,
    /// Who wrote it, as the protocol names them.
    pub from: Option<String>,
    /// To whom, or where.
    pub to: Option<String>,
}

/// A connection that a message announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Where it will be made to.
    pub server: SocketAddr,
    /// The application that will speak there.
    pub application: &'static str,
    /// The file that it will carry.
    pub file: FileHead,
}

impl Expected {
    /// The application as policies and records call it: a transfer of a chat program's own belongs
    /// to that.
    #[must_use]
    pub fn known_as(&self) -> &'static str {
        match self.application {
            "dcc-chat" => "dcc",
            "xmpp-bytestream" => "xmpp",
            other => other,
        }
    }
}

/// Reads one connection of one protocol.
///
/// Each direction carries one file at a time, but files of both may overlap: an upload whose answer
/// begins before it is over. What [`Decoder::handle_data`] and [`Decoder::handle_end`] tell of
/// [`Seen::Begin`], [`Seen::Data`] and [`Seen::End`] always belongs to a file that the handled
/// direction sends. Offers, messages and expectations may stand between.
///
/// The pieces in which the input comes change nothing but the pieces of the data.
pub trait Decoder: std::fmt::Debug + Send {
    /// Takes in the next bytes of a direction and tells what they complete.
    fn handle_data(&mut self, direction: Direction, bytes: &[u8], emit: &mut dyn FnMut(Seen<'_>));

    /// A direction has ended in order (FIN).
    fn handle_end(&mut self, direction: Direction, emit: &mut dyn FnMut(Seen<'_>));

    /// How many bytes of a direction are certain to come that are a file's data and nothing else,
    /// and behind which nothing follows that the other direction has not asked for first. 0: none,
    /// or not known.
    fn certain_data(&self, _direction: Direction) -> u64 {
        0
    }

    /// As many of the [certain](Self::certain_data) bytes went by unseen; no [`Seen::Data`] is told
    /// of them.
    fn handle_unseen(
        &mut self,
        _direction: Direction,
        _bytes: u64,
        _emit: &mut dyn FnMut(Seen<'_>),
    ) {
    }

    /// Whether the next byte of a direction begins the head of a message that may be rewritten, as
    /// long as it keeps its length.
    fn begins_head(&self, _direction: Direction) -> bool {
        false
    }

    /// Bytes that it holds.
    fn held(&self) -> usize;
}

/// The decoder of an application; `None`: its contents cannot be read (encrypted, or in pieces that
/// come in any order).
#[must_use]
pub fn decoder(application: &str) -> Option<Box<dyn Decoder>> {
    match application {
        "http" => Some(UntilLost::decoder(http::Exchange::web())),
        "gnutella" => Some(UntilLost::decoder(push::Transfer::gnutella())),
        "fasttrack" => Some(UntilLost::decoder(push::Transfer::fasttrack())),
        "msn" => Some(UntilLost::decoder(msn::Msn::default())),
        "xmpp" => Some(UntilLost::decoder(xmpp::Xmpp::default())),
        "irc" => Some(UntilLost::decoder(irc::Irc::default())),
        "dcc-chat" => Some(UntilLost::decoder(irc::Chat::default())),
        _ => expected(application, FileHead::default()),
    }
}

/// The decoder of a connection that was announced ([`Seen::Expect`]), with what was told of its
/// file.
#[must_use]
pub fn expected(application: &str, file: FileHead) -> Option<Box<dyn Decoder>> {
    match application {
        "dcc" => Some(dcc(file)),
        "xmpp-bytestream" => Some(bytestream(file)),
        "msnftp" => Some(UntilLost::decoder(msnftp::Msnftp::new(file))),
        "http" | "gnutella" | "fasttrack" | "msn" | "xmpp" | "irc" | "dcc-chat" => {
            decoder(application)
        }
        _ => None,
    }
}

/// Whether connections of an application are announced by others of a chat program, as policies
/// call it.
#[must_use]
pub fn is_announced(application: &str) -> bool {
    matches!(application, "dcc" | "msnftp" | "xmpp")
}

/// The decoder of a file sent from client to client of IRC.
#[must_use]
pub fn dcc(file: FileHead) -> Box<dyn Decoder> {
    UntilLost::decoder(dcc::Dcc::new(file))
}

/// The decoder of a file sent from client to client of XMPP.
#[must_use]
pub fn bytestream(file: FileHead) -> Box<dyn Decoder> {
    UntilLost::decoder(bytestream::Bytestream::new(file))
}
