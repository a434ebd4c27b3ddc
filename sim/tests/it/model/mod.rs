//! Ring maintenance, model checked: all interleavings in small rings, with r = 2.
//!
//! Three ways, from the abstract to the code:
//!
//! | | is | checks |
//! |---|---|---|
//! | [`inductive`] | the rules as Zave's atomic steps | from *every* ring of up to six identifiers that satisfies the invariant, each step keeps it: so no history breaks it, however long, returns of dead members among them |
//! | [`rules`] with [`checker`] | the same rules, as atomic steps, or with questions and answers under way | every order of joins, failures, leaves and repairs: the invariant after each step, and that the ring becomes ideal in the end |
//! | [`real`] | `ringway_overlay::Chord` itself | every order in which the messages and timers of a few rounds can come: the invariant after each, and the ideal ring in the end |
//!
//! Zave's assumptions hold in all of them: a failure leaves every member a live successor and r + 1
//! principals (one, while the ring forms); who is declared dead is dead. A leave has no such
//! assumption, because its own rule is to keep it; but it happens at rest.
//!
//! Each rule of [`rules`] has a switch that breaks it ([`Mutation`]), and
//! [`each_broken_rule_is_found`] says what finds it. `make model` also runs the scopes that take
//! minutes.

mod checker;
mod ids;
mod inductive;
mod real;
mod rules;

use std::time::Instant;

use checker::{Finding, Liveness, explore};
use ids::{Broken, Id, MOST};
use rules::{Grain, Model, Mutation, State};

/// A ring to begin with, and what may happen to it.
#[derive(Clone, Copy)]
struct Scope {
    grain: Grain,
    serial: bool,
    members: &'static [Id],
    outside: &'static [Id],
    /// Failures and leaves.
    failures: u8,
}

/// Questions, answers and what follows from them in one step, one operation at a time.
const fn atomic(members: &'static [Id], outside: &'static [Id], failures: u8) -> Scope {
    let (grain, serial) = (Grain::Atomic, true);
    Scope {
        grain,
        serial,
        members,
        outside,
        failures,
    }
}

/// The same, but a member may stabilise while another of its questions is open: Zave's own model.
const fn overlapping(members: &'static [Id], outside: &'static [Id], failures: u8) -> Scope {
    Scope {
        serial: false,
        ..atomic(members, outside, failures)
    }
}

/// Questions and answers are under way, as in the code.
const fn messages(members: &'static [Id], outside: &'static [Id], failures: u8) -> Scope {
    Scope {
        grain: Grain::Messages,
        ..atomic(members, outside, failures)
    }
}

impl Scope {
    /// Where members wait for each other's answers, an unlucky order can repeat for ever: there the
    /// order has to be random.
    fn liveness(&self) -> Liveness {
        match self.grain {
            Grain::Atomic => Liveness::Fair,
            Grain::Messages => Liveness::Random,
        }
    }

    fn explore(&self, mutation: Option<Mutation>) -> Finding {
        let Scope {
            grain,
            serial,
            failures,
            ..
        } = *self;
        let model = Model {
            grain,
            serial,
            failures,
            mutation,
        };
        explore(
            &model,
            &[State::exact(self.members, self.outside)],
            self.liveness(),
        )
    }

    #[expect(clippy::print_stdout, reason = "for who wants to see the numbers")]
    fn must_hold(&self) {
        let start = Instant::now();
        let finding = self.explore(None);
        let Finding::Holds { states, ideal } = finding else {
            panic!("{}: {finding:?}", self.name());
        };
        println!(
            "{}: {states} states, {ideal} ideal, {:.1?}",
            self.name(),
            start.elapsed()
        );
    }

    fn name(&self) -> String {
        let (members, joins, failures) = (self.members.len(), self.outside.len(), self.failures);
        let overlapping = if self.serial { "" } else { ", overlapping" };
        format!(
            "{:?}{overlapping}: {members} members, {joins} join, {failures} fail",
            self.grain
        )
    }
}

/// In any ring of up to six members.
#[test]
fn no_step_breaks_the_invariant_up_to_six() {
    for count in 4..=6 {
        match inductive::prove(count, None) {
            Ok((rings, steps)) => println!("{count} identifiers: {rings} rings, {steps} steps"),
            Err(found) => panic!("{found:?}"),
        }
    }
}

/// Steps are atomic; the invariant holds after each.
#[test]
fn all_orders_of_steps_reach_the_ideal_ring() {
    // Which identifiers join matters only up to a rotation; the ring forms from its first member
    // on, or is there.
    for failures in 0..=2 {
        for scope in [
            atomic(&[0, 1, 2], &[3], failures),
            atomic(&[0, 1, 2, 3], &[], failures),
            atomic(&[0], &[1, 2, 3], failures),
            atomic(&[0, 1, 2], &[3, 4], failures),
            atomic(&[0, 1, 3], &[2, 4], failures),
            atomic(&[0, 1, 2, 3], &[4], failures),
            atomic(&[0, 1, 2, 3, 4], &[], failures),
            atomic(&[0, 1, 2, 3, 4, 5], &[], failures),
            overlapping(&[0, 1, 2], &[3], failures),
            overlapping(&[0, 1, 2, 3], &[4], failures),
        ] {
            scope.must_hold();
        }
    }
    for scope in [
        atomic(&[0, 1, 2, 3, 4], &[5], 1),
        atomic(&[0, 1, 2, 3], &[4, 5], 1),
        atomic(&[0, 1, 2, 4], &[3, 5], 1),
        atomic(&[0, 1, 3, 4], &[2, 5], 1),
        atomic(&[0, 2, 4], &[1, 3, 5], 0),
    ] {
        scope.must_hold();
    }
}

/// The invariant holds after each step.
#[test]
fn all_orders_of_messages_reach_the_ideal_ring() {
    for scope in [
        messages(&[0], &[1, 2], 2),
        messages(&[0, 1, 2], &[3], 2),
        messages(&[0, 1, 2, 3], &[], 2),
        messages(&[0, 1, 2, 3], &[4], 0),
        messages(&[0, 1, 3], &[2, 4], 0),
        messages(&[0, 1, 2, 3, 4], &[], 1),
        messages(&[0, 1, 2, 3, 4, 5], &[], 0),
    ] {
        scope.must_hold();
    }
}

#[test]
#[ignore = "minutes and gigabytes: make model"]
fn every_order_of_messages_in_larger_scopes() {
    for scope in [
        messages(&[0, 1, 2, 3, 4], &[5], 0),
        messages(&[0, 1, 2, 3, 4], &[], 2),
        messages(&[0, 1, 2, 3, 4, 5], &[], 1),
        messages(&[0, 1, 2, 3], &[4], 2),
        messages(&[0], &[1, 2, 3], 2),
        messages(&[0, 1, 3], &[2, 4], 1),
        overlapping(&[0, 1, 2], &[3, 4], 2),
        overlapping(&[0], &[1, 2, 3], 2),
        atomic(&[0, 1, 2, 3, 4], &[5], 2),
        atomic(&[0, 2, 4], &[1, 3, 5], 1),
    ] {
        scope.must_hold();
    }
}

/// What is to find a broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Unsafe(Broken),
    Stuck,
}

#[test]
fn each_broken_rule_is_found() {
    use Found::{Stuck, Unsafe};
    use Mutation as M;
    let few = Unsafe(Broken::TooFewPrincipals);
    let one_joins: (&[Id], &[Id]) = (&[0, 1, 2], &[3]);
    let (members, outside) = one_joins;
    for (mutation, scope, expected) in [
        (M::JoinsAnywhere, atomic(members, outside, 0), few),
        (M::JoinsAnywhere, messages(members, outside, 0), few),
        (M::KeepsOwnList, atomic(members, outside, 0), Stuck),
        (M::KeepsOwnList, messages(members, outside, 0), Stuck),
        (M::KeepsDeadHead, atomic(members, outside, 1), Stuck),
        (M::KeepsDeadHead, messages(members, outside, 1), Stuck),
        (M::TakesPendingForDeath, messages(members, outside, 0), few),
        (M::IgnoresPredecessor, atomic(members, outside, 0), Stuck),
        (M::IgnoresPredecessor, messages(members, outside, 0), Stuck),
        (M::AsksAnyPredecessor, atomic(members, outside, 0), few),
        (M::AsksAnyPredecessor, messages(members, outside, 0), few),
        (M::AdoptsUnasked, atomic(members, outside, 1), Stuck),
        (
            M::IgnoresChangedHead,
            overlapping(&[0, 1, 2], &[3, 4], 1),
            few,
        ),
        (M::NeverNotifies, atomic(members, outside, 0), Stuck),
        (M::NeverNotifies, messages(members, outside, 0), Stuck),
        (M::RectifiesDeadOnly, atomic(members, outside, 0), Stuck),
        (M::RectifiesDeadOnly, messages(members, outside, 0), Stuck),
        (M::RectifiesUnasked, atomic(members, outside, 0), Stuck),
        (M::KeepsDeadPredecessor, atomic(members, outside, 1), Stuck),
        (
            M::KeepsDeadPredecessor,
            messages(members, outside, 1),
            Stuck,
        ),
        (
            M::AnswersWhilePending,
            messages(&[0, 1, 2, 3], &[4], 2),
            few,
        ),
        (M::LeavesAnyRing, atomic(members, outside, 1), few),
        (M::LeavesAnyRing, messages(members, outside, 1), few),
    ] {
        let (found, detail) = match scope.explore(Some(mutation)) {
            Finding::Unsafe { broken, path } => (Some(Unsafe(broken)), format!("after {path:?}")),
            Finding::Stuck { among, path } => {
                let steps = path.len();
                (
                    Some(Stuck),
                    format!("among {among} states after {steps} steps"),
                )
            }
            Finding::Holds { states, .. } => (None, format!("in {states} states")),
        };
        println!("{mutation:?} in {}: {found:?} {detail}", scope.name());
        assert_eq!(found, Some(expected), "{mutation:?} in {}", scope.name());
    }
}

/// In the code one operation runs at a time, so the head cannot change while the successor's
/// predecessor is asked. The rule that looks again is Zave's; here it guards against a code in
/// which operations overlap (see the test above).
#[test]
fn only_overlapping_operations_need_the_head_rechecked() {
    for scope in [
        atomic(&[0, 1, 2], &[3, 4], 2),
        messages(&[0, 1, 2], &[3], 2),
    ] {
        let finding = scope.explore(Some(Mutation::IgnoresChangedHead));
        assert_eq!(finding, scope.explore(None), "{}", scope.name());
    }
}

/// Any moment will do.
fn base() -> Instant {
    Instant::now()
}

/// A ring of the code's own members; `timers` says how often each member's timer goes off with an
/// effect.
const fn real(members: &'static [Id], joining: &'static [Id], timers: [u8; MOST]) -> real::Scope {
    let (failures, leaves) = (0, 0);
    real::Scope {
        members,
        joining,
        failures,
        leaves,
        timers,
    }
}

const fn failing(failures: u8, scope: real::Scope) -> real::Scope {
    real::Scope { failures, ..scope }
}

const fn leaving(leaves: u8, scope: real::Scope) -> real::Scope {
    real::Scope { leaves, ..scope }
}

#[expect(clippy::print_stdout, reason = "for who wants to see the numbers")]
fn code_must_hold(scopes: &[real::Scope]) {
    for scope in scopes {
        let start = Instant::now();
        match real::explore(*scope, base()) {
            Ok(explored) => println!("{scope:?}: {explored:?}, {:.1?}", start.elapsed()),
            Err(story) => panic!("{scope:?}: {story}"),
        }
    }
}

/// In every order of its messages.
#[test]
fn the_code_keeps_the_invariant_in_every_order() {
    code_must_hold(&[
        real(&[0], &[1, 2], [2, 3, 2, 0, 0, 0]),
        real(&[0, 1, 2], &[], [3, 3, 3, 0, 0, 0]),
        real(&[0, 1, 2], &[3], [1, 1, 2, 3, 0, 0]),
        real(&[0, 1, 2], &[3, 4], [0, 0, 2, 2, 2, 0]),
        failing(1, real(&[0, 1, 2], &[3], [1, 1, 2, 2, 0, 0])),
        failing(1, real(&[0, 1, 2], &[3, 4], [0, 1, 1, 2, 2, 0])),
        failing(1, real(&[0, 1, 2, 3], &[], [2, 2, 1, 1, 0, 0])),
        failing(1, real(&[0, 1, 2, 3], &[4], [0, 1, 1, 1, 2, 0])),
        leaving(1, real(&[0, 1, 2], &[], [1, 1, 1, 0, 0, 0])),
        leaving(1, real(&[0, 1, 2, 3], &[], [1, 1, 1, 0, 0, 0])),
        failing(1, real(&[0, 1, 2, 3, 4], &[], [1, 1, 1, 1, 0, 0])),
        failing(2, real(&[0, 1, 2, 3, 4], &[], [0, 1, 0, 1, 1, 0])),
        failing(1, real(&[0, 1, 2, 3, 4, 5], &[], [1, 1, 1, 0, 1, 0])),
    ]);
}

#[test]
#[ignore = "minutes and gigabytes: make model"]
fn the_code_keeps_the_invariant_in_larger_scopes() {
    code_must_hold(&[
        failing(2, real(&[0, 1, 2, 3, 4], &[5], [1, 0, 0, 1, 1, 2])),
        leaving(1, real(&[0, 1, 2, 3], &[], [1, 1, 1, 1, 0, 0])),
        real(&[0], &[1, 2], [3, 3, 3, 0, 0, 0]),
    ]);
}
