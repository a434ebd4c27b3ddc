//! Address validation: what proves an address, what does not, and what it may cost others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use ringway_transport::limits::{
    ADDRESS_BUDGET, ADDRESS_BUDGET_INTERVAL, ADVERTISER_BUDGET, ADVERTISER_BUDGET_INTERVAL,
    LOST_RETRY_MAX, PING_ATTEMPTS, PONG_BUDGET, PROBE_BYTES, VALID_FOR, VALIDATOR_MEMBERS,
};
use ringway_transport::{
    Address, AddressDescriptor, Direction, Hello, HelloOutcome, MemberId, Ping, Pong, Signer,
    Validator,
};

use crate::support::{key, udp};

const A: &str = "192.0.2.1:7000";
const B: &str = "192.0.2.2:7000";

struct World {
    now: Instant,
    validator: Validator,
    /// PINGs that left, by address.
    pinged: BTreeMap<Address, u32>,
}

impl World {
    /// Member 1 validates.
    fn new() -> Self {
        Self {
            now: Instant::now(),
            validator: Validator::new(key(1).member(), [3; 32]),
            pinged: BTreeMap::new(),
        }
    }

    fn hello(
        &mut self,
        signer: &SigningKey,
        sequence: u64,
        addresses: Vec<AddressDescriptor>,
    ) -> HelloOutcome {
        let hello = Hello::sign(signer, sequence, addresses).unwrap();
        self.validator.handle_hello(self.now, &hello)
    }

    fn pings(&mut self) -> Vec<Ping> {
        let mut pings = Vec::new();
        while let Some((address, ping)) = self.validator.poll_transmit() {
            assert_eq!(address, ping.address);
            *self.pinged.entry(address).or_default() += 1;
            pings.push(ping);
        }
        pings
    }

    /// Runs for `time`; `answers` says who signs PONGs for an address. Returns the PINGs sent.
    fn run(&mut self, time: Duration, answers: impl Fn(Address) -> Option<SigningKey>) -> usize {
        let end = self.now + time;
        let mut count = 0;
        loop {
            for ping in self.pings() {
                count += 1;
                if let Some(signer) = answers(ping.address.clone()) {
                    let pong = Pong::sign(&ping, &signer);
                    self.validator.handle_pong(self.now, &pong);
                }
            }
            match self.validator.poll_timeout() {
                Some(due) if due <= end => self.now = self.now.max(due),
                _ => break,
            }
            self.validator.handle_timeout(self.now);
        }
        self.now = end;
        count
    }

    fn usable(&self, member: MemberId) -> Vec<Address> {
        let usable = self.validator.usable(self.now, &member);
        usable.into_iter().map(|(d, _)| d.address).collect()
    }
}

fn no_member(_: Address) -> Option<SigningKey> {
    None
}

fn two(_: Address) -> Option<SigningKey> {
    Some(key(2))
}

#[test]
fn address_is_usable_once_its_pong_arrives() {
    let mut w = World::new();
    assert_eq!(w.hello(&key(2), 1, vec![udp(A)]), HelloOutcome::Accepted);
    let pings = w.pings();
    assert_eq!(pings.len(), 1);
    assert_eq!(pings[0].target, key(2).member());
    assert_eq!(pings[0].challenger, key(1).member());
    assert!(w.usable(key(2).member()).is_empty());

    let mut far = Validator::new(key(2).member(), [4; 32]);
    let ping = Ping::decode(&pings[0].encode()).unwrap();
    let pong = far.handle_ping(w.now, &ping, &key(2)).unwrap();
    w.now += Duration::from_millis(30);
    let pong = Pong::decode(&pong.encode()).unwrap();
    let validated = w.validator.handle_pong(w.now, &pong).unwrap();
    assert_eq!(validated.member, key(2).member());
    assert_eq!(validated.address, udp(A).address);
    assert_eq!(validated.rtt, Duration::from_millis(30));
    assert_eq!(w.usable(key(2).member()), [udp(A).address]);
    // The same PONG again proves nothing new.
    assert!(w.validator.handle_pong(w.now, &pong).is_none());
}

#[test]
fn a_forwarder_proves_nothing() {
    let mut w = World::new();
    w.hello(&key(2), 1, vec![udp(A), udp(B)]);
    let pings = w.pings();
    let (at_a, at_b) = (pings[0].clone(), pings[1].clone());
    assert_ne!(at_a.address, at_b.address);

    // The host at A passes the PING on, and the member answers for where it is: B.
    let elsewhere = Ping {
        address: at_b.address,
        ..at_a.clone()
    };
    // A challenger passes its own PING's answer off as one to us.
    let for_another = Ping {
        challenger: key(3).member(),
        ..at_a.clone()
    };
    for asked in [elsewhere, for_another] {
        let honest = Pong::sign(&asked, &key(2));
        assert!(w.validator.handle_pong(w.now, &honest).is_none());
        let dressed_up = Pong {
            address: at_a.address.clone(),
            challenger: at_a.challenger,
            ..honest
        };
        assert!(w.validator.handle_pong(w.now, &dressed_up).is_none());
    }
    let by_the_forwarder = Pong::sign(&at_a, &key(3));
    assert!(w.validator.handle_pong(w.now, &by_the_forwarder).is_none());
    let mut guessed = Pong::sign(&at_a, &key(2));
    guessed.challenge = [0; 32];
    assert!(w.validator.handle_pong(w.now, &guessed).is_none());
    assert!(w.usable(key(2).member()).is_empty());

    // None of them cut off the true answer.
    let truth = Pong::sign(&at_a, &key(2));
    assert!(w.validator.handle_pong(w.now, &truth).is_some());
}

/// A budget bounds the answers.
#[test]
fn only_pings_to_own_addresses_are_answered() {
    let mut me = Validator::new(key(1).member(), [3; 32]);
    let now = Instant::now();
    let ping = Ping {
        challenge: [1; 32],
        target: key(1).member(),
        address: udp(A).address,
        challenger: key(2).member(),
    };
    let other = Ping {
        target: key(3).member(),
        ..ping.clone()
    };
    assert!(me.handle_ping(now, &ping, &key(1)).is_some());
    assert!(me.handle_ping(now, &other, &key(1)).is_none());
    assert!(me.handle_ping(now, &ping, &key(3)).is_none());
    me.set_own_addresses(vec![udp(B).address]);
    assert!(me.handle_ping(now, &ping, &key(1)).is_none());
    me.set_own_addresses(vec![udp(A).address]);
    let later = now + Duration::from_secs(60);
    let answered = (0..2 * PONG_BUDGET)
        .filter(|_| me.handle_ping(later, &ping, &key(1)).is_some())
        .count();
    assert_eq!(answered, usize::try_from(PONG_BUDGET).unwrap());
}

#[test]
fn silent_address_gets_one_ping_per_hello() {
    let mut w = World::new();
    w.hello(&key(2), 1, vec![udp(A)]);
    let start = w.now;
    assert_eq!(w.run(Duration::from_secs(86_400), no_member), 1);
    assert_eq!(w.pinged[&udp(A).address], 1);
    assert_eq!(w.validator.poll_timeout(), None);
    // The member is asked for its HELLO again, a few times; each is worth another try.
    assert!(w.now > start);
    for _ in 0..3 {
        let repeated = w.hello(&key(2), 1, vec![udp(A)]);
        assert_eq!(repeated, HelloOutcome::Repeated);
        assert_eq!(w.run(Duration::from_secs(60), no_member), 1);
    }
    w.hello(&key(2), 2, vec![udp(A)]);
    assert_eq!(w.run(Duration::from_secs(1), two), 1);
    assert_eq!(w.usable(key(2).member()), [udp(A).address]);
}

#[test]
fn repeated_hello_repeats_a_lost_ping() {
    let mut w = World::new();
    w.hello(&key(2), 1, vec![udp(A)]);
    let (start, mut asked, mut pings) = (w.now, Vec::new(), w.pings().len());
    while let Some(due) = w.validator.poll_timeout() {
        w.now = due;
        w.validator.handle_timeout(due);
        while let Some(member) = w.validator.poll_hello_wanted() {
            asked.push(member);
            w.hello(&key(2), 1, vec![udp(A)]);
        }
        pings += w.pings().len();
    }
    assert_eq!(asked, vec![key(2).member(); 3]);
    assert_eq!(pings, usize::try_from(PING_ATTEMPTS).unwrap());
    let patience = w.now - start;
    assert!((Duration::from_secs(15)..Duration::from_secs(60)).contains(&patience));
}

#[test]
fn quic_address_waits_for_proof_of_its_host() {
    let quic = |text: &str| AddressDescriptor::new(Address::Quic(text.parse().unwrap()), 1200, 15);
    let mut w = World::new();
    let (own, victim) = (quic("192.0.2.1:7001"), quic("192.0.2.9:7001"));
    w.hello(&key(2), 1, vec![own.clone(), victim.clone(), udp(A)]);
    let first = w.pings();
    assert_eq!(first.len(), 1, "a handshake is longer than a HELLO");
    let pong = Pong::sign(&first[0], &key(2));
    assert!(w.validator.handle_pong(w.now, &pong).is_some());
    let then = w.pings();
    assert_eq!(then.len(), 1);
    assert_eq!(then[0].address, own.address);
    let pong = Pong::sign(&then[0], &key(2));
    assert!(w.validator.handle_pong(w.now, &pong).is_some());
    w.run(Duration::from_secs(86_400), two);
    assert!(!w.pinged.contains_key(&victim.address));
    assert_eq!(w.usable(key(2).member()).len(), 2);
}

#[test]
fn pings_a_day_stay_within_the_quota() {
    let mut w = World::new();
    let modest = AddressDescriptor {
        quota: Some(3),
        ..udp(A)
    };
    for sequence in 1..=10 {
        w.hello(&key(2), sequence, vec![modest.clone()]);
        w.run(Duration::from_secs(60), no_member);
    }
    assert_eq!(w.pinged[&modest.address], 3);
    let known = w.validator.advertised(w.now, &key(2).member());
    let again = known[0].quota_used.unwrap();
    assert!(again > Duration::from_secs(23 * 3600), "{again:?}");
    w.run(Duration::from_secs(26 * 3600), no_member);
    w.hello(&key(2), 11, vec![modest.clone()]);
    w.run(Duration::from_secs(60), two);
    assert_eq!(w.usable(key(2).member()), [modest.address]);
}

#[test]
fn hidden_member_sends_no_revealing_ping() {
    let mut w = World::new();
    w.validator.hide();
    let mail = "smtp://b@example.org?X-A=b".parse().unwrap();
    let mail = AddressDescriptor::new(mail, 65_536, 1_000);
    w.hello(&key(2), 1, vec![udp(A), mail.clone()]);
    w.run(Duration::from_secs(60), two);
    assert_eq!(w.usable(key(2).member()), [mail.address]);
}

#[test]
fn one_member_cannot_make_us_send_much() {
    let mut w = World::new();
    let start = w.now;
    for sequence in 1..=10_000_u64 {
        let host = |n: u64| udp(&format!("198.51.{}.{}:7000", sequence % 250, n + 1));
        let addresses = (0..16).map(|n| host(n + sequence / 250)).collect();
        w.hello(&key(2), sequence, addresses);
        w.run(Duration::from_millis(10), no_member);
    }
    let earned = (w.now - start).as_millis() / ADVERTISER_BUDGET_INTERVAL.as_millis();
    let most = earned + u128::from(ADVERTISER_BUDGET) + 1;
    let sent: u32 = w.pinged.values().sum();
    assert!(u128::from(sent) <= most, "{sent} PINGs, at most {most}");
    assert!(
        sent >= ADVERTISER_BUDGET,
        "{sent} PINGs: the budget is used"
    );
}

#[test]
fn all_members_together_cannot_flood_one_address() {
    let mut w = World::new();
    let start = w.now;
    for number in 2..1002 {
        w.hello(&key(number), 1, vec![udp(A)]);
        w.run(Duration::from_millis(100), no_member);
    }
    let earned = (w.now - start).as_secs() / ADDRESS_BUDGET_INTERVAL.as_secs();
    let most = earned + u64::from(ADDRESS_BUDGET) + 1;
    let sent = u64::from(w.pinged[&udp(A).address]);
    assert!(sent <= most, "{sent} PINGs, at most {most}");
}

/// A HELLO that names a foreign address amplifies nothing.
#[test]
fn ping_is_no_longer_than_its_hello() {
    for text in [
        "192.0.2.1:65535",
        "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
    ] {
        let hello = Hello::sign(&key(2), 0, vec![udp(text)]).unwrap();
        let ping = Ping {
            challenge: [0xff; 32],
            target: key(2).member(),
            address: udp(text).address,
            challenger: key(1).member(),
        };
        let size = ping.encode().len();
        assert!(size <= hello.encoded().len(), "{size} bytes to {text}");
        assert!(size <= PROBE_BYTES);
    }
}

#[test]
fn validity_is_renewed_or_ends_without_answers() {
    let mut w = World::new();
    w.hello(&key(2), 1, vec![udp(A)]);
    for _ in 0..60 {
        w.run(Duration::from_secs(60), two);
        assert_eq!(w.usable(key(2).member()), [udp(A).address]);
    }
    let pings = w.pinged[&udp(A).address];
    assert!((6..=12).contains(&pings), "{pings} PINGs in an hour");
    w.run(VALID_FOR, no_member);
    assert!(w.usable(key(2).member()).is_empty());
    // The address is tried again by itself, ever more rarely, and comes back.
    w.run(Duration::from_secs(86_400), no_member);
    let pings = w.run(Duration::from_secs(86_400), no_member);
    let most = 33 * usize::try_from(PING_ATTEMPTS).unwrap();
    assert!((72..=most).contains(&pings), "{pings} PINGs in a day");
    w.run(LOST_RETRY_MAX * 2, two);
    assert_eq!(w.usable(key(2).member()), [udp(A).address]);
}

#[test]
fn the_newest_hello_counts() {
    let mut w = World::new();
    w.hello(&key(2), 5, vec![udp(A), udp(B)]);
    w.run(Duration::from_secs(1), two);
    assert_eq!(w.usable(key(2).member()).len(), 2);
    assert_eq!(w.hello(&key(2), 5, vec![]), HelloOutcome::Repeated);
    assert_eq!(w.hello(&key(2), 4, vec![]), HelloOutcome::Stale);
    assert_eq!(w.usable(key(2).member()).len(), 2);
    let dearer = AddressDescriptor { cost: 99, ..udp(B) };
    assert_eq!(
        w.hello(&key(2), 6, vec![dearer.clone()]),
        HelloOutcome::Accepted
    );
    let usable = w.validator.usable(w.now, &key(2).member());
    assert_eq!(usable.len(), 1);
    assert_eq!(usable[0].0, dearer, "B stays valid, with its new cost");
    assert_eq!(w.run(Duration::from_secs(1), two), 0, "and needs no PING");
    assert_eq!(w.hello(&key(1), 1, vec![udp(A)]), HelloOutcome::Own);
    w.validator.remove(&key(2).member());
    assert!(w.usable(key(2).member()).is_empty());
    assert_eq!(w.validator.poll_timeout(), None);
}

#[test]
fn cheapest_first_then_fastest() {
    let mut w = World::new();
    let descriptors: Vec<_> = [(1, 30), (2, 10), (3, 10), (4, 20)]
        .map(|(n, cost)| AddressDescriptor {
            cost,
            ..udp(&format!("192.0.2.{n}:7000"))
        })
        .to_vec();
    w.hello(&key(2), 1, descriptors.clone());
    let pings = w.pings();
    // The PONG for the third comes before that for the second.
    for index in [0, 2, 3, 1] {
        w.now += Duration::from_millis(10);
        let pong = Pong::sign(&pings[index], &key(2));
        assert!(w.validator.handle_pong(w.now, &pong).is_some());
    }
    let expected = [2, 1, 3, 0].map(|i: usize| descriptors[i].address.clone());
    assert_eq!(w.usable(key(2).member()), expected);
}

#[test]
fn addresses_that_cannot_be_reached_are_not_tried() {
    let mut w = World::new();
    let send_only = AddressDescriptor {
        direction: Direction::Send,
        ..udp(A)
    };
    let hopeless = [
        "0.0.0.0:7000",
        "192.0.2.1:0",
        "224.0.0.1:7000",
        "255.255.255.255:7",
    ];
    let mut addresses: Vec<_> = hopeless.iter().map(|text| udp(text)).collect();
    addresses.push(send_only);
    assert_eq!(w.hello(&key(2), 1, addresses), HelloOutcome::Accepted);
    assert_eq!(w.run(Duration::from_secs(60), no_member), 0);
}

#[test]
fn bounded_table_keeps_proved_members() {
    let mut w = World::new();
    let rtt = Duration::from_millis(7);
    let last = u16::try_from(VALIDATOR_MEMBERS).unwrap() + 1;
    let address = |n: u16| udp(&format!("10.0.{}.{}:7000", n / 250, n % 250 + 1));
    for number in 2..=last {
        let outcome = w.hello(&key(number), 1, vec![address(number)]);
        assert_eq!(outcome, HelloOutcome::Accepted);
        let (member, address) = (key(number).member(), address(number).address);
        // All but the oldest prove themselves.
        if number > 2 {
            let proved = w
                .validator
                .handle_authenticated(w.now, member, address.clone(), rtt);
            assert!(proved.is_some());
        }
        w.now += Duration::from_millis(1);
    }
    let (one_more, another) = (key(last + 1), key(last + 2));
    let accepted = w.hello(&one_more, 1, vec![address(last + 1)]);
    assert_eq!(accepted, HelloOutcome::Accepted, "the oldest made room");
    let gone = w
        .validator
        .handle_authenticated(w.now, key(2).member(), address(2).address, rtt);
    assert_eq!(gone, None);
    let full = w.hello(&another, 1, vec![address(last + 2)]);
    assert_eq!(full, HelloOutcome::Full);
    w.now += VALID_FOR;
    let accepted = w.hello(&another, 1, vec![address(last + 2)]);
    assert_eq!(accepted, HelloOutcome::Accepted, "proofs have expired");
}

#[test]
fn an_authenticated_connection_proves_an_advertised_address() {
    let mut w = World::new();
    let rtt = Duration::from_millis(7);
    let (member, address) = (key(2).member(), udp(A).address);
    let unknown = w
        .validator
        .handle_authenticated(w.now, member, address.clone(), rtt);
    assert!(unknown.is_none(), "not advertised");
    w.hello(&key(2), 1, vec![udp(A)]);
    let proved = w
        .validator
        .handle_authenticated(w.now, member, address.clone(), rtt);
    assert!(proved.is_some());
    assert_eq!(w.usable(member), [address]);
}

proptest! {
    #[test]
    fn probes_round_trip(challenge: [u8; 32], target: [u8; 32], by: [u8; 32], ip: [u8; 4], port: u16) {
        let ping = Ping {
            challenge,
            target: MemberId(target),
            address: Address::Quic((ip, port).into()),
            challenger: MemberId(by),
        };
        prop_assert_eq!(&Ping::decode(&ping.encode()).unwrap(), &ping);
        let pong = Pong::sign(&ping, &key(2));
        prop_assert_eq!(&Pong::decode(&pong.encode()).unwrap(), &pong);
        prop_assert!(pong.verify(&key(2).member()).is_ok());
        prop_assert!(Ping::decode(&pong.encode()).is_err());
        prop_assert!(Pong::decode(&ping.encode()).is_err());
    }

    #[test]
    fn random_bytes_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Ping::decode(&bytes).is_err());
        prop_assert!(Pong::decode(&bytes).is_err());
    }

    #[test]
    fn any_order_of_events_keeps_the_promises(
        steps in prop::collection::vec((0..6_u8, 2..6_u16, 0..40_u64, 0..900_u64), 1..120),
    ) {
        let mut w = World::new();
        let mut seen = Vec::new();
        for (what, who, sequence, seconds) in steps {
            let address = udp(&format!("192.0.2.{}:7000", sequence % 7 + 1));
            match what {
                0 | 1 => { w.hello(&key(who), sequence, vec![address, udp(A)]); }
                2 => w.validator.remove(&key(who).member()),
                3 => {
                    for ping in seen.drain(..) {
                        w.validator.handle_pong(w.now, &Pong::sign(&ping, &key(who)));
                    }
                }
                _ => w.now += Duration::from_secs(seconds),
            }
            w.validator.handle_timeout(w.now);
            // Time stands still after the work is done: nothing is due at once again.
            prop_assert!(w.validator.poll_timeout().is_none_or(|due| due > w.now));
            seen.extend(w.pings());
        }
    }
}
