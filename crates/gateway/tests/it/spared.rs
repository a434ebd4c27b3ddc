//! Packets that the kernel passes on unasked while contents are followed: the rest of a file of
//! which nothing more need be known, and what only acknowledges it.

use etherparse::{SlicedPacket, TransportSlice};

use ringway_gateway::samples::TcpStream;
use ringway_gateway::verdict::{EventKind, Gateway, Mode, Offload, Settings};
use ringway_gateway::{LinkType, Packets};

use super::{at, governed};

const NAMES: &str =
    "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
const LARGE: usize = 300_000;
const NAMED: &str = "Content-Disposition: attachment; filename=\"game.exe\"\r\n";

/// A gateway, and a kernel that keeps one connection's mark as the rules do.
struct Border {
    gateway: Gateway,
    mark: Option<Offload>,
    asked: usize,
    passed: usize,
    dropped: usize,
}

impl Border {
    fn new(policy: &str) -> Self {
        Self::in_mode(policy, Mode::Enforce)
    }

    fn in_mode(policy: &str, mode: Mode) -> Self {
        let settings = Settings {
            mode,
            ..Settings::default()
        };
        let gateway = governed(policy, settings);
        Self {
            gateway,
            mark: None,
            asked: 0,
            passed: 0,
            dropped: 0,
        }
    }

    /// Takes the packets after `from`; scans find nothing, at once.
    fn carry(&mut self, packets: &Packets, from: usize) -> usize {
        for (number, (now, bytes)) in packets.iter().enumerate().skip(from) {
            match self.mark {
                Some(Offload::Allowed | Offload::Shaped(_)) => self.passed += 1,
                Some(Offload::Blocked) => self.dropped += 1,
                Some(Offload::AnswersPass) if by_server(bytes) => self.passed += 1,
                Some(Offload::AnswersPass) if is_bare(bytes) => self.passed += 1,
                _ => {
                    self.asked += 1;
                    let token = u64::try_from(number).unwrap();
                    let verdict = self
                        .gateway
                        .handle_queued(now, token, LinkType::RawIp, bytes);
                    self.mark = verdict.offload().or(self.mark);
                    self.passed += usize::from(verdict.accepts());
                    self.dropped += usize::from(!verdict.accepts() && !verdict.is_held());
                }
            }
            while let Some(job) = self.gateway.poll_scan() {
                let clean = ringway_gateway::verdict::Scanned::Clean;
                self.gateway.handle_scanned(now, &job, &clean);
            }
            while self.gateway.poll_released().is_some() {
                self.passed += 1;
            }
        }
        packets.iter().count()
    }

    fn evidence(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.gateway.poll_event())
            .filter(|event| matches!(event.kind, EventKind::Alert | EventKind::FileInfo))
            .map(|event| format!("{event:?}"))
            .collect()
    }
}

fn tcp(bytes: &[u8]) -> (u16, bool, usize) {
    let sliced = SlicedPacket::from_ip(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("no TCP");
    };
    let control = tcp.syn() || tcp.fin() || tcp.rst();
    (tcp.source_port(), control, tcp.payload().len())
}

fn by_server(bytes: &[u8]) -> bool {
    tcp(bytes).0 == 80
}

fn is_bare(bytes: &[u8]) -> bool {
    let (_, control, length) = tcp(bytes);
    !control && length == 0
}

fn ask(name: &str) -> Vec<u8> {
    format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

fn answer(length: usize, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{more}\r\n").into_bytes()
}

/// A connection on which a large file begins.
fn begin(packets: &mut Packets) -> TcpStream<'_> {
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(&ask("film.bin"));
    stream.server(&answer(LARGE, ""));
    stream
}

/// A large file, and then `second` on the same connection.
fn two(second: &str, head: &str) -> Packets {
    let mut packets = Packets::new();
    let mut stream = begin(&mut packets);
    stream.server(&vec![0; LARGE]);
    stream.client(&ask(second));
    stream.server(&answer(5_000, head));
    stream.server(&[1; 5_000]);
    packets
}

#[test]
fn unread_rest_of_file_passes_unasked() {
    let mut border = Border::new(NAMES);
    let packets = two("note.txt", "");
    let count = border.carry(&packets, 0);
    assert!(count > 200, "{count}");
    assert!(border.asked < 20, "{}", border.asked);
    assert_eq!((border.passed, border.dropped), (count, 0));
    assert!(border.evidence().is_empty());
}

#[test]
fn next_request_is_judged_by_its_name() {
    for (second, head) in [("game.exe", ""), ("download", NAMED)] {
        let mut border = Border::new(NAMES);
        border.carry(&two(second, head), 0);
        assert!(border.dropped > 0, "{second}");
        let evidence = border.evidence();
        assert!(
            evidence.iter().any(|line| line.contains("game.exe")),
            "{evidence:?}"
        );
    }
}

#[test]
fn observing_reports_what_enforcing_would_block() {
    for (second, head) in [("game.exe", ""), ("download", NAMED)] {
        let mut border = Border::in_mode(NAMES, Mode::Observe);
        let count = border.carry(&two(second, head), 0);
        assert_eq!((border.passed, border.dropped), (count, 0), "{second}");
        assert!(border.asked < 30, "{}", border.asked);
        let evidence = border.evidence().concat();
        assert!(evidence.contains("game.exe"), "{second}: {evidence}");
    }
}

#[test]
fn a_chat_that_announces_files_stays_in_sight() {
    for mode in [Mode::Enforce, Mode::Observe] {
        let policy = "[[rule]]\nname = \"d\"\napp = \"dcc\"\naction = \"block\"\n";
        let mut border = Border::in_mode(policy, mode);
        let mut packets = Packets::new();
        let mut chat = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6667"));
        chat.open();
        chat.client(b"NICK anna\r\nUSER anna 0 * :Anna\r\n");
        chat.server(b":irc.example 001 anna :Welcome\r\n");
        for _ in 0..200 {
            chat.client(b"PRIVMSG #ring :and so on\r\n");
            chat.server(b":bert!b@h PRIVMSG #ring :yes\r\n");
        }
        // 198.51.100.7, port 5000.
        chat.server(b":bert!b@h PRIVMSG anna :\x01DCC SEND song.ogg 3325256711 5000 700\x01\r\n");
        let count = border.carry(&packets, 0);
        assert_eq!((border.asked, border.dropped), (count, 0));
        let done = packets.iter().count();
        let mut file = packets.tcp(at("10.0.0.5:40000"), at("198.51.100.7:5000"));
        file.open();
        file.server(&[7; 700]);
        border.mark = None;
        border.carry(&packets, done);
        assert_eq!(border.dropped > 0, mode == Mode::Enforce);
        let evidence = border.evidence().concat();
        assert!(evidence.contains("\"dcc\""), "{mode:?}: {evidence}");
    }
}

#[test]
fn split_handshake_on_announced_port_is_blocked() {
    let policy = "[[rule]]\nname = \"b\"\napp = \"bittorrent\"\naction = \"block\"\n";
    let mut border = Border::new(policy);
    let mut packets = Packets::new();
    let mut chat = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:6667"));
    chat.open();
    chat.client(b"NICK anna\r\nUSER anna 0 * :Anna\r\n");
    chat.server(b":irc.example 001 anna :Welcome\r\n");
    chat.server(b":bert!b@h PRIVMSG anna :\x01DCC SEND song.ogg 3325256711 5000 700\x01\r\n");
    let done = border.carry(&packets, 0);
    let mut peer = packets.tcp(at("10.0.0.5:40000"), at("198.51.100.7:5000"));
    peer.open();
    let handshake = [b"\x13BitTorrent protocol".as_slice(), &[7; 48]].concat();
    let (pieces, rest) = handshake.split_at(8);
    for byte in pieces {
        peer.client(&[*byte]);
    }
    peer.client(rest);
    peer.server(&handshake);
    for _ in 0..20 {
        peer.client(&[1; 100]);
    }
    border.mark = None;
    border.carry(&packets, done);
    assert!(border.dropped > 0, "{:?}", border.evidence());
}

#[test]
fn request_behind_several_large_files_is_judged() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    for part in 0..3 {
        stream.client(&ask(&format!("part-{part}")));
        stream.server(&answer(LARGE, ""));
        stream.server(&vec![0; LARGE]);
    }
    stream.client(&ask("last"));
    stream.server(&answer(5_000, NAMED));
    let mut border = Border::new(NAMES);
    let count = border.carry(&packets, 0);
    assert!(border.asked < count / 10, "{} of {count}", border.asked);
    assert!(border.evidence().concat().contains("game.exe"));
}

#[test]
fn what_was_asked_for_before_is_judged_too() {
    let mut packets = Packets::new();
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.open();
    stream.client(&ask("film.bin"));
    stream.client(&ask("second"));
    stream.server(&answer(LARGE, ""));
    stream.server(&vec![0; LARGE]);
    stream.server(&answer(5_000, NAMED));
    let mut border = Border::new(NAMES);
    border.carry(&packets, 0);
    assert!(border.evidence().concat().contains("game.exe"));
}

/// A connection whose bytes passed unseen does not count as followed.
#[test]
fn unseen_bytes_are_reported() {
    let mut packets = Packets::new();
    let mut stream = begin(&mut packets);
    stream.server(&vec![0; LARGE]);
    let mut border = Border::new(NAMES);
    let done = border.carry(&packets, 0);
    let (client, server) = last_numbers(&packets);
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.renumber(client, server);
    stream.client(&ask("second"));
    let done = border.carry(&packets, done);
    assert!(border.evidence().is_empty());
    // An answer passed while the request was on its way; the next segment acknowledges it.
    let client = last_numbers(&packets).1;
    let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
    stream.renumber(client, server.wrapping_add(5_000));
    stream.client(&ask("third"));
    border.carry(&packets, done);
    let evidence = border.evidence().concat();
    assert!(evidence.contains("bytes came by unseen"), "{evidence}");
}

#[test]
fn scanned_and_audited_files_are_seen_whole() {
    for rule in ["action = \"scan\"", "action = \"audit\""] {
        let policy = format!("[[rule]]\nname = \"r\"\napp = \"http\"\n{rule}\n");
        let mut border = Border::new(&policy);
        let count = border.carry(&two("note.txt", ""), 0);
        assert_eq!(border.asked, count, "{rule}");
        assert_eq!(border.passed, count, "{rule}");
    }
}

#[test]
fn short_and_unbounded_answers_are_seen_whole() {
    let chunked = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n".to_vec(),
        vec![0; LARGE],
        b"\r\n0\r\n\r\n".to_vec(),
    ];
    let until_closed = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![0; LARGE]];
    let short = [answer(60_000, ""), vec![0; 60_000]];
    for answer in [chunked.concat(), until_closed.concat(), short.concat()] {
        let mut packets = Packets::new();
        let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
        stream.open();
        stream.client(&ask("film.bin"));
        stream.server(&answer);
        let mut border = Border::new(NAMES);
        let count = border.carry(&packets, 0);
        assert_eq!(border.asked, count);
    }
}

#[test]
fn pipelined_request_is_judged() {
    let mut packets = Packets::new();
    let mut stream = begin(&mut packets);
    stream.server(&vec![0; LARGE / 2]);
    stream.client(&ask("second"));
    stream.server(&vec![0; LARGE / 2]);
    stream.server(&answer(5_000, NAMED));
    let mut border = Border::new(NAMES);
    border.carry(&packets, 0);
    assert!(border.dropped > 0);
    let evidence = border.evidence();
    assert!(
        evidence.iter().any(|line| line.contains("game.exe")),
        "{evidence:?}"
    );
}

/// Sequence numbers wrap within files of more than 4 GiB.
#[test]
fn request_after_huge_file_is_judged() {
    for length in [3_u64 << 30, 9 << 30] {
        for waits in [true, false] {
            let mut packets = Packets::new();
            let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
            stream.open();
            stream.client(&ask("film.bin"));
            stream
                .server(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes());
            let mut border = Border::new(NAMES);
            let done = border.carry(&packets, 0);
            let (client, server) = last_numbers(&packets);
            let end = server.wrapping_add(u32::try_from(length & 0xffff_ffff).unwrap());
            let mut stream = packets.tcp(at("10.0.0.5:50000"), at("192.0.2.9:80"));
            // The film has gone by, but for its last bytes if the client did not wait.
            stream.renumber(client, end.wrapping_sub(if waits { 0 } else { 5_000 }));
            stream.client(&ask("second"));
            stream.renumber(client.wrapping_add(31), end);
            stream.server(&answer(5_000, NAMED));
            border.carry(&packets, done);
            let evidence = border.evidence().concat();
            let expected = if waits {
                "game.exe"
            } else {
                "a request before the end of a large file"
            };
            assert!(evidence.contains(expected), "{length} {waits}: {evidence}");
        }
    }
}

/// The numbers that both sides go on with after the packets so far.
fn last_numbers(packets: &Packets) -> (u32, u32) {
    let (_, bytes) = packets.iter().last().unwrap();
    let sliced = SlicedPacket::from_ip(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("no TCP");
    };
    let length = u32::try_from(tcp.payload().len()).unwrap();
    (
        tcp.acknowledgment_number(),
        tcp.sequence_number().wrapping_add(length),
    )
}

#[test]
fn answer_before_its_request_is_unreadable() {
    let mut packets = Packets::new();
    let mut stream = begin(&mut packets);
    stream.server(&vec![0; LARGE]);
    // The server guesses the next request, and sends its answer where the gateway does not look.
    stream.server(&answer(5_000, NAMED));
    stream.client(&ask("second"));
    stream.server(&[1; 5_000]);
    let mut border = Border::new(NAMES);
    border.carry(&packets, 0);
    let evidence = border.evidence().concat();
    assert!(evidence.contains("cannot be read"), "{evidence}");
}

/// All of them may come from one side.
#[test]
fn certain_flow_is_decided_after_eight_packets() {
    let policy = "[[rule]]\nname = \"r\"\napp = \"edonkey\"\naction = \"block\"\n";
    let mut packets = Packets::new();
    let mut stream = begin(&mut packets);
    stream.server(&vec![0; LARGE]);
    let mut gateway = governed(policy, Settings::default());
    let decided = packets.iter().position(|(now, bytes)| {
        let verdict = gateway.handle_queued(now, 0, LinkType::RawIp, bytes);
        verdict.offload() == Some(Offload::Allowed)
    });
    assert!(
        decided.is_some_and(|place| (10..=14).contains(&place)),
        "{decided:?}"
    );
}
