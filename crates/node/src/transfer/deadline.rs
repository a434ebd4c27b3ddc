//! Transfers that have to be there by a time: once a second each says how far it has come, and gets
//! the priority that it needs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringway_dtl::{Deadline, Due, Priority, Progress, needs};
use ringway_transport::MemberId;
use tokio::time::MissedTickBehavior;

use super::live::Live;
use super::record::{Direction, Phase, TransferId};
use super::service::{Context, TransferError, Transfers};
use crate::clock::{unix_micros, unix_seconds};
use crate::control::{LimitedBy, TransferStatus};
use crate::limits::DEADLINE_AHEAD;
use crate::state::{State, StateError};

/// How often it is looked how far transfers have come.
const LOOK: Duration = Duration::from_secs(1);

/// A deadline, as stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeptDeadline {
    /// Unix seconds.
    pub(crate) by: u64,
    /// When it was set, Unix seconds.
    pub(crate) since: u64,
    /// The highest priority that it may raise to.
    pub(crate) most: f64,
    /// False once the user has set the priority: from then on it is only told whether it is met.
    pub(crate) steers: bool,
    /// When the file had arrived, Unix seconds.
    pub(crate) arrived: Option<u64>,
}

/// The deadlines of this member's transfers.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    all: Mutex<BTreeMap<TransferId, Steered>>,
}

#[derive(Debug)]
struct Steered {
    kept: KeptDeadline,
    steering: Deadline,
    /// Whether the transfer was seen before its end: of another it is not known when that was.
    was_open: bool,
    /// Whether the log says that it has passed.
    is_told: bool,
}

/// One moment by both clocks: the wall's goes on while the machine sleeps.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Instant,
    unix: Duration,
}

impl Moment {
    fn now() -> Moment {
        Moment {
            now: Instant::now(),
            unix: Duration::from_micros(unix_micros()),
        }
    }

    /// The instant of a time in Unix seconds, as near as an instant can be.
    fn instant(&self, unix: u64) -> Instant {
        let then = Duration::from_secs(unix);
        match then.checked_sub(self.unix) {
            Some(ahead) => self.now.checked_add(ahead).unwrap_or(self.now),
            None => self
                .now
                .checked_sub(self.unix.saturating_sub(then))
                .unwrap_or(self.now),
        }
    }

    fn unix(&self, then: Instant) -> u64 {
        let ahead = then.saturating_duration_since(self.now);
        let behind = self.now.saturating_duration_since(then);
        let unix = self.unix.saturating_add(ahead).saturating_sub(behind);
        // To the nearest: what is aimed at a whole second shall say so.
        unix.saturating_add(Duration::from_millis(500)).as_secs()
    }
}

impl KeptDeadline {
    /// Set now.
    fn new(by: u64, most: Priority) -> KeptDeadline {
        KeptDeadline {
            by,
            since: unix_seconds(),
            most: most.get(),
            steers: true,
            arrived: None,
        }
    }

    fn most(&self) -> Priority {
        Priority::new(self.most).unwrap_or_default()
    }
}

impl Steered {
    fn new(kept: KeptDeadline) -> Steered {
        let moment = Moment::now();
        let (begun, due) = (moment.instant(kept.since), moment.instant(kept.by));
        Steered {
            steering: Deadline::new(begun, due, kept.most()),
            kept,
            was_open: false,
            is_told: false,
        }
    }

    /// Waits, or has passed: what it is to go on with.
    fn pause(&mut self, moment: &Moment) -> Priority {
        self.steering.handle_pause();
        self.steering.priority(moment.now)
    }
}

/// One that flows, and what its priority depends on.
struct Flowing {
    id: TransferId,
    live: Arc<Live>,
    peer: MemberId,
    /// Members to whom what is sent waits in one queue with it.
    beside: Vec<MemberId>,
    due: Due,
    rtt: Duration,
    by_network: bool,
}

impl Flowing {
    fn shares_line_with(&self, other: &Flowing) -> bool {
        self.peer == other.peer
            || self.beside.contains(&other.peer)
            || other.beside.contains(&self.peer)
    }
}

/// The transfers by lines: those that share one, whether with each other or by others.
fn by_lines(flowing: Vec<Flowing>) -> Vec<Vec<Flowing>> {
    let mut lines: Vec<Vec<Flowing>> = Vec::new();
    for one in flowing {
        let shares = |line: &Vec<Flowing>| line.iter().any(|other| other.shares_line_with(&one));
        let (same, mut rest): (Vec<_>, Vec<_>) = lines.into_iter().partition(shares);
        let mut line: Vec<Flowing> = same.into_iter().flatten().collect();
        line.push(one);
        rest.push(line);
        lines = rest;
    }
    lines
}

impl Deadlines {
    /// Those that an earlier run has left.
    pub(super) fn load(state: &State) -> Result<Deadlines, StateError> {
        let kept = state.deadlines()?.into_iter();
        let all = kept.map(|(id, kept)| (id, Steered::new(kept)));
        Ok(Deadlines {
            all: Mutex::new(all.collect()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TransferId, Steered>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user has set the priority: the deadline no longer does.
    fn let_go(&self, id: &TransferId) -> Option<KeptDeadline> {
        let mut all = self.lock();
        let steered = all.get_mut(id).filter(|steered| steered.kept.steers)?;
        steered.kept.steers = false;
        Some(steered.kept)
    }

    /// Adds what is known of the transfer's deadline to what is told of it.
    pub(super) fn describe(&self, live: &Live, status: &mut TransferStatus) {
        let id = live.record().id;
        let all = self.lock();
        let Some(steered) = all.get(&id).filter(|_| status.direction == "send") else {
            return;
        };
        let moment = Moment::now();
        let kept = steered.kept;
        let forecast = steered.steering.forecast(moment.now);
        let at_this_rate = status.eta_s.and_then(|eta| {
            let eta = Duration::try_from_secs_f64(eta).ok()?;
            moment.now.checked_add(eta)
        });
        let arrival = if kept.steers {
            forecast.arrival
        } else {
            at_this_rate
        };
        let is_open = !live.phase().is_ended();
        let expected = arrival.filter(|_| is_open).map(|then| moment.unix(then));
        let in_time = expected.or(kept.arrived).map(|then| then <= kept.by);
        let has_passed = moment.unix >= Duration::from_secs(kept.by);
        status.deadline = Some(kept.by);
        status.steered = kept.steers && is_open;
        status.expected = expected.or(kept.arrived);
        status.in_time = if is_open && has_passed {
            Some(false)
        } else {
            in_time.map(|in_time| in_time && (forecast.in_time || !status.steered))
        };
    }

    /// Looks at all of them.
    fn look(&self, context: &Context, moment: &Moment) {
        let mut all = self.lock();
        all.retain(|id, _| context.find(*id, Direction::Send).is_some());
        let mut flowing = Vec::new();
        for (id, steered) in all.iter_mut() {
            if let Some(live) = context.find(*id, Direction::Send) {
                flowing.extend(look_at(context, moment, *id, steered, live));
            }
        }
        for line in by_lines(flowing) {
            steer(&mut all, moment, &line);
        }
    }
}

/// The transfer, if it flows.
fn look_at(
    context: &Context,
    moment: &Moment,
    id: TransferId,
    steered: &mut Steered,
    live: Arc<Live>,
) -> Option<Flowing> {
    let kept = &mut steered.kept;
    let phase = live.phase();
    if phase.is_ended() {
        if phase == Phase::Done && steered.was_open && kept.arrived.is_none() {
            kept.arrived = Some(moment.unix.as_secs());
            keep(context, &id, kept);
        }
        return None;
    }
    steered.was_open = true;
    let has_passed = moment.unix >= Duration::from_secs(kept.by);
    if has_passed && !steered.is_told {
        steered.is_told = true;
        let record = live.record();
        tracing::warn!(to = record.peer_name, file = record.file, id = %id, "a deadline has passed before the file had arrived");
    }
    if !kept.steers {
        return None;
    }
    let (begun, due) = (moment.instant(kept.since), moment.instant(kept.by));
    steered.steering.set_times(begun, due);
    let status = live.status(&context.directory);
    let flows = phase == Phase::Active && !has_passed;
    let Some(path) = status.path_report.filter(|_| flows) else {
        set(&live, steered.pause(moment));
        return None;
    };
    let by_network = !matches!(
        status.limited_by,
        Some(
            LimitedBy::Receiver
                | LimitedBy::FlowControl
                | LimitedBy::Unanswered
                | LimitedBy::Application
        )
    );
    Some(Flowing {
        id,
        peer: live.record().peer,
        beside: live.coupled_with(),
        due: Due {
            left: status.size.saturating_sub(status.bytes),
            by: steered.steering.aim(moment.now),
        },
        rtt: Duration::try_from_secs_f64(path.rtt_ms / 1e3).unwrap_or_default(),
        by_network,
        live,
    })
}

/// Gives those on one line what they need.
fn steer(all: &mut BTreeMap<TransferId, Steered>, moment: &Moment, line: &[Flowing]) {
    let dues: Vec<Due> = line.iter().map(|one| one.due).collect();
    let steering = |one: &Flowing| Some(all.get(&one.id)?.steering.clone());
    let learned: Vec<Deadline> = line.iter().filter_map(steering).collect();
    for (one, need) in line.iter().zip(needs(moment.now, &dues)) {
        let Some(steered) = all.get_mut(&one.id) else {
            continue;
        };
        for other in &learned {
            steered.steering.learn_from(other);
        }
        let progress = Progress {
            left: one.due.left,
            need,
            rtt: one.rtt,
            by_network: one.by_network,
        };
        set(
            &one.live,
            steered.steering.handle_progress(moment.now, &progress),
        );
    }
}

fn set(live: &Live, priority: Priority) {
    let before = live.lock_record().priority;
    if before != priority {
        live.set_priority(priority);
    }
}

/// A disk that refuses is logged: the transfer itself goes on.
fn keep(context: &Context, id: &TransferId, kept: &KeptDeadline) {
    if let Err(error) = context.state.put_deadline(id, kept) {
        tracing::error!(%error, "a deadline could not be stored");
    }
}

/// Looks at all deadlines, for ever.
pub(super) async fn run(context: Arc<Context>) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        context.deadlines.look(&context, &Moment::now());
    }
}

impl Context {
    /// The user sets the priority of a transfer, which takes it from its deadline.
    pub(super) fn take_from_deadline(&self, id: &TransferId) {
        if let Some(kept) = self.deadlines.let_go(id) {
            keep(self, id, &kept);
        }
    }
}

impl Transfers {
    /// From now on the transfer's priority is what it needs to arrive by a time, in Unix seconds,
    /// and `most` at most.
    pub(crate) fn set_deadline(
        &self,
        prefix: &str,
        by: u64,
        most: Priority,
    ) -> Result<TransferStatus, TransferError> {
        check(by)?;
        let live = self.open_send(prefix)?;
        let id = live.record().id;
        let kept = KeptDeadline::new(by, most);
        self.context.state.put_deadline(&id, &kept)?;
        self.context.deadlines.lock().insert(id, Steered::new(kept));
        live.set_priority(Priority::SCAVENGER);
        self.context.save(&live);
        Ok(self.context.status(&live))
    }
}

/// Refuses a deadline, in Unix seconds, that has passed or is too far ahead.
pub(crate) fn check(by: u64) -> Result<(), TransferError> {
    let now = unix_seconds();
    if by <= now {
        return Err(TransferError::Past { by, now });
    }
    if by - now > DEADLINE_AHEAD.as_secs() {
        return Err(TransferError::FarAhead);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ringway_transport::Signer as _;

    use super::*;
    use crate::identity::Identity;

    #[test]
    fn clocks_agree() {
        let moment = Moment::now();
        let unix = moment.unix.as_secs();
        for ahead in [0, 1, 60, 86_400] {
            let then = moment.instant(unix + ahead);
            let back = moment.unix(then);
            assert!((unix + ahead..=unix + ahead + 1).contains(&back), "{ahead}");
        }
        // Whatever stands there: no panic.
        moment.instant(0);
        moment.instant(u64::MAX);
    }

    #[test]
    fn a_line_is_what_hangs_together() {
        let members: Vec<MemberId> = (0..4)
            .map(|_| Identity::generate().unwrap().member())
            .collect();
        let record = crate::transfer::tests::some_record(members[0]);
        let live = Arc::new(Live::new(record));
        let flowing = |number: u8, peer: usize, beside: &[usize]| Flowing {
            id: TransferId([number; 16]),
            live: Arc::clone(&live),
            peer: members[peer],
            beside: beside.iter().map(|member| members[*member]).collect(),
            due: Due {
                left: 1,
                by: Instant::now(),
            },
            rtt: Duration::ZERO,
            by_network: true,
        };
        // The last one joins what were two lines.
        let lines = by_lines(vec![
            flowing(1, 0, &[]),
            flowing(2, 1, &[]),
            flowing(3, 3, &[]),
            flowing(4, 0, &[1]),
        ]);
        let mut ids: Vec<Vec<u8>> = lines
            .iter()
            .map(|line| line.iter().map(|one| one.id.0[0]).collect())
            .collect();
        ids.iter_mut().for_each(|line| line.sort_unstable());
        ids.sort();
        assert_eq!(ids, [vec![1, 2, 4], vec![3]]);
    }
}
