#![no_main]
//! What the example `trinity` reads of Postfix.

#[path = "../../examples/trinity/request.rs"]
mod request;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut request = request::Request::default();
    let lines = data.split(|byte| *byte == b'\n');
    let mut whole = true;
    for line in lines {
        whole &= request.take(line);
    }
    assert!(request.instance.chars().count() <= 64);
    assert!(whole || request.client.is_none() || data.contains(&b'='));
});
