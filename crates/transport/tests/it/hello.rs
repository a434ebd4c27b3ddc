//! HELLOs: what is signed arrives, what is not is refused.

use minicbor::Encoder;
use proptest::prelude::*;
use ringway_transport::limits::{HELLO_ADDRESSES, HELLO_BYTES};
use ringway_transport::{
    Address, AddressDescriptor, Direction, Hello, HelloError, LatencyClass, MemberId, Protocol,
    Signer,
};

use crate::support::{key, udp};

fn descriptor() -> impl Strategy<Value = AddressDescriptor> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(std::net::IpAddr::from),
        any::<[u8; 16]>().prop_map(|o| std::net::IpAddr::from(o).to_canonical()),
    ];
    let what = (0..3_u8, 0..3_u8, 0..3_u8);
    (
        ip,
        any::<u16>(),
        any::<u32>(),
        any::<u32>(),
        what,
        any::<Option<u32>>(),
    )
        .prop_map(|(ip, port, mtu, cost, (kind, direction, latency), quota)| {
            let socket = (ip, port).into();
            AddressDescriptor {
                address: match Protocol::from_number(kind + 1).unwrap() {
                    Protocol::Udp => Address::Udp(socket),
                    Protocol::Tcp => Address::Tcp(socket),
                    _ => Address::Quic(socket),
                },
                mtu,
                cost,
                direction: Direction::from_number(direction).unwrap(),
                latency: LatencyClass::from_number(latency).unwrap(),
                quota,
            }
        })
}

proptest! {
    #[test]
    fn what_is_signed_arrives(
        sequence: u64,
        addresses in prop::collection::vec(descriptor(), 0..=HELLO_ADDRESSES),
    ) {
        let sent = Hello::sign(&key(1), sequence, addresses).unwrap();
        let read = Hello::decode(sent.encoded()).unwrap();
        prop_assert_eq!(&read, &sent);
        prop_assert_eq!(read.member(), key(1).member());
        prop_assert!(sent.encoded().len() <= HELLO_BYTES);
    }

    #[test]
    fn random_bytes_are_refused_not_fatal(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Hello::decode(&bytes).is_err());
    }

    #[test]
    fn random_bodies_with_a_good_signature_are_not_fatal(
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut body = vec![0x84, 1, 0x58, 32];
        body.extend_from_slice(key(1).member().as_bytes());
        body.extend_from_slice(&rest);
        if let Ok(hello) = Hello::decode(&signed(&body)) {
            prop_assert!(hello.addresses().len() <= HELLO_ADDRESSES);
        }
    }
}

/// An envelope around any body, signed by member 1.
fn signed(body: &[u8]) -> Vec<u8> {
    let signature = Signer::sign(&key(1), b"ringway hello", body);
    let mut e = Encoder::new(Vec::new());
    e.array(2).unwrap().bytes(body).unwrap();
    e.bytes(&signature).unwrap();
    e.into_writer()
}

/// A body that names `count` addresses of one protocol number.
fn body(version: u8, member: MemberId, count: u16, protocol: u8, address: &[u8]) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    e.array(4).unwrap().u8(version).unwrap();
    e.bytes(member.as_bytes()).unwrap().u64(9).unwrap();
    e.array(count.into()).unwrap();
    for _ in 0..count {
        e.array(7).unwrap().u8(protocol).unwrap();
        e.bytes(address).unwrap().u32(1200).unwrap();
        e.u32(1).unwrap().u8(2).unwrap().u8(0).unwrap();
        e.null().unwrap();
    }
    e.into_writer()
}

#[test]
fn one_changed_bit_anywhere_is_refused() {
    let hello = Hello::sign(&key(1), 5, vec![udp("192.0.2.1:7000")]).unwrap();
    for index in 0..hello.encoded().len() {
        for bit in 0..8 {
            let mut bytes = hello.encoded().to_vec();
            bytes[index] ^= 1 << bit;
            assert!(Hello::decode(&bytes).is_err(), "byte {index} bit {bit}");
        }
    }
}

#[test]
fn cut_or_lengthened_is_refused() {
    let hello = Hello::sign(&key(1), 5, vec![udp("192.0.2.1:7000")]).unwrap();
    let mut bytes = hello.encoded().to_vec();
    for length in 0..bytes.len() {
        assert!(Hello::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    bytes.push(0);
    assert!(Hello::decode(&bytes).is_err());
    let long = vec![0; HELLO_BYTES + 1];
    assert!(matches!(
        Hello::decode(&long),
        Err(HelloError::TooLong { .. })
    ));
}

#[test]
fn in_another_members_name_is_refused() {
    let body = body(1, key(2).member(), 1, 1, &[192, 0, 2, 1, 0x1b, 0x58]);
    let forged = signed(&body);
    assert!(matches!(Hello::decode(&forged), Err(HelloError::Forged(_))));
}

#[test]
fn unknown_protocol_is_skipped_but_passed_on() {
    let me = key(1).member();
    let bytes = signed(&body(1, me, 2, 200, b"pigeon loft 7"));
    let hello = Hello::decode(&bytes).unwrap();
    assert_eq!(hello.addresses(), []);
    assert_eq!(hello.sequence(), 9);
    assert_eq!(&hello.encoded()[..], &bytes[..]);
    let known = signed(&body(1, me, 1, 1, &[192, 0, 2, 1, 0x1b, 0x58]));
    assert_eq!(
        Hello::decode(&known).unwrap().addresses(),
        [AddressDescriptor {
            cost: 1,
            ..udp("192.0.2.1:7000")
        }]
    );
}

#[test]
fn malformed_address_of_known_protocol_is_refused() {
    let bytes = signed(&body(1, key(1).member(), 1, 1, b"four"));
    assert!(matches!(
        Hello::decode(&bytes),
        Err(HelloError::Malformed(_))
    ));
}

#[test]
fn another_version_is_named() {
    let bytes = signed(&body(2, key(1).member(), 0, 1, b""));
    assert!(matches!(
        Hello::decode(&bytes),
        Err(HelloError::Version { version: 2 })
    ));
}

/// They can neither be signed nor read.
#[test]
fn seventeen_addresses_are_too_many() {
    let many: Vec<_> = (1..=17)
        .map(|n| udp(&format!("192.0.2.{n}:7000")))
        .collect();
    let refused = Hello::sign(&key(1), 1, many.clone());
    assert!(matches!(
        refused,
        Err(HelloError::TooManyAddresses { count: 17 })
    ));
    assert!(Hello::sign(&key(1), 1, many[..16].to_vec()).is_ok());
    let bytes = signed(&body(1, key(1).member(), 17, 1, &[192, 0, 2, 1, 1, 1]));
    let refused = Hello::decode(&bytes);
    assert!(matches!(
        refused,
        Err(HelloError::TooManyAddresses { count: 17 })
    ));
}

#[test]
fn an_address_named_twice_counts_once() {
    let hello = Hello::sign(&key(1), 1, vec![udp("192.0.2.1:7000"); 40]).unwrap();
    assert_eq!(hello.addresses().len(), 1);
    let bytes = signed(&body(1, key(1).member(), 16, 1, &[192, 0, 2, 1, 1, 1]));
    assert_eq!(Hello::decode(&bytes).unwrap().addresses().len(), 1);
}
