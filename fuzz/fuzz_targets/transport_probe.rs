#![no_main]
//! PINGs and PONGs.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(ping) = ringway_transport::Ping::decode(data) {
        let again = ringway_transport::Ping::decode(&ping.encode());
        assert!(again.is_ok_and(|again| again == ping));
    }
    let _ = ringway_transport::Pong::decode(data);
});
