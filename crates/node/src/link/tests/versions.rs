//! Members whose builds speak other versions of the link protocol.

use super::flood::host;
use super::*;
use crate::versions::{LINK, LINK_OLDEST};

fn initiation(noise: &[u8]) -> Vec<u8> {
    let packet = Packet::Initiation {
        sender: 7,
        cookie: &cookie::NO_COOKIE,
        noise,
    };
    packet.encode()
}

/// Lets five seconds pass in which no initiation of the newest version arrives, as with a peer of
/// release 0.2.
fn pass_without_newest(net: &mut Net) {
    for _ in 0..100 {
        for from in 0..net.members.len() {
            while let Some((to, packet)) = net.members[from].links.poll_transmit(net.now) {
                if !is_newest(net, &packet) {
                    let source = net.members[from].address.clone();
                    net.deliver(source, to, &packet);
                }
            }
        }
        net.now += Duration::from_millis(50);
        let now = net.now;
        for member in &mut net.members {
            member.links.handle_timeout(now);
        }
    }
}

fn is_newest(net: &Net, packet: &[u8]) -> bool {
    let Some(Packet::Initiation { noise, .. }) = Packet::parse(packet) else {
        return false;
    };
    let read = |member: &Member| {
        handshake::respond(&member.links.own.identity, LinkVersion::Newest, noise).is_ok()
    };
    net.members.iter().any(read)
}

#[test]
fn peer_of_release_before_gets_a_link() {
    let (mut net, a, b) = Net::pair();
    net.connect(0, 1);
    pass_without_newest(&mut net);
    assert!(net.members[0].links.is_up(&b) && net.members[1].links.is_up(&a));
    let spoken = net.members[0].links.versions().of(&b);
    assert_eq!(spoken, Some(LinkVersion::Earlier));
    assert_eq!(
        net.members[1].links.versions().of(&a),
        Some(LinkVersion::Earlier)
    );
}

/// What keeps packets back does not lead to an older version once the newest was spoken.
#[test]
fn known_peer_is_not_downgraded() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.settle();
    assert_eq!(
        net.members[0].links.versions().of(&b),
        Some(LinkVersion::Newest)
    );
    let now = net.now;
    net.members[0].links.close(now, &b, LinkEnd::Unused);
    net.connect(0, 1);
    pass_without_newest(&mut net);
    assert!(!net.members[0].links.is_up(&b));
}

#[test]
fn version_two_handshakes_are_never_new() {
    let (mut net, a, _) = Net::pair();
    let shown = shown::Shown {
        newest: 0,
        time: u64::MAX,
        certificate: net.members[0].certificate.as_bytes().to_vec(),
    };
    let earlier = LinkVersion::Earlier;
    let to = net.members[1].certificate.member();
    let begun =
        handshake::Initiator::begin(&net.members[0].links.own.identity, &to, earlier, &shown);
    let (_, noise) = begun.unwrap();
    let now = net.now;
    let links = &mut net.members[1].links;
    links.handle_packet(now, host(1), &initiation(&noise));
    assert_eq!(links.counters().cookies_sent, 1, "its address is unproved");
    assert!(links.half_open.is_empty() && !links.is_up(&a));
}

#[test]
fn other_versions_are_named_and_told() {
    for version in [LINK_OLDEST - 1, LINK + 1] {
        let (mut net, a, b) = Net::pair();
        let mut packet = initiation(&handshake::of_version(
            &net.members[0].links.own.identity,
            &b,
            version,
        ));
        if version < LINK_OLDEST {
            // The first version had no cookie.
            packet.drain(5..5 + cookie::COOKIE);
        }
        let now = net.now;
        let links = &mut net.members[1].links;
        links.handle_packet(now, address(1), &packet);
        links.handle_packet(now, address(1), &packet);
        let counted = links.counters().handshakes_other_version;
        assert_eq!(counted, 1, "one a second");
        assert_eq!(
            links.versions().other(&a).map(|other| other.version),
            Some(version)
        );
        assert_eq!(links.versions().other(&b), None);
        let (_, answer) = links.poll_transmit(now).unwrap();
        assert!(answer.len() < packet.len(), "no amplifier");
        let told = Packet::parse(&answer);
        assert!(matches!(told, Some(Packet::Versions { oldest, newest, .. })
            if oldest == LINK_OLDEST && newest == LINK));
    }
}

#[test]
fn told_versions_count_for_own_initiations_only() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    let now = net.now;
    let links = &mut net.members[0].links;
    let (to, packet) = links.poll_transmit(now).unwrap();
    let Some(Packet::Initiation { sender, .. }) = Packet::parse(&packet) else {
        panic!("an initiation")
    };
    let answer = |initiation: &cookie::Cookie, oldest, newest| {
        let packet = Packet::Versions {
            receiver: sender,
            initiation,
            oldest,
            newest,
        };
        packet.encode()
    };
    let name = cookie::name_of(&packet);
    let (later, last) = (LINK + 1, LINK + 3);
    links.handle_packet(now, to.clone(), &answer(&[9; 16], later, last));
    links.handle_packet(now, to.clone(), &answer(&name, LINK, last));
    links.handle_packet(now, host(9), &answer(&name, later, last));
    assert_eq!(links.versions().other(&b), None);
    links.handle_packet(now, to, &answer(&name, later, last));
    assert_eq!(
        links.versions().other(&b).map(|other| other.version),
        Some(last)
    );
    // It proves nothing, and so ends nothing.
    net.members[1].links.handle_packet(now, address(1), &packet);
    net.settle();
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(net.members[0].links.versions().other(&b), None);
}
