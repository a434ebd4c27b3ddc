//! Links that go by way of a router.

use ringway_transport::RelayAddress;
use ringway_transport::limits::{RELAY_MTU, UDP_MTU};

use super::*;
use crate::link::fragment;

/// Two members, each behind the same router for the other.
fn relayed() -> (Net, MemberId, MemberId) {
    let (mut net, a, b) = Net::pair();
    let parent = MemberId::new([9; 32]);
    for (member, id) in net.members.iter_mut().zip([a, b]) {
        member.address = Address::Relay(RelayAddress { parent, member: id });
    }
    (net, a, b)
}

#[test]
fn relayed_paths_carry_no_further_relay() {
    let (mut net, _, b) = relayed();
    net.connect(0, 1);
    net.send(0, 1, text("through"));
    net.settle();
    net.send(1, 0, text("and back"));
    net.settle();
    assert_eq!(net.members[1].received, [text("through")]);
    assert_eq!(net.members[0].received, [text("and back")]);
    let now = net.now;
    let links = &mut net.members[0].links;
    assert!(links.is_up(&b) && !links.is_direct(&b));
    assert!(!links.send_directly(now, &b, text("nested")));
    net.settle();
    assert_eq!(net.members[1].received, [text("through")]);
}

#[test]
fn a_full_packet_is_relayed_whole() {
    let to = [7; 32].into();
    let packet = vec![7; RELAY_MTU].into();
    let message = LinkMessage::Relay { to, packet };
    assert!(fragment::fits(&message.encode(), UDP_MTU));
}

#[test]
fn addresses_found_later_are_tried() {
    let (mut net, _, b) = Net::pair();
    let certificate = net.members[1].certificate.clone();
    let now = net.now;
    let wrong = vec![address(77)];
    net.members[0].links.connect(now, &certificate, wrong);
    net.send(0, 1, text("found"));
    net.pass(Duration::from_millis(500));
    net.connect(0, 1);
    net.pass(Duration::from_millis(100));
    assert_eq!(net.members[1].received, [text("found")]);
    assert!(net.members[0].links.is_up(&b));
}
