//! XMPP: people inside, Bob and Prosody outside; files go within the conversation (XEP-0047) or by the server's proxy (XEP-0065).

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringway_testbed::{Running, Talker, start_prosody};
use serde_json::Value;

use super::beside::{Tested, all, border_with, job, never, until, until_open, without, wrong};
use super::border::{Border, SERVER, skipped};
use super::malware;
use crate::random_bytes;

const WATCHED: Duration = Duration::from_secs(10);
const FILE: usize = 150_000;

/// A border, if there are the server and the library. `None`: something is missing here, and stderr says so.
fn border(test: &str) -> Option<Border> {
    let there = Command::new("/usr/bin/python3")
        .args(["-c", "import slixmpp"])
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return skipped(test, "python3-slixmpp");
    }
    border_with(test, &["prosody"])
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
    let alike = move |event: &&Value| event["alert"]["signature"] == rule;
    events
        .iter()
        .filter(alike)
        .filter(|event| event["app_proto"] == "xmpp")
}

fn conversation() -> Tested {
    let Some(mut border) = border("a conversation over XMPP") else {
        return Ok(());
    };
    border.up(
        "[[rule]]\nname = \"word\"\napp = \"xmpp\"\nkeyword = \"nightingale\"\naction = \"block\"\naudit = true\n\
         [[rule]]\nname = \"seen\"\napp = \"xmpp\"\naction = \"audit\"\naudit_text = true\n",
        &["--enforce"],
    );
    let mut talk = Talk::begin(&border, 1)?;
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
        let mut said = of(events, "seen").filter_map(|event| event["message"]["text"].as_str());
        let mut stopped = of(events, "word").filter(|event| event["event_type"] == "message");
        said.any(|text| text == "good morning")
            && stopped.any(|event| event["alert"]["action"] == "blocked")
    });
    Ok(())
}

fn blocked() -> Tested {
    let Some(mut border) = border("XMPP that is blocked") else {
        return Ok(());
    };
    border.up(
        "[[rule]]\nname = \"no-chat\"\napp = \"xmpp\"\naction = \"block\"\n",
        &["--enforce"],
    );
    let talk = Talk::start(&border, 1)?;
    let alice = &talk.inside[0];
    never(
        WATCHED,
        "Alice is let in",
        || alice.told(),
        || alice.told().contains("ready"),
    )?;
    border.audit_when(|events| {
        of(events, "no-chat").any(|event| event["alert"]["action"] == "blocked")
    });
    Ok(())
}

/// The scanner's words for a file of this name, if it is written down.
fn found(events: &[Value], file: &str, what: &str) -> bool {
    of(events, "scan").any(|event| {
        let told = event["fileinfo"]["found"].as_str();
        event["fileinfo"]["filename"] == file && told.is_some_and(|told| told.contains(what))
    })
}

fn files() -> Tested {
    let test = "files over XMPP";
    let Some(mut border) = border(test) else {
        return Ok(());
    };
    let Some(clamd) = malware::scanner()? else {
        return without(test, "clamd");
    };
    let socket = clamd.socket();
    border.up(
        "[[rule]]\nname = \"scan\"\napp = \"xmpp\"\naction = \"scan\"\naudit = true\n",
        &["--enforce", "--clamd", &socket.to_string_lossy()],
    );
    let spoilt = malware::files();
    // A found one ends the conversation, so that each has one of its own. One more takes what is clean.
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
            event["fileinfo"]["filename"] == "film.mpg" && event["fileinfo"]["sha256"].is_string()
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
    by_proxy(&border, &mut talk, last, &clean)
}

/// The same by the server's proxy.
fn by_proxy(border: &Border, talk: &mut Talk, taker: usize, clean: &[u8]) -> Tested {
    let path = border.folder.path().join("passed.mpg");
    fs::write(&path, clean)?;
    talk.bob.pass(&name(taker), &path)?;
    let who = &talk.inside[taker];
    until(
        "the file does not come by proxy",
        || who.told(),
        || who.taken("passed").is_some_and(|taken| taken == clean),
    )?;
    border.audit_when(|events| {
        of(events, "scan")
            .any(|event| event["dest_port"] != 5222 && event["fileinfo"]["sha256"].is_string())
    });
    Ok(())
}

fn names() -> Tested {
    let Some(mut border) = border("names of files over XMPP") else {
        return Ok(());
    };
    border.up(
        "[[rule]]\nname = \"names\"\napp = \"xmpp\"\nfile_name = \"*.exe\"\naction = \"block\"\naudit = true\n",
        &["--enforce"],
    );
    let mut talk = Talk::begin(&border, 1)?;
    let bytes = random_bytes("xmpp", 50_000);
    for name in ["notes.txt", "setup.exe"] {
        fs::write(border.folder.path().join(name), &bytes)?;
    }
    talk.bob
        .send("alice0", &border.folder.path().join("notes.txt"))?;
    let alice = &talk.inside[0];
    until(
        "the text does not come",
        || alice.told(),
        || alice.taken("notes.txt").is_some_and(|taken| taken == bytes),
    )?;
    // The offer is what is refused: the conversation ends with it.
    talk.bob
        .send("alice0", &border.folder.path().join("setup.exe"))?;
    border.audit_when(|events| {
        of(events, "names").any(|event| {
            event["fileinfo"]["filename"] == "setup.exe" && event["alert"]["action"] == "blocked"
        })
    });
    match talk.inside[0].taken("setup.exe") {
        None => Ok(()),
        Some(_) => wrong("the program arrived"),
    }
}

#[test]
fn xmpp_of_prosody_is_written_down_stopped_at_a_word_filtered_scanned_and_blocked() -> Tested {
    all(vec![
        job("conversation", conversation),
        job("blocked", blocked),
        job("files", files),
        job("names", names),
    ])
}
