#![no_main]
//! A mail from anybody.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::mail(data);
});
