//! Which program this is, which one the daemons run, and whether there are others.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::finding::Findings;
use super::subject::Subject;
use super::{Check, Look};
use crate::cli::VERSION;

pub(super) const CHECK: Check = Check {
    name: "versions",
    look: Look::AtOnce(check),
};

/// What the kernel puts behind the name of a program that was replaced while it runs (proc(5)).
const REPLACED: &str = " (deleted)";

fn check(subject: &Subject, findings: &mut Findings) {
    let own = std::env::current_exe().unwrap_or_default();
    findings.ok(&own.display().to_string(), VERSION);
    others(&own, findings);
    if let Some(status) = subject.status() {
        runs(status.pid, &subject.start_command(), findings);
        let releases = status
            .links
            .iter()
            .filter_map(|link| link.release.as_deref());
        peers(releases, findings);
    }
    if let Some(status) = &subject.gateway {
        runs(status.pid, "sudo systemctl restart ringway-gate", findings);
    }
}

/// Other programs of this name in the search path: which one runs depends on who calls.
fn others(own: &Path, findings: &mut Findings) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let place = |path: &Path| {
        fs::metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    };
    let found = std::env::split_paths(&path).map(|folder| folder.join("ringway"));
    let foreign = |path: &PathBuf| path.is_file() && place(path) != place(own);
    for other in found.filter(foreign) {
        findings.note(
            &other.display().to_string(),
            "another program of this name is in the search path",
            "remove the one that is not wanted: `ringway --version` of each says which it is",
        );
    }
}

/// What linked members say that they run.
fn peers<'a>(releases: impl Iterator<Item = &'a str>, findings: &mut Findings) {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for release in releases {
        *counted.entry(release).or_default() += 1;
    }
    if !counted.is_empty() {
        let shown = counted
            .iter()
            .map(|(release, count)| format!("{count} run {release}"));
        let shown: Vec<String> = shown.collect();
        findings.ok("linked members", &shown.join(", "));
    }
}

/// What a daemon runs. Only root may look.
fn runs(pid: u32, restart: &str, findings: &mut Findings) {
    let at = format!("daemon {pid}");
    let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else {
        return;
    };
    let shown = program.display().to_string();
    match shown.strip_suffix(REPLACED) {
        Some(replaced) => findings.note(
            &at,
            &format!("runs an older program than is installed at {replaced}"),
            restart,
        ),
        None => findings.ok(&at, &format!("runs {shown}, as installed")),
    }
}
