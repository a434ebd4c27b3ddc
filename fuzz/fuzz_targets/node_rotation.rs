#![no_main]
//! Requests for another key and replies: what is taken is canonical, and survives its text form.

use ringway_node::rotation::{RotationReply, RotationRequest};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let ring = ringway_transport::MemberId::new([1; 32]);
    if let Ok(request) = RotationRequest::decode(data) {
        assert_eq!(request.as_bytes(), data);
        assert_eq!(
            RotationRequest::parse(&request.to_text()).as_ref(),
            Ok(&request)
        );
    }
    // No member has the key of that ring.
    assert!(RotationReply::decode(data, &ring).is_err());
    if let Ok(text) = std::str::from_utf8(data) {
        // Neither may panic.
        RotationRequest::parse(text).ok();
        RotationReply::parse(text, &ring).ok();
    }
});
