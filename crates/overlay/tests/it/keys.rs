//! Who chooses a router's place in the ring: the paper lets the member, by its port; here the
//! ring's owner does, by its nonce.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use ringway_overlay::{RingKey, between};

const RING: [u8; 32] = [7; 32];
/// A nonce that everybody knows is none: the paper's scheme.
const KNOWN: [u8; 16] = [0; 16];
/// Ports that a member may listen on without asking anybody.
const PORTS: std::ops::RangeInclusive<u16> = 1024..=65_535;

fn router(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 4000))
}

/// A ring of 255 routers, clockwise.
fn ring() -> Vec<RingKey> {
    let mut keys: Vec<RingKey> = (1..=255)
        .map(|n| RingKey::derive(&RING, &KNOWN, router(n)))
        .collect();
    keys.sort_unstable();
    keys
}

/// The gap that a key falls into, by the router before it.
fn gap(ring: &[RingKey], key: &RingKey) -> usize {
    let pairs = ring.iter().zip(ring.iter().cycle().skip(1));
    let found = pairs
        .enumerate()
        .find(|(_, (before, after))| between(before, key, after));
    found.map_or(0, |(place, _)| place)
}

/// Nearly any gap, by the port alone.
#[test]
fn a_known_nonce_lets_members_choose_gaps() {
    let ring = ring();
    let reached: BTreeSet<usize> = PORTS
        .map(|port| SocketAddr::from(([203, 0, 113, 9], port)))
        .map(|address| gap(&ring, &RingKey::derive(&RING, &KNOWN, address)))
        .collect();
    assert!(reached.len() >= 250, "{} of 255 gaps", reached.len());
}

#[test]
fn a_nonce_drawn_afterwards_favours_no_port() {
    let ring = ring();
    // The widest gap is the easiest prey. The member takes the port that would fall into it if the
    // nonce were what it guesses.
    let width = |place: usize| ring[place].share_to(&ring[(place + 1) % ring.len()]);
    let prey = (0..ring.len())
        .max_by(|a, b| width(*a).total_cmp(&width(*b)))
        .unwrap();
    let address = |port: u16| SocketAddr::from(([203, 0, 113, 9], port));
    let falls =
        |nonce: &[u8; 16], port| gap(&ring, &RingKey::derive(&RING, nonce, address(port))) == prey;
    let chosen = PORTS.into_iter().find(|port| falls(&KNOWN, *port)).unwrap();
    // The owner draws after the address is named; these stand for its draws.
    let draws = 10_000_u32;
    let hits = |port| (1..=draws).filter(|n| falls(&draw(*n), port)).count();
    let expected = width(prey) * f64::from(draws);
    for port in [chosen, 4000] {
        let hits = hits(port) as f64;
        // Six deviations of a binomial draw.
        let room = 6.0 * expected.sqrt();
        assert!(
            (hits - expected).abs() < room,
            "{hits} hits, {expected} expected"
        );
    }
    // One invitation is one draw: the place can be checked by everybody, and is not for the member
    // to choose.
    assert!(width(prey) < 0.05);
}

/// A nonce, other for each `n`.
fn draw(n: u32) -> [u8; 16] {
    let point = RingKey::point(&n.to_be_bytes());
    let mut nonce = [0; 16];
    nonce.copy_from_slice(&point.as_bytes()[..16]);
    nonce
}
