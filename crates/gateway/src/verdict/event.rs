//! What is written down, in the shape of EVE (Suricata's event format), which collectors of logs
//! know.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;

use super::Mode;
use crate::classify::Confidence;
use crate::flow::Flow;
use crate::packet::L4;
use crate::policy::Action;

/// Name and version of the event's form.
pub(super) const SCHEMA: &str = "ringway.event/1";

/// Why something is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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
}

/// One event. Serialises to one EVE object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The time since the Unix epoch.
    #[serde(skip)]
    pub at: Duration,
    /// `ringway.event/1`.
    pub schema: &'static str,
    /// The same in UTC: `2026-11-23T06:30:00.000000Z`.
    pub timestamp: String,
    /// The flow's number in this run of the gateway.
    pub flow_id: u64,
    /// Why it is written down.
    #[serde(rename = "event_type")]
    pub kind: EventKind,
    /// The side that opened the flow.
    pub src_ip: IpAddr,
    /// Its port.
    pub src_port: u16,
    /// The server.
    pub dest_ip: IpAddr,
    /// Its port.
    pub dest_port: u16,
    /// `TCP` or `UDP`.
    pub proto: &'static str,
    /// The application.
    pub app_proto: String,
    /// The decision.
    pub alert: Alert,
    /// Refused attempts that this reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fileinfo: Option<FileInfo>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
}

/// A file that went by, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Its media type, as announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mimetype: Option<String>,
    /// Bytes that went by; where none did, its length as announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// SHA-256 of a whole file, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The file itself was kept, under its hash.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
    /// What a scanner found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Bytes of it that had gone on to its receiver when something was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// its name, and `confidence` is `guess`. Left out where it is true.
    #[serde(skip_serializing_if = "std::clone::Clone::clone")]
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
            schema: SCHEMA,
            timestamp: timestamp(now),
            flow_id: ends.serial,
            kind,
            src_ip: ends.client.ip(),
            src_port: ends.client.port(),
            dest_ip: ends.server.ip(),
            dest_port: ends.server.port(),
            proto: match ends.l4 {
                L4::Tcp => "TCP",
                L4::Udp => "UDP",
            },
            app_proto: app.to_owned(),
            alert,
            attempts: None,
            fileinfo: None,
            message: None,
        }
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
        event.fileinfo = Some(FileInfo::default());
        event
    }
}

/// RFC 3339 with microseconds; a time that no calendar has is written as the last one.
fn timestamp(now: Duration) -> String {
    let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    let stamp = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    format!("{stamp:.6}")
}
