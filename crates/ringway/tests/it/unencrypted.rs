//! A build for comparison, whose links are not encrypted, beside a ring of this one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_testbed::{Process, Program, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{not_tested, program};

/// Generous: a leaf dials routers it knows within seconds.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_member_with_that_build_gets_no_link() {
    let Some(build) = std::env::var_os("RINGWAY_UNENCRYPTED").map(PathBuf::from) else {
        return not_tested(
            "a build without encryption beside a ring: RINGWAY_UNENCRYPTED names none; `make bench-overlay-real` has one",
        );
    };
    let builder = RingBuilder::new(program())
        .router("oslo")
        .leaf("alice")
        .absent_leaf("bob");
    let ring = builder.start().unwrap();
    let (oslo, bob) = (ring.member("oslo").unwrap(), ring.member("bob").unwrap());
    let unencrypted = Program::new(Path::new(&build));
    let mut command = unencrypted.command(["--json", "--home"]);
    command.arg(&bob.home).args(["node", "--exit-with-stdin"]);
    let _running = Process::start(command, &bob.home.with_extension("log")).unwrap();
    let foreign = wait_until(DEADLINE, || {
        let status = oslo.status()?;
        let counter = &status["counters"]["link_handshakes_foreign"];
        match counter.as_u64() {
            Some(1..) => Ok(status),
            _ => Err(TestbedError(format!("{counter}"))),
        }
    });
    let linked = |status: &Value, name: &str| {
        let links = status["links"].as_array().cloned().unwrap_or_default();
        links.iter().any(|link| link["name"] == name)
    };
    let status = foreign.unwrap();
    assert!(
        linked(&status, "alice") && !linked(&status, "bob"),
        "{status}"
    );
    assert!(
        bob.log_text().contains("INSECURE BUILD"),
        "{}",
        bob.log_text()
    );
}
