//! Trials of priority 0, and of changes to and from it: what it must do on which path, and what it
//! does.
//!
//! The tests ask each trial whether its figures hold; the example `priorities` prints them. A seed
//! moves the moments at which flows begin, and whatever else a path leaves to chance.

mod cells;
mod changes;
mod conditions;
mod deadline;
mod files;
mod measure;
mod peers;
mod raises;
mod setting;
mod worth;

use ringway_dtl::Algorithm;

pub use self::cells::{Cell, matrix, table};
pub use self::deadline::{Errand, Job, Met};
pub use self::measure::{Beside, Late, alone, beside, late_comers};
pub use self::peers::{Apart, Shares, two_queues};
pub use self::setting::{Rival, Run, Setting};
pub use self::worth::{TREMBLES, Worth, worth, worth_as_flows, worth_of_flows};

/// What a figure has to be.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// One thing that a trial has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What, and its unit if it has one. No other figure of the trial has this name.
    pub name: String,
    /// How much. Infinite: it never came.
    pub value: f64,
    /// How much it has to be.
    pub bound: Bound,
}

impl Figure {
    /// A figure that has to be `least` or more.
    #[must_use]
    pub fn at_least(name: impl Into<String>, value: f64, least: f64) -> Figure {
        Figure {
            name: name.into(),
            value,
            bound: Bound::AtLeast(least),
        }
    }

    /// A figure that has to be `most` or less.
    #[must_use]
    pub fn at_most(name: impl Into<String>, value: f64, most: f64) -> Figure {
        Figure {
            name: name.into(),
            value,
            bound: Bound::AtMost(most),
        }
    }

    /// Whether it is what it has to be.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.value >= least,
            Bound::AtMost(most) => self.value <= most,
        }
    }
}

/// Something that priority 0 has to stand.
#[derive(Copy, Clone, Debug)]
pub struct Trial {
    /// Short, for a command line.
    pub name: &'static str,
    /// Plays it with an algorithm and a seed.
    pub play: fn(Algorithm, u64) -> Vec<Figure>,
}

/// All of them.
#[must_use]
pub fn trials() -> Vec<Trial> {
    [
        conditions::TRIALS,
        changes::TRIALS,
        raises::TRIALS,
        files::TRIALS,
    ]
    .concat()
}

/// The trial of that name.
#[must_use]
pub fn trial(name: &str) -> Option<Trial> {
    trials().into_iter().find(|trial| trial.name == name)
}
