//! What one signature confirms, asked about by what it makes necessary: messages of samples,
//! changed byte by byte, and messages made to fit checks in every way they allow.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use ringway_gateway::classify::{Bounds, Inspection, Signature};
use ringway_gateway::flow::{Direction, Flow};
use ringway_gateway::packet::{Packet, Tcp};
use ringway_gateway::triage::{Begin, Triage};
use ringway_gateway::{Classifier, L4, SignatureSet, samples};

use super::{ROOM, blocking, borrowed, packets, watch};
use crate::{at, own};

pub(super) const FILES: [&str; 14] = [
    include_str!("../../../signatures/peer_to_peer.toml"),
    include_str!("../../../signatures/messengers.toml"),
    include_str!("../../../signatures/private.toml"),
    include_str!("../../../signatures/tunnels.toml"),
    include_str!("../../../signatures/remote.toml"),
    include_str!("../../../signatures/calls.toml"),
    include_str!("../../../signatures/network.toml"),
    include_str!("../../../signatures/mail.toml"),
    include_str!("../../../signatures/databases.toml"),
    include_str!("../../../signatures/things.toml"),
    include_str!("../../../signatures/games.toml"),
    include_str!("../../../signatures/services.toml"),
    include_str!("../../../signatures/names.toml"),
    include_str!("../../../signatures/web.toml"),
];

/// One signature by itself, with those of which it is a special form where it needs them.
struct Alone {
    name: String,
    application: String,
    l4: Option<L4>,
    port: u16,
    classifier: Classifier,
    triage: Triage,
}

fn entries() -> impl Iterator<Item = String> {
    let parts = FILES
        .iter()
        .flat_map(|file| file.split("[[signature]]\n").skip(1));
    parts.map(|part| format!("[[signature]]\n{part}"))
}

fn alone() -> &'static [Alone] {
    static ALL: LazyLock<Vec<Alone>> = LazyLock::new(|| entries().map(|text| one(&text)).collect());
    &ALL
}

fn one(text: &str) -> Alone {
    let (set, signature) = with_refined(text, &str::to_owned);
    let by_name = !signature.hosts.is_empty() || !signature.alpn.is_empty();
    let policy = blocking(&BTreeSet::from([signature.application.clone()]));
    Alone {
        triage: Triage::new(&set, &policy).unwrap(),
        classifier: Classifier::new(&set, Bounds::default()).unwrap(),
        l4: (!by_name).then_some(signature.l4),
        port: signature.only_ports.first().copied().unwrap_or(40_000),
        name: signature.name,
        application: signature.application,
    }
}

/// A signature and those that it needs, each entry changed.
fn with_refined(text: &str, change: &dyn Fn(&str) -> String) -> (SignatureSet, Signature) {
    let mut set = SignatureSet::parse(&change(text)).unwrap();
    let signature = set.signatures()[0].clone();
    let by_name = !signature.hosts.is_empty() || !signature.alpn.is_empty();
    if by_name || signature.name == "tor.client_hello" {
        for entry in entries() {
            let other = SignatureSet::parse(&change(&entry)).unwrap();
            if signature
                .refines
                .contains(&other.signatures()[0].application)
            {
                let mut both = other;
                both.extend(set);
                set = both;
            }
        }
    }
    (set, signature)
}

/// What a side says: from the client or not, and the bytes.
type Said = (bool, Vec<u8>);

struct Talk {
    l4: L4,
    client: SocketAddr,
    server: SocketAddr,
    next: [u32; 2],
}

impl Talk {
    fn packet<'a>(&mut self, from_client: bool, syn: bool, payload: &'a [u8]) -> Packet<'a> {
        let ends = [self.client, self.server];
        let side = usize::from(!from_client);
        let sequence = self.next[side];
        let length = u32::try_from(payload.len()).unwrap() + u32::from(syn);
        self.next[side] = sequence.wrapping_add(length);
        let tcp = Tcp {
            sequence,
            acknowledged: self.next[1 - side],
            syn,
            ack: !(syn && from_client),
            ..Tcp::default()
        };
        Packet {
            l4: self.l4,
            source: ends[side],
            destination: ends[1 - side],
            ip_len: 40,
            ip_header: &[],
            segment: &[],
            payload,
            truncated: false,
            tcp: (self.l4 == L4::Tcp).then_some(tcp),
        }
    }
}

#[derive(Default)]
struct Own(Inspection);

impl AsMut<Inspection> for Own {
    fn as_mut(&mut self) -> &mut Inspection {
        &mut self.0
    }
}

/// Runs a conversation in order through one signature; answers whether it was confirmed, and fails
/// if nothing that was said by then is asked about.
fn confirmed(alone: &Alone, l4: L4, said: &[Said]) -> bool {
    match heard(alone, &alone.triage, l4, said) {
        Some(Err(missed)) => panic!("{missed}"),
        other => other.is_some(),
    }
}

/// The same; an error says what was not asked about.
fn heard(alone: &Alone, triage: &Triage, l4: L4, said: &[Said]) -> Option<Result<(), String>> {
    let mut talk = Talk {
        l4,
        client: at("10.1.0.2:50000"),
        server: SocketAddr::new(at("192.0.2.9:1").ip(), alone.port),
        next: [1_000, 9_000],
    };
    let opening = talk.packet(true, l4 == L4::Tcp, &[]);
    let mut flow: Flow<Own> = Flow::begin(&opening, Duration::ZERO, 0);
    if l4 == L4::Tcp {
        alone
            .classifier
            .handle_packet(&mut flow, Direction::FromClient, &opening, ROOM);
        let answer = talk.packet(false, true, &[]);
        alone
            .classifier
            .handle_packet(&mut flow, Direction::FromServer, &answer, ROOM);
    }
    let mut heard = [false; 2];
    let mut asked = false;
    for (from_client, payload) in said {
        let packet = talk.packet(*from_client, false, payload);
        let (direction, side) = if *from_client {
            (Direction::FromClient, 0)
        } else {
            (Direction::FromServer, 1)
        };
        alone
            .classifier
            .handle_packet(&mut flow, direction, &packet, ROOM);
        let begin = match (l4, heard[side]) {
            (L4::Udp, _) => Begin::Datagram,
            (L4::Tcp, false) => Begin::Stream,
            (L4::Tcp, true) => Begin::Segment,
        };
        if !payload.is_empty() {
            heard[side] = true;
            let length = u32::try_from(payload.len()).unwrap();
            let server = SocketAddr::from(([192, 0, 2, 1], alone.port));
            asked |= triage.asks_about(l4, server) || triage.judge(begin, payload, length).ask;
        }
        let verdict = flow.attachment.0.verdict();
        if let Some(verdict) = verdict.filter(|verdict| verdict.application == alone.application) {
            return Some(if asked {
                Ok(())
            } else {
                Err(format!(
                    "{} is confirmed ({}) and nothing was asked about: {:02x?} {:?}",
                    alone.name,
                    verdict.evidence,
                    &payload[..payload.len().min(80)],
                    String::from_utf8_lossy(&payload[..payload.len().min(700)])
                ))
            });
        }
    }
    None
}

/// Conversations of which no sample has one.
fn made() -> Vec<(L4, Vec<Said>)> {
    let text = |text: &str| (L4::Tcp, vec![(true, text.as_bytes().to_vec())]);
    let to = |host: &str| text(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let asked = |first: u8| [&[first, 0x91, 2, 0][..], &[0xe7; 9]].concat();
    let skype = [(true, 0x81), (false, 0x81), (true, 0x82), (false, 0x82)];
    let have = [0, 0, 0, 5, 4, 0, 0, 0, 1].repeat(3);
    vec![
        (L4::Tcp, vec![(true, have)]),
        (
            L4::Udp,
            skype.map(|(from, first)| (from, asked(first))).into(),
        ),
        text("GET /a?info_hash=aaaaaaaaaaaaaaaaaaaa&piece=1 HTTP/1.1\r\n\r\n"),
        text("POST /gateway/gateway.dll?a HTTP/1.1\r\nHost: a\r\n\r\n"),
        text("POST /a HTTP/1.1\r\nContent-type: application/x-msn-messenger\r\n\r\n"),
        text("POST /http-bind HTTP/1.1\r\nHost: a\r\n\r\n"),
        text("GET /a HTTP/1.1\r\nsec-websocket-protocol: XMPP\r\n\r\n"),
        text("CONNECT relay.syncthing.net:443 HTTP/1.1\r\n\r\n"),
        to("Relay.SYNCTHING.net:80"),
        to("web.whatsapp.com"),
        to("t.me."),
        to("gateway.messenger.live.com"),
        to("bridges.torproject.org"),
    ]
}

/// What is said in the first packets of all flows of samples and of real programs.
fn conversations() -> &'static [(L4, Vec<Said>)] {
    static ALL: LazyLock<Vec<(L4, Vec<Said>)>> = LazyLock::new(|| {
        let files = samples::captures().into_iter().map(|(_, file)| file);
        let files: Vec<Vec<u8>> = files
            .chain(own::captures().into_iter().map(|(_, file)| file))
            .collect();
        let mut all = made();
        for flow in files
            .iter()
            .flat_map(|file| watch(borrowed(&packets(file)), false))
        {
            let Some(first) = flow.steps.first() else {
                continue;
            };
            let l4 = if first.tcp.is_some() {
                L4::Tcp
            } else {
                L4::Udp
            };
            let said: Vec<Said> = flow
                .steps
                .iter()
                .filter(|step| !step.payload.is_empty())
                .map(|step| (step.source == first.source, step.payload.clone()))
                .take(8)
                .collect();
            all.push((l4, said));
        }
        all
    });
    &ALL
}

fn of(l4: L4) -> impl Iterator<Item = &'static Alone> {
    alone()
        .iter()
        .filter(move |one| one.l4.is_none_or(|own| own == l4))
}

#[test]
fn sample_messages_with_any_early_byte_changed() {
    let mut ever: BTreeSet<&str> = BTreeSet::new();
    for (l4, said) in conversations() {
        for one in of(*l4).filter(|one| confirmed(one, *l4, said)) {
            // Some of each kind: the samples repeat themselves.
            if !ever.insert(&one.name) {
                continue;
            }
            for (which, place) in
                (0..said.len().min(4)).flat_map(|which| (0..40).map(move |place| (which, place)))
            {
                let mut changed = said.clone();
                for value in (0..=255_u8).step_by(3).chain([0x10, 0x20, 0xff]) {
                    if let Some(byte) = changed[which].1.get_mut(place) {
                        *byte = value;
                        confirmed(one, *l4, &changed);
                    }
                }
            }
        }
    }
    let never: Vec<&str> = alone()
        .iter()
        .map(|one| one.name.as_str())
        .filter(|name| !ever.contains(name))
        .collect();
    println!(
        "{} signatures confirmed; by no sample: {never:?}",
        ever.len()
    );
    assert!(ever.len() >= 50, "{ever:?}");
}

/// An entry whose messages are said to have what they have not.
fn spoilt(entry: &str) -> String {
    let mut table: toml::Table = entry.parse().unwrap();
    let entry = &mut table["signature"][0].as_table_mut().unwrap();
    for (key, wrong) in [
        ("opening", "fe fd fe fd fe fd"),
        ("naming", "fe fd fe fd fe fd"),
        ("needs", "no such text"),
        ("name_after", "no such text"),
    ] {
        if let Some(list) = entry.get_mut(key) {
            *list = vec![wrong.to_owned()].into();
        }
    }
    toml::to_string(&table).unwrap()
}

#[test]
fn signature_with_wrong_requirements_is_detected() {
    let (mut found, mut not) = (Vec::new(), Vec::new());
    for text in entries() {
        let alone = one(&text);
        let (set, _) = with_refined(&text, &spoilt);
        let keys = ["opening = ", "needs = "];
        if !keys.iter().any(|key| text.contains(key)) && alone.l4.is_some() {
            continue;
        }
        let policy = blocking(&BTreeSet::from([alone.application.clone()]));
        let wrong = Triage::new(&set, &policy).unwrap();
        let missed = conversations().iter().any(|(l4, said)| {
            alone.l4.is_none_or(|own| own == *l4)
                && matches!(heard(&alone, &wrong, *l4, said), Some(Err(_)))
        });
        if missed { &mut found } else { &mut not }.push(alone.name);
    }
    println!("found out: {found:?}\nspoken in no sample: {not:?}");
    assert!(found.len() >= 36, "{found:?}; not: {not:?}");
}

fn named(name: &str) -> &'static Alone {
    alone().iter().find(|one| one.name == name).unwrap()
}

/// Both sides say the same bytes several times.
fn repeated(bytes: &[u8]) -> Vec<Said> {
    (0..6).map(|turn| (turn % 2 == 0, bytes.to_vec())).collect()
}

#[test]
fn every_opcode_with_every_allowed_length() {
    let mut found = 0;
    let (udp, kad) = (named("edonkey.udp"), named("edonkey.kad"));
    for protocol in [0xc5, 0xd4, 0xe3, 0xe4, 0xe5] {
        for opcode in 0..=255_u8 {
            for length in (0..=40).chain([64, 100]) {
                let mut body = vec![0_u8; length];
                for (place, value) in [(0, 0x78), (1, 0x9c), (18, 5)] {
                    if let Some(byte) = body.get_mut(place) {
                        *byte = value;
                    }
                }
                let message = [&[protocol, opcode][..], &body].concat();
                found += usize::from(confirmed(udp, L4::Udp, &repeated(&message)));
                found += usize::from(confirmed(kad, L4::Udp, &repeated(&message)));
                for first in [2, 4, 11] {
                    let mut message = message.clone();
                    if let Some(byte) = message.get_mut(2) {
                        *byte = first;
                    }
                    found += usize::from(confirmed(kad, L4::Udp, &repeated(&message)));
                }
            }
        }
    }
    assert!(found > 500, "{found}");
}

#[test]
fn every_edonkey_frame_and_bittorrent_message() {
    let mut found = [0; 2];
    for opcode in 0..=255_u8 {
        for length in (1..=60_u32).chain([100, 4_096]) {
            let body = vec![0; usize::try_from(length).unwrap() - 1];
            for protocol in [0xc5, 0xd4, 0xe3] {
                let frame = [&[protocol][..], &length.to_le_bytes(), &[opcode], &body].concat();
                let said = [(true, frame.repeat(4))];
                found[0] += usize::from(confirmed(named("edonkey.tcp"), L4::Tcp, &said));
            }
            let message = [&length.to_be_bytes()[..], &[opcode], &body].concat();
            let have = [0, 0, 0, 5, 4, 0, 0, 0, 1].repeat(3);
            for before in [&[][..], &[0; 4]] {
                let said = [(true, [before, &message, &have].concat())];
                found[1] += usize::from(confirmed(named("bittorrent.messages"), L4::Tcp, &said));
            }
        }
    }
    assert!(found.iter().all(|&count| count > 100), "{found:?}");
}

#[test]
fn headers_of_datagrams_in_every_way() {
    let (utp, handshake) = (named("bittorrent.utp"), named("bittorrent.utp_handshake"));
    let mut found = [0; 4];
    for first in 0..=255_u8 {
        for (extension, rest) in [
            (0, &[][..]),
            (1, &[0, 4, 1, 2, 3, 4]),
            (1, &[0, 8, 1, 2, 3, 4, 5, 6, 7, 8]),
            (2, &[0, 8, 1, 2, 3, 4, 5, 6, 7, 8]),
            (2, &[1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 4, 1, 2, 3, 4]),
            (3, &[0, 4, 1, 2, 3, 4]),
            (4, &[0, 4, 1, 2, 3, 4]),
        ] {
            for body in [&b""[..], b"\x13BitTorrent protocol"] {
                let mut said = Vec::new();
                for number in 1..6_u8 {
                    let head = [
                        first, extension, 1, 1, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 9, 0, number,
                        0, 0,
                    ];
                    said.push((true, [&head[..], rest, body].concat()));
                }
                found[0] += usize::from(confirmed(utp, L4::Udp, &said));
                found[1] += usize::from(confirmed(handshake, L4::Udp, &said));
            }
        }
        for (hops, length) in [
            ([1, 0], 2_u32),
            ([8, 8], 14),
            ([16, 0], 100),
            ([0x80, 0x10], 40),
        ] {
            let guid = [0x9f; 16];
            let body = vec![0; usize::try_from(length).unwrap()];
            let message = [&guid[..], &[first], &hops, &length.to_le_bytes(), &body].concat();
            found[2] += usize::from(confirmed(
                named("gnutella.descriptor"),
                L4::Udp,
                &repeated(&message),
            ));
        }
        for version in [
            0,
            1,
            0x6b33_43cf,
            0xff00_0014,
            0xff00_0022,
            0xface_b00f,
            0x5130_3436,
            0x5130_3530,
            0x5430_3531,
            0x1a2a_3a4a_u32,
        ] {
            for (ids, more) in [
                (&[0, 0][..], 1_300),
                (&[20, 0], 1_300),
                (&[0x50][..], 1_300),
            ] {
                let mut message = [&[first][..], &version.to_be_bytes(), ids].concat();
                message.extend([0; 20]);
                message.extend(vec![0, 0x44, 0x00]);
                message.resize(more, 1);
                found[3] += usize::from(confirmed(
                    named("quic.long_header"),
                    L4::Udp,
                    &[(true, message)],
                ));
            }
        }
    }
    assert!(found.iter().all(|&count| count > 3), "{found:?}");
}

/// Header lines that mean something to a special form of HTTP, and some that do not.
fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("User-Agent"),
        Just("Host"),
        Just("Content-Type"),
        Just("Sec-WebSocket-Protocol"),
        Just("X-Kazaa-Username"),
        Just("X-Queue"),
        Just("X-Gnutella-Alternate"),
        Just("X-Alt"),
        Just("X-Thex-URI"),
        Just("Upgrade"),
        Just("Accept"),
        Just("Referer"),
    ];
    let value = prop_oneof![
        Just("Transmission/4.0"),
        Just("qBittorrent/5"),
        Just("Azureus 5"),
        Just("LimeWire/5"),
        Just("Envy 1"),
        Just("Mozilla/5.0"),
        Just("www.SYNCTHING.net"),
        Just("a.discord.com:443"),
        Just("ipfs.io."),
        Just("t.me"),
        Just("application/x-msn-messenger"),
        Just("text/xml; charset=utf-8"),
        Just("xmpp"),
        Just("ringway"),
        Just("websocket"),
        Just("*/*"),
        Just("reseed2.i2p.net"),
    ];
    let between = prop_oneof![
        Just(":"),
        Just(": "),
        Just(":\t "),
        Just(" : "),
        Just(":\u{a0}")
    ];
    let end = prop_oneof![4 => Just("\r\n"), 1 => Just("\n"), 1 => Just(" \r\n")];
    (name, between, value, end, any::<u8>()).prop_map(|(name, between, value, end, case)| {
        let name = match case % 3 {
            0 => name.to_owned(),
            1 => name.to_lowercase(),
            _ => name.to_uppercase(),
        };
        format!("{name}{between}{value}{end}")
    })
}

fn request_line() -> impl Strategy<Value = String> {
    let method = prop_oneof![
        6 => Just("GET"), 2 => Just("POST"), 1 => Just("HEAD"), 2 => Just("CONNECT"), 1 => Just("PUT")
    ];
    let target = prop_oneof![
        Just("/"),
        Just("/announce?info_hash=aaaaaaaaaaaaaaaaaaaa&port=1"),
        Just("/a?x=1&info_hash=aaaaaaaaaaaaaaaaaaaa&piece=1"),
        Just("/scrape?info_hash=aaaaaaaaaaaaaaaaaaaa"),
        Just("/uri-res/N2R?urn:sha1:A"),
        Just("/get/12/name"),
        Just("/.hash=0123456789abcdef0123456789abcdef01234567"),
        Just("/.files"),
        Just("/gateway/gateway.dll?a"),
        Just("/x/http-bind/"),
        Just("/http-bind"),
        Just("web.telegram.org:443"),
        Just("http://a/b"),
        Just("/\"<>"),
    ];
    let answer = Just("HTTP/1.1 200 OK\r\n".to_owned());
    let asked = (method, target, prop_oneof![Just("\r\n"), Just("\n")])
        .prop_map(|(method, target, end)| format!("{method} {target} HTTP/1.1{end}"));
    prop_oneof![5 => asked, 1 => answer]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn heads_with_what_special_forms_look_for(
        first in request_line(),
        lines in proptest::collection::vec(line(), 0..6),
        body in prop_oneof![Just(""), Just("<body xmlns='http://jabber.org/protocol/httpbind'/>")],
        cut in proptest::option::of(0..700_usize),
        padding in prop_oneof![4 => Just(0_usize), 1 => 0..600_usize],
        from_client: bool,
        later: bool,
    ) {
        let padding = format!("X-Padding: {}\r\n", "x".repeat(padding));
        let head = format!("{first}{padding}{}\r\n{body}", lines.concat()).into_bytes();
        let cut = cut.unwrap_or(0).min(head.len());
        let (one, other) = head.split_at(cut);
        let mut said = vec![(from_client, one.to_vec()), (from_client, other.to_vec())];
        if later {
            said.insert(0, (from_client, b"GET /first HTTP/1.1\r\n\r\n".to_vec()));
        }
        said.retain(|(_, bytes)| !bytes.is_empty());
        for one in of(L4::Tcp) {
            confirmed(one, L4::Tcp, &said);
        }
    }

    #[test]
    fn messages_of_samples_changed_cut_and_joined(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..64_usize, any::<u8>()), 0..6),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 1..80_usize), 0..3),
        swapped: bool,
    ) {
        let (l4, said) = which.get(conversations());
        let mut said = said.clone();
        for (packet, place, value) in changes {
            if said.is_empty() { continue; }
            let packet = packet.index(said.len());
            if let Some(byte) = said[packet].1.get_mut(place) {
                *byte = value;
            }
        }
        for (packet, place) in cuts {
            if said.is_empty() { continue; }
            let packet = packet.index(said.len());
            if place < said[packet].1.len() {
                let rest = said[packet].1.split_off(place);
                if *l4 == L4::Tcp {
                    said.insert(packet + 1, (said[packet].0, rest));
                }
            }
        }
        if swapped {
            for (from_client, _) in &mut said {
                *from_client = !*from_client;
            }
        }
        for one in of(*l4) {
            confirmed(one, *l4, &said);
        }
    }
}
