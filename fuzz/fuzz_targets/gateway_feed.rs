#![no_main]
//! Lists in files, of each kind.

use ringway_gateway::feed::{FeedKind, parse};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for kind in [FeedKind::Networks, FeedKind::Hosts, FeedKind::Infohashes] {
        let _ = parse(kind, data);
    }
});
