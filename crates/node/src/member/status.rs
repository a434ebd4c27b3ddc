//! What `ringway status` shows.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_overlay::{Chord, RingKey};
use ringway_transport::quic::QuicEndpoint;
use ringway_transport::{CounterSnapshot, Protocol};

use super::ring::{position, since};
use super::runtime::Runtime;
use crate::clock::unix_seconds;
use crate::control::{LinkStatus, RouterRef, Status, TransportStatus};
use crate::limits::STATEMENT_BEHIND;
use crate::renewal::warned_from;

impl Runtime {
    pub(super) fn status(&self, now: Instant) -> Status {
        let own = &self.membership.certificate;
        let chord = self.chord.as_ref();
        let reference = |key: &RingKey| self.router_ref(key);
        let parents: Vec<RouterRef> = match chord {
            Some(_) => Vec::new(),
            None => {
                let keys = self
                    .chosen_parents()
                    .into_iter()
                    .filter_map(|m| self.directory.cached(&m)?.ring_key());
                keys.map(|key| reference(&key)).collect()
            }
        };
        Status {
            member: own.member().to_string(),
            name: own.name().to_string(),
            role: own.role().as_str().to_owned(),
            ring: self.membership.domain.clone(),
            statement: self.directory.statement().number(),
            statement_in_dns: self.statement_in_dns(),
            serial: own.serial(),
            expires: own.not_after(),
            expires_soon: unix_seconds() >= warned_from(own),
            not_renewed: self.directory.not_renewed(),
            pid: std::process::id(),
            uptime_s: since(now, self.started).as_secs_f64(),
            state: match self.convicted {
                true => "convicted".to_owned(),
                false => position(chord, !parents.is_empty()).to_owned(),
            },
            ring_key: own.ring_key().map(|key| key.to_string()),
            predecessor: chord.and_then(Chord::predecessor).as_ref().map(reference),
            successors: chord
                .map(|c| c.successors().iter().map(reference).collect())
                .unwrap_or_default(),
            parents,
            successor_list_length: self.membership.statement.successors(),
            addresses: self
                .network
                .addresses()
                .iter()
                .map(|d| d.address.to_string())
                .collect(),
            links: self.link_statuses(now),
            transports: transports(self.network.counters(), self.network.quic()),
            counters: self.all_counters(),
            // The member's task does not know the transfers.
            caps: Vec::new(),
        }
    }

    fn statement_in_dns(&self) -> Option<u64> {
        let (lasts, gap) = self.directory.gap()?;
        let newest = || self.directory.statement().number();
        (lasts >= STATEMENT_BEHIND).then(|| gap.in_dns.unwrap_or_else(newest))
    }

    fn router_ref(&self, key: &RingKey) -> RouterRef {
        let name = self
            .directory
            .cached_router(key)
            .map(|certificate| certificate.name().to_string());
        let ring_key = key.to_string();
        RouterRef { ring_key, name }
    }

    fn link_statuses(&self, now: Instant) -> Vec<LinkStatus> {
        let status = |(member, peer): (&ringway_transport::MemberId, &crate::link::Peer)| {
            let certificate = self.directory.cached(member);
            let validated = self.validator.usable(now, member);
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
                via: peer.path().and_then(|path| self.directory.relay_name(path)),
                validated: validated
                    .iter()
                    .map(|(d, _)| d.address.to_string())
                    .collect(),
                rtt_ms: peer.rtt().map(|rtt| rtt.as_secs_f64() * 1e3),
                idle_s: since(now, peer.last_heard()).as_secs_f64(),
            }
        };
        self.links.up().map(status).collect()
    }

    fn all_counters(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = self
            .counters
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect();
        let links = self.links.counters();
        let mut add = |name: &str, count: u64| {
            all.insert(name.to_owned(), count);
        };
        add("link_handshakes", links.handshakes);
        add("link_rekeys", links.rekeys);
        add("link_handshakes_refused", links.handshakes_refused);
        add("link_handshakes_read", links.handshakes_read);
        add("link_handshakes_too_many", links.handshakes_too_many);
        add("link_handshakes_replayed", links.handshakes_replayed);
        add("link_handshakes_foreign", links.handshakes_foreign);
        add("link_handshakes_earlier", links.handshakes_earlier);
        add("link_cookies_sent", links.cookies_sent);
        add("link_packets_malformed", links.packets_malformed);
        add("link_packets_rejected", links.packets_rejected);
        add(
            "link_packets_unknown_session",
            links.packets_unknown_session,
        );
        add("link_messages_sent", links.messages_sent);
        add("link_packets_sent", links.packets_sent);
        add("link_dropped_no_link", links.dropped_no_link);
        add("link_dropped_queue_full", links.dropped_queue_full);
        add("link_dropped_too_long", links.dropped_too_long);
        add("link_dropped_output_full", links.dropped_output_full);
        add("link_path_changes", links.path_changes);
        for (reason, count) in self.network.dropped.by_reason() {
            add(reason, count);
        }
        let kept = u64::try_from(self.whereabouts.kept()).unwrap_or(u64::MAX);
        add("leaves_kept", kept);
        add("quic_connections_refused", self.network.quic().refused());
        if let Some(chord) = &self.chord {
            let overlay = chord.counters();
            add("overlay_sent", self.joining.sent);
            add("overlay_received", self.joining.received);
            add("overlay_started_over", overlay.started_over);
            add("overlay_unsolicited", overlay.unsolicited);
            add("overlay_malformed", overlay.malformed);
            add("overlay_rate_limited", overlay.rate_limited);
            add("overlay_repeated", overlay.repeated);
            add("overlay_unanswered", overlay.unanswered);
            add("overlay_routed_on", overlay.routed_on);
            add("overlay_routed_dropped", overlay.routed_dropped);
            add("overlay_routed_unknown", overlay.routed_unknown);
        }
        all
    }
}

/// Each transport with its messages; at `quic` also what its streams have carried, which it does
/// where it carries no messages, too.
fn transports(
    counted: impl Iterator<Item = (Protocol, CounterSnapshot)>,
    quic: &QuicEndpoint,
) -> Vec<TransportStatus> {
    let mut all: Vec<TransportStatus> = counted.map(transport_status).collect();
    let name = Protocol::Quic.to_string();
    if !all.iter().any(|transport| transport.protocol == name) {
        all.push(transport_status((
            Protocol::Quic,
            CounterSnapshot::default(),
        )));
    }
    let streams = quic.streams();
    for transport in all.iter_mut().filter(|t| t.protocol == name) {
        transport.stream_sent_bytes = streams.sent_bytes.get();
        transport.stream_received_bytes = streams.received_bytes.get();
    }
    all
}

fn transport_status((protocol, counted): (Protocol, CounterSnapshot)) -> TransportStatus {
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
