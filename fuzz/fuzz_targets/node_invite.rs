#![no_main]
//! Invites as people type them: what is taken survives its text form.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::invite(data);
});
