#![no_main]
//! Packets of links, and messages inside of them.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::link(data);
});
