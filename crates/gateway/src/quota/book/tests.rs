//! What hosts use, over periods, restarts, policies and clocks.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::{QuotaBook, SavedCounter};
use crate::limits::MAX_QUOTA_COUNTERS;
use crate::policy::{Over, Policy};
use crate::quota::Subject;

const DAY: u64 = 86_400;

/// So many seconds after a midnight.
fn at(seconds: u64) -> Duration {
    Duration::from_secs(DAY.saturating_mul(20_000).saturating_add(seconds))
}

fn policy(quota: &str) -> Policy {
    let text = format!(
        "[classes.slow]\nrate = \"1 Mbit/s\"\n\
         [[rule]]\nname = \"downloads\"\nport = 80\naction = \"allow\"\n{quota}"
    );
    Policy::parse(&text, &BTreeSet::new()).unwrap()
}

fn soft(amount: &str) -> Policy {
    policy(&format!("quota = \"{amount}\"\nover = \"slow\"\n"))
}

fn host(last: u8) -> Subject {
    Subject::Host([10, 0, 0, last].into())
}

fn book(now: Duration, policy: &Policy) -> QuotaBook {
    let mut book = QuotaBook::new(TimeZone::UTC);
    book.set_policy(now, policy);
    book
}

fn used(book: &QuotaBook, subject: &Subject) -> u64 {
    let rows = book.rows();
    let row = rows.iter().find(|row| row.of == subject.to_string());
    row.map_or(0, |row| row.used)
}

#[test]
fn quota_is_passed_once_in_a_period() {
    let mut book = book(at(0), &soft("1 kB/day"));
    let (one, other) = (host(1), host(2));
    book.charge(at(1), "downloads", &one, 999);
    book.charge(at(2), "downloads", &other, 1);
    assert_eq!(
        (book.poll_passed(), book.over("downloads", &one)),
        (None, None)
    );
    book.charge(at(3), "downloads", &one, 1);
    let passed = book.poll_passed().unwrap();
    assert_eq!(
        (&passed.subject, passed.used, passed.resets),
        (&one, 1_000, at(DAY))
    );
    assert_eq!(book.over("downloads", &one), Some(Over::Class(0)));
    assert_eq!(book.over("downloads", &other), None);
    book.charge(at(4), "downloads", &one, 5_000);
    assert_eq!(book.poll_passed(), None);
    assert!(book.rows()[0].over && book.rows()[0].of == "10.0.0.1");
    // At midnight all begin from nothing, and it is passed once more.
    book.handle_time(at(DAY));
    assert_eq!(
        (book.rows(), book.over("downloads", &one)),
        (Vec::new(), None)
    );
    book.charge(at(DAY), "downloads", &one, 1_000);
    assert!(book.poll_passed().is_some());
    assert_eq!(book.totals()[0].passed, 2);
}

#[test]
fn those_above_are_told_when_they_change() {
    let mut book = book(at(0), &soft("1 kB/day"));
    assert!(book.poll_above().unwrap().is_empty());
    book.charge(at(1), "downloads", &host(1), 10);
    assert_eq!(book.poll_above(), None);
    book.charge(at(2), "downloads", &host(1), 1_000);
    assert!(!book.poll_above().unwrap().is_empty());
    assert_eq!(book.poll_above(), None);
    book.handle_time(at(DAY));
    assert!(book.poll_above().unwrap().is_empty());
}

#[test]
fn restart_knows_what_was_used() {
    let mut first = book(at(0), &soft("1 kB/day"));
    first.charge(at(1), "downloads", &host(1), 2_000);
    let saved = first.take_unsaved();
    assert_eq!(saved.len(), 1);
    assert_eq!(first.take_unsaved(), []);
    let again = |now| {
        let mut book = QuotaBook::new(TimeZone::UTC);
        book.load(saved.clone());
        book.set_policy(now, &soft("1 kB/day"));
        book
    };
    let mut second = again(at(100));
    assert_eq!(second.over("downloads", &host(1)), Some(Over::Class(0)));
    // The first run has reported it.
    second.charge(at(101), "downloads", &host(1), 1);
    assert_eq!(
        (second.poll_passed(), used(&second, &host(1))),
        (None, 2_001)
    );
    // A day later it is another day's, and is written down no more.
    let mut later = again(at(DAY));
    assert_eq!(later.over("downloads", &host(1)), None);
    let gone = SavedCounter {
        since: at(DAY),
        used: 0,
        ..saved[0].clone()
    };
    assert_eq!(later.take_unsaved(), [gone]);
    // A clock that is not set yet gives nothing.
    let unset = again(Duration::from_secs(5));
    assert_eq!(unset.over("downloads", &host(1)), Some(Over::Class(0)));
}

#[test]
fn clock_that_steps_back_gives_nothing() {
    let mut book = book(at(DAY), &soft("1 kB/day"));
    book.charge(at(DAY + 1), "downloads", &host(1), 1_000);
    // Before midnight again, and over it.
    for now in [at(DAY - 10), at(DAY - 1), at(DAY), at(DAY + 50)] {
        book.handle_time(now);
        assert_eq!(
            book.over("downloads", &host(1)),
            Some(Over::Class(0)),
            "{now:?}"
        );
        assert_eq!(book.rows()[0].resets_s, at(2 * DAY).as_secs());
    }
    book.handle_time(at(2 * DAY));
    assert_eq!(book.over("downloads", &host(1)), None);
}

#[test]
fn same_rule_keeps_what_was_used() {
    let mut book = book(at(0), &soft("1 kB/day"));
    book.charge(at(1), "downloads", &host(1), 1_000);
    book.poll_passed();
    // More is given, then as much as before, then less: no host passes a quota by that.
    for (amount, over) in [("2 kB/day", false), ("1 kB/day", true), ("1 B/week", true)] {
        book.set_policy(at(2), &soft(amount));
        assert_eq!(book.over("downloads", &host(1)).is_some(), over, "{amount}");
        assert_eq!((used(&book, &host(1)), book.poll_passed()), (1_000, None));
    }
    // Without a quota nothing happens to it; when it comes back, what was used is known.
    book.set_policy(at(3), &policy(""));
    assert!(!book.is_wanted() && book.rows().is_empty());
    assert_eq!(book.over("downloads", &host(1)), None);
    book.set_policy(at(4), &soft("1 kB/day"));
    assert_eq!(used(&book, &host(1)), 1_000);
    // By members nothing was counted.
    book.set_policy(
        at(5),
        &policy("quota = \"1 kB/day\"\nper = \"member\"\nover = \"block\"\n"),
    );
    assert_eq!(book.rows(), []);
    let oslo = Subject::Member("oslo".to_owned());
    book.charge(at(6), "downloads", &oslo, 1_000);
    assert_eq!(book.over("downloads", &oslo), Some(Over::Block));
}

#[test]
fn full_book_forgets_those_that_used_least() {
    let mut book = book(at(0), &soft("1 MB/day"));
    for number in 0..u32::try_from(MAX_QUOTA_COUNTERS).unwrap() {
        let host = Subject::Host((0x0a00_0000 + number).to_be_bytes().into());
        book.charge(at(1), "downloads", &host, u64::from(number) + 100);
    }
    let heavy = Subject::Host([10, 0, 255, 255].into());
    book.charge(at(2), "downloads", &heavy, 1_000_000);
    book.charge(
        at(3),
        "downloads",
        &Subject::Host([192, 168, 0, 1].into()),
        1,
    );
    assert!(book.rows().len() <= MAX_QUOTA_COUNTERS);
    assert!(book.rows().len() > MAX_QUOTA_COUNTERS / 2 && book.forgotten() > 0);
    assert!(book.over("downloads", &heavy).is_some());
}
