#![no_main]
//! Users' signature files.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = ringway_gateway::SignatureSet::parse(text);
    }
});
