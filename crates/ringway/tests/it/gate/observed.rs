//! What a gateway that only observes sees of contents.

use super::beside::{Tested, all};
use super::border::{Border, file_of};
use super::both::{Compared, GatePath, on_both};
use super::scans::{fetch, serve};
use crate::random_bytes;

const NAMES: &str = "[[rule]]\nname = \"no-programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\n[[rule]]\nname = \"rest\"\napp = \"http\"\naction = \"audit\"\n";

#[test]
fn would_be_blocked_files_arrive_and_are_audited() -> Tested {
    all(vec![on_both("observed files", observed)])
}

fn observed(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("observed files", path) else {
        return Ok(None);
    };
    let body = random_bytes("observed", 1 << 20);
    serve(&border, 8_001, body.clone(), true);
    border.up(NAMES, &[]);
    for name in ["game.exe", "film.bin"] {
        assert!(fetch(&border, 8_001, name) == body, "{name}");
    }
    let events = border.audit_when(|events| {
        let files = events.iter().filter(|event| file_of(event).is_object());
        files.count() == 2
    });
    let of = |name: &str| {
        let event = events
            .iter()
            .find(|event| file_of(event)["filename"] == name);
        event.cloned().unwrap_or_default()
    };
    let (blocked, whole) = (of("game.exe"), of("film.bin"));
    assert_eq!(blocked["ringway"]["rule"], "no-programs", "{blocked}");
    assert_eq!(blocked["ringway"]["action"], "allowed", "{blocked}");
    assert!(file_of(&whole)["sha256"].is_string(), "{whole}");
    border.seen()
}
