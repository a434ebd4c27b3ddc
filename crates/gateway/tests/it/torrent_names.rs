//! Names of torrents: read from what peers and the web bring, for as long as one may come, and only
//! where they are looked for.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ringway_gateway::verdict::{Gateway, Offload, Settings, Verdict};
use ringway_gateway::{InfoHash, LinkType, Packets, TorrentName};

use super::{at, enforcing, governed};

const ALL: &str = "[gateway]\nnames = \"all\"\n";
const PIECE: usize = 16_384;

fn info(name: &str, pieces: usize) -> Vec<u8> {
    let length = name.len();
    let head = format!("d6:lengthi9e4:name{length}:{name}12:piece lengthi16384e6:pieces{pieces}:");
    [head.as_bytes(), &vec![7; pieces], b"e"].concat()
}

fn hash(info: &[u8]) -> [u8; 20] {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, info);
    hash.as_ref().try_into().unwrap()
}

fn named(info: &[u8], name: &str) -> Vec<TorrentName> {
    vec![TorrentName {
        infohash: InfoHash::new(hash(info)),
        name: name.to_owned(),
    }]
}

fn handshake(hash: [u8; 20]) -> Vec<u8> {
    let reserved = [0, 0, 0, 0, 0, 0x10, 0, 0];
    [
        b"\x13BitTorrent protocol",
        reserved.as_slice(),
        &hash,
        &[9; 20],
    ]
    .concat()
}

fn message(number: u8, head: &str, bytes: &[u8]) -> Vec<u8> {
    let body = [&[20, number], head.as_bytes(), bytes].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [length.as_slice(), &body].concat()
}

fn wants() -> Vec<u8> {
    message(0, "d1:md11:ut_metadatai3eee", b"")
}

fn has(size: usize) -> Vec<u8> {
    let head = format!("d1:md11:ut_metadatai2ee13:metadata_sizei{size}ee");
    message(0, &head, b"")
}

fn ask(number: usize) -> Vec<u8> {
    message(2, &format!("d8:msg_typei0e5:piecei{number}ee"), b"")
}

fn data(info: &[u8], number: usize) -> Vec<u8> {
    let size = info.len();
    let head = format!("d8:msg_typei1e5:piecei{number}e10:total_sizei{size}ee");
    let piece = info.chunks(PIECE).nth(number).unwrap();
    message(3, &head, piece)
}

/// A client that has a magnet link only, and a peer that sends it this as the torrent's metadata.
fn exchange(packets: &mut Packets, port: u16, hash: [u8; 20], info: &[u8], numbers: &[usize]) {
    let mut stream = packets.tcp(([10, 0, 0, 5], port).into(), at("192.0.2.9:6881"));
    stream.open();
    stream.client(&handshake(hash));
    stream.server(&[handshake(hash), has(info.len())].concat());
    stream.client(&wants());
    for &number in numbers {
        stream.client(&ask(number));
        for part in data(info, number).chunks(1_400) {
            stream.server(part);
        }
    }
}

/// Runs packets through a gateway: their verdicts, and the names that flows have shown.
fn run(gateway: &mut Gateway, packets: &Packets) -> (Vec<Verdict>, Vec<TorrentName>) {
    gateway.report_accounts();
    let verdicts = packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes));
    let verdicts = verdicts.collect();
    let mut names = Vec::new();
    while let Some(view) = gateway.poll_account() {
        for name in view.torrent_names {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    (verdicts, names)
}

/// After how many packets the kernel carries a flow alone.
fn offloaded(verdicts: &[Verdict]) -> Option<usize> {
    let carried = Some(Offload::Allowed);
    verdicts
        .iter()
        .position(|verdict| verdict.offload() == carried)
}

#[test]
fn metadata_between_peers_names_the_torrent() {
    let info = info("A film\u{1b}[2J", 30_000);
    for settings in [enforcing(), Settings::default()] {
        let mut gateway = governed(ALL, settings);
        let mut packets = Packets::new();
        exchange(&mut packets, 50_000, hash(&info), &info, &[0, 1]);
        let mut stream = packets.tcp(at("10.0.0.6:50000"), at("192.0.2.9:6881"));
        stream.open();
        stream.client(&handshake(hash(&info)));
        stream.server(&handshake(hash(&info)));
        stream.client(&[1; 100]);
        let (verdicts, names) = run(&mut gateway, &packets);
        assert_eq!(names, named(&info, "A film\\u{1b}[2J"));
        // It was asked about until the last piece had come, and the next peer's is not.
        let begins = verdicts.len() - 6;
        assert_eq!(offloaded(&verdicts[..begins]), Some(begins - 1));
        assert!(offloaded(&verdicts[begins..]).is_some());
    }
}

/// Clients ask many peers for a piece each.
#[test]
fn pieces_of_several_peers_are_put_together() {
    let info = info("A film", 40_000);
    let mut gateway = governed(ALL, enforcing());
    let mut packets = Packets::new();
    exchange(&mut packets, 50_000, hash(&info), &info, &[2]);
    exchange(&mut packets, 50_001, hash(&info), &info, &[0]);
    assert!(run(&mut gateway, &packets).1.is_empty());
    let mut packets = Packets::new();
    exchange(&mut packets, 50_002, hash(&info), &info, &[1]);
    assert_eq!(run(&mut gateway, &packets).1, named(&info, "A film"));
}

#[test]
fn metadata_of_another_hash_names_nothing() {
    let (truth, lie) = (info("A film", 40), info("Bad film", 40));
    let mut gateway = governed(ALL, enforcing());
    let mut packets = Packets::new();
    exchange(&mut packets, 50_000, hash(&truth), &lie, &[0]);
    assert!(run(&mut gateway, &packets).1.is_empty());
    // The liar has kept nothing from being seen.
    let mut packets = Packets::new();
    exchange(&mut packets, 50_001, hash(&truth), &truth, &[0]);
    assert_eq!(run(&mut gateway, &packets).1, named(&truth, "A film"));
}

#[test]
fn peers_that_exchange_nothing_are_left_early() {
    let info = info("A film", 40);
    let both = |policy| {
        let mut gateway = governed(policy, enforcing());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6881"));
        stream.open();
        stream.client(&[handshake(hash(&info)), has(info.len())].concat());
        stream.server(&[handshake(hash(&info)), has(info.len())].concat());
        stream.client(&[0, 0, 0, 1, 2]);
        let (verdicts, names) = run(&mut gateway, &packets);
        assert!(names.is_empty());
        offloaded(&verdicts)
    };
    // With the answer both have said that they have it.
    assert_eq!(both(ALL), Some(4));
    // Where names are not looked for nothing changes.
    let audited = "[[rule]]\nname = \"a\"\napp = \"bittorrent\"\naction = \"audit\"\n";
    let decided = both(audited);
    assert_eq!(decided, Some(3));
    let mut gateway = governed(audited, enforcing());
    let mut packets = Packets::new();
    exchange(&mut packets, 50_000, hash(&info), &info, &[0]);
    let (verdicts, names) = run(&mut gateway, &packets);
    assert!(names.is_empty());
    assert_eq!(offloaded(&verdicts), decided);
}

#[test]
fn blocked_torrents_are_read_while_observing_alone() {
    let info = info("A film", 30_000);
    let policy = format!("{ALL}[[rule]]\nname = \"a\"\napp = \"bittorrent\"\naction = \"block\"\n");
    for (settings, expected) in [
        (Settings::default(), named(&info, "A film")),
        (enforcing(), Vec::new()),
    ] {
        let mut gateway = governed(&policy, settings);
        let mut packets = Packets::new();
        exchange(&mut packets, 50_000, hash(&info), &info, &[0, 1]);
        assert_eq!(run(&mut gateway, &packets).1, expected);
    }
}

fn utp(id: u16, number: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![1, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(u32::from(number).to_be_bytes());
    packet.extend([0, 0, 0, 0, 0, 1, 0, 0]);
    packet.extend(number.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

#[test]
fn metadata_by_utp_names_the_torrent() {
    let info = info("A film", 30_000);
    // A rule about torrents has packets by uTP come here anyway.
    let rule = "[[rule]]\nname = \"d\"\naction = \"block\"\n\
        infohash = \"0707070707070707070707070707070707070707\"\n";
    for policy in [ALL, rule] {
        let mut gateway = governed(policy, enforcing());
        let [client, server] = [at("10.0.0.5:51413"), at("192.0.2.9:6881")];
        let mut packets = Packets::new();
        let says = [handshake(hash(&info)), wants()].concat();
        packets.udp(client, server, &utp(11, 2, &says));
        let opening = [handshake(hash(&info)), has(info.len())].concat();
        let pieces = [data(&info, 0), data(&info, 1)].concat();
        let stream = [opening, pieces].concat();
        let mut parts: Vec<(u16, &[u8])> = (65_530_u16..=u16::MAX)
            .chain(0..)
            .zip(stream.chunks(1_200))
            .collect();
        // Two are turned, and another torrent's connection goes on beside it.
        parts.swap(3, 4);
        let other = [handshake([9; 20]), has(9)].concat();
        packets.udp(client, server, &utp(77, 2, &other));
        for (number, part) in parts {
            packets.udp(server, client, &utp(10, number, part));
            packets.udp(server, client, &utp(76, number, b"of another connection"));
        }
        assert_eq!(
            run(&mut gateway, &packets).1,
            named(&info, "A film"),
            "{policy}"
        );
    }
}

#[test]
fn torrent_files_by_http_name_their_torrents() {
    let info = info("A film", 4_000);
    let file = [b"d8:announce3:url4:info".as_slice(), &info, b"e"].concat();
    let mut gateway = governed(ALL, enforcing());
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(b"GET /get.php?id=7 HTTP/1.1\r\nHost: t.example\r\n\r\n");
    let length = file.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-bittorrent\r\nContent-Length: {length}\r\n\r\n"
    );
    for part in [head.as_bytes(), &file].concat().chunks(1_400) {
        stream.server(part);
    }
    stream.client(b"GET /next HTTP/1.1\r\nHost: t.example\r\n\r\n");
    let mut page = packets.tcp(at("10.0.0.5:50001"), at("192.0.2.9:80"));
    page.open();
    page.client(b"GET /index.html HTTP/1.1\r\nHost: t.example\r\n\r\n");
    page.server(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 90000\r\n\r\n<html>",
    );
    let more = format!("GET /more HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1_300));
    for _ in 0..20 {
        page.server(&[b'x'; 1_400]);
        page.client(more.as_bytes());
    }
    let (verdicts, names) = run(&mut gateway, &packets);
    assert_eq!(names, named(&info, "A film"));
    // Of a page the head is read, and no more: the classifier has looked for longer.
    assert!(offloaded(&verdicts[verdicts.len() - 45..]).is_some());
}
