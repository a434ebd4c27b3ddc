//! What is written down of flows, files and messages. How it is written is a matter of
//! [`eve`](crate::eve).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Mode;
use crate::accounting::FlowAccount;
use crate::classify::{Confidence, Details};
use crate::eve::{EveKind, EventForm, Sensor};
use crate::flow::{Direction, Flow};
use crate::packet::{L4, Packet};
use crate::policy::{Action, Over, Per, Period, Policy};
use crate::quota::Passed;
use crate::reader::Reader;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A rule decided what happens to a flow.
    Alert,
    /// New connections were dropped because one like them had just been blocked. The first is
    /// reported at once, the others of ten seconds together: ports and flow are those of the
    /// latest, `attempts` says how many.
    Drop,
    /// A file went by, or was refused.
    FileInfo,
    /// A message went by, or was refused.
    Message,
    /// What a flow asked for by name became known.
    Names,
}

/// What happened to a file or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// It went on to its receiver.
    Delivered,
    /// It did not, from where it was judged on.
    Stopped,
    /// Its beginning had gone on to its receiver; `delivered` says how many bytes.
    Partly,
}

/// One event. Serialises to one EVE object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time since the Unix epoch.
    pub at: Duration,
    /// The flow's number, which no other flow of this machine has.
    pub flow_id: u64,
    /// What it is about.
    pub kind: EventKind,
    /// The side that opened the flow.
    pub src_ip: IpAddr,
    /// Its port.
    pub src_port: u16,
    /// The server.
    pub dest_ip: IpAddr,
    /// Its port.
    pub dest_port: u16,
    /// The transport.
    pub l4: L4,
    /// The application.
    pub app: String,
    /// Names that the flow contained.
    pub names: Details,
    /// What the torrent is called that it is about, if that was seen.
    pub torrent: Option<String>,
    /// The decision.
    pub alert: Alert,
    /// Refused attempts that this reports.
    pub attempts: Option<u64>,
    /// The file.
    pub fileinfo: Option<FileInfo>,
    /// The message.
    pub message: Option<Text>,
    /// The quota that was used up.
    pub quota: Option<Box<QuotaInfo>>,
    /// The packet that was dropped by itself.
    pub dropped: Option<Box<DroppedPacket>>,
    /// The number of the interface by which the packet came that led to it; 0: it is not known.
    pub came_by: u32,
    /// Who writes it.
    pub sensor: Sensor,
}

/// What the headers of a dropped packet said, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DroppedPacket {
    /// Bytes of the IP packet.
    len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tos: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipid: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hoplimit: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udplen: Option<u16>,
    #[serde(flatten)]
    tcp: Option<DroppedSegment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct DroppedSegment {
    tcpseq: u32,
    tcpack: u32,
    syn: bool,
    ack: bool,
    rst: bool,
    fin: bool,
}

impl DroppedPacket {
    /// What is known of this packet.
    pub(super) fn of(packet: &Packet<'_>) -> Self {
        let header = packet.ip_header;
        let byte = |at: usize| header.get(at).copied();
        let v4 = packet.source.is_ipv4();
        let udp_length = packet.segment.get(4..).map(Reader::new);
        Self {
            len: packet.ip_len,
            tos: byte(1).filter(|_| v4),
            ttl: byte(8).filter(|_| v4),
            ipid: (header.get(4..).map(Reader::new))
                .and_then(|mut reader| reader.be16())
                .filter(|_| v4),
            hoplimit: byte(7).filter(|_| !v4),
            udplen: udp_length
                .and_then(|mut reader| reader.be16())
                .filter(|_| packet.l4 == L4::Udp),
            tcp: packet.tcp.map(|tcp| DroppedSegment {
                tcpseq: tcp.sequence,
                tcpack: tcp.acknowledged,
                syn: tcp.syn,
                ack: tcp.ack,
                rst: tcp.rst,
                fin: tcp.fin,
            }),
        }
    }
}

/// A file that went by, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name.
    pub filename: Option<String>,
    /// Its media type, as announced.
    pub mimetype: Option<String>,
    /// Bytes that went by; where none did, its length as announced.
    pub size: Option<u64>,
    /// All of it went by.
    pub whole: bool,
    /// SHA-256 of a whole file, in hexadecimal digits.
    pub sha256: Option<String>,
    /// The file itself was kept, under its hash.
    pub stored: bool,
    /// What a scanner found.
    pub found: Option<String>,
    /// Bytes of it that had gone on to its receiver when something was found.
    pub delivered: Option<u64>,
    /// Who sends it, if it comes on this flow.
    pub sender: Option<Direction>,
}

/// A quota that was used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaInfo {
    /// Of what `of` is one.
    pub per: Per,
    /// The host's address, or the member's name.
    pub of: String,
    /// Bytes that it has used.
    pub used: u64,
    /// Bytes that the rule gives.
    pub quota: u64,
    /// In which time.
    pub period: Period,
    /// The class in which flows go on, or `block`.
    pub over: String,
    /// When the next period begins (RFC 3339).
    pub resets: String,
}

/// A message that went by, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Text {
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Its length in bytes.
    pub size: u64,
    /// Its text, if the rule says that texts are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The decision of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// `allowed` or `blocked`: what was done; while observing nothing is blocked.
    pub action: &'static str,
    /// Name of the rule.
    pub signature: String,
    /// The policy's decision.
    pub policy: Action,
    /// How sure the application is.
    pub confidence: Confidence,
    /// What the classifier saw.
    pub evidence: String,
    /// Number of the packet within the flow, from 1, at which it was decided.
    pub packet: u64,
    /// Both sides of the flow had spoken. Where one had not, anybody may have sent the packets in
    /// its name, and `confidence` is `guess`.
    pub answered: bool,
    /// Whether decisions are carried out.
    pub mode: Mode,
}

impl Alert {
    /// The same of a flow in which one side has not spoken.
    pub(super) fn unanswered(self) -> Self {
        Self {
            confidence: Confidence::Guess,
            answered: false,
            ..self
        }
    }
}

/// Who talks with whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) l4: L4,
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) serial: u64,
}

impl Ends {
    pub(super) fn of<T>(flow: &Flow<T>) -> Self {
        Self {
            l4: flow.l4,
            client: flow.client,
            server: flow.server,
            serial: flow.serial,
        }
    }
}

impl Event {
    pub(super) fn new(now: Duration, kind: EventKind, ends: Ends, app: &str, alert: Alert) -> Self {
        Self {
            at: now,
            flow_id: ends.serial,
            kind,
            src_ip: ends.client.ip(),
            src_port: ends.client.port(),
            dest_ip: ends.server.ip(),
            dest_port: ends.server.port(),
            l4: ends.l4,
            app: app.to_owned(),
            names: Details::default(),
            torrent: None,
            alert,
            attempts: None,
            fileinfo: None,
            message: None,
            quota: None,
            dropped: None,
            came_by: 0,
            sensor: Sensor::default(),
        }
    }

    /// A quota was used up with what this flow carried. The policy names the class above it.
    #[must_use]
    pub fn of_quota(
        now: Duration,
        passed: &Passed,
        flow: &FlowAccount,
        policy: &Policy,
        mode: Mode,
    ) -> Self {
        let (over, action) = match passed.quota.over {
            Over::Block => ("block".to_owned(), Action::Block),
            Over::Class(class) => {
                let class = policy.classes().get(class);
                (
                    class.map_or_else(String::new, |class| class.name.clone()),
                    Action::Shape,
                )
            }
        };
        let resets = i64::try_from(passed.resets.as_secs()).ok();
        let resets = resets.and_then(|at| jiff::Timestamp::from_second(at).ok());
        let quota = QuotaInfo {
            per: passed.quota.per,
            of: passed.subject.to_string(),
            used: passed.used,
            quota: passed.quota.bytes,
            period: passed.quota.period,
            over,
            resets: resets.map_or_else(String::new, |at| at.to_string()),
        };
        let alert = Alert {
            action: match (action, mode) {
                (Action::Block, Mode::Enforce) => "blocked",
                _ => "allowed",
            },
            signature: passed.rule.clone(),
            policy: action,
            confidence: flow.confidence.unwrap_or(Confidence::Guess),
            evidence: format!(
                "{} has used up its quota: {} of {} bytes a {}",
                quota.of,
                quota.used,
                quota.quota,
                quota.period.name()
            ),
            packet: flow.total().packets,
            answered: true,
            mode,
        };
        let ends = Ends {
            // Rules are about nothing else.
            l4: if flow.ends.protocol == 17 {
                L4::Udp
            } else {
                L4::Tcp
            },
            client: flow.ends.client,
            server: flow.ends.server,
            serial: flow.flow_id,
        };
        Self {
            names: flow.details.clone(),
            quota: Some(Box::new(quota)),
            ..Self::new(now, EventKind::Alert, ends, &flow.app, alert)
        }
    }

    /// The kind by which it is written.
    #[must_use]
    pub fn eve_kind(&self) -> EveKind {
        EventForm::kind(self)
    }

    /// It is about a file that the server sends.
    pub(crate) fn is_from_server(&self) -> bool {
        let file = self.fileinfo.as_ref();
        file.is_some_and(|file| file.sender == Some(Direction::FromServer))
    }

    /// It is about a file that went by whole.
    pub(crate) fn is_whole_file(&self) -> bool {
        self.fileinfo.as_ref().is_some_and(|info| info.whole)
    }

    /// What happened to the file or message.
    #[must_use]
    pub fn content(&self) -> Option<Content> {
        let delivered = match (&self.fileinfo, &self.message) {
            (None, None) => return None,
            (info, _) => info.as_ref().and_then(|info| info.delivered),
        };
        Some(match (self.alert.action, delivered) {
            ("blocked", None | Some(0)) => Content::Stopped,
            ("blocked", Some(_)) => Content::Partly,
            _ => Content::Delivered,
        })
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EventForm::of(self).serialize(serializer)
    }
}

#[cfg(test)]
impl Event {
    /// The event of some file.
    pub(crate) fn of_a_file() -> Self {
        let alert = Alert {
            action: "allowed",
            signature: "rule".to_owned(),
            policy: Action::Audit,
            confidence: Confidence::Certain,
            evidence: String::new(),
            packet: 1,
            answered: true,
            mode: Mode::Enforce,
        };
        let any = SocketAddr::from(([192, 0, 2, 1], 80));
        let ends = Ends {
            l4: L4::Tcp,
            client: any,
            server: any,
            serial: 0,
        };
        let mut event = Self::new(Duration::ZERO, EventKind::FileInfo, ends, "http", alert);
        event.fileinfo = Some(FileInfo {
            whole: true,
            ..FileInfo::default()
        });
        event
    }
}
