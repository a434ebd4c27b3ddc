//! Rings whose members are hosts of their own: slow, broken, filtered and translated networks
//! between them.
//!
//! These need root, `ip` and `nft`. Where they are missing, each test says so on stderr and passes
//! without having tested.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use ringway_testbed::{
    Host, Line, Link, Miniupnpd, Network, Ring, RingBuilder, Rule, TestbedError, Traffic,
    wait_until,
};
use serde_json::Value;

use super::{not_tested, program, random_bytes, transfer_when};

mod addresses;
mod boot;
mod by_dns;
mod datagrams;
mod distribution;
mod many;
mod priority;
mod streams;
mod ways;
mod weights;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(180);

/// How long a cable is out.
const OUTAGE: Duration = Duration::from_secs(5);

/// Any transport's address begins with it.
const ANY: &str = "";

/// How an interface translates.
type Nat = fn(String) -> Rule;

/// Bytes of a file that is sent as a whole.
const SIZE: usize = 2 << 20;

/// The network of a site.
const SITE: &str = "10.77.0";

/// A network that counts as public: for documentation only (RFC 5737).
const PUBLIC: &str = "198.51.100";

/// A network that is public in earnest, as a home router's daemon wants it. Nothing of it leaves
/// the test's namespaces.
const INTERNET: &str = "25.77.0";

/// A switch with the authority and some members on it, each on a host of its own.
struct Lan {
    prefix: &'static str,
    switch: Host,
    hosts: Vec<Host>,
    links: Vec<Link>,
    network: Network,
}

impl Lan {
    /// Host `n` is `10.77.0.(n + 1)`; the authority's is the first one.
    fn new(network: Network, labels: &[&str], line: &Line) -> Lan {
        Lan::at(SITE, network, labels, line)
    }

    /// As [`Lan::new`], with other addresses.
    fn at(prefix: &'static str, mut network: Network, labels: &[&str], line: &Line) -> Lan {
        let switch = network.switch("switch").unwrap();
        let (mut hosts, mut links) = (Vec::new(), Vec::new());
        for (label, number) in ["owner"].iter().chain(labels).zip(1..) {
            let host = network.host(label).unwrap();
            let address = format!("{prefix}.{number}/24");
            links.push(network.attach(&host, &switch, &address, line).unwrap());
            hosts.push(host);
        }
        Lan {
            prefix,
            switch,
            hosts,
            links,
            network,
        }
    }

    fn place(&self, label: &str) -> usize {
        let mut labels = self.hosts.iter().map(Host::label);
        labels.position(|known| known == label).unwrap()
    }

    fn host(&self, label: &str) -> &Host {
        &self.hosts[self.place(label)]
    }

    fn link(&self, label: &str) -> &Link {
        &self.links[self.place(label)]
    }

    /// UDP from the one to the other.
    fn udp(&self, from: &str, to: &str) -> Traffic {
        let [from, to] = [from, to].map(|label| self.host(label).address().unwrap());
        Traffic::udp().from(from).to(to)
    }

    /// A ring of routers.
    fn routers(&self, names: &[&str]) -> RingBuilder {
        let builder = RingBuilder::new(program()).authority_on(self.host("owner"));
        names.iter().fold(builder, |builder, name| {
            builder.router(name).on(self.host(name))
        })
    }
}

fn started(builder: RingBuilder) -> Ring {
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

/// The link of one member with another, as `status` shows it.
fn link_between(ring: &Ring, name: &str, peer: &str) -> Result<Value, TestbedError> {
    let status = ring.member(name)?.status()?;
    let links = status["links"].as_array().cloned().unwrap_or_default();
    let found = links.into_iter().find(|link| link["name"] == peer);
    found.ok_or_else(|| TestbedError(format!("{name} has no link with {peer}: {status}")))
}

/// Pings until an answer comes over this transport.
fn ping(ring: &Ring, name: &str, peer: &str, transport: &str) -> Value {
    let member = ring.member(name).unwrap();
    let answered = wait_until(DEADLINE, || {
        let pongs = member.call(&["ping", peer, "--count", "1"])?;
        let pong = pongs.into_iter().next().unwrap_or_default();
        let address = pong["address"].as_str().unwrap_or_default();
        match pong["rtt_ms"].is_number() && address.starts_with(transport) {
            true => Ok(pong),
            false => Err(TestbedError(pong.to_string())),
        }
    });
    answered.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

/// Queues a file and gives its content and the transfer's id.
fn queue(ring: &Ring, name: &str, peer: &str, size: usize) -> (Vec<u8>, String) {
    let content = random_bytes(name, size);
    let file = ring.folder().join(format!("from-{name}.bin"));
    fs::write(&file, &content).unwrap();
    let queued = ring
        .member(name)
        .unwrap()
        .call(&["send", file.to_str().unwrap(), peer, "--detach"])
        .unwrap();
    (content, queued[0]["id"].as_str().unwrap().to_owned())
}

fn arrives(ring: &Ring, peer: &str, id: &str, content: &[u8]) {
    let received = transfer_when(ring, peer, id, |transfer| transfer["state"] == "done");
    assert_eq!(received["blake3"], blake3::hash(content).to_hex().as_str());
    let path = received["path"].as_str().unwrap();
    assert!(fs::read(path).unwrap() == content, "the file differs");
}

/// Sends a file from one member to another.
fn file_gets_through(ring: &Ring, name: &str, peer: &str) {
    let (content, id) = queue(ring, name, peer, SIZE);
    arrives(ring, peer, &id, &content);
}

#[test]
fn distant_routers_link_and_exchange_a_file() {
    let Some(network) = Network::or_skip("two routers far apart").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain().delay_ms(10));
    let ring = started(lan.routers(&["oslo", "lima"]));
    let pong = ping(&ring, "oslo", "lima", "udp://");
    assert!(
        pong["rtt_ms"].as_f64() >= Some(40.0),
        "20 ms each way: {pong}"
    );
    let link = link_between(&ring, "oslo", "lima").unwrap();
    let lima = lan.host("lima").address().unwrap().to_string();
    assert!(link["address"].as_str().unwrap().contains(&lima), "{link}");
    file_gets_through(&ring, "oslo", "lima");
}

#[test]
fn without_udp_members_talk_over_tcp() {
    let Some(network) = Network::or_skip("no UDP").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let blocked = [lan.udp("oslo", "lima"), lan.udp("lima", "oslo")];
    lan.switch.rules(&blocked.map(Rule::Drop)).unwrap();
    let ring = started(lan.routers(&["oslo", "lima"]));
    ping(&ring, "oslo", "lima", "tcp://");
    ping(&ring, "lima", "oslo", "tcp://");
    file_gets_through(&ring, "oslo", "lima");
}

#[test]
fn leaf_behind_nat_pings_and_sends_a_file() {
    let Some(network) = Network::or_skip("a leaf behind NAT").unwrap() else {
        return;
    };
    let mut lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let alice = behind_nat(&mut lan, "alice", 9);
    let builder = lan.routers(&["oslo", "lima"]).leaf("alice").on(&alice);
    let ring = started(builder);
    ping(&ring, "alice", "oslo", "udp://");
    ping(&ring, "oslo", "alice", "udp://");
    let seen = link_between(&ring, "oslo", "alice").unwrap();
    assert!(
        seen["address"].as_str().unwrap().contains("10.77.0.9"),
        "{seen}"
    );
    file_gets_through(&ring, "alice", "oslo");
}

/// A host behind a gateway that translates to `10.77.0.NUMBER`.
fn behind_nat(lan: &mut Lan, label: &str, number: u8) -> Host {
    behind(lan, label, number, Rule::Masquerade)
}

/// A host behind a gateway that translates somehow.
fn behind(lan: &mut Lan, label: &str, number: u8, rule: Nat) -> Host {
    behind_gateway(lan, label, number, rule).0
}

/// The host and its gateway, whose interfaces are `eth0` outside and `eth1` inside.
fn behind_gateway(lan: &mut Lan, label: &str, number: u8, rule: Nat) -> (Host, Host) {
    let network = &mut lan.network;
    let (gateway, host) = (
        network.gateway("gateway").unwrap(),
        network.host(label).unwrap(),
    );
    let outside = format!("{}.{number}/24", lan.prefix);
    let inner = format!("192.168.{number}");
    let uplink = network
        .attach(&gateway, &lan.switch, &outside, &Line::plain())
        .unwrap();
    let ends = [format!("{inner}.2/24"), format!("{inner}.1/24")];
    network
        .connect((&host, &ends[0]), (&gateway, &ends[1]), &Line::plain())
        .unwrap();
    host.route("default", [192, 168, number, 1].into()).unwrap();
    let nat = rule(uplink.first_interface().to_owned());
    gateway.rules(&[nat]).unwrap();
    (host, gateway)
}

/// Two leaves, each behind a NAT of its own or with a public address, on an Internet of two
/// routers.
fn two_leaves(network: Network, nats: [Option<Nat>; 2]) -> (Ring, Lan) {
    let mut lan = Lan::at(PUBLIC, network, &["oslo", "lima"], &Line::plain());
    let mut builder = lan.routers(&["oslo", "lima"]);
    for ((name, number), nat) in [("alice", 9), ("bob", 10)].into_iter().zip(nats) {
        let host = match nat {
            Some(rule) => behind(&mut lan, name, number, rule),
            None => {
                let host = lan.network.host(name).unwrap();
                let address = format!("{PUBLIC}.{number}/24");
                let line = Line::plain();
                lan.network
                    .attach(&host, &lan.switch, &address, &line)
                    .unwrap();
                host
            }
        };
        builder = builder.leaf(name).on(&host);
    }
    (started(builder), lan)
}

/// Packets that both routers have passed on between others.
fn passed_on(ring: &Ring) -> u64 {
    let of = |name: &&str| {
        let status = ring.member(name).unwrap().status().unwrap();
        let passed = &status["counters"]["relay_packets_passed_on"];
        passed.as_u64().unwrap_or_default()
    };
    ["oslo", "lima"].iter().map(of).sum()
}

/// Waits until the reason why the first path to the peer with such an address is or is not used has
/// these words in it.
fn explained(ring: &Ring, name: &str, peer: &str, address: &str, words: &str) {
    let found = wait_until(DEADLINE, || {
        let found = ring.member(name)?.call(&["path", peer])?;
        let paths = found[0]["paths"].as_array().cloned().unwrap_or_default();
        let fits = |path: &&Value| path["address"].as_str().unwrap().starts_with(address);
        let path = paths.iter().find(fits);
        let reason = path.and_then(|path| path["reason"].as_str());
        match reason.is_some_and(|reason| reason.contains(words)) {
            true => Ok(()),
            false => Err(TestbedError(format!("{address}: {}", found[0]))),
        }
    });
    found.unwrap();
}

/// Sends files until one gets through without a router's help: on a busy machine a link may take
/// the other way for a while.
fn file_gets_through_directly(ring: &Ring, name: &str, peer: &str) {
    let sent = wait_until(DEADLINE, || {
        let before = passed_on(ring);
        file_gets_through(ring, name, peer);
        // A file has two thousand packets.
        match passed_on(ring) - before {
            0..200 => Ok(()),
            passed => Err(TestbedError(format!(
                "routers have carried {passed} packets"
            ))),
        }
    });
    sent.unwrap();
}

/// The leaves begin over a relay, find a way of their own, and send files over it.
fn leaves_meet(network: Network, nats: [Option<Nat>; 2]) {
    let (ring, _lan) = two_leaves(network, nats);
    let to_bob = format!("udp://{PUBLIC}.10");
    let to_alice = format!("udp://{PUBLIC}.9");
    ping(&ring, "alice", "bob", &to_bob);
    ping(&ring, "bob", "alice", &to_alice);
    explained(&ring, "alice", "bob", &to_bob, "in use");
    explained(&ring, "alice", "bob", "relay://", "costs more");
    file_gets_through_directly(&ring, "alice", "bob");
    file_gets_through_directly(&ring, "bob", "alice");
}

#[test]
fn two_leaves_behind_nat_meet_without_a_relay() {
    if let Some(network) = Network::or_skip("NAT on both sides").unwrap() {
        leaves_meet(network, [Some(Rule::Masquerade), Some(Rule::Masquerade)]);
    }
}

#[test]
fn leaves_meet_without_relay_through_one_nat() {
    if let Some(network) = Network::or_skip("NAT on one side").unwrap() {
        leaves_meet(network, [Some(Rule::Masquerade), None]);
    }
}

#[test]
fn relay_carries_files_of_leaves_that_cannot_meet() {
    let Some(network) = Network::or_skip("NAT that cannot be traversed").unwrap() else {
        return;
    };
    let random = Some(Rule::MasqueradeAtRandom as Nat);
    let (ring, _lan) = two_leaves(network, [random, random]);
    ping(&ring, "alice", "bob", "relay://");
    file_gets_through(&ring, "alice", "bob");
    file_gets_through(&ring, "bob", "alice");
    // Two files of two thousand packets each, and none of them another way.
    assert!(passed_on(&ring) > 3_600, "{}", passed_on(&ring));
    explained(&ring, "alice", "bob", "relay://", "in use");
    explained(&ring, "alice", "bob", "udp://", "has not answered");
}

#[test]
fn port_mapping_of_home_router_makes_leaf_reachable() {
    let Some(network) = Network::or_skip("a home router that gives ports").unwrap() else {
        return;
    };
    let mut lan = Lan::at(INTERNET, network, &["oslo", "lima"], &Line::plain());
    let (bob, gateway) = behind_gateway(&mut lan, "bob", 10, Rule::HomeRouter);
    let alice = behind(&mut lan, "alice", 9, Rule::MasqueradeAtRandom);
    let Some(daemon) = Miniupnpd::start(&gateway, "eth0", "eth1").unwrap() else {
        not_tested("a home router that gives ports: `miniupnpd` is not installed");
        return;
    };
    let builder = lan.routers(&["oslo", "lima"]).leaf("bob").on(&bob);
    let ring = started(builder.leaf("alice").on(&alice));
    let outer = format!("udp://{INTERNET}.10");
    // Both NATs give another port for each destination: without the one from the daemon nothing
    // would come through.
    ping(&ring, "alice", "bob", &outer);
    explained(&ring, "alice", "bob", &outer, "in use");
    file_gets_through_directly(&ring, "alice", "bob");
    assert!(daemon.log().contains("mapping"), "{}", daemon.log());
}

/// The outage lasts for a time, after which a link counts as silent.
#[test]
fn pings_and_transfers_resume_after_an_outage() {
    let Some(network) = Network::or_skip("an outage").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima", "alice"], &Line::plain());
    let builder = lan.routers(&["oslo", "lima"]);
    let builder = builder.leaf_with("alice", &["--upload-limit", "2MiB"]);
    let ring = started(builder.on(lan.host("alice")));
    let (content, id) = queue(&ring, "alice", "oslo", 16 << 20);
    transfer_when(&ring, "oslo", &id, |transfer| {
        transfer["bytes"].as_u64() >= Some(2 << 20)
    });
    lan.link("oslo").down().unwrap();
    sleep(OUTAGE);
    let meanwhile = ring.member("oslo").unwrap().transfer(&id).unwrap();
    assert_ne!(meanwhile["state"], "done", "it ended before the outage");
    lan.link("oslo").up().unwrap();
    ping(&ring, "alice", "oslo", ANY);
    ping(&ring, "lima", "oslo", ANY);
    ring.wait_until_settled().unwrap();
    arrives(&ring, "oslo", &id, &content);
}

#[test]
fn small_path_mtu_is_no_obstacle() {
    let Some(mut network) = Network::or_skip("a path MTU of 1280").unwrap() else {
        return;
    };
    // owner and oslo – gateway –(1 280)– gateway – lima: no host sees the narrow place itself.
    let [near, far] = ["near", "far"].map(|label| network.gateway(label).unwrap());
    let narrow = Line::plain().mtu(1_280);
    network
        .connect((&near, "10.79.0.1/24"), (&far, "10.79.0.2/24"), &narrow)
        .unwrap();
    near.route("10.78.0.0/24", [10, 79, 0, 2].into()).unwrap();
    far.route("10.77.0.0/24", [10, 79, 0, 1].into()).unwrap();
    let mut lan = Lan::new(network, &["oslo"], &Line::plain());
    lan.network
        .attach(&near, &lan.switch, "10.77.0.9/24", &Line::plain())
        .unwrap();
    for host in &lan.hosts {
        host.route("default", [10, 77, 0, 9].into()).unwrap();
    }
    let lima = lan.network.host("lima").unwrap();
    lan.network
        .connect(
            (&lima, "10.78.0.2/24"),
            (&far, "10.78.0.1/24"),
            &Line::plain(),
        )
        .unwrap();
    lima.route("default", [10, 78, 0, 1].into()).unwrap();
    let ring = started(lan.routers(&["oslo"]).router("lima").on(&lima));
    ping(&ring, "oslo", "lima", "udp://");
    file_gets_through(&ring, "oslo", "lima");
    file_gets_through(&ring, "lima", "oslo");
}

#[test]
fn one_way_path_is_left_until_whole_again() {
    let Some(network) = Network::or_skip("a blackhole").unwrap() else {
        return;
    };
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let ring = started(lan.routers(&["oslo", "lima"]));
    ping(&ring, "oslo", "lima", "udp://");
    let blackhole = lan.udp("oslo", "lima");
    lan.switch.rules(&[Rule::Drop(blackhole)]).unwrap();
    ping(&ring, "oslo", "lima", "tcp://");
    ping(&ring, "lima", "oslo", "tcp://");
    lan.switch.rules(&[]).unwrap();
    ping(&ring, "oslo", "lima", "udp://");
    ping(&ring, "lima", "oslo", "udp://");
}
