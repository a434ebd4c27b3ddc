#![no_main]
//! Names of torrents, as peers and the web show them.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_gateway::fuzzing::torrent_names(data);
});
