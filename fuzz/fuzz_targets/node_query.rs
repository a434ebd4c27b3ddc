#![no_main]
//! What a DNS client sends over TCP: neither its length nor what is in it may panic or take more
//! memory than is allowed.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::query(data);
});
