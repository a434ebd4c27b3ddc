//! The phases of priority 0, and what leads from one to the next.
//!
//! ```text
//!   SlowStart -- a queue (by way of Draining), a loss, a mark --> Steady
//!                                                               |      ^
//!                                                    contention |      | its time is over
//!                                                               v      |
//!   Returned <- its share - Returning <- no queue - Probing <- Yielding
//!      |                        |                     |           ^
//!      +------------------------+-------- a queue ----+-----------+
//!
//!   any phase -- a drain is due --> Draining --> the phase that it interrupts
//! ```
//!
//! The time of contention ends `Probing` and `Returned`, too. The table has all:
//!
//! | phase | event | next phase |
//! |---|---|---|
//! | `SlowStart` | some datagrams in a row found a queue | `Draining`, then `Steady` |
//! | | a loss, a mark | `Steady` |
//! | `Steady` | contention | `Yielding` |
//! | | a drain is due | `Draining`, then the same |
//! | `Draining` | its rounds are over, or persistent congestion | the phase that it interrupts |
//! | `Yielding` | the queue has been empty for a while | `Probing` |
//! | `Probing` | its rounds brought no queue | `Returning` |
//! | `Returning` | the window is what it was | `Returned`; `Steady` after contention |
//! | | a queue | `Yielding`, and later returns are careful; `Steady` after contention |
//! | `Probing`, `Returned` | a queue | `Yielding` |
//! | `Yielding`, `Probing`, `Returned` | contention is over by time | `Steady` |
//! | `Returning` | the same | `Returning`, after contention |
//! | any contested one | contention again | the same, for longer |
//! | any contested one | a round at an empty queue: wait, probe, return | `Yielding`, `Probing`, `Returning` |
//! | any | a cut that ended slow start is taken back | `SlowStart`; after the drain, if it goes on |
//!
//! A drain may come in every phase, and what time ends goes on behind it. So `Draining` holds the
//! phase that it interrupts.

use std::time::Instant;

use super::super::tuning::TUNING;
use super::contention::Step;

/// What priority 0 is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// The path's capacity is not known.
    SlowStart,
    /// The window follows the target.
    Steady,
    /// Nothing of ours is to stand in the queue, for some rounds.
    Draining(Box<Draining>),
    /// Others need the path, until then at least as far as is known.
    Yielding { until: Instant },
    /// They may have gone: a trickle shows whether the queue stays empty.
    Probing { until: Instant },
    /// They have gone: the window goes back to what it was; `None` once contention is over by time.
    Returning { until: Option<Instant> },
    /// The window is what it was. The path counts as contested until then all the same.
    Returned { until: Instant },
}

/// A drain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draining {
    /// The window to go back to, in bytes.
    pub(super) back_to: f64,
    /// Rounds that are left.
    pub(super) rounds: u32,
    /// What N flows were, if it is the drain with which they become priority 0.
    pub(super) former: Option<Former>,
    /// The phase that it interrupts; never a drain.
    pub(super) then: Phase,
}

/// What N flows have in flight, what they had before what they recover from, in bytes, and their
/// round trip in seconds.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(in super::super) struct Former {
    pub(in super::super) full: f64,
    pub(in super::super) had: f64,
    pub(in super::super) rtt: f64,
}

impl Phase {
    /// The phase without a drain that interrupts it.
    fn course(&self) -> &Phase {
        match self {
            Phase::Draining(drain) => &drain.then,
            phase => phase,
        }
    }

    fn course_mut(&mut self) -> &mut Phase {
        match self {
            Phase::Draining(drain) => &mut drain.then,
            phase => phase,
        }
    }

    /// Whether the path's capacity is still to be found, at once or after a drain.
    pub(super) fn is_slow_start(&self) -> bool {
        *self.course() == Phase::SlowStart
    }

    pub(super) fn drain(&self) -> Option<&Draining> {
        match self {
            Phase::Draining(drain) => Some(drain),
            _ => None,
        }
    }

    pub(super) fn drain_mut(&mut self) -> Option<&mut Draining> {
        match self {
            Phase::Draining(drain) => Some(drain),
            _ => None,
        }
    }

    /// Until when others are taken to need the path.
    fn contested_until(&self) -> Option<Instant> {
        match self.course() {
            Phase::Yielding { until } | Phase::Probing { until } | Phase::Returned { until } => {
                Some(*until)
            }
            Phase::Returning { until } => *until,
            Phase::SlowStart | Phase::Steady | Phase::Draining(_) => None,
        }
    }

    /// Whether others are taken to need the path.
    pub(super) fn is_contested(&self) -> bool {
        self.contested_until().is_some()
    }

    /// Time has passed: contention may be over.
    pub(super) fn on_time(&mut self, now: Instant) {
        let Some(until) = self.contested_until() else {
            return;
        };
        // Never for longer than it was set: a clock may go back.
        let left = until.saturating_duration_since(now);
        if !left.is_zero() && left <= TUNING.contention.most {
            return;
        }
        let course = self.course_mut();
        *course = match course {
            // A return goes on until the share is reached: others can still be met in it.
            Phase::Returning { .. } => Phase::Returning { until: None },
            _ => Phase::Steady,
        };
    }

    /// Others need the path until then.
    pub(super) fn on_contention(&mut self, end: Instant) {
        match self.course_mut() {
            Phase::Yielding { until } | Phase::Probing { until } | Phase::Returned { until } => {
                *until = end;
            }
            Phase::Returning { until } => *until = Some(end),
            Phase::Steady => *self.course_mut() = Phase::Yielding { until: end },
            // Slow start has not looked for others.
            Phase::SlowStart | Phase::Draining(_) => {}
        }
    }

    /// There is a queue: true if a return has met others by it.
    pub(super) fn on_queue(&mut self) -> bool {
        let course = self.course_mut();
        match *course {
            Phase::Returning { until } => {
                *course = until.map_or(Phase::Steady, |until| Phase::Yielding { until });
                true
            }
            Phase::Probing { until } | Phase::Returned { until } => {
                *course = Phase::Yielding { until };
                false
            }
            Phase::SlowStart | Phase::Steady | Phase::Yielding { .. } | Phase::Draining(_) => false,
        }
    }

    /// A round has ended at an empty queue of a contested path, after which this is to be done.
    pub(super) fn on_empty(&mut self, step: Step) {
        if let Some(until) = self.contested_until() {
            *self.course_mut() = match step {
                Step::Wait => Phase::Yielding { until },
                Step::Probe => Phase::Probing { until },
                Step::Return => Phase::Returning { until: Some(until) },
            };
        }
    }

    /// The window is what it was before others came.
    pub(super) fn on_share(&mut self) {
        let course = self.course_mut();
        if let Phase::Returning { until } = *course {
            *course = until.map_or(Phase::Steady, |until| Phase::Returned { until });
        }
    }

    /// Losses, marks or a queue have shown the path's capacity.
    pub(super) fn end_slow_start(&mut self) {
        let course = self.course_mut();
        if *course == Phase::SlowStart {
            *course = Phase::Steady;
        }
    }

    /// What ended slow start was none of that.
    pub(super) fn back_to_slow_start(&mut self) {
        *self.course_mut() = Phase::SlowStart;
    }

    /// A drain begins, after which the window is `back_to` bytes.
    pub(super) fn begin_drain(&mut self, back_to: f64, former: Option<Former>) {
        self.end_drain();
        let then = std::mem::replace(self, Phase::Steady);
        *self = Phase::Draining(Box::new(Draining {
            back_to,
            rounds: TUNING.drain.rounds,
            former,
            then,
        }));
    }

    /// The drain is over, or broken off.
    pub(super) fn end_drain(&mut self) -> Option<Draining> {
        match std::mem::replace(self, Phase::Steady) {
            Phase::Draining(mut drain) => {
                *self = std::mem::replace(&mut drain.then, Phase::Steady);
                Some(*drain)
            }
            phase => {
                *self = phase;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        crate::test_epoch() + Duration::from_secs(seconds)
    }

    const UNTIL: u64 = 10;

    fn yielding() -> Phase {
        Phase::Yielding { until: at(UNTIL) }
    }

    fn probing() -> Phase {
        Phase::Probing { until: at(UNTIL) }
    }

    fn returning() -> Phase {
        Phase::Returning {
            until: Some(at(UNTIL)),
        }
    }

    fn returning_late() -> Phase {
        Phase::Returning { until: None }
    }

    fn returned() -> Phase {
        Phase::Returned { until: at(UNTIL) }
    }

    /// Every phase but a drain.
    fn courses() -> [Phase; 7] {
        let contested = [yielding(), probing(), returning(), returned()];
        let [one, two, three, four] = contested;
        let others = [Phase::SlowStart, Phase::Steady, returning_late()];
        let [five, six, seven] = others;
        [one, two, three, four, five, six, seven]
    }

    fn draining(then: Phase) -> Phase {
        let mut phase = then;
        phase.begin_drain(1000.0, None);
        phase
    }

    /// What an event makes of a phase, and that a drain lets it do the same behind it.
    fn after(from: Phase, event: impl Fn(&mut Phase)) -> Phase {
        let mut phase = from.clone();
        event(&mut phase);
        let mut behind = draining(from);
        event(&mut behind);
        assert_eq!(behind, draining(phase.clone()));
        phase
    }

    #[test]
    fn slow_start_ends_and_comes_back() {
        for from in courses() {
            let expected = match &from {
                Phase::SlowStart => Phase::Steady,
                other => other.clone(),
            };
            assert_eq!(after(from.clone(), Phase::end_slow_start), expected);
            assert_eq!(after(from, Phase::back_to_slow_start), Phase::SlowStart);
        }
        assert!(draining(Phase::SlowStart).is_slow_start());
        assert!(!draining(Phase::Steady).is_slow_start());
    }

    #[test]
    fn a_drain_goes_back_to_what_it_interrupts() {
        for from in courses() {
            let mut phase = draining(from.clone());
            assert_eq!(phase.drain_mut().map(|drain| drain.rounds), Some(2));
            assert_eq!(phase.is_contested(), from.is_contested());
            let drain = phase.end_drain().unwrap();
            assert_eq!((phase, drain.back_to), (from, 1000.0));
        }
        assert_eq!(Phase::Steady.clone().end_drain(), None);
        // One drain never interrupts another.
        let mut twice = draining(yielding());
        twice.begin_drain(2000.0, None);
        assert_eq!(twice.drain().map(|drain| &drain.then), Some(&yielding()));
    }

    #[test]
    fn contention_makes_it_yield_or_lasts_longer() {
        let end = at(20);
        for (from, expected) in [
            (Phase::SlowStart, Phase::SlowStart),
            (Phase::Steady, Phase::Yielding { until: end }),
            (yielding(), Phase::Yielding { until: end }),
            (probing(), Phase::Probing { until: end }),
            (returning(), Phase::Returning { until: Some(end) }),
            (returning_late(), Phase::Returning { until: Some(end) }),
            (returned(), Phase::Returned { until: end }),
        ] {
            assert_eq!(after(from, |phase| phase.on_contention(end)), expected);
        }
    }

    #[test]
    fn contention_is_over_by_time() {
        for (from, expected) in [
            (Phase::SlowStart, Phase::SlowStart),
            (Phase::Steady, Phase::Steady),
            (yielding(), Phase::Steady),
            (probing(), Phase::Steady),
            (returning(), returning_late()),
            (returning_late(), returning_late()),
            (returned(), Phase::Steady),
        ] {
            let before = after(from.clone(), |phase| phase.on_time(at(UNTIL - 1)));
            assert_eq!(before, from);
            let passed = after(from, |phase| phase.on_time(at(UNTIL)));
            assert_eq!(passed, expected);
        }
        // A clock that has gone back by more than it may last.
        let mut phase = Phase::Yielding { until: at(1000) };
        phase.on_time(at(0));
        assert_eq!(phase, Phase::Steady);
    }

    #[test]
    fn a_queue_ends_probes_and_returns() {
        for (from, expected, met) in [
            (Phase::SlowStart, Phase::SlowStart, false),
            (Phase::Steady, Phase::Steady, false),
            (yielding(), yielding(), false),
            (probing(), yielding(), false),
            (returning(), yielding(), true),
            (returning_late(), Phase::Steady, true),
            (returned(), yielding(), false),
        ] {
            assert_eq!(from.clone().on_queue(), met, "{from:?}");
            let next = after(from, |phase| {
                phase.on_queue();
            });
            assert_eq!(next, expected);
        }
    }

    #[test]
    fn an_empty_queue_leads_back_step_by_step() {
        for from in [yielding(), probing(), returning(), returned()] {
            for (step, expected) in [
                (Step::Wait, yielding()),
                (Step::Probe, probing()),
                (Step::Return, returning()),
            ] {
                assert_eq!(after(from.clone(), |phase| phase.on_empty(step)), expected);
            }
        }
        for from in [Phase::SlowStart, Phase::Steady, returning_late()] {
            let same = after(from.clone(), |phase| phase.on_empty(Step::Return));
            assert_eq!(same, from);
        }
    }

    #[test]
    fn a_return_ends_with_the_share() {
        for from in courses() {
            let expected = match &from {
                Phase::Returning { until: Some(_) } => returned(),
                Phase::Returning { until: None } => Phase::Steady,
                other => other.clone(),
            };
            assert_eq!(after(from, Phase::on_share), expected);
        }
    }
}
