#![no_main]
//! What strangers say to each other before an enrolment with a spoken invite: what is taken has one
//! form.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::spoken(data);
});
