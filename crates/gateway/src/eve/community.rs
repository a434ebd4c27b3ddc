//! Community ID: a hash of a flow's ends that other monitors make of the same flow.
//!
//! Source: "Community ID Flow Hashing", version 1, with seed 0.

use std::net::{IpAddr, SocketAddr};

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// Of these the hash takes types and codes in place of ports, which no flow here has.
const WITH_TYPES: [u8; 2] = [1, 58];

/// The identifier of a flow over the protocol of this number (IANA), the same from either side.
/// `None`: for ICMP.
#[must_use]
pub fn community_id(protocol: u8, one: SocketAddr, other: SocketAddr) -> Option<String> {
    if WITH_TYPES.contains(&protocol) {
        return None;
    }
    let key = |end: SocketAddr| (address(end.ip()), end.port());
    let (first, second) = (key(one).min(key(other)), key(one).max(key(other)));
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    // The seed, which both sides have to share.
    hash.update(&[0, 0]);
    hash.update(&first.0);
    hash.update(&second.0);
    hash.update(&[protocol, 0]);
    if [TCP, UDP, SCTP].contains(&protocol) {
        hash.update(&first.1.to_be_bytes());
        hash.update(&second.1.to_be_bytes());
    }
    let digest = data_encoding::BASE64.encode(hash.finish().as_ref());
    Some(format!("1:{digest}"))
}

fn address(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::community_id;

    /// The vectors that are published with the algorithm.
    #[test]
    fn published_vectors_hold_from_either_side() {
        for (protocol, one, other, id) in [
            (
                6,
                "128.232.110.120:34855",
                "66.35.250.204:80",
                "1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
            ),
            (
                17,
                "192.168.1.52:54585",
                "8.8.8.8:53",
                "1:d/FP5EW3wiY1vCndhwleRRKHowQ=",
            ),
            (
                132,
                "192.168.170.8:7",
                "192.168.170.56:7",
                "1:MP2EtRCAUIZvTw6MxJHLV7N7JDs=",
            ),
            (
                6,
                "[2001:470:e5bf:dead:4957:2174:e82c:4887]:63943",
                "[2607:f8b0:400c:c03::1a]:25",
                "1:/qFaeAR+gFe1KYjMzVDsMv+wgU4=",
            ),
        ] {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(community_id(protocol, one, other).as_deref(), Some(id));
            assert_eq!(community_id(protocol, other, one).as_deref(), Some(id));
        }
        let any = "192.0.2.1:0".parse().unwrap();
        assert_eq!(community_id(1, any, any), None);
    }
}
