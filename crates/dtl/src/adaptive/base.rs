//! The path's delay without a queue, and how much its samples tremble.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long one entry of the history lasts.
const SLICE: Duration = Duration::from_secs(10);
/// Entries: a base is forgotten after a minute in which the queue never emptied. Drains empty it many times in that time.
const SLICES: usize = 6;
/// Weight of a new difference in its average.
const TREMBLE_WEIGHT: f64 = 0.1;
/// The quietest of the last averages counts: what is left when nobody fills a queue.
const TREMBLES: usize = 8;
/// How long each of them lasts.
const TREMBLE_SLICE: Duration = Duration::from_secs(1);

/// Smallest values of slices of time, newest first.
#[derive(Clone, Debug)]
struct Smallest {
    slices: VecDeque<f64>,
    began: Instant,
    width: Duration,
    count: usize,
}

impl Smallest {
    fn new(now: Instant, width: Duration, count: usize) -> Smallest {
        Smallest {
            slices: VecDeque::from([f64::INFINITY]),
            began: now,
            width,
            count,
        }
    }

    fn update(&mut self, now: Instant, value: f64) {
        // A clock that goes back must not make a slice last for ever.
        self.began = self.began.min(now);
        // After a long silence only the slices that are kept have to be opened.
        for _ in 0..self.count {
            if now.saturating_duration_since(self.began) < self.width {
                break;
            }
            self.began += self.width;
            self.slices.push_front(f64::INFINITY);
        }
        if now.saturating_duration_since(self.began) >= self.width {
            self.began = now;
        }
        self.slices.truncate(self.count);
        if let Some(newest) = self.slices.front_mut() {
            *newest = newest.min(value);
        }
    }

    fn get(&self) -> Option<f64> {
        let least = self.slices.iter().copied().fold(f64::INFINITY, f64::min);
        least.is_finite().then_some(least)
    }
}

/// Base delay and noise of one path, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Base {
    least: Smallest,
    trembles: Smallest,
    average: Option<f64>,
    last: Option<f64>,
}

impl Base {
    pub(super) fn new(now: Instant) -> Base {
        Base {
            least: Smallest::new(now, SLICE, SLICES),
            trembles: Smallest::new(now, TREMBLE_SLICE, TREMBLES),
            average: None,
            last: None,
        }
    }

    pub(super) fn update(&mut self, now: Instant, delay: f64) {
        self.least.update(now, delay);
        if let Some(last) = self.last.replace(delay) {
            let difference = (delay - last).abs();
            let average = self.average.unwrap_or(difference);
            let average = average + TREMBLE_WEIGHT * (difference - average);
            self.average = Some(average);
            self.trembles.update(now, average);
        }
    }

    /// The delay without a queue.
    pub(super) fn get(&self) -> Option<f64> {
        self.least.get()
    }

    /// By how much consecutive delays differ when it is quiet.
    pub(super) fn tremble(&self) -> f64 {
        self.trembles.get().unwrap_or(0.0)
    }
}
