//! The queues of one border: which of them gets a flow is chance, and decides nothing.

use ringway_gateway::verdict::Gateway;
use ringway_gateway::{Confidence, LinkType, Packets};

use super::{at, enforcing, governed};

const NO_FILES: &str = "[[rule]]\nname = \"files\"\napp = \"dcc\"\naction = \"block\"\n";
const NO_SONGS: &str =
    "[[rule]]\nname = \"songs\"\napp = \"dcc\"\nfile_name = \"*.ogg\"\naction = \"block\"\n";
/// What is refused teaches nothing of a host, so the DHT is allowed.
const ONLY_DHT: &str = "[[rule]]\nname = \"dht\"\napp = \"bittorrent\"\nl4 = \"udp\"\naction = \"allow\"\n\
    [[rule]]\nname = \"torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";

/// Two gateways, which share what they know or do not.
fn queues(policy: &str, sharing: bool) -> [Gateway; 2] {
    let first = governed(policy, enforcing());
    let mut second = governed(policy, enforcing());
    if sharing {
        second.share(&first.knowledge());
    }
    [first, second]
}

/// Gives a gateway the packets from this one on; which of them pass.
fn carry(gateway: &mut Gateway, packets: &Packets, from: usize) -> Vec<bool> {
    let packets = packets.iter().skip(from);
    packets
        .map(|(now, bytes)| gateway.handle_packet(now, LinkType::RawIp, bytes).accepts())
        .collect()
}

/// A conversation in which 198.51.100.7 offers a file at port 5000.
fn offer(packets: &mut Packets, client: &str) {
    let mut chat = packets.tcp(at(client), at("192.0.2.9:6667"));
    chat.open();
    chat.client(b"NICK anna\r\nUSER anna 0 * :Anna\r\n");
    chat.server(b":irc.example 001 anna :Welcome\r\n");
    chat.server(b":bert!b@h PRIVMSG anna :\x01DCC SEND song.ogg 3325256711 5000 700\x01\r\n");
}

/// The connection for it.
fn fetch(packets: &mut Packets, client: &str) {
    let mut file = packets.tcp(at(client), at("198.51.100.7:5000"));
    file.open();
    file.server(&[7; 700]);
}

#[test]
fn announced_file_is_known_in_other_queue() {
    for (policy, sharing) in [
        (NO_FILES, true),
        (NO_SONGS, true),
        (NO_FILES, false),
        (NO_SONGS, false),
    ] {
        let [mut first, mut second] = queues(policy, sharing);
        let mut packets = Packets::new();
        offer(&mut packets, "10.0.0.5:50000");
        assert!(carry(&mut first, &packets, 0).iter().all(|passes| *passes));
        let done = packets.iter().count();
        fetch(&mut packets, "10.0.0.5:40000");
        let passed = carry(&mut second, &packets, done);
        assert_eq!(passed.last(), Some(&!sharing), "{passed:?}");
    }
}

#[test]
fn reannounced_port_is_accepted_in_other_queue() {
    for sharing in [true, false] {
        let [mut first, mut second] = queues(NO_SONGS, sharing);
        let mut packets = Packets::new();
        offer(&mut packets, "10.0.0.5:50000");
        fetch(&mut packets, "10.0.0.5:40000");
        let passed = carry(&mut first, &packets, 0);
        assert_eq!(passed.last(), Some(&false), "{passed:?}");

        let call = |packets: &mut Packets, gateway: &mut Gateway, client: &str| {
            let done = packets.iter().count();
            packets.tcp(at(client), at("198.51.100.7:5000")).open();
            carry(gateway, packets, done)[0]
        };
        assert!(!call(&mut packets, &mut first, "10.0.0.5:40001"));
        let done = packets.iter().count();
        offer(&mut packets, "10.0.0.6:50000");
        carry(&mut second, &packets, done);
        assert_eq!(call(&mut packets, &mut first, "10.0.0.5:40002"), sharing);
    }
}

#[test]
fn behaviour_of_host_counts_in_other_queue() {
    for sharing in [true, false] {
        let [mut first, mut second] = queues(ONLY_DHT, sharing);
        let mut packets = Packets::new();
        // A question of the DHT and its answer (BEP 5).
        let (own, peer) = (at("10.0.0.5:6881"), at("192.0.2.7:6881"));
        packets.udp(
            own,
            peer,
            b"d1:ad2:id20:aaaaaaaaaaaaaaaaaaaae1:q4:ping1:t2:aa1:y1:qe",
        );
        packets.udp(
            peer,
            own,
            b"d1:rd2:id20:bbbbbbbbbbbbbbbbbbbbe1:t2:aa1:y1:re",
        );
        carry(&mut first, &packets, 0);
        let done = packets.iter().count();
        // The exchange of keys of its encrypted streams: 96 random bytes and padding each way, then
        // what is offered.
        let noise = |seed: u32, length: usize| -> Vec<u8> {
            let mut state = seed.wrapping_mul(0x9e37_79b9);
            let next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            };
            std::iter::repeat_with(next).take(length).collect()
        };
        let mut stream = packets.tcp(at("10.0.0.5:40000"), at("198.51.100.8:51413"));
        stream.open();
        stream.client(&noise(1, 300));
        stream.server(&noise(2, 250));
        stream.client(&noise(3, 120));
        stream.server(&noise(4, 90));
        stream.client(&noise(5, 500));
        carry(&mut second, &packets, done);
        let flows = second.flows(9);
        let named = flows.iter().any(|flow| {
            let record = &flow.record;
            (record.server_port, record.app.as_str(), record.confidence)
                == (51_413, "bittorrent", Confidence::Likely)
        });
        assert_eq!(named, sharing, "{flows:#?}");
    }
}
