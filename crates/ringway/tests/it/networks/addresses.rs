//! Addresses that are translated, and those that change: of the authority and of routers.

use std::net::IpAddr;

use super::*;

/// Bytes of a file; at the rate of the line it takes some ten seconds.
const LONG: usize = 10 << 20;

/// Bytes of it that have arrived when an address changes.
const ARRIVED: u64 = 1 << 20;

/// A host whose gateway gives it the address `10.77.0.NUMBER` outside, for all that comes and goes.
fn one_to_one(lan: &mut Lan, label: &str, number: u8) -> (Host, IpAddr) {
    let network = &mut lan.network;
    let (gateway, host) = (
        network.gateway("gateway").unwrap(),
        network.host(label).unwrap(),
    );
    let outer = format!("{SITE}.{number}");
    let inner = format!("192.168.{number}");
    let plain = Line::plain();
    let outside = format!("{outer}/24");
    network
        .attach(&gateway, &lan.switch, &outside, &plain)
        .unwrap();
    let ends = [format!("{inner}.2/24"), format!("{inner}.1/24")];
    network
        .connect((&host, &ends[0]), (&gateway, &ends[1]), &plain)
        .unwrap();
    host.route("default", [192, 168, number, 1].into()).unwrap();
    for words in [
        "add table ip one",
        "add chain ip one in { type nat hook prerouting priority -100 ; }",
        "add chain ip one out { type nat hook postrouting priority 100 ; }",
        &format!("add rule ip one in ip daddr {outer} dnat to {inner}.2"),
        &format!("add rule ip one out oifname eth0 ip saddr {inner}.2 snat to {outer}"),
    ] {
        let words: Vec<&str> = ["nft"].into_iter().chain(words.split(' ')).collect();
        gateway.check(&words).unwrap();
    }
    (host, outer.parse().unwrap())
}

/// Gives a host another address in the place of the one that it had.
fn readdress(lan: &Lan, label: &str, from: u8, to: u8) {
    add_address(lan, label, to);
    let from = format!("{SITE}.{from}/24");
    lan.host(label)
        .check(&["ip", "addr", "del", &from, "dev", "eth0"])
        .unwrap();
}

fn add_address(lan: &Lan, label: &str, number: u8) {
    let host = lan.host(label);
    let keep = "echo 1 > /proc/sys/net/ipv4/conf/eth0/promote_secondaries";
    host.check(&["sh", "-c", keep]).unwrap();
    let address = format!("{SITE}.{number}/24");
    host.check(&["ip", "addr", "add", &address, "dev", "eth0"])
        .unwrap();
}

fn wait_for_log(ring: &Ring, name: &str, words: &str) {
    let member = ring.member(name).unwrap();
    let said = wait_until(DEADLINE, || match member.log_text().contains(words) {
        true => Ok(()),
        false => Err(TestbedError(format!("{name} has not said `{words}`"))),
    });
    said.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
}

/// What the owner knows of a member, its newest certificate last.
fn entries(ring: &Ring, name: &str) -> Vec<Value> {
    let mut members = ring.owner_call(&["ring", "members"]).unwrap();
    members.retain(|member| member["name"] == name);
    members
}

/// Waits until a member has as many certificates, of which the last one counts.
fn wait_for_certificates(ring: &Ring, name: &str, count: usize) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(DEADLINE, || {
        let mut entries = entries(ring, name);
        match entries.len() == count {
            true => Ok(entries.pop().unwrap_or_default()),
            false => Err(TestbedError(format!("{name}: {entries:?}"))),
        }
    });
    let found = found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
    assert_eq!(found["state"], "active");
    found
}

/// The number of the owner's statement that a member has.
fn statement(ring: &Ring, name: &str) -> Result<u64, TestbedError> {
    let status = ring.member(name)?.status()?;
    let number = status["statement"].as_u64();
    number.ok_or_else(|| TestbedError(format!("no statement in {status}")))
}

#[test]
fn authority_and_router_work_behind_full_nat() {
    let Some(network) = Network::or_skip("behind 1:1 NAT").unwrap() else {
        return;
    };
    let mut lan = Lan::new(network, &["lima"], &Line::plain());
    let (authority, authority_outside) = one_to_one(&mut lan, "authority", 9);
    let (oslo, oslo_outside) = one_to_one(&mut lan, "oslo", 10);
    let builder = RingBuilder::new(program())
        .authority_on(&authority)
        .authority_seen_as(authority_outside);
    let builder = builder.router("oslo").on(&oslo).seen_as(oslo_outside);
    let ring = started(builder.router("lima").on(lan.host("lima")));
    let address = ring.owner_call(&["ring", "address"]).unwrap();
    assert_eq!(address[0]["dns"], "10.77.0.9:7453");
    assert_eq!(address[0]["dns_listen"], "0.0.0.0:7453");
    assert_eq!(entries(&ring, "oslo")[0]["address"], "10.77.0.10:7400");
    ping(&ring, "lima", "oslo", "udp://");
    file_gets_through(&ring, "lima", "oslo");
    file_gets_through(&ring, "oslo", "lima");
}

#[test]
fn members_follow_an_authority_that_moves() {
    let Some(network) = Network::or_skip("an authority that moves").unwrap() else {
        return;
    };
    let names = ["oslo", "lima", "quito"];
    let lan = Lan::new(network, &names, &Line::plain());
    let builder = lan.routers(&names[..2]);
    let mut ring = started(builder.absent_router("quito").on(lan.host("quito")));
    let follows = "the ring's DNS is at another address";
    add_address(&lan, "owner", 200);
    let moved = [
        "ring",
        "address",
        "--dns",
        "10.77.0.200:7453",
        "--enrol",
        "10.77.0.200:7410",
    ];
    let address = ring.owner_call(&moved).unwrap();
    assert_eq!(address[0]["former_dns"][0], "10.77.0.1:7453");
    // While it runs at both, members ask at the old one, and are told.
    for name in &names[..2] {
        wait_for_log(&ring, name, follows);
    }
    let host = lan.host("owner");
    host.check(&["ip", "addr", "del", "10.77.0.1/24", "dev", "eth0"])
        .unwrap();
    ring.authority.terminate().unwrap();
    ring.start_authority().unwrap();
    // One that was off learns it from another member: the old address is silent.
    ring.member_mut("quito").unwrap().start().unwrap();
    wait_for_log(&ring, "quito", follows);
    // What only the authority gives, at its new place.
    for name in ["oslo", "quito"] {
        ring.owner_call(&["ring", "rotate", name]).unwrap();
        wait_for_certificates(&ring, name, 2);
    }
    ping(&ring, "lima", "quito", ANY);
}

#[test]
fn router_moves_while_files_are_under_way() {
    let Some(network) = Network::or_skip("a router that moves").unwrap() else {
        return;
    };
    let names = ["oslo", "lima", "quito"];
    let line = Line::plain().rate(8_000_000, 100);
    let lan = Lan::new(network, &["oslo", "lima", "quito", "alice"], &line);
    let builder = lan.routers(&names);
    let mut ring = started(builder.leaf("alice").on(lan.host("alice")));
    let to = queue(&ring, "alice", "oslo", LONG);
    let from = queue(&ring, "oslo", "lima", LONG);
    for (peer, (_, id)) in [("oslo", &to), ("lima", &from)] {
        transfer_when(&ring, peer, id, |it| it["bytes"].as_u64() >= Some(ARRIVED));
    }
    readdress(&lan, "oslo", 2, 50);
    wait_for_log(&ring, "oslo", "ringway ring move NAME");
    let asked = ring
        .owner_call(&["ring", "move", "oslo", "10.77.0.50"])
        .unwrap();
    assert_eq!(asked[0]["moves_to"], "10.77.0.50:7400");
    let moved = wait_for_certificates(&ring, "oslo", 2);
    assert_eq!(moved["address"], "10.77.0.50:7400");
    for (peer, (content, id)) in [("oslo", &to), ("lima", &from)] {
        arrives(&ring, peer, id, content);
        let received = ring.member(peer).unwrap().transfer(id).unwrap();
        let resumed = received["resumed_from"].as_u64();
        assert!(resumed >= Some(ARRIVED), "it began again: {received}");
    }
    let config = fs::read_to_string(ring.folder().join("oslo/ringway.toml")).unwrap();
    assert!(config.contains("listen = \"10.77.0.50:7400\""), "{config}");
    ping(&ring, "quito", "oslo", ANY);

    // Moved while it is off.
    ring.member_mut("oslo").unwrap().terminate().unwrap();
    readdress(&lan, "oslo", 50, 51);
    let before = statement(&ring, "lima").unwrap();
    ring.owner_call(&["ring", "move", "oslo", "10.77.0.51"])
        .unwrap();
    // A start asks DNS, which follows the command a moment later.
    let published = wait_until(DEADLINE, || match statement(&ring, "lima")? {
        number if number > before => Ok(()),
        number => Err(TestbedError(format!("lima has {number} still"))),
    });
    published.unwrap();
    ring.member_mut("oslo").unwrap().start().unwrap();
    wait_for_certificates(&ring, "oslo", 3);
    ping(&ring, "lima", "oslo", ANY);

    // The certificate is there before the machine has the address.
    ring.owner_call(&["ring", "move", "oslo", "10.77.0.52"])
        .unwrap();
    wait_for_log(&ring, "oslo", "an address that is not this machine's yet");
    readdress(&lan, "oslo", 51, 52);
    let moved = wait_for_certificates(&ring, "oslo", 4);
    assert_eq!(moved["address"], "10.77.0.52:7400");
    ping(&ring, "quito", "oslo", ANY);
    ping(&ring, "alice", "oslo", ANY);
}
