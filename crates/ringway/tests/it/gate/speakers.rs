//! Protocols whose programs are gone: Gnutella, FastTrack, MSNFTP and MSN Messenger, spoken by
//! small programs over real sockets.
//!
//! Gnutella, FastTrack and MSNFTP carry no text that a keyword could be asked of; what is said in
//! MSN Messenger has no rate.

use std::cell::Cell;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use ringway_testbed::{
    Chatter, FastTrack, Gnutella, Host, Invitation, Msnftp, Pusher, Shared, Speaker, Switchboard,
};
use serde_json::Value;

use super::beside::{
    self, Job, SLOW, Tested, all, comes_at, slowed, stays_blocked, up_to_shape, without, wrong,
};
use super::border::{Border, CLIENT, DEADLINE, SERVER, file_of};
use super::both::{Compared, GatePath, on_both};
use super::malware;
use crate::random_bytes;

const CLEAN: usize = 400_000;
/// More than comes while a class is measured.
const LONG: usize = 24 << 20;

fn listen(host: &Host, address: &str, port: u16) -> Tested<TcpListener> {
    Ok(host.enter(|| TcpListener::bind((address, port)))??)
}

fn connect(host: &Host, address: &str, port: u16) -> Tested<TcpStream> {
    let address: SocketAddr = format!("{address}:{port}").parse()?;
    let timeout = Duration::from_secs(2);
    let stream = host.enter(|| TcpStream::connect_timeout(&address, timeout))??;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Lets the server give a file at a port, and fetches it through the gateway.
fn transfer(border: &Border, speaker: impl Speaker, port: u16, file: &Shared) -> Tested<Vec<u8>> {
    speaker.serve(listen(&border.server, SERVER, port)?, file.clone());
    fetch(border, speaker, port, &file.name)
}

fn fetch(border: &Border, speaker: impl Speaker, port: u16, name: &str) -> Tested<Vec<u8>> {
    Ok(speaker.fetch(connect(&border.client, SERVER, port)?, name)?)
}

/// Lets the server call the client in order to give it a file.
fn pushed(border: &Border, speaker: impl Pusher, port: u16, file: &Shared) -> Tested<Vec<u8>> {
    let listener = listen(&border.client, CLIENT, port)?;
    let stream = connect(&border.server, CLIENT, port)?;
    let giver = file.clone();
    // A speaker that is cut off sends no more.
    std::thread::spawn(move || speaker.push(stream, &giver).ok());
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(speaker.take(stream, &file.name)?)
}

fn apply(border: &Border, policy: &str) -> Tested {
    let file = border.file("next.toml", policy);
    let outcome = border.ask(&["apply", &file.to_string_lossy()]);
    match outcome.code {
        Some(0) => Ok(()),
        _ => wrong(outcome.stderr),
    }
}

fn rule(name: &str, app: &str, more: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\napp = \"{app}\"\n{more}\n")
}

/// An event of this rule and application for which this holds as well.
fn written(border: &Border, rule: &str, app: &str, holds: impl Fn(&Value) -> bool) {
    border.audit_when(|events| {
        let alike =
            |event: &&Value| event["ringway"]["rule"] == rule && event["ringway"]["app"] == app;
        events.iter().filter(alike).any(&holds)
    });
}

/// A clean file comes whole and is written down with its hash; no file with something to be found
/// does.
fn scanned(border: &Border, speaker: impl Speaker, app: &str, first_port: u16) -> Tested {
    let clean = Shared::new("holiday film.mpg", random_bytes("speakers", CLEAN));
    if transfer(border, speaker, first_port, &clean)? != *clean.bytes {
        return wrong(format!("{app}: the clean file: {}", border.status()));
    }
    let hash = sha256(border, &clean.bytes)?;
    written(border, "scan", app, |event| {
        file_of(event)["sha256"] == hash.as_str()
    });
    for (number, (found, bytes)) in malware::files().into_iter().enumerate() {
        let port = first_port + 1 + u16::try_from(number)?;
        let file = Shared::new("spoilt.mpg", bytes);
        // A reset before anything came is as good.
        let arrived = transfer(border, speaker, port, &file).unwrap_or_default();
        if arrived.len() >= file.bytes.len() {
            return wrong(format!("{app}: all of file {number} with {found} arrived"));
        }
        written(border, "scan", app, |event| {
            let told = event["ringway"]["found"].as_str();
            event["dest_port"] == port && told.is_some_and(|told| told.contains(found))
        });
    }
    Ok(())
}

/// The same where the side that has the file calls.
fn scanned_when_pushed(border: &Border, speaker: impl Pusher, app: &str, port: u16) -> Tested {
    let clean = Shared::new("holiday film.mpg", random_bytes("pushed", CLEAN));
    if pushed(border, speaker, port, &clean)? != *clean.bytes {
        return wrong(format!(
            "{app}: the clean file, pushed: {}",
            border.status()
        ));
    }
    for (number, (found, bytes)) in malware::some_files().into_iter().enumerate() {
        let port = port + 1 + u16::try_from(number)?;
        let file = Shared::new("spoilt.mpg", bytes);
        let arrived = pushed(border, speaker, port, &file).unwrap_or_default();
        if arrived.len() >= file.bytes.len() {
            return wrong(format!("{app}: all of {found} arrived, pushed"));
        }
        written(border, "scan", app, |event| {
            let told = event["ringway"]["found"].as_str();
            event["dest_port"] == port && told.is_some_and(|told| told.contains(found))
        });
    }
    Ok(())
}

/// Nothing arrives, however often it is tried.
fn refused(
    app: &'static str,
    path: GatePath,
    attempt: impl Fn(&Border) -> Tested<Vec<u8>>,
) -> Compared {
    let Some(mut border) = Border::on(&format!("{app}, blocked"), path) else {
        return Ok(None);
    };
    border.up(&rule("none", app, "action = \"block\""), &beside::BRIEFLY);
    stays_blocked(
        || beside::refused(&border, |_| true),
        || None,
        || match attempt(&border) {
            Ok(arrived) if !arrived.is_empty() => {
                wrong(format!("{app}: {} bytes arrived", arrived.len()))
            }
            // The first attempt is blocked by its bytes, the others are not even let through.
            _ => Ok(()),
        },
    )?;
    written(&border, "none", app, |event| {
        event["ringway"]["action"] == "blocked"
    });
    border.seen_again()
}

/// A file is asked for again and again.
fn never_fetched(speaker: impl Speaker, app: &'static str, path: GatePath) -> Compared {
    let served = Cell::new(false);
    refused(app, path, |border| {
        if !served.replace(true) {
            let file = Shared::new("film.mpg", random_bytes("refused", CLEAN));
            speaker.serve(listen(&border.server, SERVER, 6_700)?, file);
        }
        fetch(border, speaker, 6_700, "film.mpg")
    })
}

/// Nodes call again and again.
fn never_joined(path: GatePath) -> Compared {
    let served = Cell::new(false);
    refused("gnutella", path, |border| {
        if !served.replace(true) {
            let file = Shared::new("film.mpg", Vec::new());
            Gnutella.serve(listen(&border.server, SERVER, 6_346)?, file);
        }
        let joined = Gnutella.join(connect(&border.client, SERVER, 6_346)?)?;
        Ok(if joined { vec![1] } else { Vec::new() })
    })
}

/// People sign in again and again.
fn never_in_conversation(path: GatePath) -> Compared {
    let served = Cell::new(false);
    refused("msn", path, |border| {
        if !served.replace(true) {
            Switchboard::serve(listen(&border.server, SERVER, 1_865)?);
        }
        Conversation::join(border, 1_865).map(|_| vec![1])
    })
}

/// Those that are blocked, and try again and again.
pub(super) fn all_blocked() -> Vec<Job<'static>> {
    vec![
        on_both("blocked files of Gnutella", |path| {
            never_fetched(Gnutella, "gnutella", path)
        }),
        on_both("blocked nodes of Gnutella", never_joined),
        on_both("blocked FastTrack", |path| {
            never_fetched(FastTrack, "fasttrack", path)
        }),
        on_both("blocked MSN", never_in_conversation),
        on_both("blocked MSNFTP", |path| {
            never_fetched(Msnftp, "msnftp", path)
        }),
    ]
}

/// A file comes as fast as its class lets it.
fn shaped(speaker: impl Speaker + Sync, app: &'static str) -> Job<'static> {
    let name = format!("shaped {app}");
    on_both(name.clone(), move |path| {
        let Some(mut border) = Border::on(&name, path) else {
            return Ok(None);
        };
        up_to_shape(&mut border, &slowed(app));
        let file = Shared::new("film.mpg", random_bytes("shaped", LONG));
        speaker.serve(listen(&border.server, SERVER, 6_800)?, file);
        let stream = connect(&border.client, SERVER, 6_800)?;
        let end = stream.try_clone()?;
        let fetching = std::thread::spawn(move || speaker.fetch(stream, "film.mpg"));
        let outcome = comes_at(SLOW, &border, String::new);
        let seen = border.seen();
        end.shutdown(Shutdown::Both)?;
        // What it says of a file that was cut off is nothing to us.
        fetching.join().ok();
        outcome?;
        seen
    })
}

/// Those that get a class of their own.
pub(super) fn all_shaped() -> Vec<Job<'static>> {
    vec![
        shaped(Gnutella, "gnutella"),
        shaped(FastTrack, "fasttrack"),
        shaped(Msnftp, "msnftp"),
    ]
}

/// A file whose name is refused does not come, another one does.
fn named(border: &Border, speaker: impl Speaker, app: &str, port: u16) -> Tested {
    let more = "file_name = \"*.exe\"\naction = \"block\"\naudit = true";
    apply(border, &rule("names", app, more))?;
    let program = Shared::new("Setup.EXE", random_bytes("named", CLEAN));
    if let Ok(arrived) = transfer(border, speaker, port, &program)
        && arrived.len() >= CLEAN
    {
        return wrong(format!("{app}: a program arrived"));
    }
    written(border, "names", app, |event| {
        event["ringway"]["action"] == "blocked" && file_of(event)["filename"] == "Setup.EXE"
    });
    let text = Shared::new("notes.txt", random_bytes("named", CLEAN));
    if transfer(border, speaker, port + 1, &text)? != *text.bytes {
        return wrong(format!("{app}: a text did not arrive"));
    }
    Ok(())
}

/// The SHA-256 of these bytes, as another program counts it.
pub(super) fn sha256(border: &Border, bytes: &[u8]) -> Tested<String> {
    let path = border.path("hashed");
    std::fs::write(&path, bytes)?;
    let text = border.gateway.check(&["sha256sum", &path])?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// Programs that share files ask for parts of them.
const SCAN: &str = "action = \"scan\"\naudit = true\nscan_parts = true";

/// All that can be done to transfers that either side may ask for.
fn transfers(speaker: impl Pusher, app: &str, path: GatePath) -> Compared {
    let Some(mut border) = Border::on(&format!("transfers of {app}"), path) else {
        return Ok(None);
    };
    let Some(clamd) = malware::scanner()? else {
        return without(&format!("transfers of {app}"), "clamd");
    };
    let socket = clamd.socket();
    border.up(
        &rule("scan", app, SCAN),
        &["--enforce", "--clamd", &socket.to_string_lossy()],
    );
    scanned(&border, speaker, app, 6_400)?;
    scanned_when_pushed(&border, speaker, app, 6_500)?;
    named(&border, speaker, app, 6_600)?;
    border.seen()
}

#[test]
fn gnutella_files_are_scanned_and_refused_by_name() -> Tested {
    all(vec![on_both("transfers of Gnutella", |path| {
        transfers(Gnutella, "gnutella", path)
    })])
}

#[test]
fn fasttrack_files_are_scanned_and_refused_by_name() -> Tested {
    all(vec![on_both("transfers of FastTrack", |path| {
        transfers(FastTrack, "fasttrack", path)
    })])
}

#[test]
fn nodes_of_gnutella_meet_where_they_may() -> Tested {
    all(vec![on_both("nodes of Gnutella", nodes)])
}

fn nodes(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("nodes of Gnutella", path) else {
        return Ok(None);
    };
    let file = Shared::new("film.mpg", Vec::new());
    Gnutella.serve(listen(&border.server, SERVER, 6_346)?, file);
    border.up(
        &rule("seen", "gnutella", "action = \"audit\""),
        &["--enforce"],
    );
    let join = || -> Tested<bool> { Ok(Gnutella.join(connect(&border.client, SERVER, 6_346)?)?) };
    if !join()? {
        return wrong("no answer through a gateway that lets it pass");
    }
    written(&border, "seen", "gnutella", |event| {
        event["ringway"]["action"] == "allowed"
    });
    border.seen()
}

/// Two people in a conversation outside: Alice is at the client, Bob at the server.
struct Conversation {
    alice: Chatter,
    bob: Chatter,
}

impl Conversation {
    fn begin(border: &Border, port: u16) -> Tested<Conversation> {
        Switchboard::serve(listen(&border.server, SERVER, port)?);
        Conversation::join(border, port)
    }

    fn join(border: &Border, port: u16) -> Tested<Conversation> {
        let enter = |host: &Host, account: &str| -> Tested<Chatter> {
            let sign_in = connect(host, SERVER, port)?;
            Ok(Chatter::enter(
                sign_in,
                connect(host, SERVER, port)?,
                account,
            )?)
        };
        Ok(Conversation {
            bob: enter(&border.server, "bob@example.com")?,
            alice: enter(&border.client, "alice@example.com")?,
        })
    }

    /// Bob gives Alice a file over a connection of its own.
    fn give(&mut self, border: &Border, port: u16, file: &Shared) -> Tested<Vec<u8>> {
        Msnftp.serve(listen(&border.server, SERVER, port)?, file.clone());
        self.bob.offer(&Invitation {
            name: file.name.clone(),
            size: file.bytes.len(),
            place: format!("{SERVER}:{port}").parse()?,
        })?;
        let offer = self.alice.offered()?;
        fetch(border, Msnftp, offer.place.port(), &offer.name)
    }
}

#[test]
fn msn_files_are_scanned_and_refused_by_name() -> Tested {
    all(vec![on_both("files of MSN Messenger", files_of_msn)])
}

fn files_of_msn(path: GatePath) -> Compared {
    let test = "files of MSN Messenger";
    let Some(mut border) = Border::on(test, path) else {
        return Ok(None);
    };
    let Some(clamd) = malware::scanner()? else {
        return without(test, "clamd");
    };
    let socket = clamd.socket();
    border.up(
        &rule("scan", "msnftp", SCAN),
        &["--enforce", "--clamd", &socket.to_string_lossy()],
    );
    scanned(&border, Msnftp, "msnftp", 6_891)?;
    // The name stands in the conversation; both have to be under the rule.
    let both = "[[rule]]\nname = \"names\"\napp = [\"msn\", \"msnftp\"]\nfile_name = \"*.exe\"\n\
                action = \"block\"\naudit = true\n";
    apply(&border, both)?;
    let mut talk = Conversation::begin(&border, 1_863)?;
    let text = Shared::new("notes.txt", random_bytes("msn", CLEAN));
    if talk.give(&border, 6_951, &text)? != *text.bytes {
        return wrong("a text did not arrive");
    }
    let program = Shared::new("Setup.exe", random_bytes("msn", CLEAN));
    if let Ok(arrived) = talk.give(&border, 6_952, &program)
        && arrived.len() >= CLEAN
    {
        return wrong("a program arrived");
    }
    written(&border, "names", "msn", |event| {
        event["ringway"]["action"] == "blocked" && file_of(event)["filename"] == "Setup.exe"
    });
    border.seen()
}

#[test]
fn msn_conversation_is_audited_and_stopped_at_keyword() -> Tested {
    all(vec![on_both(
        "a conversation of MSN Messenger",
        conversation,
    )])
}

fn conversation(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("a conversation of MSN Messenger", path) else {
        return Ok(None);
    };
    let policy = [
        rule(
            "word",
            "msn",
            "keyword = \"nightingale\"\naction = \"block\"\naudit = true",
        ),
        rule("seen", "msn", "action = \"audit\"\naudit_text = true"),
    ];
    border.up(&policy.concat(), &["--enforce"]);
    for (port, from_inside) in [(1_863, true), (1_864, false)] {
        let mut talk = Conversation::begin(&border, port)?;
        let Conversation { alice, bob } = &mut talk;
        let (writer, reader) = if from_inside {
            (alice, bob)
        } else {
            (bob, alice)
        };
        writer.write("good morning")?;
        if !reader.read()?.ends_with("good morning") {
            return wrong("another message came");
        }
        // Who is cut off may be told so.
        writer.write("about the Nightingale").ok();
        reader.wait_at_most(Duration::from_secs(3))?;
        if let Ok(text) = reader.read() {
            return wrong(format!("this came: {text}"));
        }
        written(&border, "seen", "msn", |event| {
            event["ringway"]["message"]["text"] == "good morning" && event["dest_port"] == port
        });
        written(&border, "word", "msn", |event| {
            event["ringway"]["action"] == "blocked" && event["dest_port"] == port
        });
    }
    border.seen()
}
