//! The transports in use, and the sessions that they have given us.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_transport::quic::{QuicEndpoint, QuicError, QuicOptions};
use ringway_transport::{
    Address, AddressDescriptor, Incoming, PathRules, Protocol, SendError, Session, StartError,
    TcpOptions, TcpTransport, Transport, UdpOptions, UdpTransport,
};
use tokio::sync::mpsc;

use super::Outcome;
use crate::certificate::Certificate;
use crate::config::{Config, NodeConfig, TransportName};
use crate::directory::Directory;
use crate::identity::Identity;
use crate::limits::{
    CONNECT_QUEUE, INCOMING, QUIC_MTU, STRANGER_SESSIONS, STRANGER_TIME, TRANSPORT_SESSIONS,
};

/// How long a transport may take to connect.
const CONNECT_TIME: Duration = Duration::from_secs(4);

/// Why the transports could not start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// UDP or TCP.
    #[error(transparent)]
    Transport(#[from] StartError),
    /// QUIC.
    #[error(transparent)]
    Quic(#[from] QuicError),
}

/// A session with a member.
#[derive(Debug)]
struct Held {
    session: Session,
    used: Instant,
    /// Made by us: its address can be dialled again.
    dialled: bool,
}

/// All transports of a member.
#[derive(Debug)]
pub(crate) struct Network {
    transports: BTreeMap<Protocol, Arc<dyn Transport>>,
    /// Sessions with members.
    sessions: BTreeMap<Address, Held>,
    /// Sessions of senders that have not proven to be members, the oldest first.
    strangers: VecDeque<(Address, Session, Instant)>,
    /// Packets for addresses that a transport is connecting to.
    connecting: BTreeMap<Address, VecDeque<Vec<u8>>>,
    quic: Arc<QuicEndpoint>,
    quic_address: Option<SocketAddr>,
    rules: PathRules,
    /// Packets that could not be sent.
    pub(super) dropped: u64,
}

impl Network {
    /// Binds everything that the configuration names.
    pub(crate) fn start(
        config: &Config,
        identity: &Identity,
        certificate: &Certificate,
        directory: &Arc<Directory>,
    ) -> Result<(Network, mpsc::Receiver<Incoming>), NetworkError> {
        let rules = config.path_rules();
        let config = &config.node;
        let (inbox, incoming) = mpsc::channel(INCOMING);
        let listen = certificate
            .address()
            .map(|address| config.listen.unwrap_or(address));
        let advertise: Vec<SocketAddr> = certificate.address().into_iter().collect();
        let mut transports: BTreeMap<Protocol, Arc<dyn Transport>> = BTreeMap::new();
        if config.transports.contains(&TransportName::Udp) {
            let options = UdpOptions {
                listen,
                advertise: advertise.clone(),
                ..UdpOptions::default()
            };
            let udp = UdpTransport::start(options, inbox.clone())?;
            transports.insert(Protocol::Udp, Arc::new(udp));
        }
        if config.transports.contains(&TransportName::Tcp) {
            let options = TcpOptions {
                listen,
                advertise,
                ..TcpOptions::default()
            };
            let tcp = TcpTransport::start(options, inbox)?;
            transports.insert(Protocol::Tcp, Arc::new(tcp));
        }
        let quic = Arc::new(bind_quic(config, identity, listen, directory)?);
        let port = quic.local_address()?.port();
        let serves_quic = config.transports.contains(&TransportName::Quic);
        let quic_address = certificate
            .address()
            .filter(|_| serves_quic)
            .map(|address| SocketAddr::new(address.ip(), port));
        let network = Network {
            transports,
            sessions: BTreeMap::new(),
            strangers: VecDeque::new(),
            connecting: BTreeMap::new(),
            quic,
            quic_address,
            rules,
            dropped: 0,
        };
        Ok((network, incoming))
    }

    pub(crate) fn quic(&self) -> &Arc<QuicEndpoint> {
        &self.quic
    }

    /// What the user says of paths.
    pub(crate) fn path_rules(&self) -> &PathRules {
        &self.rules
    }

    /// What our HELLO says.
    pub(super) fn addresses(&self) -> Vec<AddressDescriptor> {
        let mut addresses: Vec<AddressDescriptor> = self
            .transports
            .values()
            .flat_map(|t| t.addresses())
            .collect();
        if let Some(address) = self.quic_address {
            addresses.push(AddressDescriptor::new(
                Address::Quic(address),
                QUIC_MTU,
                Protocol::Quic.usual_cost(),
            ));
        }
        addresses
    }

    /// True if messages can go to this address.
    pub(super) fn carries(&self, address: &Address) -> bool {
        let transport = self.transports.get(&address.protocol());
        transport.is_some_and(|transport| transport.accepts(address))
    }

    /// Where a router can be dialled by what its certificate says: cheapest transport first.
    pub(super) fn dial_addresses(&self, certificate: &Certificate) -> Vec<Address> {
        let Some(address) = certificate.address() else {
            return Vec::new();
        };
        [Address::Udp(address), Address::Tcp(address)]
            .into_iter()
            .filter(|address| self.carries(address))
            .collect()
    }

    /// A session over which something has come. A member's is kept; a stranger's only for its handshake, so that
    /// nobody fills the table by sending rubbish.
    pub(super) fn remember(&mut self, now: Instant, session: Session, is_member: bool) {
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
            .position(|(known, ..)| *known == address);
        if !is_member {
            if stranger.is_none() {
                if self.strangers.len() >= STRANGER_SESSIONS {
                    self.strangers.pop_front();
                }
                self.strangers.push_back((address, session, now));
            }
            return;
        }
        if let Some(position) = stranger {
            self.strangers.remove(position);
        }
        if self.sessions.len() >= TRANSPORT_SESSIONS {
            self.sessions.retain(|_, held| !held.session.is_closed());
        }
        if self.sessions.len() < TRANSPORT_SESSIONS {
            let held = Held {
                session,
                used: now,
                dialled: false,
            };
            self.sessions.insert(address, held);
        }
    }

    fn session(&mut self, now: Instant, address: &Address) -> Option<&Session> {
        if let Some(held) = self.sessions.get_mut(address) {
            held.used = now;
            return Some(&held.session);
        }
        let mut strangers = self.strangers.iter();
        let stranger = strangers.find(|(known, ..)| known == address);
        stranger.map(|(_, session, _)| session)
    }

    /// Sends a packet; connects first where that is needed. What cannot be sent is dropped and counted. True if nothing more can
    /// go to this address: the peer's connection has ended, and only the peer can make another.
    pub(super) fn send(
        &mut self,
        now: Instant,
        address: &Address,
        packet: Vec<u8>,
        outcomes: &mpsc::Sender<Outcome>,
    ) -> bool {
        if let Some(session) = self.session(now, address) {
            match session.send(&packet) {
                Ok(()) => return false,
                Err(SendError::Closed) => {
                    if self.has_ended(address) {
                        self.dropped += 1;
                        return true;
                    }
                }
                Err(SendError::WouldBlock | SendError::TooLarge { .. }) => {
                    self.dropped += 1;
                    return false;
                }
            }
        }
        self.connect(address, packet, outcomes);
        false
    }

    /// Forgets a session that is closed; true if we cannot make it again.
    fn has_ended(&mut self, address: &Address) -> bool {
        self.strangers.retain(|(known, ..)| known != address);
        let held = self.sessions.remove(address);
        let connectionless = address.protocol() == Protocol::Udp;
        !connectionless && held.is_some_and(|held| !held.dialled)
    }

    fn connect(&mut self, address: &Address, packet: Vec<u8>, outcomes: &mpsc::Sender<Outcome>) {
        if let Some(waiting) = self.connecting.get_mut(address) {
            if waiting.len() < CONNECT_QUEUE {
                waiting.push_back(packet);
            } else {
                self.dropped += 1;
            }
            return;
        }
        let Some(transport) = self.transports.get(&address.protocol()).cloned() else {
            self.dropped += 1;
            return;
        };
        self.connecting
            .insert(address.clone(), VecDeque::from([packet]));
        let (address, outcomes) = (address.clone(), outcomes.clone());
        tokio::spawn(async move {
            let connected = tokio::time::timeout(CONNECT_TIME, transport.connect(&address)).await;
            let session = connected.ok().and_then(Result::ok);
            if outcomes
                .send(Outcome::Connected(address, session))
                .await
                .is_err()
            {
                tracing::debug!("the member's task has ended");
            }
        });
    }

    /// A transport has connected, or failed to.
    pub(super) fn connected(&mut self, now: Instant, address: Address, session: Option<Session>) {
        let waiting = self.connecting.remove(&address).unwrap_or_default();
        let count = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
        let Some(session) = session else {
            self.dropped += count;
            return;
        };
        for packet in waiting {
            if session.send(&packet).is_err() {
                self.dropped += 1;
            }
        }
        // Under the address that was asked for: a session may know its peer by another.
        let held = Held {
            session,
            used: now,
            dialled: true,
        };
        self.sessions.insert(address, held);
    }

    /// Forgets sessions that have closed, strangers that stayed strangers, and paths that no link uses.
    pub(super) fn tidy(&mut self, now: Instant, in_use: &BTreeSet<Address>) {
        self.strangers
            .retain(|(_, session, since)| !session.is_closed() && now < *since + STRANGER_TIME);
        self.sessions.retain(|address, held| {
            let recent = now < held.used + STRANGER_TIME;
            !held.session.is_closed() && (recent || in_use.contains(address))
        });
    }
}

/// A router's QUIC port is the one after its address; if that is taken the system chooses, as for a leaf.
fn bind_quic(
    config: &NodeConfig,
    identity: &Identity,
    listen: Option<SocketAddr>,
    directory: &Arc<Directory>,
) -> Result<QuicEndpoint, QuicError> {
    let known = Arc::clone(directory);
    let allow: ringway_transport::quic::Allow =
        Arc::new(move |member| known.cached(member).is_some());
    let accept = listen.is_some() && config.transports.contains(&TransportName::Quic);
    let options = || QuicOptions {
        accept,
        ..QuicOptions::default()
    };
    let key = identity.signing_key();
    let Some(listen) = listen else {
        let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
        let any_v4 = SocketAddr::from(([0, 0, 0, 0], 0));
        return QuicEndpoint::bind(any, key, Arc::clone(&allow), options())
            .or_else(|_| QuicEndpoint::bind(any_v4, key, allow, options()));
    };
    let chosen = config
        .quic
        .unwrap_or_else(|| SocketAddr::new(listen.ip(), listen.port().checked_add(1).unwrap_or(0)));
    QuicEndpoint::bind(chosen, key, Arc::clone(&allow), options()).or_else(|error| {
        if config.quic.is_some() {
            return Err(error);
        }
        tracing::info!(%error, "the system chooses the QUIC port");
        QuicEndpoint::bind(SocketAddr::new(listen.ip(), 0), key, allow, options())
    })
}
