#![no_main]
//! Messages of connection tracking, and what is asked for about each connection in them.

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringway_gateway::fuzzing::conntrack(data));
