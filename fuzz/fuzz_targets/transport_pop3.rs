#![no_main]
//! What a POP3 server answers.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::mail_pop3(data);
});
