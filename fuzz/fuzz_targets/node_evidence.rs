#![no_main]
//! Evidence: no member is convicted without the ring owner's certificate and its own signatures.

use ringway_node::evidence::Evidence;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let ring = ringway_transport::MemberId::new([1; 32]);
    if let Ok(evidence) = Evidence::decode(data) {
        assert_eq!(evidence.as_bytes(), data);
        assert!(evidence.judge(&ring).is_err());
    }
});
