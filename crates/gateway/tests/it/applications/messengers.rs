//! MSN Messenger, MSNFTP, IRC, DCC, XMPP.

use std::time::Duration;

use ringway_gateway::Confidence::{Certain, Guess, Likely};
use ringway_gateway::{FlowRecord, Packets};

use super::{is, tcp, unknown};
use crate::{at, classify};

#[test]
fn msn_messenger_by_version_account_or_message() {
    for (says, confidence) in [
        ("VER 1 MSNP8 MSNP7 CVR0\r\n", Certain),
        ("USR 1 a@example.com 1234.5678\r\n", Likely),
        ("ANS 1 a@example.com 1234.5678 99\r\n", Likely),
        (
            "MSG 4 N 60\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\nhi",
            Certain,
        ),
        ("XFR 2 SB 192.0.2.1:1863 CKI 1.2\r\nCHG 3 NLN\r\n", Likely),
    ] {
        is(&tcp(&[says.as_bytes()]), "msn", confidence);
    }
    for near in [
        "VER 1 MSN 8\r\n",
        "VER one MSNP8\r\n",
        "MSG 4 N 60\r\nhello\r\n",
        "USR 1 nobody 1\r\n",
        "XFR 2 SB\r\n",
    ] {
        unknown(&tcp(&[near.as_bytes()]));
    }
    let gateway = b"POST /gateway/gateway.dll?Action=open HTTP/1.1\r\nHost: g.example\r\nContent-Type: application/x-msn-messenger\r\n\r\n";
    let flow = tcp(&[gateway]);
    is(&flow, "msn", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("g.example"));
    is(
        &tcp(&[b"POST /gateway HTTP/1.1\r\nHost: g\r\n\r\n"]),
        "http",
        Certain,
    );
}

#[test]
fn msnftp_by_its_lines() {
    is(&tcp(&[b"VER MSNFTP\r\n"]), "msnftp", Certain);
    is(&tcp(&[b"", b"FIL 123456\r\n"]), "msnftp", Likely);
    is(&tcp(&[b"USR a@example.com 93301\r\n"]), "msnftp", Likely);
    is(
        &tcp(&[b"USR a@example.com 93301\r\nTFR\r\n"]),
        "msnftp",
        Certain,
    );
    unknown(&tcp(&[b"FIL name 123\r\n"]));
    unknown(&tcp(&[b"VER OTHERFTP\r\n"]));
}

#[test]
fn irc_by_its_lines() {
    for (says, confidence) in [
        ("NICK a\r\nUSER a 0 * :A\r\n", Certain),
        ("CAP LS 302\r\nNICK a\r\nUSER a 0 * :A\r\n", Certain),
        ("USER a 0 * :A\r\n", Likely),
        ("JOIN #a\r\nPRIVMSG #a :hello\r\n", Certain),
        ("PRIVMSG a :hello\r\n", Likely),
        ("NICK a\r\n", Guess),
    ] {
        is(&tcp(&[says.as_bytes()]), "irc", confidence);
    }
    is(
        &tcp(&[b"", b":s.example 001 a :Welcome\r\n"]),
        "irc",
        Certain,
    );
    is(
        &tcp(&[b"", b":s.example NOTICE * :*** Looking up\r\n"]),
        "irc",
        Likely,
    );
    for near in [
        // FTP, POP3, SMTP and others that end lines in the same way.
        "USER anonymous\r\nPASS a@b\r\n",
        "PASS secret\r\n",
        "PING\r\n",
        "NICK a\r\nHELO b\r\n",
        ":1000\r\n",
        "JOIN the club\r\n",
        "CAP table\r\n",
    ] {
        unknown(&tcp(&[near.as_bytes()]));
    }
}

/// An IRC conversation of 20 lines, then an offer of a file at a port of 192.0.2.77.
fn offer(packets: &mut Packets, port: u16) {
    let mut stream = packets.tcp(at("10.1.0.2:50000"), at("192.0.2.9:6667"));
    stream.open();
    stream.client(b"NICK a\r\nUSER a 0 * :A\r\n");
    for _ in 0..10 {
        stream.server(b":s.example PONG s.example :x\r\n");
        stream.client(b"PING :x\r\n");
    }
    let offer =
        format!(":b!b@h PRIVMSG a :\x01DCC SEND my song.ogg 3221226061 {port} 9000\x01\r\n");
    stream.server(offer.as_bytes());
}

/// An announcement late in the conversation counts as well.
#[test]
fn dcc_is_expected_at_announced_ports() {
    let mut packets = Packets::new();
    offer(&mut packets, 5_000);
    for (client, server) in [
        ("10.1.0.2:50001", "192.0.2.77:5000"),
        ("10.1.0.2:50002", "192.0.2.77:5001"),
    ] {
        let mut stream = packets.tcp(at(client), at(server));
        stream.open();
        stream.server(b"OggS and more");
    }
    let flows = classify(&packets);
    let of = |port: u16| flows.iter().find(|flow| flow.server_port == port).unwrap();
    is(of(5_000), "dcc", Likely);
    assert_eq!(
        of(5_000).evidence,
        "announced: 192.0.2.77:5000 was named by an offer in IRC"
    );
    unknown(of(5_001));
}

#[test]
fn irc_announcements_expire_and_exclude_services() {
    for (port, pause, known) in [(5_000, 0, true), (5_000, 400, false), (25, 0, false)] {
        let mut packets = Packets::new();
        offer(&mut packets, port);
        packets.wait(Duration::from_secs(pause));
        let mut stream = packets.tcp(at("10.1.0.2:50001"), at(&format!("192.0.2.77:{port}")));
        stream.open();
        stream.server(b"OggS and more");
        let flows = classify(&packets);
        let flow = flows.iter().find(|flow| flow.server_port == port).unwrap();
        if known {
            is(flow, "dcc", Likely);
        } else {
            unknown(flow);
        }
    }
}

/// A server that sends parts of these sizes, each answered by the client with a number.
fn transfer(parts: &[usize], counts: &[u32]) -> FlowRecord {
    let parts: Vec<Vec<u8>> = parts.iter().map(|size| vec![b'x'; *size]).collect();
    let counts: Vec<[u8; 4]> = counts.iter().map(|count| count.to_be_bytes()).collect();
    let mut messages: Vec<&[u8]> = vec![b""];
    for (part, count) in parts.iter().zip(&counts) {
        messages.extend([part.as_slice(), count]);
    }
    tcp(&messages)
}

#[test]
fn dcc_by_its_counts_of_received_bytes() {
    is(&transfer(&[500], &[500]), "dcc", Guess);
    let flow = transfer(&[500, 500], &[500, 1_000]);
    is(&flow, "dcc", Likely);
    assert!(
        flow.evidence.contains("2 packets that count"),
        "{}",
        flow.evidence
    );
    unknown(&transfer(&[500, 500], &[499, 999]));
    unknown(&transfer(&[10, 10], &[10, 20]));
}

#[test]
fn xmpp_streams_stanzas_and_http() {
    let head = "<?xml version='1.0'?>\n<stream:stream to='example.org' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    let flow = tcp(&[head.as_bytes()]);
    is(&flow, "xmpp", Certain);
    assert_eq!(flow.details.host.as_deref(), Some("example.org"));
    is(&tcp(&[b"<stream:stream version='1.0'>"]), "xmpp", Likely);
    is(
        &tcp(&[b"<message to='a@b'><body>x</body></message>"]),
        "xmpp",
        Guess,
    );
    is(
        &tcp(&[b"<iq type='get'><query xmlns='jabber:iq:roster'/></iq>"]),
        "xmpp",
        Likely,
    );
    let bosh = b"POST /http-bind HTTP/1.1\r\nHost: c.example\r\n\r\n<body xmlns='http://jabber.org/protocol/httpbind'/>";
    is(&tcp(&[bosh]), "xmpp", Certain);
    is(
        &tcp(&[b"POST /http-bind HTTP/1.1\r\nHost: c.example\r\n\r\n"]),
        "xmpp",
        Likely,
    );
    unknown(&tcp(&[b"<?xml version='1.0'?><rss version='2.0'>"]));
    unknown(&tcp(&[b"<messages>1</messages>"]));
    is(
        &tcp(&[b"POST /bind HTTP/1.1\r\nHost: c.example\r\n\r\n"]),
        "http",
        Certain,
    );
}

#[test]
fn xmpp_bytestreams_are_told_from_other_socks() {
    let name = b"972b7bf47291ca609517f67f86b5081086052dad";
    let request = |name: &[u8], port: &[u8]| {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 3, length], name, port].concat()
    };
    let ask = request(name, &[0, 0]);
    is(&tcp(&[&[5, 1, 0], &[5, 0], &ask]), "xmpp", Certain);
    let web = request(name, &[0, 80]);
    is(&tcp(&[&[5, 1, 0], &[5, 0], &web]), "socks", Certain);
    let other = request(b"www.example.org", &[0, 0]);
    is(&tcp(&[&[5, 1, 0], &[5, 0], &other]), "socks", Certain);
}
