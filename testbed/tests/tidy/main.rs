//! Style as a test: what rustfmt and clippy cannot check. Run it with `make tidy`.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in the functions it shares with others"
)]

mod prose;
mod shape;
mod tuning;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines that no source file may exceed.
const FILE_LINES: usize = 800;

/// Which of our crates each crate may depend on: dependencies point one way.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("crates/dtl", &[]),
    ("crates/overlay", &[]),
    ("crates/transport", &["ringway-dtl"]),
    ("crates/client", &[]),
    ("crates/dtl-c", &["ringway-transport"]),
    (
        "crates/node",
        &[
            "ringway-client",
            "ringway-dtl",
            "ringway-overlay",
            "ringway-transport",
        ],
    ),
    ("crates/gateway", &["ringway-overlay", "ringway-transport"]),
    (
        "crates/ringway",
        &[
            "ringway-client",
            "ringway-transport",
            "ringway-node",
            "ringway-gateway",
            "ringway-overlay",
        ],
    ),
    (
        "crates/bench",
        &[
            "ringway-client",
            "ringway-dtl",
            "ringway-transport",
            "ringway-node",
            "ringway-gateway",
            "ringway-overlay",
            "ringway-sim",
            "ringway-terminal",
            "ringway-testbed",
        ],
    ),
    ("sim", &["ringway-dtl", "ringway-overlay"]),
    ("testbed", &[]),
];

/// Runtimes and sockets that a sans-IO core must not know.
const NOT_IN_CORES: &[&str] = &["tokio", "noq", "quinn", "mio", "socket2", "async-trait"];

/// Parts of the standard library that a sans-IO core must not use.
const NOT_IN_CORE_SOURCES: &[&str] = &[
    "std::net::UdpSocket",
    "std::net::TcpStream",
    "std::fs",
    "std::thread",
];

/// Module names that say nothing.
const NAMELESS: &[&str] = &["common", "util", "utils", "helpers", "misc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["crates", "sim", "testbed", "benches", "fuzz"] {
        walk(&root().join(folder), "rs", &mut found);
    }
    assert!(found.len() > 50, "the sources were not found");
    found
}

/// The files below a folder that end so.
fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            walk(&path, ending, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
}

/// Fails with every fault at once.
fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn files_are_short_and_say_their_purpose() {
    let mut faults = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if lines > FILE_LINES {
            faults.push(format!(
                "{}: {lines} lines, at most {FILE_LINES}",
                path.display()
            ));
        }
        if !text.starts_with("//!") && !text.starts_with("#![no_main]") {
            faults.push(format!("{}: does not begin with `//!`", path.display()));
        }
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if NAMELESS.contains(&stem.as_str()) {
            faults.push(format!("{}: a name that says nothing", path.display()));
        }
    }
    report(&faults);
}

/// True if the file stands in this folder.
fn is_within(path: &Path, folder: &str) -> bool {
    path.parent().is_some_and(|parent| parent.ends_with(folder))
}

/// A build whose links are not encrypted is for benchmarks; nothing that builds, tests or ships the
/// program may switch that on, but for the benchmark that compares with it, in a folder for builds
/// of its own.
#[test]
fn nothing_ships_the_insecure_build() {
    for file in [
        "Makefile",
        "setup.sh",
        "Cargo.toml",
        "fuzz/Cargo.toml",
        "benches/Cargo.toml",
        "testbed/Cargo.toml",
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let text = match file {
            "Makefile" => without_rule(&text, "bench-overlay-real"),
            _ => text,
        };
        for word in ["--all-features", "insecure"] {
            assert!(!text.contains(word), "{file} has `{word}`");
        }
    }
    for manifest in [
        "crates/node/Cargo.toml",
        "crates/ringway/Cargo.toml",
        "crates/bench/Cargo.toml",
    ] {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        // Single sign-on is the one feature that is on.
        let other = |line: &str| line.starts_with("default") && line != "default = [\"sso\"]";
        let on = text.lines().any(other);
        assert!(!on, "{manifest} has other default features");
        assert!(text.contains("\ninsecure = ["), "{manifest}");
    }
}

/// A Makefile's text without this rule, on which no other may depend, and which builds the insecure
/// program where nothing else is built.
fn without_rule(makefile: &str, rule: &str) -> String {
    let mut inside = false;
    let mut rest = String::new();
    for line in makefile.lines() {
        if !line.starts_with('\t') {
            inside = line.starts_with(&format!("{rule}:"));
        }
        if inside {
            let builds = line.contains(" build ") && line.contains("insecure");
            let apart = line.contains("--target-dir target/insecure");
            assert!(!builds || apart, "{line}");
        } else if !line.starts_with(".PHONY") {
            assert!(!line.contains(rule), "{line}");
            rest.push_str(line);
            rest.push('\n');
        }
    }
    rest
}

#[test]
fn every_limit_names_its_source() {
    let mut faults = Vec::new();
    let mut limits = 0;
    for path in sources()
        .iter()
        .filter(|path| path.ends_with("src/limits.rs") || is_within(path, "src/limits"))
    {
        let text = fs::read_to_string(path).unwrap();
        let mut comment = String::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(words) = line.strip_prefix("///") {
                comment.push_str(words);
            } else if line.starts_with("pub const") || line.starts_with("pub(crate) const") {
                limits += 1;
                if !comment.contains("Source:") {
                    faults.push(format!(
                        "{}:{}: no `Source:` in the comment",
                        path.display(),
                        number + 1
                    ));
                }
                comment.clear();
            } else if !line.starts_with("#[") {
                comment.clear();
            }
        }
    }
    assert!(limits > 20, "the limits were not found");
    report(&faults);
}

fn dependencies(manifest: &Path, tables: &[&str]) -> BTreeSet<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let mut names = BTreeSet::new();
    for name in tables {
        if let Some(dependencies) = table.get(*name).and_then(toml::Value::as_table) {
            names.extend(dependencies.keys().cloned());
        }
    }
    names
}

#[test]
fn dependencies_point_one_way() {
    let mut faults = Vec::new();
    for (folder, allowed) in MAY_DEPEND_ON {
        let manifest = root().join(folder).join("Cargo.toml");
        for name in dependencies(&manifest, &["dependencies", "build-dependencies"]) {
            if name.starts_with("ringway") && !allowed.contains(&name.as_str()) {
                faults.push(format!("{folder} depends on {name}"));
            }
        }
    }
    report(&faults);
}

#[test]
fn the_cores_know_no_sockets_and_no_runtime() {
    let mut faults = Vec::new();
    for folder in ["crates/dtl", "crates/overlay"] {
        let manifest = root().join(folder).join("Cargo.toml");
        let all = dependencies(
            &manifest,
            &["dependencies", "dev-dependencies", "build-dependencies"],
        );
        let forbidden = all
            .iter()
            .filter(|name| NOT_IN_CORES.contains(&name.as_str()));
        faults.extend(forbidden.map(|name| format!("{folder} depends on {name}")));
        let mut files = Vec::new();
        walk(&root().join(folder).join("src"), "rs", &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for forbidden in NOT_IN_CORE_SOURCES {
                if text.contains(forbidden) {
                    faults.push(format!("{}: uses {forbidden}", file.display()));
                }
            }
        }
    }
    report(&faults);
}

#[test]
fn ignored_tests_say_why() {
    let mut faults = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let bare = line.trim();
            if bare.starts_with("#[ignore") && !bare.contains('"') {
                faults.push(format!(
                    "{}:{}: ignored without a reason",
                    path.display(),
                    number + 1
                ));
            }
        }
    }
    report(&faults);
}
