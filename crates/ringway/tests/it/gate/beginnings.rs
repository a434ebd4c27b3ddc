//! What passed unasked, in the kernel, before a connection became what the policy is about: what
//! reads contents has it too.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

use super::beside::{Tested, all, wrong};
use super::border::{Border, DEADLINE, SERVER, file_of};
use super::both::{Compared, GatePath, on_both};
use super::speakers::sha256;
use crate::random_bytes;

/// A web server may be what it is; a Gnutella program's files are looked at by name, scanned and
/// written down.
const POLICY: &str = "[[rule]]\nname = \"no-programs\"\napp = \"gnutella\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"files\"\napp = \"gnutella\"\naction = \"scan\"\naudit = true\n";
const RULES: &str = r#"rule Needle { strings: $a = "a needle in the hay" condition: $a }"#;
const PAGE: &[u8] = b"a page of a web server, as anybody may have it";

fn file(name: &str) -> Vec<u8> {
    match name {
        "/" => PAGE.to_vec(),
        "/get/3/hay.ogg" => [random_bytes("hay", 20_000), b"a needle in the hay".to_vec()].concat(),
        _ => random_bytes(name, 40_000),
    }
}

/// Answers each request of each connection to this port.
fn serve(border: &Border, port: u16) -> Tested {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, port)))??;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    Ok(())
}

/// Until the client ends, or the gateway does it.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut request = [0; 4_096];
    loop {
        let read = stream.read(&mut request)?;
        let text = String::from_utf8_lossy(&request[..read]).into_owned();
        let Some(name) = text.split(' ').nth(1) else {
            return Ok(());
        };
        let body = file(name);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat())?;
    }
}

/// Asks for something over a connection that stays; gives its body, of which nothing comes where it
/// was ended.
fn ask(stream: &mut TcpStream, name: &str, program: &str) -> io::Result<Vec<u8>> {
    let length = file(name).len();
    let request = format!("GET {name} HTTP/1.1\r\nHost: {SERVER}\r\n{program}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn behind_a_page(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("files behind a page", path) else {
        return Ok(None);
    };
    let rules = border.file("own.yar", RULES);
    let yara = ["--enforce", "--yara", rules.to_str().unwrap_or_default()];
    border.up(POLICY, &yara);
    let gnutella = "User-Agent: gtk-gnutella/1.2\r\n";
    // Each at a port of its own: where one was ended, no other is let in.
    for (port, name, comes) in [
        (6_346, "/get/1/song.ogg", true),
        (6_347, "/get/2/game.exe", false),
        (6_348, "/get/3/hay.ogg", false),
    ] {
        serve(&border, port)?;
        let connect = || TcpStream::connect((SERVER, port));
        let mut stream = border.client.enter(connect)??;
        stream.set_read_timeout(Some(DEADLINE))?;
        if ask(&mut stream, "/", "")? != PAGE {
            return wrong("the page is another");
        }
        let passed = border.status()["in_kernel"]["passed"].as_u64();
        if path == GatePath::Kernel && passed.is_none_or(|passed| passed < 4) {
            return wrong(format!("the page was asked about: {}", border.status()));
        }
        let got = ask(&mut stream, name, gnutella);
        if got.as_ref().is_ok_and(|got| *got == file(name)) != comes {
            return wrong(format!("{name}: {:?}", got.map(|got| got.len())));
        }
    }
    let told = |events: &[Value], name: &str, holds: &dyn Fn(&Value) -> bool| {
        let named = |event: &&Value| file_of(event)["filename"] == name;
        events.iter().filter(named).any(holds)
    };
    let hash = sha256(&border, &file("/get/1/song.ogg"))?;
    border.audit_when(|events| {
        told(events, "song.ogg", &|event| {
            file_of(event)["sha256"] == hash
        }) && told(events, "game.exe", &|event| {
            event["ringway"]["action"] == "blocked"
        }) && told(events, "hay.ogg", &|event| {
            event["ringway"]["found"].is_string()
        })
    });
    border.seen()
}

#[test]
fn file_behind_passed_page_is_scanned_and_audited() -> Tested {
    all(vec![on_both("files behind a page", behind_a_page)])
}

const NO_GNUTELLA: &str =
    "[[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\naction = \"block\"\n";
const JUNK: usize = 600;

/// Sends back each piece of junk, and answers what comes then.
fn speak_junk(border: &Border, port: u16) -> Tested {
    let listener = border
        .server
        .enter(|| TcpListener::bind((SERVER, port)))??;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || -> io::Result<()> {
                let mut piece = [0; JUNK];
                for _ in 0..10 {
                    stream.read_exact(&mut piece)?;
                    stream.write_all(&piece)?;
                }
                let mut hello = [0; 22];
                stream.read_exact(&mut hello)?;
                stream.write_all(b"GNUTELLA/0.6 200 OK\r\n\r\n")
            });
        }
    });
    Ok(())
}

fn behind_junk(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("a node behind junk", path) else {
        return Ok(None);
    };
    border.up(NO_GNUTELLA, &["--enforce"]);
    speak_junk(&border, 7_000)?;
    let connect = || TcpStream::connect((SERVER, 7_000));
    let mut stream = border.client.enter(connect)??;
    stream.set_read_timeout(Some(DEADLINE))?;
    for number in 0..10 {
        let sent = random_bytes(&format!("junk {number}"), JUNK);
        let mut back = [0; JUNK];
        stream.write_all(&sent)?;
        stream.read_exact(&mut back)?;
    }
    stream.write_all(b"GNUTELLA CONNECT/0.6\r\n")?;
    let mut answer = [0; 23];
    if stream.read_exact(&mut answer).is_ok() {
        return wrong("what stands behind ten packets of junk came through");
    }
    border.audit_when(|events| {
        let blocked = |event: &Value| event["ringway"]["rule"] == "no-gnutella";
        events.iter().any(blocked)
    });
    border.seen()
}

#[test]
fn node_sending_junk_first_is_stopped_once_named() -> Tested {
    all(vec![on_both("a node behind junk", behind_junk)])
}
