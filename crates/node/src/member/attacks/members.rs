//! A ring of an honest member, as it runs, and members that do whatever a test tells them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_testbed::free_address;
use ringway_transport::{
    Address, AddressDescriptor, Hello, MemberId, PathRules, Ping, Pong, Signer as _,
};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::{MemberHandle, Network, Runtime, Setup};
use super::{REPEAT, SOON};
use crate::certificate::{Certificate, CertificateFields};
use crate::config::Config;
use crate::control::PathStatus;
use crate::directory::Directory;
use crate::identity::Identity;
use crate::link::{Event, Gatekeeper, LinkMessage, Links};
use crate::state::{Membership, State};
use crate::statement::Statement;

/// A ring's owner, who numbers certificates.
pub(super) struct Owner {
    pub(super) identity: Identity,
    pub(super) serial: u64,
}

impl Owner {
    pub(super) fn new() -> Owner {
        let identity = Identity::generate().unwrap();
        Owner {
            identity,
            serial: 0,
        }
    }

    pub(super) fn issue(
        &mut self,
        who: &Identity,
        name: &str,
        address: Option<SocketAddr>,
    ) -> Certificate {
        self.serial += 1;
        let fields = CertificateFields {
            member: who.member(),
            name: name.parse().unwrap(),
            address,
            nonce: [0; 16],
            not_before: 0,
            not_after: u64::MAX,
            serial: self.serial,
        };
        Certificate::issue(&self.identity, &fields)
    }
}

/// A router as `ringway node` runs it.
pub(super) struct Honest {
    pub(super) handle: MemberHandle,
    pub(super) certificate: Certificate,
    pub(super) directory: Arc<Directory>,
    pub(super) address: SocketAddr,
    /// Dropped, it ends as by a signal.
    pub(super) stop: oneshot::Sender<()>,
    pub(super) home: tempfile::TempDir,
}

impl Honest {
    pub(super) async fn start(owner: &mut Owner, name: &str, config: &str) -> Honest {
        Honest::start_in(tempfile::tempdir().unwrap(), owner, name, config).await
    }

    /// In a folder in which something is already.
    pub(super) async fn start_in(
        home: tempfile::TempDir,
        owner: &mut Owner,
        name: &str,
        config: &str,
    ) -> Honest {
        let identity = Identity::generate().unwrap();
        let address = free_address().unwrap();
        let certificate = owner.issue(&identity, name, Some(address));
        let ring = owner.identity.member();
        let statement = Statement::issue(&owner.identity, 1, 2, BTreeSet::new());
        let membership = Membership {
            ring,
            domain: "ring.example".to_owned(),
            certificate: certificate.clone(),
            statement: statement.clone(),
        };
        let state = Arc::new(State::open(home.path()).unwrap());
        state.set_membership(&membership).unwrap();
        let path = crate::home::config_path(home.path());
        std::fs::write(path, format!("[node]\n{config}")).unwrap();
        let config = Config::load(home.path()).unwrap();
        let no_server = "127.0.0.1:9".parse().unwrap();
        let directory =
            Arc::new(Directory::new(ring, "ring.example", statement, Some(no_server)).unwrap());
        let (network, arrivals) = Network::start(&config, &identity, &certificate, &directory)
            .await
            .unwrap();
        let (runtime, handle, _) = Runtime::new(Setup {
            identity,
            membership,
            state,
            directory: Arc::clone(&directory),
            network,
            arrivals,
        })
        .unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(runtime.run(async move { drop(stopped.await) }));
        Honest {
            handle,
            certificate,
            directory,
            address,
            stop,
            home,
        }
    }

    pub(super) async fn paths_to(&self, puppet: &Puppet) -> BTreeMap<String, PathStatus> {
        let paths = self.handle.paths(&puppet.certificate).await.unwrap().paths;
        paths
            .into_iter()
            .map(|path| (path.address.clone(), path))
            .collect()
    }

    /// Whether this address has answered a PING.
    pub(super) async fn believes(&self, puppet: &Puppet, address: &Address) -> bool {
        let paths = self.paths_to(puppet).await;
        let path = paths.get(&address.to_string());
        path.is_some_and(|path| path.validated_s.is_some())
    }

    pub(super) async fn counter(&self, name: &str) -> u64 {
        let status = self.handle.status().await.unwrap();
        status.counters.get(name).copied().unwrap_or_default()
    }
}

fn links(owner: &Owner, identity: &Identity, certificate: &Certificate) -> Links {
    let ring = owner.identity.member();
    let gatekeeper: Gatekeeper = Arc::new(move |shown| Certificate::decode(shown, &ring).ok());
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    let rules = PathRules::default();
    Links::new(identity.clone(), certificate, gatekeeper, rules, seed)
}

/// A member with a good certificate whose every word the test chooses.
pub(super) struct Puppet {
    pub(super) identity: Identity,
    pub(super) certificate: Certificate,
    pub(super) links: Links,
    pub(super) socket: UdpSocket,
    pub(super) heard: Vec<(MemberId, LinkMessage)>,
    /// Bytes of the packet that left last.
    pub(super) last_size: usize,
    pub(super) sequence: u64,
    pub(super) last_hello: Option<Vec<u8>>,
}

impl Puppet {
    pub(super) async fn new(owner: &mut Owner, name: &str) -> Puppet {
        Puppet::at(owner, name, None).await
    }

    /// A router, if it has an address.
    pub(super) async fn at(owner: &mut Owner, name: &str, address: Option<SocketAddr>) -> Puppet {
        let identity = Identity::generate().unwrap();
        let certificate = owner.issue(&identity, name, address);
        let links = links(owner, &identity, &certificate);
        Puppet {
            identity,
            certificate,
            links,
            socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            heard: Vec::new(),
            last_size: 0,
            last_hello: None,
            sequence: 0,
        }
    }

    /// It forgets everything, and says no goodbye.
    pub(super) fn restart(&mut self, owner: &Owner) {
        self.links = links(owner, &self.identity, &self.certificate);
        self.heard.clear();
    }

    pub(super) fn address(&self) -> Address {
        Address::Udp(self.socket.local_addr().unwrap())
    }

    /// Moves packets until something was heard for which `done`, or `time` is over.
    pub(super) async fn run(
        &mut self,
        time: Duration,
        done: impl Fn(&LinkMessage) -> bool,
    ) -> Option<LinkMessage> {
        let end = Instant::now() + time;
        loop {
            while let Some((to, packet)) = self.links.poll_transmit(Instant::now()) {
                self.last_size = packet.len();
                let to = to.socket().unwrap();
                self.socket.send_to(&packet, to).await.unwrap();
            }
            let mut found = None;
            while let Some(event) = self.links.poll_event() {
                let Event::Message(member, message) = event else {
                    continue;
                };
                if found.is_none() && done(&message) {
                    found = Some(message.clone());
                }
                self.heard.push((member, message));
            }
            if found.is_some() || Instant::now() >= end {
                return found;
            }
            let mut buffer = [0; 2048];
            let came = timeout(
                Duration::from_millis(20),
                self.socket.recv_from(&mut buffer),
            );
            let now = Instant::now();
            if let Ok(Ok((size, from))) = came.await {
                let from = Address::Udp(from);
                self.links.handle_packet(now, from, &buffer[..size]);
            }
            self.links.handle_timeout(Instant::now());
        }
    }

    pub(super) async fn hears(&mut self, done: impl Fn(&LinkMessage) -> bool) -> LinkMessage {
        let found = self.run(SOON, done).await;
        found.expect("it is said within a minute")
    }

    pub(super) async fn link_to(&mut self, honest: &Honest) {
        let now = Instant::now();
        let address = vec![Address::Udp(honest.address)];
        self.links.connect(now, &honest.certificate, address);
        self.echo(honest, 1).await;
    }

    /// Returns once everything said before has been heard. A datagram may be lost where a busy
    /// machine's buffers are full: it is said again.
    pub(super) async fn echo(&mut self, honest: &Honest, number: u64) {
        let heard = |message: &LinkMessage| *message == LinkMessage::EchoReply(number);
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            self.say(honest, LinkMessage::Echo(number));
            if self.run(REPEAT, heard).await.is_some() {
                return;
            }
        }
        panic!("no answer to echo {number} within a minute");
    }

    pub(super) fn say(&mut self, honest: &Honest, message: LinkMessage) {
        let to = honest.certificate.member();
        assert!(self.links.send(Instant::now(), &to, message));
    }

    /// Says where it claims to be; gives the bytes of the packet.
    pub(super) async fn hello(&mut self, honest: &Honest, addresses: &[Address]) -> usize {
        self.sequence += 1;
        let described = addresses.iter().cloned().map(AddressDescriptor::observed);
        let hello = Hello::sign(&self.identity, self.sequence, described.collect()).unwrap();
        let hello = hello.encoded().to_vec();
        self.last_hello = Some(hello.clone());
        self.say(honest, LinkMessage::Hello(hello.into()));
        self.run(Duration::ZERO, |_| false).await;
        self.last_size
    }

    pub(super) async fn pinged(&mut self) -> Ping {
        let ping = self.hears(|message| matches!(message, LinkMessage::Ping(_)));
        let LinkMessage::Ping(bytes) = ping.await else {
            panic!("a PING")
        };
        Ping::decode(&bytes).unwrap()
    }

    pub(super) fn pong(&mut self, honest: &Honest, pong: &Pong) {
        self.say(honest, LinkMessage::Pong(pong.encode().into()));
    }

    /// Answers the next PING truthfully. A busy machine may lose the HELLO before it, which is then
    /// sent again.
    pub(super) async fn answers(&mut self, honest: &Honest) -> Pong {
        let is_ping = |message: &LinkMessage| matches!(message, LinkMessage::Ping(_));
        let end = Instant::now() + SOON;
        let ping = loop {
            if let Some(LinkMessage::Ping(bytes)) = self.run(REPEAT, is_ping).await {
                break Ping::decode(&bytes).unwrap();
            }
            assert!(Instant::now() < end, "no PING within a minute");
            if let Some(hello) = self.last_hello.clone() {
                self.say(honest, LinkMessage::Hello(hello.into()));
            }
        };
        let pong = Pong::sign(&ping, &self.identity);
        self.pong(honest, &pong);
        self.echo(honest, self.sequence + 1_000_000).await;
        pong
    }
}

pub(super) const DIRECT: &str = "transports = [\"udp\", \"tcp\", \"quic\"]\n";
