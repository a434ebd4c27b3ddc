//! BitTorrent programs that people use: Transmission and aria2.

use std::fs;
use std::time::Duration;

use ringway_testbed::{Running, Torrent, Wire, serve_tracker};
use serde_json::Value;

use super::beside::{Job, Tested, all, border_with, comes_at, job, never, until, wrong};
use super::border::{Border, SERVER};
use crate::random_bytes;

const PROGRAMS: [&str; 3] = ["transmission-daemon", "transmission-create", "aria2c"];
const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const AUDIT: &str = "[[rule]]\nname = \"seen\"\napp = \"bittorrent\"\naction = \"audit\"\n";
const SEED: u16 = 7_001;
const FETCH: u16 = 7_002;
const FILE: usize = 1 << 20;

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
    fetch: Running,
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
        let peer = format!("{SERVER}:{SEED}").parse()?;
        trackers.push(serve_tracker(
            &border.client,
            "127.0.0.1:6969".parse()?,
            peer,
        )?);
        let torrent = Torrent::make(border.folder.path(), &bytes, &trackers)?;
        Ok(Swarm {
            _seed: seed.start(&torrent, border, "seed", wire)?,
            fetch: fetch.start(&torrent, border, "fetch", wire)?,
            torrent,
            bytes,
        })
    }

    fn has_all(&self) -> bool {
        fs::read(self.torrent.file("fetch")).is_ok_and(|bytes| bytes == self.bytes)
    }

    fn log(&self, border: &mut Border) -> String {
        format!("{}\n{}", self.fetch.log_text(), border.daemon().log_text())
    }
}

fn has(event: &Value, rule: &str, action: &str) -> bool {
    event["alert"]["signature"] == rule
        && event["alert"]["action"] == action
        && event["app_proto"] == "bittorrent"
}

const TRANSMISSION: [Client; 2] = [Client::Transmission, Client::Transmission];
/// aria2 sends to newcomers at once, Transmission within ten seconds.
const FROM_ARIA2: [Client; 2] = [Client::Aria2, Client::Transmission];
const TO_ARIA2: [Client; 2] = [Client::Transmission, Client::Aria2];

fn allowed(clients: [Client; 2], wire: Wire) -> Job<'static> {
    let name = format!("allowed {clients:?} {wire:?}");
    job(name.clone(), move || {
        let Some(mut border) = border_with(&name, &PROGRAMS) else {
            return Ok(());
        };
        border.up(&BLOCK.replace("bittorrent", "edonkey"), &["--enforce"]);
        let swarm = Swarm::start(&border, clients, wire, FILE)?;
        until(
            "it is not whole",
            || swarm.fetch.log_text(),
            || swarm.has_all(),
        )?;
        let status = border.status();
        match status["dropped"].as_u64() {
            Some(0) => Ok(()),
            _ => wrong(status.to_string()),
        }
    })
}

fn audited(clients: [Client; 2], wire: Wire) -> Job<'static> {
    let name = format!("audited {clients:?} {wire:?}");
    job(name.clone(), move || {
        let Some(mut border) = border_with(&name, &PROGRAMS) else {
            return Ok(());
        };
        border.up(AUDIT, &["--enforce"]);
        let swarm = Swarm::start(&border, clients, wire, FILE)?;
        until(
            "it is not whole",
            || swarm.fetch.log_text(),
            || swarm.has_all(),
        )?;
        border.audit_when(|events| events.iter().any(|event| has(event, "seen", "allowed")));
        Ok(())
    })
}

/// What is blocked is watched for so long; the programs try again every few seconds.
fn blocked(clients: [Client; 2], wire: Wire, watched: u64) -> Job<'static> {
    let name = format!("blocked {clients:?} {wire:?}");
    job(name.clone(), move || {
        let Some(mut border) = border_with(&name, &PROGRAMS) else {
            return Ok(());
        };
        border.up(BLOCK, &["--enforce"]);
        // A tracker outside tells the gateway that this host takes part, which is all that there is to tell of a connection
        // that is encrypted. It is blocked itself: the seed is known from elsewhere.
        let outside = serve_tracker(
            &border.server,
            format!("{SERVER}:6969").parse()?,
            format!("{SERVER}:{SEED}").parse()?,
        )?;
        let swarm = Swarm::with_trackers(&border, clients, wire, (FILE, vec![outside]))?;
        never(
            Duration::from_secs(watched),
            "the torrent came through",
            || swarm.fetch.log_text(),
            || swarm.has_all(),
        )?;
        let to_seed = |event: &Value| {
            has(event, "no-torrents", "blocked") && event["dest_port"] == u64::from(SEED)
        };
        border.audit_when(|events| events.iter().any(to_seed));
        Ok(())
    })
}

#[test]
fn torrents_of_transmission_and_aria2_come_through_where_they_may() -> Tested {
    all(vec![
        allowed(FROM_ARIA2, Wire::Plain),
        allowed(FROM_ARIA2, Wire::Encrypted),
        allowed(TO_ARIA2, Wire::Usual),
        audited(FROM_ARIA2, Wire::Plain),
        audited(TRANSMISSION, Wire::Utp),
    ])
}

#[test]
fn torrents_of_transmission_and_aria2_are_blocked_and_stay_blocked() -> Tested {
    all(vec![
        blocked(FROM_ARIA2, Wire::Plain, 20),
        blocked(FROM_ARIA2, Wire::Encrypted, 20),
        blocked(TRANSMISSION, Wire::Usual, 60),
        blocked(TO_ARIA2, Wire::Usual, 60),
    ])
}

#[test]
fn a_shaped_torrent_gets_the_rate_of_its_class() -> Tested {
    let Some(mut border) = border_with("a shaped torrent", &PROGRAMS) else {
        return Ok(());
    };
    border.up(
        "[classes.bulk]\nrate = \"16 Mbit/s\"\n[[rule]]\nname = \"slow\"\napp = \"bittorrent\"\n\
         action = \"shape\"\nclass = \"bulk\"\n",
        &["--enforce"],
    );
    let swarm = Swarm::start(&border, FROM_ARIA2, Wire::Plain, 40 << 20)?;
    let outcome = comes_at(16e6, &border, || swarm.fetch.log_text());
    outcome.map_err(|error| format!("{error}\n{}", swarm.log(&mut border)).into())
}
