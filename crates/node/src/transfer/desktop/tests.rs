//! What a desktop is given: by a real session bus, to a mock of a desktop.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use super::*;

fn note(file: &str, asks: bool) -> Note {
    Note {
        from: "lima".to_owned(),
        file: file.to_owned(),
        size: 3_000_000,
        asks,
    }
}

#[test]
fn names_are_no_markup_and_many_are_counted() {
    let [[summary, body]] = texts(&[note("<b>\u{202e}a & b\n", false)])
        .try_into()
        .unwrap();
    assert_eq!(summary, "A file from lima");
    assert_eq!(body, "&lt;b&gt;a &amp; b, 3 MB");
    let [[summary, _]] = texts(&[note("a", true)]).try_into().unwrap();
    assert_eq!(summary, "lima wants to send a file");
    let many = vec![note("a", true); NOTES_SHOWN + 1];
    assert_eq!(texts(&many).len(), 1);
}

/// A session bus that ends with the test.
struct Bus {
    daemon: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.daemon.kill().ok();
        self.daemon.wait().ok();
    }
}

fn session() -> Option<Bus> {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("bus");
    let address = format!("--address=unix:path={}", socket.display());
    let daemon = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--print-address", &address])
        .stdout(Stdio::piped())
        .spawn();
    let mut daemon = daemon.ok()?;
    let mut line = String::new();
    let out = daemon.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    Some(Bus {
        daemon,
        socket,
        _folder: folder,
    })
}

#[test]
fn session_bus_carries_the_notification() {
    let Some(session) = session() else {
        return eprintln!("SKIPPED: desktop notification: there is no dbus-daemon");
    };
    // No desktop is there yet.
    assert!(bus::notify(&session.socket, "a", "b").is_err());
    let mut mock_desktop = bus::connect(&session.socket).unwrap();
    let mut arguments = bus::Bytes::default();
    arguments.text("org.freedesktop.Notifications");
    arguments.u32(0);
    let name = "org.freedesktop.DBus";
    let names = [name, "/org/freedesktop/DBus", name, "RequestName"];
    let request = bus::call(2, names, "su", &arguments.0);
    mock_desktop.write_all(&request).unwrap();
    bus::read_reply(&mut mock_desktop, 2).unwrap();
    let socket = session.socket.clone();
    let caller =
        std::thread::spawn(move || bus::notify(&socket, "A file from lima", "a.txt, 3 MB"));
    let message = loop {
        let message = bus::read_message(&mut mock_desktop).unwrap();
        if message.windows(6).any(|bytes| bytes == b"Notify") {
            break message;
        }
    };
    let text = String::from_utf8_lossy(&message).into_owned();
    assert!(text.contains("A file from lima"), "{text}");
    assert!(text.contains("a.txt, 3 MB"), "{text}");
    drop(mock_desktop);
    // It went without an answer.
    assert!(caller.join().unwrap().is_err());
}
