//! A file that has to be there by a time, beside a kernel CUBIC that was there before.

use std::time::{Duration, Instant};

use ringway_dtl::{Deadline, Due, Priority, Progress, needs};

use super::case::{Outcome, series};
use super::cell::Cell;
use super::flow::Kind;
use super::watch::{STEP, Watch};
use ringway_terminal::Failure;

/// Seconds for which the CUBIC is alone: until it is up to speed, and until the file comes.
const UP_TO_SPEED: f64 = 10.0;
const BEGIN: f64 = 30.0;
/// Seconds that the file has.
const WITHIN: f64 = 180.0;
/// Seconds of a run: a file that is later than this part of its time is not waited for.
pub(super) const LONGEST: f64 = BEGIN + 1.25 * WITHIN;
/// Seconds between two looks, as a member has.
const LOOK: f64 = 1.0;
/// The highest priority that it may ask for.
const MOST: f64 = 8.0;

/// Bytes of the file: 100 MB where the line has 10 Mbit/s, which is 0.44 of it.
fn file(cell: &Cell) -> u64 {
    (cell.rate * 1e7) as u64
}

/// When it came, as a part of its time, and what that cost the CUBIC: before the priority was
/// raised, and in all.
pub(super) fn run(watch: &mut Watch<'_>, kind: &Kind) -> Result<Outcome, Failure> {
    let tcp = watch.start(&Kind::Tcp("cubic"))?;
    watch.until(BEGIN);
    let alone = watch.rate(tcp, UP_TO_SPEED, BEGIN);
    let flow = watch.start(kind)?;
    let most = Priority::new(MOST).map_err(Failure::failed)?;
    let begun = Instant::now();
    let mut deadline = Deadline::new(begun, begun + Duration::from_secs_f64(WITHIN), most);
    let (mut priority, mut raised, mut highest) = (Priority::SCAVENGER, None, 0.0_f64);
    let whole = file(watch.line().cell());
    let rtt = watch.line().cell().rtt();
    let mut look = BEGIN;
    while watch.received(flow) < whole && watch.now() < LONGEST {
        watch.until(watch.now() + STEP);
        if watch.now() < look + LOOK || watch.received(flow) == 0 {
            continue;
        }
        look = watch.now();
        let now = Instant::now();
        let left = whole.saturating_sub(watch.received(flow));
        let by = deadline.aim(now);
        let need = needs(now, &[Due { left, by }]).first().copied();
        let progress = Progress {
            left,
            need: need.unwrap_or_default(),
            rtt,
            by_network: true,
        };
        let next = deadline.handle_progress(now, &progress);
        if next != priority {
            priority = next;
            watch.set_priority(flow, next.get())?;
            raised = raised.or(Some(watch.now()));
            highest = highest.max(next.get());
        }
    }
    let came = watch.now();
    let kept = |to: f64| watch.rate(tcp, BEGIN, to) / alone;
    let mut outcome = Outcome::of(&[
        ("came", (came - BEGIN) / WITHIN),
        ("tcp-alone", alone),
        ("tcp-kept", kept(raised.unwrap_or(came))),
        ("tcp-got", kept(came)),
        ("raised", raised.unwrap_or(came) - BEGIN),
        ("highest", highest),
    ]);
    outcome.series = series(watch, &[(tcp, "TCP CUBIC"), (flow, "100 MB in 180 s")]);
    Ok(outcome)
}
