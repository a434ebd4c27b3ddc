#![no_main]
//! Requests for admission and replies: what is taken is canonical, and survives its text form.

use ringway_node::admission::{AdmissionReply, AdmissionRequest};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(request) = AdmissionRequest::decode(data) {
        assert_eq!(request.as_bytes(), data);
        assert_eq!(
            AdmissionRequest::parse(&request.to_text()).as_ref(),
            Ok(&request)
        );
    }
    if let Ok(reply) = AdmissionReply::decode(data) {
        assert_eq!(reply.as_bytes(), data);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        // Neither may panic.
        AdmissionRequest::parse(text).ok();
        AdmissionReply::parse(text).ok();
    }
});
