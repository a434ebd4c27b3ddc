//! A passphrase: from a file that only its owner can read, or from the terminal without echo.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use ringway_node::home;
use ringway_terminal::Failure;
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use zeroize::Zeroizing;

use crate::limits::PASSPHRASE_BYTES;

/// What ends the input: Ctrl-C and Ctrl-D.
const ENDS: [u8; 2] = [3, 4];

/// What takes the last byte back: Backspace of either kind.
const BACK: [u8; 2] = [8, 127];

/// The first line of a file.
pub(super) fn of_file(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let content = Zeroizing::new(home::read_secret(path).map_err(Failure::usage)?);
    let line = content.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    text(line, || format!("{} holds no text", path.display()))
}

/// Asks for a new one, twice.
pub(super) fn ask_new() -> Result<Zeroizing<String>, Failure> {
    let mut terminal = Terminal::open()?;
    let first = terminal.ask("Passphrase for the backup: ")?;
    if terminal.ask("The same again: ")? == first {
        Ok(first)
    } else {
        Err(Failure::usage(
            "the two passphrases differ: nothing was made",
        ))
    }
}

/// Asks for the one that opens a backup.
pub(super) fn ask() -> Result<Zeroizing<String>, Failure> {
    Terminal::open()?.ask("Passphrase of the backup: ")
}

fn text(bytes: &[u8], why: impl Fn() -> String) -> Result<Zeroizing<String>, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::usage(why()))?;
    if text.is_empty() {
        return Err(Failure::usage(why()));
    }
    Ok(Zeroizing::new(text.to_owned()))
}

/// The terminal, which shows nothing of what is typed until it is dropped.
struct Terminal {
    file: File,
    before: Termios,
}

impl Terminal {
    fn open() -> Result<Terminal, Failure> {
        let none = |error: io::Error| {
            Failure::usage(format_args!(
                "a passphrase is asked for at a terminal, and there is none ({error}): name a file by --passphrase-file, or a key"
            ))
        };
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty");
        let file = file.map_err(none)?;
        let before = termios::tcgetattr(&file).map_err(|error| none(error.into()))?;
        let mut quiet = before.clone();
        // Signals come as bytes as well: so the echo is back whatever is typed.
        let off = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.local_modes.remove(off);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(&file, OptionalActions::Flush, &quiet)
            .map_err(|error| none(error.into()))?;
        Ok(Terminal { file, before })
    }

    fn ask(&mut self, question: &str) -> Result<Zeroizing<String>, Failure> {
        let broken = |error: io::Error| Failure::failed(format_args!("the terminal: {error}"));
        self.file.write_all(question.as_bytes()).map_err(broken)?;
        let mut typed = Zeroizing::new(Vec::with_capacity(PASSPHRASE_BYTES));
        loop {
            let mut byte = [0];
            let read = self.file.read(&mut byte).map_err(broken)?;
            match byte[0] {
                _ if read == 0 => return Err(Failure::usage("no passphrase was given")),
                b'\n' | b'\r' => break,
                end if ENDS.contains(&end) => {
                    return Err(Failure::usage("no passphrase was given"));
                }
                back if BACK.contains(&back) => {
                    // A whole character goes, of however many bytes.
                    while typed.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {}
                }
                _ if typed.len() == PASSPHRASE_BYTES => {}
                byte => typed.push(byte),
            }
        }
        self.file.write_all(b"\n").map_err(broken)?;
        text(&typed, || "no passphrase was given".to_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nothing to be done if the terminal has gone.
        termios::tcsetattr(&self.file, OptionalActions::Flush, &self.before).ok();
    }
}
