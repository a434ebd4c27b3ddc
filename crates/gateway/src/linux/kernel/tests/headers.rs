//! Headers between a packet's addresses and its payload: what of them `triage` reads, and what it
//! leaves to user space.

use super::{asking, packet_of};
use crate::limits::KERNEL_EXTENSIONS;

/// What no test asks about, and what every test does.
const OTHERS: &[u8] = b"\x99";
const GNUTELLA: &[u8] = b"GNUTELLA CONNECT/0.6\r\n";
/// The protocol of their packets.
const TCP: u8 = 6;
/// A connection's numbers over IPv4 and IPv6.
const NUMBERS: [usize; 2] = [0, 1];

/// So many extension headers of this kind, eight bytes each, behind the fixed header of IPv6.
fn extended(packet: &[u8], kind: u8, count: u32) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for at in 0..count {
        let next = if at == 0 { TCP } else { kind };
        packet.splice(40..40, [next, 0, 1, 4, 0, 0, 0, 0]);
    }
    packet[5] += 8 * u8::try_from(count).unwrap();
    packet[6] = kind;
    packet
}

/// With so many words of "no operation" behind the fixed header of IPv4.
fn with_options(packet: &[u8], words: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet.splice(20..20, vec![1; 4 * usize::from(words)]);
    packet[0] = 0x45 + words;
    packet[3] += 4 * words;
    packet
}

#[test]
fn options_and_extension_headers_hide_nothing() {
    let Some(mut loaded) = asking("headers", "\"gnutella\"") else {
        return;
    };
    let of = |(which, from), (number, flags, acknowledged), payload: &[u8]| {
        packet_of((which, from), Some((number, flags, acknowledged)), payload)
    };
    // Whether a connection's first segment passes, once the connection has begun as any does.
    let mut passes = |packet: &[u8]| {
        loaded.forget();
        let which = usize::from(packet[0] >> 4 == 6);
        for (from, numbers) in [(0, (5, 0x02, 0)), (1, (9, 0x12, 6))] {
            assert_eq!(loaded.run("triage", &of((which, from), numbers, b"")), 1);
        }
        loaded.run("triage", packet) == 1
    };
    let [v4, v6] = NUMBERS
        .map(|which| [OTHERS, GNUTELLA].map(|payload| of((which, 0), (6, 0x18, 10), payload)));
    for words in [0, 1, 9, 10] {
        assert!(passes(&with_options(&v4[0], words)), "{words}");
        assert!(!passes(&with_options(&v4[1], words)), "{words}");
    }
    // Hop-by-hop, routing and destination options, as many as are read.
    for kind in [0, 43, 60] {
        for count in [1, KERNEL_EXTENSIONS] {
            assert!(passes(&extended(&v6[0], kind, count)), "{kind} {count}");
            assert!(!passes(&extended(&v6[1], kind, count)), "{kind} {count}");
        }
        assert!(!passes(&extended(&v6[0], kind, KERNEL_EXTENSIONS + 1)));
    }
    // Fragments, authenticated and hidden ones, mobility, experiments, and none.
    for kind in [44, 51, 50, 135, 253, 59] {
        assert!(!passes(&extended(&v6[0], kind, 1)), "{kind}");
    }
    // First, middle and last fragments; "do not fragment" is none.
    for (which, whole) in [
        ([0x20, 0], false),
        ([0x20, 9], false),
        ([0, 9], false),
        ([0x40, 0], true),
    ] {
        let mut packet = v4[0].clone();
        packet[6..8].copy_from_slice(&which);
        assert_eq!(passes(&packet), whole, "{which:?}");
    }
    // A header shorter than one, and a packet shorter than its headers.
    let mut short = v4[0].clone();
    short[0] = 0x44;
    assert!(!passes(&short));
    let mut short = v4[0].clone();
    short[2..4].copy_from_slice(&[0, 36]);
    assert!(!passes(&short));
}
