//! Whether the member's configuration is one that its daemon takes.

use ringway_node::home;

use super::finding::Findings;
use super::subject::{Read, Subject};
use super::{Check, Look};

pub(super) const CHECK: Check = Check {
    name: "configuration",
    look: Look::AtOnce(check),
};

fn check(subject: &Subject, findings: &mut Findings) {
    if !subject.has_member() && subject.authority.is_none() && !subject.has_gateway {
        return findings.note(
            &subject.home.display().to_string(),
            "no member, no authority and no gateway is on this machine, as far as this user can see",
            "`ringway join` makes it a member; another folder is named by --home or --dir",
        );
    }
    if !subject.has_member() {
        return;
    }
    let path = home::config_path(&subject.home).display().to_string();
    let wrong = |reason: &str, findings: &mut Findings| {
        // The error names the file, as it does elsewhere.
        let reason = reason.strip_prefix(&path).unwrap_or(reason);
        let reason = reason.trim_start_matches([':', ' ']);
        findings.wrong(
            &path,
            reason,
            "change that line, and start the daemon again",
        );
    };
    match (&subject.config, &subject.member) {
        (Read::Is(config), Read::Is(own)) => match config.check_role(own.certificate.role()) {
            Ok(()) => findings.ok(&path, "read, and right"),
            Err(error) => wrong(&error.to_string(), findings),
        },
        (Read::Is(_), _) => findings.ok(&path, "read, and right"),
        (Read::Wrong(reason), _) => wrong(reason, findings),
        (Read::Forbidden, _) => {
            findings.note(&path, "this user may not read it", "sudo ringway doctor")
        }
        (Read::Absent, Read::Absent) => {}
        (Read::Absent, _) => findings.wrong(
            &path,
            "it is missing",
            "restore it from a backup, or write a file with the line `[node]` alone",
        ),
    }
}
