#![no_main]
//! Where a leaf is, as another router says: what is taken can be passed on.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_node::fuzzing::leaf_entry(data);
});
