//! XMPP: people inside, Bob and Prosody outside; files go within the conversation (XEP-0047) or by
//! the server's proxy (XEP-0065).
//!
//! What is said has no rate of its own, and a file within the conversation waits for an answer
//! after each block: of classes it is files by the proxy that are measured. A name stands in the
//! same offer, whichever way the file goes.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringway_testbed::{Running, Talker, start_prosody};
use serde_json::Value;

use super::beside::{
    BRIEFLY, SLOW, Tested, all, border_with, comes_at, never, refused, slowed, stays_blocked,
    until, until_open, up_to_shape, without, wrong,
};
use super::border::{Border, SERVER, file_of, skipped};
use super::both::{Compared, GatePath, on_both};
use super::malware;
use crate::random_bytes;

const FILE: usize = 150_000;
/// More than comes while a class is measured.
const LONG: usize = 24 << 20;

/// A border, if there are the server and the library. `None`: something is missing here, and stderr
/// says so.
fn border(test: &str, path: GatePath) -> Option<Border> {
    let there = Command::new("/usr/bin/python3")
        .args(["-c", "import slixmpp"])
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return skipped(test, "python3-slixmpp");
    }
    border_with(test, &["prosody"], path)
}

/// People at the client, Bob at the server.
struct Talk {
    inside: Vec<Talker>,
    bob: Talker,
    _server: Running,
}

impl Talk {
    /// All are signed in.
    fn begin(border: &Border, people: usize) -> Tested<Talk> {
        let talk = Talk::start(border, people)?;
        for (number, who) in talk.inside.iter().enumerate() {
            let ready = format!("ready {}", Talker::address(&name(number)));
            until("not signed in", || who.told(), || who.has_told(&ready))?;
        }
        Ok(talk)
    }

    /// Bob is signed in, the others call the server.
    fn start(border: &Border, people: usize) -> Tested<Talk> {
        let server: SocketAddr = format!("{SERVER}:5222").parse()?;
        let folder = border.folder.path();
        let mut names: Vec<String> = (0..people).map(name).collect();
        names.push("bob".to_owned());
        let prosody = start_prosody(&border.server, folder, server, &names)?;
        until_open(border, server)?;
        let bob = Talker::start(&border.server, folder, "bob", server)?;
        let ready = format!("ready {}", Talker::address("bob"));
        until(
            "Bob is not signed in",
            || bob.told(),
            || bob.has_told(&ready),
        )?;
        let inside = (0..people)
            .map(|number| Talker::start(&border.client, folder, &name(number), server))
            .collect::<Result<_, _>>()?;
        Ok(Talk {
            inside,
            bob,
            _server: prosody,
        })
    }
}

fn name(number: usize) -> String {
    format!("alice{number}")
}

fn of<'a>(events: &'a [Value], rule: &'a str) -> impl Iterator<Item = &'a Value> {
    let alike = move |event: &&Value| event["ringway"]["rule"] == rule;
    events
        .iter()
        .filter(alike)
        .filter(|event| event["ringway"]["app"] == "xmpp")
}

fn conversation(path: GatePath) -> Compared {
    let Some(mut border) = border("a conversation over XMPP", path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"word\"\napp = \"xmpp\"\nkeyword = \"nightingale\"\naction = \"block\"\naudit = true\n\
         [[rule]]\nname = \"seen\"\napp = \"xmpp\"\naction = \"audit\"\naudit_text = true\n",
        &["--enforce"],
    );
    // Who says or receives the word is cut off: the second one receives it.
    let mut talk = Talk::begin(&border, 2)?;
    let bob = &talk.bob;
    talk.inside[0].say("bob", "good morning")?;
    until(
        "the first message does not come",
        || bob.told(),
        || bob.has_told("message good morning"),
    )?;
    talk.inside[0].say("bob", "tell them about the Nightingale")?;
    never(
        Duration::from_secs(5),
        "the word came through",
        || bob.told(),
        || bob.told().contains("Nightingale"),
    )?;
    border.audit_when(|events| {
        let mut said =
            of(events, "seen").filter_map(|event| event["ringway"]["message"]["text"].as_str());
        let mut stopped =
            of(events, "word").filter(|event| event["ringway"]["message"].is_object());
        said.any(|text| text == "good morning")
            && stopped.any(|event| event["ringway"]["action"] == "blocked")
    });
    heard(&border, &mut talk)?;
    border.seen()
}

/// The word comes from outside.
fn heard(border: &Border, talk: &mut Talk) -> Tested {
    let alice = &talk.inside[1];
    talk.bob.say("alice1", "good evening")?;
    until(
        "no message comes from outside",
        || alice.told(),
        || alice.has_told("message good evening"),
    )?;
    talk.bob.say("alice1", "I have heard the Nightingale")?;
    never(
        Duration::from_secs(5),
        "the word came in",
        || alice.told(),
        || alice.told().contains("Nightingale"),
    )?;
    border.audit_when(|events| {
        of(events, "word").any(|event| {
            let to = event["ringway"]["message"]["to"]
                .as_str()
                .unwrap_or_default();
            event["ringway"]["action"] == "blocked" && to.starts_with("alice1@")
        })
    });
    Ok(())
}

pub(super) fn blocked(path: GatePath) -> Compared {
    let Some(mut border) = border("XMPP that is blocked", path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"no-chat\"\napp = \"xmpp\"\naction = \"block\"\n",
        &BRIEFLY,
    );
    let talk = Talk::start(&border, 1)?;
    let alice = &talk.inside[0];
    stays_blocked(
        || refused(&border, |event| event["dest_port"] == 5_222),
        || alice.told().contains("ready").then(|| alice.told()),
        || Ok(()),
    )?;
    border.audit_when(|events| {
        of(events, "no-chat").any(|event| event["ringway"]["action"] == "blocked")
    });
    border.seen_again()
}

/// The scanner's words for a file of this name, if it is written down.
fn found(events: &[Value], file: &str, what: &str) -> bool {
    of(events, "scan").any(|event| {
        let told = event["ringway"]["found"].as_str();
        file_of(event)["filename"] == file && told.is_some_and(|told| told.contains(what))
    })
}

fn files(path: GatePath) -> Compared {
    let test = "files over XMPP";
    let Some(mut border) = border(test, path) else {
        return Ok(None);
    };
    let Some(clamd) = malware::scanner()? else {
        return without(test, "clamd");
    };
    let socket = clamd.socket();
    border.up(
        "[[rule]]\nname = \"scan\"\napp = \"xmpp\"\naction = \"scan\"\naudit = true\n",
        // What is found would keep all of the proxy's files away for a minute.
        &[
            "--enforce",
            "--no-connection-cache",
            "--clamd",
            &socket.to_string_lossy(),
        ],
    );
    let spoilt = malware::some_files();
    // A found one ends the conversation, so that each has one of its own. One more takes what is
    // clean.
    let last = spoilt.len();
    let mut talk = Talk::begin(&border, last + 1)?;
    let clean = random_bytes("xmpp", FILE);
    let write = |name: &str, bytes: &[u8]| -> Tested<_> {
        let path = border.folder.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    talk.bob.send(&name(last), &write("film.mpg", &clean)?)?;
    for (number, (_, bytes)) in spoilt.iter().enumerate() {
        let path = write(&format!("spoilt{number}.mpg"), bytes)?;
        talk.bob.send(&name(number), &path)?;
    }
    let taker = &talk.inside[last];
    until(
        "the clean file does not come",
        || taker.told(),
        || taker.taken("film.mpg").is_some_and(|taken| taken == clean),
    )?;
    border.audit_when(|events| {
        let clean = of(events, "scan").any(|event| {
            file_of(event)["filename"] == "film.mpg" && file_of(event)["sha256"].is_string()
        });
        let mut spoilt = spoilt.iter().enumerate();
        clean
            && spoilt.all(|(number, (what, _))| found(events, &format!("spoilt{number}.mpg"), what))
    });
    for number in 0..last {
        if talk.inside[number]
            .taken(&format!("spoilt{number}.mpg"))
            .is_some()
        {
            return wrong(format!("file {number} arrived"));
        }
    }
    by_proxy(&border, &mut talk, last, &clean)?;
    border.seen()
}

/// The same by the server's proxy. What is found ends that connection only: one taker is enough.
fn by_proxy(border: &Border, talk: &mut Talk, taker: usize, clean: &[u8]) -> Tested {
    let mut pass = |file: &str, bytes: &[u8]| -> Tested {
        let path = border.folder.path().join(file);
        fs::write(&path, bytes)?;
        Ok(talk.bob.pass(&name(taker), &path)?)
    };
    let who = &talk.inside[taker];
    let by_proxy = |event: &&Value| event["dest_port"] != 5_222;
    pass("passed.mpg", clean)?;
    until(
        "the file does not come by proxy",
        || who.told(),
        || who.taken("passed.mpg").is_some_and(|taken| taken == clean),
    )?;
    border.audit_when(|events| {
        let mut events = of(events, "scan").filter(by_proxy);
        events.any(|event| {
            file_of(event)["sha256"].is_string() && file_of(event)["filename"] == "passed.mpg"
        })
    });
    for (number, (what, bytes)) in malware::files().into_iter().enumerate() {
        let file = format!("passed{number}.mpg");
        pass(&file, &bytes)?;
        border.audit_when(|events| {
            let mut events = of(events, "scan").filter(by_proxy);
            events.any(|event| found(std::slice::from_ref(event), &file, what))
        });
        let ended = format!("part {file}");
        until(
            "the end is not told",
            || who.told(),
            || who.has_told(&ended),
        )?;
        if who.taken(&file).is_some() {
            return wrong(format!("all of {file} with {what} arrived"));
        }
    }
    Ok(())
}

/// A file by the proxy comes as fast as its class lets it.
pub(super) fn shaped(path: GatePath) -> Compared {
    let Some(mut border) = border("files over XMPP, shaped", path) else {
        return Ok(None);
    };
    up_to_shape(&mut border, &slowed("xmpp"));
    let mut talk = Talk::begin(&border, 1)?;
    let path = border.folder.path().join("film.mpg");
    fs::write(&path, random_bytes("xmpp", LONG))?;
    talk.bob.pass("alice0", &path)?;
    comes_at(SLOW, &border, || talk.inside[0].told())?;
    border.seen()
}

fn names(path: GatePath) -> Compared {
    let Some(mut border) = border("names of files over XMPP", path) else {
        return Ok(None);
    };
    border.up(
        "[[rule]]\nname = \"names\"\napp = \"xmpp\"\nfile_name = \"*.exe\"\naction = \"block\"\naudit = true\n",
        &["--enforce"],
    );
    let mut talk = Talk::begin(&border, 2)?;
    let bytes = random_bytes("xmpp", 50_000);
    let place = |name: &str| border.folder.path().join(name);
    let (text, program) = (place("notes.txt"), place("setup.exe"));
    fs::write(&text, &bytes)?;
    fs::write(&program, &bytes)?;
    // The offer is what is refused, whichever way the file would go: the conversation ends with it.
    for (number, send) in [Talker::send, Talker::pass].into_iter().enumerate() {
        let (who, alice) = (name(number), &talk.inside[number]);
        send(&mut talk.bob, &who, &text)?;
        until(
            "the text does not come",
            || alice.told(),
            || alice.taken("notes.txt").is_some_and(|taken| taken == bytes),
        )?;
        send(&mut talk.bob, &who, &program)?;
        border.audit_when(|events| {
            let named = of(events, "names").filter(|event| {
                file_of(event)["filename"] == "setup.exe" && event["ringway"]["action"] == "blocked"
            });
            named.count() > number
        });
        if alice.taken("setup.exe").is_some() {
            return wrong(format!("the program arrived at {who}"));
        }
    }
    border.seen()
}

/// Audited, stopped at a keyword, refused by name, scanned.
#[test]
fn prosody_messages_and_files_follow_the_policy() -> Tested {
    all(vec![
        on_both("conversation", conversation),
        on_both("files", files),
        on_both("names", names),
    ])
}
