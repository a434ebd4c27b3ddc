#![no_main]
//! A policy from its text, and its tests if it is one.

use std::collections::BTreeSet;

use ringway_gateway::policy::Policy;

libfuzzer_sys::fuzz_target!(|data: &str| {
    let known: BTreeSet<String> = ["bittorrent", "http"].map(str::to_owned).into();
    if let Ok(policy) = Policy::parse(data, &known) {
        let _ = policy.try_all();
    }
});
