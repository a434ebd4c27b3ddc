#![no_main]
//! A datagram of QUIC on a connection for streams: of a clock, or of a stream.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::clock_word(data);
});
