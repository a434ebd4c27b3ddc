#![no_main]
//! What a writer puts into the named pipe for mails.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringway_transport::fuzzing::mail_pipe(data);
});
