//! What is left of the in-kernel path when its gateway ends, and what holds while there is none.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread;

use ringway_testbed::Program;
use serde_json::Value;

use super::super::beside::{Tested, wrong};
use super::super::border::{Border, DEADLINE, SERVER};
use super::{
    ANYTHING, AT_INGRESS, BLOCK, Bpffs, HELLO, KERNEL, PATIENCE, answered, block_somebody, border,
    count, echo, hooks, said_back, say, until_at_ingress,
};

#[test]
fn undecided_flows_stay_known_without_a_gateway() -> Tested {
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

/// The next gateway takes them over, or removes them with `--path user`.
#[test]
fn programs_outlive_a_killed_gateway() -> Tested {
    let Some(mut border) = border("a killed gateway's in-kernel path") else {
        return Ok(());
    };
    // `ip netns exec` gives each program a /sys of its own; what is to outlive one has to lie
    // elsewhere.
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

/// The gateway is gone meanwhile.
#[test]
fn undecided_packets_stop_when_failing_closed() -> Tested {
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
