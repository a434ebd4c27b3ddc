//! The example `chat_and_bulk`, run.

use std::time::Duration;

use super::measure::{self, LINE, Part};

/// What does not hold, of what a line that is shared by priority shows.
fn missing(parts: &[Part; 3]) -> Option<&'static str> {
    let [alone, beside_0, beside_8] = parts;
    let checks = [
        (alone.median >= 2 * LINE.delay, "the line's delay"),
        (alone.bulk < 1.0, "no bulk beside chat alone"),
        (alone.p99 >= alone.median, "order"),
        // The queue holds 200 ms.
        (
            beside_0.median < alone.median + Duration::from_millis(40),
            "a short queue beside bulk at priority 0",
        ),
        // How much it gets is for the simulator and the benchmarks: tasks that are woken late are a
        // queue to it, and it gives way to that as to any other.
        (beside_0.bulk > 0.0, "anything of bulk at priority 0"),
        (
            beside_8.median > beside_0.median,
            "a longer queue beside bulk at priority 8",
        ),
    ];
    checks
        .iter()
        .find(|(holds, _)| !holds)
        .map(|(_, what)| *what)
}

/// Chat hardly waits for bulk at priority 0, which goes on nevertheless; once raised it makes
/// chat wait. A busy machine wakes tasks late, so one of three runs counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chat_waits_little_beside_bulk_at_priority_zero() {
    let mut told = Vec::new();
    for _ in 0..3 {
        let parts = measure::run(Duration::from_secs(5)).await.unwrap();
        let parts = <[Part; 3]>::try_from(parts).unwrap();
        let Some(missing) = missing(&parts) else {
            return;
        };
        told.push((missing, parts));
    }
    panic!("in none of three runs: {told:?}");
}
