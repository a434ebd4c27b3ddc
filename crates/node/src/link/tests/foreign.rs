//! A member whose build does not encrypt its links (feature `insecure`) gets no link with one that
//! does, certificate or not.

use super::*;
use crate::link::cookie::COOKIE;
use crate::link::handshake;
use crate::link::shown::Shown;
use crate::noise::TAG;

/// What such a build sends to begin a link: `link/plain.rs`.
fn plain_initiation(certificate: &Certificate) -> Vec<u8> {
    let shown = Shown {
        newest: 0,
        time: 1,
        certificate: certificate.as_bytes().to_vec(),
    };
    let mut packet = vec![17];
    packet.extend(1_u32.to_be_bytes());
    packet.extend([0; COOKIE]);
    packet.extend([0; handshake::LEAST]);
    packet.extend(shown.encode(LinkVersion::Newest));
    packet
}

/// A message as such a build sends it: its content, and zeros in place of a tag.
fn plain_data(session: (u32, u32), counter: u32, message: &LinkMessage) -> Vec<u8> {
    let mut packet = Packet::data_header(session.0, session.1, counter).to_vec();
    packet.extend(message.encode());
    packet.extend([0; TAG]);
    packet
}

#[test]
fn unencrypted_peers_get_a_notice_and_no_link() {
    let (mut net, a, _) = Net::pair();
    let initiation = plain_initiation(&net.members[0].certificate);
    let (from, to) = (address(1), address(2));
    net.deliver(from.clone(), to, &initiation);
    let links = &mut net.members[1].links;
    assert_eq!(links.counters().handshakes_foreign, 1);
    let (path, answer) = links.poll_transmit(net.now).unwrap();
    assert_eq!(path, from);
    // An empty response of ours, which is foreign to such a build.
    assert_eq!(answer, [&[2][..], &[0; 8]].concat());
    assert!(
        answer.len() < initiation.len(),
        "nobody's packets are made more"
    );
    assert!(!links.knows(&a));
    assert_eq!(links.counters().handshakes_read, 0);
    // An answer of such a build is answered nothing, or both would never end.
    links.handle_packet(net.now, from, &[&[18][..], &initiation[1..]].concat());
    assert_eq!(links.counters().handshakes_foreign, 2);
    assert!(links.poll_transmit(net.now).is_none());
    net.settle();
    assert_eq!(net.members[1].up, 0);
}

#[test]
fn plain_messages_are_refused_by_encrypted_links() {
    let (mut net, a, _) = Net::pair();
    net.connect(0, 1);
    net.send(0, 1, text("encrypted"));
    net.settle();
    let session = net.seen.iter().find_map(|(_, to, packet)| {
        let data = Packet::parse(packet).filter(|_| *to == address(2));
        match data? {
            Packet::Data {
                receiver, epoch, ..
            } => Some((receiver, epoch)),
            _ => None,
        }
    });
    for counter in 0..20 {
        let packet = plain_data(session.unwrap(), counter, &text("in the clear"));
        net.deliver(address(1), address(2), &packet);
    }
    net.settle();
    assert_eq!(net.members[1].received, [text("encrypted")]);
    assert!(net.members[1].links.is_up(&a));
    assert!(net.members[1].links.counters().packets_rejected >= 20);
}
