//! XMPP: messages, offers of files, files inside the stream, and the connections made for others.

mod element;
mod inband;
mod stanza;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use self::element::{Element, Space};
use self::inband::InBand;
use self::stanza::Stanzas;
use super::held::Reason;
use super::names::{file_name, media_type};
use super::reading::{Emit, Reading, head_size, opposite};
use super::{Expected, FileHead, Message, Seen};
use crate::flow::{Both, Direction};
use crate::limits::{MAX_DETAIL, MAX_FILE_OFFERS};

/// Bytes of an address (RFC 7622 §3.1: three parts of 1 023 and what separates them).
const MAX_ADDRESS: usize = 3_071;

/// A connection of a client, or of two servers.
#[derive(Debug, Default)]
pub(super) struct Xmpp {
    stanzas: Both<Stanzas>,
    offers: Offers,
    in_band: Both<Option<InBand>>,
    /// The client's address: it need not name itself.
    account: Option<String>,
}

/// Files offered, by the identifiers of their streams.
#[derive(Debug, Default)]
struct Offers(VecDeque<(String, FileHead)>);

impl Offers {
    fn remember(&mut self, stream: Option<&str>, head: &FileHead) {
        let Some(stream) = stream.filter(|stream| stream.len() <= MAX_DETAIL) else {
            return;
        };
        self.0.retain(|(other, _)| other != stream);
        if self.0.len() >= MAX_FILE_OFFERS {
            self.0.pop_front();
        }
        self.0.push_back((stream.to_owned(), head.clone()));
    }

    fn find(&self, stream: Option<&str>) -> Option<FileHead> {
        let found = self
            .0
            .iter()
            .find(|(other, _)| Some(other.as_str()) == stream);
        found.map(|(_, head)| head.clone())
    }
}

impl Xmpp {
    fn handle_stanza(
        &mut self,
        direction: Direction,
        stanza: &Element,
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        let from_server = direction == Direction::FromServer;
        // TLS begins behind this, and nothing of it can be read.
        if from_server && stanza.is("proceed", Space::Tls) {
            return Err("encrypted");
        }
        if from_server && stanza.is("compressed", Space::Compression) {
            return Err("compressed");
        }
        let account = self.account.as_deref().filter(|_| !from_server);
        emit_messages(stanza, account, emit);
        for child in &stanza.children {
            match (child.space, child.name.as_str()) {
                (Space::Initiation, "si") => self.handle_initiation(child, emit),
                (Space::Jingle, "jingle") => self.handle_jingle(child, emit),
                (Space::Bytestreams, "query") => {
                    let file = self.offers.find(child.attribute("sid"));
                    emit_hosts(child, "streamhost", file, emit);
                }
                (Space::Upload, "request") => emit_upload(child, emit),
                // The server assigns the address (RFC 6120 §7). What a client asks for may differ.
                (Space::Binding, "bind") if from_server => {
                    let account = child.child("jid").map(|jid| jid.text.clone());
                    self.account = account.filter(|account| account.len() <= MAX_ADDRESS);
                }
                (Space::InBand, "data") => self.handle_data(direction, child, emit)?,
                (Space::InBand, "close") => self.handle_close(direction, child, emit),
                _ => {}
            }
        }
        Ok(())
    }

    /// XEP-0095 and XEP-0096: the file's name and size stand in attributes.
    fn handle_initiation(&mut self, offer: &Element, emit: Emit<'_>) {
        let Some(file) = offer.child("file") else {
            return;
        };
        let head = FileHead {
            name: file.attribute("name").and_then(file_name),
            kind: offer.attribute("mime-type").and_then(media_type),
            size: file.attribute("size").and_then(|size| size.parse().ok()),
            ..FileHead::default()
        };
        self.offers.remember(offer.attribute("id"), &head);
        emit(Seen::Offer(head));
    }

    /// XEP-0234 and XEP-0260: contents with a description and a transport each.
    fn handle_jingle(&mut self, jingle: &Element, emit: Emit<'_>) {
        let session = jingle.attribute("sid");
        let action = jingle.attribute("action");
        for content in jingle.children.iter().filter(|part| part.name == "content") {
            let mut parts = content.children.iter();
            let described = parts.find(|part| part.space == Space::JingleFile);
            let transport = content.child("transport");
            let stream = transport.and_then(|transport| transport.attribute("sid"));
            let head = described
                .and_then(|description| description.below("file"))
                .map(described_file);
            if let Some(head) = &head {
                self.offers.remember(session, head);
                self.offers.remember(stream, head);
                // An accept repeats the description; only these actions make an offer.
                if matches!(action, Some("session-initiate" | "content-add")) {
                    emit(Seen::Offer(head.clone()));
                }
            }
            let known = || self.offers.find(stream).or(self.offers.find(session));
            if let Some(hosts) = transport.filter(|part| part.space == Space::JingleBytestreams) {
                emit_hosts(hosts, "candidate", head.clone().or_else(known), emit);
            }
        }
    }

    fn handle_data(
        &mut self,
        direction: Direction,
        data: &Element,
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        let stream = data.attribute("sid");
        let stream = stream.filter(|stream| stream.len() <= MAX_DETAIL);
        let stream = stream.ok_or("in-band data without a stream")?;
        let open = self.in_band.of(direction);
        let file = match open {
            Some(file) if file.is(stream) => file,
            Some(file) if !file.is_whole() => return Err("several files at once"),
            _ => {
                let head = self.offers.find(Some(stream)).unwrap_or_default();
                open.insert(InBand::new(stream, head))
            }
        };
        file.handle_data(direction, data.attribute("seq"), &data.text, emit)
    }

    /// Either side may close a stream. The end is told among the bytes of the file's own direction:
    /// its sender answers.
    fn handle_close(&mut self, direction: Direction, close: &Element, emit: Emit<'_>) {
        let stream = close.attribute("sid").unwrap_or_default();
        if let Some(file) = self.in_band.of(opposite(direction))
            && file.is(stream)
        {
            file.close();
        }
        if let Some(mut file) = self.in_band.of(direction).take_if(|file| file.is(stream)) {
            file.end(direction, emit);
        }
    }

    fn end_closed(&mut self, direction: Direction, emit: Emit<'_>) {
        if let Some(mut file) = self.in_band.of(direction).take_if(|file| file.is_closed()) {
            file.end(direction, emit);
        }
    }
}

/// What people read of a message, of those that it forwards, and of a presence.
fn emit_messages(element: &Element, account: Option<&str>, emit: Emit<'_>) {
    for child in &element.children {
        let is_read = match element.name.as_str() {
            "message" => matches!(child.name.as_str(), "body" | "subject" | "html"),
            "presence" => child.name == "status",
            _ => false,
        };
        if is_read && !child.words.is_empty() {
            emit(Seen::Message(Message {
                text: child.words.clone(),
                from: element.attribute("from").or(account).map(str::to_owned),
                to: element.attribute("to").map(str::to_owned),
            }));
        }
        emit_messages(child, None, emit);
    }
}

/// A file of XEP-0234: its properties are elements.
fn described_file(file: &Element) -> FileHead {
    let property = |name: &str| file.child(name).map(|child| child.text.trim());
    FileHead {
        name: property("name").and_then(file_name),
        kind: property("media-type").and_then(media_type),
        size: property("size").and_then(|size| size.parse().ok()),
        ..FileHead::default()
    }
}

/// A slot for an upload over HTTP (XEP-0363).
fn emit_upload(request: &Element, emit: Emit<'_>) {
    emit(Seen::Offer(FileHead {
        name: request.attribute("filename").and_then(file_name),
        kind: request.attribute("content-type").and_then(media_type),
        size: request.attribute("size").and_then(|size| size.parse().ok()),
        ..FileHead::default()
    }));
}

/// Hosts that wait for a bytestream. Those known by a name only cannot be told.
fn emit_hosts(hosts: &Element, name: &str, file: Option<FileHead>, emit: Emit<'_>) {
    let file = file.unwrap_or_default();
    for host in hosts.children.iter().filter(|host| host.name == name) {
        let ip = host
            .attribute("host")
            .and_then(|ip| ip.parse::<IpAddr>().ok());
        let port = host.attribute("port").and_then(|port| port.parse().ok());
        if let Some((ip, port)) = ip.zip(port) {
            emit(Seen::Expect(Expected {
                server: SocketAddr::new(ip, port),
                application: "xmpp-bytestream",
                file: file.clone(),
            }));
        }
    }
}

impl Reading for Xmpp {
    fn read(
        &mut self,
        direction: Direction,
        input: &mut &[u8],
        emit: Emit<'_>,
    ) -> Result<(), Reason> {
        if !input.is_empty() {
            self.end_closed(direction, emit);
        }
        while let Some(stanza) = self.stanzas.of(direction).next(input)? {
            let stanza = Element::parse(&stanza)?;
            self.handle_stanza(direction, &stanza, emit)?;
        }
        Ok(())
    }

    fn end(&mut self, direction: Direction, emit: Emit<'_>) -> Result<(), Reason> {
        self.end_closed(direction, emit);
        Ok(())
    }

    fn held(&self) -> usize {
        let offers = self.offers.0.iter().map(|(stream, head)| {
            let texts = stream.capacity().saturating_add(head_size(head));
            texts.saturating_add(size_of::<(String, FileHead)>())
        });
        let offers = offers.fold(0, usize::saturating_add);
        let in_band = self
            .in_band
            .sum(|file| file.as_ref().map_or(0, InBand::held));
        let stanzas = self.stanzas.sum(Stanzas::held);
        let account = self.account.as_ref().map_or(0, String::capacity);
        [offers, in_band, account]
            .into_iter()
            .fold(stanzas, usize::saturating_add)
    }
}
