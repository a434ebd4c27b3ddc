//! TLS: the record layer (RFC 8446 §5.1) and the hello messages in it, also when split over records
//! and segments.

use tls_parser::{parse_tls_handshake_client_hello, parse_tls_handshake_server_hello};

use super::message::{Finding, Memory, Message, text};
use crate::limits::{MAX_PREFIX, MAX_PROTOCOLS};
use crate::reader::Reader;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
/// RFC 5246 §6.2.3: a protected record may add 2 048 bytes to 2^14.
const MAX_RECORD: u16 = 18_432;

/// What a ClientHello offers, as far as it distinguishes applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// RFC 6066 §3: the server's name.
    pub(super) name: Option<String>,
    /// RFC 7301: application protocols.
    pub(super) protocols: Vec<String>,
}

/// What the records at the beginning of a stream hold.
#[derive(Debug, Default)]
struct Records {
    handshake: Vec<u8>,
    /// Records of any type that are there to their end.
    whole: u8,
    /// The last record goes on in a later segment.
    open: bool,
}

/// A stream of TLS records.
pub(super) fn record(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let first = *message.bytes.first()?;
    let records = walk(message.bytes)?;
    if first == HANDSHAKE {
        return handshake(&records, memory);
    }
    match records.whole {
        0 => None,
        1 => Some(Finding::guess("one record after the handshake")),
        count => Some(Finding::likely(format!(
            "{count} records in a row, after the handshake"
        ))),
    }
}

fn handshake(records: &Records, memory: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(&records.handshake);
    let kind = reader.u8()?;
    let [high, middle, low] = reader.array::<3>()?;
    let length = usize::from(u16::from_be_bytes([middle, low]));
    if high != 0 || !matches!(kind, CLIENT_HELLO | SERVER_HELLO | CERTIFICATE) {
        return None;
    }
    let name = match kind {
        CLIENT_HELLO => "ClientHello",
        SERVER_HELLO => "ServerHello",
        _ => return Some(Finding::likely("a Certificate message")),
    };
    let Some(body) = reader.take(length) else {
        // Version and random stand at the beginning; without them nothing is confirmed.
        let begun = records.open && is_version(reader.be16()?);
        return begun.then(|| Finding::likely(format!("the beginning of a {name}")));
    };
    if kind == SERVER_HELLO {
        parse_tls_handshake_server_hello(body).ok()?;
        return Some(Finding::certain("ServerHello"));
    }
    let offer = client_hello(body)?;
    // Only a hello without application protocols is looked at again.
    if offer.protocols.is_empty() {
        memory.offer = Some(Box::new(offer.clone()));
    }
    Some(
        Finding::certain("ClientHello")
            .with_sni(offer.name)
            .with_protocols(offer.protocols),
    )
}

/// Reads a ClientHello without its type and length; `None` if it is none.
pub(super) fn client_hello(body: &[u8]) -> Option<Offer> {
    let (_, hello) = parse_tls_handshake_client_hello(body).ok()?;
    let mut offer = Offer::default();
    let mut reader = Reader::new(hello.ext.unwrap_or_default());
    while let Some(kind) = reader.be16() {
        let Some(body) = reader.be16().and_then(|length| reader.take(length.into())) else {
            break;
        };
        match kind {
            0 => offer.name = server_name(body),
            16 => offer.protocols = protocols(body),
            _ => {}
        }
    }
    Some(offer)
}

/// Walks the records; `None` if the bytes are no records.
fn walk(bytes: &[u8]) -> Option<Records> {
    let mut reader = Reader::new(bytes);
    let mut records = Records::default();
    while !reader.is_empty() {
        let Some([kind, major, minor]) = reader.array::<3>() else {
            break;
        };
        let valid = matches!(kind, 20..=24) && major == 3 && minor <= 4;
        // Behind the first hello other bytes may follow, which do not undo it.
        if !valid {
            return (!records.handshake.is_empty() && records.whole > 0).then_some(records);
        }
        let Some(length) = reader.be16() else { break };
        if length == 0 || length > MAX_RECORD {
            return (records.whole > 0).then_some(records);
        }
        let available = reader.rest().len().min(length.into());
        let body = reader.take(available)?;
        if kind == HANDSHAKE && records.handshake.len() < MAX_PREFIX {
            records.handshake.extend_from_slice(body);
        }
        records.open = available < length.into();
        if !records.open {
            records.whole = records.whole.saturating_add(1);
        }
    }
    Some(records)
}

fn is_version(version: u16) -> bool {
    (0x0300..=0x0304).contains(&version)
}

/// RFC 6066 §3: the host name in the extension.
fn server_name(extension: &[u8]) -> Option<String> {
    let mut list = Reader::new(extension);
    list.be16()?;
    let is_host = list.u8()? == 0;
    let length = list.be16()?;
    let name = list.take(length.into())?;
    if is_host { text(name) } else { None }
}

/// RFC 7301 §3.1: the names in the extension.
fn protocols(extension: &[u8]) -> Vec<String> {
    let mut list = Reader::new(extension);
    list.be16();
    let mut names = Vec::new();
    while names.len() < MAX_PROTOCOLS {
        let Some(name) = list.u8().and_then(|length| list.take(length.into())) else {
            break;
        };
        names.extend(text(name));
    }
    names
}
