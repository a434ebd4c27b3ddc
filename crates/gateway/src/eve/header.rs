//! What all events have: time, ends, sensor, and names of the application's protocol.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::community::community_id;
use crate::classify::{Details, UNKNOWN};

/// Who writes, and by which interface the packet came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensor {
    /// The sensor's name: this machine's unless another one is given.
    pub host: Option<Arc<str>>,
    /// The interface by which the packet came that led to the event.
    pub in_iface: Option<Arc<str>>,
}

/// What stands in front of what is a kind's own.
#[derive(Debug, Serialize)]
pub(super) struct Common<'a> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_iface: Option<&'a str>,
    event_type: &'static str,
    #[serde(flatten)]
    ends: Option<Ends<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Ends<'a> {
    src_ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    dest_ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    dest_port: Option<u16>,
    proto: String,
    ip_v: u8,
    app_proto: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    community_id: Option<String>,
}

/// The flow that an event is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) flow_id: u64,
    /// The protocol's number (IANA).
    pub(super) protocol: u8,
    /// The side that opened the flow; of a file the one that sends it.
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) app: &'a str,
}

impl<'a> Common<'a> {
    /// Of an event about a flow, or about none.
    pub(super) fn new(
        at: Duration,
        event_type: &'static str,
        sensor: &'a Sensor,
        subject: Option<Subject<'a>>,
    ) -> Self {
        Self {
            timestamp: timestamp(at),
            flow_id: subject.map(|subject| subject.flow_id),
            in_iface: sensor.in_iface.as_deref(),
            event_type,
            ends: subject.map(Ends::of),
            host: sensor.host.as_deref(),
        }
    }
}

impl<'a> Ends<'a> {
    fn of(subject: Subject<'a>) -> Self {
        let Subject {
            protocol,
            source,
            destination,
            app,
            ..
        } = subject;
        // Of a protocol without ports both are 0.
        let ports = (source.port(), destination.port()) != (0, 0);
        Self {
            src_ip: source.ip(),
            src_port: ports.then(|| source.port()),
            dest_ip: destination.ip(),
            dest_port: ports.then(|| destination.port()),
            proto: protocol_name(protocol),
            ip_v: if source.is_ipv4() { 4 } else { 6 },
            app_proto: app_proto(app),
            community_id: community_id(protocol, source, destination),
        }
    }
}

/// A protocol as Suricata calls it: by its name, or by its number in three digits.
fn protocol_name(protocol: u8) -> String {
    let name = match protocol {
        1 => "ICMP",
        2 => "IGMP",
        6 => "TCP",
        17 => "UDP",
        47 => "GRE",
        50 => "ESP",
        51 => "AH",
        58 => "IPv6-ICMP",
        132 => "SCTP",
        other => return format!("{other:03}"),
    };
    name.to_owned()
}

/// The application as Suricata calls it, where it calls it otherwise: what it knows no name for
/// has its detection failed there. Others keep the name that policies have.
fn app_proto(app: &str) -> &str {
    match app {
        UNKNOWN | "" => "failed",
        other => other,
    }
}

/// The time in UTC, as Suricata writes it; one that no calendar has is written as the last.
pub(super) fn timestamp(at: Duration) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    let stamp = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    stamp.strftime("%Y-%m-%dT%H:%M:%S%.6f+0000").to_string()
}

/// What a flow asked for by name, in the objects of its protocol.
#[derive(Debug, Default, Serialize)]
pub(super) struct Names<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<Http<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Sni<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quic: Option<Sni<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<Dns<'a>>,
}

#[derive(Debug, Serialize)]
struct Http<'a> {
    hostname: &'a str,
}

#[derive(Debug, Serialize)]
struct Sni<'a> {
    sni: &'a str,
}

/// In the form of version 3.
#[derive(Debug, Serialize)]
struct Dns<'a> {
    version: u8,
    #[serde(rename = "type")]
    kind: &'static str,
    queries: [Query<'a>; 1],
}

#[derive(Debug, Serialize)]
struct Query<'a> {
    rrname: &'a str,
}

impl<'a> Names<'a> {
    /// The names of a flow of this application.
    pub(super) fn of(app: &str, details: &'a Details) -> Self {
        let sni = || details.sni.as_deref().map(|sni| Sni { sni });
        let quic = app == "quic";
        let query = details.query.as_deref();
        Self {
            http: details.host.as_deref().map(|hostname| Http { hostname }),
            tls: sni().filter(|_| !quic),
            quic: sni().filter(|_| quic),
            dns: query.map(|rrname| Dns {
                version: 3,
                kind: "request",
                queries: [Query { rrname }],
            }),
        }
    }

    /// The kind that reports them by themselves.
    pub(super) fn kind(&self) -> Option<super::EveKind> {
        use super::EveKind::{Dns, Http, Quic, Tls};
        let there = [
            (self.http.is_some(), Http),
            (self.tls.is_some(), Tls),
            (self.quic.is_some(), Quic),
            (self.dns.is_some(), Dns),
        ];
        let mut kinds = there
            .into_iter()
            .filter_map(|(there, kind)| there.then_some(kind));
        kinds.next()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{protocol_name, timestamp};

    #[test]
    fn times_and_protocols_are_written_as_by_suricata() {
        let at = Duration::from_micros(1_795_982_400_000_042);
        assert_eq!(timestamp(at), "2026-11-29T20:00:00.000042+0000");
        assert_eq!(timestamp(Duration::MAX).len(), timestamp(at).len());
        let names = [6, 58, 89].map(protocol_name);
        assert_eq!(names, ["TCP", "IPv6-ICMP", "089"]);
    }
}
