//! What the receiver has decided about a file: by which rule, whether a person has accepted it, and
//! what became of the program that is run for it.

use serde::{Deserialize, Serialize};

use super::rules::Landing;

/// Stored beside a transfer that comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// `file` or `folder`.
    pub(crate) kind: String,
    /// Counts from 1; 0 where rules have no numbers.
    pub(crate) rule: u32,
    pub(crate) answer: Answer,
    /// The program to be run once it is there, and its arguments; empty is none.
    pub(crate) run: Vec<String>,
    pub(crate) hook: Hook,
    /// What came of the program.
    pub(crate) note: Option<String>,
    /// Whether the desktop shows it.
    pub(crate) notify: bool,
}

/// What a person has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// The rule asks no person.
    #[default]
    NotAsked,
    /// Nothing yet.
    Awaited,
    Accepted,
    Refused,
}

/// How far the program of a rule is. It is on disk that it begins before it does, so that it is run
/// once at most: one that a crash has ended is not begun again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hook {
    /// There is none.
    #[default]
    None,
    /// It begins when the file is there.
    Due,
    Running,
    Done,
    Failed,
    /// The daemon has ended while it ran.
    Interrupted,
}

impl Hook {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Hook::None => "none",
            Hook::Due => "due",
            Hook::Running => "running",
            Hook::Done => "done",
            Hook::Failed => "failed",
            Hook::Interrupted => "interrupted",
        }
    }
}

impl Arrival {
    /// Of an offer that is taken, or that a person is asked about.
    pub(super) fn of(landing: &Landing, kind: &str, answer: Answer) -> Arrival {
        let hook = if landing.run.is_empty() {
            Hook::None
        } else {
            Hook::Due
        };
        Arrival {
            kind: kind.to_owned(),
            rule: landing.rule,
            answer,
            run: landing.run.clone(),
            hook,
            note: None,
            notify: landing.notify,
        }
    }

    /// Whether a person's answer is awaited.
    pub(super) fn waits(&self) -> bool {
        self.answer == Answer::Awaited
    }
}
