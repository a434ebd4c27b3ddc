//! Groups of flows to different peers that wait in one queue: their windows are exchanged until
//! their rates are as their priorities. [`Coupling`] has the run loop.

mod likeness;
mod member;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use self::likeness::Likeness;
use self::member::{Bin, Member};
use crate::limits::MAX_COUPLED;

/// Service, in bytes for each unit of weight, up to which a 64-bit float counts single bytes with
/// room to spare.
const EXACT: f64 = 1e12;

/// How often windows are exchanged.
const EVERY: Duration = Duration::from_millis(20);

/// A group of one [`Coupling`]. Never used again after the group has left.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoupledGroup(u64);

/// The coupling has [`MAX_COUPLED`] groups. The caller is at fault; a further group goes on as it
/// does alone.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_COUPLED} groups are coupled already: this one goes on alone")]
pub struct CouplingIsFull;

/// What a group has, as [`Group::standing`](crate::Group::standing) says it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Standing {
    /// The sum of the priorities of those of its flows that use what they get, in TCP flows.
    pub weight: f64,
    /// Bytes that it may have in flight.
    pub window: u64,
    /// Its smoothed round trip.
    pub smoothed: Duration,
}

/// What the end of a batch of acknowledgements says of a group's path.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Look {
    /// When the newest packet of the batch left.
    pub sent: Instant,
    /// That packet's round trip.
    pub rtt: Duration,
    /// Bytes that the batch acknowledges.
    pub bytes: u64,
}

/// Which groups wait in one queue, and what each of them is to have of what they have together.
///
/// Each group (one peer, one path) has a congestion control of its own, and is worth the sum of its
/// priorities to strangers. Whether two of them meet in one queue, which is mostly that of the own
/// line, is not known. But packets that left at the same moment then waited for the same time: the
/// round trips of both rise and fall together, whatever else is different of their paths. Where
/// they have done so for some seconds, the groups are coupled. What they have together stays as it
/// is, and so does what they are worth to strangers. The windows of those that have more than their
/// priority's part of it shrink a little fifty times a second, and those of the others grow by as
/// much. Where the round trips go their own ways, each group is on its own again.
///
/// RFC 8699 couples flows so, by one rate for all; RFC 8382 looks for shared queues by statistics
/// of one-way delays that take tens of seconds, because the flows that it compares are measured by
/// their receivers. Here one clock has seen all packets leave.
///
/// # Run loop
/// [`join`](Self::join) once for each [`Group`](crate::Group). After each
/// [`Group::on_ack_batch_end`](crate::Group::on_ack_batch_end), if
/// [`Group::standing`](crate::Group::standing) gives something: [`exchange`](Self::exchange), and
/// hand what it returns to [`Group::scale`](crate::Group::scale). [`leave`](Self::leave) at the
/// end. Calls that name a group which has left do nothing.
#[derive(Clone, Debug, Default)]
pub struct Coupling {
    members: BTreeMap<CoupledGroup, Member>,
    pairs: BTreeMap<(CoupledGroup, CoupledGroup), Likeness>,
    next: u64,
    /// From which on bins of time are counted.
    origin: Option<Instant>,
    /// When windows were exchanged last.
    exchanged: Option<Instant>,
}

impl Coupling {
    /// Without groups.
    #[must_use]
    pub fn new() -> Coupling {
        Coupling::default()
    }

    /// Lets a group in, which is on its own at first.
    ///
    /// # Errors
    /// [`CouplingIsFull`] when there are [`MAX_COUPLED`] already.
    pub fn join(&mut self) -> Result<CoupledGroup, CouplingIsFull> {
        if self.members.len() >= MAX_COUPLED {
            return Err(CouplingIsFull);
        }
        let id = CoupledGroup(self.next);
        self.next = self.next.wrapping_add(1);
        for other in self.members.keys() {
            self.pairs.insert((*other, id), Likeness::default());
        }
        self.members.insert(id, Member::new(id));
        Ok(id)
    }

    /// Ends a group's part. `false` if it is unknown.
    pub fn leave(&mut self, now: Instant, id: CoupledGroup) -> bool {
        let known = self.members.remove(&id).is_some();
        self.pairs
            .retain(|(one, other), _| *one != id && *other != id);
        self.members.values_mut().for_each(Member::keep);
        self.find_sets(now);
        known
    }

    /// How many groups wait in one queue with this one, itself among them. 1 if it is on its own, 0
    /// if it is unknown.
    #[must_use]
    pub fn together(&self, id: CoupledGroup) -> usize {
        if self.members.contains_key(&id) {
            self.others(id).count() + 1
        } else {
            0
        }
    }

    /// The others that wait in one queue with this one, in the order in which they joined. None if
    /// it is on its own, or unknown.
    pub fn others(&self, id: CoupledGroup) -> impl Iterator<Item = CoupledGroup> + '_ {
        let set = self.members.get(&id).map(|member| member.set);
        let all = self.members.iter();
        let same = all.filter(move |(other, member)| **other != id && Some(member.set) == set);
        same.map(|(other, _)| *other)
    }

    /// The same for each of them, in the order in which they joined.
    #[must_use]
    pub fn sets(&self) -> Vec<usize> {
        self.members.keys().map(|id| self.together(*id)).collect()
    }

    /// A group's path was looked at. Gives the factor by which its window is to change now
    /// ([`Group::scale`](crate::Group::scale)): 1 mostly, 0.25 to 4 at the extremes.
    pub fn exchange(
        &mut self,
        now: Instant,
        id: CoupledGroup,
        standing: &Standing,
        look: &Look,
    ) -> f64 {
        let origin = *self.origin.get_or_insert(look.sent);
        let Some(member) = self.members.get(&id) else {
            return 1.0;
        };
        let (set, begins) = (member.set, member.begins(now, standing));
        let mut virtual_time = self.sums(now, set).virtual_time();
        if virtual_time.abs() > EXACT {
            self.rebase(set, virtual_time);
            virtual_time = 0.0;
        }
        let Some(member) = self.members.get_mut(&id) else {
            return 1.0;
        };
        if begins {
            // It neither lacks nor owes anything of the time in which it was not there, or was
            // worth something else.
            member.served = virtual_time;
        }
        member.report(now, standing, look.bytes);
        let closed = look
            .sent
            .checked_duration_since(origin)
            .and_then(|since| member.look(since, look.rtt));
        if let Some(bin) = closed
            && self.compare(id, bin)
        {
            self.find_sets(now);
        }
        let exchanged = *self.exchanged.get_or_insert(now);
        let passed = now.saturating_duration_since(exchanged);
        // A clock that goes back must not stop it.
        if passed >= EVERY || now < exchanged {
            self.exchanged = Some(now);
            self.plan(now, passed.as_secs_f64());
        }
        let member = self.members.get_mut(&id);
        member.map_or(1.0, Member::take_change)
    }

    /// Plans by what each window is to change, for all at one moment: who asks has just been
    /// served, and would always seem to have too much.
    fn plan(&mut self, now: Instant, passed: f64) {
        let counting = self.members.iter().filter(|(_, member)| member.counts(now));
        let plan = |(id, member): (&CoupledGroup, &Member)| {
            let sums = self.sums(now, member.set);
            let wanted = self.of_set(now, member.set);
            let wanted: f64 = wanted.map(|other| sums.wanted(other)).sum();
            // So that all together keep what they have, whatever of their deficits is bounded.
            (*id, sums, sums.wanted(member) * sums.rate / wanted)
        };
        let plans: Vec<_> = counting.map(plan).collect();
        for (id, sums, wanted) in plans {
            if let Some(member) = self.members.get_mut(&id) {
                member.bound_deficit(sums.virtual_time(), sums.rate, sums.weight);
                if sums.count < 2 {
                    member.take_back();
                } else {
                    member.change(passed, wanted);
                }
            }
        }
    }

    /// Compares what a group saw in a bin of time with what the others saw in it. True if somebody
    /// is alone who was not, or the other way round.
    fn compare(&mut self, id: CoupledGroup, bin: Bin) -> bool {
        let mut changed = false;
        for ((one, other), likeness) in &mut self.pairs {
            let peer = match id {
                id if id == *one => other,
                id if id == *other => one,
                _ => continue,
            };
            if let Some(seen) = self
                .members
                .get(peer)
                .and_then(|peer| peer.seen(bin.number))
            {
                changed |= likeness.look(bin.shortest, seen);
            }
        }
        changed
    }

    /// Counts the service of all of a set from the present on, so that it stays small enough to be
    /// exact.
    fn rebase(&mut self, set: CoupledGroup, virtual_time: f64) {
        let members = self.members.values_mut();
        for member in members.filter(|member| member.set == set) {
            member.served -= virtual_time;
        }
    }

    /// Who waits in one queue with somebody who waits in one queue with a third waits there, too.
    fn find_sets(&mut self, now: Instant) {
        let mut sets: BTreeMap<_, _> = self.members.keys().map(|id| (*id, *id)).collect();
        let alike = || self.pairs.iter().filter(|(_, likeness)| likeness.holds());
        // A set is named after its first group, after as many passes as it has groups at most.
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for ((one, other), _) in alike() {
                let first = sets.get(one).min(sets.get(other)).copied();
                for id in [one, other] {
                    if let (Some(set), Some(first)) = (sets.get_mut(id), first)
                        && *set != first
                    {
                        *set = first;
                        changed = true;
                    }
                }
            }
        }
        for (id, member) in &mut self.members {
            let Some(set) = sets.get(id) else {
                continue;
            };
            let alone = sets.values().filter(|other| *other == set).count() < 2;
            member.moves(now, *set, alone);
        }
    }

    /// Those of a set that have something to send.
    fn of_set(&self, now: Instant, set: CoupledGroup) -> impl Iterator<Item = &Member> {
        let members = self.members.values();
        members.filter(move |member| member.set == set && member.counts(now))
    }

    fn sums(&self, now: Instant, set: CoupledGroup) -> Sums {
        let mut sums = Sums::default();
        for member in self.of_set(now, set) {
            sums.count += 1;
            sums.weight += member.weight;
            sums.rate += member.rate;
            sums.served += member.weight * member.served;
        }
        sums
    }
}

/// What the groups of a set that have something to send come to.
#[derive(Copy, Clone, Debug, Default)]
struct Sums {
    count: usize,
    weight: f64,
    /// Bytes a second.
    rate: f64,
    /// Weight × service.
    served: f64,
}

impl Sums {
    /// How far they have been served on average, in bytes for each unit of weight.
    fn virtual_time(&self) -> f64 {
        if self.weight > 0.0 {
            self.served / self.weight
        } else {
            0.0
        }
    }

    fn wanted(&self, member: &Member) -> f64 {
        member.wanted(self.virtual_time(), self.rate, self.weight)
    }
}

impl fmt::Display for CoupledGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
