//! Packets with a wrong checksum on the live path: their receivers discard them, so they may hide
//! nothing.

use ringway_gateway::policy::Action;
use ringway_gateway::verdict::Settings;
use ringway_gateway::{LinkType, Packets};

use super::{at, enforcing, governed};

const BLOCK: &str = "[[rule]]\nname = \"b\"\napp = \"bittorrent\"\naction = \"block\"\n";

#[test]
fn what_its_receiver_discards_hides_nothing() {
    for spoilt in [true, false] {
        let mut gateway = governed(BLOCK, enforcing());
        let handshake = [b"\x13BitTorrent protocol".as_slice(), &[7; 48]].concat();
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6881"));
        stream.open();
        stream.client(&handshake);
        for _ in 0..10 {
            stream.server(&[2; 100]);
            stream.client(&[1; 100]);
        }
        for (number, (now, bytes)) in packets.iter().enumerate() {
            if number == 3 {
                // The same packet with other bytes comes first; its checksum stays.
                let mut junk = bytes.to_vec();
                let from = junk.len() - handshake.len();
                junk[from..].fill(b'x');
                let verdict = if spoilt {
                    gateway.handle_unverified(now, 0, LinkType::RawIp, &junk)
                } else {
                    gateway.handle_queued(now, 0, LinkType::RawIp, &junk)
                };
                assert!(verdict.accepts());
            }
            let _ = gateway.handle_unverified(now, 0, LinkType::RawIp, bytes);
        }
        let action = gateway.flows(1)[0].action;
        // Without a look at the checksum the first copy would count.
        assert_eq!(action == Some(Action::Block), spoilt, "{action:?}");
    }
}

/// Receivers may be told to take these (RFC 6936).
#[test]
fn datagrams_over_ipv6_without_a_checksum_are_flows() {
    let mut gateway = governed(BLOCK, Settings::default());
    let mut packets = Packets::new();
    let ping = b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe";
    packets.udp(at("[2001:db8::5]:4000"), at("[2001:db8::9]:6881"), ping);
    for (now, bytes) in packets.iter() {
        let mut bytes = bytes.to_vec();
        bytes[46..48].fill(0);
        let _ = gateway.handle_unverified(now, 0, LinkType::RawIp, &bytes);
    }
    assert_eq!(gateway.flows(9)[0].record.app, "bittorrent");
}
