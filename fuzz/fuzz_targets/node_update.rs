#![no_main]
//! The answer of a DNS server to an update, the text of the key that signs both, and a server's
//! name.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::update(data);
});
