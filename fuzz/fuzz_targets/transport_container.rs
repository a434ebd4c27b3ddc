#![no_main]
//! What a mail of ours carries.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::mail_container(data);
});
