//! What `ringway status` shows: the core's part here, the rest by each service.

use std::collections::BTreeMap;

use ringway_transport::quic::QuicEndpoint;
use ringway_transport::{CounterSnapshot, MemberId, Protocol};
use tokio::sync::oneshot;

use super::core::{Core, since};
use super::handle::MemberHandle;
use super::services::Services;
use crate::clock::unix_seconds;
use crate::control::{LinkStatus, Status, TransportStatus};
use crate::limits::STATEMENT_BEHIND;
use crate::link::{LinkVersion, Peer};
use crate::renewal::warned_from;
use crate::versions::RELEASE;

/// The member's view of itself is asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) reply: oneshot::Sender<Box<Status>>,
}

impl MemberHandle {
    /// What the member sees, or none when it is stopping.
    pub(crate) async fn status(&self) -> Option<Status> {
        self.ask(|reply| Wanted { reply })
            .await
            .map(|status| *status)
    }
}

/// What the member sees now.
pub(super) fn status(core: &Core, services: &Services) -> Status {
    let mut status = of_core(core);
    services.report(core, &mut status);
    status.counters = counters(core, services);
    status
}

/// What the services have no part in. How far the member is stays at `joining` where no service
/// knows better.
fn of_core(core: &Core) -> Status {
    let own = &core.membership.certificate;
    let addresses = core.network.addresses();
    Status {
        member: own.member().to_string(),
        name: own.name().to_string(),
        role: own.role().as_str().to_owned(),
        ring: core.membership.domain.clone(),
        statement: core.directory.statement().number(),
        statement_in_dns: statement_in_dns(core),
        serial: own.serial(),
        expires: own.not_after(),
        expires_soon: unix_seconds() >= warned_from(own),
        not_renewed: core.directory.not_renewed(),
        release: RELEASE.to_owned(),
        pid: std::process::id(),
        uptime_s: core.uptime().as_secs_f64(),
        state: "joining".to_owned(),
        ring_key: own.ring_key().map(|key| key.to_string()),
        predecessor: None,
        successors: Vec::new(),
        parents: Vec::new(),
        successor_list_length: core.membership.statement.successors(),
        addresses: addresses.iter().map(|d| d.address.to_string()).collect(),
        links: link_statuses(core),
        transports: transports(core.network.counters(), core.network.quic()),
        counters: BTreeMap::new(),
        // The member's task does not know the transfers.
        caps: Vec::new(),
        nat: None,
    }
}

fn statement_in_dns(core: &Core) -> Option<u64> {
    let (lasts, gap) = core.directory.gap()?;
    let newest = || core.directory.statement().number();
    (lasts >= STATEMENT_BEHIND).then(|| gap.in_dns.unwrap_or_else(newest))
}

fn link_statuses(core: &Core) -> Vec<LinkStatus> {
    let status = |(member, peer): (&MemberId, &Peer)| {
        let certificate = core.directory.cached(member);
        // The certificate may have ended while the link still does.
        let validated = core.validator.usable(core.now, member);
        let (window, in_flight) = peer.flow();
        LinkStatus {
            window,
            in_flight,
            member: member.to_string(),
            name: certificate
                .map_or_else(String::new, |certificate| certificate.name().to_string()),
            address: peer
                .path()
                .map_or_else(String::new, |path| path.to_string()),
            via: peer.path().and_then(|path| core.directory.relay_name(path)),
            validated: validated
                .iter()
                .map(|(d, _)| d.address.to_string())
                .collect(),
            rtt_ms: peer.rtt().map(|rtt| rtt.as_secs_f64() * 1e3),
            idle_s: since(core.now, peer.last_heard()).as_secs_f64(),
            link_version: core.links.versions().of(member).map(LinkVersion::number),
            release: None,
        }
    };
    core.links.up().map(status).collect()
}

fn counters(core: &Core, services: &Services) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    core.counted.show(&mut all);
    services.count(&mut all);
    of_links(core, &mut all);
    for (reason, count) in core.network.dropped.by_reason() {
        all.insert(reason.to_owned(), count);
    }
    let refused = core.network.quic().refused();
    all.insert("quic_connections_refused".to_owned(), refused);
    of_overlay(core, &mut all);
    all
}

fn of_links(core: &Core, all: &mut BTreeMap<String, u64>) {
    let links = core.links.counters();
    let counted = [
        ("link_handshakes", links.handshakes),
        ("link_rekeys", links.rekeys),
        ("link_handshakes_refused", links.handshakes_refused),
        ("link_handshakes_read", links.handshakes_read),
        ("link_handshakes_too_many", links.handshakes_too_many),
        ("link_handshakes_replayed", links.handshakes_replayed),
        ("link_handshakes_foreign", links.handshakes_foreign),
        (
            "link_handshakes_other_version",
            links.handshakes_other_version,
        ),
        ("link_cookies_sent", links.cookies_sent),
        ("link_packets_malformed", links.packets_malformed),
        ("link_packets_rejected", links.packets_rejected),
        (
            "link_packets_unknown_session",
            links.packets_unknown_session,
        ),
        ("link_messages_sent", links.messages_sent),
        ("link_packets_sent", links.packets_sent),
        ("link_dropped_no_link", links.dropped_no_link),
        ("link_dropped_queue_full", links.dropped_queue_full),
        ("link_dropped_too_long", links.dropped_too_long),
        ("link_dropped_output_full", links.dropped_output_full),
        ("link_path_changes", links.path_changes),
    ];
    all.extend(counted.map(|(name, count)| (name.to_owned(), count)));
}

fn of_overlay(core: &Core, all: &mut BTreeMap<String, u64>) {
    let Some(chord) = &core.chord else {
        return;
    };
    // Of a router all are shown, also those that are zero.
    let overlay = chord.counters();
    let counted = [
        ("overlay_sent", core.overlay.sent),
        ("overlay_received", core.overlay.received),
        ("overlay_started_over", overlay.started_over),
        ("overlay_unsolicited", overlay.unsolicited),
        ("overlay_malformed", overlay.malformed),
        ("overlay_rate_limited", overlay.rate_limited),
        ("overlay_repeated", overlay.repeated),
        ("overlay_unanswered", overlay.unanswered),
        ("overlay_routed_on", overlay.routed_on),
        ("overlay_routed_dropped", overlay.routed_dropped),
        ("overlay_routed_unknown", overlay.routed_unknown),
    ];
    all.extend(counted.map(|(name, count)| (name.to_owned(), count)));
}

/// Each transport with its messages; at `quic` also what its streams have carried, which it does
/// where it carries no messages, too.
fn transports(
    counted: impl Iterator<Item = (Protocol, CounterSnapshot)>,
    quic: &QuicEndpoint,
) -> Vec<TransportStatus> {
    let mut all: Vec<TransportStatus> = counted
        .map(|(protocol, counted)| transport_status(protocol, counted))
        .collect();
    let name = Protocol::Quic.to_string();
    if !all.iter().any(|transport| transport.protocol == name) {
        all.push(transport_status(Protocol::Quic, CounterSnapshot::default()));
    }
    let streams = quic.streams();
    for transport in all.iter_mut().filter(|t| t.protocol == name) {
        transport.stream_sent_bytes = streams.sent_bytes.get();
        transport.stream_received_bytes = streams.received_bytes.get();
    }
    all
}

fn transport_status(protocol: Protocol, counted: CounterSnapshot) -> TransportStatus {
    let dropped = counted.dropped();
    let dropped = dropped.filter(|(_, count)| *count > 0);
    TransportStatus {
        protocol: protocol.to_string(),
        sent: counted.sent,
        sent_bytes: counted.sent_bytes,
        received: counted.received,
        received_bytes: counted.received_bytes,
        stream_sent_bytes: 0,
        stream_received_bytes: 0,
        probes_refused: counted.probes_refused,
        dropped: dropped
            .map(|(reason, count)| (reason.to_owned(), count))
            .collect(),
    }
}
