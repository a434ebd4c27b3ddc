//! The in-kernel path: calls like a blocked one end before anything is spent on them, and nothing of it is left at the end.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::Duration;

use ringway_gateway::linux::kernel::ingress::listed;
use ringway_testbed::Program;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use super::beside::{Tested, refused, until, wrong};
use super::border::{Border, DEADLINE, SERVER, SERVER_V6};
use super::both::GatePath;
use crate::program;

pub(super) const BLOCK: &str =
    "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
pub(super) const HELLO: &[u8; 68] =
    b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0iiiiiiiiiiiiiiiiiiiipppppppppppppppppppp";
/// What anybody may say.
pub(super) const ANYTHING: &[u8] = b"hello";
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
    // What is blocked by what it says has to get that far; and whoever is to be answered may wait, on a busy machine.
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

/// What calls there is blocked by what it says, and the kernel refuses whoever calls like that.
pub(super) fn refused_at(border: &Border, server: &str) -> Tested {
    answered(border, server, HELLO, false)?;
    refused_again(border, server)
}

/// The kernel refuses whoever calls like one that is blocked, and nobody has called since.
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

#[test]
fn calls_like_a_blocked_one_end_in_the_kernel_and_are_told() -> Tested {
    // What is virtual has no driver worth it.
    calls_end_at("the connection cache in the kernel", "auto", "tc")
}

#[test]
fn calls_like_a_blocked_one_end_in_the_driver_where_that_is_wanted() -> Tested {
    calls_end_at("the connection cache in the driver", "xdp", "xdp")
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

fn calls_end_at(test: &str, wanted: &str, place: &str) -> Tested {
    let Some(mut border) = border(test) else {
        return Ok(());
    };
    border.with_ipv6();
    border.up(BLOCK, &[&KERNEL[..], &["--cache-at", wanted]].concat());
    let early = drivers(&border)?.matches("name refuse_early").count();
    let late = hooks(&border)?.matches(AT_INGRESS).count();
    let expected = match place {
        "xdp" => (2, 0),
        // Where a place costs nothing to take, it is taken when somebody is blocked.
        _ if has_lists(&border)? => (0, 0),
        _ => (0, 2),
    };
    if (early, late) != expected {
        return wrong(format!("{early} in drivers, {late} behind them"));
    }
    let (v4, v6) = (format!("{SERVER}:6881"), format!("[{SERVER_V6}]:6881"));
    let other = format!("{SERVER}:6882");
    for at in [&v4, &v6, &other] {
        echo(&border, at)?;
    }
    for at in [&v4, &v6] {
        answered(&border, at, HELLO, false)?;
    }
    if place == "tc" {
        until_at_ingress(&border)?;
    }
    let before = border.status();
    for _attempt in 0..5 {
        for at in [&v4, &v6] {
            // Whatever they would say.
            answered(&border, at, ANYTHING, false)?;
        }
    }
    let after = border.status();
    if count(&after, "refused") != 10 || after["packets"] != before["packets"] {
        return wrong(format!("before {before}, after {after}"));
    }
    answered(&border, &other, b"hello", true)?;
    // The first one of each at once, the rest when nobody will come to them any more.
    let ended = border.daemon().terminate()?;
    let told = refused(&border, |event| {
        event["alert"]["signature"] == "connection-cache"
    });
    if (ended, told) != (Some(0), 10) {
        return wrong(format!("ended with {ended:?}: {:#?}", border.audit()));
    }
    let left = [hooks(&border)?, drivers(&border)?].concat();
    if left.contains("refuse") {
        return wrong(format!("left: {left}"));
    }
    Ok(())
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

#[test]
fn the_program_at_the_ingress_is_there_while_somebody_is_blocked() -> Tested {
    let Some(mut border) = border("places of the connection cache") else {
        return Ok(());
    };
    if !has_lists(&border)? {
        return Ok(());
    }
    let bpffs = Bpffs::mount(border.folder.path())?;
    let up = [&KERNEL[..], &["--blocked-for", "4s", "--bpffs", &bpffs.0]].concat();
    border.up(BLOCK, &up);
    let server = format!("{SERVER}:6881");
    echo(&border, &server)?;
    for round in 0..2 {
        if hooks(&border)?.contains(AT_INGRESS) {
            return wrong("it is there though nobody is blocked");
        }
        answered(&border, &server, HELLO, false)?;
        until_at_ingress(&border)?;
        if round == 1 {
            // Also where it was an earlier run that took the places.
            border.daemon().kill()?;
            border.up(BLOCK, &up);
        }
        until(
            "it stays though nobody is blocked any more",
            || border.traces(),
            || hooks(&border).is_ok_and(|hooks| !hooks.contains(AT_INGRESS)),
        )?;
    }
    Ok(())
}

#[test]
fn the_program_comes_back_to_an_interface_that_went_and_came_again() -> Tested {
    let Some(mut border) = border("an interface that comes again") else {
        return Ok(());
    };
    if !has_lists(&border)? {
        return Ok(());
    }
    let add = [
        "ip", "link", "add", "more0", "type", "veth", "peer", "name", "more1",
    ];
    border.gateway.check(&add)?;
    border.up(BLOCK, &[&KERNEL[..], &["--inside", "more0"]].concat());
    block_somebody(&border, "tc")?;
    let there = || {
        let listed = border.gateway.enter(|| listed("more0").unwrap_or_default());
        listed.is_ok_and(|names| names.iter().any(|name| name == "refuse"))
    };
    for _time in 0..2 {
        until("no program at one of them", || border.traces(), there)?;
        border.gateway.check(&["ip", "link", "del", "more0"])?;
        border.gateway.check(&add)?;
    }
    Ok(())
}

/// A question of BitTorrent's DHT (BEP 5).
const PING: &[u8] = b"d1:ad2:id20:aaaaaaaaaaaaaaaaaaaae1:q4:ping1:t2:aa1:y1:qe";

/// Sends a datagram to the server from a port of its own; whether the same comes back.
fn echoed(border: &Border, server: SocketAddr, what: &[u8]) -> Tested<bool> {
    let own: SocketAddr = match server {
        SocketAddr::V4(_) => "0.0.0.0:0".parse()?,
        SocketAddr::V6(_) => "[::]:0".parse()?,
    };
    Ok(border.client.enter(|| -> io::Result<bool> {
        let socket = UdpSocket::bind(own)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.send_to(what, server)?;
        Ok(socket
            .recv(&mut [0; 100])
            .is_ok_and(|length| length == what.len()))
    })??)
}

#[test]
fn datagrams_like_a_blocked_one_end_in_the_kernel_and_answered_ones_do_not() -> Tested {
    let Some(mut border) = border("datagrams and the connection cache in the kernel") else {
        return Ok(());
    };
    border.with_ipv6();
    border.up(BLOCK, &KERNEL);
    for server in [format!("{SERVER}:6881"), format!("[{SERVER_V6}]:6881")] {
        let server: SocketAddr = server.parse()?;
        let socket = border.server.enter(|| UdpSocket::bind(server))??;
        thread::spawn(move || {
            let mut said = [0; 100];
            while let Ok((length, from)) = socket.recv_from(&mut said) {
                socket.send_to(&said[..length], from).ok();
            }
        });
        let old = border.client.enter(|| {
            UdpSocket::bind(match server {
                SocketAddr::V4(_) => "0.0.0.0:0",
                SocketAddr::V6(_) => "[::]:0",
            })
        })??;
        old.set_read_timeout(Some(DEADLINE))?;
        old.connect(server)?;
        old.send(b"hello")?;
        old.recv(&mut [0; 100])?;
        if echoed(&border, server, PING)? {
            return wrong(format!("{server}: a question of the DHT was answered"));
        }
        let before = border.status();
        for _attempt in 0..5 {
            // Whatever they would say.
            if echoed(&border, server, b"hello")? {
                return wrong(format!("{server}: answered: {}", border.status()));
            }
        }
        let after = border.status();
        let refused = count(&after, "refused") - count(&before, "refused");
        if refused != 5 || after["packets"] != before["packets"] {
            return wrong(format!("{server}: before {before}, after {after}"));
        }
        // Whoever was answered before goes on.
        old.send(b"hello")?;
        old.recv(&mut [0; 100])?;
    }
    border.daemon().terminate()?;
    let by_cache = |event: &Value| event["alert"]["signature"] == "connection-cache";
    match refused(&border, by_cache) {
        10 => Ok(()),
        other => wrong(format!("{other} were told: {:#?}", border.audit())),
    }
}

#[test]
fn a_rule_about_addresses_leaves_all_others_to_the_kernel() -> Tested {
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
        let told = |rule| {
            events
                .iter()
                .any(|event| event["alert"]["signature"] == rule)
        };
        told("that-server") && told("that-port")
    });
    Ok(())
}

#[test]
fn whoever_observes_refuses_nobody_in_the_kernel_either() -> Tested {
    let Some(mut border) = border("observing with a kernel that refused") else {
        return Ok(());
    };
    border.up(BLOCK, &KERNEL);
    let server = format!("{SERVER}:6881");
    echo(&border, &server)?;
    answered(&border, &server, HELLO, false)?;
    answered(&border, &server, ANYTHING, false)?;
    let policy = border.path("policy.toml");
    let applied = border.ask(&["apply", &policy, "--observe"]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    // The queue's loop tells the kernel within a tenth of a second; a call that is refused until then is repeated.
    answered(&border, &server, HELLO, true)
}

#[test]
fn whom_a_killed_gateway_has_told_of_the_next_one_refuses_or_lets_go() -> Tested {
    let Some(mut border) = border("the connection cache of a killed gateway") else {
        return Ok(());
    };
    let bpffs = Bpffs::mount(border.folder.path())?;
    let more = ["--bpffs", bpffs.0.as_str()];
    // For longer than anybody waits here.
    let enforcing = [&KERNEL[..], &more, &["--blocked-for", "10m"]].concat();
    let server = format!("{SERVER}:6881");
    echo(&border, &server)?;
    border.up(BLOCK, &enforcing);
    answered(&border, &server, HELLO, false)?;
    border.daemon().kill()?;
    // It observes.
    border.up(BLOCK, &[&KERNEL[1..], &more].concat());
    answered(&border, &server, b"hello", true)?;
    border.daemon().kill()?;
    // It goes on until it is told to observe.
    border.up(BLOCK, &enforcing);
    answered(&border, &server, HELLO, false)?;
    border.daemon().kill()?;
    border.up(BLOCK, &enforcing);
    answered(&border, &server, ANYTHING, false)?;
    let policy = border.path("policy.toml");
    let applied = border.ask(&["apply", &policy, "--observe"]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    answered(&border, &server, b"hello", true)
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
        // It goes with the test in any case, as soon as nobody uses it.
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
fn what_is_undecided_stays_known_while_there_is_no_gateway() -> Tested {
    let Some(mut border) = border("undecided flows and a killed gateway") else {
        return Ok(());
    };
    let bpffs = Bpffs::mount(border.folder.path())?;
    let kernel = [&KERNEL[..], &["--bpffs", &bpffs.0]].concat();
    let policy = "[[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\naction = \"block\"\n";
    let server: SocketAddr = format!("{SERVER}:8080").parse()?;
    border.up(policy, &kernel);
    echo(&border, &server.to_string())?;
    let page = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n";
    let (before, meanwhile, after) = (page, page, page);
    let mut stream = border.client.enter(|| -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&server, DEADLINE)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        said_back(&mut stream, before)?;
        Ok(stream)
    })??;
    border.daemon().kill()?;
    said_back(&mut stream, meanwhile)?;
    border.up(policy, &kernel);
    said_back(&mut stream, after)?;
    let status = border.status();
    if status["packets"] != 0 {
        return wrong(format!(
            "the next gateway was asked about what was known: {status}"
        ));
    }
    // What matters comes to it as of a flow that it has seen from its beginning on.
    let shared = b"GET /get/1/a HTTP/1.1\r\nUser-Agent: LimeWire/4.12\r\nX-Queue: 0.1\r\n\r\n";
    if said_back(&mut stream, shared).is_ok() {
        return wrong(format!("it got through: {}", border.status()));
    }
    let flows = border.ask(&["flows"]).objects()?;
    let whole = |flow: &Value| flow["app"] == "gnutella" && flow["midway"] != true;
    if flows.len() != 1 || !flows.iter().all(whole) {
        return wrong(format!("{flows:#?}"));
    }
    Ok(())
}

#[test]
fn it_outlives_a_gateway_that_is_killed_and_goes_with_the_next_one() -> Tested {
    let Some(mut border) = border("a killed gateway's in-kernel path") else {
        return Ok(());
    };
    // `ip netns exec` gives each program a /sys of its own; what is to outlive one has to lie elsewhere.
    let bpffs = Bpffs::mount(border.folder.path())?;
    let kernel = [&KERNEL[..], &["--bpffs", &bpffs.0]].concat();
    border.up(BLOCK, &kernel);
    let server = format!("{SERVER}:6881");
    echo(&border, &server)?;
    answered(&border, &server, HELLO, false)?;
    until_at_ingress(&border)?;
    border.daemon().kill()?;
    let left = hooks(&border)?;
    if !left.contains("refuse") {
        return wrong(format!("nothing refuses while there is no gateway: {left}"));
    }
    let got = say(&border, &server, b"hello", PATIENCE)?;
    if got.is_ok() {
        return wrong("a call like a blocked one got through while there was no gateway");
    }
    // The next one goes on with what the kernel knows.
    border.up(BLOCK, &kernel);
    answered(&border, &server, ANYTHING, false)?;
    let status = border.status();
    if count(&status, "refused") < 2 {
        return wrong(format!("the next gateway has forgotten: {status}"));
    }
    // One that does without takes it out.
    border.daemon().kill()?;
    border.up(BLOCK, &["--enforce", "--path", "user", "--bpffs", &bpffs.0]);
    let left = hooks(&border)?;
    let ours =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("ringway");
    let pinned = std::fs::read_dir(&bpffs.0)?.flatten().filter(ours).count();
    if !left.is_empty() || pinned != 0 {
        return wrong(format!(
            "left behind by `--path user`: {pinned} folders, {left}"
        ));
    }
    answered(&border, &server, b"hello", true)
}

/// Puts the program at the inside as kernels before 6.6 take it, and as gateways on them leave it.
fn filter_in_place_of_the_list(border: &Border, bpffs: &Bpffs) -> Tested {
    let mut folders = std::fs::read_dir(&bpffs.0)?.flatten();
    let Some(folder) = folders.next() else {
        return wrong("nothing is pinned");
    };
    let program = folder.path().join("refuse").display().to_string();
    let inside = border.inside.as_str();
    // It is there already where there is no list.
    border
        .gateway
        .check(&["tc", "qdisc", "replace", "dev", inside, "clsact"])?;
    let at = [
        "tc", "filter", "replace", "dev", inside, "ingress", "pref", "7110", "handle", "1",
    ];
    let what = ["bpf", "da", "object-pinned", &program];
    border.gateway.check(&[at.as_slice(), &what].concat())?;
    Ok(())
}

#[test]
fn gate_down_leaves_nothing_of_it() -> Tested {
    let Some(mut border) = border("gate down and the in-kernel path") else {
        return Ok(());
    };
    // Somebody else's filter beside ours stays.
    let (inside, outside) = (border.inside.clone(), border.outside.clone());
    border
        .gateway
        .check(&["tc", "qdisc", "add", "dev", &outside, "clsact"])?;
    let own = [
        "tc", "filter", "add", "dev", &outside, "egress", "protocol", "ip",
    ];
    let all = ["u32", "match", "u32", "0", "0"];
    border.gateway.check(&[own.as_slice(), &all].concat())?;
    let bpffs = Bpffs::mount(border.folder.path())?;
    let leave = [&KERNEL[..], &["--leave", "--bpffs", &bpffs.0]].concat();
    border.up(BLOCK, &leave);
    block_somebody(&border, "tc")?;
    border.daemon().terminate()?;
    if !hooks(&border)?.contains(AT_INGRESS) {
        return wrong("`--leave` left nothing");
    }
    filter_in_place_of_the_list(&border, &bpffs)?;
    border.up(BLOCK, &leave);
    // Who ends in order forgets who was blocked.
    answered(&border, &format!("{SERVER}:6881"), HELLO, false)?;
    until_at_ingress(&border)?;
    border.daemon().terminate()?;
    let again = hooks(&border)?;
    if again.matches(AT_INGRESS).count() != 2 {
        return wrong(format!("not once at each interface: {again}"));
    }
    let down: Program = border.program();
    let ended = down.run(["gate", "down", "--bpffs", &bpffs.0, &inside, &outside])?;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let left = hooks(&border)?;
    let theirs = border
        .gateway
        .check(&["tc", "filter", "show", "dev", &outside, "egress"])?;
    if left.contains("refuse") || left.contains(&inside) || !theirs.contains("u32") {
        return wrong(format!("left: {left}; somebody else's: {theirs}"));
    }
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
fn what_the_policy_does_not_care_about_is_not_asked_about_and_the_rest_is_named_as_ever() -> Tested
{
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
    // The handshake had passed; user space was told of it, or it would not know where the stream begins.
    let named = |event: &Value| {
        event["alert"]["signature"] == "no-p2p" && event["app_proto"] == "bittorrent"
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
            .any(|event| event["alert"]["signature"] == "no-torrents")
    });
    Ok(())
}

#[test]
fn nothing_undecided_passes_without_a_gateway_where_the_policy_fails_closed() -> Tested {
    let page = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n";
    let server = format!("{SERVER}:80");
    for (failure, passes) in [("open", true), ("closed", false)] {
        let Some(mut border) = border("a killed gateway's triage") else {
            return Ok(());
        };
        let policy = format!("[gateway]\nfailure = \"{failure}\"\n\n{BLOCK}");
        border.up(&policy, &KERNEL);
        echo(&border, &server)?;
        answered(&border, &server, page, true)?;
        border.daemon().kill()?;
        // For so long the kernel takes it for alive.
        thread::sleep(ringway_gateway::limits::PULSE);
        let patience = if passes { DEADLINE } else { PATIENCE };
        let got = say(&border, &server, page, patience)?;
        if matches!(got, Ok(length) if length > 0) != passes {
            return wrong(format!("failing {failure}: {got:?}"));
        }
    }
    Ok(())
}
