//! Files that a rule keeps, on a live gateway.

use super::beside::Tested;
use super::border::{Border, file_of};
use super::both::on_each;
use super::scans::{fetch, serve};
use crate::random_bytes;

const KEEP: &str =
    "[[rule]]\nname = \"keep\"\napp = \"http\"\naction = \"allow\"\naudit_file = true\n";

/// A smaller one is kept under its hash.
#[test]
fn oversized_file_is_audited_but_not_kept() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("kept files", path) else {
            return Ok(());
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
                .filter(|event| file_of(event)["sha256"].is_string());
            whole.count() == 2
        });
        let files = border.folder.path().join("state").join("files");
        for (name, body, kept) in [("small.bin", small, true), ("large.bin", large, false)] {
            let info = events
                .iter()
                .map(file_of)
                .find(|info| info["filename"] == name)
                .unwrap();
            let hash = info["sha256"].as_str().unwrap();
            assert_eq!(info["stored"] == true, kept, "{info}");
            let place = files.join(&hash[..2]).join(hash);
            assert_eq!(std::fs::read(&place).ok(), kept.then_some(body), "{name}");
        }
        let partial = std::fs::read_dir(files.join("partial")).unwrap();
        assert_eq!(partial.count(), 0);
        Ok(())
    })
}

/// What the first one has under way stays.
#[test]
fn second_gateway_is_refused_the_folder() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a folder of two gateways", path) else {
            return Ok(());
        };
        border.up(KEEP, &[]);
        let (state, other) = (border.path("state"), border.path("other.sock"));
        let under_way = border.folder.path().join("state/files/partial/0");
        std::fs::write(&under_way, "half of a file").unwrap();
        let policy = border.path("policy.toml");
        let mut words = vec!["gate", "up", "--policy", &policy, "--queue", "7200"];
        words.push("--exit-with-stdin");
        words.extend(["--inside", &border.inside, "--outside", &border.outside]);
        words.extend(["--state", &state, "--control", &other]);
        let second = border.program().run(&words).unwrap();
        assert_eq!(second.code, Some(1), "{}", second.stderr);
        for words in [state.as_str(), "another gateway", "--state"] {
            assert!(second.stderr.contains(words), "{words}: {}", second.stderr);
        }
        assert!(under_way.exists());
        assert!(
            border.traces().contains("RINGWAY"),
            "the first one's rules are gone"
        );
        // One that was killed keeps no other out, and nothing of what it had under way is left.
        border.daemon().kill().unwrap();
        border.up(KEEP, &[]);
        assert!(!under_way.exists());
        Ok(())
    })
}
