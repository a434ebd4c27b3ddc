//! The constants of congestion control: where they stand, and that each names a source that is
//! there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{report, sources};

const ALGORITHM: &str = "crates/dtl/src/adaptive";
const CONSTANTS: &str = "crates/dtl/src/adaptive/tuning";

/// A constant of the table: where it stands, and its comment in one line.
struct Constant {
    place: String,
    comment: String,
}

fn is_below(path: &Path, folder: &str) -> bool {
    path.to_string_lossy().contains(&format!("/{folder}/"))
}

fn files_in(folder: &str) -> Vec<PathBuf> {
    let all = sources().into_iter();
    all.filter(|path| is_below(path, folder)).collect()
}

/// Each line `name: Unit = value,` with the comment above it.
fn constants_of(path: &Path) -> Vec<Constant> {
    let text = fs::read_to_string(path).unwrap();
    let (mut found, mut comment) = (Vec::new(), String::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(words) = line.strip_prefix("///") {
            comment.push_str(words);
            continue;
        }
        let named = line.split_once(": ").map(|(_, rest)| rest);
        if named.is_some_and(|rest| rest.contains(" = ")) && line.ends_with(',') {
            found.push(Constant {
                place: format!("{}:{}", path.display(), number + 1),
                comment: std::mem::take(&mut comment),
            });
        }
        comment.clear();
    }
    found
}

/// Names of the functions by which `dtl` and the simulator are tested.
fn tests_by_name() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files_in("crates/dtl").into_iter().chain(files_in("sim")) {
        let text = fs::read_to_string(&path).unwrap();
        let functions = text.lines().filter_map(|line| {
            let (name, _) = line.trim().strip_prefix("fn ")?.split_once('(')?;
            Some(name.to_owned())
        });
        names.extend(functions);
    }
    names
}

#[test]
fn every_constant_of_congestion_control_names_its_source() {
    let constants: Vec<Constant> = files_in(CONSTANTS)
        .iter()
        .flat_map(|path| constants_of(path))
        .collect();
    assert!(constants.len() > 100, "the constants were not found");
    let (tests, mut faults) = (tests_by_name(), Vec::new());
    for Constant { place, comment } in &constants {
        let Some((_, source)) = comment.split_once("Source: ") else {
            faults.push(format!("{place}: no `Source:` in the comment"));
            continue;
        };
        if source.starts_with('?') {
            faults.push(format!("{place}: the source is still to be found"));
        }
        // What stands in backticks and has a path is a test.
        let named = source.split('`').skip(1).step_by(2);
        for test in named.filter(|name| name.contains("::")) {
            let name = test.rsplit("::").next().unwrap_or(test);
            if !tests.contains(name) {
                faults.push(format!("{place}: there is no test {test}"));
            }
        }
    }
    let with = constants.len() - faults.len();
    println!("{with} of {} constants name a source", constants.len());
    report(&faults);
}

#[test]
fn constants_of_congestion_control_stand_in_one_table() {
    let mut faults = Vec::new();
    for path in files_in(ALGORITHM) {
        if is_below(&path, CONSTANTS) || path.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or(&text);
        for (number, line) in code.lines().enumerate() {
            let item = line.trim_start().trim_start_matches("pub(super) ");
            // What is computed from the table is none of its own.
            if item.starts_with("const ") && !item.contains("TUNING") && !item.contains("const fn")
            {
                faults.push(format!("{}:{}: {item}", path.display(), number + 1));
            }
        }
    }
    report(&faults);
}
