//! The owner's folder is put back as it was before: members notice, and bring what it lacks.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::program;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(120);

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(to, private).unwrap();
}

fn status(ring: &Ring, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let member = ring.member(name).unwrap();
    let found = wait_until(DEADLINE, || {
        let status = member.status()?;
        match wanted(&status) {
            true => Ok(status),
            false => Err(TestbedError(status.to_string())),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

#[test]
fn authority_signs_nothing_before_it_has_recovered() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.absent_leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let folder = ring.folder().join("owner/authority");
    let backup = ring.folder().join("backup");
    ring.authority.terminate().unwrap();
    copy(&folder, &backup);
    ring.start_authority().unwrap();
    let revoked = ring.owner_call(&["ring", "revoke", "alice"]).unwrap();
    let alice = revoked[0]["serial"].as_u64().unwrap();
    let before = status(&ring, "oslo", |_| true)["statement"].as_u64();
    let known = |status: &Value| status["statement"].as_u64() > before;
    let known = status(&ring, "oslo", known)["statement"].as_u64();
    status(&ring, "lima", |status| {
        status["statement"].as_u64() == known
    });

    ring.authority.terminate().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    copy(&backup, &folder);
    ring.start_authority().unwrap();
    let older = status(&ring, "oslo", |status| status["statement_in_dns"].is_u64());
    assert!(older["statement_in_dns"].as_u64() < known, "{older}");
    let brought = wait_until(DEADLINE, || {
        let log = ring.authority.log_text();
        match log.contains("its folder is an old copy") {
            true => Ok(()),
            false => Err(TestbedError(log)),
        }
    });
    brought.unwrap();
    let refused = ring.owner_call(&["ring", "revoke", "lima"]).unwrap_err();
    assert!(refused.0.contains("ring recover"), "{refused}");

    let recovered = ring.owner_call(&["ring", "recover"]).unwrap().remove(0);
    assert_eq!(recovered["ended"], serde_json::json!(["alice"]));
    let number = recovered["statement"].as_u64();
    assert!(number > known, "{recovered}");
    let whole = |status: &Value| status["statement"].as_u64() == number;
    status(&ring, "lima", |status| {
        whole(status) && status["statement_in_dns"].is_null()
    });
    let members = ring.owner_call(&["ring", "members"]).unwrap();
    let entry = members.iter().find(|member| member["serial"] == alice);
    assert_eq!(entry.unwrap()["state"], "revoked");
    ring.owner_call(&["ring", "revoke", "lima"]).unwrap();
}
