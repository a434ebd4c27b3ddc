//! As much of D-Bus as one call takes (D-Bus specification 0.43): authentication by the user's id,
//! `Hello`, and the call, of which no answer is awaited but the bus's own.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::BUS_TIME;

/// Types of messages.
const METHOD_CALL: u8 = 1;

/// Codes of header fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// Bytes of a message that is read: the bus's answers have some hundred.
const LONGEST: usize = 64 << 10;

/// Milliseconds for which a desktop shows it; -1 is as it likes.
const AS_IT_LIKES: i32 = -1;

/// Calls `Notify` over the bus at `socket`.
pub(super) fn notify(socket: &Path, summary: &str, body: &str) -> io::Result<()> {
    let mut bus = connect(socket)?;
    let mut arguments = Bytes::default();
    arguments.text("Ringway");
    // It replaces no other.
    arguments.u32(0);
    arguments.text("document-save");
    arguments.text(summary);
    arguments.text(body);
    // No actions, and no hints: two empty arrays, whose elements have their own alignment.
    arguments.u32(0);
    arguments.u32(0);
    arguments.align(8);
    arguments.u32(u32::from_ne_bytes(AS_IT_LIKES.to_ne_bytes()));
    let name = "org.freedesktop.Notifications";
    let call = call(
        2,
        [name, "/org/freedesktop/Notifications", name, "Notify"],
        "susssasa{sv}i",
        &arguments.0,
    );
    bus.write_all(&call)?;
    // The answer says that it was taken, or that no desktop is there.
    read_reply(&mut bus, 2)
}

/// A connection on which the bus has said hello.
pub(super) fn connect(socket: &Path) -> io::Result<UnixStream> {
    let mut bus = UnixStream::connect(socket)?;
    bus.set_read_timeout(Some(BUS_TIME))?;
    bus.set_write_timeout(Some(BUS_TIME))?;
    let user = rustix::process::geteuid().as_raw().to_string();
    let user = data_encoding::HEXLOWER.encode(user.as_bytes());
    bus.write_all(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n") && answer.len() < 512 {
        let mut byte = [0];
        bus.read_exact(&mut byte)?;
        answer.extend_from_slice(&byte);
    }
    if !answer.starts_with(b"OK ") {
        return Err(io::Error::other("the session bus admits another user only"));
    }
    bus.write_all(b"BEGIN\r\n")?;
    let name = "org.freedesktop.DBus";
    let hello = call(1, [name, "/org/freedesktop/DBus", name, "Hello"], "", &[]);
    bus.write_all(&hello)?;
    read_reply(&mut bus, 1)?;
    Ok(bus)
}

/// Reads until the answer to the call with this number.
pub(super) fn read_reply(bus: &mut UnixStream, serial: u32) -> io::Result<()> {
    // The bus sends some signals of its own first.
    for _ in 0..16 {
        let message = read_message(bus)?;
        // Field 5 is the number of the call that this answers: a `u`.
        let mut answered = [5, 1, b'u', 0].to_vec();
        answered.extend_from_slice(&serial.to_le_bytes());
        let answers = message
            .windows(answered.len())
            .any(|bytes| bytes == answered);
        match message.get(1) {
            Some(2) if answers => return Ok(()),
            Some(3) if answers => return Err(io::Error::other("the bus refused the call")),
            _ => {}
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// One message with its header.
pub(super) fn read_message(bus: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 16];
    bus.read_exact(&mut message)?;
    let number = |at: usize| {
        let bytes = message.get(at..at + 4).unwrap_or_default();
        let number = bytes.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX);
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    let (body, fields) = (number(4), number(12));
    if message.first() != Some(&b'l') || body > LONGEST || fields > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.resize(16 + fields.next_multiple_of(8) + body, 0);
    bus.read_exact(message.get_mut(16..).unwrap_or_default())?;
    Ok(message)
}

/// A method call: destination, path, interface and member.
pub(super) fn call(serial: u32, names: [&str; 4], signature: &str, body: &[u8]) -> Vec<u8> {
    let [destination, path, interface, member] = names;
    let mut fields = Bytes::default();
    let named = [
        (PATH, b'o', path),
        (DESTINATION, b's', destination),
        (INTERFACE, b's', interface),
        (MEMBER, b's', member),
    ];
    for (code, kind, value) in named {
        fields.align(8);
        fields.0.extend_from_slice(&[code, 1, kind, 0]);
        fields.text(value);
    }
    if !signature.is_empty() {
        fields.align(8);
        fields.0.extend_from_slice(&[SIGNATURE, 1, b'g', 0]);
        fields.signature(signature);
    }
    let mut message = Bytes(vec![b'l', METHOD_CALL, 0, 1]);
    message.length(body.len());
    message.u32(serial);
    message.length(fields.0.len());
    message.0.extend_from_slice(&fields.0);
    message.align(8);
    message.0.extend_from_slice(body);
    message.0
}

/// Values in the order of their bytes: little-endian, each aligned by its kind.
#[derive(Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.align(4);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// A text without NUL, which is the end of one here.
    pub(super) fn text(&mut self, text: &str) {
        let text = text.replace('\0', "");
        self.length(text.len());
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }
}
