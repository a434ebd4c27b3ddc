//! BitTorrent programs that people use: Transmission and aria2.
//!
//! Files have no names and no bytes here that rules could ask for: their pieces come in any order,
//! and a policy that asks is refused.

use std::cell::RefCell;
use std::fs;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use ringway_testbed::{Running, Torrent, Wire, serve_tracker};
use serde_json::Value;

use super::beside::{
    BRIEFLY, Job, SLOW, Tested, all, border_with, dropped, every, on_wire, reaches_or, refused,
    slowed, stays_blocked, until, until_open, up_to_shape, wrong,
};
use super::border::{Border, SERVER};
use super::both::on_both;
use crate::random_bytes;

const PROGRAMS: [&str; 3] = ["transmission-daemon", "transmission-create", "aria2c"];
/// The tracker outside may be asked.
const BLOCK: &str = "[[rule]]\nname = \"tracker\"\napp = \"bittorrent\"\nport = 6969\naction = \"allow\"\n\
     [[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const AUDIT: &str = "[[rule]]\nname = \"seen\"\napp = \"bittorrent\"\naction = \"audit\"\n";
const SEED: u16 = 7_001;
const FETCH: u16 = 7_002;
const FILE: usize = 1 << 20;
/// More than comes while a class is measured.
const LONG: usize = 24 << 20;
/// More bytes than all that the programs say to each other and to the trackers without any of a
/// file.
const TALK: u64 = 100_000;
/// More than comes before two connections, one in each time of `BRIEFLY`, are known by their
/// behaviour: that may take 64 packets (`MAX_UNDECIDED_PACKETS`), of up to 64 KiB where they are
/// joined.
pub(super) const GUESSED: u64 = 2 * 64 * 65_536;
/// A program that got nothing is restarted after this time: that is long enough for a connection to
/// be known by its behaviour.
pub(super) const RESTART_AFTER: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
enum Client {
    Transmission,
    Aria2,
}

impl Client {
    fn start(self, torrent: &Torrent, border: &Border, name: &str, wire: Wire) -> Tested<Running> {
        let (host, port) = match name {
            "seed" => (&border.server, SEED),
            _ => (&border.client, FETCH),
        };
        Ok(match self {
            Client::Transmission => torrent.transmission(host, name, port, wire)?,
            Client::Aria2 => torrent.aria2(host, name, port, wire)?,
        })
    }
}

/// A seed outside, somebody who fetches inside, and a tracker beside that one that names the seed.
struct Swarm {
    torrent: Torrent,
    _seed: Running,
    /// `None` only while the next one is started.
    fetch: Option<Running>,
    bytes: Vec<u8>,
}

impl Swarm {
    fn start(border: &Border, clients: [Client; 2], wire: Wire, size: usize) -> Tested<Swarm> {
        Swarm::with_trackers(border, clients, wire, (size, Vec::new()))
    }

    /// The same with further trackers, which are asked first.
    fn with_trackers(
        border: &Border,
        [seed, fetch]: [Client; 2],
        wire: Wire,
        (size, mut trackers): (usize, Vec<String>),
    ) -> Tested<Swarm> {
        let bytes = random_bytes("torrent", size);
        let peer: SocketAddrV4 = format!("{SERVER}:{SEED}").parse()?;
        trackers.push(serve_tracker(
            &border.client,
            "127.0.0.1:6969".parse()?,
            peer,
        )?);
        let torrent = Torrent::make(border.folder.path(), &bytes, &trackers)?;
        let running = seed.start(&torrent, border, "seed", wire)?;
        until_open(border, SocketAddr::V4(peer))?;
        Ok(Swarm {
            _seed: running,
            fetch: Some(fetch.start(&torrent, border, "fetch", wire)?),
            torrent,
            bytes,
        })
    }

    fn has_all(&self) -> bool {
        fs::read(self.torrent.file("fetch")).is_ok_and(|bytes| bytes == self.bytes)
    }

    /// Ends the program that fetches and starts it again.
    fn restart(&mut self, border: &Border, fetch: Client, wire: Wire) -> Tested {
        self.fetch.take();
        self.fetch = Some(fetch.start(&self.torrent, border, "fetch", wire)?);
        Ok(())
    }

    fn log(&self) -> String {
        self.fetch
            .as_ref()
            .map(Running::log_text)
            .unwrap_or_default()
    }
}

fn has(event: &Value, rule: &str, action: &str) -> bool {
    event["ringway"]["rule"] == rule
        && event["ringway"]["action"] == action
        && event["ringway"]["app"] == "bittorrent"
}

const TRANSMISSION: [Client; 2] = [Client::Transmission, Client::Transmission];
/// aria2 sends to newcomers at once, Transmission within ten seconds.
const FROM_ARIA2: [Client; 2] = [Client::Aria2, Client::Transmission];
const TO_ARIA2: [Client; 2] = [Client::Transmission, Client::Aria2];

fn allowed(clients: [Client; 2], wire: Wire) -> Job<'static> {
    let name = format!("allowed {clients:?} {wire:?}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        border.up(&BLOCK.replace("bittorrent", "edonkey"), &["--enforce"]);
        let swarm = Swarm::start(&border, clients, wire, FILE)?;
        until("it is not whole", || swarm.log(), || swarm.has_all())?;
        let status = border.status();
        match status["dropped"].as_u64() {
            Some(0) => border.seen(),
            _ => wrong(status.to_string()),
        }
    })
}

fn audited(clients: [Client; 2], wire: Wire) -> Job<'static> {
    let name = format!("audited {clients:?} {wire:?}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        border.up(AUDIT, &["--enforce"]);
        let outside = tracker_outside(&border)?;
        let swarm = Swarm::with_trackers(&border, clients, wire, (FILE, vec![outside]))?;
        until("it is not whole", || swarm.log(), || swarm.has_all())?;
        border.audit_when(|events| {
            let mut events = events.iter().filter(|event| has(event, "seen", "allowed"));
            events.any(|event| event["dest_port"] == u64::from(SEED))
        });
        border.seen()
    })
}

/// A tracker outside tells the gateway that this host takes part, which is all that there is to
/// tell of a connection that is encrypted.
fn tracker_outside(border: &Border) -> Tested<String> {
    Ok(serve_tracker(
        &border.server,
        format!("{SERVER}:6969").parse()?,
        format!("{SERVER}:{SEED}").parse()?,
    )?)
}

/// The programs try once or twice within a minute: restarted, they try more often.
fn blocked(clients: [Client; 2], wire: Wire) -> Job<'static> {
    let name = format!("blocked {clients:?} {wire:?}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        border.up(BLOCK, &BRIEFLY);
        let outside = tracker_outside(&border)?;
        // As they come they encrypt where both can.
        let (size, most) = match wire {
            Wire::Plain | Wire::Utp => (FILE, TALK),
            Wire::Encrypted | Wire::Usual => (LONG, GUESSED),
        };
        let swarm = Swarm::with_trackers(&border, clients, wire, (size, vec![outside]))?;
        let swarm = RefCell::new(swarm);
        let to_seed = |event: &Value| event["dest_port"] == SEED;
        stays_blocked(
            || match wire {
                Wire::Utp | Wire::Usual => dropped(&border) + refused(&border, to_seed),
                _ => refused(&border, to_seed),
            },
            // What has come lies in memory for a while.
            || {
                let came = on_wire(&border).unwrap_or(0);
                (came > most).then(|| format!("{came} bytes\n{}", swarm.borrow().log()))
            },
            every(RESTART_AFTER, || {
                swarm.borrow_mut().restart(&border, clients[1], wire)
            }),
        )?;
        border.audit_when(|events| {
            let mut events = events.iter().filter(|event| to_seed(event));
            events.any(|event| has(event, "no-torrents", "blocked"))
        });
        border.seen_again()
    })
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    vec![
        blocked(FROM_ARIA2, Wire::Plain),
        blocked(FROM_ARIA2, Wire::Encrypted),
        blocked(TRANSMISSION, Wire::Utp),
        blocked(TRANSMISSION, Wire::Usual),
        blocked(TO_ARIA2, Wire::Usual),
    ]
}

#[test]
fn transmission_and_aria2_torrents_pass_where_allowed() -> Tested {
    all(vec![
        allowed(FROM_ARIA2, Wire::Plain),
        allowed(FROM_ARIA2, Wire::Encrypted),
        allowed(TRANSMISSION, Wire::Utp),
        allowed(TO_ARIA2, Wire::Usual),
        audited(FROM_ARIA2, Wire::Plain),
        audited(FROM_ARIA2, Wire::Encrypted),
        audited(TRANSMISSION, Wire::Utp),
        audited(TO_ARIA2, Wire::Usual),
    ])
}

/// The file comes as fast as its class lets it.
fn shaped(clients: [Client; 2], wire: Wire) -> Job<'static> {
    let name = format!("shaped {clients:?} {wire:?}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        up_to_shape(&mut border, &slowed("bittorrent"));
        let outside = tracker_outside(&border)?;
        let swarm = Swarm::with_trackers(&border, clients, wire, (LONG, vec![outside]))?;
        let swarm = RefCell::new(swarm);
        // A program whose first calls fail calls again after minutes only.
        let log = || swarm.borrow().log();
        let restart = || swarm.borrow_mut().restart(&border, clients[1], wire);
        reaches_or(SLOW, &border.client, log, restart)?;
        border.seen()
    })
}

/// Those that get a class of their own.
pub(super) fn all_shaped() -> Vec<Job<'static>> {
    vec![
        shaped(FROM_ARIA2, Wire::Plain),
        shaped(FROM_ARIA2, Wire::Encrypted),
        shaped(TRANSMISSION, Wire::Utp),
        shaped(TO_ARIA2, Wire::Plain),
    ]
}
