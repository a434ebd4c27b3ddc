//! HELLOs that others pass on, and what receipts for their addresses are worth.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use ringway_transport::limits::{
    HELLO_BYTES, RECEIPT_BYTES, RECEIPT_SKEW, REFERRAL_BYTES, REFERRAL_RECEIPTS, VALID_FOR,
};
use ringway_transport::{
    Address, AddressDescriptor, Hello, MemberId, Pong, Receipt, Referral, Signer, Validator,
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

/// Members 1 to 99 are.
fn admitted(member: &MemberId) -> bool {
    (1..100).any(|number| key(number).member() == *member)
}

fn vouched(hello: &Hello, referral: &Referral) -> Vec<Address> {
    let vouched = referral.vouched_for(hello, UNIX, &admitted);
    vouched.into_iter().collect()
}

#[test]
fn a_receipt_speaks_for_its_address_only() {
    let subject = key(2);
    let hello = hello(&subject, 1, &[A, B, C]);
    let receipts = vec![
        receipt(&key(3), &subject, B, UNIX),
        receipt(&key(3), &subject, C, UNIX),
        receipt(&key(4), &subject, C, UNIX - 300),
    ];
    let referral = referral(&hello, receipts);
    let referral = Referral::decode(&referral.encode()).unwrap();
    let expected = [udp(B).address, udp(C).address];
    assert_eq!(vouched(&hello, &referral), expected);
}

#[test]
fn forged_old_foreign_and_own_ones_are_worthless() {
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
        let referral = referral(&hello, vec![receipt]);
        assert!(vouched(&hello, &referral).is_empty(), "{what}");
    }
    let good = referral(&hello, vec![receipt(&key(3), &subject, A, UNIX - life + 1)]);
    assert_eq!(vouched(&hello, &good), [udp(A).address]);
}

#[test]
fn proved_address_has_a_receipt_while_valid() {
    let (mut router, now) = (Validator::new(key(1).member(), [3; 32]), Instant::now());
    let leaf = key(2);
    let hello = hello(&leaf, 7, &[A, B]);
    router.handle_hello(now, &hello);
    while let Some((_, ping)) = router.poll_transmit() {
        if ping.address == udp(A).address {
            router.handle_pong(now, &Pong::sign(&ping, &leaf));
        }
    }
    let at = |later| router.receipts(now + later, UNIX, &leaf.member(), &key(1));
    let receipts = at(Duration::from_secs(100));
    assert_eq!(receipts.len(), 1, "B has not answered");
    let given = Receipt::decode(receipts[0].encoded()).unwrap();
    assert_eq!(given.challenger(), key(1).member());
    assert_eq!(given.member(), leaf.member());
    assert_eq!(
        (given.address(), given.when()),
        (&udp(A).address, UNIX - 100)
    );
    let passed_on = referral(&hello, vec![given.encoded().clone()]);
    assert_eq!(vouched(&hello, &passed_on), [udp(A).address]);
    assert!(at(VALID_FOR).is_empty());
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
