//! A whole member, with real sockets, and members of its ring that do as they like.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringway_transport::limits::{
    ADVERTISER_BUDGET, ADVERTISER_BUDGET_INTERVAL, HELLO_ADDRESSES, MAIL_BUDGET,
};
use ringway_transport::{
    Address, AddressDescriptor, Hello, MemberId, PathRules, Ping, Pong, Signer as _,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{MemberHandle, Network, Runtime, Setup};
use crate::certificate::{Certificate, CertificateFields};
use crate::config::Config;
use crate::control::PathStatus;
use crate::directory::Directory;
use crate::identity::Identity;
use crate::link::{Event, Gatekeeper, LinkMessage, Links};
use crate::state::{Membership, State};
use crate::statement::Statement;

/// Generous: the limit only turns a hang into a failure.
const SOON: Duration = Duration::from_secs(60);

/// Longer than several repetitions of a PING would take.
const A_WHILE: Duration = Duration::from_secs(5);

/// A ring's owner, who numbers certificates.
struct Owner {
    identity: Identity,
    serial: u64,
}

impl Owner {
    fn new() -> Owner {
        let identity = Identity::generate().unwrap();
        Owner {
            identity,
            serial: 0,
        }
    }

    fn issue(&mut self, who: &Identity, name: &str, address: Option<SocketAddr>) -> Certificate {
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

/// An address of loopback that is free for UDP and TCP, below the ports that Linux gives to whoever asks for any.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(97);
    let free = || {
        let number = begin.wrapping_add(NEXT.fetch_add(2, Ordering::Relaxed));
        let port = 12_000 + u16::try_from(number % 7_000).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let is_free = std::net::UdpSocket::bind(address).is_ok()
            && std::net::TcpListener::bind(address).is_ok();
        is_free.then_some(address)
    };
    std::iter::from_fn(|| Some(free()))
        .flatten()
        .next()
        .unwrap()
}

/// A router as `ringway node` runs it.
struct Honest {
    handle: MemberHandle,
    certificate: Certificate,
    directory: Arc<Directory>,
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
    _home: tempfile::TempDir,
}

impl Honest {
    async fn start(owner: &mut Owner, name: &str, config: &str) -> Honest {
        let home = tempfile::tempdir().unwrap();
        let identity = Identity::generate().unwrap();
        let address = free_address();
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
        let nobody = "127.0.0.1:9".parse().unwrap();
        let directory =
            Arc::new(Directory::new(ring, "ring.example", statement, Some(nobody)).unwrap());
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
            _stop: stop,
            _home: home,
        }
    }

    async fn paths_to(&self, puppet: &Puppet) -> BTreeMap<String, PathStatus> {
        let paths = self.handle.paths(&puppet.certificate).await.unwrap().paths;
        paths
            .into_iter()
            .map(|path| (path.address.clone(), path))
            .collect()
    }

    /// Whether this address has answered a PING.
    async fn believes(&self, puppet: &Puppet, address: &Address) -> bool {
        let paths = self.paths_to(puppet).await;
        let path = paths.get(&address.to_string());
        path.is_some_and(|path| path.validated_s.is_some())
    }

    async fn counter(&self, name: &str) -> u64 {
        let status = self.handle.status().await.unwrap();
        status.counters.get(name).copied().unwrap_or_default()
    }
}

/// A member with a good certificate whose every word the test chooses.
struct Puppet {
    identity: Identity,
    certificate: Certificate,
    links: Links,
    socket: UdpSocket,
    heard: Vec<(MemberId, LinkMessage)>,
    /// Bytes of the packet that left last.
    last_size: usize,
    sequence: u64,
}

impl Puppet {
    async fn new(owner: &mut Owner, name: &str) -> Puppet {
        let identity = Identity::generate().unwrap();
        let certificate = owner.issue(&identity, name, None);
        let ring = owner.identity.member();
        let gatekeeper: Gatekeeper = Arc::new(move |shown| Certificate::decode(shown, &ring).ok());
        let seed = *blake3::hash(name.as_bytes()).as_bytes();
        let links = Links::new(
            identity.clone(),
            &certificate,
            gatekeeper,
            PathRules::default(),
            seed,
        );
        Puppet {
            identity,
            certificate,
            links,
            socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            heard: Vec::new(),
            last_size: 0,
            sequence: 0,
        }
    }

    fn address(&self) -> Address {
        Address::Udp(self.socket.local_addr().unwrap())
    }

    /// Moves packets until something was heard for which `done`, or `time` is over.
    async fn run(
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

    async fn hears(&mut self, done: impl Fn(&LinkMessage) -> bool) -> LinkMessage {
        let found = self.run(SOON, done).await;
        found.expect("it is said within a minute")
    }

    async fn link_to(&mut self, honest: &Honest) {
        let now = Instant::now();
        let address = vec![Address::Udp(honest.address)];
        self.links.connect(now, &honest.certificate, address);
        self.echo(honest, 1).await;
    }

    /// Returns once everything said before has been heard.
    async fn echo(&mut self, honest: &Honest, number: u64) {
        self.say(honest, LinkMessage::Echo(number));
        self.hears(|message| *message == LinkMessage::EchoReply(number))
            .await;
    }

    fn say(&mut self, honest: &Honest, message: LinkMessage) {
        let to = honest.certificate.member();
        assert!(self.links.send(Instant::now(), &to, message));
    }

    /// Says where it claims to be; gives the bytes of the packet.
    async fn hello(&mut self, honest: &Honest, addresses: &[Address]) -> usize {
        self.sequence += 1;
        let described = addresses.iter().cloned().map(AddressDescriptor::observed);
        let hello = Hello::sign(&self.identity, self.sequence, described.collect()).unwrap();
        self.say(honest, LinkMessage::Hello(hello.encoded().to_vec().into()));
        self.run(Duration::ZERO, |_| false).await;
        self.last_size
    }

    async fn pinged(&mut self) -> Ping {
        let ping = self.hears(|message| matches!(message, LinkMessage::Ping(_)));
        let LinkMessage::Ping(bytes) = ping.await else {
            panic!("a PING")
        };
        Ping::decode(&bytes).unwrap()
    }

    fn pong(&mut self, honest: &Honest, pong: &Pong) {
        self.say(honest, LinkMessage::Pong(pong.encode().into()));
    }

    /// Answers the next PING truthfully.
    async fn answers(&mut self, honest: &Honest) -> Pong {
        let ping = self.pinged().await;
        let pong = Pong::sign(&ping, &self.identity);
        self.pong(honest, &pong);
        self.echo(honest, self.sequence + 1_000_000).await;
        pong
    }
}

const DIRECT: &str = "transports = [\"udp\", \"tcp\", \"quic\"]\n";

/// Sizes of what arrives at a socket.
fn watched(socket: UdpSocket) -> mpsc::UnboundedReceiver<usize> {
    let (sizes, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok(size) = socket.recv(&mut buffer).await {
            if sizes.send(size).is_err() {
                return;
            }
        }
    });
    seen
}

fn all(seen: &mut mpsc::UnboundedReceiver<usize>) -> Vec<usize> {
    std::iter::from_fn(|| seen.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_third_party_named_in_a_hello_gets_one_message_no_larger_than_that() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    let victim = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let named = Address::Udp(victim.local_addr().unwrap());
    let mut seen = watched(victim);
    let size = mallory.hello(&oslo, std::slice::from_ref(&named)).await;
    // It is asked for another HELLO, and gives none.
    let asked = mallory.run(A_WHILE, |_| false).await;
    assert!(asked.is_none());
    let sizes = all(&mut seen);
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    assert!(sizes[0] <= size, "{sizes:?} for a HELLO of {size}");
    let wanted = |(_, message): &(_, LinkMessage)| *message == LinkMessage::HelloWanted;
    assert!(mallory.heard.iter().any(wanted));
    assert!(!oslo.believes(&mallory, &named).await);
    // Another HELLO is worth another message, and no more.
    let again = mallory.hello(&oslo, &[named]).await;
    mallory.run(A_WHILE, |_| false).await;
    let sizes = all(&mut seen);
    assert!(
        sizes.len() <= 1 && sizes.iter().sum::<usize>() <= again,
        "{sizes:?}"
    );
}

#[tokio::test]
async fn a_quic_handshake_goes_to_no_host_at_which_the_member_has_not_answered() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    // Another host, as far as anybody can tell.
    let victim = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let named = Address::Quic(victim.local_addr().unwrap());
    let own_host = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let own = Address::Quic(own_host.local_addr().unwrap());
    let (mut seen, mut seen_at_own) = (watched(victim), watched(own_host));
    let addresses = [named, own, mallory.address()];
    mallory.hello(&oslo, &addresses).await;
    mallory.answers(&oslo).await;
    assert!(oslo.believes(&mallory, &addresses[2]).await);
    let first = timeout(SOON, seen_at_own.recv()).await.unwrap();
    assert!(first > Some(1_000), "a handshake");
    mallory.run(A_WHILE, |_| false).await;
    assert_eq!(all(&mut seen), [0; 0]);
}

/// Takes mails and tells what the client said, line by line.
async fn relay(listener: TcpListener, lines: mpsc::UnboundedSender<String>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(take_mail(stream, lines.clone()));
    }
}

async fn take_mail(stream: TcpStream, lines: mpsc::UnboundedSender<String>) -> Option<()> {
    let (reading, mut writing) = stream.into_split();
    writing.write_all(b"220 mail.test\r\n").await.ok()?;
    let (mut reading, mut in_mail) = (BufReader::new(reading).lines(), false);
    while let Some(line) = reading.next_line().await.ok()? {
        in_mail &= line != ".";
        let answer = match line.get(..4) {
            _ if in_mail => "",
            Some("DATA") => "354 go on\r\n",
            Some("QUIT") => "221 bye\r\n",
            _ => "250 ok\r\n",
        };
        in_mail |= line == "DATA";
        lines.send(line).ok()?;
        writing.write_all(answer.as_bytes()).await.ok()?;
    }
    Some(())
}

#[tokio::test]
async fn a_mailing_list_named_in_hellos_gets_a_mail_or_two_that_no_list_passes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (lines, mut said) = mpsc::unbounded_channel();
    tokio::spawn(relay(listener, lines));
    let mut owner = Owner::new();
    let smtp = format!(
        "{DIRECT}[smtp]\nrelay = {{ host = \"127.0.0.1\", port = {port}, tls = \"plain\" }}\n"
    );
    let oslo = Honest::start(&mut owner, "oslo", &smtp).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    let list = |number: u32| {
        let text = format!("smtp://everybody@lists.example.org?X-Ringway=k{number}");
        text.parse::<Address>().unwrap()
    };
    mallory.hello(&oslo, &[list(0)]).await;
    let mails = |said: &[String]| {
        let to = "RCPT TO:<everybody@lists.example.org>";
        said.iter().filter(|line| line.starts_with(to)).count()
    };
    mallory.run(A_WHILE, |_| false).await;
    let mut all_said: Vec<String> = std::iter::from_fn(|| said.try_recv().ok()).collect();
    assert_eq!(mails(&all_said), 1, "{all_said:?}");
    // Forgotten and named again, and with another filter header each time.
    for number in 0..50 {
        mallory.hello(&oslo, &[list(number % 3)]).await;
        mallory.hello(&oslo, &[]).await;
        mallory.echo(&oslo, 100 + u64::from(number)).await;
    }
    mallory.run(A_WHILE, |_| false).await;
    all_said.extend(std::iter::from_fn(|| said.try_recv().ok()));
    let mails = mails(&all_said);
    let most = usize::try_from(MAIL_BUDGET).unwrap();
    assert!(mails <= most, "{mails} mails");
    let count = |begin: &str| {
        let begins = |line: &&String| line.starts_with(begin);
        all_said.iter().filter(begins).count()
    };
    assert_eq!(count("MAIL FROM:<>"), mails, "{all_said:?}");
    assert_eq!(count("Auto-Submitted: auto-"), mails, "{all_said:?}");
}

#[tokio::test]
async fn what_another_member_answers_to_a_ping_passed_on_proves_nothing() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let lima = Honest::start(&mut owner, "lima", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    mallory.link_to(&lima).await;
    // It claims to be where lima is, and where it is itself.
    let (limas, own) = (Address::Udp(lima.address), mallory.address());
    mallory.hello(&oslo, &[limas.clone(), own.clone()]).await;
    let ping = mallory.pinged().await;
    assert_eq!(ping.address, own, "the other one went to lima");
    // The owner of the address is asked by the challenge that came for mallory, in oslo's name and in its own.
    let passed_on = Ping {
        target: lima.certificate.member(),
        address: limas.clone(),
        ..ping.clone()
    };
    mallory.say(&lima, LinkMessage::Ping(passed_on.encode().into()));
    // An echo may overtake what came with it; a second one cannot.
    for number in [6, 7] {
        mallory.echo(&lima, number).await;
    }
    let is_pong = |(_, message): &(_, LinkMessage)| matches!(message, LinkMessage::Pong(_));
    assert!(
        !mallory.heard.iter().any(is_pong),
        "oslo has not asked lima"
    );
    let own_name = Ping {
        challenger: mallory.identity.member(),
        ..passed_on.clone()
    };
    mallory.say(&lima, LinkMessage::Ping(own_name.encode().into()));
    let pong = mallory.hears(|message| matches!(message, LinkMessage::Pong(_)));
    let LinkMessage::Pong(bytes) = pong.await else {
        panic!("a PONG")
    };
    let limas_word = Pong::decode(&bytes).unwrap();
    let dressed_up = Pong {
        challenger: ping.challenger,
        ..limas_word.clone()
    };
    let for_the_right_one = Pong {
        address: own.clone(),
        ..dressed_up.clone()
    };
    let for_another_address = Pong::sign(
        &Ping {
            address: limas.clone(),
            ..ping.clone()
        },
        &mallory.identity,
    );
    let before = oslo.counter("pongs_refused").await;
    for pong in [
        limas_word,
        dressed_up,
        for_the_right_one,
        for_another_address,
    ] {
        mallory.pong(&oslo, &pong);
    }
    mallory.echo(&oslo, 8).await;
    assert_eq!(oslo.counter("pongs_refused").await, before + 4);
    for address in [&limas, &own] {
        assert!(!oslo.believes(&mallory, address).await, "{address}");
    }
    // The truth is still heard.
    mallory.pong(&oslo, &Pong::sign(&ping, &mallory.identity));
    mallory.echo(&oslo, 9).await;
    assert!(oslo.believes(&mallory, &own).await);
    assert!(!oslo.believes(&mallory, &limas).await);
}

#[tokio::test]
async fn a_pong_of_yesterday_proves_nothing_today() {
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    mallory.link_to(&oslo).await;
    let own = mallory.address();
    mallory.hello(&oslo, std::slice::from_ref(&own)).await;
    let old = mallory.answers(&oslo).await;
    assert!(oslo.believes(&mallory, &own).await);
    // It moves away, and somebody comes back in its name.
    mallory.hello(&oslo, &[]).await;
    mallory.heard.clear();
    mallory.hello(&oslo, std::slice::from_ref(&own)).await;
    let ping = mallory.pinged().await;
    assert_ne!(ping.challenge, old.challenge);
    mallory.pong(&oslo, &old);
    mallory.echo(&oslo, 5).await;
    assert!(!oslo.believes(&mallory, &own).await);
    assert!(oslo.counter("pongs_refused").await > 0);
}

#[tokio::test]
async fn past_a_members_quota_nothing_more_is_sent_there() {
    const QUOTA: u32 = 20;
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    alice.link_to(&oslo).await;
    let modest = AddressDescriptor {
        quota: Some(QUOTA),
        ..AddressDescriptor::observed(alice.address())
    };
    let address = modest.address.to_string();
    let hello = Hello::sign(&alice.identity, 1, vec![modest]).unwrap();
    // What was said before the quota is known does not count: oslo's own HELLO.
    alice.echo(&oslo, 2).await;
    alice.heard.clear();
    let hello = hello.encoded().to_vec();
    alice.say(&oslo, LinkMessage::Hello(hello.into()));
    alice.answers(&oslo).await;
    for number in 0..2 * u64::from(QUOTA) {
        alice.say(&oslo, LinkMessage::Echo(100 + number));
        alice.run(Duration::from_millis(30), |_| false).await;
    }
    let count = alice.heard.len();
    assert!(count <= usize::try_from(QUOTA).unwrap(), "{count} messages");
    assert!(
        count >= usize::try_from(QUOTA).unwrap() / 2,
        "{count} messages"
    );
    let paths = oslo.paths_to(&alice).await;
    let reason = &paths[&address].reason;
    assert!(reason.contains("quota"), "{reason}");
}

#[tokio::test]
async fn ten_thousand_hellos_of_one_member_cost_others_nothing() {
    const HELLOS: u64 = 10_000;
    let mut owner = Owner::new();
    let oslo = Honest::start(&mut owner, "oslo", DIRECT).await;
    let mut mallory = Puppet::new(&mut owner, "mallory").await;
    let mut alice = Puppet::new(&mut owner, "alice").await;
    mallory.link_to(&oslo).await;
    alice.link_to(&oslo).await;
    // Whatever goes to this port of any address of 127/8.
    let everybody = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    let port = everybody.local_addr().unwrap().port();
    let mut seen = watched(everybody);
    let start = Instant::now();
    for number in 0..HELLOS {
        let host = |n: u64| {
            let [.., a, b, c] = (number * 16 + n + 256).to_be_bytes();
            Address::Udp(SocketAddr::from(([127, a, b, c], port)))
        };
        let addresses: Vec<Address> = (0..16).map(host).collect();
        mallory.hello(&oslo, &addresses).await;
        if number % 50 == 0 {
            mallory.echo(&oslo, 10 + number).await;
        }
        if number == HELLOS / 2 {
            // In the midst of it somebody else is served.
            let own = alice.address();
            alice.hello(&oslo, std::slice::from_ref(&own)).await;
            alice.answers(&oslo).await;
            assert!(oslo.believes(&alice, &own).await);
        }
    }
    mallory.echo(&oslo, 10 + HELLOS).await;
    let earned = start.elapsed().as_millis() / ADVERTISER_BUDGET_INTERVAL.as_millis() + 1;
    let most = usize::try_from(ADVERTISER_BUDGET).unwrap() + usize::try_from(earned).unwrap();
    let pings = all(&mut seen).len();
    assert!((1..=most).contains(&pings), "{pings} PINGs, at most {most}");
    let known = oslo.paths_to(&mallory).await;
    assert!(
        known.len() <= HELLO_ADDRESSES + 2,
        "{} are remembered",
        known.len()
    );
    assert!(oslo.directory.cached(&alice.certificate.member()).is_some());
}
