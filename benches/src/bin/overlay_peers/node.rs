//! One node: a swarm with Kademlia and `identify`, in a task of its own.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use libp2p::kad::store::MemoryStore;
use libp2p::kad::{self, BucketInserts, K_VALUE, Mode, QueryId, QueryResult, QueryStats};
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, SwarmBuilder, identify};
use tokio::sync::{mpsc, oneshot};

use crate::Failure;

/// How Kademlia is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// Whether it says more among malicious nodes than the others do.
    pub(crate) attacked: bool,
    /// After which an unused connection is closed.
    idle: Duration,
    /// Peers that a lookup looks for.
    results: NonZeroUsize,
    /// Disjoint paths of a lookup.
    paths: Option<NonZeroUsize>,
}

/// The swarm's own default, stated because the measurement waits for it.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Longer than any measurement.
const KEPT: Duration = Duration::from_secs(3600);

const ONE: NonZeroUsize = NonZeroUsize::MIN;

impl Variant {
    pub(crate) const ALL: [Variant; 4] = [
        Variant::new("libp2p kad", IDLE, K_VALUE, None),
        Variant::new("libp2p kad kept", KEPT, K_VALUE, None).attacked(),
        Variant::new("libp2p kad kept nearest", KEPT, ONE, None).attacked(),
        Variant::new(
            "libp2p kad kept disjoint",
            KEPT,
            K_VALUE,
            NonZeroUsize::new(8),
        )
        .attacked(),
    ];

    const fn new(
        name: &'static str,
        idle: Duration,
        results: NonZeroUsize,
        paths: Option<NonZeroUsize>,
    ) -> Variant {
        Variant {
            name,
            attacked: false,
            idle,
            results,
            paths,
        }
    }

    const fn attacked(self) -> Variant {
        Variant {
            attacked: true,
            ..self
        }
    }
}

/// A node and where it listens.
pub(crate) type Place = (PeerId, Multiaddr);

/// The malicious nodes, and all others.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) traitors: Vec<Place>,
    pub(crate) honest: Vec<PeerId>,
}

/// What came of a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Those that answered, the nearest first.
    pub(crate) peers: Vec<PeerId>,
    /// Whether it ended before the time limit.
    pub(crate) in_time: bool,
    pub(crate) requests: u32,
}

/// What a node is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Looks itself and a point in each bucket up.
    Bootstrap(oneshot::Sender<()>),
    Lookup(Vec<u8>, oneshot::Sender<Answer>),
    /// From now on it knows malicious nodes only.
    Lie(Arc<Sides>, oneshot::Sender<()>),
}

/// A node that runs.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    commands: mpsc::UnboundedSender<Command>,
}

impl Node {
    /// Starts a node in the runtime of the caller; `boot` are those it knows, and `future_traitor`
    /// decides itself who comes into its routing table.
    pub(crate) async fn start(
        variant: Variant,
        nodes: usize,
        boot: Vec<Place>,
        future_traitor: bool,
    ) -> Result<Node, Failure> {
        let mut swarm = swarm(variant, nodes, future_traitor)?;
        swarm.listen_on("/ip4/127.0.0.1/udp/0/quic-v1".parse()?)?;
        let address = loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
                break address;
            }
        };
        for (peer, address) in boot {
            swarm.behaviour_mut().kad.add_address(&peer, address);
        }
        let place = (*swarm.local_peer_id(), address);
        let (commands, received) = mpsc::unbounded_channel();
        let running = Running {
            variant,
            swarm,
            lies: false,
            lookups: HashMap::new(),
            bootstraps: HashMap::new(),
        };
        tokio::spawn(running.run(received));
        Ok(Node { place, commands })
    }

    /// Tells it, and waits until it is done.
    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(command(reply));
        sent.map_err(|_| "a node has stopped")?;
        Ok(answer.await?)
    }
}

#[derive(NetworkBehaviour)]
struct Behaviour {
    kad: kad::Behaviour<MemoryStore>,
    identify: identify::Behaviour,
}

fn swarm(
    variant: Variant,
    nodes: usize,
    future_traitor: bool,
) -> Result<Swarm<Behaviour>, Failure> {
    let mut config = kad::Config::new(kad::PROTOCOL_NAME);
    if let Some(paths) = variant.paths {
        config.disjoint_query_paths(true).set_parallelism(paths);
    }
    if future_traitor {
        config.set_kbucket_inserts(BucketInserts::Manual);
        // So that it knows every other traitor.
        config.set_kbucket_size(K_VALUE.max(NonZeroUsize::new(nodes).unwrap_or(K_VALUE)));
    }
    let swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_quic()
        .with_behaviour(|key| {
            let own = key.public().to_peer_id();
            let mut kad = kad::Behaviour::with_config(own, MemoryStore::new(own), config);
            kad.set_mode(Some(Mode::Server));
            let identify = identify::Config::new("/ringway-bench/1".to_owned(), key.public());
            let identify = identify::Behaviour::new(identify);
            Behaviour { kad, identify }
        })?
        .with_swarm_config(|config| config.with_idle_connection_timeout(variant.idle))
        .build();
    Ok(swarm)
}

struct Running {
    variant: Variant,
    swarm: Swarm<Behaviour>,
    lies: bool,
    lookups: HashMap<QueryId, oneshot::Sender<Answer>>,
    bootstraps: HashMap<QueryId, oneshot::Sender<()>>,
}

impl Running {
    /// Ends when no handle can send the node a command any more.
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => return,
                },
                event = self.swarm.select_next_some() => self.happened(event),
            }
        }
    }

    fn handle(&mut self, command: Command) {
        let kad = &mut self.swarm.behaviour_mut().kad;
        match command {
            Command::Bootstrap(reply) => match kad.bootstrap() {
                Ok(id) => {
                    self.bootstraps.insert(id, reply);
                }
                // The first node knows no other. The caller may have gone.
                Err(_) => reply.send(()).unwrap_or_default(),
            },
            Command::Lookup(point, reply) => {
                let id = kad.get_n_closest_peers(point, self.variant.results);
                self.lookups.insert(id, reply);
            }
            Command::Lie(sides, reply) => {
                for peer in &sides.honest {
                    kad.remove_peer(peer);
                }
                for (peer, address) in &sides.traitors {
                    kad.add_address(peer, address.clone());
                }
                self.lies = true;
                reply.send(()).unwrap_or_default();
            }
        }
    }

    fn happened(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                peer_id,
                info,
                ..
            })) => {
                let known = info.protocols.contains(&kad::PROTOCOL_NAME);
                for address in info.listen_addrs.into_iter().filter(|_| known) {
                    self.learn(peer_id, address);
                }
            }
            SwarmEvent::Behaviour(BehaviourEvent::Kad(kad::Event::RoutablePeer {
                peer,
                address,
            })) => self.learn(peer, address),
            SwarmEvent::Behaviour(BehaviourEvent::Kad(kad::Event::OutboundQueryProgressed {
                id,
                result,
                stats,
                step,
            })) if step.last => self.ended(id, result, &stats),
            _ => {}
        }
    }

    fn learn(&mut self, peer: PeerId, address: Multiaddr) {
        if !self.lies {
            self.swarm.behaviour_mut().kad.add_address(&peer, address);
        }
    }

    fn ended(&mut self, id: QueryId, result: QueryResult, stats: &QueryStats) {
        if let Some(reply) = self.bootstraps.remove(&id) {
            return reply.send(()).unwrap_or_default();
        }
        let (Some(reply), QueryResult::GetClosestPeers(result)) =
            (self.lookups.remove(&id), result)
        else {
            return;
        };
        let in_time = result.is_ok();
        let peers = match result {
            Ok(found) => found.peers,
            Err(kad::GetClosestPeersError::Timeout { peers, .. }) => peers,
        };
        let answer = Answer {
            peers: peers.into_iter().map(|peer| peer.peer_id).collect(),
            in_time,
            requests: stats.num_requests(),
        };
        // The caller may have gone.
        reply.send(answer).ok();
    }
}
