//! `ringway-bench dtl` over a line of its own: as a user measures, with what `dtl-line` emulates.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use serde_json::Value;

use super::{not_tested, run};

/// The emulator, where `cargo test` of the whole workspace has put it.
fn emulator() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_BIN_EXE_ringway-bench"))
        .parent()
        .unwrap();
    let emulator = folder.join("dtl-line");
    if !rustix::process::geteuid().is_root() {
        return Err("this needs root".to_owned());
    }
    match emulator.exists() {
        true => Ok(emulator),
        false => Err(format!("{} is not built", emulator.display())),
    }
}

/// The figures that one short run gives.
fn measured(emulator: &Path, results: &Path) -> (Vec<Value>, String) {
    let outcome = run(&[
        "dtl",
        "--json",
        "--quick",
        "--only",
        "10/20/1bdp",
        "--contender",
        "ringway",
        "--case",
        "alone",
        "--results",
        results.to_str().unwrap(),
        "--rattan",
        emulator.to_str().unwrap(),
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let figures = outcome.stdout.lines().map(serde_json::from_str);
    (figures.map(Result::unwrap).collect(), outcome.stderr)
}

#[test]
fn finished_measurements_are_not_repeated() {
    let emulator = match emulator() {
        Ok(emulator) => emulator,
        Err(why) => return not_tested(&why),
    };
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("dtl.runs");
    let (first, progress) = measured(&emulator, &results);
    let figure = |metric: &str| {
        let of = first.iter().find(|figure| figure["metric"] == metric);
        of.unwrap_or_else(|| panic!("no {metric}: {first:?}"))["value"]
            .as_f64()
            .unwrap()
    };
    // A machine that is busy with other tests makes a line that no network has: what it gives is
    // not asked.
    assert!(figure("throughput") > 0.0, "{first:?}");
    assert!(progress.contains("10/20/1bdp ringway alone"), "{progress}");
    let runs = fs::read_to_string(&results).unwrap();
    let (again, _) = measured(&emulator, &results);
    assert_eq!(again, first);
    assert_eq!(fs::read_to_string(&results).unwrap(), runs);
}

#[test]
fn failing_emulator_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let emulator = folder.path().join("emulator");
    fs::write(
        &emulator,
        "#!/bin/sh\necho no device of this kind >&2\nexit 1\n",
    )
    .unwrap();
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return not_tested("this needs root");
    }
    let emulator = emulator.to_str().unwrap().to_owned();
    let outcome = thread::spawn(move || run(&["dtl", "--quick", "--rattan", &emulator]));
    let outcome = outcome.join().unwrap();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("no device of this kind"),
        "{}",
        outcome.stderr
    );
}
