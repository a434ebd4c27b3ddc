#![no_main]
//! Frames with which streams to services begin, and the records on them.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::stream(data);
});
