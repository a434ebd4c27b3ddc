//! Messages under way, and timers, in order of virtual time.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::load::{Load, Machines, Turn};

/// How messages travel from any member to any other.
#[derive(Clone, Debug)]
pub struct Link {
    /// Least time on the way.
    pub delay: Duration,
    /// Up to so much more, uniformly at random: messages overtake each other.
    pub jitter: Duration,
    /// Probability that a message is lost, 0 to 1.
    pub loss: f64,
    /// Probability that a message arrives twice, 0 to 1.
    pub duplicates: f64,
}

impl Default for Link {
    /// 10 to 30 ms, nothing lost, nothing doubled.
    fn default() -> Link {
        Link {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(20),
            loss: 0.0,
            duplicates: 0.0,
        }
    }
}

/// Something that will happen to one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening<A, M> {
    /// A message arrives.
    Arrival {
        /// Who sent it.
        from: A,
        /// Who gets it.
        to: A,
        /// The message.
        message: M,
    },
    /// A timer of a member may be due.
    Timer(A),
    /// Something arrives at a machine that is busy: it will happen later, or not at all.
    Busy,
}

#[derive(Debug)]
struct Scheduled<A, M> {
    at: Duration,
    number: u64,
    /// Whether the machine that it is for has done its work.
    served: bool,
    happening: Happening<A, M>,
}

impl<A, M> PartialEq for Scheduled<A, M> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<A, M> Eq for Scheduled<A, M> {}

impl<A, M> PartialOrd for Scheduled<A, M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A, M> Ord for Scheduled<A, M> {
    /// Reversed, because the heap gives out the greatest and the earliest is wanted.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// What happens within one of these many nanoseconds is put in order together: some hundred things
/// in a ring of 100 000.
const TOGETHER: u32 = 18;

/// All that will happen, the earliest first; of the same moment, what was scheduled first.
///
/// Most of it is not put in order before its moment is near: a heap of millions is slow, because
/// each comparison misses the cache.
#[derive(Debug)]
struct Agenda<A, M> {
    /// What happens before the end of the slot that has begun.
    near: BinaryHeap<Scheduled<A, M>>,
    /// The slot that has begun.
    slot: u128,
    /// The rest, by slot.
    later: BTreeMap<u128, Vec<Scheduled<A, M>>>,
}

impl<A, M> Agenda<A, M> {
    fn new() -> Agenda<A, M> {
        Agenda {
            near: BinaryHeap::new(),
            slot: 0,
            later: BTreeMap::new(),
        }
    }

    fn push(&mut self, scheduled: Scheduled<A, M>) {
        let slot = scheduled.at.as_nanos() >> TOGETHER;
        if slot <= self.slot {
            self.near.push(scheduled);
        } else {
            self.later.entry(slot).or_default().push(scheduled);
        }
    }

    fn pop(&mut self) -> Option<Scheduled<A, M>> {
        if self.near.is_empty()
            && let Some((slot, scheduled)) = self.later.pop_first()
        {
            self.slot = slot;
            self.near = BinaryHeap::from(scheduled);
        }
        self.near.pop()
    }

    /// When the next thing happens.
    fn next_at(&self) -> Option<Duration> {
        let near = self.near.peek().map(|next| next.at);
        near.or_else(|| self.later.first_key_value()?.1.iter().map(|s| s.at).min())
    }

    fn iter(&self) -> impl Iterator<Item = &Scheduled<A, M>> {
        self.near.iter().chain(self.later.values().flatten())
    }
}

/// A network of members named by `A` that exchange messages `M`.
#[derive(Debug)]
pub struct Network<A, M> {
    now: Duration,
    link: Link,
    queue: Agenda<A, M>,
    number: u64,
    /// The part of a divided network that a member is in; 0 if not named.
    parts: BTreeMap<A, usize>,
    /// What a later part sends reaches the earlier ones.
    one_way: bool,
    /// The machines; none where everything takes no time.
    machines: Option<Machines<A>>,
}

impl<A: Copy + Ord, M: Clone> Network<A, M> {
    /// An empty network at time zero.
    #[must_use]
    pub fn new(link: Link) -> Network<A, M> {
        Network {
            now: Duration::ZERO,
            link,
            queue: Agenda::new(),
            number: 0,
            parts: BTreeMap::new(),
            one_way: false,
            machines: None,
        }
    }

    /// Members run on machines that take time from now on.
    pub fn set_load(&mut self, load: Load) {
        self.machines = Some(Machines::new(load));
    }

    /// For how long the busiest machine is busy with what has arrived.
    #[must_use]
    pub fn busy(&self) -> Duration {
        let machines = self.machines.as_ref();
        machines.map_or(Duration::ZERO, |machines| machines.busy(self.now))
    }

    /// The virtual time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// How messages sent from now on travel.
    pub fn set_link(&mut self, link: Link) {
        self.link = link;
    }

    /// Divides the network: members in different parts do not reach each other. Those that are not
    /// named are in part 0. With no parts, all reach all again.
    pub fn divide(&mut self, parts: BTreeMap<A, usize>) {
        self.parts = parts;
        self.one_way = false;
    }

    /// Divides the network in one direction: what a member sends reaches those in its own part and
    /// in parts with smaller numbers.
    pub fn divide_one_way(&mut self, parts: BTreeMap<A, usize>) {
        self.parts = parts;
        self.one_way = true;
    }

    /// Sends a message: it will arrive after the link's delay, unless it is lost.
    pub fn send(&mut self, rng: &mut StdRng, from: A, to: A, message: M) {
        let copies = 1 + usize::from(rng.random_bool(self.link.duplicates));
        for _ in 0..copies {
            let delay = self.link.delay + self.link.jitter.mul_f64(rng.random());
            if rng.random_bool(self.link.loss) || !self.reaches(&from, &to) {
                continue;
            }
            self.schedule(
                self.now + delay,
                Happening::Arrival {
                    from,
                    to,
                    message: message.clone(),
                },
            );
        }
    }

    /// Wakes a member at `at`, or now if that is past.
    pub fn wake(&mut self, at: Duration, member: A) {
        self.schedule(at.max(self.now), Happening::Timer(member));
    }

    /// The time of the next happening.
    #[must_use]
    pub fn next_at(&self) -> Option<Duration> {
        self.queue.next_at()
    }

    /// Moves the time on to the next happening, and gives it out.
    pub fn advance(&mut self) -> Option<Happening<A, M>> {
        let next = self.queue.pop()?;
        self.now = next.at;
        let turn = match &mut self.machines {
            Some(machines) if !next.served => match &next.happening {
                Happening::Arrival { from, to, .. } => machines.message(next.at, *from, *to),
                Happening::Timer(member) => machines.timer(next.at, *member),
                Happening::Busy => Turn::Now,
            },
            _ => Turn::Now,
        };
        match turn {
            Turn::Now => return Some(next.happening),
            Turn::Never => {}
            Turn::At(at) => {
                let served = true;
                self.queue.push(Scheduled { at, served, ..next });
            }
        }
        Some(Happening::Busy)
    }

    /// Moves the time on to `at`, if nothing happens before.
    pub fn idle_until(&mut self, at: Duration) {
        if self.next_at().is_none_or(|next| next >= at) {
            self.now = self.now.max(at);
        }
    }

    /// The messages under way, in no particular order: sender, receiver, message.
    pub fn under_way(&self) -> impl Iterator<Item = (A, A, &M)> {
        self.queue
            .iter()
            .filter_map(|scheduled| match &scheduled.happening {
                Happening::Arrival { from, to, message } => Some((*from, *to, message)),
                Happening::Timer(_) | Happening::Busy => None,
            })
    }

    fn reaches(&self, from: &A, to: &A) -> bool {
        let part = |member| self.parts.get(member).copied().unwrap_or(0);
        let (from, to) = (part(from), part(to));
        from == to || self.one_way && from > to
    }

    fn schedule(&mut self, at: Duration, happening: Happening<A, M>) {
        self.number += 1;
        self.queue.push(Scheduled {
            at,
            number: self.number,
            served: false,
            happening,
        });
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn arrivals(link: Link, count: u32) -> Vec<(Duration, u32)> {
        let mut rng = StdRng::seed_from_u64(1);
        let mut network = Network::new(link);
        (0..count).for_each(|n| network.send(&mut rng, 'a', 'b', n));
        let mut arrivals = Vec::new();
        while let Some(happening) = network.advance() {
            if let Happening::Arrival { message, .. } = happening {
                arrivals.push((network.now(), message));
            }
        }
        arrivals
    }

    #[test]
    fn messages_arrive_by_time_not_sending_order() {
        let arrivals = arrivals(Link::default(), 100);
        assert_eq!(arrivals.len(), 100);
        assert!(arrivals.is_sorted_by_key(|(at, _)| *at));
        assert!(!arrivals.is_sorted_by_key(|(_, message)| *message));
        assert!(
            arrivals
                .iter()
                .all(|(at, _)| (10..=30).contains(&at.as_millis()))
        );
    }

    #[test]
    fn losses_and_duplicates_follow_their_probability() {
        let lost = arrivals(
            Link {
                loss: 0.05,
                ..Link::default()
            },
            10_000,
        )
        .len();
        assert!((9_400..9_600).contains(&lost), "{lost}");
        let doubled = arrivals(
            Link {
                duplicates: 0.1,
                ..Link::default()
            },
            10_000,
        )
        .len();
        assert!((10_900..11_100).contains(&doubled), "{doubled}");
    }

    #[test]
    fn a_busy_machine_is_late_and_drops_excess() {
        let mut rng = StdRng::seed_from_u64(1);
        let ms = Duration::from_millis;
        let mut network = Network::new(Link {
            jitter: Duration::ZERO,
            ..Link::default()
        });
        network.set_load(Load {
            machines: 1,
            message: ms(10),
            first: ms(50),
            patience: ms(80),
        });
        (1..=6).for_each(|n| network.send(&mut rng, 'a', 'b', n));
        network.wake(ms(20), 'b');
        let mut happened = Vec::new();
        while let Some(happening) = network.advance() {
            match happening {
                Happening::Arrival { message, .. } => happened.push((network.now(), message)),
                Happening::Timer(_) => happened.push((network.now(), 0)),
                Happening::Busy => {}
            }
        }
        let expected = [(70, 1), (80, 2), (90, 3), (100, 4), (100, 0)];
        assert_eq!(happened, expected.map(|(at, what)| (ms(at), what)));
    }

    #[test]
    fn a_one_way_division_carries_the_other_way() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut network = Network::new(Link::default());
        network.divide_one_way(BTreeMap::from([('b', 1)]));
        network.send(&mut rng, 'a', 'b', 1);
        network.send(&mut rng, 'b', 'a', 2);
        let got: Vec<i32> = network.under_way().map(|(_, _, sent)| *sent).collect();
        assert_eq!(got, [2]);
    }

    #[test]
    fn a_divided_network_carries_nothing_across() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut network = Network::new(Link::default());
        network.divide(BTreeMap::from([('b', 1), ('c', 1)]));
        network.send(&mut rng, 'a', 'b', 1);
        network.send(&mut rng, 'b', 'c', 2);
        network.divide(BTreeMap::new());
        network.send(&mut rng, 'a', 'b', 3);
        let mut got: Vec<i32> = network
            .under_way()
            .map(|(_, _, message)| *message)
            .collect();
        got.sort_unstable();
        assert_eq!(got, [2, 3]);
    }
}
