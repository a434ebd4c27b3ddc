//! eDonkey: aMule at the client, aMule at the server, in the clear and obfuscated.

use std::fs;
use std::net::SocketAddrV4;
use std::time::Duration;

use ringway_testbed::{Amule, Source, edonkey_link, serve_edonkey};
use serde_json::Value;

use super::beside::{Job, Tested, all, border_with, job, never, until_within};
use super::border::{Border, CLIENT, SERVER};
use crate::random_bytes;

const PROGRAMS: [&str; 2] = ["amuled", "alcc"];
const PORT: u16 = 4_662;
/// aMule begins to send slowly.
const FILE: usize = 60_000;
const WATCHED: Duration = Duration::from_secs(25);
/// It is let in, asks for sources, and waits for its turn.
const SOON: Duration = Duration::from_secs(60);
/// aMule that has asked too early or was sent away asks again after many minutes: then both begin anew.
const ATTEMPTS: usize = 4;
/// What is said to the server passes: it only tells that this host takes part, which is all that gives an obfuscated connection away.
const BLOCK: &str = "[[rule]]\nname = \"servers\"\napp = \"edonkey\"\nport = 4661\naction = \"allow\"\n\
    [[rule]]\nname = \"no-donkeys\"\napp = \"edonkey\"\naction = \"block\"\n";

/// Two programs, each with a server: the one that fetches uses one outside, so that the gateway sees it.
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
        obfuscated: bool,
        what: &str,
        wanted: impl Fn(&Pair) -> bool,
    ) -> Tested<Pair> {
        serve(border, obfuscated)?;
        let mut failed = None;
        for attempt in 0..ATTEMPTS {
            let pair = Pair::start(border, obfuscated, attempt)?;
            match until_within(SOON, what, || pair.fetch.log(), || wanted(&pair)) {
                Ok(()) => return Ok(pair),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| what.into()))
    }

    fn start(border: &Border, obfuscated: bool, attempt: usize) -> Tested<Pair> {
        let bytes = random_bytes("edonkey", FILE);
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
    let evidence = event["alert"]["evidence"].as_str().unwrap_or_default();
    event["alert"]["signature"] == rule
        && evidence.contains("behaviour.encrypted") == obfuscated
        && event["app_proto"] == "edonkey"
        && event["dest_port"] == PORT
        && (event["dest_ip"] == SERVER || event["dest_ip"] == CLIENT)
}

fn audited(obfuscated: bool) -> Job<'static> {
    let name = format!("audited, obfuscated {obfuscated}");
    job(name.clone(), move || {
        let Some(mut border) = border_with(&name, &PROGRAMS) else {
            return Ok(());
        };
        border.up(
            "[[rule]]\nname = \"seen\"\napp = \"edonkey\"\naction = \"audit\"\n",
            &["--enforce"],
        );
        let _pair = Pair::until(&border, obfuscated, "it is not whole", Pair::has_all)?;
        border.audit_when(|events| {
            events
                .iter()
                .any(|event| between(event, "seen", obfuscated))
        });
        Ok(())
    })
}

fn blocked(obfuscated: bool) -> Job<'static> {
    let name = format!("blocked, obfuscated {obfuscated}");
    job(name.clone(), move || {
        let Some(mut border) = border_with(&name, &PROGRAMS) else {
            return Ok(());
        };
        border.up(BLOCK, &["--enforce"]);
        let stopped = |event: &Value| {
            between(event, "no-donkeys", obfuscated) && event["alert"]["action"] == "blocked"
        };
        let pair = Pair::until(&border, obfuscated, "nothing is stopped", |_| {
            border.audit().iter().any(stopped)
        })?;
        never(
            WATCHED,
            "it came through",
            || pair.fetch.log(),
            || pair.has_all(),
        )
    })
}

#[test]
fn files_of_amule_come_through_where_they_may_and_nowhere_else() -> Tested {
    all(vec![
        audited(false),
        audited(true),
        blocked(false),
        blocked(true),
    ])
}
