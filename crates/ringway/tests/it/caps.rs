//! Caps on what leaves by one interface: kept, shown, and no matter to those that leave by another.

use std::fs;
use std::time::{Duration, Instant};

use ringway_testbed::{Ring, RingBuilder};

use super::{program, random_bytes, transfer_when};

/// Bytes a second.
const CAP: u64 = 2 << 20;

/// Two routers on loopback, one of which has these caps.
fn ring(caps: &str) -> Ring {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .absent_router("lima");
    let mut ring = builder.start().unwrap();
    let lima = ring.member_mut("lima").unwrap();
    lima.configure("[\"udp\", \"tcp\", \"quic\"]", caps)
        .unwrap();
    lima.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

fn queue(ring: &Ring, size: usize) -> String {
    let file = ring.folder().join("capped.bin");
    fs::write(&file, random_bytes("capped", size)).unwrap();
    let member = ring.member("lima").unwrap();
    let arguments = ["send", file.to_str().unwrap(), "oslo", "--detach"];
    let queued = member.call(&arguments).unwrap();
    queued[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn what_leaves_by_an_interface_keeps_to_its_cap_and_says_so() {
    let caps = format!("[[interface]]\nname = \"lo\"\nupload = {CAP}\n");
    let ring = ring(&caps);
    let id = queue(&ring, 64 << 20);
    let held = transfer_when(&ring, "lima", &id, |transfer| {
        transfer["limited_by"] == "capped"
    });
    assert_eq!(held["capped_by"], "lo", "{held}");
    let arrived = || {
        let transfer = transfer_when(&ring, "oslo", &id, |transfer| transfer["bytes"].is_u64());
        (Instant::now(), transfer["bytes"].as_f64().unwrap())
    };
    transfer_when(&ring, "oslo", &id, |transfer| {
        transfer["bytes"].as_u64() > Some(1 << 20)
    });
    let (begin, before) = arrived();
    std::thread::sleep(Duration::from_secs(6));
    let (end, after) = arrived();
    let rate = (after - before) / (end - begin).as_secs_f64();
    let part = rate / CAP as f64;
    // A busy machine may be slower; a tenth is for what was under way.
    assert!((0.7..=1.1).contains(&part), "{part} of the cap");
    let lima = ring.member("lima").unwrap();
    let status = lima.status().unwrap();
    let cap = &status["caps"][0];
    assert_eq!(
        (&cap["interface"], &cap["upload"]),
        (&"lo".into(), &CAP.into())
    );
    assert_eq!(cap["transfers"], 1, "{status}");
    let folder = lima.home.to_str().unwrap();
    let shown = |command| super::run(&["--home", folder, command]).stdout;
    assert!(shown("transfers").contains("upload limit of lo"));
    assert!(shown("status").contains("lo 2.00 MiB/s (1 transfer)"));
}

#[test]
fn the_cap_of_an_interface_is_no_matter_to_what_leaves_by_another() {
    let ring = ring("[[interface]]\nname = \"elsewhere\"\nupload = 1\n");
    let id = queue(&ring, 8 << 20);
    let done = transfer_when(&ring, "lima", &id, |transfer| transfer["state"] == "done");
    assert!(done["rate"].as_f64() > Some(1e5), "{done}");
}
