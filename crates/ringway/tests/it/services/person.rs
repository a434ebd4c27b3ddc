//! One person's member: the unit that `ringway service install member --user` writes, under a user
//! manager of systemd that runs in a mount namespace of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ringway_testbed::{RingBuilder, TestbedError, wait_until};

use super::super::{not_tested, program as built};
use super::{program, text};

/// A user that no account has.
const PERSON: u32 = 61_234;

/// The program that is a system's or a user's manager.
const SYSTEMD: &str = "/lib/systemd/systemd";

/// Where control groups are, of either version.
const HIERARCHIES: [&str; 3] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/systemd",
    "/sys/fs/cgroup/unified",
];

/// How long each step may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

/// In a mount namespace: the manager takes a machine for booted that has the first folder, and puts
/// its socket into the second. The groups are named by `$1`, the user by `$2`, its home by `$3`.
const MANAGER: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/systemd/system "/run/user/$2"
chown "$2:$2" "/run/user/$2"
chmod 700 "/run/user/$2"
for group in /sys/fs/cgroup/*/"$1" /sys/fs/cgroup/"$1"; do
    [ ! -d "$group" ] || echo $$ >"$group/cgroup.procs"
done
exec setpriv --reuid "$2" --regid "$2" --clear-groups env -i PATH=/usr/bin:/bin HOME="$3" \
    XDG_RUNTIME_DIR="/run/user/$2" USER=anna SHELL=/bin/sh /lib/systemd/systemd --user
"#;

/// A user manager and its groups, which end and go with it.
struct Manager {
    process: Child,
    groups: Vec<PathBuf>,
    home: PathBuf,
}

impl Manager {
    /// None, said, where none can be had.
    fn or_skip(home: &Path) -> Option<Manager> {
        let why = if !rustix::process::geteuid().is_root() {
            Some("needs root")
        } else if !Path::new(SYSTEMD).exists() {
            Some("systemd is missing")
        } else if Path::new("/run/systemd/system").exists() {
            Some("this system has user managers of its own")
        } else {
            None
        };
        if let Some(why) = why {
            not_tested(&format!("user_units_run_members: {why}"));
            return None;
        }
        let name = format!("ringway-test-{}", std::process::id());
        let groups: Vec<PathBuf> = HIERARCHIES
            .map(|folder| Path::new(folder).join(&name))
            .into_iter()
            // A file system without groups of its own has none to put a process into.
            .filter(|group| {
                fs::create_dir(group).is_ok() && group.join("cgroup.procs").exists()
            })
            .collect();
        for group in &groups {
            own(group);
        }
        let process = Command::new("unshare")
            .args(["-m", "sh", "-c", MANAGER, "sh", &name])
            .arg(PERSON.to_string())
            .arg(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let home = home.to_owned();
        Some(Manager {
            process,
            groups,
            home,
        })
    }

    /// Runs a command as that person, where the manager is.
    fn run(&self, words: &[&str]) -> Output {
        let (pid, user) = (self.process.id().to_string(), PERSON.to_string());
        let home = self.home.display();
        let mut command = Command::new("nsenter");
        command
            .args(["-m", "-t", &pid, "setpriv", "--reuid", &user])
            .args(["--regid", &user, "--clear-groups", "env", "-i"])
            .arg(format!("PATH={home}/bin:/usr/bin:/bin"))
            .arg(format!("HOME={home}"))
            .arg(format!("XDG_RUNTIME_DIR=/run/user/{user}"))
            .args(words)
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    fn until(&self, words: &[&str], wanted: &str) {
        let waited = wait_until(DEADLINE, || {
            let said = text(&self.run(words));
            match said.contains(wanted) {
                true => Ok(()),
                false => Err(TestbedError(format!("{words:?}: {said}"))),
            }
        });
        waited.unwrap();
    }

    fn well(&self, words: &[&str]) {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.run(&["systemctl", "--user", "exit"]);
        let ended = wait_until(DEADLINE, || match self.process.try_wait() {
            Ok(Some(_)) => Ok(()),
            _ => Err(TestbedError("it runs still".to_owned())),
        });
        if ended.is_err() {
            self.process.kill().ok();
            self.process.wait().ok();
        }
        for group in &self.groups {
            remove_group(group);
        }
    }
}

/// Groups below first; those of processes that have not ended stay.
fn remove_group(group: &Path) {
    for below in fs::read_dir(group).into_iter().flatten().flatten() {
        if below.path().is_dir() {
            remove_group(&below.path());
        }
    }
    fs::remove_dir(group).ok();
}

/// Gives a folder with its files to the person.
fn own(path: &Path) {
    chown(path, Some(PERSON), Some(PERSON)).unwrap();
    for file in fs::read_dir(path).into_iter().flatten().flatten() {
        chown(file.path(), Some(PERSON), Some(PERSON)).unwrap();
    }
}

#[test]
fn user_units_run_members() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(manager) = Manager::or_skip(home) else {
        return;
    };
    let ring = RingBuilder::new(built()).router("oslo").start().unwrap();
    let invited = ring.owner_call(&["ring", "invite", "anna", "--role", "leaf"]);
    let invite = invited.unwrap()[0]["invite"].as_str().unwrap().to_owned();
    fs::create_dir(home.join("bin")).unwrap();
    fs::copy(program(), home.join("bin/ringway")).unwrap();
    fs::write(home.join("anna.invite"), invite).unwrap();
    own(home);
    let invite = home.join("anna.invite");
    manager.until(&["systemctl", "--user", "is-system-running"], "running");
    manager.well(&["ringway", "join", "--invite", invite.to_str().unwrap()]);
    manager.well(&["ringway", "service", "install", "member", "--user"]);
    manager.well(&["systemctl", "--user", "daemon-reload"]);
    // It has notified the manager of its start, or this fails.
    manager.well(&["systemctl", "--user", "enable", "--now", "ringway-node"]);
    manager.until(
        &["ringway", "ping", "oslo", "--count", "1"],
        "1 of 1 answered",
    );
    manager.well(&["systemctl", "--user", "reload", "ringway-node"]);
    manager.until(
        &["systemctl", "--user", "status", "ringway-node"],
        "is member",
    );
    let looked = manager.run(&["ringway", "doctor"]);
    assert!(looked.status.success(), "{}", text(&looked));
    manager.well(&["ringway", "service", "remove", "member", "--user"]);
    let words = ["systemctl", "--user", "is-active", "ringway-node"];
    assert!(!manager.run(&words).status.success());
}
