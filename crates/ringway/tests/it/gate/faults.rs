//! A gateway that cannot keep up, or cannot write down what it does.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::beside::{Tested, until, wrong};
use super::border::{Border, SERVER};
use super::both::on_each;

const OPEN: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const CLOSED: &str = "[gateway]\nfailure = \"closed\"\n\
    [[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
/// More than a queue takes.
const PACKETS: usize = 40_000;

/// Sends more than the queue of a gateway that stands still takes; gives how many packets arrive
/// meanwhile, of which the receiver's buffer keeps the first few hundred.
fn passed_a_full_queue(border: &mut Border, port: u16) -> usize {
    let bound = border.server.enter(|| UdpSocket::bind((SERVER, port)));
    let server = bound.unwrap().unwrap();
    let bound = border.client.enter(|| UdpSocket::bind(("0.0.0.0", 0)));
    let client = bound.unwrap().unwrap();
    client.connect((SERVER, port)).unwrap();
    border.daemon().pause().unwrap();
    for _ in 0..PACKETS {
        // A full buffer of the sender's own is no answer.
        client.send(b"what comes past a full queue").ok();
    }
    let quiet = Duration::from_millis(500);
    server.set_read_timeout(Some(quiet)).unwrap();
    let arrived = std::iter::from_fn(|| server.recv(&mut [0; 64]).ok()).count();
    border.daemon().resume().unwrap();
    arrived
}

#[test]
fn full_queue_follows_the_active_policy() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a full queue", path) else {
            return Ok(());
        };
        border.up(OPEN, &["--enforce"]);
        border.status();
        assert!(passed_a_full_queue(&mut border, 9_001) > 0);
        let closed = border.file("closed.toml", CLOSED);
        let apply = |border: &Border, file: &std::path::Path| {
            let outcome = border.ask(&["apply", file.to_str().unwrap()]);
            assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        };
        apply(&border, &closed);
        assert_eq!(passed_a_full_queue(&mut border, 9_002), 0);
        let open = border.file("open.toml", OPEN);
        apply(&border, &open);
        assert!(passed_a_full_queue(&mut border, 9_003) > 0);
        // It is none the worse for it.
        assert_eq!(border.status()["queues"], 1);
        Ok(())
    })
}

/// A small disk; gone when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: PathBuf) -> Tested<Disk> {
        fs::create_dir(&folder)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k,mode=0700", "tmpfs"])
            .arg(&folder)
            .status()?;
        if mounted.success() {
            Ok(Disk(folder))
        } else {
            wrong("no tmpfs")
        }
    }

    /// Writes until nothing more goes in.
    fn fill(&self) -> Tested {
        let mut file = fs::File::create(self.filler())?;
        while file.write_all(&[0x5a; 1_024]).is_ok() {}
        Ok(())
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy one works while somebody still has a file open.
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

/// Opens a BitTorrent connection to a port; whether it was ended for it.
fn is_blocked(border: &Border, port: u16) -> Tested<bool> {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, port)))??;
    let mut stream = border
        .client
        .enter(|| TcpStream::connect((SERVER, port)))??;
    let (_other, _) = listener.accept()?;
    stream.write_all(&[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat())?;
    stream.set_read_timeout(Some(super::border::DEADLINE))?;
    let ended = std::io::Read::read(&mut stream, &mut [0; 8]);
    Ok(ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset))
}

/// Nor does it stop decisions.
#[test]
fn full_disk_stops_no_traffic_and_counts_losses() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a full disk", path) else {
            return Ok(());
        };
        let disk = Disk::mount(border.folder.path().join("state"))?;
        let eve = border.path("state/eve.json");
        border.up(OPEN, &["--enforce", "--eve", &eve]);
        if !is_blocked(&border, 9_011)? {
            return wrong("nothing is blocked");
        }
        border.audit_when(|events| events.len() == 1);
        disk.fill()?;
        // The database has some room of its own in its log.
        let mut port = 9_012;
        let lost = |border: &Border| {
            let status = border.status();
            let count = |key: &str| status[key].as_u64().unwrap_or(0);
            count("events_lost") + count("eve_lost")
        };
        while lost(&border) == 0 {
            if port > 9_400 {
                return wrong(format!("nothing is lost: {}", border.status()));
            }
            if !is_blocked(&border, port)? {
                return wrong("with a full disk nothing is blocked");
            }
            port += 1;
        }
        fs::remove_file(disk.filler())?;
        if !is_blocked(&border, port)? {
            return wrong("afterwards nothing is blocked");
        }
        let after = |event: &serde_json::Value| event["dest_port"] == port;
        let log = border.folder.path().join("gateway.log");
        let log = || fs::read_to_string(&log).unwrap_or_default();
        until("with room again nothing is written down", log, || {
            let state = border.path("state");
            let outcome = border
                .program()
                .run(["--json", "gate", "audit", "--state", &state]);
            let events = outcome.and_then(|outcome| outcome.objects());
            events.is_ok_and(|events| events.iter().any(after))
        })?;
        // No half line is left, by which readers would lose the next one too.
        for line in fs::read_to_string(&eve)?.lines() {
            serde_json::from_str::<serde_json::Value>(line)?;
        }
        Ok(())
    })
}
