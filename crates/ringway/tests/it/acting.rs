//! What root does for the services of a machine is theirs, not root's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::not_tested;

/// The services' folders as packages make them, in a view of the file system of its own, where no
/// service manager is to be seen.
const MACHINE: &str = "\
set -e
for folder in /run /var/lib; do mount -t tmpfs none $folder; done
mkdir -m 710 /var/lib/ringway && chown 4321:4321 /var/lib/ringway
mkdir -m 700 /var/lib/ringway-authority && chown 4322:4322 /var/lib/ringway-authority
";

/// What `script` printed, with the user's home at `home`; none without the rights for it.
fn on_machine(home: &Path, script: &str) -> Option<String> {
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c"])
        .arg(format!("{MACHINE}{script}"))
        .arg(env!("CARGO_BIN_EXE_ringway"))
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .env_remove("RINGWAY_HOME")
        .current_dir(home)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    if shown.contains("unshare failed") {
        not_tested("root in the services' place: it takes root");
        return None;
    }
    assert!(output.status.success(), "{shown}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn root_founds_and_joins_for_services() {
    let home = tempfile::tempdir().unwrap();
    let script = "
$0 ring init ring.test --dns 192.0.2.1:53 --enrol 192.0.2.1:7410 --member oslo
$0 ring invite lima --out lima.invite
$0 ring members --json
find /var/lib/ringway ! -user 4321
find /var/lib/ringway-authority ! -user 4322
grep 192.0.2.1:7400 /var/lib/ringway/ringway.toml
test -s /var/lib/ringway-authority/root.key
";
    let Some(shown) = on_machine(home.path(), script) else {
        return;
    };
    assert!(
        shown.contains("joined ring.test as oslo (router)"),
        "{shown}"
    );
    assert!(shown.contains("\"name\":\"oslo\""), "{shown}");
    // No file of theirs is root's.
    let others = shown.lines().filter(|line| line.starts_with("/var/lib"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new());
    let invite = fs::metadata(home.path().join("lima.invite")).unwrap();
    assert_eq!(invite.permissions().mode() & 0o777, 0o600);
    assert!(!home.path().join(".local").exists());
}

#[test]
fn first_member_is_checked_before_founding() {
    let home = tempfile::tempdir().unwrap();
    let script = "
for words in '--member No!' '--member oslo --listen 0.0.0.0:1'; do
    ! $0 ring init ring.test $words 2>>faults
done
test ! -e /var/lib/ringway-authority/root.key
";
    if on_machine(home.path(), script).is_none() {
        return;
    }
    let faults = fs::read_to_string(home.path().join("faults")).unwrap();
    assert!(faults.contains("--member: "), "{faults}");
    assert!(faults.contains("--listen 0.0.0.0:1"), "{faults}");
}

#[test]
fn home_of_root_stays_root() {
    let home = tempfile::tempdir().unwrap();
    let script = "
$0 ring init own.test --dir own
$0 --home mine join --offline --name lima >request
find own mine ! -user 0
ls /var/lib/ringway /var/lib/ringway-authority
";
    let Some(shown) = on_machine(home.path(), script) else {
        return;
    };
    let theirs = "/var/lib/ringway:\n\n/var/lib/ringway-authority:\n";
    assert!(shown.ends_with(theirs), "{shown}");
    assert!(home.path().join("own/root.key").exists());
}
