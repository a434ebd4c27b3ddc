//! Calls like a blocked one: where they end, and that they are told.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use ringway_gateway::linux::kernel::ingress::listed;
use serde_json::Value;

use super::super::beside::{Tested, refused, until, wrong};
use super::super::border::{Border, DEADLINE, SERVER, SERVER_V6};
use super::{
    ANYTHING, AT_INGRESS, BLOCK, Bpffs, HELLO, KERNEL, answered, block_somebody, border, count,
    drivers, echo, has_lists, hooks, page_passes_and_torrent_is_refused, until_at_ingress,
};
use crate::not_tested;

/// They are reported as well.
#[test]
fn matching_connections_are_refused_in_the_kernel() -> Tested {
    // What is virtual has no driver worth it.
    calls_end_at("the connection cache in the kernel", "auto", "tc")
}

#[test]
fn matching_connections_are_refused_in_the_driver() -> Tested {
    calls_end_at("the connection cache in the driver", "xdp", "xdp")
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
    // The first one of each at once, the rest when no more can come to them.
    let ended = border.daemon().terminate()?;
    let told = refused(&border, |event| {
        event["ringway"]["rule"] == "connection-cache"
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

#[test]
fn ingress_program_stays_while_a_peer_is_blocked() -> Tested {
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
fn program_returns_to_a_recreated_interface() -> Tested {
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

/// Both sides have to speak it, so that somebody may be refused for it.
const BOTH: &str = "[[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\nconfidence = \"certain\"\n\
     action = \"block\"\n";

/// A ping of Gnutella: a GUID, its kind, how far it goes, no body.
fn descriptor() -> Vec<u8> {
    let guid = (0x91_u8..0xa1).collect::<Vec<u8>>();
    [guid.as_slice(), &[0x00, 0x01, 0x00, 0, 0, 0, 0]].concat()
}

/// Those of answered flows pass.
#[test]
fn matching_datagrams_are_refused_in_the_kernel() -> Tested {
    let Some(mut border) = border("datagrams and the connection cache in the kernel") else {
        return Ok(());
    };
    border.with_ipv6();
    border.up(BOTH, &KERNEL);
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
        if echoed(&border, server, &descriptor())? {
            return wrong(format!("{server}: a ping of Gnutella was answered"));
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
        // A flow that was answered before goes on.
        old.send(b"hello")?;
        old.recv(&mut [0; 100])?;
    }
    border.daemon().terminate()?;
    let by_cache = |event: &Value| event["ringway"]["rule"] == "connection-cache";
    match refused(&border, by_cache) {
        10 => Ok(()),
        other => wrong(format!("{other} were told: {:#?}", border.audit())),
    }
}

#[test]
fn observing_refuses_no_peer_in_the_kernel() -> Tested {
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
    // The queue's loop tells the kernel within a tenth of a second; a call that is refused until
    // then is repeated.
    answered(&border, &server, HELLO, true)
}

/// A killed gateway leaves them in the kernel: the next one keeps them, or lets go if it observes.
#[test]
fn next_gateway_decides_on_inherited_refusals() -> Tested {
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

/// Frames of a VLAN have a tag at the interface below, and none at the VLAN's own, which is a
/// border of its own.
#[test]
fn vlan_pages_pass_and_torrents_are_refused() -> Tested {
    let test = "the interface of a VLAN";
    let Some(mut border) = border(test) else {
        return Ok(());
    };
    let inside = std::mem::replace(&mut border.inside, "vlan.10".to_owned());
    let ends = [
        (&border.client, &border.client_interface, "10.66.10.2/24"),
        (&border.gateway, &inside, "10.66.10.1/24"),
    ];
    for (host, below, address) in ends {
        let add = ["ip", "link", "add", "link", below, "name", "vlan.10"];
        if host
            .check(&[&add[..], &["type", "vlan", "id", "10"]].concat())
            .is_err()
        {
            not_tested(&format!("{test}: the kernel has no VLANs (8021q)"));
            return Ok(());
        }
        host.check(&["ip", "addr", "add", address, "dev", "vlan.10"])?;
        host.check(&["ip", "link", "set", "vlan.10", "up"])?;
    }
    border
        .client
        .check(&["ip", "route", "add", SERVER, "via", "10.66.10.1"])?;
    border.up(BLOCK, &KERNEL);
    for port in [80, 6881] {
        echo(&border, &format!("{SERVER}:{port}"))?;
    }
    page_passes_and_torrent_is_refused(&border, SERVER)?;
    until_at_ingress(&border)
}

/// Two network cards that are cabled with each other, by their names, where this machine has them
/// to give (`make kernels` does).
const CARDS: &str = "RINGWAY_GATE_CARDS";

/// The card keeps its offloads.
#[test]
fn card_driver_refuses_matching_connections() -> Tested {
    let test = "the connection cache in a card's driver";
    let Some(mut border) = border(test) else {
        return Ok(());
    };
    let cards = std::env::var(CARDS).unwrap_or_default();
    let Some((own, theirs)) = cards.split_once(' ') else {
        not_tested(&format!("{test}: {CARDS} names no two cards"));
        return Ok(());
    };
    let ends = [
        (&border.gateway, own, "10.66.20.1/24"),
        (&border.client, theirs, "10.66.20.2/24"),
    ];
    for (host, card, address) in ends {
        // They come back when their namespaces end.
        let moved = Command::new("ip")
            .args(["link", "set", card, "netns", host.namespace()])
            .status()?;
        if !moved.success() {
            return wrong(format!("{card} cannot be had"));
        }
        host.check(&["ip", "addr", "add", address, "dev", card])?;
        host.check(&["ip", "link", "set", card, "up"])?;
    }
    border
        .client
        .check(&["ip", "route", "add", SERVER, "via", "10.66.20.1"])?;
    border.inside = own.to_owned();
    border.up(BLOCK, &KERNEL);
    let placed = border.daemon().ready["cache"][0].clone();
    if placed["interface"] != own || placed["at"] != "xdp" || !placed["why"].is_null() {
        return wrong(placed.to_string());
    }
    for port in [80, 6881] {
        echo(&border, &format!("{SERVER}:{port}"))?;
    }
    page_passes_and_torrent_is_refused(&border, SERVER)?;
    match drivers(&border)?.matches("name refuse_early").count() {
        1 => Ok(()),
        _ => wrong(drivers(&border)?),
    }
}
