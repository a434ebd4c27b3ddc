//! Many files at once, for members that are on and for one that is not.

use std::fs;
use std::time::{Duration, Instant};

use ringway_testbed::{RingBuilder, wait_until};

use super::program;

/// Files for the member that is off: several times as many as are sent at once.
const WAITING: usize = 300;

/// How long the file for the other may take; alone it takes a fraction of a second.
const DEADLINE: Duration = Duration::from_secs(12);

#[test]
fn file_overtakes_those_for_an_absent_member() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let ring = builder.absent_router("quito").start().unwrap();
    ring.wait_until_settled().unwrap();
    let file = ring.folder().join("two bytes");
    fs::write(&file, "hi").unwrap();
    let (oslo, path) = (ring.member("oslo").unwrap(), file.to_str().unwrap());
    let queue = || oslo.call(&["send", path, "quito", "--detach"]);
    // Its record may have to come into the zone yet.
    wait_until(DEADLINE, queue).unwrap();
    for _ in 1..WAITING {
        queue().unwrap();
    }
    let begun = Instant::now();
    let sent = oslo.call(&["send", path, "lima"]).unwrap().pop().unwrap();
    assert_eq!(sent["state"], "done", "{sent}");
    let took = begun.elapsed();
    assert!(took < DEADLINE, "it waited {took:?} for those of quito");
}
