//! Rules about torrents: a refused one gets nothing through where it is named in clear, and another
//! one between the same ends goes on.

use std::net::SocketAddr;

use ringway_gateway::policy::Action;
use ringway_gateway::verdict::{Event, Gateway, Mode, Offload, Settings, Verdict};
use ringway_gateway::{InfoHash, LinkType, Packets};

use super::{at, enforcing, governed, parsed};

const DENIED: [u8; 20] = [7; 20];
const ALLOWED: [u8; 20] = [8; 20];
const POLICY: &str = "[[rule]]\nname = \"denied\"\naction = \"block\"\n\
    infohash = \"0707070707070707070707070707070707070707\"\n";

fn handshake(hash: [u8; 20]) -> Vec<u8> {
    let parts = [
        b"\x13BitTorrent protocol".as_slice(),
        &[0; 8],
        &hash,
        &[9; 20],
    ];
    parts.concat()
}

fn utp(kind: u8, id: u16, sequence: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![(kind << 4) | 1, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(u32::from(sequence).to_be_bytes());
    packet.extend([0, 0, 0, 0, 0, 1, 0, 0]);
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

fn get_peers(hash: [u8; 20]) -> Vec<u8> {
    let parts = [
        b"d1:ad2:id20:".as_slice(),
        &[4; 20],
        b"9:info_hash20:",
        &hash,
    ];
    [parts.concat().as_slice(), b"e1:q9:get_peers1:t2:ab1:y1:qe"].concat()
}

fn announce(hash: [u8; 20]) -> Vec<u8> {
    let head = [0_u8, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 1, 9, 9, 9, 9];
    [head.as_slice(), &hash, &[1; 62]].concat()
}

fn request(hash: [u8; 20]) -> Vec<u8> {
    let hash: String = hash.iter().map(|byte| format!("%{byte:02x}")).collect();
    format!(
        "GET /announce?peer_id=-XX0001-abcdefghijkl&info_hash={hash}&port=1 HTTP/1.1\r\nHost: t.example\r\n\r\n"
    )
    .into_bytes()
}

fn peers() -> [SocketAddr; 2] {
    [at("10.0.0.5:51413"), at("192.0.2.9:6881")]
}

fn run(gateway: &mut Gateway, packets: &Packets) -> Vec<Verdict> {
    let verdicts = packets
        .iter()
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes));
    verdicts.collect()
}

fn events(gateway: &mut Gateway) -> Vec<Event> {
    std::iter::from_fn(|| gateway.poll_event()).collect()
}

/// Whether each of these datagrams between the same ends goes on, after others of BitTorrent.
fn go_on(datagrams: &[Vec<u8>]) -> Vec<bool> {
    let mut gateway = governed(POLICY, enforcing());
    let [client, server] = peers();
    let mut packets = Packets::new();
    let ping = b"d1:ad2:id20:01234567890123456789e1:q4:ping1:t2:aa1:y1:qe";
    let pong = b"d1:rd2:id20:01234567890123456789e1:t2:aa1:y1:re";
    packets.udp(client, server, ping);
    packets.udp(server, client, pong);
    for datagram in datagrams {
        packets.udp(client, server, datagram);
    }
    let verdicts = run(&mut gateway, &packets);
    // No packet of such a flow is left to the kernel.
    assert!(verdicts.iter().all(|verdict| verdict.offload().is_none()));
    let accepted = verdicts.into_iter().map(Verdict::accepts);
    accepted.skip(2).collect()
}

#[test]
fn refused_torrent_is_dropped_datagram_by_datagram() {
    let mut all = Vec::new();
    for _ in 0..40 {
        all.extend([get_peers(ALLOWED), get_peers(DENIED)]);
    }
    let expected: Vec<bool> = [true, false].repeat(40);
    assert_eq!(go_on(&all), expected);
    let of = |message: fn([u8; 20]) -> Vec<u8>| go_on(&[message(ALLOWED), message(DENIED)]);
    assert_eq!(of(announce), [true, false]);
    let peer = |id: u16, hash| utp(0, id, 2, &handshake(hash));
    assert_eq!(
        go_on(&[
            utp(4, 10, 1, &[]),
            peer(11, ALLOWED),
            utp(4, 20, 1, &[]),
            peer(21, DENIED),
            utp(0, 11, 3, &[5; 900]),
        ]),
        [true, true, true, false, true]
    );
    let search = |hash| {
        let hash = InfoHash::new(hash);
        format!("BT-SEARCH * HTTP/1.1\r\nPort: 1\r\nInfohash: {hash}\r\n\r\n").into_bytes()
    };
    assert_eq!(go_on(&[search(ALLOWED), search(DENIED)]), [true, false]);
}

#[test]
fn refused_torrent_is_dropped_from_its_first_datagram() {
    let mut gateway = governed(POLICY, enforcing());
    let [client, server] = peers();
    let mut packets = Packets::new();
    packets.udp(client, server, &get_peers(DENIED));
    packets.udp(client, server, &get_peers(DENIED));
    packets.udp(client, server, &get_peers(ALLOWED));
    let accepted: Vec<bool> = run(&mut gateway, &packets)
        .into_iter()
        .map(Verdict::accepts)
        .collect();
    assert_eq!(accepted, [false, false, true]);
    let events = events(&mut gateway);
    assert_eq!(events.len(), 1, "a repetition is no news");
    let event = serde_json::to_value(&events[0]).unwrap();
    assert_eq!(event["ringway"]["infohash"], "07".repeat(20));
    assert_eq!(event["ringway"]["rule"], "denied");
    assert_eq!(event["alert"]["action"], "blocked");
}

/// A peer's connection with this torrent, from this port.
fn peer(packets: &mut Packets, port: u16, hash: [u8; 20], parts: usize) {
    let mut stream = packets.tcp(([10, 0, 0, 5], port).into(), at("192.0.2.9:6881"));
    stream.open();
    stream.client_in_parts(&handshake(hash), parts);
    stream.server(&handshake(hash));
    stream.client(&[1; 100]);
}

#[test]
fn one_torrents_flow_is_not_open_for_all() {
    let allowed = "[[rule]]\nname = \"good\"\naction = \"allow\"\n\
        infohash = \"0808080808080808080808080808080808080808\"\n\
        [[rule]]\nname = \"rest\"\napp = \"bittorrent\"\naction = \"block\"\n";
    let mut gateway = governed(allowed, enforcing());
    let [client, server] = peers();
    let mut packets = Packets::new();
    for hash in [ALLOWED, ALLOWED, DENIED, ALLOWED] {
        packets.udp(client, server, &get_peers(hash));
        packets.udp(
            server,
            client,
            b"d1:rd2:id20:01234567890123456789e1:t2:aa1:y1:re",
        );
    }
    let verdicts = run(&mut gateway, &packets);
    let asked: Vec<bool> = verdicts
        .iter()
        .step_by(2)
        .map(|verdict| verdict.accepts())
        .collect();
    assert_eq!(asked, [true, true, false, true]);
}

#[test]
fn refused_connection_blames_neither_host_nor_peer() {
    for parts in [68, 20, 30] {
        let mut gateway = governed(POLICY, enforcing());
        let mut packets = Packets::new();
        peer(&mut packets, 50_000, DENIED, parts);
        let refused = run(&mut gateway, &packets);
        assert!(!refused.last().unwrap().accepts(), "{parts}");
        assert!(gateway.poll_injection().is_some(), "both ends are reset");
        while gateway.poll_injection().is_some() {}
        // The same peers with another torrent, at once.
        let mut packets = Packets::new();
        peer(&mut packets, 50_001, ALLOWED, parts);
        let verdicts = run(&mut gateway, &packets);
        assert!(verdicts.iter().all(|verdict| verdict.accepts()), "{parts}");
        assert_eq!(verdicts.last().unwrap().offload(), Some(Offload::Allowed));
        gateway.finish(std::time::Duration::from_secs(900));
        let flows: Vec<_> = std::iter::from_fn(|| gateway.poll_flow()).collect();
        let of = |hash: [u8; 20]| {
            let hash = InfoHash::new(hash);
            let mut flows = flows.iter();
            flows
                .find(|flow| flow.record.details.infohash == Some(hash))
                .unwrap()
        };
        assert_eq!(of(DENIED).action, Action::Block);
        assert_eq!(of(ALLOWED).action, Action::Allow);
    }
}

#[test]
fn refused_request_behind_another_is_found() {
    for parts in [4_000, 90] {
        let mut gateway = governed(POLICY, enforcing());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6969"));
        stream.open();
        for _ in 0..30 {
            stream.client(&request(ALLOWED));
            stream.server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nde");
        }
        let before = stream.packets().iter().count();
        stream.client_in_parts(&request(DENIED), parts);
        let verdicts = run(&mut gateway, &packets);
        assert!(
            verdicts[..before]
                .iter()
                .all(|verdict| verdict.accepts() && verdict.offload().is_none())
        );
        assert!(!verdicts.last().unwrap().accepts());
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50001"), at("192.0.2.9:6969"));
        stream.open();
        stream.client(&request(ALLOWED));
        assert!(
            run(&mut gateway, &packets)
                .iter()
                .all(|verdict| verdict.accepts())
        );
    }
}

#[test]
fn observed_torrents_go_on_and_are_written_down() {
    let settings = Settings {
        mode: Mode::Observe,
        ..Settings::default()
    };
    let mut gateway = governed(POLICY, settings);
    let [client, server] = peers();
    let mut packets = Packets::new();
    packets.udp(client, server, &get_peers(DENIED));
    assert!(run(&mut gateway, &packets)[0].accepts());
    assert_eq!(events(&mut gateway)[0].alert.action, "allowed");
}

#[test]
fn accounts_have_all_torrents_of_a_flow() {
    let mut gateway = governed(POLICY, enforcing());
    gateway.report_accounts();
    let [client, server] = peers();
    let mut packets = Packets::new();
    packets.udp(client, server, &get_peers(ALLOWED));
    packets.udp(client, server, &get_peers(DENIED));
    packets.udp(client, server, &get_peers(ALLOWED));
    run(&mut gateway, &packets);
    let last = std::iter::from_fn(|| gateway.poll_account())
        .last()
        .unwrap();
    assert_eq!(last.torrents, [ALLOWED, DENIED].map(InfoHash::new));
}

#[test]
fn torrent_refused_later_ends_its_connections() {
    let classifies = "[[rule]]\nname = \"other\"\napp = \"irc\"\naction = \"block\"\n";
    for (hash, goes_on) in [(DENIED, false), (ALLOWED, true)] {
        let mut gateway = governed(classifies, enforcing());
        let mut packets = Packets::new();
        let [client, server] = peers();
        let mut stream = packets.tcp(client, server);
        stream.open();
        stream.client(&handshake(hash));
        stream.server(&handshake(hash));
        stream.client(&[1; 100]);
        stream.client(&[2; 100]);
        let mut packets: Vec<_> = packets.iter().collect();
        let (now, later) = packets.pop().unwrap();
        for (now, bytes) in packets {
            let verdict = gateway.handle_packet(now, LinkType::RawIp, bytes);
            assert!(verdict.accepts());
        }
        gateway.set_policy(parsed(POLICY));
        gateway.handle_timeout(now);
        let verdict = gateway.handle_packet(now, LinkType::RawIp, later);
        assert_eq!(verdict.accepts(), goes_on);
        assert_eq!(
            gateway.poll_injection().is_none(),
            goes_on,
            "both ends are reset"
        );
    }
}
