//! Gnutella: handshake, descriptors over UDP, semi-reliable UDP of Gnutella 2, transfers over HTTP.

use super::http::{Request, header, header_names, headers};
use super::http_marks;
use super::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// GUID, type, TTL, hops, length.
const DESCRIPTOR_HEADER: usize = 23;
/// Parts of one message over semi-reliable UDP.
const MAX_PARTS: u8 = 31;
/// Product names of Gnutella programs.
const PROGRAMS: [&str; 11] = [
    "limewire",
    "gtk-gnutella",
    "bearshare",
    "shareaza",
    "frostwire",
    "morpheus",
    "gnucleus",
    "wireshare",
    "phex",
    "cabos",
    "envy",
];

/// `GNUTELLA CONNECT/` and a version.
pub(super) fn handshake(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let [.., b'0'..=b'9', b'.', b'0'..=b'9'] = message.bytes.get(..20)? else {
        return None;
    };
    Some(Finding::certain(format!(
        "connection request{}",
        agent(message.bytes)
    )))
}

/// `GNUTELLA/0.6` and a status.
pub(super) fn answer(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let [
        ..,
        b'/',
        b'0'..=b'9',
        b'.',
        b'0'..=b'9',
        b' ',
        b'1'..=b'9',
        b'0'..=b'9',
        b'0'..=b'9',
    ] = message.bytes.get(..16)?
    else {
        return None;
    };
    Some(Finding::certain(format!(
        "answer to a connection request{}",
        agent(message.bytes)
    )))
}

/// Which network the header lines ask for, and the program that sends them.
fn agent(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let block = end.and_then(|end| bytes.get(end.saturating_add(1)..));
    let (mut network, mut program) = ("", None);
    for (name, value) in headers(block.unwrap_or_default()) {
        if name.eq_ignore_ascii_case("user-agent") {
            let product = value.split([' ', '/']).next().unwrap_or_default();
            program = PROGRAMS
                .iter()
                .find(|program| product.eq_ignore_ascii_case(program));
        } else if (name.eq_ignore_ascii_case("accept") || name.eq_ignore_ascii_case("content-type"))
            && value.contains("application/x-gnutella2")
        {
            network = " to Gnutella 2";
        }
    }
    match program {
        Some(program) => format!("{network} of {program}"),
        None => network.to_owned(),
    }
}

/// One descriptor in a datagram: its length field must name the rest exactly.
pub(super) fn descriptor(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    let guid = reader.array::<16>()?;
    let kind = reader.u8()?;
    let hops = reader.array::<2>()?;
    let length = index(reader.le32()?);
    let body = reader.rest();
    // Bytes that vary little are no GUID; text would be one of another protocol.
    let varied =
        guid.iter().filter(|&&byte| byte != 0).count() >= 8 && !guid.iter().all(u8::is_ascii);
    if !varied || length != body.len() || !is_descriptor(kind, hops, body) {
        return None;
    }
    memory.gnutella.count(message.direction);
    let why =
        format!("descriptor {kind:#04x}, {DESCRIPTOR_HEADER} bytes before exactly its length");
    let marked = is_marked(body);
    Some(if marked || memory.gnutella.both() {
        Finding::certain(why)
    } else {
        Finding::likely(why)
    })
}

/// Known types: ping, pong, bye, route table, vendor, push, query, hit, and the DHT's 0x44.
fn is_descriptor(kind: u8, [ttl, hops]: [u8; 2], body: &[u8]) -> bool {
    match kind {
        0x00 => ttl.saturating_add(hops) <= 16 && body.len() <= 1_024,
        0x01 => ttl.saturating_add(hops) <= 16 && body.len() >= 14,
        0x02 | 0x30 | 0x31 | 0x32 | 0x40 | 0x41 | 0x80 | 0x81 => {
            ttl.saturating_add(hops) <= 16 && body.len() >= 2
        }
        // There the two bytes are the DHT's version.
        0x44 => body.len() >= 38,
        _ => false,
    }
}

/// An extension block (GGEP begins with 0xc3) or the code of a known vendor.
fn is_marked(body: &[u8]) -> bool {
    let vendors = [
        b"GTKG".as_slice(),
        b"LIME",
        b"BEAR",
        b"RAZA",
        b"FROS",
        b"SCP@",
        b"SCP\x41",
    ];
    let head = body.get(..body.len().min(64)).unwrap_or_default();
    body.first() == Some(&0xc3)
        || vendors
            .iter()
            .any(|vendor| head.windows(4).any(|window| window == *vendor))
}

/// `GND`, flags, sequence, part, number of parts: Gnutella 2's semi-reliable UDP.
pub(super) fn reliable_udp(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    reader.take(3)?;
    let flags = reader.u8()?;
    let _sequence = reader.be16()?;
    let part = reader.u8()?;
    let count = reader.u8()?;
    // Without a count it acknowledges a part and ends there.
    let acknowledges = count == 0 && reader.is_empty();
    // Larger messages go over TCP; and text behind the three letters has higher bytes.
    let sane = (1..=MAX_PARTS).contains(&part) && count <= MAX_PARTS;
    if !sane || (part > count && !acknowledges) {
        return None;
    }
    memory.gnutella.count(message.direction);
    let why = format!("part {part} of {count}");
    // A message in one part that is not deflated can be read.
    if part == 1
        && count == 1
        && flags & 1 == 0
        && let Some(name) = second_packet(reader)
    {
        return Some(Finding::certain(format!(
            "{why}, a packet {name} of Gnutella 2"
        )));
    }
    Some(if memory.gnutella.both() {
        Finding::certain(why)
    } else {
        Finding::likely(why)
    })
}

/// The name of Gnutella 2's packet that takes all the bytes: a byte with the lengths of length and
/// name, the length (little-endian), the name in capitals.
fn second_packet(mut reader: Reader<'_>) -> Option<&str> {
    const KNOWN: [&str; 18] = [
        "PI", "PO", "LNI", "KHL", "KHLR", "KHLA", "HAW", "QHT", "QKR", "QKA", "Q2", "QA", "QH2",
        "PUSH", "UPROC", "UPROD", "CRAWLR", "CRAWLA",
    ];
    let control = reader.u8()?;
    let mut length = 0_usize;
    for place in 0..u32::from(control >> 6) {
        let shift = place.checked_mul(8)?;
        length |= usize::from(reader.u8()?).checked_shl(shift)?;
    }
    let name = reader.take(usize::from(control >> 3 & 7).checked_add(1)?)?;
    let name = std::str::from_utf8(name).ok()?;
    let fits = control & 3 == 0 && reader.rest().len() == length;
    (fits && KNOWN.contains(&name)).then_some(name)
}

/// A transfer over HTTP: by URN, by index, or named so by its header lines.
pub(super) fn http_transfer(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).gnutella {
        return None;
    }
    let block = message
        .bytes
        .iter()
        .position(|&byte| byte == b'\n')
        .and_then(|end| message.bytes.get(end..))?;
    if message.bytes.starts_with(b"HTTP") {
        return http_answer(block.get(1..)?);
    }
    let request = Request::parse(message.bytes)?;
    let program = request.header("user-agent").is_some_and(is_program);
    let lines = header_names(block.get(1..)?).any(is_own_header);
    let target = request.target();
    let by_urn = target.starts_with("/uri-res/N2R?urn:sha1:")
        || target.starts_with("/uri-res/N2X?urn:sha1:");
    let by_index = target.strip_prefix("/get/").is_some_and(is_indexed);
    let host = request.host();
    // Each sign by itself occurs in ordinary HTTP, so only both together are certain.
    let found = match (by_urn || by_index, program || lines) {
        (true, true) => Finding::certain("a transfer with Gnutella's header lines"),
        (false, true) if lines => Finding::likely("Gnutella's header lines"),
        (true, false) if by_urn => Finding::likely("a transfer asked by SHA-1 URN"),
        (true, false) => Finding::guess("a transfer asked by index"),
        (false, true) => Finding::guess("requested by a Gnutella program"),
        (false, false) => return None,
    };
    Some(found.with_host(host))
}

/// What the side that has the file answers, by its header lines.
fn http_answer(block: &[u8]) -> Option<Finding> {
    let program = header(block, "server").is_some_and(is_program);
    match (program, header_names(block).any(is_own_header)) {
        (true, true) => Some(Finding::certain("an answer with Gnutella's header lines")),
        (false, true) => Some(Finding::likely("an answer with Gnutella's header lines")),
        (true, false) => Some(Finding::likely("answered by a Gnutella program")),
        (false, false) => None,
    }
}

/// The user agent is one of Gnutella's programs.
pub(super) fn is_program(agent: &str) -> bool {
    PROGRAMS
        .iter()
        .any(|program| http_marks::begins(agent, program))
}

fn is_own_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("x-gnutella")
        || ["x-queue", "x-falt", "x-nalt", "x-alt", "x-thex-uri"].contains(&name.as_str())
}

/// An index in decimal, then a file name.
fn is_indexed(rest: &str) -> bool {
    rest.split_once('/').is_some_and(|(index, name)| {
        !name.is_empty()
            && (1..=10).contains(&index.len())
            && index.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `GIV index:GUID/name`: the uploader called back and announces a file.
pub(super) fn push(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let line = message.bytes.split(|&byte| byte == b'\n').next()?;
    let line = std::str::from_utf8(line.strip_prefix(b"GIV ")?).ok()?;
    let (index, rest) = line.split_once(':')?;
    let (guid, _) = rest.split_once('/')?;
    let valid = index.len() <= 10
        && index.bytes().all(|byte| byte.is_ascii_digit())
        && guid.len() == 32
        && guid.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| Finding::certain("an announced file with index and GUID"))
}
