//! Whether secrets are their user's alone, and who may use the daemon.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look};

pub(super) const CHECK: Check = Check {
    name: "permissions",
    look: Look::AtOnce(check),
};

/// Files of a member that are its user's alone.
const SECRETS: [&str; 3] = ["identity.key", "identity.next", "state.db"];

/// Files of an authority that are.
const RING_SECRETS: [&str; 2] = ["root.key", "authority.db"];

fn check(subject: &Subject, findings: &mut Findings) {
    folder("the member's folder", &subject.home, findings);
    for name in SECRETS {
        secret(&subject.home.join(name), findings);
    }
    for path in passwords(subject) {
        secret(&path, findings);
    }
    if let Some(authority) = &subject.authority {
        folder("the authority's folder", &authority.folder, findings);
        for name in RING_SECRETS {
            secret(&authority.folder.join(name), findings);
        }
    }
    socket(&subject.socket, findings);
}

/// Files with passwords that the configuration names.
pub(super) fn passwords(subject: &Subject) -> Vec<PathBuf> {
    let Some(config) = subject.config.known() else {
        return Vec::new();
    };
    let mail = &config.smtp;
    let servers = [&mail.relay, &mail.imap, &mail.pop3];
    let servers = servers.into_iter().flatten();
    let mut found: Vec<PathBuf> = servers.filter_map(|at| at.password_file.clone()).collect();
    found.sort();
    found.dedup();
    found
}

/// Others may pass through a folder, but neither list nor write it.
fn folder(what: &str, path: &Path, findings: &mut Findings) {
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let at = format!("{what}, {}", path.display());
    let mode = metadata.mode() & 0o7777;
    let seen = owned(&metadata);
    match mode & 0o066 {
        0 => findings.ok(&at, &seen),
        _ => findings.wrong(
            &at,
            &format!("{seen}: others may list or change it"),
            &format!("chmod go-rw {}", path.display()),
        ),
    }
}

fn secret(path: &Path, findings: &mut Findings) {
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let at = path.display().to_string();
    let seen = owned(&metadata);
    if metadata.mode() & 0o077 != 0 {
        let mend = format!("chmod 600 {at}");
        return findings.wrong(&at, &format!("{seen}: others can read this secret"), &mend);
    }
    // What another user owns is not read by the daemon of the folder's user.
    let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
    if let Some(folder) = folder.filter(|folder| folder.uid() != metadata.uid()) {
        let mend = format!("sudo chown {}:{} {at}", folder.uid(), folder.gid());
        let seen = format!("{seen}, in a folder of user {}", folder.uid());
        return findings.wrong(&at, &seen, &mend);
    }
    findings.ok(&at, &seen);
}

/// Who may give the daemon orders.
fn socket(path: &Path, findings: &mut Findings) {
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let at = path.display().to_string();
    if !metadata.file_type().is_socket() {
        return findings.wrong(
            &at,
            "it is no socket",
            "move it away, and start the daemon again",
        );
    }
    let seen = owned(&metadata);
    let mode = metadata.mode();
    if mode & 0o002 != 0 {
        let mend = format!("chmod o-rwx {at}");
        return findings.wrong(
            &at,
            &format!("{seen}: every user may use the daemon"),
            &mend,
        );
    }
    // Root may use every socket; others need the user or the group.
    let own = rustix::process::geteuid().as_raw();
    let groups = rustix::process::getgroups().unwrap_or_default();
    let mut groups = groups.iter().map(|group| group.as_raw());
    let by_group = mode & 0o020 != 0 && groups.any(|group| group == metadata.gid());
    if own == 0 || own == metadata.uid() || by_group {
        return findings.ok(&at, &format!("{seen}: this user may use it"));
    }
    let group = name_of("/etc/group", metadata.gid());
    findings.note(
        &at,
        &format!("{seen}: this user may not use it"),
        &format!("sudo adduser $USER {group}, and log in again"),
    );
}

/// Such as `0600 ringway:ringway`.
fn owned(metadata: &Metadata) -> String {
    let mode = metadata.mode() & 0o7777;
    let user = name_of("/etc/passwd", metadata.uid());
    let group = name_of("/etc/group", metadata.gid());
    format!("{mode:04o} {user}:{group}")
}

/// The name that belongs to a number in a file of the form of passwd(5) or group(5), else the
/// number.
fn name_of(file: &str, number: u32) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let wanted = number.to_string();
    let line = text
        .lines()
        .find(|line| line.split(':').nth(2) == Some(&wanted));
    let name = line.and_then(|line| line.split(':').next());
    name.map_or(wanted.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::doctor::finding::{Level, only};

    #[test]
    fn open_secrets_and_folders_are_wrong() {
        let folder_ = tempfile::tempdir().unwrap();
        let path = folder_.path().join("identity.key");
        fs::write(&path, b"x").unwrap();
        for (mode, level) in [(0o600, Level::Ok), (0o640, Level::Wrong)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let mut findings = Findings::new("permissions");
            secret(&path, &mut findings);
            let (found, _, mend) = only(findings);
            assert_eq!(
                (found, mend.contains("chmod 600")),
                (level, level == Level::Wrong)
            );
        }
        for (mode, level) in [
            (0o700, Level::Ok),
            (0o710, Level::Ok),
            (0o755, Level::Wrong),
            (0o730, Level::Wrong),
        ] {
            fs::set_permissions(folder_.path(), Permissions::from_mode(mode)).unwrap();
            let mut findings = Findings::new("permissions");
            folder("it", folder_.path(), &mut findings);
            assert_eq!(only(findings).0, level, "{mode:o}");
        }
    }

    #[test]
    fn numbers_have_names_or_stay() {
        assert_eq!(name_of("/etc/passwd", 0), "root");
        assert_eq!(name_of("/etc/passwd", 3_999_999_999), "3999999999");
    }
}
