//! Signatures: what a file of them may say, and what is wrong with one that cannot be used.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Spanned;

use super::message::Check;
use super::{BY_SHAPE_ALONE, Confidence, checks};
use crate::limits::{
    MAX_DETAIL, MAX_EXPRESSIONS, MAX_NAMES, MAX_PATTERN, MAX_PATTERNS, MAX_SCAN,
    MAX_SIGNATURE_FILE, MAX_SIGNATURES,
};
use crate::lines::line_of;
use crate::packet::L4;
use crate::triage::Expression;
use crate::wording;

const BUILT_IN: [&str; 14] = [
    include_str!("../../signatures/peer_to_peer.toml"),
    include_str!("../../signatures/messengers.toml"),
    include_str!("../../signatures/private.toml"),
    include_str!("../../signatures/tunnels.toml"),
    include_str!("../../signatures/remote.toml"),
    include_str!("../../signatures/calls.toml"),
    include_str!("../../signatures/network.toml"),
    include_str!("../../signatures/mail.toml"),
    include_str!("../../signatures/databases.toml"),
    include_str!("../../signatures/things.toml"),
    include_str!("../../signatures/games.toml"),
    include_str!("../../signatures/services.toml"),
    include_str!("../../signatures/names.toml"),
    include_str!("../../signatures/web.toml"),
];

/// Why a signature file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SignatureError {
    /// Line of the file, from 1; 0 where the fault is in no single line.
    pub line: usize,
    /// What is wrong and what is expected.
    pub reason: String,
}

/// Where patterns and checks apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anchor {
    /// At the beginning of a direction's stream, or of a datagram. Midway through a connection: of
    /// any segment.
    #[default]
    Start,
    /// At the beginning of any inspected segment or datagram.
    Packet,
    /// At any position.
    Anywhere,
}

/// Who sends the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sender {
    /// Either side.
    #[default]
    Any,
    /// The side that opened the flow.
    Client,
    /// The server.
    Server,
}

/// Bytes to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes between the anchor and the pattern; without meaning where the anchor is
    /// [`Anchor::Anywhere`].
    pub at: usize,
}

/// One signature.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name, as evidence shows it.
    pub name: String,
    /// The application it finds.
    pub application: String,
    /// The transport. Of no meaning for a signature of names, whose transport is that of what it
    /// refines.
    pub l4: L4,
    /// Ports that are usual; on others the confidence is one step lower. Empty: no port is usual.
    pub ports: Vec<u16>,
    /// Ports without which the signature does not apply. Empty: it applies on all.
    pub only_ports: Vec<u16>,
    /// Who sends the message.
    pub direction: Sender,
    /// The highest confidence it gives.
    pub confidence: Confidence,
    /// Where patterns and check apply.
    pub anchor: Anchor,
    /// Applications that this one is a special form of.
    pub refines: Vec<String>,
    /// Every pattern must be there, not only one.
    pub all: bool,
    /// What to find. Without patterns the check sees every message.
    pub patterns: Vec<Pattern>,
    /// Hosts, with all below them, that a message of a refined application names. In lower case.
    pub hosts: Vec<String>,
    /// Application protocols (RFC 7301) that a ClientHello of a refined application offers.
    pub alpn: Vec<String>,
    /// What each of its messages begins with, one of these; for the kernel, in place of the
    /// patterns.
    pub(crate) opening: Vec<Expression>,
    /// What the head of each of its messages has, one of these.
    pub(crate) needs: Vec<Expression>,
    /// Openings by which the kernel may take a flow for this application.
    pub(crate) known: Vec<Expression>,
    /// What those of its messages begin with that contain names; `None`: all may.
    pub(crate) naming: Option<Vec<Expression>>,
    /// Texts behind which a head names a host, on the same line, and it names nothing else.
    pub(crate) name_after: Vec<Expression>,
    pub(super) check: Option<Check>,
    /// Later messages do not matter to it.
    pub(super) at_once: bool,
}

impl Signature {
    /// Names decide, in messages that other signatures have confirmed.
    pub(crate) fn is_by_name(&self) -> bool {
        !self.hosts.is_empty() || !self.alpn.is_empty()
    }
}

/// Signatures that are used together.
#[derive(Clone, Debug, Default)]
pub struct SignatureSet {
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureFile {
    #[serde(default)]
    signature: Vec<Spanned<SignatureEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureEntry {
    name: String,
    application: String,
    l4: Option<L4>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    only_ports: Vec<u16>,
    #[serde(default)]
    direction: Sender,
    confidence: Confidence,
    #[serde(default)]
    anchor: Anchor,
    #[serde(default)]
    refines: Vec<String>,
    #[serde(default, rename = "match")]
    matching: Matching,
    check: Option<String>,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    alpn: Vec<String>,
    #[serde(default)]
    opening: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    known: Vec<String>,
    naming: Option<Vec<String>>,
    #[serde(default)]
    name_after: Vec<String>,
    #[serde(default)]
    pattern: Vec<PatternEntry>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Matching {
    #[default]
    All,
    Any,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternEntry {
    text: Option<String>,
    hex: Option<String>,
    #[serde(default)]
    at: usize,
}

impl SignatureSet {
    /// The signatures that come with the program.
    #[must_use]
    pub fn built_in() -> Self {
        let mut set = Self::default();
        for text in BUILT_IN {
            // The files are part of the program; a test parses them.
            if let Ok(part) = Self::parse(text) {
                set.extend(part);
            }
        }
        set
    }

    /// Reads a signature file.
    ///
    /// # Errors
    /// The text is no TOML, or an entry is incomplete, contradicts itself, names an unknown check
    /// or passes a limit.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        // Before TOML is parsed, which allocates by the text's length.
        if text.len() > MAX_SIGNATURE_FILE {
            return Err(fault(
                0,
                format!("the file is larger than {MAX_SIGNATURE_FILE} bytes"),
            ));
        }
        let file: SignatureFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            fault(line, wording::of_reader(error.message()))
        })?;
        if file.signature.len() > MAX_SIGNATURES {
            return Err(fault(
                0,
                format!("the file has more than {MAX_SIGNATURES} signatures"),
            ));
        }
        let mut set = Self::default();
        for entry in file.signature {
            let line = line_of(text, entry.span().start);
            let signature = entry
                .into_inner()
                .resolve()
                .map_err(|reason| fault(line, reason))?;
            if set
                .signatures
                .iter()
                .any(|other| other.name == signature.name)
            {
                return Err(fault(
                    line,
                    format!("there are two signatures named {}", signature.name),
                ));
            }
            set.signatures.push(signature);
        }
        Ok(set)
    }

    /// Adds another set; of signatures with the same name the added one stays.
    pub fn extend(&mut self, other: Self) {
        self.signatures.retain(|mine| {
            other
                .signatures
                .iter()
                .all(|theirs| theirs.name != mine.name)
        });
        self.signatures.extend(other.signatures);
    }

    /// The signatures in their order.
    #[must_use]
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// All applications that a flow may be: those of the signatures, and those that only a flow's
    /// shape tells.
    #[must_use]
    pub fn applications(&self) -> BTreeSet<String> {
        let signatures = self.signatures.iter();
        signatures
            .map(|signature| signature.application.clone())
            .chain(BY_SHAPE_ALONE.map(str::to_owned))
            .collect()
    }
}

impl SignatureEntry {
    /// What is wrong with the entry as a whole.
    fn fault(&self) -> Option<String> {
        let matches = !self.pattern.is_empty() || self.check.is_some();
        let named = !self.hosts.is_empty() || !self.alpn.is_empty();
        let expected = [&self.opening, &self.needs, &self.known, &self.name_after];
        let expects = self.naming.is_some() || expected.iter().any(|list| !list.is_empty());
        let anywhere = self.anchor == Anchor::Anywhere;
        Some(match (matches, named) {
            (false, false) => "has neither a pattern nor a check nor names".to_owned(),
            (true, true) => {
                "has both names and a pattern or check: make two signatures of it".to_owned()
            }
            (true, false) if self.l4.is_none() => "has no l4: tcp or udp".to_owned(),
            (true, false) if self.pattern.is_empty() && self.anchor == Anchor::Anywhere => {
                "has no pattern, so its anchor must be start or packet".to_owned()
            }
            (true, false) if self.pattern.len() > MAX_PATTERNS => {
                format!("has more than {MAX_PATTERNS} patterns")
            }
            (true, false) if anywhere && !(self.opening.is_empty() && self.needs.is_empty()) => {
                "may lie anywhere, so its messages have neither opening nor needs".to_owned()
            }
            (true, false) if self.pattern.is_empty() && self.opening.is_empty() && !self.needs.is_empty() => {
                "has needs, so it must have a pattern or an opening".to_owned()
            }
            (false, true) if expects => {
                "has names, so its messages are those of what it refines: opening, needs, known, naming and name_after \
                 belong there"
                    .to_owned()
            }
            (false, true) if self.refines.is_empty() => {
                "has names, so it must say what it refines".to_owned()
            }
            (false, true) if self.hosts.len().saturating_add(self.alpn.len()) > MAX_NAMES => {
                format!("has more than {MAX_NAMES} names")
            }
            (false, true) => {
                let wrong = self.hosts.iter().find(|host| !is_host(host))?;
                format!("names no host: {wrong}")
            }
            _ => return None,
        })
    }

    fn resolve(mut self) -> Result<Signature, String> {
        if let Some(fault) = self.fault() {
            return Err(format!("signature {} {fault}", self.name));
        }
        // Names of packets are compared in lower case.
        for host in &mut self.hosts {
            host.make_ascii_lowercase();
        }
        let name = self.name;
        let at = |reason| format!("signature {name}: {reason}");
        let opening = expressions(&self.opening, Expression::parse).map_err(at)?;
        let needs = expressions(&self.needs, Expression::text).map_err(at)?;
        let known = expressions(&self.known, Expression::parse).map_err(at)?;
        let naming = self
            .naming
            .map(|naming| expressions(&naming, Expression::parse));
        let naming = naming.transpose().map_err(at)?;
        let name_after = expressions(&self.name_after, Expression::text).map_err(at)?;
        // Where nothing later can fit, flows of the refined application need not stay open.
        let at_once = match &self.check {
            Some(check) => checks::decides_at_once(check),
            None => !self.hosts.is_empty() || !self.alpn.is_empty(),
        };
        let check = match self.check {
            Some(check) => Some(
                checks::by_name(&check)
                    .ok_or_else(|| format!("signature {name} names no known check: {check}"))?,
            ),
            None => None,
        };
        let patterns: Result<Vec<Pattern>, String> = self
            .pattern
            .into_iter()
            .map(PatternEntry::resolve)
            .collect();
        Ok(Signature {
            patterns: patterns.map_err(|reason| format!("signature {name}: {reason}"))?,
            name,
            application: self.application,
            l4: self.l4.unwrap_or(L4::Tcp),
            ports: self.ports,
            only_ports: self.only_ports,
            direction: self.direction,
            confidence: self.confidence,
            anchor: self.anchor,
            refines: self.refines,
            all: matches!(self.matching, Matching::All),
            hosts: self.hosts,
            alpn: self.alpn,
            opening,
            needs,
            known,
            naming,
            name_after,
            check,
            at_once,
        })
    }
}

fn expressions(
    texts: &[String],
    parse: fn(&str) -> Result<Expression, String>,
) -> Result<Vec<Expression>, String> {
    if texts.len() > MAX_EXPRESSIONS {
        return Err(format!("a list has more than {MAX_EXPRESSIONS} entries"));
    }
    texts.iter().map(|text| parse(text)).collect()
}

impl PatternEntry {
    fn resolve(self) -> Result<Pattern, String> {
        let bytes = match (self.text, self.hex) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(hex)) => from_hex(&hex)?,
            _ => return Err("a pattern needs either text or hex".to_owned()),
        };
        if bytes.is_empty() || bytes.len() > MAX_PATTERN {
            return Err(format!("a pattern must have 1 to {MAX_PATTERN} bytes"));
        }
        if self.at.saturating_add(bytes.len()) > MAX_SCAN {
            return Err(format!(
                "a pattern must end within the first {MAX_SCAN} bytes"
            ));
        }
        Ok(Pattern { bytes, at: self.at })
    }
}

/// Labels with single dots between them, at most as long as a record holds.
fn is_host(host: &str) -> bool {
    host.len() <= MAX_DETAIL
        && host
            .split('.')
            .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_graphic()))
}

fn from_hex(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = hex
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .filter(|pair| pair.len() == 2)
        })
        .map(|pair| pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    bytes.ok_or_else(|| format!("not hexadecimal bytes: {hex}"))
}

fn fault(line: usize, reason: String) -> SignatureError {
    SignatureError { line, reason }
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, SignatureSet};

    #[test]
    fn built_in_signatures_are_valid_and_distinct() {
        let mut count = 0;
        for text in BUILT_IN {
            count += SignatureSet::parse(text).unwrap().signatures().len();
        }
        assert_eq!(SignatureSet::built_in().signatures().len(), count);
        assert!(count >= 20);
    }

    #[test]
    fn faults_name_line_and_reason() {
        let cases = [
            ("[[signature]]\nname = \"a\"\n", 1, "is missing"),
            ("\n[[signature]]\nname = 3\n", 3, "string"),
            (
                entry("check = \"no.such\"").as_str(),
                2,
                "no known check: no.such",
            ),
            (entry("").as_str(), 2, "neither a pattern nor a check"),
            (
                entry("hosts = [\"a.example\"]").as_str(),
                2,
                "must say what it refines",
            ),
            (
                entry("refines = [\"tls\"]\nhosts = [\"a..example\"]").as_str(),
                2,
                "names no host: a..example",
            ),
            (
                entry("refines = [\"tls\"]\nhosts = [\"a.example\"]\ncheck = \"tls.record\"")
                    .as_str(),
                2,
                "make two signatures",
            ),
            (
                entry("[[signature.pattern]]\nhex = \"1x\"").as_str(),
                2,
                "not hexadecimal",
            ),
            (
                entry("[[signature.pattern]]\ntext = \"\"").as_str(),
                2,
                "1 to",
            ),
            (entry("colour = \"red\"").as_str(), 7, "there is no key"),
        ]
        .map(|(text, line, reason)| (text.to_owned(), line, reason));
        for (text, line, reason) in cases {
            let error = SignatureSet::parse(&text).unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }

    fn entry(more: &str) -> String {
        format!(
            "# mine\n[[signature]]\nname = \"a\"\napplication = \"a\"\nl4 = \"tcp\"\nconfidence = \"guess\"\n{more}\n"
        )
    }
}
