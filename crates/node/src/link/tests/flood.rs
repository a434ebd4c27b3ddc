//! Floods of handshakes, and the cookies that stop them.

use rand::SeedableRng as _;

use super::*;
use crate::limits::{
    HALF_OPEN_PER_MEMBER, HALF_OPEN_WAYS, PROVED_BURST, SOURCE_BURST, STRANGER_BURST,
};

/// Initiations that look right until they are read.
fn rubbish(number: u32) -> Vec<u8> {
    let noise: Vec<u8> = number.to_be_bytes().repeat(100);
    let packet = Packet::Initiation {
        sender: number,
        cookie: &cookie::NO_COOKIE,
        noise: &noise,
    };
    packet.encode()
}

/// Floods the second member; gives what it answers, by whom it goes to.
fn flood(net: &mut Net, count: u32, from: impl Fn(u32) -> Address) -> Vec<(Address, Vec<u8>)> {
    let now = net.now;
    let mut answers = Vec::new();
    for number in 0..count {
        let links = &mut net.members[1].links;
        links.handle_packet(now, from(number), &rubbish(number));
        while let Some(answer) = links.poll_transmit(now) {
            answers.push(answer);
        }
    }
    answers
}

fn read(net: &Net) -> u64 {
    net.members[1].links.counters().handshakes_read
}

pub(super) fn host(number: u32) -> Address {
    let [_, b, c, d] = number.to_be_bytes();
    Address::Udp(([10, b, c, d], 4000).into())
}

#[test]
fn forged_floods_are_bounded_and_strangers_get_in() {
    let (mut net, _, b) = Net::pair();
    let answers = flood(&mut net, 5_000, host);
    assert_eq!(read(&net), u64::from(STRANGER_BURST));
    for (to, answer) in &answers {
        assert!(
            matches!(Packet::parse(answer), Some(Packet::Cookie { .. })),
            "{to}"
        );
        assert!(answer.len() < rubbish(0).len(), "no more than came");
        assert_eq!(answer.len(), 37);
    }
    net.connect(0, 1);
    net.send(0, 1, text("honest"));
    net.settle();
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(net.members[1].received, [text("honest")]);
    assert_eq!(read(&net), u64::from(STRANGER_BURST) + 1);
    let cookies = net.members[1].links.counters().cookies_sent;
    assert_eq!(cookies, 5_000 - u64::from(STRANGER_BURST) + 1);
}

#[test]
fn no_initiation_is_shorter_than_its_cookie() {
    let shortest = (0..200).find(|length| {
        let mut bytes = rubbish(7);
        bytes.truncate(*length);
        Packet::parse(&bytes).is_some()
    });
    assert_eq!(shortest, Some(1 + 4 + 16 + handshake::LEAST));
    assert!(shortest > Some(37));
}

#[test]
fn a_member_with_a_link_notices_no_flood() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.settle();
    // In the name of that very address, too.
    flood(&mut net, 5_000, |_| address(1));
    for number in 0..100 {
        net.send(0, 1, text(&number.to_string()));
        net.send(1, 0, text(&number.to_string()));
    }
    net.settle();
    assert_eq!(net.members[1].received.len(), 100);
    // New keys come in spite of it, at the price of a round trip.
    let now = net.now;
    net.members[0].links.rekey(now, b);
    net.settle();
    assert_eq!(net.members[1].links.counters().rekeys, 1);
    assert_eq!((net.members[0].up, net.members[0].down), (1, 0));
}

#[test]
fn sources_with_cookies_are_limited_too() {
    let (mut net, _, _) = Net::pair();
    let answers = flood(&mut net, STRANGER_BURST + 1, |_| host(1));
    let Some(Packet::Cookie { cookie, .. }) = answers.last().and_then(|(_, a)| Packet::parse(a))
    else {
        panic!("a cookie")
    };
    let before = read(&net);
    let now = net.now;
    for sender in 0..1_000_u32 {
        let noise = sender.to_be_bytes().repeat(100);
        let packet = Packet::Initiation {
            sender,
            cookie,
            noise: &noise,
        };
        net.members[1]
            .links
            .handle_packet(now, host(1), &packet.encode());
    }
    assert_eq!(read(&net) - before, u64::from(SOURCE_BURST));
    let links = net.members[1].links.counters();
    assert_eq!(links.handshakes_too_many, 1_000 - u64::from(SOURCE_BURST));
    // The limit for all is far from used up.
    net.connect(0, 1);
    net.send(0, 1, text("honest"));
    net.settle();
    assert_eq!(net.members[1].received, [text("honest")]);
}

#[test]
fn all_members_find_a_restarted_router() {
    let owner = Identity::generate().unwrap();
    let count = STRANGER_BURST + PROVED_BURST + 50;
    let mut members = vec![member(&owner, "a", 0)];
    for number in 1..=count {
        let mut member = member(&owner, &format!("m{number}"), 1);
        let [_, b, c, d] = number.to_be_bytes();
        member.address = Address::Udp(([10, b, c, d], 4000).into());
        members.push(member);
    }
    let mut net = Net::new(members);
    for index in 1..net.members.len() {
        net.connect(index, 0);
        let there = net.members[0].certificate.member();
        let now = net.now;
        assert!(
            net.members[index]
                .links
                .send(now, &there, text("here again"))
        );
    }
    net.pass(Duration::from_secs(5));
    assert_eq!(
        net.members[0].received.len(),
        usize::try_from(count).unwrap()
    );
}

/// The initiation of the first member, and the cookie that it gets.
fn asked_for_a_cookie(net: &mut Net) -> (Vec<u8>, Vec<u8>) {
    flood(net, 1_000, host);
    net.connect(0, 1);
    let now = net.now;
    let (_, initiation) = net.members[0].links.poll_transmit(now).unwrap();
    net.members[1]
        .links
        .handle_packet(now, address(1), &initiation);
    let (to, reply) = net.members[1].links.poll_transmit(now).unwrap();
    assert_eq!(to, address(1));
    (initiation, reply)
}

#[test]
fn unasked_and_repeated_cookies_are_ignored() {
    let (mut net, _, _) = Net::pair();
    let (_, reply) = asked_for_a_cookie(&mut net);
    let now = net.now;
    let answered = |net: &mut Net, from: Address, reply: &[u8]| {
        net.members[0].links.handle_packet(now, from, reply);
        net.members[0].links.poll_transmit(now).is_some()
    };
    // Of the whole reply only the cookie itself may be anything.
    for index in 0..21 {
        let mut forged = reply.clone();
        forged[index] ^= 1;
        assert!(!answered(&mut net, address(2), &forged), "byte {index}");
    }
    assert!(
        !answered(&mut net, address(9), &reply),
        "nothing has gone there"
    );
    assert!(answered(&mut net, address(2), &reply));
    for _ in 0..10 {
        assert!(!answered(&mut net, address(2), &reply), "again");
    }
}

#[test]
fn endless_cookie_requests_are_given_up() {
    let (mut net, _, _) = Net::pair();
    let (mut initiation, reply) = asked_for_a_cookie(&mut net);
    let now = net.now;
    let mut packets = 0;
    for number in 0..100_u8 {
        let Some(Packet::Cookie { receiver, .. }) = Packet::parse(&reply) else {
            panic!("a cookie")
        };
        let forged = Packet::Cookie {
            receiver,
            initiation: &cookie::name_of(&initiation),
            cookie: &[number; cookie::COOKIE],
        };
        net.members[0]
            .links
            .handle_packet(now, address(2), &forged.encode());
        if let Some((to, packet)) = net.members[0].links.poll_transmit(now) {
            assert_eq!(to, address(2));
            packets += 1;
            initiation = packet;
        }
    }
    assert_eq!(packets, crate::limits::COOKIES_TAKEN);
}

#[test]
fn a_lost_cookie_is_made_up_for() {
    let (mut net, _, b) = Net::pair();
    asked_for_a_cookie(&mut net);
    net.send(0, 1, text("patience"));
    // The flood goes on: the next attempt needs a cookie as well.
    net.pass(Duration::from_millis(200));
    flood(&mut net, 1_000, host);
    net.pass(Duration::from_secs(4));
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(net.members[1].received, [text("patience")]);
}

#[test]
fn a_members_flood_takes_only_its_share() {
    let owner = Identity::generate().unwrap();
    let (a, b, c) = (
        member(&owner, "a", 1),
        member(&owner, "b", 2),
        member(&owner, "c", 3),
    );
    let mut net = Net::new(vec![a, b, c]);
    for _ in 0..STRANGER_BURST + 50 {
        net.connect(2, 1);
        let now = net.now;
        let (to, packet) = net.members[2].links.poll_transmit(now).unwrap();
        net.deliver(address(3), to, &packet);
        let there = net.members[1].certificate.member();
        net.members[2].links.forget(&there, LinkEnd::Silent);
    }
    assert!(net.members[1].links.half_open.len() <= HALF_OPEN_PER_MEMBER);
    assert_eq!(read(&net), u64::from(STRANGER_BURST));
    net.connect(0, 1);
    net.send(0, 1, text("honest"));
    net.settle();
    assert_eq!(net.members[1].received, [text("honest")]);
}

/// Initiations that the first member has made for the second, as somebody on the way records them.
fn recorded(net: &mut Net, count: usize) -> Vec<Vec<u8>> {
    let b = net.members[1].certificate.member();
    let now = net.now;
    let record = |_| {
        net.connect(0, 1);
        let (_, packet) = net.members[0].links.poll_transmit(now).unwrap();
        net.members[0].links.forget(&b, LinkEnd::Silent);
        while net.members[0].links.poll_event().is_some() {}
        packet
    };
    (0..count).map(record).collect()
}

/// The first member begins a handshake while `replay` goes on 48 times a second; each packet of its
/// own takes `way`. True if it gets its link within three seconds.
fn gets_in(net: &mut Net, way: Duration, mut replay: impl FnMut(u32, &mut Net)) -> bool {
    let b = net.members[1].certificate.member();
    let step = Duration::from_secs(1) / 48;
    let mut under_way: Vec<(Instant, usize, Vec<u8>)> = Vec::new();
    net.connect(0, 1);
    for round in 0..3 * 48 {
        replay(round, net);
        for from in [0, 1] {
            let to = net.members[1 - from].address.clone();
            while let Some((address, packet)) = net.members[from].links.poll_transmit(net.now) {
                if address == to {
                    under_way.push((net.now + way, from, packet));
                }
            }
        }
        net.now += step;
        let now = net.now;
        for (_, from, packet) in under_way.extract_if(.., |(due, ..)| *due <= now) {
            let path = net.members[from].address.clone();
            net.members[1 - from]
                .links
                .handle_packet(now, path, &packet);
        }
        for member in &mut net.members {
            member.links.handle_timeout(now);
        }
    }
    net.members[0].links.is_up(&b) && net.members[1].links.up().count() == 1
}

/// Below the rate from which on every sender has to show a cookie, and longer away than four
/// handshakes take: the member's own is not pushed out.
#[test]
fn replayed_initiations_do_not_lock_out_member() {
    // From forged addresses, from the member's own, and from real ones that show cookies.
    let sources: [fn(u32) -> Address; 3] = [host, |_| address(1), |round| host(round % 3)];
    for (case, source) in sources.into_iter().enumerate() {
        let (mut net, _, _) = Net::pair();
        let packets = recorded(&mut net, 3 * 48);
        let inside = gets_in(&mut net, Duration::from_millis(120), |round, net| {
            let mut packet = packets[usize::try_from(round).unwrap()].clone();
            let now = net.now;
            let links = &mut net.members[1].links;
            if case == 2 {
                let mut rng = rand::rngs::StdRng::from_seed([7; 32]);
                let proof = links.gate.prove(now, &source(round), &[1; 16], &mut rng);
                packet[5..21].copy_from_slice(&proof.unwrap_err());
            }
            links.handle_packet(now, source(round), &packet);
        });
        assert!(inside, "case {case}");
    }
}

/// What has become a link, or has waited for one in vain, is not read again.
#[test]
fn used_initiation_takes_no_place() {
    let (mut net, _, _) = Net::pair();
    let unanswered = recorded(&mut net, 1).remove(0);
    net.connect(0, 1);
    net.settle();
    let (_, _, established) = net.seen[0].clone();
    let now = net.now;
    net.members[1]
        .links
        .handle_packet(now, host(1), &established);
    assert!(net.members[1].links.half_open.is_empty());
    let fresh = recorded(&mut net, 1).remove(0);
    net.members[1].links.handle_packet(now, host(1), &fresh);
    assert_eq!(net.members[1].links.half_open.len(), 1);
    // It is older than the link: without a proof of its sender's address it gets no slot at all.
    let cookies = net.members[1].links.counters().cookies_sent;
    net.members[1]
        .links
        .handle_packet(now, host(1), &unanswered);
    assert_eq!(net.members[1].links.half_open.len(), 1);
    assert_eq!(net.members[1].links.counters().cookies_sent, cookies + 1);
    let later = now + Duration::from_secs(600);
    net.members[1].links.handle_timeout(later);
    assert!(net.members[1].links.half_open.is_empty());
    let before = read(&net);
    net.members[1].links.handle_packet(later, host(2), &fresh);
    assert!(net.members[1].links.half_open.is_empty());
    assert_eq!(read(&net), before);
    assert_eq!(net.members[1].links.counters().handshakes_replayed, 2);
}

/// All slots of a member hold recorded initiations, each from a real address of its own.
#[test]
fn recorded_initiations_give_way_to_new_ones() {
    let (mut net, _, b) = Net::pair();
    let packets = recorded(&mut net, HALF_OPEN_PER_MEMBER);
    // The responder has started since.
    let now = net.now;
    let date = 1_700_000_000_000_000 + 1_000;
    net.members[1].links.set_date(now, date);
    net.members[0].links.set_date(now, date + 1_000);
    for (number, packet) in packets.iter().enumerate() {
        let [.., last] = number.to_be_bytes();
        let from = Address::Tcp(([198, 51, 100, last], 4000).into());
        net.members[1].links.handle_packet(now, from, packet);
    }
    let waiting = |net: &Net| net.members[1].links.half_open.len();
    assert_eq!(waiting(&net), HALF_OPEN_PER_MEMBER);
    while net.members[1].links.poll_transmit(now).is_some() {}
    // The member itself comes over TCP, which proves its address.
    net.members[0].address = Address::Tcp(([192, 0, 2, 1], 4000).into());
    net.connect(0, 1);
    net.settle();
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(net.members[1].links.up().count(), 1);
    assert_eq!(waiting(&net), HALF_OPEN_PER_MEMBER - 1);
}

#[test]
fn a_clock_set_back_still_gets_in() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    net.settle();
    let now = net.now;
    let there = net.members[1].certificate.member();
    net.members[0].links.forget(&there, LinkEnd::Silent);
    net.members[0].links.times = times::Times::default();
    net.members[0].links.set_date(now, 5);
    net.connect(0, 1);
    net.settle();
    assert!(net.members[0].links.is_up(&b));
    assert_eq!(net.members[1].links.counters().cookies_sent, 1);
    assert_eq!(net.members[1].links.counters().handshakes, 2);
}

/// A quicker copy of an initiation does not decide where the link goes.
#[test]
fn raced_copies_prove_no_address() {
    let (mut net, a, b) = Net::pair();
    net.connect(0, 1);
    let now = net.now;
    let (to, initiation) = net.members[0].links.poll_transmit(now).unwrap();
    // Copies in the names of victims come first, and others after it.
    for number in 0..3 {
        net.deliver(host(number), to.clone(), &initiation);
    }
    net.deliver(address(1), to.clone(), &initiation);
    for number in 3..30 {
        net.deliver(host(number), to.clone(), &initiation);
    }
    net.settle();
    assert!(net.members[0].links.is_up(&b));
    let (_, peer) = net.members[1].links.up().next().unwrap();
    assert_eq!(peer.path(), Some(&address(1)));
    while net.members[1].links.poll_transmit(now).is_some() {}
    net.members[1].links.send(now, &a, text("big answer"));
    let (to, _) = net.members[1].links.poll_transmit(now).unwrap();
    assert_eq!(to, address(1));
}

#[test]
fn raced_copies_do_not_delay_the_answer() {
    let (mut net, _, b) = Net::pair();
    net.connect(0, 1);
    let now = net.now;
    let (to, initiation) = net.members[0].links.poll_transmit(now).unwrap();
    for number in 0..100 {
        net.deliver(host(number), to.clone(), &initiation);
    }
    assert_eq!(net.members[1].links.half_open[0].ways.len(), HALF_OPEN_WAYS);
    // It has to show a cookie.
    net.deliver(address(1), to, &initiation);
    net.settle();
    assert!(net.members[0].links.is_up(&b));
    let (_, peer) = net.members[1].links.up().next().unwrap();
    assert_eq!(peer.path(), Some(&address(1)));
}
