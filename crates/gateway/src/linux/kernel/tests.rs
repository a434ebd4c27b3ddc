//! The kernel's programs beside their model. Needs root and what `gate doctor` asks for; says so
//! where they are missing.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use aya::programs::{Program, TestRun as _, TestRunOptions};
use aya::{Ebpf, EbpfLoader};

use super::backlog::FlowBacklog;
use super::judge::Judge;
use super::layout::{Ends, Flow, Form as _, PendingSyn};
use super::{BPFFS, OBJECT, Totals, mount};
use crate::classify::SignatureSet;
use crate::limits;
use crate::packet::{L4, Layer, decode_layer};
use crate::policy::{Policy, groups};
use crate::samples;
use crate::triage::{FlowModel, Seen, Segment, Stage, Triage, TriageVerdict};
use crate::{CaptureReader, LinkType};

mod asked;
mod headers;
mod refusals;

/// Where maps are while a test runs.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("ringway-test-{}-{test}", std::process::id());
        Self(PathBuf::from(BPFFS).join(name))
    }

    /// The programs and their maps.
    fn load(&self) -> Result<Ebpf, Box<dyn std::error::Error>> {
        mount(BPFFS.as_ref())?;
        std::fs::create_dir_all(&self.0)?;
        let mut loader = EbpfLoader::new();
        Ok(loader.default_map_pin_directory(&self.0).load(OBJECT)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        super::remove_all(&self.0);
    }
}

fn not_tested<T>(test: &str, why: &str) -> Option<T> {
    let line = format!("\n*** NOT TESTED: {test}: {why} (it takes root and clang)\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

/// The programs, loaded for a test; its maps go with it.
struct Loaded {
    ebpf: Ebpf,
    judge: Judge,
    _folder: Folder,
}

fn load(test: &str) -> Option<Loaded> {
    // `finished` tells of the packet before on the same processor.
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let folder = Folder::new(test);
    let loaded = || -> Result<_, Box<dyn std::error::Error>> {
        let mut ebpf = folder.load()?;
        let mut take = |name| ebpf.take_map(name).ok_or(name);
        let judge = Judge::new(
            take("in_use")?.try_into()?,
            take("triages")?.try_into()?,
            take("cells")?.try_into()?,
            take("ports")?.try_into()?,
            take("networks")?.try_into()?,
        );
        for name in ["triage", "finished"] {
            match ebpf.program_mut(name) {
                Some(Program::SocketFilter(program)) => program.load()?,
                _ => return Err(name.into()),
            }
        }
        Ok((ebpf, judge))
    };
    match loaded() {
        Ok((ebpf, judge)) => Some(Loaded {
            ebpf,
            judge,
            _folder: folder,
        }),
        Err(why) => not_tested(test, &why.to_string()),
    }
}

/// The programs at work for a policy that asks about these applications.
fn asking(test: &str, list: &str) -> Option<Loaded> {
    let mut loaded = load(test)?;
    loaded.judge.put(Some(&triage(list)), false).unwrap();
    Some(loaded)
}

impl Loaded {
    /// What a program answers for an IP packet.
    fn run(&self, name: &str, packet: &[u8]) -> u32 {
        let kind: [u8; 2] = match packet.first().map(|byte| byte >> 4) {
            Some(6) => [0x86, 0xdd],
            _ => [0x08, 0x00],
        };
        let frame = [[2; 12].as_slice(), &kind, packet].concat();
        let Some(Program::SocketFilter(program)) = self.ebpf.program(name) else {
            panic!("{name}");
        };
        let options = TestRunOptions {
            data_in: Some(&frame),
            ..TestRunOptions::default()
        };
        program.test_run(options).unwrap().return_value
    }
}

fn triage(list: &str) -> Triage {
    compiled(&format!(
        "[[rule]]\nname = \"no\"\naction = \"block\"\napp = [{list}]\n"
    ))
}

fn compiled(text: &str) -> Triage {
    let set = SignatureSet::built_in();
    let named = set.signatures().iter();
    let known = named.map(|one| one.application.clone()).collect();
    let policy = Policy::parse(text, &known).unwrap();
    Triage::new(&set, &policy).unwrap()
}

/// A whole IP packet of TCP or UDP, as the packet filter's forwarding has them.
fn ip(link: LinkType, bytes: &[u8]) -> Option<&[u8]> {
    let skipped = match link {
        LinkType::RawIp => 0,
        LinkType::Ethernet => 14,
        _ => return None,
    };
    let packet = bytes.get(skipped..)?;
    matches!(packet.first()? >> 4, 4 | 6).then_some(packet)
}

/// Models of the flows of one recording.
type Models = HashMap<(L4, SocketAddr, SocketAddr), (FlowModel, SocketAddr)>;

/// How many packets were compared, passed, and were of flows that had been looked at long enough.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    compared: u32,
    passed: u32,
    finished: u32,
}

/// Puts a packet to both.
fn compare(
    loaded: &Loaded,
    triage: &Triage,
    (models, counts): (&mut Models, &mut Counts),
    bytes: &[u8],
) -> Result<(), String> {
    let Ok(Layer::Packet(packet)) = decode_layer(LinkType::RawIp, bytes) else {
        return Ok(());
    };
    // More than a page is more than a run for tests takes.
    if packet.truncated || bytes.len() > 3_000 {
        return Ok(());
    }
    let (one, other) = (packet.source, packet.destination);
    let key = (packet.l4, one.min(other), one.max(other));
    let (model, first) = models.entry(key).or_insert((FlowModel::default(), one));
    let seen = Seen {
        at: Duration::ZERO,
        from: usize::from(one != *first),
        ends: [one, other],
        tcp: packet.tcp.map(|tcp| Segment {
            sequence: tcp.sequence,
            syn: tcp.syn,
            acknowledged: tcp.ack.then_some(tcp.acknowledged),
            rst: tcp.rst,
        }),
        payload: packet.payload,
        length: u32::try_from(packet.payload.len()).unwrap(),
        intact: true,
    };
    let fate = model.handle_packet(triage, &seen);
    let done = model.stage() == Stage::Done;
    assert!(fate == TriageVerdict::Pass || !done);
    let expected = [fate == TriageVerdict::Pass && !done, done].map(u32::from);
    let got = ["triage", "finished"].map(|name| loaded.run(name, bytes));
    counts.compared += 1;
    counts.passed += expected[0] + expected[1];
    counts.finished += expected[1];
    if got == expected {
        return Ok(());
    }
    Err(format!(
        "{one} -> {other}: {got:?} and not {expected:?} for {seen:?}"
    ))
}

/// The verifier gives up at a million (`BPF_COMPLEXITY_LIMIT_INSNS`, since Linux 5.2), and how many
/// it takes for the same program differs from kernel to kernel.
#[test]
fn the_programs_leave_the_verifier_room() {
    let Some(loaded) = load("room") else {
        return;
    };
    for name in ["triage", "finished"] {
        let Some(Program::SocketFilter(program)) = loaded.ebpf.program(name) else {
            panic!("{name}");
        };
        let count = program.info().unwrap().verified_instruction_count();
        println!("{name}: {count:?}");
        assert!(
            count.is_none_or(|count| count < 100_000),
            "{name}: {count:?}"
        );
    }
}

#[test]
fn the_program_does_what_its_model_does() {
    let Some(mut loaded) = load("model") else {
        return;
    };
    let names = groups().iter().map(|group| group.name.as_str());
    let lists = names.chain(["bittorrent", "dns", "tls", "irc"]);
    let mut counts = Counts::default();
    for list in lists {
        let triage = triage(&format!("{list:?}"));
        loaded.judge.put(Some(&triage), false).unwrap();
        for (name, file) in samples::captures() {
            let mut reader = CaptureReader::new("sample", file.as_slice()).unwrap();
            let mut models = Models::new();
            while let Ok(Some(read)) = reader.next_packet() {
                let Some(bytes) = ip(read.link, read.bytes) else {
                    continue;
                };
                compare(&loaded, &triage, (&mut models, &mut counts), bytes)
                    .unwrap_or_else(|differs| panic!("{list}, {name}: {differs}"));
            }
            loaded.forget();
        }
    }
    let Counts {
        compared, passed, ..
    } = counts;
    assert!(
        compared > 1_000 && passed > 100 && passed < compared,
        "{counts:?}"
    );
}

/// Numbers that are the same for the same seed (xorshift64, Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// What conversations are made of; calm ones of the first of these.
const SAYINGS: [&[u8]; 12] = [
    b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
    b"\x17\x03\x03\x00\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"GET /announce?info_hash=aaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x13BitTorrent protocol\0\0\0\0\0\0\0\0",
    b"GNUTELLA CONNECT/0.6\r\n",
    b"NICK founder\r\n",
    b"d1:ad2:id20:aaaaaaaaaaaaaaaaaaaae1:q4:ping1:t2:aa1:y1:qe",
    b"\xc3\x00\x00\x00\x01\x08aaaaaaaa\x00\x00",
    b"\xe3\x05\x00\x00\x00\x01",
    b"220 mail.example ready\r\n",
];

const CALM: usize = 4;

/// A packet of a conversation that goes wrong now and then: repeated, lost and overlapping
/// segments, further SYNs, and what is longer than is scanned.
fn chance_packet(chance: &mut Chance, next: &mut [[u32; 2]; 8], calm: bool) -> Vec<u8> {
    let which = chance.below(next.len());
    // Calm ones are mostly one-sided, and long.
    let from = chance.below(if calm { 12 } else { 2 }).min(1) ^ usize::from(calm);
    let tcp = which < 6;
    let long = if calm { chance.below(1_400) } else { 0 };
    let some = if calm { CALM } else { SAYINGS.len() };
    let mut payload = SAYINGS[chance.below(some)].to_vec();
    match chance.below(if calm { 200 } else { 8 }) {
        0 => payload.clear(),
        1 => payload.truncate(chance.below(8)),
        2 => payload.extend(vec![b'x'; chance.below(2_600)]),
        3 => {
            payload = (0..chance.below(700))
                .map(|_| chance.below(256).to_le_bytes()[0])
                .collect()
        }
        _ => {}
    }
    payload.extend(vec![b'x'; long]);
    // Most conversations begin as they should: what does not is asked about at once.
    if tcp && next[which][1] == 0 && chance.below(16) > 0 {
        let answers = next[which][0] != 0;
        let from = usize::from(answers);
        let number = u32::try_from(chance.below(1 << 31)).unwrap();
        next[which][from] = number.wrapping_add(1);
        let flags = if answers { 0x12 } else { 0x02 };
        return packet_of((which, from), Some((number, flags, next[which][0])), b"");
    }
    let (mut flags, mut number) = (0x18_u8, next[which][from]);
    let wrong = if calm && number != 0 { 1_000 } else { 24 };
    match chance.below(wrong) {
        0 => (flags, number) = (0x02, number.wrapping_sub(1)),
        1 => (flags, number) = (0x12, u32::try_from(chance.below(1 << 31)).unwrap()),
        2 => number = number.wrapping_add(7),
        3 => number = number.wrapping_sub(7),
        4 => number = number.wrapping_sub(u32::try_from(payload.len()).unwrap()),
        7 => flags = 0x14,
        5 | 6 => (flags, number) = (0x02, u32::try_from(chance.below(1 << 31)).unwrap()),
        _ => {}
    }
    if flags != 0x18 && chance.below(8) > 0 {
        payload.clear();
    }
    if matches!(flags, 0x02 | 0x12) {
        next[which][from] = number.wrapping_add(1);
    } else if number == next[which][from] {
        next[which][from] = number.wrapping_add(u32::try_from(payload.len()).unwrap());
    }
    // Most answers are to what the other side has said last.
    let said = next[which][1 - from];
    let acknowledged = match chance.below(4) {
        0 => said.wrapping_add(1),
        _ => said,
    };
    let numbers = tcp.then_some((number, flags, acknowledged));
    packet_of((which, from), numbers, &payload)
}

/// A packet of the conversation with this number, over IPv4 or IPv6, from its first or its second
/// end; without numbers by UDP.
fn packet_of(
    (which, from): (usize, usize),
    numbers: Option<(u32, u8, u32)>,
    payload: &[u8],
) -> Vec<u8> {
    let ports = [
        40_000 + u16::try_from(which).unwrap(),
        [80, 53, 6_881][which % 3],
    ];
    let (source, destination) = (ports[from], ports[1 - from]);
    let mut transport = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    if let Some((number, flags, acknowledged)) = numbers {
        transport.extend([number.to_be_bytes(), acknowledged.to_be_bytes()].concat());
        transport.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    } else {
        transport.extend(u16::try_from(payload.len() + 8).unwrap().to_be_bytes());
        transport.extend([0, 0]);
    }
    transport.extend(payload);
    let length = u16::try_from(transport.len()).unwrap();
    let protocol = if numbers.is_some() { 6 } else { 17 };
    let ends = [[10, 0, 0, 1], [192, 0, 2, 2]];
    let mut packet = if which.is_multiple_of(2) {
        let mut header = vec![0x45, 0];
        header.extend((length + 20).to_be_bytes());
        header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        header.extend([ends[from], ends[1 - from]].concat());
        header
    } else {
        let mut header = vec![0x60, 0, 0, 0];
        let (extension, more) = ([protocol, 0, 1, 4, 0, 0, 0, 0], which == 3);
        let whole = if more { length + 8 } else { length };
        header.extend(whole.to_be_bytes());
        header.extend([if more { 60 } else { protocol }, 64]);
        for end in [ends[from], ends[1 - from]] {
            header.extend(
                [
                    &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0],
                    end.as_slice(),
                ]
                .concat(),
            );
        }
        if more {
            // Destination options, padded.
            header.extend(extension);
        }
        header
    };
    packet.extend(transport);
    packet
}

#[test]
fn program_and_model_agree_on_broken_conversations() {
    let Some(mut loaded) = load("chance") else {
        return;
    };
    let mut counts = Counts::default();
    for list in ["p2p", "gnutella", "irc", "dns"] {
        let triage = triage(&format!("{list:?}"));
        loaded.judge.put(Some(&triage), false).unwrap();
        for seed in 1..=120_u64 {
            let (mut chance, mut models) = (
                Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)),
                Models::new(),
            );
            let mut next = [[0; 2]; 8];
            for packet in 0..400 {
                let bytes = chance_packet(&mut chance, &mut next, seed.is_multiple_of(2));
                compare(&loaded, &triage, (&mut models, &mut counts), &bytes).unwrap_or_else(
                    |differs| panic!("{list}, seed {seed}, packet {packet}: {differs}"),
                );
            }
            loaded.forget();
        }
    }
    let Counts {
        compared,
        passed,
        finished,
    } = counts;
    println!("{counts:?}");
    assert!(
        passed > compared / 10 && finished > compared / 100,
        "{counts:?}"
    );
}

/// Rules without an application, the hosts and ports of [`packet_of`] among theirs or beside them.
const BY_ENDS: [&str; 6] = [
    "client = \"10.0.0.1\"",
    "server = [\"192.0.0.0/15\", \"2001:db8::c000:203/128\"]",
    "network = [\"10.0.0.2/31\", \"2001:db8::a00:0/112\"]",
    "l4 = \"tcp\"\nport = \"40003-40004\"",
    "l4 = \"udp\"\nport = [53, \"7000-65535\"]",
    "port = \"81-6880\"",
];

#[test]
fn program_and_model_agree_on_networks_and_ports() {
    let Some(mut loaded) = load("networks") else {
        return;
    };
    for (which, rule) in BY_ENDS.iter().enumerate() {
        let text = format!(
            "[[rule]]\nname = \"no\"\naction = \"block\"\n{rule}\n\
             [[rule]]\nname = \"irc\"\naction = \"block\"\napp = \"irc\"\n"
        );
        let triage = compiled(&text);
        // Each table takes the place of the last but one: nothing of that may be left.
        loaded.judge.put(Some(&triage), false).unwrap();
        let mut counts = Counts::default();
        for seed in 1..=40_u64 {
            let (mut chance, mut models) = (
                Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)),
                Models::new(),
            );
            let mut next = [[0; 2]; 8];
            for packet in 0..200 {
                let bytes = chance_packet(&mut chance, &mut next, seed.is_multiple_of(2));
                compare(&loaded, &triage, (&mut models, &mut counts), &bytes)
                    .unwrap_or_else(|differs| panic!("{rule}, {seed}, {packet}: {differs}"));
            }
            loaded.forget();
        }
        println!("{rule}: {counts:?}");
        // Each is about some of the conversations and not about others.
        let Counts {
            compared, passed, ..
        } = counts;
        assert!(passed < compared, "{which}: {counts:?}");
        assert!(passed > 0, "{which}: {counts:?}");
    }
}

#[test]
fn silence_ends_a_udp_flow_in_the_program() {
    let Some(mut loaded) = asking("silence", "\"gnutella\"") else {
        return;
    };
    let says = |from| packet_of((6, from), None, b"\x99");
    // Nothing names it: it is looked at until one side has said four times as much.
    for (which, from) in [0, 1].repeat(32).into_iter().take(63).enumerate() {
        let last = u32::from(which == 62);
        assert_eq!(loaded.run("triage", &says(from)), 1 - last);
        assert_eq!(loaded.run("finished", &says(from)), last);
    }
    for (silent, finished) in [(350, 1), (370, 0)] {
        loaded.was_silent(silent);
        assert_eq!(loaded.run("triage", &says(0)), 1 - finished, "{silent}");
        assert_eq!(loaded.run("finished", &says(0)), finished, "{silent}");
    }
}

#[test]
fn a_flood_evicts_no_other_beginnings() {
    let Some(loaded) = asking("flood", "\"gnutella\"") else {
        return;
    };
    let says = |from, number, flags, acknowledged, payload: &[u8]| {
        packet_of((0, from), Some((number, flags, acknowledged)), payload)
    };
    assert_eq!(loaded.run("triage", &says(0, 5, 0x02, 0, b"")), 1);
    assert_eq!(loaded.run("triage", &says(1, 9, 0x12, 6, b"")), 1);
    // More than there is room for of either, from others; and pieces of connections that never
    // began.
    let calls = says(0, 7, 0x02, 0, b"");
    let pieces = says(0, 7, 0x10, 1, b"\x99");
    let datagrams = packet_of((6, 0), None, b"\x99");
    for (flood, fate, most) in [
        (calls, 1, 80_000_u32),
        (pieces, 0, 20_000),
        (datagrams, 1, 20_000),
    ] {
        for number in 0..most {
            let mut packet = flood.clone();
            let [_, high, low @ ..] = number.to_be_bytes();
            packet[14] = 100 + high;
            packet[20..22].copy_from_slice(&low);
            assert_eq!(loaded.run("triage", &packet), fate);
        }
    }
    // A flow that had been forgotten would be asked about.
    assert_eq!(loaded.run("triage", &says(0, 6, 0x18, 10, b"\x99")), 1);
}

/// More connections that nothing is decided of than there is room for.
#[test]
fn evicted_connections_are_asked_about_again() {
    let Some(loaded) = asking("crowd", "\"gnutella\"") else {
        return;
    };
    let says = |client: u32, from, number, flags, acknowledged, payload: &[u8]| {
        let mut packet = packet_of((0, from), Some((number, flags, acknowledged)), payload);
        let address = if from == 0 { 12 } else { 16 };
        let [_, high, low @ ..] = client.to_be_bytes();
        packet[address + 1..address + 4].copy_from_slice(&[high, low[0], low[1]]);
        packet
    };
    let clients = 2 * limits::KERNEL_FLOWS;
    for client in 0..clients {
        let fates = [
            says(client, 0, 5, 0x02, 0, b""),
            says(client, 1, 9, 0x12, 6, b""),
        ];
        assert_eq!(fates.map(|packet| loaded.run("triage", &packet)), [1, 1]);
    }
    let speaks = |client| loaded.run("triage", &says(client, 0, 6, 0x18, 10, b"\x99"));
    assert_eq!([speaks(0), speaks(clients - 1)], [0, 1]);
}

/// A gateway that is busy for long: what comes later comes without its beginning, and is counted.
#[test]
fn unread_beginnings_count_as_lost() {
    let Some(mut loaded) = asking("unread", "\"gnutella\"") else {
        return;
    };
    let totals = Totals(loaded.ebpf.take_map("totals").unwrap().try_into().unwrap());
    let handed = FlowBacklog::new(loaded.ebpf.take_map("handed").unwrap().try_into().unwrap());
    // The handshake passes, and what is said is asked about.
    let speak = |from: u16| {
        let of = |from_server: usize, number, flags, acknowledged, payload: &[u8]| {
            let numbers = Some((number, flags, acknowledged));
            let mut packet = packet_of((0, from_server), numbers, payload);
            let port = 20 + 2 * from_server;
            packet[port..port + 2].copy_from_slice(&from.to_be_bytes());
            packet
        };
        let (hello, answer) = (of(0, 5, 0x02, 0, b""), of(1, 9, 0x12, 6, b""));
        let said = of(0, 6, 0x18, 10, b"GNUTELLA CONNECT/0.6\r\n");
        let fates = [hello, answer].map(|packet| loaded.run("triage", &packet));
        assert_eq!((fates, loaded.run("triage", &said)), ([1, 1], 0));
        said
    };
    let first = speak(10_000);
    for from in 10_001..10_500 {
        speak(from);
    }
    assert_eq!(totals.get().lost, 0);
    let later: Vec<_> = (10_500..12_000).map(speak).collect();
    let last = later.last().unwrap();
    let lost = totals.get().lost;
    assert!((500..1_500).contains(&lost), "{lost}");
    handed.look();
    assert!(handed.take(&first).is_some());
    assert!(handed.take(last).is_none());
    // Once they are read there is room again.
    let next = speak(12_000);
    handed.look();
    assert!(handed.take(&next).is_some());
    assert_eq!(totals.get().lost, lost);
}

type Flows<'a> =
    aya::maps::HashMap<&'a mut aya::maps::MapData, [u8; Ends::BYTES], [u8; Flow::BYTES]>;

impl Loaded {
    fn flows(&mut self, map: &str) -> Flows<'_> {
        self.ebpf.map_mut(map).unwrap().try_into().unwrap()
    }

    /// Has all flows been silent for so many seconds.
    fn was_silent(&mut self, seconds: u32) {
        let mut flows = self.flows("datagrams");
        let keys: Vec<[u8; Ends::BYTES]> = flows.keys().flatten().collect();
        for key in keys {
            let flow = flows.get(&key, 0).unwrap();
            let mut flow = Flow::read(&mut flow.as_slice()).unwrap();
            flow.seen = flow.seen.wrapping_sub(seconds);
            flows.insert(key, flow.bytes(), 0).unwrap();
        }
    }

    /// Forgets all flows: those of the next file may have the same ends.
    fn forget(&mut self) {
        for map in ["flows", "datagrams"] {
            let mut flows = self.flows(map);
            let keys: Vec<[u8; Ends::BYTES]> = flows.keys().flatten().collect();
            for key in keys {
                flows.remove(&key).unwrap();
            }
        }
        let map = self.ebpf.map_mut("pending_syns").unwrap();
        let mut syns: aya::maps::HashMap<_, [u8; Ends::BYTES], [u8; PendingSyn::BYTES]> =
            map.try_into().unwrap();
        let keys: Vec<[u8; Ends::BYTES]> = syns.keys().flatten().collect();
        for key in keys {
            syns.remove(&key).unwrap();
        }
    }
}
