//! What must hold after every step, and when that is looked at.

use ringway_overlay::invariant::{self, Violation};

use super::RingSim;
use crate::limits::CHECKED_PER_CHANGE;
use crate::report::{Check, Failure};

impl RingSim {
    /// The invariant is a function of the members' states, so it is checked when one has changed;
    /// among traitors in a large ring, when some have.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        if let Some(wrong) = self.stated.take_wrong() {
            return Err(self.failure(wrong));
        }
        let pause = match self.config.check {
            Check::Honest => self.nodes.len() / CHECKED_PER_CHANGE,
            _ => 0,
        };
        match self.changes - self.checked >= pause as u64 {
            true => self.look_at_all(),
            false => Ok(()),
        }
    }

    /// Looks at all members, unless that was done since the last change.
    pub(super) fn look_at_all(&mut self) -> Result<(), Failure> {
        if self.checked == self.changes || self.config.check == Check::Nothing {
            return Ok(());
        }
        self.checked = self.changes;
        let live = self.snapshots();
        self.formed = self.formed || invariant::principals(&live).len() > self.r();
        let verdict = match self.config.check {
            Check::Honest => return self.check_honest(&live),
            Check::Full if self.formed => invariant::check_full(&live, self.r()),
            _ => invariant::check_structure(&live),
        };
        verdict.map_err(|violation: Violation| self.failure(violation.to_string()))
    }
}
