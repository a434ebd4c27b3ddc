#![no_main]
//! The strings of a TXT record of the ring's zone: what is read can be written.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::record(data);
});
