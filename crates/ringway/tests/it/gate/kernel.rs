//! The in-kernel path: calls like a blocked one end before anything is spent on them, and nothing
//! of it is left at the end.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use ringway_gateway::linux::kernel::ingress::listed;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use super::beside::{Tested, until, wrong};
use super::border::{Border, DEADLINE, SERVER, SERVER_V6};
use super::both::GatePath;
use crate::program;

mod ends;
mod refusals;

pub(super) const BLOCK: &str =
    "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
pub(super) const HELLO: &[u8; 68] =
    b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0iiiiiiiiiiiiiiiiiiiipppppppppppppppppppp";
/// What anybody may say.
pub(super) const ANYTHING: &[u8] = b"hello";
const PAGE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Less than the second after which a call is repeated: each attempt is one packet.
const PATIENCE: Duration = Duration::from_millis(200);
pub(super) const KERNEL: [&str; 3] = ["--enforce", "--path", "kernel"];

/// A border, if this machine has what the in-kernel path needs.
pub(super) fn border(test: &str) -> Option<Border> {
    Border::on(test, GatePath::Kernel)
}

/// Answers everything by the same bytes, for as long as the test runs.
pub(super) fn echo(border: &Border, at: &str) -> Tested {
    let address: SocketAddr = at.parse()?;
    let listener = border.server.enter(|| TcpListener::bind(address))??;
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut said = [0; 100];
                while let Ok(length) = stream.read(&mut said) {
                    if length == 0 || stream.write_all(&said[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}

/// Says something to the server, if that lets itself be called within this time; what it answers.
fn say(
    border: &Border,
    server: &str,
    what: &[u8],
    patience: Duration,
) -> Tested<io::Result<usize>> {
    let server: SocketAddr = server.parse()?;
    Ok(border.client.enter(|| {
        let mut stream = TcpStream::connect_timeout(&server, patience)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(what)?;
        stream.read(&mut [0; 100])
    })?)
}

/// It is answered, or not.
pub(super) fn answered(border: &Border, server: &str, what: &[u8], wanted: bool) -> Tested {
    // What is blocked by what it says has to get that far; and a client that is to be answered
    // may wait, on a busy machine.
    let patience = match wanted || what != ANYTHING {
        true => DEADLINE,
        false => PATIENCE,
    };
    let got = say(border, server, what, patience)?;
    if matches!(got, Ok(length) if length > 0) != wanted {
        return wrong(format!("{server}: {got:?}, {}", border.status()));
    }
    Ok(())
}

/// A connection there is blocked by what it says, and the kernel refuses those that match it.
pub(super) fn refused_at(border: &Border, server: &str) -> Tested {
    answered(border, server, HELLO, false)?;
    refused_again(border, server)
}

/// The kernel refuses new connections that match a blocked one, and these are the first since.
pub(super) fn refused_again(border: &Border, server: &str) -> Tested {
    for _attempt in 0..3 {
        answered(border, server, ANYTHING, false)?;
    }
    match count(&border.status(), "refused") {
        3 => Ok(()),
        _ => wrong(border.status().to_string()),
    }
}

pub(super) fn count(status: &Value, name: &str) -> u64 {
    status["in_kernel"][name].as_u64().unwrap_or(u64::MAX)
}

/// A page passes without a question, a torrent is blocked, and new connections that match it are
/// refused; `server` is where the client connects.
pub(super) fn page_passes_and_torrent_is_refused(border: &Border, server: &str) -> Tested {
    let [page, torrent] = [80, 6881].map(|port| format!("{server}:{port}"));
    answered(border, &page, PAGE, true)?;
    let passed = count(&border.status(), "passed");
    if passed == 0 {
        return wrong(format!("nothing passed: {}", border.status()));
    }
    refused_at(border, &torrent)
}

/// What is in the drivers of the border's interfaces.
pub(super) fn drivers(border: &Border) -> Tested<String> {
    let shown = [&border.inside, &border.outside].map(|interface| {
        border
            .gateway
            .check(&["ip", "-d", "link", "show", interface])
    });
    let [inside, outside] = shown;
    Ok([inside?, outside?].concat())
}

/// The program is at both interfaces' ingress, as it is once somebody is blocked.
fn until_at_ingress(border: &Border) -> Tested {
    let there = || hooks(border).is_ok_and(|hooks| hooks.matches(AT_INGRESS).count() == 2);
    until("no program at the ingress", || border.traces(), there)
}

/// Somebody is blocked, and the program is where it refuses.
pub(super) fn block_somebody(border: &Border, at: &str) -> Tested {
    let server = format!("{SERVER}:6881");
    echo(border, &server)?;
    answered(border, &server, HELLO, false)?;
    match at {
        "tc" => until_at_ingress(border),
        _ => Ok(()),
    }
}

/// A bpf file system of the test's own.
pub(super) struct Bpffs(pub(super) String);

impl Bpffs {
    pub(super) fn mount(folder: &Path) -> Tested<Bpffs> {
        let place = folder.join("bpffs");
        std::fs::create_dir(&place)?;
        let mounted = mount("bpf", &place, "bpf", MountFlags::empty(), None);
        mounted?;
        Ok(Bpffs(place.display().to_string()))
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        // It goes with the test in any case, as soon as no process uses it.
        unmount(&*self.0, UnmountFlags::DETACH).ok();
    }
}

const AT_INGRESS: &str = "the program `refuse`";

/// Whether the kernel has lists of programs at interfaces; kernels before 6.6 have none.
fn has_lists(border: &Border) -> Tested<bool> {
    Ok(border.gateway.enter(|| listed("lo").is_ok())?)
}

/// What there is of the in-kernel path on the gateway.
pub(super) fn hooks(border: &Border) -> Tested<String> {
    let shown = [&border.inside, &border.outside].map(|interface| {
        let words = ["tc", "filter", "show", "dev", interface, "ingress"];
        // Kernels before 6.6 have no list.
        let listed = border
            .gateway
            .enter(|| listed(interface).unwrap_or_default())?;
        let filters = border.gateway.check(&words)?;
        // A filter is shown with its path and its name.
        let filters = filters.matches(" name refuse ").map(|_| AT_INGRESS);
        let listed = listed.iter().filter(|name| *name == "refuse");
        let ours = filters.chain(listed.map(|_| AT_INGRESS));
        let ours = ours.map(|what| format!("{what} of {interface}\n"));
        Ok::<String, ringway_testbed::TestbedError>(ours.collect())
    });
    let queues = border.gateway.check(&["tc", "qdisc", "show"])?;
    let hooks = queues.lines().filter(|line| line.contains("clsact"));
    let hooks = hooks.collect::<Vec<_>>().join("\n");
    let [inside, outside] = shown;
    Ok([inside?, outside?, hooks].concat())
}

/// Says something, and has it back.
pub(super) fn said_back(stream: &mut TcpStream, what: &[u8]) -> io::Result<()> {
    stream.write_all(what)?;
    stream.read_exact(&mut vec![0; what.len()])
}

#[test]
fn address_rule_leaves_all_others_to_the_kernel() -> Tested {
    let Some(mut border) = border("rules about addresses and the kernel") else {
        return Ok(());
    };
    border.with_ipv6();
    // What names no application is decided by the first packet where it comes first.
    let rules = format!(
        "[[rule]]\nname = \"that-server\"\nserver = \"{SERVER_V6}\"\naction = \"block\"\n\
         [[rule]]\nname = \"that-port\"\nport = \"6882-6889\"\nl4 = \"tcp\"\naction = \"block\"\n\
         [[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\naction = \"block\"\n"
    );
    border.up(&rules, &KERNEL);
    let (allowed, port) = (format!("{SERVER}:6881"), format!("{SERVER}:6885"));
    let server = format!("[{SERVER_V6}]:6881");
    for at in [&allowed, &port, &server] {
        echo(&border, at)?;
    }
    answered(&border, &port, ANYTHING, false)?;
    answered(&border, &server, ANYTHING, false)?;
    let before = border.status();
    answered(&border, &allowed, b"hello", true)?;
    let after = border.status();
    if after["packets"] != before["packets"] || count(&after, "passed") < 4 {
        return wrong(format!("before {before}, after {after}"));
    }
    border.audit_when(|events| {
        let told = |rule| events.iter().any(|event| event["ringway"]["rule"] == rule);
        told("that-server") && told("that-port")
    });
    Ok(())
}

#[test]
fn the_doctor_names_each_thing_that_is_needed() {
    let looked = program().run(["--json", "gate", "doctor"]).unwrap();
    let features = looked.objects().unwrap();
    assert!(features.len() >= 7, "{}", looked.stdout);
    for feature in &features {
        assert!(feature["name"].is_string() && feature["needed_for"].is_string());
    }
    // What the path does without is named, too.
    assert!(features.iter().any(|feature| feature["optional"] == true));
    let missing = features
        .iter()
        .filter(|feature| !feature["missing"].is_null() && feature["optional"] == false);
    assert_eq!(
        looked.code == Some(0),
        missing.count() == 0,
        "{}",
        looked.stderr
    );
}

#[test]
fn irrelevant_flows_pass_unasked_and_others_are_named() -> Tested {
    passes_and_names("what the kernel need not ask about", "1")
}

#[test]
fn whichever_queue_gets_a_flow_knows_its_beginning() -> Tested {
    passes_and_names("several queues and the kernel", "5")
}

fn passes_and_names(test: &str, queues: &str) -> Tested {
    let Some(mut border) = border(test) else {
        return Ok(());
    };
    let policy = "[[rule]]\nname = \"no-p2p\"\napp = \"p2p\"\naction = \"block\"\n";
    border.with_ipv6();
    border.up(policy, &[&KERNEL[..], &["--queues", queues]].concat());
    let pages = [format!("{SERVER}:80"), format!("[{SERVER_V6}]:80")];
    let torrents = [format!("{SERVER}:6881"), format!("[{SERVER_V6}]:6881")];
    for at in pages.iter().chain(&torrents) {
        echo(&border, at)?;
    }
    for at in &pages {
        answered(&border, at, b"GET / HTTP/1.1\r\nHost: server\r\n\r\n", true)?;
    }
    let status = border.status();
    if status["packets"] != 0 || count(&status, "passed") < 10 {
        return wrong(format!("pages were asked about: {status}"));
    }
    for at in &torrents {
        answered(&border, at, HELLO, false)?;
    }
    // The handshake had passed; user space was told of it, or it would not know where the stream
    // begins.
    let named = |event: &Value| {
        event["ringway"]["rule"] == "no-p2p" && event["ringway"]["app"] == "bittorrent"
    };
    border.audit_when(|events| events.iter().filter(|event| named(event)).count() == 2);
    let flows = border.ask(&["flows"]).objects()?;
    let whole = |flow: &Value| {
        flow["app"] == "bittorrent" && flow["confidence"] == "certain" && flow["midway"] != true
    };
    if flows.len() != 2 || !flows.iter().all(whole) {
        return wrong(format!("{flows:#?}"));
    }
    // Split where nothing can be told yet, it is asked about all the same.
    let server: SocketAddr = format!("{SERVER}:6882").parse()?;
    echo(&border, &server.to_string())?;
    let split = border.client.enter(|| -> io::Result<usize> {
        let mut stream = TcpStream::connect_timeout(&server, DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let (first, rest) = HELLO.split_at(3);
        stream.write_all(first)?;
        // Its echo: what was said is through before there is more.
        stream.read_exact(&mut [0; 3])?;
        stream.write_all(rest)?;
        stream.read(&mut [0; 100])
    })?;
    if split.is_ok_and(|length| length > 0) {
        return wrong("a torrent that was split got through");
    }
    Ok(())
}

#[test]
fn another_policy_is_another_triage() -> Tested {
    let Some(mut border) = border("another policy for the kernel") else {
        return Ok(());
    };
    border.up(&BLOCK.replace("bittorrent", "gnutella"), &KERNEL);
    let server = format!("{SERVER}:6881");
    echo(&border, &server)?;
    answered(&border, &server, HELLO, true)?;
    let status = border.status();
    if status["packets"] != 0 {
        return wrong(format!("nobody cares about torrents yet: {status}"));
    }
    let policy = border.file("torrents.toml", BLOCK).display().to_string();
    let applied = border.ask(&["apply", &policy]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    answered(&border, &server, HELLO, false)?;
    border.audit_when(|events| {
        events
            .iter()
            .any(|event| event["ringway"]["rule"] == "no-torrents")
    });
    Ok(())
}
