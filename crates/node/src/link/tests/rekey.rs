//! New keys for links that are up.

use ringway_transport::LatencyClass;

use super::*;
use crate::limits::SESSION_TIME;

/// New keys after some messages, and after a minute.
fn tiny() -> KeyBounds {
    KeyBounds {
        rekey_after: Duration::from_secs(60),
        rekey_messages: 20,
        messages: 2_000,
        old_for: Duration::from_secs(10),
        pause: Duration::ZERO,
        ..KeyBounds::default()
    }
}

fn linked(bounds: [KeyBounds; 2]) -> (Net, MemberId, MemberId) {
    let (mut net, a, b) = Net::pair();
    for (member, bounds) in net.members.iter_mut().zip(bounds) {
        member.links.bounds = bounds;
    }
    net.connect(0, 1);
    net.settle();
    (net, a, b)
}

fn rekeys(net: &Net) -> [u64; 2] {
    [0, 1].map(|index| net.members[index].links.counters().rekeys)
}

fn numbered(number: u32) -> LinkMessage {
    LinkMessage::Message(number.to_be_bytes().to_vec().into())
}

/// What is left of `received` without the answers to echoes.
fn said(member: &Member) -> Vec<LinkMessage> {
    let said = |message: &&LinkMessage| !matches!(message, LinkMessage::EchoReply(_));
    member.received.iter().filter(said).cloned().collect()
}

#[test]
fn many_rekeys_lose_and_reorder_nothing() {
    let (mut net, _, _) = linked([tiny(), tiny()]);
    let mut sent: [Vec<LinkMessage>; 2] = [Vec::new(), Vec::new()];
    for number in 0..2_000 {
        for (from, to) in [(0, 1), (1, 0)] {
            let message = match number % 2 {
                0 => numbered(number),
                _ => text(&number.to_string()),
            };
            assert!(net.send(from, to, message.clone()));
            sent[from].push(message);
        }
        net.settle();
        if number % 7 == 0 {
            net.pass(Duration::from_millis(3));
        }
    }
    net.pass(Duration::from_secs(1));
    assert!(
        rekeys(&net).iter().all(|count| *count > 20),
        "{:?}",
        rekeys(&net)
    );
    for (sent, to) in sent.iter().zip([1, 0]) {
        // Messages of applications wait for reports, and others go before them.
        let received = said(&net.members[to]);
        for paced in [true, false] {
            let sent = sent.iter().filter(|message| message.is_paced() == paced);
            let received = received
                .iter()
                .filter(|message| message.is_paced() == paced);
            assert!(
                sent.eq(received),
                "lost, repeated or out of order: paced {paced}"
            );
        }
    }
    let ups = net.members.iter().map(|member| (member.up, member.down));
    assert_eq!(ups.collect::<Vec<_>>(), [(1, 0); 2], "nobody above notices");
    let counters = net.members.iter().map(|member| member.links.counters());
    for counters in counters {
        assert_eq!(
            counters.packets_rejected + counters.packets_unknown_session,
            0
        );
        assert_eq!(counters.path_changes, 1, "the handshake of the beginning");
    }
}

/// Packets take a while, so that those of the old keys are under way when the new ones come.
#[test]
fn what_is_under_way_with_old_keys_arrives() {
    const DELAY: Duration = Duration::from_millis(50);
    let (mut net, _, _) = linked([tiny(), tiny()]);
    let mut on_way: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
    let mut received = Vec::new();
    let mut number = 0;
    let end = net.now + Duration::from_secs(20);
    while net.now < end {
        if number < 600 {
            net.send(0, 1, text(&number.to_string()));
            number += 1;
        }
        let now = net.now;
        for from in [0, 1] {
            let links = &mut net.members[from].links;
            links.handle_timeout(now);
            while let Some((_, packet)) = links.poll_transmit(now) {
                on_way.push_back((now + DELAY, 1 - from, packet));
            }
        }
        while let Some((_, to, packet)) = on_way.pop_front_if(|(at, ..)| *at <= now) {
            let from = net.members[1 - to].address.clone();
            net.members[to].links.handle_packet(now, from, &packet);
        }
        while let Some(event) = net.members[1].links.poll_event() {
            if let Event::Message(_, message @ LinkMessage::Overlay(_)) = event {
                received.push(message);
            }
        }
        net.now += Duration::from_millis(5);
    }
    let sent: Vec<LinkMessage> = (0..600).map(|number| text(&number.to_string())).collect();
    assert!(rekeys(&net)[0] > 10, "{:?}", rekeys(&net));
    assert_eq!(received, sent);
}

#[test]
fn both_may_want_new_keys_at_once() {
    let (mut net, a, b) = linked([tiny(), tiny()]);
    let now = net.now;
    for round in 0..20 {
        net.members[0].links.rekey(now, b);
        net.members[1].links.rekey(now, a);
        net.send(0, 1, text(&format!("a {round}")));
        net.send(1, 0, text(&format!("b {round}")));
        net.settle();
        let newest = [0, 1].map(|index| {
            let (_, peer) = net.members[index].links.up().next().unwrap();
            peer.newest_epoch()
        });
        assert_eq!(newest[0], newest[1], "both use the same session");
        assert!(newest[0] > 2 * round);
    }
    for (index, from) in [(1, "a"), (0, "b")] {
        let sent: Vec<LinkMessage> = (0..20).map(|n| text(&format!("{from} {n}"))).collect();
        assert_eq!(said(&net.members[index]), sent);
    }
    assert!(rekeys(&net).iter().all(|count| *count >= 20));
}

#[test]
fn only_links_in_use_rekey_by_time() {
    let (mut net, _, b) = linked([KeyBounds::default(), KeyBounds::default()]);
    for _ in 0..60 {
        let now = net.now;
        net.members[0].links.keep(now, &b);
        net.pass(Duration::from_secs(50));
    }
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(rekeys(&net), [0, 0], "nothing was said in 50 minutes");
    for _ in 0..60 {
        net.send(0, 1, text("tick"));
        net.pass(Duration::from_secs(50));
    }
    // One at once, and one every 15 minutes.
    assert_eq!(rekeys(&net), [4, 4]);
    assert_eq!(net.members[0].up, 1);
    // A link that is only kept does not end for want of keys.
    let rounds = SESSION_TIME.as_secs() * 2 / 50;
    for _ in 0..rounds {
        let now = net.now;
        net.members[0].links.keep(now, &b);
        net.pass(Duration::from_secs(50));
    }
    assert_eq!((net.members[0].up, net.members[0].down), (1, 0));
    assert!(rekeys(&net)[0] <= 8, "{:?}", rekeys(&net));
}

#[test]
fn a_lone_talker_that_did_not_begin_rekeys() {
    let (mut net, _, _) = linked([tiny(), tiny()]);
    for number in 0..50 {
        net.send(1, 0, text(&number.to_string()));
        net.settle();
        let [first, _] = rekeys(&net);
        assert!(number >= 22 || first == 0, "message {number}");
        assert!(number < 26 || first > 0, "message {number}");
    }
    assert_eq!(said(&net.members[0]).len(), 50);
}

#[test]
fn by_volume_a_link_gets_new_keys() {
    let bounds = KeyBounds {
        rekey_bytes: 10_000,
        ..KeyBounds::default()
    };
    let (mut net, _, _) = linked([bounds.clone(), bounds]);
    for _ in 0..12 {
        net.send(0, 1, LinkMessage::Overlay(vec![7; 1_000].into()));
        net.settle();
    }
    assert_eq!(rekeys(&net), [1, 1]);
    assert_eq!(said(&net.members[1]).len(), 12);
}

/// Whichever packet of the handshake is lost, messages go on, and new keys come.
#[test]
fn a_lost_handshake_packet_stops_nothing() {
    for lost in [1, 2, 3] {
        let (mut net, _, _) = linked([tiny(), tiny()]);
        let mut dropped = 0;
        for number in 0..100_u32 {
            net.send(0, 1, text(&number.to_string()));
            let now = net.now;
            // As `settle`, but for one packet.
            for _ in 0..4 {
                for from in [0, 1] {
                    while let Some((to, packet)) = net.members[from].links.poll_transmit(now) {
                        if packet[0] == lost && lost < 3 && dropped < 2 {
                            dropped += 1;
                            continue;
                        }
                        // The first packet over a session that is new since the beginning, on which
                        // only an echo goes.
                        let epoch = packet.get(5..9).map(|bytes| bytes[3]);
                        if lost == 3
                            && packet[0] == 3
                            && epoch > Some(2)
                            && packet.len() < 40
                            && dropped < 1
                        {
                            dropped += 1;
                            continue;
                        }
                        let from = net.members[from].address.clone();
                        net.deliver(from, to, &packet);
                    }
                }
            }
            net.pass(Duration::from_millis(300));
        }
        net.pass(Duration::from_secs(5));
        let sent: Vec<LinkMessage> = (0..100).map(|number| text(&number.to_string())).collect();
        assert_eq!(said(&net.members[1]), sent, "kind {lost}");
        assert!(rekeys(&net).iter().all(|count| *count >= 1), "kind {lost}");
        assert!(dropped > 0 || lost == 3);
        assert_eq!(net.members[0].up, 1);
    }
}

#[test]
fn a_lost_confirmation_is_followed_by_another() {
    let (mut net, _, b) = linked([tiny(), tiny()]);
    let now = net.now;
    net.members[0].links.rekey(now, b);
    let (from, to) = (address(1), address(2));
    let (_, init) = net.members[0].links.poll_transmit(now).unwrap();
    net.members[1].links.handle_packet(now, from.clone(), &init);
    let (_, answer) = net.members[1].links.poll_transmit(now).unwrap();
    net.members[0].links.handle_packet(now, to, &answer);
    let (_, echo) = net.members[0].links.poll_transmit(now).unwrap();
    assert_eq!(echo[0], 3, "lost");
    assert_eq!(rekeys(&net), [1, 0]);
    net.pass(Duration::from_secs(3));
    assert_eq!(rekeys(&net), [1, 1]);
}

#[test]
fn new_keys_keep_the_peers_path() {
    let (mut net, a, b) = linked([tiny(), tiny()]);
    let tcp = Address::Tcp(address(1).socket().unwrap());
    let proved = Proved {
        descriptor: AddressDescriptor::observed(tcp.clone()),
        rtt: Duration::from_millis(1),
        age: Duration::ZERO,
    };
    let now = net.now;
    net.members[1].links.offer_paths(now, &a, &[proved]);
    net.members[1].links.abandon_path(now, &address(1));
    assert_eq!(net.members[1].links.path(&a), Some(&tcp));
    net.members[0].links.rekey(now, b);
    net.settle();
    assert_eq!(rekeys(&net), [1, 1]);
    assert_eq!(net.members[0].links.path(&b), Some(&address(2)));
    assert_eq!(net.members[1].links.path(&a), Some(&tcp));
}

fn data(net: &Net, epoch_above: u32) -> Vec<(Address, Address, Vec<u8>)> {
    let is_data = |packet: &[u8]| match Packet::parse(packet) {
        Some(Packet::Data { epoch, .. }) => epoch > epoch_above,
        _ => false,
    };
    let seen = net.seen.iter().filter(|(.., packet)| is_data(packet));
    seen.cloned().collect()
}

#[test]
fn packets_of_dropped_keys_are_refused() {
    let (mut net, _, b) = linked([tiny(), tiny()]);
    net.send(0, 1, text("kept back"));
    let now = net.now;
    let mut late = Vec::new();
    while let Some((_, packet)) = net.members[0].links.poll_transmit(now) {
        late.push(packet);
    }
    net.send(0, 1, text("kept back longer"));
    let mut later = Vec::new();
    while let Some((_, packet)) = net.members[0].links.poll_transmit(now) {
        later.push(packet);
    }
    net.members[0].links.rekey(now, b);
    net.settle();
    assert_eq!(rekeys(&net), [1, 1]);
    let sessions = |net: &Net| net.members[1].links.indices.sessions.len();
    assert_eq!(sessions(&net), 2);
    net.pass(Duration::from_secs(5));
    for packet in &late {
        net.deliver(address(1), address(2), packet);
    }
    net.settle();
    assert_eq!(
        said(&net.members[1]),
        [text("kept back")],
        "still understood"
    );
    net.pass(Duration::from_secs(10));
    assert_eq!(sessions(&net), 1, "the old keys are gone");
    for packet in later.iter().chain(&late) {
        net.deliver(address(1), address(2), packet);
    }
    net.settle();
    assert_eq!(said(&net.members[1]), [text("kept back")]);
}

#[test]
fn old_keys_are_refused_on_time_without_housekeeping() {
    let (mut net, _, b) = linked([tiny(), tiny()]);
    net.send(0, 1, text("kept back"));
    let now = net.now;
    let (_, late) = net.members[0].links.poll_transmit(now).unwrap();
    net.members[0].links.rekey(now, b);
    net.settle();
    net.now += Duration::from_secs(10);
    net.deliver(address(1), address(2), &late);
    net.settle();
    assert!(said(&net.members[1]).is_empty());
}

#[test]
fn packets_are_bound_to_their_epoch() {
    let (mut net, _, b) = linked([tiny(), tiny()]);
    net.send(0, 1, text("old"));
    net.settle();
    let before = data(&net, 0);
    let highest = net.members[0].links.peers.get(&b).unwrap().newest_epoch();
    let now = net.now;
    net.members[0].links.rekey(now, b);
    net.settle();
    let received = net.members[1].received.len();
    let after = data(&net, highest);
    let Some(Packet::Data {
        receiver, epoch, ..
    }) = after
        .iter()
        .find(|(_, to, _)| *to == address(2))
        .and_then(|(.., packet)| Packet::parse(packet))
    else {
        panic!("a packet of the new epoch")
    };
    for (from, to, packet) in &before {
        let Some(Packet::Data {
            counter,
            ciphertext,
            ..
        }) = Packet::parse(packet)
        else {
            panic!("data")
        };
        // As it was, with the new epoch, under the new session's name, and both; also with counters
        // that are still free.
        let old = Packet::parse(packet).unwrap();
        let Packet::Data {
            receiver: old_receiver,
            epoch: old_epoch,
            ..
        } = old
        else {
            panic!("data")
        };
        for receiver in [receiver, old_receiver] {
            for epoch in [epoch, old_epoch] {
                for counter in [counter, counter + 500] {
                    let forged = Packet::Data {
                        receiver,
                        epoch,
                        counter,
                        ciphertext,
                    };
                    net.deliver(from.clone(), to.clone(), &forged.encode());
                }
            }
        }
    }
    net.settle();
    assert_eq!(net.members[1].received.len(), received);
    assert_eq!(net.members[1].up, 1);
}

#[test]
fn a_restart_during_a_rekey_makes_another_link() {
    let owner = Identity::generate().unwrap();
    let identity = Identity::generate().unwrap();
    let certificate = issue(&owner, &identity, "b");
    let b = restarted(&owner, identity.clone(), certificate.clone(), 2, 0);
    let id = certificate.member();
    let mut net = Net::new(vec![member(&owner, "a", 1), b]);
    net.connect(0, 1);
    net.settle();
    let now = net.now;
    net.members[0].links.rekey(now, id);
    net.members[1] = restarted(&owner, identity, certificate, 2, 77);
    net.settle();
    net.send(0, 1, text("second life"));
    net.settle();
    assert_eq!(said(&net.members[1]), [text("second life")]);
    assert_eq!((net.members[0].up, net.members[1].up), (2, 1));
}

#[test]
fn used_up_keys_lead_to_another_link() {
    let bounds = KeyBounds {
        // No new keys come in time.
        pause: Duration::from_secs(86_400),
        messages: 40,
        ..tiny()
    };
    let (mut net, _, b) = linked([bounds, KeyBounds::default()]);
    net.members[0].links.rekey(net.now, b);
    while net.members[0].links.poll_transmit(net.now).is_some() {}
    for number in 0..100 {
        net.send(0, 1, text(&number.to_string()));
        net.settle();
    }
    assert!(said(&net.members[1]).len() <= 40);
    net.dead.push(address(2));
    net.pass(Duration::from_secs(20));
    assert!(!net.members[0].links.knows(&b));
    net.dead.clear();
    net.connect(0, 1);
    net.send(0, 1, text("again"));
    net.settle();
    assert_eq!(net.members[1].received.last(), Some(&text("again")));
}

#[test]
fn mail_links_rekey_slowly() {
    const WAY: Duration = Duration::from_secs(14 * 60);
    let (mut net, _, b) = Net::pair();
    let mail = |name: &str| -> Address {
        format!("smtp://{name}@example.org?X-Ringway=k3")
            .parse()
            .unwrap()
    };
    let boxes = [mail("a"), mail("b")];
    assert_eq!(
        AddressDescriptor::observed(boxes[0].clone()).latency,
        LatencyClass::Minutes
    );
    let certificate = net.members[1].certificate.clone();
    let now = net.now;
    net.members[0]
        .links
        .connect(now, &certificate, vec![boxes[1].clone()]);
    let mut on_way: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
    let (mut mails, mut received) = (0, Vec::new());
    let start = net.now;
    let mut next = 0;
    // One message every half an hour, and after twelve hours a rest that a link by mail survives.
    while net.now < start + Duration::from_secs(20 * 3_600) {
        let now = net.now;
        let resting = (24..34).contains(&(now.duration_since(start).as_secs() / 1_800));
        if now.duration_since(start) >= Duration::from_secs(1_800) * next {
            if !resting {
                assert!(net.send(0, 1, text(&next.to_string())), "message {next}");
            }
            next += 1;
        }
        for from in [0, 1] {
            let links = &mut net.members[from].links;
            links.handle_timeout(now);
            while let Some((_, packet)) = links.poll_transmit(now) {
                mails += 1;
                on_way.push_back((now + WAY, 1 - from, packet));
            }
        }
        while let Some((_, to, packet)) = on_way.pop_front_if(|(at, ..)| *at <= now) {
            let from = boxes[1 - to].clone();
            net.members[to].links.handle_packet(now, from, &packet);
        }
        while let Some(event) = net.members[1].links.poll_event() {
            if let Event::Message(_, message @ LinkMessage::Overlay(_)) = event {
                received.push(message);
            }
        }
        net.now += Duration::from_secs(30);
    }
    assert!(net.members[0].links.is_up(&b));
    let wanted = (0..40).filter(|half_hour| !(24..34).contains(half_hour));
    let wanted: Vec<LinkMessage> = wanted.map(|number| text(&number.to_string())).collect();
    // What was sent in the last quarter of an hour is still on its way.
    assert_eq!(received, wanted);
    let rekeys = rekeys(&net)[0];
    assert!((8..=14).contains(&rekeys), "{rekeys} in 14 hours of use");
    assert!(mails < 200, "{mails} mails");
    let refused = net.members[1].links.counters();
    assert_eq!(
        refused.packets_rejected + refused.packets_unknown_session,
        0
    );
}

#[test]
fn renewed_certificates_are_shown_without_outage() {
    let owner = Identity::generate().unwrap();
    let identity = Identity::generate().unwrap();
    let own = issue(&owner, &identity, "a");
    let a = restarted(&owner, identity.clone(), own.clone(), 1, 0);
    let mut net = Net::new(vec![a, member(&owner, "b", 2)]);
    let shown: Arc<std::sync::Mutex<Vec<u64>>> = Arc::default();
    let (seen, ring) = (Arc::clone(&shown), owner.member());
    net.members[1].links.gatekeeper = Arc::new(move |bytes| {
        let certificate = Certificate::decode(bytes, &ring).ok()?;
        seen.lock().unwrap().push(certificate.serial());
        Some(certificate)
    });
    net.connect(0, 1);
    net.settle();
    assert!(std::mem::take(&mut *shown.lock().unwrap()).contains(&1));

    let fields = CertificateFields {
        member: own.member(),
        name: own.name().clone(),
        address: None,
        nonce: own.nonce(),
        not_before: 0,
        not_after: u64::MAX,
        serial: 2,
    };
    let now = net.now;
    let newer = Certificate::issue(&owner, &fields);
    net.members[0].links.renew_certificate(now, &newer);
    assert!(net.send(0, 1, text("meanwhile")));
    net.settle();
    assert!(shown.lock().unwrap().contains(&2) && !shown.lock().unwrap().contains(&1));
    assert!(said(&net.members[1]).contains(&text("meanwhile")));
    assert_eq!([0, 1].map(|index| net.members[index].down), [0, 0]);
}
