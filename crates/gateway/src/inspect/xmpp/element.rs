//! A stanza as a tree, with the namespaces that matter.

use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

use crate::inspect::held::Reason;
use crate::limits::MAX_XML_ELEMENTS;

const MALFORMED: Reason = "malformed XML";

/// Namespaces that say more than a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Space {
    #[default]
    Other,
    Tls,
    Compression,
    /// RFC 6120 §7.
    Binding,
    /// XEP-0047.
    InBand,
    /// XEP-0095.
    Initiation,
    /// XEP-0065.
    Bytestreams,
    /// XEP-0166.
    Jingle,
    /// XEP-0234, of any version.
    JingleFile,
    /// XEP-0260.
    JingleBytestreams,
    /// XEP-0363.
    Upload,
}

impl Space {
    fn named(name: &str) -> Self {
        match name {
            "urn:ietf:params:xml:ns:xmpp-tls" => Self::Tls,
            "http://jabber.org/protocol/compress" => Self::Compression,
            "urn:ietf:params:xml:ns:xmpp-bind" => Self::Binding,
            "http://jabber.org/protocol/ibb" => Self::InBand,
            "http://jabber.org/protocol/si" => Self::Initiation,
            "http://jabber.org/protocol/bytestreams" => Self::Bytestreams,
            "urn:xmpp:jingle:1" => Self::Jingle,
            "urn:xmpp:jingle:transports:s5b:1" => Self::JingleBytestreams,
            "urn:xmpp:http:upload:0" | "urn:xmpp:http:upload" => Self::Upload,
            _ if name.starts_with("urn:xmpp:jingle:apps:file-transfer:") => Self::JingleFile,
            _ => Self::Other,
        }
    }
}

/// An element, its name without prefix.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) space: Space,
    attributes: Vec<(String, String)>,
    pub(super) text: String,
    /// Its text and that of all within it, in the order of reading; of elements whose text people
    /// read ([`READ`]).
    pub(super) words: String,
    pub(super) children: Vec<Element>,
}

/// Elements whose text people read, marked up or not: XHTML-IM (XEP-0071) has it in `html`.
const READ: [&str; 4] = ["body", "subject", "html", "status"];

impl Element {
    pub(super) fn parse(stanza: &[u8]) -> Result<Self, Reason> {
        let stanza = std::str::from_utf8(stanza).or(Err("text that is not UTF-8"))?;
        let mut reader = NsReader::from_str(stanza);
        let mut open: Vec<Self> = Vec::new();
        let mut elements = 0_usize;
        loop {
            let event = reader.read_event().or(Err(MALFORMED))?;
            let closed = match event {
                Event::Start(start) => {
                    open.push(Self::begin(&start, &reader)?);
                    elements = elements.saturating_add(1);
                    None
                }
                Event::Empty(start) => {
                    elements = elements.saturating_add(1);
                    Some(Self::begin(&start, &reader)?)
                }
                Event::End(_) => Some(open.pop().ok_or(MALFORMED)?),
                Event::Text(text) => {
                    add_text(&mut open, &text.into_inner())?;
                    None
                }
                Event::CData(text) => {
                    add_text(&mut open, &text.into_inner())?;
                    None
                }
                Event::GeneralRef(reference) => {
                    let escaped = format!("&{};", reference.into_inner());
                    let text = quick_xml::escape::unescape(&escaped).or(Err(MALFORMED))?;
                    add_text(&mut open, &text)?;
                    None
                }
                // RFC 6120 §11.1: no comments, processing instructions or DTDs.
                _ => return Err(MALFORMED),
            };
            if elements > MAX_XML_ELEMENTS {
                return Err("a stanza of too many elements");
            }
            let Some(mut closed) = closed else {
                continue;
            };
            match open.last_mut() {
                Some(parent) => {
                    parent.words.push_str(&closed.words);
                    // A parent has its children's words, too: kept at each depth they would
                    // multiply.
                    if !READ.contains(&closed.name.as_str()) {
                        closed.words = String::new();
                    }
                    parent.children.push(closed);
                }
                None => return Ok(closed),
            }
        }
    }

    fn begin(start: &BytesStart<'_>, reader: &NsReader<&[u8]>) -> Result<Self, Reason> {
        let (space, name) = reader.resolver().resolve_element(start.name());
        let space = match space {
            ResolveResult::Bound(space) => Space::named(space.0),
            _ => Space::Other,
        };
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.or(Err(MALFORMED))?;
            let value = quick_xml::escape::unescape(&attribute.value).or(Err(MALFORMED))?;
            attributes.push((attribute.key.0.to_owned(), value.into_owned()));
        }
        Ok(Self {
            name: name.as_ref().to_owned(),
            space,
            attributes,
            ..Self::default()
        })
    }

    pub(super) fn is(&self, name: &str, space: Space) -> bool {
        self.name == name && self.space == space
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The first child of a name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The first element of a name at any depth below.
    pub(super) fn below(&self, name: &str) -> Option<&Self> {
        let mut children = self.children.iter();
        self.child(name)
            .or_else(|| children.find_map(|child| child.below(name)))
    }
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), Reason> {
    let element = open.last_mut().ok_or(MALFORMED)?;
    element.text.push_str(text);
    element.words.push_str(text);
    Ok(())
}
