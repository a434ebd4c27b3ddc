//! Services by the names of their hosts and by application protocols; datagrams of QQ and DNSCrypt,
//! bindings of DCE/RPC, headers of HAProxy.

use ringway_gateway::Confidence::{Certain, Guess, Likely};

use super::web::{client_hello, hello_with, records};
use super::{is, tcp, udp, unknown};
use crate::hex;

#[test]
fn services_by_hosts_and_look_alikes_not() {
    for (host, app) in [
        ("relay-1.net.anydesk.com", "anydesk"),
        ("login.teamviewer.com", "teamviewer"),
        ("derp1.tailscale.com", "tailscale"),
        ("dns.google", "doh"),
        ("teams.microsoft.com", "teams"),
        ("chat.signal.org", "signal"),
        ("www.vpngate.net", "softether"),
        ("store.steampowered.com", "steam"),
    ] {
        let flow = tcp(&[&records(&client_hello(host, 0), 10_000)]);
        is(&flow, app, Likely);
    }
    for host in [
        "notanydesk.com",
        "anydesk.com.example",
        "microsoft.com",
        "google",
    ] {
        let flow = tcp(&[&records(&client_hello(host, 0), 10_000)]);
        is(&flow, "tls", Certain);
    }
}

#[test]
fn names_over_tls_by_the_application_protocol() {
    let hello = |protocol: &[u8]| records(&hello_with("a.example", &[protocol]), 10_000);
    is(&tcp(&[&hello(b"dot")]), "dot", Certain);
    is(&tcp(&[&hello(b"dots")]), "tls", Certain);
}

#[test]
fn datagrams_between_fixed_bytes() {
    let logout = hex("02 3b0b 0001 0017 561f0c7b 0000000000000000 03");
    is(&udp(8_000, &[&logout]), "qq", Likely);
    is(&udp(8_001, &[&logout]), "qq", Guess);
    unknown(&udp(
        8_000,
        &[&hex("02 3b0b 0001 0017 561f0c7b 0000000000000000 04")],
    ));
    unknown(&udp(
        8_000,
        &[&hex("02 3b0b 0201 0017 561f0c7b 0000000000000000 03")],
    ));
    is(
        &udp(443, &[b"?", b"r6fnvWj8 and an answer"]),
        "dnscrypt",
        Certain,
    );
    unknown(&udp(443, &[b"r6fnvWj8 and an answer"]));
}

#[test]
fn bindings_and_headers_before_other_conversations() {
    is(
        &tcp(&[&hex("05000b03 10000000 4800 0000 01000000")]),
        "dcerpc",
        Certain,
    );
    unknown(&tcp(&[&hex("05000b03 20000000 4800 0000 01000000")]));
    unknown(&tcp(&[&hex("05000b03 10000000 0800 0000 01000000")]));
    let call = |length: u8| {
        [
            hex("04000800 100000 00"),
            vec![0; 66],
            vec![length, 0],
            vec![0; 4],
            vec![7; 20],
        ]
        .concat()
    };
    is(&udp(34_964, &[&call(20)]), "dcerpc", Certain);
    unknown(&udp(34_964, &[&call(21)]));
    is(
        &tcp(&[b"PROXY TCP4 192.0.2.1 192.0.2.2 50000 443\r\n"]),
        "haproxy",
        Likely,
    );
    unknown(&tcp(&[b"PROXY TCP4 192.0.2.1 192.0.2 50000 443\r\n"]));
    unknown(&tcp(&[b"PROXY TCP4 192.0.2.1 192.0.2.2 50000\r\n"]));
}
