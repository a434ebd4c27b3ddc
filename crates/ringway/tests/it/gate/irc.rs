//! Internet Relay Chat: irssi inside, irssi outside, ngIRCd between them outside; files go from one
//! irssi to the other (DCC).
//!
//! What is said has no rate of its own: of classes it is the files that are measured.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use ringway_testbed::{Irssi, Running, start_ngircd};
use serde_json::Value;

use super::beside::{
    BRIEFLY, Job, SLOW, Tested, all, border_with, comes_at, every, never, refused, slowed,
    stays_blocked, until, up_to_shape, without, wrong,
};
use super::border::{Border, SERVER, file_of};
use super::both::{Compared, GatePath, on_both};
use super::malware;
use crate::random_bytes;

const PROGRAMS: [&str; 3] = ["ngircd", "irssi", "python3"];
/// Rules on what is said.
const TALK: &str = "[[rule]]\nname = \"word\"\napp = \"irc\"\nkeyword = \"nightingale\"\naction = \"block\"\naudit = true\n\
     [[rule]]\nname = \"seen\"\napp = \"irc\"\naction = \"audit\"\naudit_text = true\n";
/// More than comes while a class is measured.
const LONG: usize = 24 << 20;
/// Time between two offers of a file.
const AGAIN: Duration = Duration::from_secs(6);

/// Alice is at the client, Bob at the server.
struct Talk {
    alice: Irssi,
    bob: Irssi,
    _server: Running,
}

impl Talk {
    /// Both in the channel. A client that is thrown out stays out: whether it reconnects before the
    /// end would be a matter of time.
    fn begin(border: &Border) -> Tested<Talk> {
        let mut talk = Talk::start(border)?;
        for who in [&mut talk.alice, &mut talk.bob] {
            until("no welcome", || who.log(), || who.has_shown("End of MOTD"))?;
            who.say("/set server_reconnect_time 1hour")?;
            who.enter()?;
            until(
                "not in the channel",
                || who.log(),
                || who.log().contains("Total of"),
            )?;
        }
        Ok(talk)
    }

    /// Both call the server.
    fn start(border: &Border) -> Tested<Talk> {
        let server: SocketAddr = format!("{SERVER}:6667").parse()?;
        let folder = border.folder.path();
        let ngircd = start_ngircd(&border.server, folder, server)?;
        super::beside::until_open(border, server)?;
        Ok(Talk {
            alice: Irssi::start(&border.client, folder, "alice", server)?,
            bob: Irssi::start(&border.server, folder, "bob", server)?,
            _server: ngircd,
        })
    }
}

fn of<'a>(events: &'a [Value], rule: &'a str) -> impl Iterator<Item = &'a Value> {
    let alike = move |event: &&Value| event["ringway"]["rule"] == rule;
    events.iter().filter(alike)
}

fn conversation(path: GatePath) -> Compared {
    let Some(mut border) = border_with("a conversation over IRC", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(TALK, &["--enforce"]);
    let mut talk = Talk::begin(&border)?;
    talk.alice.say("good morning")?;
    until(
        "the first message does not come",
        || talk.bob.log(),
        || talk.bob.log().contains("alice> good morning"),
    )?;
    talk.bob.say("/msg alice good evening")?;
    until(
        "the answer does not come",
        || talk.alice.log(),
        || talk.alice.log().contains("bob> good evening"),
    )?;
    talk.alice.say("tell them about the Nightingale")?;
    let bob = &talk.bob;
    never(
        Duration::from_secs(5),
        "the word came through",
        || bob.log(),
        || bob.log().to_lowercase().contains("nightingale"),
    )?;
    border.audit_when(|events| {
        let mut said =
            of(events, "seen").filter_map(|event| event["ringway"]["message"]["text"].as_str());
        let mut stopped =
            of(events, "word").filter(|event| event["ringway"]["message"].is_object());
        said.any(|text| text == "good morning")
            && stopped.any(|event| {
                event["ringway"]["action"] == "blocked"
                    && event["ringway"]["message"]["to"] == "#talk"
            })
    });
    border.seen()
}

/// The word comes from outside.
fn heard(path: GatePath) -> Compared {
    let Some(mut border) = border_with("a word from outside over IRC", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(TALK, &["--enforce"]);
    let mut talk = Talk::begin(&border)?;
    talk.bob.say("good evening")?;
    until(
        "the first message does not come",
        || talk.alice.log(),
        || talk.alice.log().contains("bob> good evening"),
    )?;
    talk.bob.say("I have heard the Nightingale")?;
    let alice = &talk.alice;
    never(
        Duration::from_secs(5),
        "the word came through",
        || alice.log(),
        || alice.log().to_lowercase().contains("nightingale"),
    )?;
    border.audit_when(|events| {
        of(events, "word").any(|event| {
            event["ringway"]["message"].is_object() && event["ringway"]["action"] == "blocked"
        })
    });
    border.seen()
}

fn blocked(path: GatePath) -> Compared {
    let Some(mut border) = border_with("IRC that is blocked", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"no-chat\"\napp = \"irc\"\naction = \"block\"\n",
        &BRIEFLY,
    );
    let talk = Talk::start(&border)?;
    until(
        "Bob is not let in",
        || talk.bob.log(),
        || talk.bob.has_shown("End of MOTD"),
    )?;
    let alice = &talk.alice;
    stays_blocked(
        || refused(&border, |event| event["dest_port"] == 6_667),
        || alice.has_shown("End of MOTD").then(|| alice.log()),
        || Ok(()),
    )?;
    border.audit_when(|events| {
        of(events, "no-chat").any(|event| event["ringway"]["action"] == "blocked")
    });
    border.seen_again()
}

/// Bob sends a file to Alice.
fn send(border: &Border, talk: &mut Talk, name: &str, bytes: &[u8]) -> Tested {
    fs::write(border.folder.path().join(name), bytes)?;
    talk.bob
        .say(&format!("/dcc send alice {}", border.path(name)))?;
    Ok(())
}

/// The conversation goes on, and no file comes of it.
fn blocked_files(path: GatePath) -> Compared {
    let Some(mut border) = border_with("files over IRC, blocked", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"no-files\"\napp = \"dcc\"\naction = \"block\"\n",
        &BRIEFLY,
    );
    let mut talk = Talk::begin(&border)?;
    let path = border.path("film.mpg");
    fs::write(&path, random_bytes("dcc", 300_000))?;
    let Talk { alice, bob, .. } = &mut talk;
    let mut offer = || {
        bob.say("/dcc close send alice")?;
        Ok(bob.say(&format!("/dcc send alice {path}"))?)
    };
    offer()?;
    stays_blocked(
        || refused(&border, |event| event["dest_port"] != 6_667),
        || {
            let taken = fs::metadata(alice.taken("film.mpg")).map_or(0, |file| file.len());
            (taken > 0).then(|| format!("{taken} bytes"))
        },
        every(AGAIN, offer),
    )?;
    border.audit_when(|events| {
        of(events, "no-files").any(|event| event["ringway"]["action"] == "blocked")
    });
    talk.alice.say("no film yet")?;
    until(
        "the conversation is over",
        || talk.bob.log(),
        || talk.bob.log().contains("alice> no film yet"),
    )?;
    border.seen_again()
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    vec![
        on_both("blocked IRC", blocked),
        on_both("blocked files over IRC", blocked_files),
    ]
}

/// A file comes as fast as its class lets it.
pub(super) fn shaped(path: GatePath) -> Compared {
    let Some(mut border) = border_with("files over IRC, shaped", &PROGRAMS, path) else {
        return Ok(None);
    };
    up_to_shape(&mut border, &slowed("dcc"));
    let mut talk = Talk::begin(&border)?;
    send(&border, &mut talk, "film.mpg", &random_bytes("dcc", LONG))?;
    comes_at(SLOW, &border, || talk.alice.log())?;
    border.seen()
}

/// Of the conversation itself nothing is asked; the offers in it are read all the same.
pub(super) const FILES: &str =
    "[[rule]]\nname = \"scan\"\napp = \"dcc\"\naction = \"scan\"\naudit = true\n";

fn files(path: GatePath) -> Compared {
    files_by(("files over IRC", FILES), path, |_| Ok(()))
}

/// Files are scanned and written down by this policy; `ended` looks at the gateway behind that.
pub(super) fn files_by(
    (test, policy): (&str, &str),
    path: GatePath,
    ended: impl Fn(&Border) -> Tested,
) -> Compared {
    let Some(mut border) = border_with(test, &PROGRAMS, path) else {
        return Ok(None);
    };
    let Some(clamd) = malware::scanner()? else {
        return without(test, "clamd");
    };
    let socket = clamd.socket();
    border.up(policy, &["--enforce", "--clamd", &socket.to_string_lossy()]);
    let mut talk = Talk::begin(&border)?;
    let clean = random_bytes("dcc", 300_000);
    send(&border, &mut talk, "film.mpg", &clean)?;
    let taken = talk.alice.taken("film.mpg");
    until(
        "the clean file does not come",
        || talk.alice.log(),
        || fs::read(&taken).is_ok_and(|bytes| bytes == clean),
    )?;
    border.audit_when(|events| {
        of(events, "scan").any(|event| {
            file_of(event)["filename"] == "film.mpg" && file_of(event)["sha256"].is_string()
        })
    });
    for (number, (found, bytes)) in malware::files().into_iter().enumerate() {
        let name = format!("spoilt{number}.mpg");
        send(&border, &mut talk, &name, &bytes)?;
        border.audit_when(|events| {
            of(events, "scan").any(|event| {
                let told = event["ringway"]["found"].as_str();
                file_of(event)["filename"] == name.as_str()
                    && told.is_some_and(|told| told.contains(found))
            })
        });
        let arrived = fs::metadata(talk.alice.taken(&name)).map_or(0, |file| file.len());
        if arrived >= u64::try_from(bytes.len())? {
            return wrong(format!("all of {name} arrived, with {found}"));
        }
    }
    ended(&border)?;
    border.seen()
}

fn names(path: GatePath) -> Compared {
    let Some(mut border) = border_with("names of files over IRC", &PROGRAMS, path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"names\"\napp = \"dcc\"\nfile_name = \"*.exe\"\naction = \"block\"\naudit = true\n",
        &["--enforce"],
    );
    let mut talk = Talk::begin(&border)?;
    let bytes = random_bytes("dcc", 300_000);
    send(&border, &mut talk, "notes.txt", &bytes)?;
    let taken = talk.alice.taken("notes.txt");
    until(
        "the text does not come",
        || talk.alice.log(),
        || fs::read(&taken).is_ok_and(|taken| taken == bytes),
    )?;
    // The offer is what is refused: the conversation ends with it.
    send(&border, &mut talk, "setup.exe", &bytes)?;
    border.audit_when(|events| {
        of(events, "names").any(|event| {
            file_of(event)["filename"] == "setup.exe" && event["ringway"]["action"] == "blocked"
        })
    });
    let arrived = fs::metadata(talk.alice.taken("setup.exe")).map_or(0, |file| file.len());
    match arrived {
        0 => border.seen(),
        _ => wrong(format!("{arrived} bytes of the program arrived")),
    }
}

/// Audited, stopped at a keyword, refused by name, scanned.
#[test]
fn irssi_messages_and_files_follow_the_policy() -> Tested {
    all(vec![
        on_both("conversation", conversation),
        on_both("heard", heard),
        on_both("files", files),
        on_both("names", names),
    ])
}
