//! Files that have to be there by a time, beside TCP.

use ringway_sim::bottleneck::Path;
use ringway_sim::seeds;
use ringway_sim::trials::{Errand, Job, Met};

/// 100 MB of a file on the wire, in packets of 1500 bytes that carry 1430 of it.
const FILE: u64 = 105_000_000;

fn ten_megabits() -> Path {
    Path::drop_tail(10.0, 20, 1.0)
}

fn played(errand: &Errand, count: u64) -> Vec<Met> {
    seeds(count).iter().map(|seed| errand.play(*seed)).collect()
}

/// All hold, of 20 all but one.
fn nearly_all(met: &[Met], holds: impl Fn(&Met) -> bool, what: &str) {
    let failed: Vec<&Met> = met.iter().filter(|met| !holds(met)).collect();
    assert!(failed.len() <= met.len() / 20, "{what}: {failed:#?}");
}

/// 100 MB in three minutes over 10 Mbit/s, beside one CUBIC that was there before.
fn beside_cubic(path: Path) -> Errand {
    Errand {
        path,
        jobs: vec![Job {
            bytes: FILE,
            within: 180.0,
        }],
        begin: 20.0,
        others: vec![(0.0, 1e4)],
    }
}

#[test]
fn deadline_beside_cubic_is_met_just_in_time() {
    let met = played(&beside_cubic(ten_megabits()), 20);
    nearly_all(&met, |met| (0.8..=1.0).contains(&met.came[0]), "in time");
    nearly_all(&met, |met| met.others_kept >= 0.98, "CUBIC kept");
    // What the file needs is what CUBIC loses.
    nearly_all(&met, |met| met.others_got >= 0.45, "CUBIC got");
}

/// On these a new flow of priority 0 costs CUBIC up to a third of a second more than it should, of
/// the ten before the raise.
#[test]
fn deadline_is_met_on_longer_paths() {
    for path in [
        Path::drop_tail(10.0, 60, 1.0),
        Path::drop_tail(10.0, 20, 4.0),
    ] {
        let met = played(&beside_cubic(path), 5);
        nearly_all(&met, |met| (0.8..=1.0).contains(&met.came[0]), "in time");
        nearly_all(&met, |met| met.others_kept >= 0.96, "CUBIC kept");
    }
}

/// What is due in a while does not need the line yet, once it is known what it gives.
#[test]
fn a_deadline_that_is_far_waits() {
    let errand = Errand {
        path: ten_megabits(),
        jobs: vec![Job {
            bytes: FILE / 2,
            within: 300.0,
        }],
        begin: 0.0,
        others: vec![(20.0, 1e4)],
    };
    let met = played(&errand, 5);
    nearly_all(&met, |met| (0.5..=1.0).contains(&met.came[0]), "in time");
    nearly_all(&met, |met| met.raised.is_none_or(|at| at > 100.0), "waits");
    nearly_all(&met, |met| met.others_kept >= 0.98, "CUBIC kept");
}

/// On a free line nothing is raised.
#[test]
fn a_free_line_needs_no_priority() {
    let errand = Errand {
        path: ten_megabits(),
        jobs: vec![Job {
            bytes: FILE,
            within: 180.0,
        }],
        begin: 0.0,
        others: Vec::new(),
    };
    let met = played(&errand, 5);
    assert!(met.iter().all(|met| met.raised.is_none()));
    assert!(met.iter().all(|met| met.came[0] < 0.6));
}

/// Others that go make room, and the priority goes back to 0.
#[test]
fn line_that_becomes_free_is_left_again() {
    let errand = Errand {
        path: ten_megabits(),
        jobs: vec![Job {
            bytes: FILE,
            within: 180.0,
        }],
        begin: 20.0,
        others: vec![(0.0, 80.0), (150.0, 1e4)],
    };
    let met = played(&errand, 5);
    nearly_all(&met, |met| met.came[0] <= 1.0, "in time");
    let last = |met: &Met| met.priorities.last().is_some_and(|(.., to)| *to == 0.0);
    nearly_all(&met, last, "back at 0");
}

/// One flow's worth is a ninth of the line beside eight others.
#[test]
fn a_deadline_beside_many_is_met() {
    let errand = Errand {
        path: ten_megabits(),
        jobs: vec![Job {
            bytes: FILE / 2,
            within: 180.0,
        }],
        begin: 20.0,
        others: vec![(0.0, 1e4), (1.0, 1e4), (2.0, 1e4), (3.0, 1e4)],
    };
    let met = played(&errand, 5);
    nearly_all(&met, |met| (0.7..=1.0).contains(&met.came[0]), "in time");
}

/// A deadline that cannot be met takes what it may, and no more.
#[test]
fn impossible_deadline_ends_at_one() {
    let errand = Errand {
        path: ten_megabits(),
        jobs: vec![Job {
            bytes: FILE * 2,
            within: 150.0,
        }],
        begin: 20.0,
        others: vec![(0.0, 1e4)],
    };
    let met = played(&errand, 5);
    assert!(met.iter().all(|met| met.came[0] > 1.0));
    assert!(met.iter().all(|met| met.highest <= 8.0));
    let last = |met: &Met| met.priorities.last().is_some_and(|(.., to)| *to == 1.0);
    assert!(met.iter().all(last));
}

#[test]
fn deadlines_on_one_line_share_it() {
    for within in [[120.0, 240.0], [180.0, 180.0]] {
        let errand = Errand {
            path: ten_megabits(),
            jobs: within
                .map(|within| Job {
                    bytes: FILE / 2,
                    within,
                })
                .to_vec(),
            begin: 20.0,
            others: vec![(0.0, 1e4)],
        };
        let met = played(&errand, 5);
        let all = |met: &Met| met.came.iter().all(|came| *came <= 1.0);
        nearly_all(&met, all, "in time");
    }
}
