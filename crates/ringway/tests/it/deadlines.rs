//! Deadlines and classes, as a person at a terminal meets them: under a cap that another transfer
//! uses up.

use std::fs;

use ringway_testbed::{Ring, RingBuilder};

use super::{program, random_bytes, transfer_when};

/// Bytes a second of all that lima sends.
const CAP: u64 = 1 << 20;

/// Two routers on loopback, one of which has the cap, and classes of its own.
fn ring() -> Ring {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .absent_router("lima");
    let mut ring = builder.start().unwrap();
    let lima = ring.member_mut("lima").unwrap();
    let classes = "[[class]]\nname = \"bulk\"\npriority = 0.5\n";
    lima.configure("[\"udp\", \"tcp\", \"quic\"]", classes)
        .unwrap();
    let file = lima.home.join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, after) = text.split_once("\nupload = 0\n").unwrap();
    fs::write(&file, format!("{before}\nupload = {CAP}\n{after}")).unwrap();
    lima.start().unwrap();
    ring.wait_until_settled().unwrap();
    ring
}

fn queue(ring: &Ring, name: &str, size: usize, options: &[&str]) -> String {
    let file = ring.folder().join(name);
    fs::write(&file, random_bytes(name, size)).unwrap();
    let arguments = ["send", file.to_str().unwrap(), "oslo", "--detach"];
    let arguments = [&arguments[..], options].concat();
    let queued = ring.member("lima").unwrap().call(&arguments).unwrap();
    queued[0]["id"].as_str().unwrap().to_owned()
}

/// What `ringway` says of lima, with its exit code.
fn says(ring: &Ring, arguments: &[&str]) -> (Option<i32>, String) {
    let home = &ring.member("lima").unwrap().home;
    let arguments = [&["--home", home.to_str().unwrap()], arguments].concat();
    let ran = super::run(&arguments);
    (ran.code, format!("{}{}", ran.stdout, ran.stderr))
}

#[test]
fn deadline_raises_a_transfer_that_others_hold_back() {
    let ring = ring();
    // Five minutes, at the priority of one flow.
    let bulk = queue(&ring, "bulk.bin", 300 << 20, &[]);
    transfer_when(&ring, "lima", &bulk, |transfer| {
        transfer["bytes"].as_u64() > Some(1 << 20)
    });
    let id = queue(&ring, "image.bin", 8 << 20, &["--by", "+2m"]);
    let raised = transfer_when(&ring, "lima", &id, |transfer| {
        transfer["priority"].as_f64() > Some(0.0)
    });
    assert!(raised["deadline"].is_u64(), "{raised}");
    assert_eq!(raised["steered"], true, "{raised}");
    let done = transfer_when(&ring, "lima", &id, |transfer| {
        transfer["state"] == "done" && transfer["in_time"].is_boolean()
    });
    let arrived = done["expected"].as_u64().unwrap();
    let in_time = arrived <= done["deadline"].as_u64().unwrap();
    assert_eq!(done["in_time"], in_time, "{done}");
    let (_, table) = says(&ring, &["transfers"]);
    assert!(table.contains(", arrived "), "{table}");
}

#[test]
fn impossible_times_and_classes_change_nothing() {
    let ring = ring();
    let file = ring.folder().join("small.bin");
    fs::write(&file, b"x").unwrap();
    let send = ["send", file.to_str().unwrap(), "oslo"];
    for (options, part) in [
        (&["--by", "2020-01-01T00:00"][..], "has passed: it is "),
        (&["--by", "six"], "tomorrow 06:00"),
        (&["--by", "+400d"], "a year ahead"),
        (&["--by", "+1h", "--priority", "0"], "cannot be used with"),
        (&["--priority", "backup"], "there are bulk (0.5)"),
        (&["--priority", "-1"], "from 0"),
    ] {
        let (code, said) = says(&ring, &[&send[..], options].concat());
        assert_eq!(code, Some(2), "{options:?}: {said}");
        assert!(said.contains(part), "{options:?}: {said}");
    }
    let (_, said) = says(&ring, &["transfers", "--json"]);
    assert_eq!(said, "");
}

#[test]
fn classes_name_priorities_and_numbers_end_deadlines() {
    let ring = ring();
    let id = queue(&ring, "bulk.bin", 300 << 20, &["--priority", "bulk"]);
    let sent = transfer_when(&ring, "lima", &id, |_| true);
    assert_eq!(sent["priority"], 0.5, "{sent}");
    let (code, said) = says(&ring, &["priority", &id, "--by", "+1h"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("what it needs to arrive by "), "{said}");
    let (code, said) = says(&ring, &["priority", &id, "bulk"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("has priority 0.5; its deadline, "), "{said}");
    let (_, table) = says(&ring, &["transfers"]);
    assert!(table.contains("by "), "{table}");
    // A restart of the daemon keeps what was set.
    let by = transfer_when(&ring, "lima", &id, |_| true)["deadline"].clone();
    let mut ring = ring;
    let lima = ring.member_mut("lima").unwrap();
    lima.kill().unwrap();
    lima.start().unwrap();
    let again = transfer_when(&ring, "lima", &id, |_| true);
    assert_eq!(
        (&again["deadline"], &again["steered"]),
        (&by, &false.into())
    );
}
