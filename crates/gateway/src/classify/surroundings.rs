//! What other flows show of a flow: who speaks what, whom a host contacts, what was announced.
//!
//! Encrypted peer-to-peer flows have no bytes to go by. They have a shape ([`Shape`]), and a host
//! that contacts a DHT, a tracker, or many peers at ports of their own choice. Both together make a
//! flow likely, never certain.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::endpoints::Endpoints;
use super::inspection::{Inspection, Verdict};
use super::message::Announced;
use super::opening::{Shape, TELLING};
use super::skype::Requests;
use super::{BITTORRENT, Confidence, I2P, PEER_TO_PEER, SHADOWSOCKS};
use crate::flow::Flow;
use crate::generations::Generations;
use crate::limits::{
    EXPECTED_FOR, FIRST_USER_PORT, HOST_EVIDENCE, MANY_PEERS, MANY_PORTS, MANY_REQUESTS,
    MAX_ANNOUNCED, MAX_ENDPOINTS, MAX_HOST_PEERS, MAX_HOSTS, MAX_MEMBERS,
};
use crate::packet::L4;

const EDONKEY: &str = "edonkey";
const SKYPE: &str = "skype";
/// Applications of a flow of which no more is known than that it is a call's.
const MEDIA: [&str; 3] = ["stun", "dtls", "rtp"];
/// Whose calls are STUN, DTLS and RTP between peers, from the port at which the caller speaks to
/// its relays.
const CALLS: [&str; 2] = ["telegram", "whatsapp"];

/// What is remembered of a host, and since when: at most [`HOST_EVIDENCE`].
#[derive(Clone, Debug, Default)]
struct Host {
    bittorrent: Option<Duration>,
    edonkey: Option<Duration>,
    i2p: Option<Duration>,
    /// Peers to which it opened flows that look encrypted. Who connects to it says nothing about
    /// it, and callers' ports are no ports of peers.
    peers: Vec<(SocketAddr, Duration)>,
}

/// Whether something was seen not too long before.
fn is_fresh(seen: Option<Duration>, now: Duration) -> bool {
    seen.is_some_and(|at| now <= at.saturating_add(HOST_EVIDENCE))
}

impl Host {
    fn has_many_peers(&self, now: Duration) -> bool {
        let fresh = self
            .peers
            .iter()
            .filter(|(_, seen)| is_fresh(Some(*seen), now));
        let mut ports: Vec<u16> = fresh.map(|(peer, _)| peer.port()).collect();
        let count = ports.len();
        ports.sort_unstable();
        ports.dedup();
        count >= MANY_PEERS && ports.len() >= MANY_PORTS
    }

    fn note_peer(&mut self, peer: SocketAddr, now: Duration) {
        self.peers.retain(|(_, seen)| is_fresh(Some(*seen), now));
        let room = self.peers.len() < MAX_HOST_PEERS;
        match self.peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, seen)) => *seen = now,
            None if room => self.peers.push((peer, now)),
            None => {}
        }
    }
}

/// A bounded memory of what was seen of endpoints and hosts. Clones are the same memory: who of
/// several queues gets a flow is chance, and its hosts' other flows may have come to another one.
#[derive(Clone, Debug, Default)]
pub struct Surroundings(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    endpoints: Endpoints,
    hosts: Generations<IpAddr, Host>,
    /// With the time when it was said last.
    announced: Generations<SocketAddr, (Duration, Announced)>,
    members: Generations<SocketAddr, String>,
    requests: Generations<SocketAddr, Requests>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            endpoints: Endpoints::default(),
            hosts: Generations::new(MAX_HOSTS),
            announced: Generations::new(MAX_ANNOUNCED),
            members: Generations::new(MAX_MEMBERS),
            requests: Generations::new(MAX_ENDPOINTS),
        }
    }
}

impl Surroundings {
    fn known(&self) -> MutexGuard<'_, Known> {
        // What a panic elsewhere leaves half noted is at worst a hint that is missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells at which endpoint a member of a ring listens; its Ringway flows then name it.
    pub fn know_member(&self, endpoint: SocketAddr, member: &str) {
        self.known().members.insert(endpoint, member.to_owned());
    }

    /// Takes in what a flow's latest packets showed, which is nothing of most. Call it after each
    /// inspected packet that goes on. `answered`: both sides take part; of what one side alone
    /// says nothing is believed, because anybody can say it in its name.
    pub fn note(
        &self,
        flow: &mut Flow<impl AsRef<Inspection> + AsMut<Inspection>>,
        answered: bool,
    ) {
        let announcements = flow.attachment.as_mut().take_announced();
        if let Some(identifier) = flow.attachment.as_mut().take_request() {
            // The other side need not answer: it is never more than a guess, about this one port.
            let now = flow.last_seen;
            let mut known = self.known();
            known.requests.entry(flow.client).note(identifier, now);
        }
        if !answered {
            return;
        }
        for announced in announcements {
            // No file is offered at a service's port: an announcement of one would have it taken
            // for a chat's.
            if announced.endpoint.port() >= FIRST_USER_PORT {
                let said = (flow.last_seen, announced);
                self.known().announced.insert(said.1.endpoint, said);
            }
        }
        match flow.attachment.as_ref().verdict() {
            Some(verdict) if verdict.confidence >= Confidence::Likely => {
                // Most flows are of no interest to others.
                let certain = verdict.confidence == Confidence::Certain;
                let speaks = PEER_TO_PEER
                    .into_iter()
                    .find(|name| certain && *name == verdict.application);
                let matters = speaks.is_some()
                    || is_call(flow.l4, &verdict.application)
                    || verdict.application == I2P
                    || verdict.details.member.is_some();
                if matters && flow.attachment.as_mut().publish() {
                    self.known().note_application(flow, speaks);
                }
            }
            _ => {
                if flow
                    .attachment
                    .as_mut()
                    .take_opened()
                    .is_some_and(is_key_exchange)
                {
                    self.known().note_peer(flow);
                }
            }
        }
    }

    /// The flow's own verdict, weighed with its surroundings.
    #[must_use]
    pub fn conclude(&self, flow: &Flow<impl AsRef<Inspection>>) -> Verdict {
        self.known().conclude(flow)
    }

    /// A conversation has named the server's end of this flow, not long before it began.
    pub(crate) fn names(&self, flow: &Flow<impl AsRef<Inspection>>) -> bool {
        self.known().announcement(flow).is_some()
    }
}

impl Known {
    fn note_application(
        &mut self,
        flow: &Flow<impl AsRef<Inspection>>,
        speaks: Option<&'static str>,
    ) {
        let Some(verdict) = flow.attachment.as_ref().verdict() else {
            return;
        };
        if let Some(member) = verdict.details.member.as_deref() {
            self.members.insert(flow.client, member.to_owned());
        }
        let now = flow.last_seen;
        if verdict.application == I2P {
            self.host(flow.client.ip()).i2p = Some(now);
        }
        if let Some(calls) = CALLS.into_iter().find(|name| *name == verdict.application)
            && is_call(flow.l4, calls)
        {
            self.endpoints.note(flow.client, calls, now);
            self.endpoints.note(flow.server, calls, now);
        }
        let Some(application) = speaks else { return };
        // Over UDP both ports are chosen to stay, over TCP the server's.
        self.endpoints.note(flow.server, application, now);
        if flow.l4 == L4::Udp {
            self.endpoints.note(flow.client, application, now);
        }
        // A tracker or a web server takes no part itself.
        let serves = ["tracker", "http", "web_socket"];
        let alike = !serves.iter().any(|word| verdict.evidence.contains(word));
        let sides = [Some(flow.client), alike.then_some(flow.server)];
        for side in sides.into_iter().flatten() {
            let host = self.host(side.ip());
            match application {
                BITTORRENT => host.bittorrent = Some(now),
                EDONKEY => host.edonkey = Some(now),
                _ => {}
            }
        }
    }

    fn note_peer(&mut self, flow: &Flow<impl AsRef<Inspection>>) {
        self.host(flow.client.ip())
            .note_peer(flow.server, flow.last_seen);
    }

    fn host(&mut self, address: IpAddr) -> &mut Host {
        self.hosts.entry(address)
    }

    fn conclude(&self, flow: &Flow<impl AsRef<Inspection>>) -> Verdict {
        let own = flow.attachment.as_ref().verdict();
        let mut verdict = match own {
            Some(verdict) if MEDIA.contains(&verdict.application.as_str()) => {
                self.call(flow, verdict)
            }
            Some(verdict) if verdict.confidence > Confidence::Guess => verdict.clone(),
            // Behaviour is no reason to overrule a signature that saw bytes which stand there
            // always.
            Some(verdict) => self
                .confirmed(flow, verdict)
                .or_else(|| self.announced(flow))
                .unwrap_or_else(|| {
                    if flow.attachment.as_ref().saw_pattern() {
                        verdict.clone()
                    } else {
                        self.by_shape(flow, Some(verdict))
                    }
                }),
            None => self
                .announced(flow)
                .unwrap_or_else(|| self.by_shape(flow, None)),
        };
        if verdict.application == super::RINGWAY && verdict.details.member.is_none() {
            // The other end is the gateway's own, or another member: the side that called comes
            // first.
            verdict.details.member = [flow.client, flow.server]
                .iter()
                .find_map(|side| self.members.get(side))
                .cloned();
        }
        verdict
    }

    /// A guess that one of its endpoints confirms by what it speaks elsewhere.
    fn confirmed(&self, flow: &Flow<impl AsRef<Inspection>>, verdict: &Verdict) -> Option<Verdict> {
        let application = PEER_TO_PEER
            .into_iter()
            .find(|name| *name == verdict.application)?;
        let endpoint = self.speaker(flow, application)?;
        let mut verdict = verdict.clone();
        verdict.confidence = Confidence::Likely;
        verdict.evidence = format!(
            "{}; {endpoint} speaks {application} in another flow",
            verdict.evidence
        );
        Some(verdict)
    }

    /// Whose call begins here, if one of its ends speaks to the relays of an application.
    fn call(&self, flow: &Flow<impl AsRef<Inspection>>, own: &Verdict) -> Verdict {
        let mut verdict = own.clone();
        for application in CALLS {
            if let Some(endpoint) = self.speaker(flow, application) {
                application.clone_into(&mut verdict.application);
                verdict.evidence = format!(
                    "{}; {endpoint} speaks {application} in another flow",
                    own.evidence
                );
            }
        }
        verdict
    }

    fn speaker(
        &self,
        flow: &Flow<impl AsRef<Inspection>>,
        application: &str,
    ) -> Option<SocketAddr> {
        [flow.client, flow.server]
            .into_iter()
            .find(|side| self.endpoints.get(side, flow.last_seen) == Some(application))
    }

    /// What a conversation announced of the server's end of this flow, not long before it began.
    fn announcement(&self, flow: &Flow<impl AsRef<Inspection>>) -> Option<&Announced> {
        let (said, announced) = self.announced.get(&flow.server)?;
        (flow.first_seen <= said.saturating_add(EXPECTED_FOR)).then_some(announced)
    }

    fn announced(&self, flow: &Flow<impl AsRef<Inspection>>) -> Option<Verdict> {
        let announced = self.announcement(flow)?;
        let evidence = format!("announced: {} was named by {}", flow.server, announced.by);
        Some(made(announced.application, Confidence::Likely, evidence))
    }

    /// What a flow without a name of its own looks like.
    fn by_shape(&self, flow: &Flow<impl AsRef<Inspection>>, own: Option<&Verdict>) -> Verdict {
        let shape = || flow.attachment.as_ref().shape();
        let shaped = match flow.l4 {
            L4::Tcp => shape().and_then(|shape| self.encrypted_stream(flow, shape)),
            // Few have such surroundings: the bytes are looked at last.
            L4::Udp => {
                let measured = || shape().is_some_and(|shape| shape.server >= TELLING);
                let encrypted = self.encrypted_datagrams(flow).filter(|_| measured());
                encrypted.or_else(|| self.one_of_many_requests(flow))
            }
        };
        match (shaped, own) {
            (Some(shaped), Some(own)) if shaped.confidence <= own.confidence => own.clone(),
            (Some(shaped), _) => shaped,
            (None, Some(own)) => own.clone(),
            (None, None) => Verdict::unknown(if flow.attachment.as_ref().has_data() {
                "no signature matched the first data packets"
            } else {
                "no data"
            }),
        }
    }

    fn encrypted_stream(
        &self,
        flow: &Flow<impl AsRef<Inspection>>,
        shape: Shape,
    ) -> Option<Verdict> {
        let Shape {
            client,
            server,
            third,
        } = shape;
        let sizes = format!("random bytes: {client}, then {server}, then {third}");
        let likely = |application, evidence: &str| {
            made(
                application,
                Confidence::Likely,
                format!("behaviour.encrypted: {sizes}; {evidence}"),
            )
        };
        let now = flow.last_seen;
        let endpoint = self.endpoints.get(&flow.server, now);
        let caller = self.hosts.get(&flow.client.ip());
        let called = self.hosts.get(&flow.server.ip());
        let hosts = || [caller, called].into_iter().flatten();
        if is_obfuscated_edonkey(shape) {
            if endpoint == Some(EDONKEY) {
                return Some(likely(
                    EDONKEY,
                    "the server's port speaks edonkey in another flow",
                ));
            }
            if hosts().any(|host| is_fresh(host.edonkey, now) && !is_fresh(host.bittorrent, now)) {
                return Some(likely(EDONKEY, "the host speaks edonkey in another flow"));
            }
        }
        if is_key_exchange(shape) {
            if endpoint == Some(BITTORRENT) {
                return Some(likely(
                    BITTORRENT,
                    "the server's port speaks bittorrent in another flow",
                ));
            }
            if hosts().any(|host| is_fresh(host.bittorrent, now)) {
                return Some(likely(
                    BITTORRENT,
                    "the host contacts its DHT, a tracker or a peer",
                ));
            }
            if hosts().any(|host| host.has_many_peers(now)) {
                return Some(likely(
                    BITTORRENT,
                    "the host has many such peers at many ports",
                ));
            }
        }
        // NTCP2: a key of 32 bytes, options or padding, each way.
        let ntcp2 = (64..=287).contains(&client) && (64..=287).contains(&server);
        if ntcp2 && hosts().any(|host| is_fresh(host.i2p, now)) {
            return Some(likely(I2P, "the host fetches the addresses of routers"));
        }
        let (application, evidence) = by_sizes(shape)?;
        Some(made(
            application,
            Confidence::Guess,
            format!("behaviour.encrypted: {sizes}; {evidence}"),
        ))
    }

    fn one_of_many_requests(&self, flow: &Flow<impl AsRef<Inspection>>) -> Option<Verdict> {
        let requests = self.requests.get(&flow.client)?;
        let of_skype = flow.attachment.as_ref().has_asked();
        (of_skype && requests.were_many(flow.last_seen)).then(|| {
            let evidence = format!(
                "behaviour.requests: {MANY_REQUESTS} in a row from {}, whose identifiers count on",
                flow.client
            );
            made(SKYPE, Confidence::Guess, evidence)
        })
    }

    fn encrypted_datagrams(&self, flow: &Flow<impl AsRef<Inspection>>) -> Option<Verdict> {
        let by_port = [EDONKEY, BITTORRENT].into_iter().find_map(|application| {
            let endpoint = self.speaker(flow, application)?;
            let evidence = format!(
                "behaviour.encrypted: random datagrams; {endpoint} speaks {application} in another flow"
            );
            Some(made(application, Confidence::Likely, evidence))
        });
        by_port.or_else(|| {
            let host = self.hosts.get(&flow.client.ip())?;
            let evidence =
                "behaviour.encrypted: random datagrams; the host fetches the addresses of routers";
            is_fresh(host.i2p, flow.last_seen)
                .then(|| made(I2P, Confidence::Likely, evidence.to_owned()))
        })
    }
}

fn is_call(l4: L4, application: &str) -> bool {
    l4 == L4::Udp && CALLS.contains(&application)
}

/// BitTorrent's message stream encryption: a key of 96 bytes and up to 512 of padding each way;
/// then at least two hashes, a check, what is offered, and two lengths.
fn is_key_exchange(shape: Shape) -> bool {
    (96..=608).contains(&shape.client)
        && (96..=608).contains(&shape.server)
        && (shape.third == 0 || shape.third >= 56)
}

/// eMule's obfuscation: a random byte, a key's part, three numbers and up to 255 bytes of padding;
/// a number, a choice and padding back; then the hello.
fn is_obfuscated_edonkey(shape: Shape) -> bool {
    (12..=267).contains(&shape.client) && (6..=608).contains(&shape.server) && shape.third >= 28
}

/// What random bytes may be by the sizes of their turns alone, and why.
fn by_sizes(shape: Shape) -> Option<(&'static str, &'static str)> {
    let Shape { client, server, .. } = shape;
    if is_key_exchange(shape) {
        return Some((BITTORRENT, "the sizes of its key exchange"));
    }
    // obfs4: a key and a mark with up to 8 KiB of padding between them.
    if (609..=8_192).contains(&client) && (96..=8_192).contains(&server) {
        return Some(("tor", "the sizes of a bridge's disguise (obfs4)"));
    }
    let why = "the sizes of a request and its answer in a tunnel without a handshake";
    is_tunnelled_request(shape).then_some((SHADOWSOCKS, why))
}

/// Shadowsocks, VMess and their like: a salt or an id, then what is tunnelled, which is sealed in
/// pieces. The answer to a page's or TLS's request is longer than any answer of a key exchange.
fn is_tunnelled_request(shape: Shape) -> bool {
    (200..=608).contains(&shape.client)
        && shape.server >= 609
        && (shape.third == 0 || shape.third >= 34)
}

fn made(application: &str, confidence: Confidence, evidence: String) -> Verdict {
    Verdict {
        application: application.to_owned(),
        confidence,
        evidence,
        details: super::Details::default(),
    }
}
