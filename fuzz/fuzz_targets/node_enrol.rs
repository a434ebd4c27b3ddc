#![no_main]
//! What a newcomer and the authority say to each other within their channel.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::enrolment(data);
});
