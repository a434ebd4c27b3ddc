//! HELLOs that others pass on: which of their addresses are tried, at whose cost, and what receipts are worth.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use ringway_transport::limits::{
    ADVERTISER_BUDGET, HELLO_BYTES, RECEIPT_BYTES, RECEIPT_SKEW, REFERRAL_BYTES, REFERRAL_RECEIPTS,
    VALID_FOR,
};
use ringway_transport::{
    Address, AddressDescriptor, Hello, HelloOutcome, MemberId, Ping, Pong, Receipt, Referral,
    ReferralOutcome, Referrer, Signer, Validator,
};

use crate::support::{key, udp};

/// Some day in 2026.
const UNIX: u64 = 1_780_000_000;
const A: &str = "192.0.2.1:7000";
const B: &str = "192.0.2.2:7000";
const C: &str = "192.0.2.3:7000";

fn receipt(by: &SigningKey, of: &SigningKey, address: &str, when: u64) -> Bytes {
    let address = udp(address).address;
    Receipt::sign(by, of.member(), address, when, 600)
        .encoded()
        .clone()
}

fn hello(signer: &SigningKey, sequence: u64, addresses: &[&str]) -> Hello {
    let addresses = addresses.iter().map(|text| udp(text)).collect();
    Hello::sign(signer, sequence, addresses).unwrap()
}

fn referral(hello: &Hello, receipts: Vec<Bytes>) -> Referral {
    Referral::new(hello.encoded().clone(), receipts).unwrap()
}

fn validator() -> Validator {
    Validator::new(key(1).member(), [3; 32])
}

fn by(number: u16) -> Referrer {
    Referrer {
        member: key(number).member(),
        same_site: false,
    }
}

fn pings(validator: &mut Validator) -> Vec<Ping> {
    let pings = std::iter::from_fn(|| validator.poll_transmit());
    pings.map(|(_, ping)| ping).collect()
}

/// Members 1 to 99 are.
fn admitted(member: &MemberId) -> bool {
    (1..100).any(|number| key(number).member() == *member)
}

fn take(validator: &mut Validator, now: Instant, from: u16, referral: &Referral) -> usize {
    match validator.handle_referral(now, UNIX, by(from), referral, &admitted) {
        Ok(ReferralOutcome::Taken { vouched_for, .. }) => vouched_for,
        Ok(ReferralOutcome::OverBudget) => 0,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn only_vouched_addresses_are_tried_those_with_more_receipts_first() {
    let (mut validator, now) = (validator(), Instant::now());
    let subject = key(2);
    let hello = hello(&subject, 1, &[A, B, C]);
    let receipts = vec![
        receipt(&key(3), &subject, B, UNIX),
        receipt(&key(3), &subject, C, UNIX),
        receipt(&key(4), &subject, C, UNIX - 300),
    ];
    let referral = referral(&hello, receipts);
    let referral = Referral::decode(&referral.encode()).unwrap();
    assert_eq!(take(&mut validator, now, 3, &referral), 2);
    let pings = pings(&mut validator);
    let tried: Vec<Address> = pings.iter().map(|ping| ping.address.clone()).collect();
    assert_eq!(tried, [udp(C).address, udp(B).address]);
    // Receipts replace no answer of its own.
    assert!(validator.usable(now, &subject.member()).is_empty());
    let pong = Pong::sign(&pings[0], &subject);
    assert!(validator.handle_pong(now, &pong).is_some());
    assert_eq!(validator.usable(now, &subject.member()).len(), 1);
}

#[test]
fn what_is_forged_old_strange_or_its_own_does_not_vouch() {
    let now = Instant::now();
    let subject = key(2);
    let hello = hello(&subject, 1, &[A]);
    let mut altered = receipt(&key(3), &subject, A, UNIX).to_vec();
    *altered.last_mut().unwrap() ^= 1;
    let life = VALID_FOR.as_secs() + RECEIPT_SKEW;
    let eternal = Receipt::sign(
        &key(3),
        subject.member(),
        udp(A).address,
        UNIX - 3 * life,
        u32::MAX,
    );
    let worthless = [
        ("altered", altered.into()),
        ("by the subject", receipt(&subject, &subject, A, UNIX)),
        ("by a stranger", receipt(&key(500), &subject, A, UNIX)),
        ("for another member", receipt(&key(3), &key(4), A, UNIX)),
        ("of another address", receipt(&key(3), &subject, B, UNIX)),
        ("old", receipt(&key(3), &subject, A, UNIX - life - 1)),
        ("of tomorrow", receipt(&key(3), &subject, A, UNIX + 86_400)),
        ("for ever", eternal.encoded().clone()),
        ("rubbish", Bytes::from_static(b"rubbish")),
    ];
    for (what, receipt) in worthless {
        let mut validator = validator();
        let vouched = take(&mut validator, now, 3, &referral(&hello, vec![receipt]));
        assert_eq!(vouched, 0, "{what}");
        assert!(pings(&mut validator).is_empty(), "{what}");
        assert!(!validator.has_heard_of(&subject.member()), "{what}");
    }
    let good = referral(&hello, vec![receipt(&key(3), &subject, A, UNIX - life + 1)]);
    assert_eq!(take(&mut validator(), now, 3, &good), 1);
    let of_a_stranger = self::hello(&key(500), 1, &[A]);
    let vouched = vec![receipt(&key(3), &key(500), A, UNIX)];
    let outcome = validator().handle_referral(
        now,
        UNIX,
        by(3),
        &referral(&of_a_stranger, vouched),
        &admitted,
    );
    let unwanted = HelloOutcome::Unwanted;
    assert!(matches!(outcome, Ok(ReferralOutcome::Taken { hello, .. }) if hello == unwanted));
}

#[test]
fn whoever_passes_hellos_on_pays_for_the_pings_they_cause() {
    let (mut validator, mut now) = (validator(), Instant::now());
    let start = now;
    let mut sent = 0;
    // Members 10 to 59 have many addresses; member 3 passes them on, again and again, and vouches for all of them.
    for round in 0..20_u64 {
        for number in 10..60_u16 {
            let texts: Vec<String> = (0..16)
                .map(|host| format!("198.51.{number}.{}:7000", host + 16 * (round % 8)))
                .collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let hello = hello(&key(number), round + 1, &texts);
            let receipts = texts
                .iter()
                .map(|text| receipt(&key(3), &key(number), text, UNIX))
                .collect();
            take(&mut validator, now, 3, &referral(&hello, receipts));
            now += Duration::from_millis(20);
            validator.handle_timeout(now);
            sent += pings(&mut validator).len();
        }
    }
    let earned = (now - start).as_secs() / 5;
    let most = usize::try_from(earned + u64::from(ADVERTISER_BUDGET)).unwrap() + 1;
    assert!(sent <= most, "{sent} PINGs, at most {most}");
    assert!(sent >= usize::try_from(ADVERTISER_BUDGET).unwrap());
    // Another member's referrals, and the members' own words, cost others.
    let fresh = hello(&key(70), 1, &[A]);
    let vouched = vec![receipt(&key(4), &key(70), A, UNIX)];
    assert_eq!(take(&mut validator, now, 4, &referral(&fresh, vouched)), 1);
    assert_eq!(pings(&mut validator).len(), 1);
    validator.handle_hello(now, &hello(&key(71), 1, &[B]));
    assert_eq!(pings(&mut validator).len(), 1);
}

#[test]
fn what_was_proved_here_is_passed_on_with_receipts() {
    let (mut router, now) = (validator(), Instant::now());
    let leaf = key(2);
    assert!(
        router
            .referral(now, UNIX, &leaf.member(), &key(1))
            .is_none()
    );
    router.handle_hello(now, &hello(&leaf, 7, &[A, B]));
    for ping in pings(&mut router) {
        if ping.address == udp(A).address {
            router.handle_pong(now, &Pong::sign(&ping, &leaf));
        }
    }
    let later = now + Duration::from_secs(100);
    let passed_on = router
        .referral(later, UNIX, &leaf.member(), &key(1))
        .unwrap();
    assert_eq!(passed_on.receipts().len(), 1, "B has not answered");
    let receipt = Receipt::decode(&passed_on.receipts()[0]).unwrap();
    assert_eq!(receipt.challenger(), key(1).member());
    assert_eq!(receipt.member(), leaf.member());
    assert_eq!(
        (receipt.address(), receipt.when()),
        (&udp(A).address, UNIX - 100)
    );

    let mut sender = Validator::new(key(9).member(), [4; 32]);
    assert_eq!(take(&mut sender, now, 1, &passed_on), 1);
    let tried = pings(&mut sender);
    assert_eq!(tried.len(), 1, "what nobody can reach is left out");
    assert_eq!(tried[0].address, udp(A).address);
    assert!(
        router
            .receipts(now + VALID_FOR, UNIX, &leaf.member(), &key(1))
            .is_empty()
    );
}

#[test]
fn private_addresses_that_a_stranger_passes_on_are_not_tried() {
    let now = Instant::now();
    let private = "192.168.7.1:7000";
    let hello = hello(&key(2), 1, &[private]);
    let vouched = referral(&hello, vec![receipt(&key(3), &key(2), private, UNIX)]);
    let mut far = validator();
    take(&mut far, now, 3, &vouched);
    assert!(pings(&mut far).is_empty());
    let (mut near, near_by) = (
        validator(),
        Referrer {
            same_site: true,
            ..by(3)
        },
    );
    let outcome = near.handle_referral(now, UNIX, near_by, &vouched, &admitted);
    assert!(outcome.is_ok());
    assert_eq!(pings(&mut near).len(), 1);
}

#[test]
fn the_longest_are_within_their_bounds() {
    let mailbox = format!("smtp://{}@example.org?X-A=b", "x".repeat(60));
    let address: Address = mailbox.parse().unwrap();
    let long = Receipt::sign(&key(1), key(2).member(), address, u64::MAX, u32::MAX);
    assert!(long.encoded().len() <= RECEIPT_BYTES);
    let full = Referral::new(
        vec![0; HELLO_BYTES].into(),
        vec![vec![0; RECEIPT_BYTES].into(); 2 * REFERRAL_RECEIPTS],
    )
    .unwrap();
    assert_eq!(full.receipts().len(), REFERRAL_RECEIPTS);
    assert!(full.encode().len() <= REFERRAL_BYTES);
    assert_eq!(Referral::decode(&full.encode()).unwrap(), full);
    assert!(Referral::new(vec![0; HELLO_BYTES + 1].into(), Vec::new()).is_err());
}

proptest! {
    #[test]
    fn receipts_round_trip(ip: [u8; 4], port: u16, when: u64, lifetime: u32) {
        let address = Address::Tcp((ip, port).into());
        let receipt = Receipt::sign(&key(1), key(2).member(), address, when, lifetime);
        prop_assert_eq!(&Receipt::decode(receipt.encoded()).unwrap(), &receipt);
        for length in 0..receipt.encoded().len() {
            prop_assert!(Receipt::decode(&receipt.encoded()[..length]).is_err());
        }
    }

    #[test]
    fn random_bytes_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        prop_assert!(Receipt::decode(&bytes).is_err());
        if let Ok(referral) = Referral::decode(&bytes) {
            prop_assert_eq!(Referral::decode(&referral.encode()).unwrap(), referral);
        }
    }

    #[test]
    fn no_altered_receipt_is_believed(index in 0..200_usize, bit in 0..8_u8) {
        let descriptor = AddressDescriptor::new(udp(A).address, 1, 1);
        let receipt = Receipt::sign(&key(1), key(2).member(), descriptor.address, UNIX, 600);
        let mut bytes = receipt.encoded().to_vec();
        let index = index % bytes.len();
        bytes[index] ^= 1 << bit;
        prop_assert!(Receipt::decode(&bytes).is_err());
    }
}
