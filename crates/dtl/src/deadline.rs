//! Deadlines: which priority brings what is left in time, and costs others no more than it must.
//!
//! A [`Deadline`] is told once a second or so what is left, and answers with a priority. It begins
//! at 0 and stays there as long as that is in time: because what the line gives at 0 is enough, or
//! because enough time is left to get the rest at the worth of one TCP flow. Then it raises the
//! priority, and corrects it by what the line gives. What that is it cannot know before it has
//! asked: a line that is full when the transfer begins is asked early, and what that brings need
//! not be sent later.
//!
//! Deadlines that share a line are met in order: [`needs`] says what each must have now.
//!
//! Getters: [`Deadline::priority`], [`Deadline::aim`], [`Deadline::forecast`]. Commands:
//! [`Deadline::set_most`], [`Deadline::set_times`], [`Deadline::learn_from`]. Input:
//! [`Deadline::handle_progress`] while data flows, [`Deadline::handle_pause`] when it stops to.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Priority;
use crate::limits::{
    DEADLINE_RESERVE, DEADLINE_RESERVE_LEAST, DEADLINE_RESERVE_MOST, DEADLINE_SLOTS,
    MAX_DEADLINE_PRIORITY,
};

/// The part of the time until the aim for which it is watched what priority 0 gives, if nothing
/// else is known.
const WATCH: f64 = 0.05;
/// That time at least, and at most.
const WATCH_BOUNDS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(600));
/// The part of the time between deadline's begin and end that one slot of the memory of priority 0
/// is long.
const SLOT: f64 = 1.0 / 60.0;
/// That time at least, and at most.
const SLOT_BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The part of the time that is left between two corrections of a raised priority.
const CORRECTION: f64 = 0.05;
/// That time at least, and at most.
const CORRECTION_BOUNDS: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(60));
/// What follows a change of priority is not measured for so long, or so many round trips: a raise
/// from 0 needs as long (`sim/tests/it/priorities.rs`).
const SETTLE: Duration = Duration::from_secs(2);
/// See [`SETTLE`].
const SETTLE_ROUND_TRIPS: u32 = 40;
/// What the worth of one flow is taken for as long as it was never measured: this part of the most
/// that the line ever gave, as beside three others.
const UNMEASURED: f64 = 0.25;
/// The priority is raised once this part of what one flow's worth gives is needed.
const RAISE: f64 = 0.9;
/// It returns to 0 once no more than this part of it is needed. Between the two nothing changes, so
/// that a rate that swings does not swing the priority.
const REST: f64 = 0.7;
/// It returns to 0 for so long at least: up again, it takes [`SETTLE`] until it is known what that
/// gives.
const REST_LEAST: Duration = Duration::from_secs(10);
/// The most that one correction takes away, and adds.
const STEP: (f64, f64) = (0.67, 2.0);
/// No correction for what is nearer to the need than this.
const NEAR: (f64, f64) = (0.93, 1.05);
/// The least that is above 0.
const LEAST: f64 = 0.25;
/// The most with which a raise begins.
const FIRST_MOST: f64 = 4.0;
/// Deadlines that differ by less than this part of the time until them count as one.
const TOGETHER: f64 = 0.05;

/// What has to have come by when.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Bytes.
    pub left: u64,
    /// When.
    pub by: Instant,
}

/// The rates, in bytes per second, that transfers on one line need now so that all are in time, in
/// the order of `dues`.
///
/// The line has to give the greatest of: what is due by a deadline, by the time until then. It goes
/// to what is due first; the others wait at 0, and those that are due together share it as their
/// bytes do. No lower greatest rate meets all deadlines. Source: Yao, Demers, Shenker, "A
/// scheduling model for reduced CPU energy", FOCS 1995, for jobs that are all there already.
#[must_use]
pub fn needs(now: Instant, dues: &[Due]) -> Vec<f64> {
    let open = || dues.iter().filter(|due| due.left > 0);
    let Some(first) = open().map(|due| due.by).min() else {
        return vec![0.0; dues.len()];
    };
    let mut order: Vec<&Due> = open().collect();
    order.sort_by_key(|due| due.by);
    let (mut sum, mut rate) = (0.0, 0.0_f64);
    for due in order {
        sum += as_f64(due.left);
        rate = rate.max(sum / seconds_until(now, due.by));
    }
    let together = first + (first.saturating_duration_since(now)).mul_f64(TOGETHER);
    let is_first = |due: &&Due| due.by <= together;
    let bytes: f64 = open().filter(is_first).map(|due| as_f64(due.left)).sum();
    let need = |due: &Due| {
        let part = if due.by <= together {
            as_f64(due.left)
        } else {
            0.0
        };
        rate * part / bytes
    };
    dues.iter().map(need).collect()
}

/// How a transfer that has a deadline comes along.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Progress {
    /// Bytes that have not been sent.
    pub left: u64,
    /// Bytes per second that it needs, as [`needs`] says.
    pub need: f64,
    /// The path's round-trip time.
    pub rtt: Duration,
    /// False if it is not the network that keeps it from being faster: a higher priority does not
    /// mend that.
    pub by_network: bool,
}

/// When a transfer will have arrived, as far as can be said.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// None if nothing has flowed yet.
    pub arrival: Option<Instant>,
    /// Whether that is by the deadline.
    pub in_time: bool,
}

/// What a line has given.
#[derive(Copy, Clone, Debug, Default)]
struct Given {
    /// Bytes per second: the most in one slot.
    most: f64,
    /// What one flow's worth gave, a lower bound; none if it was never tried.
    one: Option<f64>,
}

impl Given {
    /// What one flow's worth may be counted on to give.
    fn counts_on(&self) -> f64 {
        self.one.unwrap_or(self.most * UNMEASURED)
    }
}

/// One transfer's deadline.
#[derive(Clone, Debug)]
pub struct Deadline {
    begun: Instant,
    due: Instant,
    /// The highest priority that it may ask for.
    most: f64,
    priority: f64,
    /// When data began to flow, this time.
    flows_since: Option<Instant>,
    /// What is measured began then, with so much left.
    mark: Option<(Instant, u64)>,
    /// The last change of priority is not to be measured until then.
    settles_until: Option<Instant>,
    /// What priority 0 gave in the latest slots, bytes per second.
    at_zero: VecDeque<f64>,
    given: Given,
    /// The rate of what was measured last, and what was left and needed when last told.
    rate: Option<f64>,
    last: Option<Progress>,
}

impl Deadline {
    /// A deadline that was set at `begun` and is met by what has come by `due`. It asks for no more
    /// than `most`, and never for more than [`MAX_DEADLINE_PRIORITY`].
    #[must_use]
    pub fn new(begun: Instant, due: Instant, most: Priority) -> Deadline {
        Deadline {
            begun,
            due,
            most: most.get().min(MAX_DEADLINE_PRIORITY),
            priority: 0.0,
            flows_since: None,
            mark: None,
            settles_until: None,
            at_zero: VecDeque::new(),
            given: Given::default(),
            rate: None,
            last: None,
        }
    }

    /// What to send at. Once the deadline is over it is [`Priority::NORMAL`]: late, but no more
    /// than that.
    #[must_use]
    pub fn priority(&self, now: Instant) -> Priority {
        let flows = if now < self.due {
            self.priority
        } else {
            self.most.min(Priority::NORMAL.get())
        };
        Priority::new(flows).unwrap_or_default()
    }

    /// By when all is to have come: somewhat before the deadline.
    #[must_use]
    pub fn aim(&self, now: Instant) -> Instant {
        let left = self.due.saturating_duration_since(now);
        now + left.saturating_sub(self.reserve()).max(left / 2)
    }

    fn reserve(&self) -> Duration {
        let whole = self.due.saturating_duration_since(self.begun);
        let reserve = whole.mul_f64(DEADLINE_RESERVE);
        reserve.clamp(DEADLINE_RESERVE_LEAST, DEADLINE_RESERVE_MOST)
    }

    /// The deadline at other instants: the machine has slept, or its clock was set.
    pub fn set_times(&mut self, begun: Instant, due: Instant) {
        (self.begun, self.due) = (begun, due);
    }

    /// Another bound on what it asks for.
    pub fn set_most(&mut self, most: Priority) {
        self.most = most.get().min(MAX_DEADLINE_PRIORITY);
        self.priority = self.priority.min(self.most);
    }

    /// What another deadline has learned of the same line counts for this one, if it has learned
    /// nothing itself.
    pub fn learn_from(&mut self, other: &Deadline) {
        self.given.most = self.given.most.max(other.given.most);
        self.given.one = self.given.one.or(other.given.one);
    }

    /// Nothing flows: the peer is away, or it has not begun. What the line has given still counts.
    pub fn handle_pause(&mut self) {
        (self.flows_since, self.mark, self.settles_until) = (None, None, None);
        (self.rate, self.last) = (None, None);
        self.at_zero.clear();
        self.priority = 0.0;
    }

    /// Data flows, and this is how far it has come. Returns what to send at from now on.
    pub fn handle_progress(&mut self, now: Instant, progress: &Progress) -> Priority {
        self.last = Some(*progress);
        if self.flows_since.is_none() {
            self.flows_since = Some(now);
            self.settles_until = Some(now + settle(progress.rtt));
        }
        if self.settles_until.is_some_and(|until| now < until) {
            return self.priority(now);
        }
        let (since, left) = *self.mark.get_or_insert((now, progress.left));
        let time = now.saturating_duration_since(since);
        let rate = as_f64(left.saturating_sub(progress.left)) / time.as_secs_f64().max(1e-3);
        let measured = time >= self.takes(now);
        if measured {
            self.rate = Some(rate);
            self.given.most = self.given.most.max(rate);
            self.mark = Some((now, progress.left));
        }
        let next = if progress.need <= 0.0 {
            0.0
        } else if self.priority > 0.0 {
            self.raised(now, progress, measured.then_some(rate))
        } else {
            self.at_rest(now, progress, measured.then_some(rate))
        };
        self.change(now, progress, next);
        self.priority(now)
    }

    /// How long a measurement takes.
    fn takes(&self, now: Instant) -> Duration {
        let (whole, part, bounds) = if self.priority > 0.0 {
            let left = self.due.saturating_duration_since(now);
            (left, CORRECTION, CORRECTION_BOUNDS)
        } else {
            let whole = self.due.saturating_duration_since(self.begun);
            (whole, SLOT, SLOT_BOUNDS)
        };
        whole.mul_f64(part).clamp(bounds.0, bounds.1)
    }

    fn change(&mut self, now: Instant, progress: &Progress, priority: f64) {
        let priority = priority.min(self.most);
        if (priority - self.priority).abs() < f64::EPSILON {
            return;
        }
        self.priority = priority;
        self.mark = None;
        self.settles_until = Some(now + settle(progress.rtt));
    }

    /// The priority after 0.
    fn at_rest(&mut self, now: Instant, progress: &Progress, rate: Option<f64>) -> f64 {
        if let Some(rate) = rate {
            self.at_zero.push_back(rate);
            if self.at_zero.len() > DEADLINE_SLOTS {
                self.at_zero.pop_front();
            }
        }
        let need = progress.need;
        let known = self.given.one.is_some() || self.has_watched(now);
        let zero_gives = self.zero_gives().unwrap_or(0.0);
        if !known || !progress.by_network || need <= zero_gives {
            return 0.0;
        }
        let one_gives = self.given.counts_on();
        if need <= one_gives * RAISE && !self.is_ending(now) {
            return 0.0;
        }
        match self.given.one {
            Some(one) if one > 0.0 => (need / one).clamp(Priority::NORMAL.get(), FIRST_MOST),
            _ => Priority::NORMAL.get(),
        }
    }

    /// Whether priority 0 was watched for long enough to know what it gives.
    fn has_watched(&self, now: Instant) -> bool {
        let Some(since) = self.flows_since else {
            return false;
        };
        let time = self.aim(since).saturating_duration_since(since);
        let watch = time.mul_f64(WATCH).clamp(WATCH_BOUNDS.0, WATCH_BOUNDS.1);
        now.saturating_duration_since(since) >= watch
    }

    /// What priority 0 may be counted on to give: in three of four slots it was more.
    fn zero_gives(&self) -> Option<f64> {
        let mut slots: Vec<f64> = self.at_zero.iter().copied().collect();
        slots.sort_by(f64::total_cmp);
        slots.get(slots.len() / 4).copied()
    }

    /// The priority after one above 0.
    fn raised(&mut self, now: Instant, progress: &Progress, rate: Option<f64>) -> f64 {
        let Some(rate) = rate else {
            return self.priority;
        };
        // N flows get less than N times what one does.
        let one = rate / self.priority.max(Priority::NORMAL.get());
        let one = self
            .given
            .one
            .map_or(one, |before| f64::midpoint(before, one));
        self.given.one = Some(one);
        let rests = progress.need < one * REST && !self.is_ending(now);
        if rests && self.may_rest(now, progress.left, one) {
            self.at_zero.clear();
            return 0.0;
        }
        let lacks = progress.need / rate.max(1.0);
        let is_near = (NEAR.0..=NEAR.1).contains(&lacks);
        let helps = lacks < 1.0 || progress.by_network;
        if is_near || !helps || (lacks < 1.0 && self.is_ending(now)) {
            return self.priority;
        }
        (self.priority * lacks.clamp(STEP.0, STEP.1)).clamp(LEAST, MAX_DEADLINE_PRIORITY)
    }

    /// Whether it could wait at 0 for long enough to be worth it, with this rate afterwards.
    fn may_rest(&self, now: Instant, left: u64, rate: f64) -> bool {
        let time = seconds_until(now, self.aim(now));
        time - as_f64(left) / rate.max(1.0) >= REST_LEAST.as_secs_f64()
    }

    /// Whether the reserve is all that is left: then nothing is saved any more.
    fn is_ending(&self, now: Instant) -> bool {
        self.due.saturating_duration_since(now) < self.reserve() * 2
    }

    /// When all will have come: at the present rate, or at the aim if the priority may yet be
    /// raised.
    #[must_use]
    pub fn forecast(&self, now: Instant) -> Forecast {
        let never = Forecast {
            arrival: None,
            in_time: now < self.due,
        };
        let Some(progress) = self.last else {
            return never;
        };
        let rate = if self.priority > 0.0 {
            self.rate
        } else {
            self.zero_gives()
        };
        let straight = rate.and_then(|rate| {
            let seconds = as_f64(progress.left) / rate.max(f64::MIN_POSITIVE);
            let takes = Duration::try_from_secs_f64(seconds).ok()?;
            now.checked_add(takes)
        });
        if let Some(arrival) = straight.filter(|arrival| *arrival <= self.due) {
            return Forecast {
                arrival: Some(arrival),
                in_time: true,
            };
        }
        let may_rise = progress.by_network && self.priority < self.most && now < self.due;
        Forecast {
            arrival: if may_rise {
                Some(self.aim(now))
            } else {
                straight
            },
            in_time: may_rise,
        }
    }
}

fn settle(rtt: Duration) -> Duration {
    SETTLE.max(rtt.saturating_mul(SETTLE_ROUND_TRIPS))
}

/// Never nothing, so that what is overdue needs much and not without end.
fn seconds_until(now: Instant, then: Instant) -> f64 {
    const LEAST_TIME: Duration = Duration::from_millis(100);
    then.saturating_duration_since(now)
        .max(LEAST_TIME)
        .as_secs_f64()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "rates are estimates; exact below 2^53 bytes"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_epoch;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn due(left: u64, in_seconds: f64) -> Due {
        Due {
            left,
            by: test_epoch() + seconds(in_seconds),
        }
    }

    const MOST: Priority = Priority::NORMAL;

    /// A deadline in three minutes that is told this many bytes a second at 0 and above, and what
    /// it asked for each second, until it is over.
    fn told(size: u64, at_zero: f64, raised: f64, most: f64) -> (Vec<f64>, Option<usize>) {
        let begun = test_epoch();
        let most = Priority::new(most).unwrap();
        let mut deadline = Deadline::new(begun, begun + seconds(180.0), most);
        let (mut left, mut asked) = (size as f64, Vec::new());
        for second in 0..185 {
            let now = begun + seconds(f64::from(second));
            let rate = match deadline.priority(now).get() {
                0.0 => at_zero,
                flows => raised * flows.min(2.0),
            };
            left = (left - rate).max(0.0);
            if left <= 0.0 {
                let at = asked.len();
                return (asked, Some(at));
            }
            let remains = left.ceil() as u64;
            let dues = [Due {
                left: remains,
                by: deadline.aim(now),
            }];
            let progress = Progress {
                left: remains,
                need: needs(now, &dues)[0],
                rtt: seconds(0.02),
                by_network: true,
            };
            asked.push(deadline.handle_progress(now, &progress).get());
        }
        (asked, None)
    }

    #[test]
    fn the_first_deadline_gets_what_all_need() {
        let now = test_epoch();
        // 10 in 10 s, 30 in 20 s: 2 a second for all of the time, first for the first.
        assert_eq!(needs(now, &[due(30, 20.0), due(10, 10.0)]), [0.0, 2.0]);
        // Due later, and little of it: the first alone decides.
        assert_eq!(needs(now, &[due(10, 10.0), due(1, 20.0)]), [1.0, 0.0]);
        // Due together: as the bytes are.
        let together = needs(now, &[due(10, 10.0), due(30, 10.0), due(0, 1.0)]);
        assert_eq!(together, [1.0, 3.0, 0.0]);
        assert_eq!(needs(now, &[]), [0.0; 0]);
        assert_eq!(needs(now, &[due(0, 5.0)]), [0.0]);
        // Overdue: much, and not without end.
        assert_eq!(needs(now + seconds(9.0), &[due(10, 1.0)]), [100.0]);
    }

    #[test]
    fn zero_that_is_enough_stays() {
        let (asked, came) = told(100_000_000, 1e6, 1e6, 8.0);
        assert!(asked.iter().all(|flows| *flows == 0.0), "{asked:?}");
        assert_eq!(came, Some(99));
    }

    #[test]
    fn what_is_needed_is_asked_for() {
        let (asked, came) = told(100_000_000, 1e4, 5e5, 8.0);
        assert!(asked.iter().all(|flows| *flows < 1.6), "{asked:?}");
        assert!((150..=178).contains(&came.unwrap()), "{came:?}");
    }

    #[test]
    fn bound_is_kept_and_end_is_normal() {
        let (asked, came) = told(400_000_000, 1e4, 5e5, 0.5);
        assert_eq!(
            (asked.iter().copied().fold(0.0, f64::max), came),
            (0.5, None)
        );
        let (asked, _) = told(400_000_000, 1e4, 5e5, 1000.0);
        assert_eq!(
            asked.iter().copied().fold(0.0, f64::max),
            MAX_DEADLINE_PRIORITY
        );
        assert_eq!(asked.last(), Some(&1.0));
        let (asked, _) = told(400_000_000, 1e4, 5e5, 0.0);
        assert!(asked.iter().all(|flows| *flows == 0.0));
    }

    #[test]
    fn what_is_not_held_back_is_not_raised() {
        let begun = test_epoch();
        let mut deadline = Deadline::new(begun, begun + seconds(60.0), MOST);
        for second in 0..59 {
            let now = begun + seconds(f64::from(second));
            let progress = Progress {
                left: 1 << 30,
                need: 1e9,
                rtt: Duration::ZERO,
                by_network: false,
            };
            assert!(deadline.handle_progress(now, &progress).is_scavenger());
            assert!(!deadline.forecast(now).in_time || second == 0);
        }
    }

    #[test]
    fn forecasts_say_what_is_known() {
        let begun = test_epoch();
        let mut deadline = Deadline::new(begun, begun + seconds(100.0), MOST);
        let unknown = deadline.forecast(begun);
        assert_eq!((unknown.arrival, unknown.in_time), (None, true));
        for second in 0..20_u32 {
            let left = 2_000 - 20 * u64::from(second);
            let progress = Progress {
                left,
                need: 20.0,
                rtt: Duration::ZERO,
                by_network: true,
            };
            let now = begun + seconds(f64::from(second));
            deadline.handle_progress(now, &progress);
        }
        let now = begun + seconds(19.0);
        let forecast = deadline.forecast(now);
        assert!(forecast.in_time);
        let arrival = forecast.arrival.unwrap() - now;
        assert!(
            (75.0..=95.0).contains(&arrival.as_secs_f64()),
            "{arrival:?}"
        );
        // It may be raised still, and then it comes when it is aimed at.
        deadline.handle_pause();
        assert_eq!(deadline.forecast(now).arrival, None);
        assert!(!deadline.forecast(begun + seconds(101.0)).in_time);
    }

    proptest::proptest! {
        /// Whatever it is told, and whenever: what it asks for is within its bound.
        #[test]
        fn anything_is_answered_within_the_bound(
            most in 0.0..1000.0_f64,
            within in 0.0..1e5_f64,
            steps in proptest::collection::vec(
                (0.0..1e4_f64, 0..u64::MAX, 0.0..1e12_f64, 0..100_000_u64, proptest::bool::ANY),
                0..60,
            ),
        ) {
            let begun = test_epoch();
            let bound = Priority::new(most).unwrap();
            let mut deadline = Deadline::new(begun, begun + seconds(within), bound);
            let mut now = begun;
            for (pause, left, need, rtt, by_network) in steps {
                now += seconds(pause);
                let rtt = Duration::from_millis(rtt);
                let progress = Progress { left, need, rtt, by_network };
                let asked = deadline.handle_progress(now, &progress).get();
                proptest::prop_assert!(asked <= most.min(MAX_DEADLINE_PRIORITY));
                let forecast = deadline.forecast(now);
                proptest::prop_assert!(forecast.arrival.is_none_or(|at| at >= now));
                let aim = deadline.aim(now);
                let needs = needs(now, &[Due { left, by: aim }]);
                proptest::prop_assert!(needs[0].is_finite());
            }
        }
    }
}
