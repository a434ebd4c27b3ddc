#![no_main]
//! Ring statements: likewise.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let ring = ringway_transport::MemberId::new([1; 32]);
    assert!(ringway_node::statement::Statement::decode(data, &ring).is_err());
    ringway_node::fuzzing::statement(data);
});
