#![no_main]
//! Requests for a WebSocket: whatever a stranger asks for, it is answered or refused.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::web_request(data);
});
