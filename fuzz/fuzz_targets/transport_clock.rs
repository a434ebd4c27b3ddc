#![no_main]
//! What a peer says of its clock, in a datagram of QUIC.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::clock_word(data);
});
