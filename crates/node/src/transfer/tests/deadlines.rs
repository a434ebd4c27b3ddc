//! Deadlines of transfers as a user sees them.

use super::*;
use crate::clock::unix_seconds;

const MOST: f64 = 8.0;

fn most() -> Priority {
    Priority::new(MOST).unwrap()
}

/// What is told of the only transfer.
fn told(bench: &Bench) -> TransferStatus {
    bench.transfers.list().remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_takes_a_transfer_from_its_deadline() {
    let bench = bench(false);
    let id = bench.send().unwrap().id;
    assert_eq!(told(&bench).deadline, None);
    let by = unix_seconds() + 3_600;
    let set = bench.transfers.set_deadline(&id, by, most()).unwrap();
    assert_eq!((set.deadline, set.steered), (Some(by), true));
    assert_eq!((set.priority, set.in_time, set.expected), (0.0, None, None));
    let priority = Priority::new(2.0).unwrap();
    let taken = bench.transfers.set_priority(&id, priority).unwrap();
    assert_eq!((taken.deadline, taken.steered), (Some(by), false));
    assert_eq!(taken.priority, 2.0);
    let kept = bench.state.deadlines().unwrap().remove(0).1;
    assert_eq!((kept.by, kept.most, kept.steers), (by, MOST, false));
    // And gives it back.
    let later = by + 60;
    let back = bench.transfers.set_deadline(&id, later, most()).unwrap();
    assert_eq!((back.deadline, back.steered), (Some(later), true));
    assert_eq!(bench.state.deadlines().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_that_cannot_be_meant_are_refused() {
    let bench = bench(false);
    let id = bench.send().unwrap().id;
    let now = unix_seconds();
    let refused = |by| bench.transfers.set_deadline(&id, by, most()).unwrap_err();
    let past = refused(now - 1);
    assert!(
        past.is_usage() && past.to_string().contains("has passed"),
        "{past}"
    );
    for by in [now + 400 * 86_400, u64::MAX] {
        assert!(refused(by).is_usage());
    }
    assert!(bench.transfers.set_deadline("f", now + 60, most()).is_err());
    assert_eq!(told(&bench).deadline, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_that_passes_leaves_an_ordinary_transfer() {
    let bench = bench(false);
    let id = bench.send().unwrap().id;
    let by = unix_seconds() + 2;
    bench.transfers.set_deadline(&id, by, most()).unwrap();
    eventually("late", || told(&bench).in_time == Some(false)).await;
    eventually("ordinary", || told(&bench).priority == 1.0).await;
    assert_ne!(told(&bench).state, "failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_of_transfers_that_are_gone_are_forgotten() {
    let bench = bench(false);
    let id = bench.send().unwrap().id;
    let by = unix_seconds() + 60;
    bench.transfers.set_deadline(&id, by, most()).unwrap();
    let kept = bench.state.deadlines().unwrap().remove(0).1;
    let gone = crate::transfer::TransferId([9; 16]);
    bench.state.put_deadline(&gone, &kept).unwrap();
    let left = bench.state.deadlines().unwrap();
    let left: Vec<String> = left.iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(left, [id]);
}
