//! The header against the library: a program in C is compiled with it and run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's helpers end the test at the first error"
)]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that Cargo has put `libdtl.so` into.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders = program.ancestors().skip(1).take(2);
    let mut with = folders.filter(|folder| folder.join("libdtl.so").exists());
    with.next().expect("Cargo builds libdtl.so").to_owned()
}

#[test]
fn program_in_c_moves_chat_and_bulk() {
    if Command::new("cc").arg("--version").output().is_err() {
        let line = b"SKIPPED: a program in C needs cc\n";
        return std::io::stderr().write_all(line).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("chat_and_bulk");
    let compiled = Command::new("cc")
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .arg(here().join("include"))
        .arg(here().join("examples/chat_and_bulk.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library())
        .args(["-ldtl", "-pthread"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let ran = Command::new(&program)
        .env("LD_LIBRARY_PATH", library())
        .output()
        .unwrap();
    let said = format!("{ran:?}");
    assert!(ran.status.success(), "{said}");
    let size = size_of::<dtl::dtl_stats>();
    let expected = format!("hello, statistics of {size} bytes\n");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), expected);
}

/// The words before `(` that begin so.
fn functions(text: &str, before: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in text.split(before).skip(1) {
        let end = part.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let end = end.unwrap_or(part.len());
        if part[end..].starts_with('(') {
            found.insert(part[..end].to_owned());
        }
    }
    found
}

#[test]
fn header_declares_every_function() {
    let mut exported = BTreeSet::new();
    for file in ["connection.rs", "endpoint.rs", "failure.rs", "stream.rs"] {
        let text = std::fs::read_to_string(here().join("src").join(file)).unwrap();
        exported.extend(functions(&text, "pub extern \"C\" fn dtl_"));
    }
    assert!(exported.len() > 15, "{exported:?}");
    let header = std::fs::read_to_string(here().join("include/dtl.h")).unwrap();
    assert_eq!(functions(&header, "dtl_"), exported);
}
