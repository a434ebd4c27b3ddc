//! XMPP (RFC 6120), also over WebSocket (RFC 7395) and HTTP (XEP-0124), and SOCKS5 bytestreams
//! (XEP-0065).

use std::net::{IpAddr, SocketAddr};

use super::http::Request;
use super::http_marks;
use super::message::{Announced, Finding, Memory, Message};
use crate::limits::MAX_TEXT_HEAD;
use crate::reader::Reader;

/// Namespaces of streams (RFC 6120 §4.8).
const NAMESPACES: [&str; 4] = [
    "http://etherx.jabber.org/streams",
    "jabber:client",
    "jabber:server",
    "urn:ietf:params:xml:ns:xmpp-",
];

/// The head of a stream, or a stanza of one that was picked up midway.
pub(super) fn stream(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    let head = message
        .bytes
        .get(..message.bytes.len().min(MAX_TEXT_HEAD))?;
    let head = String::from_utf8_lossy(head);
    // RFC 6120 §11.4: a declaration may stand before.
    let body = match head.strip_prefix("<?xml") {
        Some(rest) => rest.split_once("?>")?.1.trim_start(),
        None => head.trim_start(),
    };
    let named = NAMESPACES.iter().any(|name| body.contains(name));
    let found = if body.starts_with("<stream:stream") || body.starts_with("<open ") {
        if named {
            Finding::certain("the head of a stream with its namespace")
        } else {
            Finding::likely("the head of a stream")
        }
    } else if ["<message", "<presence", "<iq"].iter().any(|name| {
        body.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with([' ', '>', '/']))
    }) {
        if named || body.contains("xmlns=") {
            Finding::likely("a stanza with a namespace")
        } else {
            Finding::guess("a stanza")
        }
    } else if body.starts_with("<stream:")
        || body.starts_with("</stream:stream>")
        || (named && body.starts_with('<'))
    {
        Finding::likely("an element of a stream")
    } else {
        return None;
    };
    memory.listener = Some(stream_host);
    let to = attribute(body, "to").filter(|_| body.starts_with("<stream:stream"));
    Some(found.with_host(to.and_then(|name| super::message::text(name.as_bytes()))))
}

/// A request to a connection manager (XEP-0124).
pub(super) fn over_http(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).xmpp {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let path = request.path();
    let head = message
        .bytes
        .get(..message.bytes.len().min(MAX_TEXT_HEAD))?;
    let head = String::from_utf8_lossy(head);
    let found = if head.contains("http://jabber.org/protocol/httpbind") {
        Finding::certain("a body in the namespace of httpbind")
    } else if path.ends_with("/http-bind") || path.ends_with("/http-bind/") {
        Finding::likely("a request to http-bind")
    } else if request
        .header("sec-websocket-protocol")
        .is_some_and(|name| name.eq_ignore_ascii_case("xmpp"))
    {
        Finding::certain("a WebSocket of the protocol xmpp")
    } else {
        return None;
    };
    Some(found.with_host(request.host()))
}

/// XEP-0065 §5.3.2: SOCKS5 (RFC 1928) to a name that is a SHA-1 in hexadecimal, port 0.
pub(super) fn bytestream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let mut reader = Reader::new(message.bytes);
    if reader.u8()? != 5 {
        return None;
    }
    // The client's list of methods, or the server's choice; then the request or the reply to it.
    let second = reader.u8()?;
    if message.direction == crate::flow::Direction::FromClient {
        reader.take(second.into())?;
    } else if second != 0 {
        return None;
    }
    let [version, command, reserved, kind, length] = reader.array::<5>()?;
    let name = reader.take(length.into())?;
    let fits = version == 5
        && command <= 1
        && reserved == 0
        && kind == 3
        && length == 40
        && name.iter().all(u8::is_ascii_hexdigit)
        && reader.be16()? == 0;
    fits.then(|| Finding::certain("a SOCKS5 bytestream: a SHA-1 for a name, port 0"))
}

/// A stream host that is offered for a bytestream: `<streamhost host='…' port='…'/>`.
fn stream_host(payload: &[u8]) -> Option<(usize, Option<Announced>)> {
    const START: &[u8] = b"<streamhost ";
    let start = payload
        .windows(START.len())
        .position(|window| window == START)?;
    let rest = payload.get(start..)?;
    let end = rest.iter().position(|&byte| byte == b'>')?;
    Some((start.checked_add(end)?, offered(rest.get(..end)?)))
}

fn offered(element: &[u8]) -> Option<Announced> {
    let element = std::str::from_utf8(element).ok()?;
    let address: IpAddr = attribute(element, "host")?.parse().ok()?;
    let port: u16 = attribute(element, "port")?.parse().ok()?;
    (port > 0).then_some(Announced {
        endpoint: SocketAddr::new(address, port),
        application: "xmpp",
        by: "a stream host in XMPP",
    })
}

/// The value of an attribute of the first element.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let element = element.split_once('>').map_or(element, |(tag, _)| tag);
    let mut rest = element;
    while let Some((before, after)) = rest.split_once('=') {
        let quote = after
            .chars()
            .next()
            .filter(|quote| matches!(quote, '\'' | '"'))?;
        let (value, tail) = after.get(1..)?.split_once(quote)?;
        if before.split_ascii_whitespace().next_back() == Some(name) {
            return Some(value);
        }
        rest = tail;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{attribute, stream_host};

    #[test]
    fn attributes_are_read_in_any_order_and_quotes() {
        let element = "<streamhost jid='a=b' port=\"5086\" host='192.0.2.4'/>";
        assert_eq!(attribute(element, "port"), Some("5086"));
        assert_eq!(attribute(element, "host"), Some("192.0.2.4"));
        assert_eq!(attribute(element, "to"), None);
        let query = format!("<query>{element}</query>");
        let (end, offer) = stream_host(query.as_bytes()).unwrap();
        assert_eq!(offer.unwrap().endpoint.to_string(), "192.0.2.4:5086");
        assert!(query[end..].starts_with('>'));
        let (_, nonsense) = stream_host(b"<streamhost host='x' port='1'/>").unwrap();
        assert_eq!(nonsense, None);
        // Clients offer several; the next one is behind the end of the first.
        let two = format!("{element}<streamhost jid='b' port='5087' host='192.0.2.5'/>");
        let (end, _) = stream_host(two.as_bytes()).unwrap();
        let (_, second) = stream_host(&two.as_bytes()[end..]).unwrap();
        assert_eq!(second.unwrap().endpoint.to_string(), "192.0.2.5:5087");
    }
}
