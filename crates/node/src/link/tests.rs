//! Two members and the network between them, in virtual time.

mod flood;
mod foreign;
mod pieces;
mod rekey;
mod relayed;
mod versions;

use std::time::Duration;

use ringway_transport::{AddressDescriptor, Signer as _};

use super::wire::Packet;
use super::*;
use crate::certificate::CertificateFields;
use crate::limits::HALF_OPEN;

/// A member, its address and what it has received.
struct Member {
    certificate: Certificate,
    links: Links,
    address: Address,
    up: usize,
    down: usize,
    received: Vec<LinkMessage>,
}

struct Net {
    now: Instant,
    members: Vec<Member>,
    /// Sender, receiver's address, packet; kept for attacks.
    seen: Vec<(Address, Address, Vec<u8>)>,
    /// Addresses that nothing reaches.
    dead: Vec<Address>,
}

fn address(last: u8) -> Address {
    Address::Udp(([192, 0, 2, last], 4000).into())
}

fn issue(owner: &Identity, identity: &Identity, name: &str) -> Certificate {
    let fields = CertificateFields {
        member: identity.member(),
        name: name.parse().unwrap(),
        address: None,
        nonce: [0; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial: 1,
    };
    Certificate::issue(owner, &fields)
}

fn member(owner: &Identity, name: &str, last: u8) -> Member {
    let identity = Identity::generate().unwrap();
    let certificate = issue(owner, &identity, name);
    restarted(owner, identity, certificate, last, 0)
}

fn restarted(
    owner: &Identity,
    identity: Identity,
    certificate: Certificate,
    last: u8,
    life: u8,
) -> Member {
    let ring = owner.member();
    let gatekeeper: Gatekeeper = Arc::new(move |shown| Certificate::decode(shown, &ring).ok());
    let mut links = Links::new(
        identity,
        &certificate,
        gatekeeper,
        PathRules::default(),
        [last.wrapping_add(life); 32],
    );
    links.set_date(Instant::now(), 1_700_000_000_000_000);
    Member {
        certificate,
        links,
        address: address(last),
        up: 0,
        down: 0,
        received: Vec::new(),
    }
}

impl Net {
    fn new(members: Vec<Member>) -> Net {
        Net {
            now: Instant::now(),
            members,
            seen: Vec::new(),
            dead: Vec::new(),
        }
    }

    fn pair() -> (Net, MemberId, MemberId) {
        let owner = Identity::generate().unwrap();
        let (a, b) = (member(&owner, "a", 1), member(&owner, "b", 2));
        let ids = (a.certificate.member(), b.certificate.member());
        (Net::new(vec![a, b]), ids.0, ids.1)
    }

    fn connect(&mut self, from: usize, to: usize) {
        let certificate = self.members[to].certificate.clone();
        let addresses = vec![self.members[to].address.clone()];
        let now = self.now;
        self.members[from]
            .links
            .connect(now, &certificate, addresses);
    }

    fn send(&mut self, from: usize, to: usize, message: LinkMessage) -> bool {
        let to = self.members[to].certificate.member();
        let now = self.now;
        self.members[from].links.send(now, &to, message)
    }

    /// Delivers everything, without time passing.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            let mut moved = false;
            for index in 0..self.members.len() {
                let from = self.members[index].address.clone();
                while let Some((to, packet)) = self.members[index].links.poll_transmit(self.now) {
                    moved = true;
                    self.seen.push((from.clone(), to.clone(), packet.clone()));
                    self.deliver(from.clone(), to, &packet);
                }
                let member = &mut self.members[index];
                while let Some(event) = member.links.poll_event() {
                    match event {
                        Event::Up(_) => member.up += 1,
                        Event::Down(..) => member.down += 1,
                        Event::Message(_, message) => member.received.push(message),
                        Event::EarlierVersion(_) | Event::OtherVersion(_) => {}
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the members never stop talking");
    }

    fn deliver(&mut self, from: Address, to: Address, packet: &[u8]) {
        // The TCP form of an address leads to the same member.
        let from = match to {
            Address::Tcp(_) => Address::Tcp(from.socket().unwrap()),
            _ => from,
        };
        if self.dead.contains(&to) || self.dead.contains(&from) {
            return;
        }
        let now = self.now;
        let owner = |member: &&mut Member| match to.socket() {
            Some(socket) => member.address.socket() == Some(socket),
            None => member.address == to,
        };
        if let Some(member) = self.members.iter_mut().find(owner) {
            member.links.handle_packet(now, from, packet);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let next = self
                .members
                .iter_mut()
                .filter_map(|m| m.links.poll_timeout())
                .min();
            match next {
                Some(next) if next <= end => self.now = next.max(self.now),
                _ => break,
            }
            let now = self.now;
            for member in &mut self.members {
                member.links.handle_timeout(now);
            }
        }
        self.now = end;
    }
}

fn text(text: &str) -> LinkMessage {
    LinkMessage::Overlay(text.as_bytes().to_vec().into())
}

#[test]
fn early_messages_arrive_after_the_handshake() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    assert!(net.send(0, 1, text("one")) && net.send(0, 1, text("two")));
    net.settle();
    assert_eq!(net.members[1].received, [text("one"), text("two")]);
    assert!(net.send(1, 0, text("back")));
    net.settle();
    assert_eq!(net.members[0].received, [text("back")]);
    assert!(net.members[0].links.is_up(&b));
    assert_eq!((net.members[0].up, net.members[1].up), (1, 1));
}

#[test]
fn without_a_link_nothing_is_sent() {
    let (mut net, _, _) = Net::pair();
    assert!(!net.send(0, 1, text("lost")));
}

#[test]
fn both_may_begin_at_once() {
    let (mut net, a, b) = Net::pair();
    net.connect(0, 1);
    net.connect(1, 0);
    net.send(0, 1, text("from a"));
    net.send(1, 0, text("from b"));
    net.settle();
    assert_eq!(net.members[1].received, [text("from a")]);
    assert_eq!(net.members[0].received, [text("from b")]);
    assert!(net.members[0].links.is_up(&b) && net.members[1].links.is_up(&a));
}

#[test]
fn a_member_of_another_ring_gets_no_link() {
    let (mut net, _, _) = Net::pair();
    let stranger = member(&Identity::generate().unwrap(), "a", 3);
    let id = stranger.certificate.member();
    net.members.push(stranger);
    net.connect(2, 1);
    net.send(2, 1, text("let me in"));
    net.pass(Duration::from_secs(10));
    assert!(net.members[1].received.is_empty() && !net.members[1].links.knows(&id));
    assert!(net.members[1].links.counters().handshakes_refused > 0);
}

#[test]
fn somebody_elses_certificate_does_not_help() {
    let owner = Identity::generate().unwrap();
    let honest = member(&owner, "a", 1);
    // A thief has copied the certificate but not the key.
    let thief = restarted(
        &owner,
        Identity::generate().unwrap(),
        honest.certificate.clone(),
        3,
        0,
    );
    let mut net = Net::new(vec![thief, member(&owner, "b", 2)]);
    net.connect(0, 1);
    net.send(0, 1, text("I am a"));
    net.pass(Duration::from_secs(10));
    assert!(net.members[1].received.is_empty());
    assert_eq!(net.members[1].up, 0);
}

#[test]
fn replayed_and_changed_packets_are_dropped() {
    let (mut net, _, _) = Net::pair();
    net.connect(0, 1);
    net.send(0, 1, text("once"));
    net.settle();
    let recorded = net.seen.clone();
    for (from, to, packet) in &recorded {
        net.deliver(from.clone(), to.clone(), packet);
        for index in 0..packet.len() {
            let mut changed = packet.clone();
            changed[index] ^= 0x10;
            net.deliver(from.clone(), to.clone(), &changed);
        }
        for length in 0..packet.len() {
            net.deliver(from.clone(), to.clone(), &packet[..length]);
        }
    }
    net.settle();
    assert_eq!(net.members[1].received, [text("once")]);
    net.send(0, 1, text("still here"));
    net.send(1, 0, text("me too"));
    net.settle();
    assert_eq!(net.members[1].received, [text("once"), text("still here")]);
    assert_eq!(net.members[0].received, [text("me too")]);
}

#[test]
fn old_handshakes_are_bounded() {
    let (mut net, _, _) = Net::pair();
    for _ in 0..(HALF_OPEN + 50) {
        net.connect(0, 1);
        let Some((to, packet)) = net.members[0].links.poll_transmit(net.now) else {
            panic!("an initiation");
        };
        let from = net.members[0].address.clone();
        net.deliver(from.clone(), to.clone(), &packet);
        let b = net.members[1].certificate.member();
        net.members[0].links.forget(&b, LinkEnd::Silent);
    }
    assert!(net.members[1].links.half_open.len() <= HALF_OPEN);
    assert_eq!(
        net.members[1].up, 0,
        "nobody has shown that it got an answer"
    );
}

#[test]
fn lost_handshake_packets_are_repeated() {
    let (mut net, _, _) = Net::pair();
    net.dead.push(address(2));
    net.connect(0, 1);
    net.send(0, 1, text("patience"));
    net.pass(Duration::from_millis(900));
    net.dead.clear();
    net.pass(Duration::from_secs(2));
    assert_eq!(net.members[1].received, [text("patience")]);
}

#[test]
fn mail_is_tried_last_and_once() {
    let (mut net, _, b) = Net::pair();
    let mail: Address = "smtp://b@example.org?X-Ringway=k3".parse().unwrap();
    let fast = net.members[1].address.clone();
    net.dead.push(fast.clone());
    let certificate = net.members[1].certificate.clone();
    let now = net.now;
    net.members[0]
        .links
        .connect(now, &certificate, vec![fast, mail.clone()]);
    net.send(0, 1, text("by mail"));
    net.pass(Duration::from_secs(600));
    let mailed: Vec<Vec<u8>> = net
        .seen
        .iter()
        .filter(|(_, to, _)| *to == mail)
        .map(|(_, _, packet)| packet.clone())
        .collect();
    assert_eq!(mailed.len(), 1);
    assert!(net.members[0].links.knows(&b), "the answer may still come");
    // It comes ten minutes later, by mail too.
    let reply: Address = "smtp://a@example.org?X-Ringway=k4".parse().unwrap();
    let now = net.now;
    net.members[1].links.handle_packet(now, reply, &mailed[0]);
    let (_, answer) = net.members[1].links.poll_transmit(net.now).unwrap();
    net.now += Duration::from_secs(600);
    let now = net.now;
    net.members[0]
        .links
        .handle_packet(now, mail.clone(), &answer);
    assert!(net.members[0].links.is_up(&b));
    let (to, first) = net.members[0].links.poll_transmit(net.now).unwrap();
    assert_eq!(to, mail);
    net.now += Duration::from_secs(600);
    let now = net.now;
    net.members[1].links.handle_packet(
        now,
        "smtp://a@example.org?X-Ringway=k4".parse().unwrap(),
        &first,
    );
    let received = std::iter::from_fn(|| net.members[1].links.poll_event());
    assert!(
        received
            .into_iter()
            .any(|event| matches!(event, Event::Message(_, m) if m == text("by mail")))
    );
}

#[test]
fn an_address_from_others_gets_one_packet() {
    for sure in [vec![], vec![address(7)]] {
        let (mut net, _, b) = Net::pair();
        let certificate = net.members[1].certificate.clone();
        let (victim, now) = (address(9), net.now);
        net.members[0]
            .links
            .connect_vouched(now, &certificate, sure, vec![victim.clone()]);
        net.pass(Duration::from_secs(60));
        let sent = net.seen.iter().filter(|(_, to, _)| *to == victim);
        assert_eq!(sent.count(), 1);
        assert!(!net.members[0].links.knows(&b), "nobody was there");
    }
}

#[test]
fn addresses_from_others_lead_to_a_link() {
    let (mut net, _, b) = Net::pair();
    let certificate = net.members[1].certificate.clone();
    let (there, now) = (net.members[1].address.clone(), net.now);
    net.members[0]
        .links
        .connect_vouched(now, &certificate, vec![address(7)], vec![there]);
    net.settle();
    assert!(net.members[0].links.is_up(&b));
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let (mut net, _, b) = Net::pair();
    net.dead.push(address(2));
    net.connect(0, 1);
    net.pass(Duration::from_secs(20));
    assert!(!net.members[0].links.knows(&b));
    assert_eq!(net.members[0].down, 1);
}

#[test]
fn a_restarted_peer_gets_another_link() {
    let owner = Identity::generate().unwrap();
    let identity = Identity::generate().unwrap();
    let certificate = issue(&owner, &identity, "b");
    let b = restarted(&owner, identity.clone(), certificate.clone(), 2, 0);
    let mut net = Net::new(vec![member(&owner, "a", 1), b]);
    net.connect(0, 1);
    net.send(0, 1, text("first life"));
    net.settle();
    net.members[1] = restarted(&owner, identity, certificate, 2, 77);
    net.send(0, 1, text("lost"));
    net.pass(Duration::from_secs(1));
    net.send(0, 1, text("second life"));
    net.pass(Duration::from_secs(1));
    assert_eq!(net.members[1].received.last(), Some(&text("second life")));
    assert_eq!(
        net.members[0].up, 2,
        "whoever stayed is told, to say again what the other forgot"
    );
}

#[test]
fn silent_paths_give_way_to_proven_ones() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.send(0, 1, text("by udp"));
    net.settle();
    let udp = net.members[1].address.clone();
    let tcp = Address::Tcp(udp.socket().unwrap());
    let proved = [&udp, &tcp].map(|address| {
        let rtt = Duration::from_millis(1);
        Proved {
            descriptor: AddressDescriptor::observed(address.clone()),
            rtt,
            age: rtt,
        }
    });
    let now = net.now;
    net.members[0].links.offer_paths(now, &b, &proved);
    net.dead.push(udp);
    for _ in 0..8 {
        net.send(0, 1, text("anyone"));
        net.pass(Duration::from_secs(1));
    }
    net.send(0, 1, text("by tcp"));
    net.settle();
    assert_eq!(net.members[1].received.last(), Some(&text("by tcp")));
    assert!(net.members[0].links.is_up(&b));
}

#[test]
fn dead_peers_and_unused_links_are_dropped() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.settle();
    net.pass(Duration::from_secs(200));
    assert!(!net.members[0].links.knows(&b), "nobody used the link");

    net.connect(0, 1);
    net.send(0, 1, text("hello"));
    net.settle();
    net.dead.push(address(2));
    net.pass(Duration::from_secs(10));
    assert!(!net.members[0].links.knows(&b), "three probes were lost");
}

#[test]
fn a_used_link_measures_its_round_trip() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    for _ in 0..50 {
        net.send(0, 1, text("tick"));
        net.pass(Duration::from_secs(5));
    }
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(net.members[0].down, 0);
    let (_, peer) = net.members[0].links.up().next().unwrap();
    assert!(peer.rtt().is_some());
}

#[test]
fn echoes_are_reported_and_probes_are_not() {
    let (mut net, _, _) = Net::pair();
    net.connect(0, 1);
    net.send(0, 1, LinkMessage::Echo(7));
    net.send(0, 1, text("and more"));
    net.pass(Duration::from_secs(30));
    let (_, peer) = net.members[0].links.up().next().unwrap();
    assert!(peer.rtt().is_some(), "a probe was answered");
    let replies = [LinkMessage::EchoReply(0), LinkMessage::EchoReply(7)];
    assert!(
        net.members[0]
            .received
            .iter()
            .all(|received| replies.contains(received))
    );
    assert!(net.members[0].received.contains(&replies[1]));
}

#[test]
fn probes_have_the_asked_length() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.pass(Duration::from_secs(1));
    let hello = AddressDescriptor::new(address(2), 8_952, 10);
    let proved = ringway_transport::Proved {
        descriptor: hello,
        rtt: Duration::from_millis(1),
        age: Duration::ZERO,
    };
    let now = net.now;
    net.members[0].links.offer_paths(now, &b, &[proved]);
    net.pass(Duration::from_secs(5));
    let longest = |net: &Net| net.seen.iter().map(|(.., packet)| packet.len()).max();
    assert!(
        longest(&net) < Some(1_200),
        "small talk needs no long packets"
    );
    let long = LinkMessage::Overlay(vec![7; 20_000].into());
    net.send(0, 1, long.clone());
    net.pass(Duration::from_secs(5));
    assert!(net.members[1].received.contains(&long));
    let probed = |length: usize| net.seen.iter().any(|(.., packet)| packet.len() == length);
    assert!(probed(1_452) && probed(8_952));
    assert_eq!(
        longest(&net),
        Some(8_952),
        "a longer one no transport takes"
    );
    let long = LinkMessage::Overlay(vec![7; 3_000].into());
    net.send(0, 1, long.clone());
    net.pass(Duration::from_secs(1));
    assert!(net.members[1].received.contains(&long));
}

#[test]
fn a_goodbye_ends_the_link_on_both_sides() {
    let (mut net, a, b) = Net::pair();
    net.connect(0, 1);
    net.settle();
    let now = net.now;
    net.members[0].links.close(now, &b, LinkEnd::Unused);
    net.settle();
    assert!(!net.members[0].links.knows(&b) && !net.members[1].links.knows(&a));
    assert_eq!((net.members[0].down, net.members[1].down), (1, 1));
}

#[test]
fn claims_of_unknown_sessions_end_none() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.send(0, 1, text("hello"));
    net.settle();
    let (from, to) = (
        net.members[1].address.clone(),
        net.members[0].address.clone(),
    );
    for receiver in 0..2_000_u32 {
        net.deliver(
            from.clone(),
            to.clone(),
            &Packet::Unknown { receiver }.encode(),
        );
    }
    let data = net
        .seen
        .iter()
        .find_map(|(_, _, packet)| match Packet::parse(packet) {
            Some(Packet::Data { receiver, .. }) => Some(receiver),
            _ => None,
        });
    net.deliver(
        from,
        to,
        &Packet::Unknown {
            receiver: data.unwrap(),
        }
        .encode(),
    );
    net.send(0, 1, text("still up"));
    net.settle();
    assert_eq!(net.members[1].received.last(), Some(&text("still up")));
    assert!(net.members[0].links.is_up(&b));
}

#[test]
fn foreign_first_data_does_not_redirect_the_link() {
    let (mut net, a, _) = Net::pair();
    net.connect(0, 1);
    let now = net.now;
    let (_, init) = net.members[0].links.poll_transmit(net.now).unwrap();
    net.members[1].links.handle_packet(now, address(1), &init);
    let (_, resp) = net.members[1].links.poll_transmit(net.now).unwrap();
    net.members[0].links.handle_packet(now, address(2), &resp);
    let (_, data) = net.members[0].links.poll_transmit(net.now).unwrap();
    net.members[1].links.handle_packet(now, address(9), &data);
    let mut elsewhere = Vec::new();
    net.members[1].links.send(now, &a, text("big answer"));
    while let Some((to, packet)) = net.members[1].links.poll_transmit(net.now) {
        if to != address(1) {
            elsewhere.push((to, packet.len()));
        }
    }
    let one_echo = |sent: &[(Address, usize)]| {
        sent.len() <= 1
            && sent
                .iter()
                .all(|(to, size)| *to == address(9) && *size < 64)
    };
    assert!(one_echo(&elsewhere), "sent to a third party: {elsewhere:?}");
}

#[test]
fn members_cannot_move_links_to_victims() {
    let (mut net, a, b) = Net::pair();
    net.connect(0, 1);
    net.settle();
    net.pass(Duration::from_secs(3));
    net.now += Duration::from_secs(3);
    let now = net.now;
    while net.members[0].links.poll_transmit(net.now).is_some() {}
    net.members[0].links.send(now, &b, text("ask"));
    let (_, data) = net.members[0].links.poll_transmit(net.now).unwrap();
    net.members[1].links.handle_packet(now, address(9), &data);
    let (to, test) = net.members[1].links.poll_transmit(net.now).unwrap();
    assert!(
        to == address(9) && test.len() < 64,
        "one small echo tests the new address"
    );
    net.members[1].links.send(now, &a, text("big answer"));
    let (to, _) = net.members[1].links.poll_transmit(net.now).unwrap();
    assert_eq!(to, address(1), "the answer goes to a third party");
    // Only the answer to that echo moves the link.
    net.members[0].links.handle_packet(now, address(2), &test);
    net.members[0].address = address(9);
    net.settle();
    net.members[1].links.send(now, &a, text("moved"));
    let (to, _) = net.members[1].links.poll_transmit(net.now).unwrap();
    assert_eq!(to, address(9));
}

#[test]
fn revoked_half_open_handshakes_become_no_link() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let owner = Identity::generate().unwrap();
    let a = member(&owner, "a", 1);
    let mut b = member(&owner, "b", 2);
    let revoked = Arc::new(AtomicBool::new(false));
    let (gate, ring) = (Arc::clone(&revoked), owner.member());
    b.links.gatekeeper = Arc::new(move |shown| {
        (!gate.load(Ordering::SeqCst))
            .then(|| Certificate::decode(shown, &ring).ok())
            .flatten()
    });
    let id = a.certificate.member();
    let mut net = Net::new(vec![a, b]);
    net.connect(0, 1);
    let now = net.now;
    let (_, init) = net.members[0].links.poll_transmit(net.now).unwrap();
    net.members[1].links.handle_packet(now, address(1), &init);
    let (_, resp) = net.members[1].links.poll_transmit(net.now).unwrap();
    revoked.store(true, Ordering::SeqCst);
    // What Runtime::end_revoked does: only links that are up.
    let up: Vec<MemberId> = net.members[1].links.up().map(|(m, _)| *m).collect();
    for m in up {
        net.members[1].links.close(now, &m, LinkEnd::Unused);
    }
    net.members[0].links.handle_packet(now, address(2), &resp);
    net.settle();
    assert!(
        !net.members[1].links.is_up(&id),
        "a revoked member has a link"
    );
}

#[test]
fn one_member_does_not_push_out_others_handshakes() {
    let owner = Identity::generate().unwrap();
    let (a, b, c) = (
        member(&owner, "a", 1),
        member(&owner, "b", 2),
        Identity::generate().unwrap(),
    );
    let evil = issue(&owner, &c, "evil");
    let ids = a.certificate.member();
    let mut net = Net::new(vec![a, b]);
    net.connect(0, 1);
    let now = net.now;
    let (_, init) = net.members[0].links.poll_transmit(net.now).unwrap();
    net.members[1].links.handle_packet(now, address(1), &init);
    let (_, resp) = net.members[1].links.poll_transmit(net.now).unwrap();
    let b_id = net.members[1].certificate.member();
    for i in 0..u32::try_from(HALF_OPEN).unwrap() {
        let shown = shown::Shown {
            newest: 0,
            time: 1,
            certificate: evil.as_bytes().to_vec(),
        };
        let (_, noise) =
            handshake::Initiator::begin(&c, &b_id, LinkVersion::Newest, &shown).unwrap();
        let packet = Packet::Initiation {
            sender: i,
            cookie: &cookie::NO_COOKIE,
            noise: &noise,
        }
        .encode();
        net.members[1].links.handle_packet(now, address(7), &packet);
    }
    while net.members[1].links.poll_transmit(net.now).is_some() {}
    net.members[0].links.handle_packet(now, address(2), &resp);
    let (_, data) = net.members[0].links.poll_transmit(net.now).unwrap();
    net.members[1].links.handle_packet(now, address(1), &data);
    assert!(
        net.members[1].links.is_up(&ids),
        "an honest handshake was lost to one member's flood"
    );
}
