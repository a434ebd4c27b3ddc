#![no_main]
//! Certificates: nothing is accepted that the ring owner did not sign, and of what it did nothing
//! is taken for something else.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let ring = ringway_transport::MemberId::new([1; 32]);
    assert!(ringway_node::certificate::Certificate::decode(data, &ring).is_err());
    ringway_node::fuzzing::certificate(data);
});
