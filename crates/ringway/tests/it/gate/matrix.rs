//! The table of what is tested with which program, `docs/dev/live-matrix.md`, names nothing that is
//! not there, and each cell is done on both paths.

use std::fs;
use std::path::Path;

use super::beside::{Tested, wrong};

/// All functions of a file.
fn functions(source: &str) -> impl Iterator<Item = (&str, (&str, &str))> {
    source.split("\n}\n").filter_map(|text| {
        let (_, function) = text
            .rsplit_once("\nfn ")
            .or_else(|| text.split_once("fn "))?;
        let (signature, body) = function.split_once('{')?;
        let name = signature.split(['(', '<']).next()?;
        Some((name, (signature, body)))
    })
}

fn is_scenario(signature: &str) -> bool {
    ["-> Compared", "-> Job<", "-> Vec<Job<"]
        .iter()
        .any(|result| signature.contains(result))
}

fn names(body: &str, name: &str) -> bool {
    let mut words = body.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.any(|word| word == name)
}

/// Whether a function is done on both paths: it is a scenario, which its caller has to compare,
/// does some, or is done in one.
fn is_on_both(source: &str, name: &str, (signature, body): (&str, &str)) -> bool {
    let mut scenarios = functions(source).filter(|(_, (signature, _))| is_scenario(signature));
    is_scenario(signature)
        || names(body, "on_both")
        || scenarios.any(|(scenario, (_, within))| names(body, scenario) || names(within, name))
}

#[test]
fn named_tests_exist_and_run_on_both_paths() -> Tested {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../docs/dev/live-matrix.md"))?;
    let (cells, faults) = text.split_once("## Faults").ok_or("no faults")?;
    let names = |text| -> Vec<&str> {
        let rows = str::lines(text).filter(|line| line.starts_with("| "));
        rows.flat_map(|row| row.split('`').skip(1).step_by(2))
            .collect()
    };
    let (cells, faults) = (names(cells), names(faults));
    if cells.len() < 50 {
        return wrong(format!("{} names only", cells.len()));
    }
    for (place, name) in cells.iter().chain(&faults).enumerate() {
        let (file, function) = name.split_once("::").unwrap_or((name, ""));
        let source = root.join("tests/it/gate").join(format!("{file}.rs"));
        let source = fs::read_to_string(&source).map_err(|error| format!("{name}: {error}"))?;
        // A long name is cut off.
        let found = match function.strip_suffix('…') {
            Some(beginning) => functions(&source).find(|(name, _)| name.starts_with(beginning)),
            None => functions(&source).find(|(name, _)| *name == function),
        };
        let on_both = match found {
            _ if function.is_empty() => source.contains("on_both("),
            Some((name, found)) => is_on_both(&source, name, found),
            None => return wrong(format!("{name} is not there")),
        };
        if place < cells.len() && !on_both {
            return wrong(format!("{name} is on one path only"));
        }
    }
    Ok(())
}

#[test]
fn cell_on_one_path_only_is_found() -> Tested {
    let source = "fn seen(path: GatePath) -> Compared {\n    go(path)\n}\n\nfn both() -> Tested {\n    all(vec![on_both(\"seen\", seen)])\n}\n\n\
        fn by_jobs() -> Tested {\n    all([1].map(seen).into())\n}\n\nfn one() -> Tested {\n    let mut unseen = up();\n    go(&mut unseen)\n}\n";
    for (name, on_both) in [
        ("seen", true),
        ("both", true),
        ("by_jobs", true),
        ("one", false),
    ] {
        let found = functions(source).find(|(known, _)| *known == name);
        let found = found.ok_or(name)?;
        if is_on_both(source, name, found.1) != on_both {
            return wrong(format!("{name}: {found:?}"));
        }
    }
    Ok(())
}
