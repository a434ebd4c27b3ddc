//! The paper's own rule, for comparison: each answer is checked by asking one other member of the
//! answerer's group.
//!
//! If the two name the same owner of the step's point, the answer is believed. If not, two others
//! are asked, a few times. What two members agree on is final: nothing is merged, and no member
//! near the target is asked for others. A target within the own group is the exception, and one
//! for which no finger fits: `begin_here` does not look at the rule, and those are finalised as
//! ever.
//!
//! ```text
//!  paper_step, after two more answers
//!    the last two agree, at the target -> done(verified)
//!    they agree, on the way -> iterate_from the group that one of them named
//!    they differ, fewer than three pairs were asked -> ask_another_pair -> iterate
//!    they differ -> attempt_failed
//! ```
//!
//! Source: "Our Brothers' Keepers" §3.4, with fingers of whole groups, and with iterative instead
//! of recursive lookups.

use crate::context::Cx;
use crate::event::LookupId;
use crate::group::around;
use crate::key::RingKey;
use crate::known::Known;
use crate::lookup::verified::{Stage, VerifiedLookups};

/// Pairs of members that are asked at one step before the attempt counts as failed.
/// Source: chosen; the paper says nothing about answers that differ.
const PAIRS: usize = 3;

impl VerifiedLookups {
    /// Two more members have answered at this step.
    pub(super) fn paper_step(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let Some(lookup) = self.running.get(&id) else {
            return;
        };
        let (Stage::Iterate { point, .. }, target) = (&lookup.stage, lookup.target) else {
            return;
        };
        let point = *point;
        let owner = |claim: &Vec<RingKey>| {
            let usable = claim.iter().filter(|key| cx.trust.is_usable(key));
            usable.min_by_key(|key| point.distance_to(key)).copied()
        };
        // Only the last two are compared: earlier pairs have disagreed.
        let mut last = lookup.claims.iter().rev();
        let (second, first) = (last.next(), last.next());
        let agreed = first
            .zip(second)
            .filter(|(a, b)| owner(a) == owner(b))
            .and_then(|(claim, _)| Some((owner(claim)?, claim.clone())));
        match agreed {
            Some((owner, claim)) if point == target => {
                self.done(cx, id, owner, claim, true);
            }
            Some((_, claim)) => {
                let group = around(&point, cx.config.group, claim);
                self.iterate_from(cx, known, id, point, group);
            }
            None if lookup.claims.len() >= 2 * PAIRS => self.attempt_failed(cx, known, id),
            None => self.ask_another_pair(cx, known, id),
        }
    }

    fn ask_another_pair(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        if let Some(lookup) = self.running.get_mut(&id)
            && let Stage::Iterate { ref mut wanted, .. } = lookup.stage
        {
            *wanted = wanted.saturating_add(2);
        }
        self.iterate(cx, known, id);
    }
}
