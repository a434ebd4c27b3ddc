//! How many files and sockets the daemon may have open.

use std::fs;

use ringway_node::limits::OPEN_FILES;

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look};

pub(super) const CHECK: Check = Check {
    name: "open files",
    look: Look::AtOnce(check),
};

/// Below which a small ring's links and a transfer do not fit.
const TOO_FEW: u64 = 256;

fn check(subject: &Subject, findings: &mut Findings) {
    let Some(status) = subject.status() else {
        return;
    };
    let limits = fs::read_to_string(format!("/proc/{}/limits", status.pid));
    // In another container's namespace of processes the number means another one, or none.
    if let Some(allowed) = limits.ok().and_then(|text| allowed(&text)) {
        judge(status.pid, allowed, findings);
    }
}

fn judge(pid: u32, allowed: u64, findings: &mut Findings) {
    let at = format!("daemon {pid}");
    let seen = format!("may have {allowed} open");
    let mend = format!(
        "LimitNOFILE={OPEN_FILES} in the unit (`sudo systemctl edit ringway-node`), and restart it"
    );
    match allowed {
        0..TOO_FEW => findings.wrong(&at, &seen, &mend),
        TOO_FEW..OPEN_FILES => findings.note(&at, &format!("{seen} of {OPEN_FILES}"), &mend),
        _ => findings.ok(&at, &seen),
    }
}

/// The limit in force, of the text of proc(5): `Max open files  1024  524288  files`.
fn allowed(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Level, only};

    #[test]
    fn limits_of_processes_are_read() {
        let own = fs::read_to_string("/proc/self/limits").unwrap();
        assert!(allowed(&own).unwrap() > 0);
        for (limit, level) in [(64, Level::Wrong), (1_024, Level::Note), (8_192, Level::Ok)] {
            let mut findings = Findings::new("open files");
            judge(1, limit, &mut findings);
            assert_eq!(only(findings).0, level, "{limit}");
        }
    }
}
