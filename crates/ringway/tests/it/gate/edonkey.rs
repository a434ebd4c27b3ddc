//! eDonkey: aMule at the client, aMule at the server, in the clear and obfuscated.
//!
//! Files have no names and no bytes here that rules could ask for: their pieces come in any order,
//! and a policy that asks is refused.

use std::cell::{Cell, RefCell};
use std::fs;
use std::net::SocketAddrV4;
use std::time::Duration;

use ringway_testbed::{Amule, Source, edonkey_link, serve_edonkey};
use serde_json::Value;

use super::beside::{
    BRIEFLY, Job, Tested, all, border_with, every, held_to, on_wire, refused, slowed,
    stays_blocked, until_within, up_to_shape, wrong,
};
use super::border::{Border, CLIENT, SERVER};
use super::both::on_both;
use crate::random_bytes;

const PROGRAMS: [&str; 2] = ["amuled", "alcc"];
const PORT: u16 = 4_662;
/// aMule begins to send slowly.
const FILE: usize = 60_000;
/// More than comes while a class is measured.
const LONG: usize = 4 << 20;
/// aMule sends no faster than two hundred kilobits a second to somebody new, and less at first.
const SLOWER: f64 = 64e3;
/// Seconds until it has begun, and to measure: both within its first block.
const IN_A_BLOCK: [f64; 2] = [6.0, 12.0];
/// More bytes than all that two programs say to each other and to the server without any of a file,
/// until both are restarted.
const HELLOS: u64 = 30_000;
/// aMule that was sent away asks again after many minutes: it is restarted after this time.
const RESTART_AFTER: Duration = Duration::from_secs(16);
/// It is let in, asks for sources, and waits for its turn.
const SOON: Duration = Duration::from_secs(60);
/// aMule that has asked too early or was sent away asks again after many minutes: then both
/// are restarted.
const ATTEMPTS: usize = 4;
/// What is said to the server passes: it only tells that this host takes part, which is all that
/// gives an obfuscated connection away.
const BLOCK: &str = "[[rule]]\nname = \"servers\"\napp = \"edonkey\"\nport = 4661\naction = \"allow\"\n\
    [[rule]]\nname = \"no-donkeys\"\napp = \"edonkey\"\naction = \"block\"\n";

/// Two programs, each with a server: the one that fetches uses one outside, so that the gateway
/// sees it.
struct Pair {
    fetch: Amule,
    _share: Amule,
    bytes: Vec<u8>,
}

/// The server, on the outside host.
fn serve(border: &Border, obfuscated: bool) -> Tested {
    let server: SocketAddrV4 = format!("{SERVER}:4661").parse()?;
    let place = format!("{SERVER}:{PORT}").parse()?;
    serve_edonkey(&border.server, server, Source { place, obfuscated })?;
    Ok(())
}

impl Pair {
    /// Until it is as wanted, with a new pair when that takes too long.
    fn until(
        border: &Border,
        (obfuscated, size): (bool, usize),
        what: &str,
        wanted: impl Fn(&Pair) -> bool,
    ) -> Tested<Pair> {
        serve(border, obfuscated)?;
        let mut failed = None;
        for attempt in 0..ATTEMPTS {
            let pair = Pair::start(border, obfuscated, attempt, size)?;
            match until_within(SOON, what, || pair.fetch.log(), || wanted(&pair)) {
                Ok(()) => return Ok(pair),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| what.into()))
    }

    fn start(border: &Border, obfuscated: bool, attempt: usize, size: usize) -> Tested<Pair> {
        let bytes = random_bytes("edonkey", size);
        let folder = border.folder.path().join(format!("share-{attempt}"));
        fs::create_dir_all(folder.join("Incoming"))?;
        let file = folder.join("Incoming/film.mpg");
        fs::write(&file, &bytes)?;
        let link = edonkey_link(&file)?;
        let server: SocketAddrV4 = format!("{SERVER}:4661").parse()?;
        let share = Amule::start(&border.server, &folder, PORT, (server, obfuscated, None))?;
        let folder = border.folder.path().join(format!("fetch-{attempt}"));
        let fetch = (server, obfuscated, Some(link.as_str()));
        Ok(Pair {
            fetch: Amule::start(&border.client, &folder, PORT, fetch)?,
            _share: share,
            bytes,
        })
    }

    fn has_all(&self) -> bool {
        let fetched = self.fetch.fetched("film.mpg");
        fetched.is_some_and(|bytes| bytes == self.bytes)
    }
}

/// Something was written down of a connection between the two themselves.
fn between(event: &Value, rule: &str, obfuscated: bool) -> bool {
    let evidence = event["ringway"]["evidence"].as_str().unwrap_or_default();
    event["ringway"]["rule"] == rule
        && evidence.contains("behaviour.encrypted") == obfuscated
        && event["ringway"]["app"] == "edonkey"
        && event["dest_port"] == PORT
        && (event["dest_ip"] == SERVER || event["dest_ip"] == CLIENT)
}

fn audited(obfuscated: bool) -> Job<'static> {
    let name = format!("audited, obfuscated {obfuscated}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        border.up(
            "[[rule]]\nname = \"seen\"\napp = \"edonkey\"\naction = \"audit\"\n",
            &["--enforce"],
        );
        let file = (obfuscated, FILE);
        let _pair = Pair::until(&border, file, "it is not whole", Pair::has_all)?;
        border.audit_when(|events| {
            events
                .iter()
                .any(|event| between(event, "seen", obfuscated))
        });
        border.seen()
    })
}

fn blocked(obfuscated: bool) -> Job<'static> {
    let name = format!("blocked aMule, obfuscated {obfuscated}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        border.up(BLOCK, &BRIEFLY);
        let stopped = |event: &Value| {
            between(event, "no-donkeys", obfuscated) && event["ringway"]["action"] == "blocked"
        };
        let file = (obfuscated, FILE);
        let pair = Pair::until(&border, file, "nothing is stopped", |_| {
            border.audit().iter().any(stopped)
        })?;
        let (pair, attempt) = (RefCell::new(Some(pair)), Cell::new(ATTEMPTS));
        // What earlier pairs said is no part of a file either; there are more of them on a busy
        // machine.
        let before = Cell::new(on_wire(&border)?);
        let restart = || {
            // The ports are the same ones.
            pair.take();
            before.set(on_wire(&border)?);
            attempt.set(attempt.get() + 1);
            pair.replace(Some(Pair::start(&border, obfuscated, attempt.get(), FILE)?));
            Ok(())
        };
        stays_blocked(
            || refused(&border, |event| event["dest_port"] == PORT),
            // What has come lies in memory for a while. All that came of the file and the talk is
            // less than the file.
            || {
                let came = on_wire(&border).map_or(0, |all| all.saturating_sub(before.get()));
                (came > HELLOS).then(|| format!("{came} bytes: {}", border.status()))
            },
            every(RESTART_AFTER, restart),
        )?;
        border.seen_again()
    })
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    vec![blocked(false), blocked(true)]
}

/// The file comes as fast as its class lets it.
fn shaped(obfuscated: bool) -> Job<'static> {
    let name = format!("shaped aMule, obfuscated {obfuscated}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = border_with(&name, &PROGRAMS, path) else {
            return Ok(None);
        };
        let policy = slowed("edonkey").replace("500 k", "64 k");
        up_to_shape(&mut border, &format!("{policy}audit = true\n"));
        serve(&border, obfuscated)?;
        let known = || {
            let audit = border.audit();
            let slow = audit
                .iter()
                .filter(|event| between(event, "slow", obfuscated));
            slow.count()
        };
        for attempt in 0..ATTEMPTS {
            // Not every connection that is obfuscated is known as such, and aMule may end one after
            // its first block (180 kB) and come back after minutes: another pair does
            // it then.
            let before = known();
            let pair = Pair::start(&border, obfuscated, attempt, LONG)?;
            let log = || pair.fetch.log();
            let shaped = until_within(SOON, "nothing is shaped", log, || known() > before);
            if shaped.is_ok() && held_to(SLOWER, IN_A_BLOCK, &border.client, log)? {
                return border.seen();
            }
        }
        wrong("no connection had the rate of its class")
    })
}

/// Those that get a class of their own.
pub(super) fn all_shaped() -> Vec<Job<'static>> {
    vec![shaped(false), shaped(true)]
}

#[test]
fn files_of_amule_come_through_where_they_may() -> Tested {
    all(vec![audited(false), audited(true)])
}
