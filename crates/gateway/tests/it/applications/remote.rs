//! SSH, RDP, VNC, Telnet, NoMachine, and what resembles them.

use ringway_gateway::Confidence::{Certain, Likely};

use super::{is, tcp, udp, unknown};
use crate::hex;

#[test]
fn ssh_by_its_greeting() {
    let flow = tcp(&[b"", b"SSH-2.0-Example_1.0 made\r\n"]);
    is(&flow, "ssh", Certain);
    assert!(flow.evidence.contains("Example_1.0"), "{}", flow.evidence);
    is(&tcp(&[b"SSH-1.99-old\n"]), "ssh", Certain);
    is(&tcp(&[b"SSH-2.0-Exa"]), "ssh", Likely);
    unknown(&tcp(&[b"SSH-3.0-Example\r\n"]));
    unknown(&tcp(&[b"SSH-2.0-\r\n"]));
    unknown(&tcp(&[b"SSH-2.0-a\x01b\r\n"]));
    unknown(&tcp(&[&[b"SSH-2.0-".as_slice(), &[b'a'; 300]].concat()]));
}

#[test]
fn rdp_by_what_only_its_requests_have() {
    let cookie = [
        hex("0300 0021 1c e0 0000 0000 00"),
        b"Cookie: mstshash=abc\r\n".to_vec(),
    ]
    .concat();
    is(&tcp(&[&cookie]), "rdp", Certain);
    let negotiates = hex("0300 0013 0e e0 0000 0000 00 01 00 0800 0b000000");
    is(&tcp(&[&negotiates]), "rdp", Certain);
    let confirms = hex("0300 0013 0e d0 0000 1234 00 02 00 0800 02000000");
    is(&tcp(&[b"", &confirms]), "rdp", Certain);
    // What other protocols over TPKT send; a length that contradicts the other one.
    unknown(&tcp(&[&hex(
        "0300 0016 11 e0 0000 0014 00 c1 02 0100 c2 02 0102 c0 01 0a",
    )]));
    unknown(&tcp(&[&hex("0300 000b 06 e0 0000 0000 00")]));
    unknown(&tcp(&[&hex(
        "0300 0013 0d e0 0000 0000 00 01 00 0800 0b000000",
    )]));
    unknown(&tcp(&[&hex(
        "0300 0013 0e e0 0000 0000 00 01 00 0900 0b000000",
    )]));
}

#[test]
fn vnc_by_its_version() {
    is(&tcp(&[b"", b"RFB 003.008\n"]), "vnc", Certain);
    is(&tcp(&[b"RFB 004.001\n"]), "vnc", Certain);
    unknown(&tcp(&[b"RFB 003,008\n"]));
    unknown(&tcp(&[b"RFB 03.0080\n"]));
    unknown(&tcp(&[b"RFB 003.008 "]));
}

#[test]
fn telnet_by_negotiated_options() {
    use super::super::{only, pair};
    let on = |port: u16, bytes: &[u8]| {
        let (client, mut server) = pair();
        server.set_port(port);
        let mut packets = ringway_gateway::Packets::new();
        let mut stream = packets.tcp(client, server);
        stream.open();
        stream.server(bytes);
        only(&packets)
    };
    let three = hex("fffd18 fffd20 fffb03 0d0a");
    is(&on(23, &three), "telnet", Certain);
    is(&on(2_323, &three), "telnet", Likely);
    is(&on(23, &three[..6]), "telnet", Likely);
    unknown(&on(23, &three[..3]));
    unknown(&on(23, &hex("fffd18 fff020")));
    unknown(&on(23, &hex("ffd8ff e00010 4a46")));
}

#[test]
fn nomachine_and_citrix_by_their_first_bytes() {
    is(&tcp(&[b"NXSH-8.10.1\n"]), "nomachine", Certain);
    unknown(&tcp(&[b"NXSH-8.10\n"]));
    unknown(&tcp(&[b"NXSH-8.10.x\n"]));
    let numbered = |number: u8| [hex("01000100 0a00"), vec![number, 0, 0, 0]].concat();
    let (one, two, three) = (numbered(1), numbered(2), numbered(3));
    is(
        &udp(4_000, &[&one, b"", &two, b"", &three]),
        "nomachine",
        Likely,
    );
    unknown(&udp(4_000, &[&one, b"", &one, b"", &one]));
    unknown(&udp(4_000, &[&one[..9], b"", &two[..9], b"", &three[..9]]));
    is(&tcp(&[b"", b"\x7f\x7fICA\0"]), "citrix", Certain);
    unknown(&tcp(&[b"", b"\x7f\x7fICB\0"]));
}
