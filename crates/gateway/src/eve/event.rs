//! Events of the machine of flows: `alert`, `drop`, `fileinfo`, and the names of protocols.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::header::{Common, Names, Subject};
use super::{EveKind, SCHEMA};
use crate::classify::Confidence;
use crate::flow::Direction;
use crate::infohash::InfoHash;
use crate::packet::L4;
use crate::policy::Action;
use crate::verdict::{Content, DroppedPacket, Event, EventKind, FileInfo, Mode, QuotaInfo, Text};

/// The number of what generates these alerts. Suricata's own have others, so that no number of a
/// rule of ours is one of its.
const GENERATOR: u32 = 7_110;

/// Where the numbers of signatures begin: above all that are given out, and below 2^31.
const FIRST_SIGNATURE: u32 = 1 << 30;

/// The number of a rule as a signature: the same for the same name on every machine, from 2^30 to
/// below 2^31. Two names of a policy share one by chance once in some ten million pairs.
#[must_use]
pub fn signature_id(rule: &str) -> u32 {
    let hash = Sha256::digest(rule.as_bytes());
    let first = hash.iter().take(4);
    let number = first.fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    FIRST_SIGNATURE | (number & (FIRST_SIGNATURE - 1))
}

/// An event in its written form.
#[derive(Debug, Serialize)]
pub(crate) struct EventForm<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert: Option<Alert<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drop: Option<Dropped<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fileinfo: Option<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<[File<'a>; 1]>,
    #[serde(flatten)]
    names: Names<'a>,
    ringway: Ours<'a>,
}

#[derive(Debug, Serialize)]
struct Alert<'a> {
    action: &'static str,
    gid: u32,
    signature_id: u32,
    rev: u32,
    signature: &'a str,
    category: &'static str,
    severity: u8,
}

#[derive(Debug, Serialize)]
struct Dropped<'a> {
    #[serde(flatten)]
    packet: Option<&'a DroppedPacket>,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
    gaps: bool,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'a str>,
    stored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// What Suricata knows nothing of.
#[derive(Debug, Serialize)]
struct Ours<'a> {
    schema: &'static str,
    app: &'a str,
    confidence: Confidence,
    evidence: &'a str,
    rule: &'a str,
    action: &'static str,
    policy: Action,
    mode: Mode,
    packet: u64,
    /// Left out where it is true.
    #[serde(skip_serializing_if = "std::clone::Clone::clone")]
    answered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mimetype: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a QuotaInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    infohash: Option<InfoHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torrent: Option<&'a str>,
}

impl<'a> EventForm<'a> {
    /// The written form of an event.
    pub(crate) fn of(event: &'a Event) -> Self {
        let names = Names::of(&event.app, &event.names);
        let kind = Self::kind(event);
        let file = || event.fileinfo.as_ref().map(File::of);
        let opener = (event.src_ip, event.src_port).into();
        let other = (event.dest_ip, event.dest_port).into();
        // As Suricata has it: of a file that went by its sender is the source.
        let (source, destination) = if kind == EveKind::FileInfo && event.is_from_server() {
            (other, opener)
        } else {
            (opener, other)
        };
        let subject = Subject {
            flow_id: event.flow_id,
            protocol: match event.l4 {
                L4::Tcp => 6,
                L4::Udp => 17,
            },
            source,
            destination,
            app: &event.app,
        };
        let judged = matches!(kind, EveKind::Alert | EveKind::Drop);
        Self {
            common: Common::new(event.at, kind.name(), &event.sensor, Some(subject)),
            alert: judged.then(|| Alert::of(event)),
            drop: (kind == EveKind::Drop).then(|| Dropped::of(event)),
            fileinfo: file().filter(|_| kind == EveKind::FileInfo),
            // As Suricata has it: an alert about a file lists it.
            files: file().filter(|_| judged).map(|file| [file]),
            names,
            ringway: Ours::of(event),
        }
    }

    /// The kind by which an event is written. A file that went by whole is a `fileinfo`. One that
    /// was refused, stopped or found bad is an `alert`, and so is a message: a rule matched it.
    pub(crate) fn kind(event: &Event) -> EveKind {
        match event.kind {
            EventKind::Alert | EventKind::Message => EveKind::Alert,
            EventKind::Drop => EveKind::Drop,
            EventKind::FileInfo if event.is_whole_file() => EveKind::FileInfo,
            EventKind::FileInfo => EveKind::Alert,
            // Without a name there is no such event.
            EventKind::Names => Names::of(&event.app, &event.names)
                .kind()
                .unwrap_or(EveKind::Alert),
        }
    }
}

impl<'a> Alert<'a> {
    fn of(event: &'a Event) -> Self {
        let decision = &event.alert;
        let found = event
            .fileinfo
            .as_ref()
            .is_some_and(|info| info.found.is_some());
        let blocks = decision.action == "blocked" || decision.policy == Action::Block;
        // Categories and their priorities as Suricata's classification.config has them.
        let (category, severity) = match decision.policy {
            _ if found => ("A Network Trojan was detected", 1),
            _ if blocks => ("Potential Corporate Privacy Violation", 1),
            Action::Shape | Action::Scan => ("Potential Corporate Privacy Violation", 2),
            Action::Allow | Action::Audit | Action::Block => ("Misc activity", 3),
        };
        Self {
            action: decision.action,
            gid: GENERATOR,
            signature_id: signature_id(&decision.signature),
            rev: 1,
            signature: &decision.signature,
            category,
            severity,
        }
    }
}

impl<'a> Dropped<'a> {
    fn of(event: &'a Event) -> Self {
        let packet = event.dropped.as_deref();
        Self {
            packet,
            // A rule read the packet itself, or one like its flow was blocked.
            reason: if packet.is_some() {
                "rules"
            } else {
                "flow drop"
            },
        }
    }
}

impl<'a> File<'a> {
    fn of(info: &'a FileInfo) -> Self {
        Self {
            filename: info.filename.as_deref(),
            gaps: false,
            state: if info.whole { "CLOSED" } else { "TRUNCATED" },
            sha256: info.sha256.as_deref(),
            stored: info.stored,
            size: info.size,
        }
    }
}

impl<'a> Ours<'a> {
    fn of(event: &'a Event) -> Self {
        let decision = &event.alert;
        let file = event.fileinfo.as_ref();
        Self {
            schema: SCHEMA,
            app: &event.app,
            confidence: decision.confidence,
            evidence: &decision.evidence,
            rule: &decision.signature,
            action: decision.action,
            policy: decision.policy,
            mode: decision.mode,
            packet: decision.packet,
            answered: decision.answered,
            attempts: event.attempts,
            content: event.content(),
            delivered: file.and_then(|file| file.delivered),
            found: file.and_then(|file| file.found.as_deref()),
            mimetype: file.and_then(|file| file.mimetype.as_deref()),
            sender: file.and_then(|file| file.sender).map(side),
            message: event.message.as_ref(),
            member: event.names.member.as_deref(),
            quota: event.quota.as_deref(),
            infohash: event.names.infohash,
            torrent: event.torrent.as_deref(),
        }
    }
}

/// A side of a flow, as events call it.
fn side(direction: Direction) -> &'static str {
    match direction {
        Direction::FromClient => "client",
        Direction::FromServer => "server",
    }
}

#[cfg(test)]
mod tests {
    use super::signature_id;

    /// Numbers that tools remember: a change of the function would be a break.
    #[test]
    fn numbers_of_rules_stay_the_same() {
        assert_eq!(signature_id("no-torrents"), signature_id("no-torrents"));
        assert_ne!(signature_id("no-torrents"), signature_id("no-torrent"));
        for rule in ["", "no-torrents", "connection-cache", "a rule with words"] {
            assert!((1 << 30..1 << 31).contains(&signature_id(rule)));
        }
    }
}
