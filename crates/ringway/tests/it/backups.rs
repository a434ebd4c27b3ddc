//! The authority in one file, restored elsewhere, and promoted there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringway_testbed::{Outcome, Ring, RingBuilder, TestbedError, free_address, wait_until};
use serde_json::Value;

use super::{program, run};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(120);

/// The owner's machine.
struct Owner<'a>(&'a Path);

impl Owner<'_> {
    fn run(&self, arguments: &[&str]) -> Outcome {
        let home = self.0.to_str().unwrap();
        run(&[&["--json", "--home", home, "ring"], arguments].concat())
    }

    fn object(&self, arguments: &[&str]) -> Value {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.objects().unwrap().pop().unwrap()
    }

    fn refusal(&self, code: i32, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        outcome.stderr
    }
}

fn secret(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn backups_open_only_whole_and_by_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("a"), folder.path().join("b"));
    let (here, there) = (Owner(&here), Owner(&there));
    here.object(&["init", "ring.test"]);
    here.object(&["invite", "oslo"]);
    let right = secret(folder.path(), "right", "correct horse battery staple\n");
    let wrong = secret(folder.path(), "wrong", "correct horse battery stable\n");
    let short = secret(folder.path(), "short", "abc\n");
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let file = folder.path().join("ring.backup");
    let path = file.to_str().unwrap();
    let short = short.to_str().unwrap();
    here.refusal(2, &["backup", "--passphrase-file", short, path]);
    let made = here.object(&["backup", "--passphrase-file", right, path]);
    assert_eq!(made["schema"], "ringway.backup/1");
    assert_eq!(made["invites"], 1);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = here.refusal(2, &["backup", "--passphrase-file", right, path]);
    assert!(again.contains("is there already"), "{again}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);

    let refused = there.refusal(1, &["restore", "--passphrase-file", wrong, path]);
    assert!(refused.contains("passphrase"), "{refused}");
    let bytes = fs::read(&file).unwrap();
    let cut = folder.path().join("cut");
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let cut = cut.to_str().unwrap();
    let refused = there.refusal(1, &["restore", "--passphrase-file", right, cut]);
    assert!(refused.contains("cut off or damaged"), "{refused}");
    let looked = there.object(&["restore", "--check", "--passphrase-file", right, path]);
    assert_eq!(looked["ring"], made["ring"]);
    assert!(!folder.path().join("b").exists(), "nothing is restored");

    let restored = there.object(&["restore", "--passphrase-file", right, path]);
    assert_eq!(restored["fed"], false);
    let over = there.refusal(2, &["restore", "--passphrase-file", right, path]);
    assert!(over.contains("is not empty"), "{over}");
    let over = &["restore", "--standby", "--passphrase-file", right, path];
    let over = here.refusal(2, over);
    assert!(over.contains("an authority that signs"), "{over}");
    let refused = there.refusal(1, &["invite", "lima"]);
    assert!(refused.contains("ring promote"), "{refused}");
    assert_eq!(there.object(&["promote"])["term"], 1);
    there.object(&["invite", "lima"]);
}

/// A member's status, once it is as wanted.
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

fn until_logged(ring: &Ring, text: &str) {
    let logged = wait_until(DEADLINE, || {
        let log = ring.authority.log_text();
        match log.contains(text) {
            true => Ok(()),
            false => Err(TestbedError(log)),
        }
    });
    logged.unwrap();
}

/// Another machine takes the address of the authority, which has died, and that comes back later.
#[test]
fn a_promoted_standby_fences_the_authority_before() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.absent_leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let folder = ring.folder().to_owned();
    let passphrase = secret(&folder, "passphrase", "correct horse battery staple\n");
    let passphrase = passphrase.to_str().unwrap();
    let file = folder.join("ring.backup");
    let file = file.to_str().unwrap();
    let backup = ["ring", "backup", "--passphrase-file", passphrase, file];
    let made = ring.owner_call(&backup).unwrap().remove(0);
    let made = made["statement"].as_u64().unwrap();
    ring.owner_call(&["ring", "revoke", "alice"]).unwrap();
    let newer = |status: &Value| status["statement"].as_u64() > Some(made);
    let known = status(&ring, "oslo", newer)["statement"].as_u64();
    status(&ring, "lima", |status| {
        status["statement"].as_u64() == known
    });

    ring.authority.kill().unwrap();
    let (owner, first) = (folder.join("owner"), folder.join("first"));
    fs::rename(&owner, &first).unwrap();
    let restore = ["ring", "restore", "--passphrase-file", passphrase, file];
    ring.owner_call(&restore).unwrap();
    ring.start_authority().unwrap();
    until_logged(&ring, "its folder is an old copy");
    let refused = ring.owner_call(&["ring", "invite", "x"]).unwrap_err();
    assert!(refused.0.contains("ring promote"), "{refused}");
    let promoted = ring.owner_call(&["ring", "promote"]).unwrap().remove(0);
    assert_eq!(promoted["ended"], serde_json::json!(["alice"]));
    let number = promoted["statement"].as_u64();
    assert!(number > known, "{promoted}");
    let whole = |status: &Value| status["statement"].as_u64() == number;
    status(&ring, "oslo", whole);
    status(&ring, "lima", whole);

    // The one before is back, at the old address, and the promoted one is off for a while.
    ring.authority.terminate().unwrap();
    let second = folder.join("second");
    fs::rename(&owner, &second).unwrap();
    fs::rename(&first, &owner).unwrap();
    ring.start_authority().unwrap();
    until_logged(&ring, "this one is fenced");
    let refused = ring.owner_call(&["ring", "revoke", "lima"]).unwrap_err();
    assert!(refused.0.contains("in term 1"), "{refused}");
    assert!(whole(&status(&ring, "oslo", |_| true)));

    // And the promoted one goes on.
    ring.authority.terminate().unwrap();
    fs::rename(&owner, &first).unwrap();
    fs::rename(&second, &owner).unwrap();
    ring.start_authority().unwrap();
    ring.owner_call(&["ring", "revoke", "lima"]).unwrap();
    // Only a home of which DNS says that its member was revoked takes another invite.
    status(&ring, "oslo", |status| {
        status["statement"].as_u64() > number
    });
    ring.member_mut("lima").unwrap().terminate().unwrap();
    let joined = ring.join_again("lima").unwrap();
    assert_eq!(joined["name"], "lima", "{joined}");
    ring.member_mut("lima").unwrap().start().unwrap();
}

/// A standby at an address of its own: the one before comes back where it was, and no member
/// tells it.
#[test]
fn the_promoted_one_tells_the_one_before() {
    let mut ring = RingBuilder::new(program()).start().unwrap();
    let folder = ring.folder().to_owned();
    let passphrase = secret(&folder, "passphrase", "correct horse battery staple\n");
    let passphrase = passphrase.to_str().unwrap();
    let file = folder.join("ring.backup");
    let file = file.to_str().unwrap();
    let backup = ["ring", "backup", "--passphrase-file", passphrase, file];
    ring.owner_call(&backup).unwrap();
    let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
    let (dns, enrol) = (dns.to_string(), enrol.to_string());
    let home = folder.join("elsewhere");
    let elsewhere = Owner(&home);
    let restore = ["restore", "--standby", "--dns", &dns, "--enrol", &enrol];
    let restore = [&restore[..], &["--passphrase-file", passphrase, file]].concat();
    elsewhere.object(&restore);
    assert_eq!(elsewhere.object(&restore)["fed"], true);
    elsewhere.object(&["promote"]);
    let home = home.to_str().unwrap();
    let serve = program().command([
        "--json",
        "--home",
        home,
        "ring",
        "serve",
        "--exit-with-stdin",
    ]);
    let log = folder.join("elsewhere.log");
    let _serving = ringway_testbed::Process::start(serve, &log).unwrap();
    until_logged(&ring, "this one is fenced");
    let refused = ring.owner_call(&["ring", "invite", "x"]).unwrap_err();
    assert!(refused.0.contains("in term 1"), "{refused}");
    ring.authority.terminate().unwrap();
}
