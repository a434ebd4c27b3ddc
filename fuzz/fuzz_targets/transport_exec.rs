#![no_main]
//! A frame from a child program.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::exec_frame(data);
});
