//! Builds that do not encrypt their links understand each other, and no others.

use super::*;
use crate::certificate::CertificateFields;
use ringway_transport::Signer as _;

fn member(owner: &Identity, name: &str) -> (Certificate, Links) {
    let identity = Identity::generate().unwrap();
    let fields = CertificateFields {
        member: identity.member(),
        name: name.parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial: 1,
    };
    let certificate = Certificate::issue(owner, &fields);
    let ring = owner.member();
    let gatekeeper: Gatekeeper = Arc::new(move |shown| Certificate::decode(shown, &ring).ok());
    let rules = PathRules::default();
    let links = Links::new(identity, &certificate, gatekeeper, rules, [7; 32]);
    (certificate, links)
}

fn address(last: u8) -> Address {
    Address::Udp(([192, 0, 2, last], 4000).into())
}

#[test]
fn messages_pass_in_the_clear() {
    let owner = Identity::generate().unwrap();
    let ((_, mut a), (b_certificate, mut b)) = (member(&owner, "a"), member(&owner, "b"));
    let now = Instant::now();
    a.connect(now, &b_certificate, vec![address(2)]);
    let said = LinkMessage::Overlay(b"in the clear".to_vec().into());
    assert!(a.send(now, &b_certificate.member(), said.clone()));
    let mut clear = false;
    for _ in 0..4 {
        while let Some((_, packet)) = a.poll_transmit(now) {
            clear |= packet.windows(12).any(|part| part == b"in the clear");
            b.handle_packet(now, address(1), &packet);
        }
        while let Some((_, packet)) = b.poll_transmit(now) {
            a.handle_packet(now, address(2), &packet);
        }
    }
    let received = std::iter::from_fn(|| b.poll_event());
    let received = received
        .into_iter()
        .any(|event| matches!(event, Event::Message(_, m) if m == said));
    assert!(received && clear);
}

#[test]
fn a_handshake_of_a_secure_build_is_refused() {
    let owner = Identity::generate().unwrap();
    let (_, mut links) = member(&owner, "a");
    let now = Instant::now();
    for (kind, answered) in [(1, true), (2, false)] {
        let mut packet = vec![7; 400];
        packet[0] = kind;
        links.handle_packet(now, address(2), &packet);
        assert_eq!(links.poll_transmit(now).is_some(), answered);
    }
    assert_eq!(links.counters().handshakes_foreign, 2);
    assert_eq!(links.members(), []);
}
