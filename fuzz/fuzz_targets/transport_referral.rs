#![no_main]
//! A HELLO that somebody passes on, and the receipts for its addresses.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::referral(data);
});
