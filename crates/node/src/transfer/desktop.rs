//! A notification on the desktop of the user whose daemon this is, where there is a session bus.
//!
//! One method is called there: `Notify` of `org.freedesktop.Notifications`. For that the few bytes
//! of D-Bus's protocol are written here; see `bus`.

mod bus;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::rules::in_words;
use crate::limits::{NOTES_SHOWN, NOTES_TOGETHER, NOTES_WAITING};
use crate::text::printable;

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) from: String,
    pub(super) file: String,
    pub(super) size: u64,
    /// Whether a person is asked.
    pub(super) asks: bool,
}

/// The desktop. What comes faster than it is shown is dropped.
#[derive(Debug)]
pub(super) struct Desktop {
    notes: mpsc::Sender<Note>,
}

impl Desktop {
    pub(super) fn start() -> Desktop {
        let (notes, waiting) = mpsc::channel(NOTES_WAITING);
        tokio::spawn(show_all(waiting));
        Desktop { notes }
    }

    pub(super) fn show(&self, note: Note) {
        // The inbox has them all.
        self.notes.try_send(note).ok();
    }
}

async fn show_all(mut waiting: mpsc::Receiver<Note>) {
    while let Some(first) = waiting.recv().await {
        let mut notes = vec![first];
        let until = Instant::now() + NOTES_TOGETHER;
        while let Ok(Some(note)) = timeout_at(until, waiting.recv()).await {
            notes.push(note);
        }
        // It may come and go with its user.
        let Some(socket) = session_bus() else {
            continue;
        };
        let texts = texts(&notes);
        let showing = tokio::task::spawn_blocking(move || {
            let shown = texts.iter();
            let mut shown = shown.map(|[summary, body]| bus::notify(&socket, summary, body));
            shown.try_for_each(|shown| shown)
        });
        match showing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the desktop showed nothing"),
            Err(error) => tracing::debug!(%error, "the desktop showed nothing"),
        }
    }
}

/// Summary and body of each: of many one that counts them.
fn texts(notes: &[Note]) -> Vec<[String; 2]> {
    if notes.len() > NOTES_SHOWN {
        let asking = notes.iter().filter(|note| note.asks).count();
        let summary = format!("{} files from other members", notes.len());
        let body = if asking > 0 {
            format!("{asking} wait for your answer: ringway inbox")
        } else {
            "ringway inbox lists them".to_owned()
        };
        return vec![[summary, body]];
    }
    let text = |note: &Note| {
        // Desktops read a body as a kind of HTML.
        let file = escaped(&printable(&note.file, 120));
        let size = in_words(note.size);
        if note.asks {
            let summary = format!("{} wants to send a file", note.from);
            [summary, format!("{file}, {size}: ringway inbox")]
        } else {
            [
                format!("A file from {}", note.from),
                format!("{file}, {size}"),
            ]
        }
    };
    notes.iter().map(text).collect()
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

/// The socket of the session's bus.
fn session_bus() -> Option<PathBuf> {
    let of_address = |address: std::ffi::OsString| {
        let address = address.into_string().ok()?;
        let unix = address
            .split(';')
            .find_map(|one| one.strip_prefix("unix:"))?;
        let path = unix.split(',').find_map(|one| one.strip_prefix("path="))?;
        Some(PathBuf::from(path))
    };
    let named = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").and_then(of_address);
    let usual = || Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("bus"));
    named.or_else(usual).filter(|socket| socket.exists())
}

/// How long the bus may take for each step.
const BUS_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
