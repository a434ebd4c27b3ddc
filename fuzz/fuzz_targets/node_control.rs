#![no_main]
//! What a program says on the control socket, and what it is answered.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::control(data);
});
