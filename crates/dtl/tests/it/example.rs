//! The example is run as people run it: a transport of a few lines over real sockets, which adopts
//! the controller.

#![allow(
    clippy::disallowed_methods,
    reason = "a process has a clock of its own, and is waited for"
)]

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use crate::{ms, secs};

/// Cargo builds it before it runs the tests of a whole package, beside the folder that this program
/// is in.
fn example(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let found = program
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(name);
    let path = found.display();
    assert!(
        found.is_file(),
        "{path} is missing: `cargo build -p ringway-dtl --example {name}`"
    );
    found
}

#[test]
fn the_toy_transport_moves_its_data() {
    // Three seconds on an idle machine; a second of them is the other half at priority 2.
    let mut process = Command::new(example("toy_transport"))
        .args(["0", "20", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > secs(300) {
            process.kill().unwrap();
        }
        sleep(ms(20));
    };
    // A few lines: the pipe has held them.
    let mut text = String::new();
    process.stdout.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.contains("priority 2 from now on"), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("20 MB in "), "{text}");
    assert!(text.contains(" MB/s  window "), "{text}");
}
