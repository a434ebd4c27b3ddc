//! The transports in use, and the sessions that they have given us.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_transport::quic::{MemberDatagram, QuicEndpoint, QuicError, SharedCoupling};
use ringway_transport::{
    Address, AddressDescriptor, CounterSnapshot, Incoming, MemberId, PathRules, Protocol, Session,
    StartError, Transport,
};
use tokio::sync::mpsc;

use super::Outcome;
use super::endpoints::{bind_over_links, bind_quic, quic_port};
use super::hidden::Hidden;
use super::transports::{self, Reachable};
use crate::certificate::Certificate;
use crate::config::{Config, ConfigError, PeerConfig};
use crate::directory::Directory;
use crate::identity::Identity;
use crate::limits::{
    CONNECT_ERROR, CONNECT_FAILURES, CONNECT_QUEUE, INCOMING, STRANGER_SESSIONS, STRANGER_TIME,
    TRANSPORT_SESSIONS,
};
use crate::text::printable;

/// How long a transport may take to connect.
const CONNECT_TIME: Duration = Duration::from_secs(4);

/// Why the transports could not start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// One that carries messages.
    #[error(transparent)]
    Transport(#[from] StartError),
    /// QUIC.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// What the configuration says cannot be done.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl NetworkError {
    /// True when the user's input was wrong.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, NetworkError::Config(error) if error.is_usage())
    }
}

/// A session with a member, or with the far end of an address that we have dialled and that has not
/// proven yet to be one.
#[derive(Debug)]
struct Held {
    session: Session,
    used: Instant,
    /// Made by us: its address can be dialled again.
    dialled: bool,
}

/// A session of a sender that has not proven to be a member.
#[derive(Debug)]
struct Stranger {
    address: Address,
    session: Session,
    since: Instant,
}

/// Why an attempt to connect failed.
#[derive(Debug)]
struct FailedConnect {
    address: Address,
    reason: String,
}

/// All transports of a member.
#[derive(Debug)]
pub(crate) struct Network {
    transports: Vec<Arc<dyn Transport>>,
    /// Sessions with members, and those that we have dialled.
    sessions: HashMap<Address, Held>,
    /// When to look sessions through, if there are any.
    tidy: Option<Instant>,
    /// Sessions of senders that have not proven to be members, the oldest first.
    strangers: VecDeque<Stranger>,
    /// Packets for addresses that a transport is connecting to.
    connecting: BTreeMap<Address, VecDeque<Vec<u8>>>,
    quic: Arc<QuicEndpoint>,
    over_links: Arc<QuicEndpoint>,
    /// Takes datagrams of QUIC that came over links.
    carried: mpsc::Sender<MemberDatagram>,
    rules: PathRules,
    /// Where members can be reached before they have said so.
    peers: Vec<PeerConfig>,
    /// Of a member that hides its address.
    hidden: Option<Hidden>,
    /// Bytes per second to pass on for others.
    relay_rate: u64,
    /// The UDP port for which the home router may be asked for another.
    mapped_port: Option<u16>,
    /// Why the latest attempts to connect failed, the oldest first.
    failed: VecDeque<FailedConnect>,
    /// Packets that were not sent.
    pub(in crate::member) dropped: Dropped,
}

/// Packets that were not sent, by reason. Those that a transport has counted are with its counters.
#[derive(Debug, Default)]
pub(in crate::member) struct Dropped {
    /// The connection has ended: the peer's, and only the peer can make another, or one that we
    /// had just made.
    closed: u64,
    /// Too many waited while a transport was connecting.
    connecting: u64,
    /// It did not connect.
    not_connected: u64,
    /// No transport of ours sends there.
    no_transport: u64,
    /// It would have shown this member's address, which is hidden.
    hidden: u64,
}

impl Dropped {
    /// The numbers, with the names under which they are shown.
    pub(in crate::member) fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("packets_dropped_closed", self.closed),
            ("packets_dropped_connecting", self.connecting),
            ("packets_dropped_not_connected", self.not_connected),
            ("packets_dropped_no_transport", self.no_transport),
            ("packets_dropped_hidden", self.hidden),
        ]
    }
}

/// What the user says of paths, of peers' addresses, and of passing on.
#[derive(Debug)]
pub(in crate::member) struct UserRules {
    pub(in crate::member) paths: PathRules,
    pub(in crate::member) peers: Vec<PeerConfig>,
    /// Bytes per second; 0 passes nothing on.
    pub(in crate::member) relay_rate: u64,
}

/// What the transports and QUIC have for the member's task.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub(in crate::member) messages: mpsc::Receiver<Incoming>,
    /// Datagrams of QUIC for links to carry.
    pub(in crate::member) datagrams: mpsc::Receiver<MemberDatagram>,
}

impl Network {
    /// Starts everything that the configuration names.
    pub(crate) async fn start(
        config: &Config,
        identity: &Identity,
        certificate: &Certificate,
        directory: &Arc<Directory>,
    ) -> Result<(Network, Arrivals), NetworkError> {
        let (inbox, incoming) = mpsc::channel(INCOMING);
        let listen = certificate
            .address()
            .map(|address| config.node.listen.unwrap_or(address));
        transports::check_listen(config, listen)?;
        // A router's address is in its certificate.
        let wants_mapping =
            config.node.port_mapping && listen.is_none() && !config.node.hide_address;
        // One for both endpoints: a file may go by either.
        let coupling = config.node.coupling.then(SharedCoupling::default);
        let bound = bind_quic(&config.node, identity, listen, directory, coupling.as_ref())?;
        let quic = Arc::new(bound);
        let (over_links, carrier) = bind_over_links(&config.node, identity, directory, coupling)?;
        let reachable = Reachable {
            listen,
            address: certificate.address(),
            quic: &quic,
        };
        let started = transports::start(config, &reachable, inbox).await?;
        let network = Network {
            transports: started.transports,
            sessions: HashMap::new(),
            tidy: None,
            strangers: VecDeque::new(),
            connecting: BTreeMap::new(),
            quic,
            over_links: Arc::new(over_links),
            carried: carrier.incoming,
            rules: config.path_rules(),
            peers: config.peer.clone(),
            hidden: config.node.hide_address.then(Hidden::default),
            relay_rate: config.limits.relay,
            mapped_port: started.udp_port.filter(|_| wants_mapping),
            failed: VecDeque::new(),
            dropped: Dropped::default(),
        };
        let arrivals = Arrivals {
            messages: incoming,
            datagrams: carrier.outgoing,
        };
        Ok((network, arrivals))
    }

    /// What each transport has counted.
    pub(in crate::member) fn counters(&self) -> impl Iterator<Item = (Protocol, CounterSnapshot)> {
        let counted = |transport: &Arc<dyn Transport>| (transport.protocol(), transport.counters());
        self.transports.iter().map(counted)
    }

    /// The endpoint whose connections go over links.
    pub(crate) fn over_links(&self) -> &Arc<QuicEndpoint> {
        &self.over_links
    }

    pub(crate) fn quic(&self) -> &Arc<QuicEndpoint> {
        &self.quic
    }

    /// Bytes per second to pass on for others; 0 is none.
    pub(crate) fn relay_rate(&self) -> u64 {
        self.relay_rate
    }

    /// The UDP port for which the home router may be asked for another, unless the user does not
    /// want that.
    pub(crate) fn mapped_port(&self) -> Option<u16> {
        self.mapped_port
    }

    /// What the user says of paths.
    pub(crate) fn path_rules(&self) -> &PathRules {
        &self.rules
    }

    /// Takes over what the user says now.
    pub(in crate::member) fn follow(&mut self, rules: UserRules) {
        let UserRules {
            paths,
            peers,
            relay_rate,
        } = rules;
        (self.rules, self.peers, self.relay_rate) = (paths, peers, relay_rate);
    }

    /// What our HELLO says.
    pub(in crate::member) fn addresses(&self) -> Vec<AddressDescriptor> {
        let addresses = self.transports.iter().flat_map(|t| t.addresses());
        let shown = |d: &AddressDescriptor| !self.is_hidden() || d.protocol().hides_the_host();
        addresses.filter(shown).collect()
    }

    /// True if this member shows its address to its parents only.
    pub(in crate::member) fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    fn permits(&self, address: &Address) -> bool {
        let hidden = self.hidden.as_ref();
        hidden.is_none_or(|hidden| hidden.permits(address))
    }

    /// Puts routers into the order in which they are asked to be parents; `up` are parents already.
    /// False if any will do.
    pub(in crate::member) fn order_parents(
        &mut self,
        me: &MemberId,
        routers: &mut [&Certificate],
        up: &[MemberId],
    ) -> bool {
        let hidden = self.hidden.as_mut();
        hidden
            .map(|hidden| hidden.in_order(me, routers, up))
            .is_some()
    }

    /// This router is dialled to be a parent: it may see where we are.
    pub(in crate::member) fn show_to(&mut self, router: &Certificate) {
        let addresses = self.all_dial_addresses(router);
        if let Some(hidden) = &mut self.hidden {
            hidden.choose(router.member(), addresses);
        }
    }

    fn transport(&self, address: &Address) -> Option<&Arc<dyn Transport>> {
        let protocol = address.protocol();
        let mut fitting = self.transports.iter().filter(|t| t.protocol() == protocol);
        fitting.find(|transport| transport.accepts(address))
    }

    /// True if messages can go to this address.
    pub(in crate::member) fn carries(&self, address: &Address) -> bool {
        self.permits(address) && self.transport(address).is_some()
    }

    /// Where a member can be dialled by what its certificate and our configuration say: cheapest
    /// transport first. Without UDP and TCP it is tried at the port that a router's QUIC has
    /// unless told otherwise.
    pub(in crate::member) fn dial_addresses(&self, certificate: &Certificate) -> Vec<Address> {
        let mut all = self.all_dial_addresses(certificate);
        all.retain(|address| self.carries(address));
        all
    }

    /// As [`Network::dial_addresses`], with those that no transport of ours sends to.
    pub(in crate::member) fn all_dial_addresses(&self, certificate: &Certificate) -> Vec<Address> {
        let own = certificate.address();
        let own = own.map(|address| {
            let plain = [Address::Udp(address), Address::Tcp(address)];
            let quic = quic_port(address).map(Address::Quic);
            let without = !plain.iter().any(|address| self.carries(address));
            plain.into_iter().chain(quic.filter(|_| without))
        });
        let name = certificate.name().as_str();
        let known = self.peers.iter().filter(|peer| peer.name == name);
        let known = known.flat_map(|peer| peer.addresses.iter().cloned());
        let mut all: Vec<Address> = own.into_iter().flatten().chain(known).collect();
        all.sort_by_key(|address| address.protocol().usual_cost());
        all
    }

    /// A session over which something has come. A member's is kept; a stranger's only for its
    /// handshake, so that no stranger fills the table by sending rubbish.
    pub(in crate::member) fn remember(&mut self, now: Instant, session: Session, is_member: bool) {
        let address = session.remote();
        if let Some(held) = self.sessions.get_mut(&address) {
            held.used = now;
            if !held.session.is_closed() {
                return;
            }
        }
        let stranger = self
            .strangers
            .iter()
            .position(|stranger| stranger.address == address);
        if !is_member {
            if stranger.is_none() {
                if self.strangers.len() >= STRANGER_SESSIONS {
                    self.strangers.pop_front();
                }
                self.strangers.push_back(Stranger {
                    address,
                    session,
                    since: now,
                });
            }
            return;
        }
        if let Some(position) = stranger {
            self.strangers.remove(position);
        }
        // Closed ones make room; where all are open, this one is not kept.
        if self.sessions.len() >= TRANSPORT_SESSIONS {
            self.sessions.retain(|_, held| !held.session.is_closed());
        }
        if self.sessions.len() < TRANSPORT_SESSIONS {
            let held = Held {
                session,
                used: now,
                dialled: false,
            };
            self.hold(now, address, held);
        }
    }

    fn hold(&mut self, now: Instant, address: Address, held: Held) {
        self.sessions.insert(address, held);
        self.tidy.get_or_insert(now + STRANGER_TIME / 2);
    }

    fn session(&mut self, now: Instant, address: &Address) -> Option<&Session> {
        if let Some(held) = self.sessions.get_mut(address) {
            held.used = now;
            return Some(&held.session);
        }
        let mut strangers = self.strangers.iter();
        let stranger = strangers.find(|stranger| stranger.address == *address);
        stranger.map(|stranger| &stranger.session)
    }

    /// Sends packets to one address; connects first where that is needed. What cannot be sent is
    /// dropped and counted. True if nothing more can go to this address: the peer's connection
    /// has ended, and only the peer can make another. `Core::send_packets` has the links leave the
    /// address then.
    pub(in crate::member) fn send(
        &mut self,
        now: Instant,
        address: &Address,
        packets: Vec<Vec<u8>>,
        outcomes: &mpsc::Sender<Outcome>,
    ) -> bool {
        let count = u64::try_from(packets.len()).unwrap_or(u64::MAX);
        // Here everything passes that leaves, also answers to those who have found us.
        if !self.permits(address) {
            self.dropped.hidden += count;
            return false;
        }
        if let Some(session) = self.session(now, address) {
            let borrowed: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            match session.send_batch(&borrowed) {
                // What it did not take it has counted.
                Ok(_) => return false,
                Err(_) if self.has_ended(address) => {
                    self.dropped.closed += count;
                    return true;
                }
                Err(_) => {}
            }
        }
        for packet in packets {
            self.connect(address, packet, outcomes);
        }
        false
    }

    /// Forgets a session that is closed; true if we cannot make it again.
    fn has_ended(&mut self, address: &Address) -> bool {
        self.strangers
            .retain(|stranger| stranger.address != *address);
        let held = self.sessions.remove(address);
        let connectionless = address.protocol() == Protocol::Udp;
        !connectionless && held.is_some_and(|held| !held.dialled)
    }

    fn connect(&mut self, address: &Address, packet: Vec<u8>, outcomes: &mpsc::Sender<Outcome>) {
        if let Some(waiting) = self.connecting.get_mut(address) {
            if waiting.len() < CONNECT_QUEUE {
                waiting.push_back(packet);
            } else {
                self.dropped.connecting += 1;
            }
            return;
        }
        let Some(transport) = self.transport(address).cloned() else {
            self.dropped.no_transport += 1;
            return;
        };
        self.connecting
            .insert(address.clone(), VecDeque::from([packet]));
        // Others' packets do not wait for this one's transport.
        let (address, outcomes) = (address.clone(), outcomes.clone());
        tokio::spawn(async move {
            let connected = tokio::time::timeout(CONNECT_TIME, transport.connect(&address)).await;
            let connected = match connected {
                Ok(connected) => connected.map_err(|error| error.to_string()),
                Err(_) => Err(format!("{address} did not answer in time")),
            };
            if outcomes
                .send(Outcome::Connected(address, connected))
                .await
                .is_err()
            {
                tracing::debug!("the member's task has ended");
            }
        });
    }

    /// A transport has connected, or failed to for a reason.
    pub(in crate::member) fn connected(
        &mut self,
        now: Instant,
        address: Address,
        connected: Result<Session, String>,
    ) {
        let waiting = self.connecting.remove(&address).unwrap_or_default();
        let count = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
        self.failed.retain(|failed| failed.address != address);
        let session = match connected {
            Ok(session) => session,
            Err(reason) => {
                self.dropped.not_connected += count;
                self.note_failure(address, reason);
                return;
            }
        };
        let packets: Vec<&[u8]> = waiting.iter().map(Vec::as_slice).collect();
        // What it did not take it has counted, unless it has ended already.
        if session.send_batch(&packets).is_err() {
            self.dropped.closed += count;
            tracing::debug!(%address, count, "a session that is new has ended");
        }
        // Under the address that was asked for: a session may know its peer by another.
        let held = Held {
            session,
            used: now,
            dialled: true,
        };
        self.hold(now, address, held);
    }

    /// Those of configured addresses stay when others have to make room.
    fn note_failure(&mut self, address: Address, reason: String) {
        if self.failed.len() >= CONNECT_FAILURES {
            let configured =
                |address| (self.peers.iter()).any(|peer| peer.addresses.contains(address));
            let mut failed = self.failed.iter();
            let other = failed.position(|failed| !configured(&failed.address));
            self.failed.remove(other.unwrap_or(0));
        }
        tracing::debug!(%address, reason, "a transport did not connect");
        // Of TLS it has the server's words.
        let reason = printable(&reason, CONNECT_ERROR);
        self.failed.push_back(FailedConnect { address, reason });
    }

    /// Why the last attempt to connect to this address failed; none if it did not.
    pub(in crate::member) fn last_error(&self, address: &Address) -> Option<&str> {
        let mut failed = self.failed.iter();
        let failed = failed.find(|failed| failed.address == *address)?;
        Some(&failed.reason)
    }

    /// Forgets strangers that stayed strangers; and now and then sessions that have closed, and
    /// paths that no link uses. Which those are is a long list to make in a large ring.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        in_use: impl FnOnce() -> BTreeSet<Address>,
    ) {
        self.strangers
            .retain(|s| !s.session.is_closed() && now < s.since + STRANGER_TIME);
        if self.tidy.is_none_or(|at| now < at) {
            return;
        }
        let in_use = in_use();
        self.sessions.retain(|address, held| {
            let recent = now < held.used + STRANGER_TIME;
            !held.session.is_closed() && (recent || in_use.contains(address))
        });
        self.tidy = (!self.sessions.is_empty()).then_some(now + STRANGER_TIME / 2);
    }

    /// When to call [`Network::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.strangers.front();
        let stranger = oldest.map(|stranger| stranger.since + STRANGER_TIME);
        stranger.into_iter().chain(self.tidy).min()
    }

    /// A datagram of QUIC that came over a link with its member. False if it is lost: the endpoint
    /// has too many unread.
    pub(in crate::member) fn take_datagram(&self, datagram: MemberDatagram) -> bool {
        self.carried.try_send(datagram).is_ok()
    }
}
