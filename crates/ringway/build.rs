//! Says which commit is built: `ringway --version` names it.
//!
//! `RINGWAY_COMMIT` ("HASH DATE") wins, for packagers who build without a repository.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RINGWAY_COMMIT");
    let named = env::var("RINGWAY_COMMIT").ok();
    let commit = named.filter(|text| !text.trim().is_empty());
    let commit = commit.or_else(from_git);
    println!(
        "cargo:rustc-env=RINGWAY_COMMIT={}",
        commit.as_deref().unwrap_or("commit unknown")
    );
}

/// Hash and date of the commit that is checked out; none without git or a repository.
fn from_git() -> Option<String> {
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    println!("cargo:rerun-if-changed={log}");
    git(&["log", "-1", "--abbrev=8", "--format=%h %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
