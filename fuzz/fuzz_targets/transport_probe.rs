#![no_main]
//! PINGs and PONGs.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(ping) = ringway_transport::Ping::decode(data) {
        assert_eq!(ringway_transport::Ping::decode(&ping.encode()).as_ref(), Ok(&ping));
    }
    let _ = ringway_transport::Pong::decode(data);
});
