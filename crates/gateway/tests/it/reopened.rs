//! Another connection between the same two ends: it is known for a new one when both ends have said
//! so, and not before.

use ringway_gateway::verdict::{Gateway, Offload, Verdict};
use ringway_gateway::{LinkType, Packets};

use super::{at, enforcing, governed};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const NAMES: &str =
    "[[rule]]\nname = \"no-films\"\napp = \"http\"\nfile_name = \"*.mpg\"\naction = \"block\"\n";
const SETTLED: Verdict = Verdict::Accept {
    offload: Some(Offload::Allowed),
};
const PASS: Verdict = Verdict::ACCEPT;

/// Packets by their places in the order in which they were made.
type Made = Vec<Vec<u8>>;

struct Case {
    gateway: Gateway,
    packets: Made,
}

impl Case {
    fn new(policy: &str, packets: &Packets) -> Case {
        Case {
            gateway: governed(policy, enforcing()),
            packets: packets.iter().map(|(_, bytes)| bytes.to_vec()).collect(),
        }
    }

    fn run(&mut self, places: impl IntoIterator<Item = usize>) -> Vec<Verdict> {
        let now = std::time::Duration::from_secs(1_000);
        let packets = places.into_iter().map(|place| &self.packets[place]);
        packets
            .map(|bytes| self.gateway.handle_packet(now, LinkType::RawIp, bytes))
            .collect()
    }
}

fn handshake() -> Vec<u8> {
    [
        b"\x13BitTorrent protocol".as_slice(),
        &[0; 8],
        &[7; 20],
        &[9; 20],
    ]
    .concat()
}

/// What a sender says in two parts, the second after an end and a SYN that die behind the gateway.
/// Packets 0 to 2 open, 3 is the first part, 4 the end. 5 is the SYN, 6 its answer, 7 the third
/// packet, 8 the second part.
fn interrupted(said: &[u8], middle: usize) -> Packets {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:8080"));
    stream.open();
    stream.client(&said[..middle]);
    stream.close();
    stream.renumber(77_000, 99_000);
    stream.open();
    let mut whole = Packets::new();
    let mut again = whole.tcp(at("10.0.0.5:50000"), at("192.0.2.9:8080"));
    again.open();
    again.client(&said[..middle]);
    again.client(&said[middle..]);
    let kept: Made = [0, 1, 2, 3, 4, 7, 8, 9]
        .map(|place| packets.iter().nth(place).unwrap().1.to_vec())
        .into();
    let rest = whole.iter().nth(4).unwrap().1.to_vec();
    let mut all = Packets::new();
    for bytes in kept.into_iter().chain([rest]) {
        all.push(bytes);
    }
    all
}

#[test]
fn unanswered_fin_and_syn_leave_flow_intact() {
    let request = b"GET /a/film.mpg HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for (policy, said, middle) in [
        (BLOCK, handshake(), 9),
        (NAMES, request.to_vec(), 11),
        (NAMES, request.to_vec(), 3),
    ] {
        let packets = interrupted(&said, middle);
        let mut case = Case::new(policy, &packets);
        let verdicts = case.run([0, 1, 2, 3, 4, 5]);
        assert!(
            verdicts.iter().all(|verdict| *verdict == PASS),
            "{verdicts:?}"
        );
        let last = case.run([8]);
        assert_eq!(last, [Verdict::DROP], "{policy}");
    }
}

#[test]
fn syn_ack_begins_flow_followed_from_first_byte() {
    let request = b"GET /a/film.mpg HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:8080"));
    stream.open();
    stream.client(b"GET /a/page.html HTTP/1.1\r\nHost: a.example\r\n\r\n");
    stream.close();
    stream.renumber(77_000, 99_000);
    stream.open();
    stream.client(&request[..20]);
    stream.client(&request[20..]);
    let mut case = Case::new(NAMES, &packets);
    case.run(0..10);
    // The second half first: a gateway that does not know where the first one begins would take it
    // for the beginning.
    let verdicts = case.run([11, 10]);
    assert!(!verdicts[1].accepts(), "{verdicts:?}");
    let flows: Vec<_> = std::iter::from_fn(|| case.gateway.poll_flow()).collect();
    assert_eq!(flows.len(), 1, "the old one is over");
}

#[test]
fn old_verdict_does_not_cover_new_connection() {
    // The client chooses the number: it may be one that the old connection has used. And its end
    // may go by unseen, because what is settled is carried by the kernel.
    for (number, ends) in [77_000, 1_000, 1_005]
        .into_iter()
        .flat_map(|number| [(number, true), (number, false)])
    {
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:8080"));
        stream.renumber(1_000, 99_000);
        stream.open();
        for _page in 0..20 {
            stream.client(
                &[
                    b"GET /".as_slice(),
                    &[b'a'; 900],
                    b" HTTP/1.1\r\nHost: a\r\n\r\n",
                ]
                .concat(),
            );
            stream.server(
                &[
                    b"HTTP/1.1 204 No Content\r\nA: ".as_slice(),
                    &[b'a'; 900],
                    b"\r\n\r\n",
                ]
                .concat(),
            );
        }
        stream.close();
        stream.renumber(number, 99_000);
        stream.open();
        stream.client(&handshake());
        let mut case = Case::new(BLOCK, &packets);
        let verdicts = case.run(0..if ends { 46 } else { 43 });
        assert_eq!(verdicts.last(), Some(&SETTLED));
        let verdicts = case.run(46..50);
        assert_eq!(verdicts[..3], [PASS; 3], "{number}");
        assert!(!verdicts[3].accepts(), "{number}");
    }
}

#[test]
fn syn_ack_to_superseded_syn_is_dropped() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:8080"));
    stream.open();
    stream.client(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.close();
    for number in [77_000, 88_000] {
        stream.renumber(number, 99_000);
        stream.open();
    }
    let mut case = Case::new(BLOCK, &packets);
    case.run(0..7);
    // The second call takes the place of the first, whose answer is dropped until the call is
    // repeated.
    let verdicts = case.run([7, 10, 8]);
    assert_eq!(verdicts[..2], [PASS; 2]);
    assert!(!verdicts[2].accepts());
    assert_eq!(case.run([7, 8]), [PASS; 2]);
}

#[test]
fn lost_syn_hides_no_connection_start() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:8080"));
    for number in [1_000, 77_000] {
        stream.renumber(number, 99_000);
        stream.open();
    }
    stream.client(&handshake());
    let mut case = Case::new(BLOCK, &packets);
    // Of the first call only the SYN comes by.
    assert_eq!(case.run([0, 3, 4, 5]), [PASS; 4]);
    assert!(!case.run([6])[0].accepts());
}

#[test]
fn refusal_covers_other_sequence_numbers() {
    let mut packets = Packets::new();
    for (port, number) in [(50_000, 1_000), (50_001, 2_000), (50_001, 77_000)] {
        let client = ([10, 0, 0, 5], port).into();
        let mut stream = packets.tcp(client, at("192.0.2.9:6881"));
        stream.renumber(number, 99_000);
        stream.open();
        stream.client(&handshake());
    }
    let mut case = Case::new(BLOCK, &packets);
    assert!(!case.run(0..4)[3].accepts());
    for verdict in case.run([4, 8, 4]) {
        assert!(!verdict.accepts());
    }
}
