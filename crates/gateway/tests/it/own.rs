//! Captures of real programs in `tests/captures`: each flow is what its program spoke.
//!
//! The labels have the form of the recorded captures' (`given`), with the gateway's own names.
//! Where it calls a flow otherwise, a further field says what, and another why. `evasion` changes
//! these captures like the made ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringway_gateway::{FlowRecord, classify_file};

use crate::given::{Label, is_of, labels};

/// All together: they are kept with the source.
const MOST: u64 = 400_000;
/// Of one capture.
const MOST_OF_ONE: u64 = 30_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

fn paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "pcap"))
        .collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Names and bytes of all captures.
pub(crate) fn captures() -> Vec<(String, Vec<u8>)> {
    let read = |path: &PathBuf| (name(path), std::fs::read(path).unwrap());
    paths().iter().map(read).collect()
}

/// What a flow is called here: its label, unless a reason is given.
fn called(label: &Label) -> &str {
    match &label.called {
        Some((app, why)) => {
            assert!(why.len() > 10 && *app != label.label, "{label:?}");
            app
        }
        None => &label.label,
    }
}

#[test]
fn every_flow_is_what_its_program_spoke() {
    let labels = labels(&folder());
    let mut seen = vec![0; labels.len()];
    let mut differing = Vec::new();
    for path in paths() {
        let mut take = |flow: FlowRecord| {
            let found = labels
                .iter()
                .position(|label| is_of(label, &name(&path), &flow));
            let wanted = found.map(|place| {
                seen[place] += 1;
                called(&labels[place])
            });
            if wanted != Some(flow.app.as_str()) {
                differing.push(format!("{}: {wanted:?}, but {flow:?}", name(&path)));
            }
        };
        classify_file(&path, &mut take).unwrap();
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    for (label, count) in labels.iter().zip(seen) {
        assert_eq!(count, 1, "flows of {label:?}");
    }
}

#[test]
fn all_programs_are_there_and_small() {
    let mut flows: BTreeMap<String, usize> = BTreeMap::new();
    for label in labels(&folder()) {
        *flows.entry(label.label).or_default() += 1;
    }
    for app in [
        "bittorrent",
        "edonkey",
        "directconnect",
        "irc",
        "dcc",
        "xmpp",
        "http",
    ] {
        assert!(flows.contains_key(app), "no flow of {app}: {flows:?}");
    }
    let sizes: Vec<u64> = paths()
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .collect();
    assert!(sizes.iter().all(|&size| size <= MOST_OF_ONE), "{sizes:?}");
    assert!(sizes.iter().sum::<u64>() <= MOST, "{sizes:?}");
}
