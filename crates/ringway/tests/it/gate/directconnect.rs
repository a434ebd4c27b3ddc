//! Direct Connect: EiskaltDC++ at the client and at the server, and a hub outside.
//!
//! Names, bytes and messages are not read: a policy that asks for them is refused.

use std::fs;
use std::net::SocketAddr;

use ringway_testbed::{Eiskalt, Running, start_uhub};
use serde_json::Value;

use super::beside::{
    BRIEFLY, Job, SLOW, Tested, all, border_with, comes_at, refused, slowed, stays_blocked, until,
    until_open, up_to_shape,
};
use super::border::{Border, SERVER};
use super::both::{Compared, GatePath, on_both};
use crate::random_bytes;

const PROGRAMS: [&str; 3] = ["uhub", "eiskaltdcpp-daemon", "curl"];
const HUB: u16 = 1_511;
const FILE: usize = 300_000;
/// More than comes while a class is measured.
const LONG: usize = 24 << 20;

/// Alice is at the client, Bob, who shares a file, at the server.
struct Share {
    alice: Eiskalt,
    bob: Eiskalt,
    bytes: Vec<u8>,
    _hub: Running,
}

impl Share {
    /// Bob is in the hub with his file; Alice has asked to be let in.
    fn begin(border: &Border, size: usize) -> Tested<Share> {
        let hub: SocketAddr = format!("{SERVER}:{HUB}").parse()?;
        let folder = border.folder.path();
        let running = start_uhub(&border.server, folder, HUB)?;
        until_open(border, hub)?;
        let bytes = random_bytes("directconnect", size);
        fs::create_dir_all(folder.join("bob/shared"))?;
        fs::write(folder.join("bob/shared/film.mpg"), &bytes)?;
        let bob = Eiskalt::start(&border.server, folder, ("bob", 'M'), hub)?;
        let alice = Eiskalt::start(&border.client, folder, ("alice", 'L'), hub)?;
        until(
            "the file is not hashed",
            || bob.log(),
            || {
                bob.shares().is_ok_and(|list| {
                    // In KiB or MiB, with two places.
                    let [whole, rest] = match size {
                        LONG => [24, 0],
                        _ => [292, 97],
                    };
                    list.contains(&format!("{whole}.{rest:02} "))
                })
            },
        )?;
        bob.enter()?;
        until(
            "Bob is not let in",
            || bob.log(),
            || bob.sees("bob").is_ok_and(|sees| sees),
        )?;
        until(
            "Alice takes no orders",
            || alice.log(),
            || alice.enter().is_ok(),
        )?;
        Ok(Share {
            alice,
            bob,
            bytes,
            _hub: running,
        })
    }

    /// Alice asks Bob for his file.
    fn ask(&self) -> Tested {
        self.meet()?;
        self.alice.ask_for_list("bob")?;
        let log = || self.alice.log();
        until("no list comes", log, || self.alice.list().is_some())?;
        let list = self.alice.list().unwrap_or_default();
        until("the list has no film", log, || {
            self.alice.ask_for(&list, "film.mpg").is_ok()
        })
    }

    fn meet(&self) -> Tested {
        until(
            "Alice does not meet Bob",
            || self.alice.log(),
            || self.alice.sees("bob").is_ok_and(|sees| sees),
        )?;
        until(
            "Bob does not meet Alice",
            || self.bob.log(),
            || self.bob.sees("alice").is_ok_and(|sees| sees),
        )
    }
}

fn is(event: &Value, rule: &str, action: &str) -> bool {
    event["ringway"]["rule"] == rule
        && event["ringway"]["action"] == action
        && event["ringway"]["app"] == "directconnect"
}

#[test]
fn files_of_eiskaltdcpp_come_through_where_they_may() -> Tested {
    all(vec![on_both("Direct Connect, audited", audited)])
}

fn audited(path: GatePath) -> Compared {
    let Some(mut border) = border_with("Direct Connect, audited", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"seen\"\napp = \"directconnect\"\naction = \"audit\"\n",
        &["--enforce"],
    );
    let share = Share::begin(&border, FILE)?;
    share.ask()?;
    let log = || share.alice.log();
    until("the file does not come", log, || {
        share
            .alice
            .taken("film.mpg")
            .is_some_and(|taken| taken == share.bytes)
    })?;
    border.audit_when(|events| {
        let mut seen = events.iter().filter(|event| is(event, "seen", "allowed"));
        let mut also = events.iter().filter(|event| is(event, "seen", "allowed"));
        seen.any(|event| event["dest_port"] == HUB) && also.any(|event| event["dest_port"] != HUB)
    });
    border.seen()
}

fn blocked_hub(path: GatePath) -> Compared {
    let Some(mut border) = border_with("a hub of Direct Connect, blocked", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"no-hubs\"\napp = \"directconnect\"\naction = \"block\"\n",
        &BRIEFLY,
    );
    let share = Share::begin(&border, FILE)?;
    let alice = &share.alice;
    stays_blocked(
        || refused(&border, |event| event["dest_port"] == HUB),
        || {
            alice
                .sees("bob")
                .is_ok_and(|sees| sees)
                .then(|| alice.log())
        },
        // One that is in the list of hubs already calls by itself.
        || {
            alice.enter().ok();
            Ok(())
        },
    )?;
    border.audit_when(|events| events.iter().any(|event| is(event, "no-hubs", "blocked")));
    border.seen_again()
}

fn blocked_files(path: GatePath) -> Compared {
    let Some(mut border) = border_with("files of Direct Connect, blocked", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"hubs\"\napp = \"directconnect\"\nport = 1511\naction = \"allow\"\n\
         [[rule]]\nname = \"no-files\"\napp = \"directconnect\"\naction = \"block\"\n",
        &BRIEFLY,
    );
    let share = Share::begin(&border, FILE)?;
    share.meet()?;
    let alice = &share.alice;
    stays_blocked(
        || refused(&border, |event| event["dest_port"] != HUB),
        || alice.list().is_some().then(|| alice.log()),
        || Ok(alice.ask_for_list("bob")?),
    )?;
    border.audit_when(|events| {
        let mut blocked = events
            .iter()
            .filter(|event| is(event, "no-files", "blocked"));
        blocked.any(|event| event["dest_port"] != HUB)
    });
    border.seen_again()
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    vec![
        on_both("a blocked hub", blocked_hub),
        on_both("blocked files of eiskaltdcpp", blocked_files),
    ]
}

/// A file comes as fast as its class lets it.
pub(super) fn shaped(path: GatePath) -> Compared {
    let Some(mut border) = border_with("Direct Connect, shaped", &PROGRAMS, path) else {
        return Ok(None);
    };
    up_to_shape(&mut border, &slowed("directconnect"));
    let share = Share::begin(&border, LONG)?;
    share.ask()?;
    comes_at(SLOW, &border, || share.alice.log())?;
    border.seen()
}
