//! Networks that carry what they should and nothing else, and that leave nothing behind.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::*;
use crate::wait_until;

/// How long an answer may take where one must come.
const LONG: Duration = Duration::from_secs(20);

/// How long a test waits where no answer may come.
const SHORT: Duration = Duration::from_millis(300);

const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const TWO: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

/// Any port: no other program is on the hosts.
const PORT: u16 = 443;

fn udp(host: &Host) -> UdpSocket {
    let any = (Ipv4Addr::UNSPECIFIED, PORT);
    host.enter(|| UdpSocket::bind(any)).unwrap().unwrap()
}

/// Sends datagrams until one comes, and gives its bytes and sender.
fn sent(
    from: &UdpSocket,
    to: &UdpSocket,
    address: IpAddr,
    wait: Duration,
) -> Option<(usize, SocketAddr)> {
    let end = Instant::now() + wait;
    to.set_read_timeout(Some(SHORT)).unwrap();
    let mut buffer = [0; 2_000];
    while Instant::now() < end {
        from.send_to(&[1; 1_000], (address, PORT)).unwrap();
        match to.recv_from(&mut buffer) {
            Ok(found) => return Some(found),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    None
}

fn tcp_works(from: &Host, to: &Host, port: u16) -> bool {
    let address = (to.address().unwrap(), port).into();
    let listener = to.enter(|| TcpListener::bind(address)).unwrap().unwrap();
    let connected = from.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)));
    let Ok(mut client) = connected.unwrap() else {
        return false;
    };
    let (mut server, _) = listener.accept().unwrap();
    // More than one segment, so that segmentation offloads would be noticed.
    let sender = std::thread::spawn(move || client.write_all(&[7; 1 << 20]));
    let mut bytes = Vec::new();
    server.read_to_end(&mut bytes).unwrap();
    sender.join().unwrap().unwrap();
    bytes.len() == 1 << 20
}

/// A switch and two hosts.
fn lan(network: &mut Network, line: &Line) -> (Host, [Host; 2], [Link; 2]) {
    let switch = network.switch("switch").unwrap();
    let hosts = ["one", "two"].map(|label| network.host(label).unwrap());
    let links = [(0, "10.77.0.1/24"), (1, "10.77.0.2/24")].map(|(place, address)| {
        network
            .attach(&hosts[place], &switch, address, line)
            .unwrap()
    });
    (switch, hosts, links)
}

#[test]
fn only_names_of_ours_have_an_owner() {
    assert_eq!(owner("rw-4711-3"), Some(4711));
    for other in ["rw-", "rw-x-1", "rw-1", "rw-1-x", "office", "rw-1-2-3"] {
        assert_eq!(owner(other), None, "{other}");
    }
}

#[test]
fn a_delay_is_on_every_way() {
    let Some(mut network) = Network::or_skip("a delay").unwrap() else {
        return;
    };
    let (_switch, [one, two], _links) = lan(&mut network, &Line::plain().delay_ms(10));
    assert!(tcp_works(&one, &two, PORT));
    let (here, there) = (udp(&one), udp(&two));
    sent(&here, &there, TWO, LONG).unwrap();
    // The shortest of some times: a busy machine adds to each.
    let times = [(); 10].map(|()| {
        let begin = Instant::now();
        sent(&here, &there, TWO, LONG).unwrap();
        begin.elapsed()
    });
    let took = times.into_iter().min().unwrap();
    assert!(took >= Duration::from_millis(20), "two cables, {took:?}");
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[test]
fn cut_cable_carries_nothing_until_mended() {
    let Some(mut network) = Network::or_skip("a cut cable").unwrap() else {
        return;
    };
    for line in [Line::plain(), Line::plain().delay_ms(1)] {
        let (_switch, [one, two], links) = lan(&mut network, &line);
        let (here, there) = (udp(&one), udp(&two));
        assert!(sent(&here, &there, TWO, LONG).is_some());
        links[1].down().unwrap();
        assert!(sent(&here, &there, TWO, SHORT).is_none());
        links[1].up().unwrap();
        assert!(sent(&here, &there, TWO, LONG).is_some());
    }
}

#[test]
fn rules_of_a_switch_drop_what_they_name() {
    let Some(mut network) = Network::or_skip("rules of a switch").unwrap() else {
        return;
    };
    let (switch, [one, two], _links) = lan(&mut network, &Line::plain());
    let (here, there) = (udp(&one), udp(&two));
    // What has to come is waited for on a busy machine too.
    let passes = |forth: bool, back: bool| {
        let time = |comes: bool| if comes { LONG } else { 2 * SHORT };
        assert_eq!(sent(&here, &there, TWO, time(forth)).is_some(), forth);
        assert_eq!(sent(&there, &here, ONE, time(back)).is_some(), back);
    };
    passes(true, true);
    switch.rules(&[Rule::Drop(Traffic::udp())]).unwrap();
    passes(false, false);
    assert!(tcp_works(&one, &two, PORT));
    let one_way = Traffic::udp().from(ONE).to(TWO);
    switch.rules(&[Rule::Drop(one_way)]).unwrap();
    passes(false, true);
    switch.rules(&[Rule::OnlyTcp(443)]).unwrap();
    passes(false, false);
    assert!(tcp_works(&one, &two, 443) && !tcp_works(&one, &two, 444));
    switch.rules(&[]).unwrap();
    passes(true, true);
    two.rules(&[Rule::Drop(Traffic::any())]).unwrap();
    passes(false, true);
}

/// What comes from outside does not reach it, unless it answers.
#[test]
fn nat_hides_a_host_behind_its_gateway() {
    let Some(mut network) = Network::or_skip("NAT").unwrap() else {
        return;
    };
    let gateway = network.gateway("gateway").unwrap();
    let (inside, outside) = (network.host("in").unwrap(), network.host("out").unwrap());
    let line = Line::plain();
    network
        .connect(
            (&inside, "192.168.1.2/24"),
            (&gateway, "192.168.1.1/24"),
            &line,
        )
        .unwrap();
    let uplink = network
        .connect(
            (&gateway, "10.77.0.1/24"),
            (&outside, "10.77.0.2/24"),
            &line,
        )
        .unwrap();
    inside.route("default", [192, 168, 1, 1].into()).unwrap();
    outside.route("192.168.1.0/24", ONE).unwrap();
    let nat = Rule::Masquerade(uplink.first_interface().to_owned());
    gateway.rules(&[nat]).unwrap();
    let (here, there) = (udp(&inside), udp(&outside));
    assert!(sent(&there, &here, inside.address().unwrap(), SHORT).is_none());
    let (_, seen) = sent(&here, &there, TWO, LONG).unwrap();
    assert_eq!(seen.ip(), ONE);
    there.send_to(b"answer", seen).unwrap();
    here.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(here.recv(&mut [0; 10]).unwrap(), 6);
}

#[test]
fn nothing_is_left_behind_also_after_a_panic() {
    if Network::or_skip("nothing is left").unwrap().is_none() {
        return;
    }
    let mut made = Vec::new();
    let mut runs = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut network = Network::new().unwrap();
        let (switch, hosts, _links) = lan(&mut network, &Line::plain().delay_ms(1));
        made.push(switch.namespace().to_owned());
        made.extend(hosts.iter().map(|host| host.namespace().to_owned()));
        runs = Some(hosts[0].command("sleep").arg("1000").spawn().unwrap());
        let entered = || match ip(&["netns", "pids", hosts[0].namespace()])? {
            none if none.is_empty() => Err(TestbedError("it is on its way".to_owned())),
            _ => Ok(()),
        };
        wait_until(LONG, entered).unwrap();
        panic!("as planned");
    }));
    assert!(panicked.is_err() && made.len() == 3);
    assert!(!runs.unwrap().wait().unwrap().success());
    let left = namespaces().unwrap();
    assert!(made.iter().all(|name| !left.contains(name)), "{left:?}");
}

#[test]
fn only_dead_processes_namespaces_are_removed() {
    if Network::or_skip("stale networks").unwrap().is_none() {
        return;
    }
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let name = format!("rw-{}-0", child.id());
    ip(&["netns", "add", &name]).unwrap();
    drop(Network::new().unwrap());
    assert!(namespaces().unwrap().contains(&name));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(Network::new().unwrap());
    assert!(!namespaces().unwrap().contains(&name));
}
