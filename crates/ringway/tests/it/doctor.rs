//! `ringway doctor`: what it says of members that are well, and of what is broken on purpose.

mod support;

use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ringway_testbed::{Outcome, RingBuilder};
use serde_json::Value;

use super::{program, run};

/// Asks about one folder.
fn doctor(home: &Path, more: &[&str]) -> Outcome {
    let home = home.to_str().unwrap();
    run(&[&["--json", "--home", home, "doctor"], more].concat())
}

/// What one check has found.
fn found(outcome: &Outcome, check: &str) -> Vec<Value> {
    let objects = outcome.objects().unwrap();
    let of_it = |object: &Value| object["check"] == check;
    objects.into_iter().filter(of_it).collect()
}

/// The one finding of a check that is wrong, as text.
fn wrong(outcome: &Outcome, check: &str) -> String {
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let found = found(outcome, check);
    let wrong = found.iter().find(|found| found["level"] == "wrong");
    wrong
        .unwrap_or_else(|| panic!("nothing is wrong with {check}: {outcome:?}"))
        .to_string()
}

/// Nothing is wrong, as far as a member on loopback goes.
fn is_well(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
}

#[test]
fn members_that_run_are_well() {
    let builder = RingBuilder::new(program()).router("oslo").leaf("lima");
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let oslo = ring.member("oslo").unwrap();
    let looked = doctor(&oslo.home, &[]);
    is_well(&looked);
    for check in [
        "configuration",
        "permissions",
        "disk",
        "clock",
        "certificate",
        "daemon",
        "versions",
        "open files",
        "dns",
        "ports",
        "nat",
        "mtu",
    ] {
        assert!(!found(&looked, check).is_empty(), "{check}: {looked:?}");
    }
    let ports = found(&looked, "ports");
    let held = |port: &&Value| port["seen"].as_str().unwrap().contains("held by");
    assert_eq!(ports.iter().filter(held).count(), 3, "{ports:?}");
    let dns = found(&looked, "dns")[0].to_string();
    assert!(
        dns.contains("`resolver`") && dns.contains("statement 1"),
        "{dns}"
    );
    let lima = ring.member("lima").unwrap();
    is_well(&doctor(&lima.home, &[]));
    // For people: a line each, and the sum.
    let text = run(&["--home", lima.home.to_str().unwrap(), "doctor", "--offline"]).stdout;
    assert!(text.contains("not asked: --offline"), "{text}");
    assert!(text.trim_end().ends_with("0 wrong"), "{text}");
    // The owner's folder beside it.
    let owner = ring.folder().join("owner");
    let looked = doctor(&owner, &[]);
    is_well(&looked);
    let at = found(&looked, "dns")[0]["looked_at"].to_string();
    assert!(at.contains("at the authority"), "{at}");
}

#[test]
fn broken_members_are_told_with_mends() {
    let builder = RingBuilder::new(program()).absent_router("oslo");
    let mut ring = builder.start().unwrap();
    let home = ring.member("oslo").unwrap().home.clone();
    let stopped = doctor(&home, &[]);
    assert!(wrong(&stopped, "daemon").contains("no daemon runs"));
    let at = found(&stopped, "ports")[0]["looked_at"].to_string();
    let address = at.split(' ').nth(1).unwrap().to_owned();

    let taken = UdpSocket::bind(&address).unwrap();
    let looked = doctor(&home, &["--offline"]);
    let pid = std::process::id().to_string();
    assert!(wrong(&looked, "ports").contains(&pid), "{looked:?}");
    drop(taken);

    let key = home.join("identity.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let looked = doctor(&home, &["--offline"]);
    assert!(wrong(&looked, "permissions").contains("chmod 600"));
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();

    let path = home.join("ringway.toml");
    let right = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{right}\n[ws]\nuplod = 5\n")).unwrap();
    let looked = doctor(&home, &["--offline"]);
    assert!(wrong(&looked, "configuration").contains("uplod"));
    fs::write(&path, &right).unwrap();

    // The ring's own server is gone.
    ring.authority.kill().unwrap();
    let looked = doctor(&home, &[]);
    assert!(wrong(&looked, "dns").contains("resolver"), "{looked:?}");
    // Nothing was changed by looking.
    assert_eq!(fs::read_to_string(&path).unwrap(), right);
    assert!(!home.join("control.sock").exists());
}

#[test]
fn machines_without_members_get_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("none");
    let looked = doctor(&home, &[]);
    is_well(&looked);
    // A gateway's folder of this machine is something to look at.
    if !Path::new("/var/lib/ringway-gate").exists() {
        assert!(looked.stdout.contains("ringway join"), "{looked:?}");
    }
    assert!(!home.exists());
    assert_eq!(run(&["doctor", "--no-such"]).code, Some(2));
    let led = run(&["diagnose"]);
    assert!(led.stderr.contains("ringway doctor"), "{led:?}");
}
