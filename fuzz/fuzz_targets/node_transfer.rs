#![no_main]
//! Frames of transfers, and the ranges and names in them.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::transfer(data);
});
