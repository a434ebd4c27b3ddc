//! Which rule decides about which offer.

use super::*;
use crate::transfer::content::safe_file_name;

fn receiving(text: &str) -> Receiving {
    let rules = format!("[node]\n{text}");
    let home = tempfile::tempdir().unwrap();
    std::fs::write(crate::home::config_path(home.path()), rules).unwrap();
    let config = crate::config::Config::load(home.path()).unwrap();
    Receiving::new(config.receive, Path::new("/home"), "oslo")
}

fn offer<'a>(from: &'a str, name: &'a str, size: u64) -> OfferFacts<'a> {
    OfferFacts {
        from,
        name,
        kind: OfferedKind::File,
        size,
    }
}

fn taken(decision: Decision) -> (u32, String) {
    match decision {
        Decision::Take(landing) => (landing.rule, landing.into.display().to_string()),
        other => panic!("{other:?}"),
    }
}

fn refused(decision: Decision) -> String {
    match decision {
        Decision::Refuse { reason } => reason,
        other => panic!("{other:?}"),
    }
}

const RULES: &str = r#"
[[receive]]
type = ["program"]
refuse = true

[[receive]]
from = ["lab-*"]
name = ["*.iso", "*.img"]
max = "1 GB"
into = "images"

[[receive]]
from = ["lima"]
into = "/srv/lima"

[[receive]]
from = ["quito"]
type = ["folder"]

[[receive]]
from = ["lab-*"]
ask = true
"#;

#[test]
fn first_fitting_rule_decides() {
    let rules = receiving(RULES);
    let decide = |from, name, size| decide(&rules, &offer(from, name, size));
    assert_eq!(taken(decide("lima", "a.txt", 1)), (3, "/srv/lima".into()));
    assert_eq!(
        taken(decide("lab-7", "a.iso", 1)),
        (2, "/home/images".into())
    );
    assert_eq!(
        taken(decide("lab-7", "a.ISO", 1)),
        (2, "/home/images".into())
    );
    // A rule's limit refuses: the rules behind it are not asked.
    assert_eq!(
        refused(decide("lab-7", "a.iso", 3_000_000_000)),
        "the file has 3 GB, and rule 2 of oslo's [[receive]] takes at most 1 GB"
    );
    assert!(matches!(decide("lab-7", "a.txt", 9), Decision::Ask(landing) if landing.rule == 5));
    assert_eq!(
        refused(decide("lima", "setup.EXE", 1)),
        "rule 1 of oslo's [[receive]] refuses it"
    );
    assert_eq!(
        refused(decide("rome", "a.txt", 1)),
        "oslo takes no files from rome"
    );
    assert_eq!(
        refused(decide("quito", "a.txt", 1)),
        "no rule of oslo's [[receive]] takes a file of this name or type"
    );
}

#[test]
fn folders_fit_rules_for_folders_or_anything() {
    let rules = receiving(RULES);
    let decide = |from| {
        let folder = OfferFacts {
            kind: OfferedKind::Folder,
            ..offer(from, "scans.exe", 1)
        };
        decide(&rules, &folder)
    };
    assert_eq!(taken(decide("quito")).0, 4);
    // A folder is no program, whatever it is called.
    assert_eq!(taken(decide("lima")).0, 3);
}

#[test]
fn earlier_table_is_one_rule() {
    let rules = receiving("[receive]\naccept = [\"lima\"]\nmax_bytes = 10\ndirectory = \"in\"\n");
    let decide = |from, size| decide(&rules, &offer(from, "a", size));
    assert_eq!(taken(decide("lima", 10)), (0, "/home/in".into()));
    assert_eq!(
        refused(decide("lima", 11)),
        "the file has 11 bytes, and oslo takes at most 10 bytes"
    );
    assert_eq!(refused(decide("rome", 1)), "oslo takes no files from rome");
}

#[test]
fn all_members_are_taken_from_by_default() {
    let rules = receiving("");
    let decide = |size| decide(&rules, &offer("rome", "a.exe", size));
    assert_eq!(taken(decide(1 << 40)), (0, "/home/inbox".into()));
    assert_eq!(
        refused(decide((1 << 40) + 1)),
        "the file has 1.10 TB, and oslo takes at most 1 TiB"
    );
}

/// What counts is the name under which a file would be stored.
#[test]
fn offered_names_do_not_trick_rules() {
    let rules = receiving(RULES);
    for (offered, rule) in [
        ("../../images/x.iso", Some(2)),
        ("x.iso/../y.txt", Some(5)),
        ("x.txt\u{202e}\n.iso", Some(2)),
        ("..\\x.exe", None),
        ("setup.exe\u{200f}", None),
        ("setup.exe\r", None),
        (".exe", Some(5)),
    ] {
        let name = safe_file_name(offered).unwrap();
        let decision = decide(&rules, &offer("lab-1", &name, 1));
        let by = match &decision {
            Decision::Take(landing) | Decision::Ask(landing) => Some(landing.rule),
            Decision::Refuse { .. } => None,
        };
        assert_eq!(by, rule, "{offered:?} {decision:?}");
    }
}

#[test]
fn sizes_show_the_difference_to_limits() {
    for (bytes, words) in [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (1_024, "1 KiB"),
        (1_000_000_000, "1 GB"),
        (1_000_000_001, "1.01 GB"),
        (3 << 30, "3 GiB"),
        (u64::MAX, "18446744.08 TB"),
    ] {
        assert_eq!(in_words(bytes), words);
    }
}

#[test]
fn moved_home_has_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    // The inbox itself is made again.
    assert!(has_place(&home.join("inbox")));
    std::fs::rename(&home, folder.path().join("elsewhere")).unwrap();
    assert!(!has_place(&home.join("inbox")));
}
