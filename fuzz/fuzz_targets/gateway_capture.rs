#![no_main]
//! A capture through the whole pipeline.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = ringway_gateway::classify_reader("fuzz", data, &mut |_record| {});
});
