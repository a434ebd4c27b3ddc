//! Mail, news, files and streams that are spoken in lines of text.

mod ftp;
mod imap;
mod nntp;
mod pop3;
mod rtsp;
mod smtp;

use super::message::{Check, Memory, Message};

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("ftp.command", ftp::command),
    ("ftp.greeting", ftp::greeting),
    ("imap.command", imap::command),
    ("imap.greeting", imap::greeting),
    ("nntp.command", nntp::command),
    ("nntp.greeting", nntp::greeting),
    ("pop3.command", pop3::command),
    ("pop3.greeting", pop3::greeting),
    ("rtsp.message", rtsp::message),
    ("smtp.command", smtp::command),
    ("smtp.greeting", smtp::greeting),
];

/// A side has said what this protocol begins with. Returns whether the other side has as well.
fn both(message: &Message<'_>, memory: &mut Memory, protocol: &'static str) -> bool {
    let numbers = memory.numbers();
    numbers.ask(protocol, message.direction, 0);
    numbers.answers(protocol, message.direction, 0)
}

/// The first line of text, if it has ended, with its end.
fn first_line<'a>(message: &Message<'a>) -> Option<&'a str> {
    super::message::text_lines(message.bytes).next()
}
