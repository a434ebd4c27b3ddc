//! No history at all: every ring of some identifiers that satisfies Zave's invariant, and every
//! step from it.
//!
//! If no step leads out of the invariant, then no sequence of joins, failures, returns and repairs
//! does, however long. Predecessors have no part in the invariant, so every member may be named as
//! somebody's predecessor. A failure needs no check: that the invariant outlives it is Zave's
//! assumption.

use super::ids::{self, Broken, Id, List, Lists, R, all_lists, between};
use super::rules::{Grain, Model, Mutation, Standing, State, Step};

/// How many rings satisfy the invariant, and how many steps were taken from them; or a step that
/// breaks it.
pub(super) fn prove(
    count: u8,
    mutation: Option<Mutation>,
) -> Result<(u64, u64), (State, Step, Broken)> {
    let model = Model {
        grain: Grain::Atomic,
        serial: true,
        failures: 0,
        mutation,
    };
    let choices: Vec<Vec<Option<List>>> = (0..count)
        .map(|id| {
            [None]
                .into_iter()
                .chain(all_lists(id, count).into_iter().map(Some))
                .collect()
        })
        .collect();
    let (mut rings, mut steps) = (0, 0);
    let each = choices.first().map_or(0, Vec::len) as u64;
    for number in 0..each.pow(count.into()) {
        let mut lists = Lists::default();
        let mut rest = number;
        for (list, choices) in lists.iter_mut().zip(&choices) {
            *list = choices[(rest % each) as usize];
            rest /= each;
        }
        if ids::structure(&lists).is_err() || ids::principals(&lists) <= R {
            continue;
        }
        rings += 1;
        for (state, step) in possible(&lists, count) {
            steps += 1;
            let next = model.apply(&state, step);
            model.check(&next).map_err(|broken| (state, step, broken))?;
        }
    }
    Ok((rings, steps))
}

fn possible(lists: &Lists, count: u8) -> Vec<(State, Step)> {
    let state = State::with_lists(lists);
    let mut steps = Vec::new();
    for (me, list) in (0..count).zip(lists) {
        match list.and_then(|list| list.first()) {
            Some(head) => {
                let mut state = state;
                steps.push((state, Step::Stabilise(me)));
                for closer in (0..count).filter(|id| *id != me && *id != head) {
                    if between(me, closer, head) {
                        steps.push((state.while_asking(me, closer), Step::Advance(me)));
                    } else {
                        // That it does not stand between is for the rule to see.
                        state.members[usize::from(head)].predecessor = Some(closer);
                        steps.push((state, Step::Stabilise(me)));
                    }
                }
            }
            None => {
                let mut state = state;
                state.members[usize::from(me)].standing = Standing::Outside;
                let at = ids::live(lists).map(|(at, _): (Id, _)| at);
                steps.extend(at.map(|at| (state, Step::Join(me, at))));
            }
        }
    }
    steps
}
