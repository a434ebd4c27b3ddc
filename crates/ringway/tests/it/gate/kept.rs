//! Files that a rule keeps, on a live gateway.

use super::border::Border;
use super::scans::{fetch, serve};
use crate::random_bytes;

const KEEP: &str =
    "[[rule]]\nname = \"keep\"\napp = \"http\"\naction = \"allow\"\naudit_file = true\n";

#[test]
fn a_file_is_kept_under_its_hash_and_one_that_is_too_large_is_only_written_down() {
    let Some(mut border) = Border::new("kept files") else {
        return;
    };
    let (small, large) = (
        random_bytes("small", 300_000),
        random_bytes("large", 600_000),
    );
    serve(&border, 8_001, small.clone(), true);
    serve(&border, 8_002, large.clone(), true);
    border.up(KEEP, &["--enforce", "--kept-file", "500000"]);
    assert!(fetch(&border, 8_001, "small.bin") == small);
    assert!(fetch(&border, 8_002, "large.bin") == large);
    let events = border.audit_when(|events| {
        let whole = events
            .iter()
            .filter(|event| event["fileinfo"]["sha256"].is_string());
        whole.count() == 2
    });
    let files = border.folder.path().join("state").join("files");
    for (name, body, kept) in [("small.bin", small, true), ("large.bin", large, false)] {
        let info = events
            .iter()
            .map(|event| &event["fileinfo"])
            .find(|info| info["filename"] == name)
            .unwrap();
        let hash = info["sha256"].as_str().unwrap();
        assert_eq!(info["stored"] == true, kept, "{info}");
        let place = files.join(&hash[..2]).join(hash);
        assert_eq!(std::fs::read(&place).ok(), kept.then_some(body), "{name}");
    }
    let partial = std::fs::read_dir(files.join("partial")).unwrap();
    assert_eq!(partial.count(), 0);
}
