#![no_main]
//! HELLOs: nothing is accepted that its member did not sign.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = ringway_transport::Hello::decode(data);
});
