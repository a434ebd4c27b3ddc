#![no_main]
//! Frames of messages that are stored until they are signed for, and what a receiver makes of them.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::messages(data);
});
