//! Whether losses come from a full queue, or whatever the queue is like.

use std::collections::VecDeque;
use std::time::Instant;

use super::tuning::TUNING;

/// What losses have taught of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blame {
    rank: f64,
    room: Option<Room>,
}

/// How long packets wait in a full queue, in seconds.
#[derive(Clone, Copy, Debug)]
struct Room {
    delay: f64,
    /// When a loss showed it last.
    seen: Instant,
}

/// Datagrams over which losses are counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    came: f64,
    lost: f64,
}

/// Recent delays, and where among them losses were seen.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    delays: VecDeque<f64>,
    /// Datagrams since the last of them.
    since: f64,
    /// The newest delays of all.
    newest: VecDeque<f64>,
    /// Mean rank of the delays beside losses: 1, they were the longest; 0, the shortest.
    rank: f64,
    counted: Counted,
    room: Option<Room>,
}

impl Default for Losses {
    /// Until there are some, the queue is just to blame.
    fn default() -> Losses {
        Losses {
            delays: VecDeque::new(),
            since: 0.0,
            newest: VecDeque::new(),
            rank: TUNING.losses.full.get(),
            counted: Counted::default(),
            room: None,
        }
    }
}

impl Losses {
    /// So many datagrams of a window of `window` came through, and had waited for so many seconds.
    pub(super) fn on_acked(&mut self, waited: f64, datagrams: f64, window: f64) {
        self.newest.push_front(waited);
        self.newest.truncate(TUNING.losses.beside + 2);
        self.since += datagrams;
        if self.since >= window / TUNING.losses.of_window.get() {
            self.since = 0.0;
            self.delays.push_front(waited);
            self.delays.truncate(TUNING.losses.remembered);
        }
        let Counted { came, lost } = self.counted;
        let kept = if came > TUNING.losses.averaged.get() {
            0.5
        } else {
            1.0
        };
        self.counted = Counted {
            came: (came + datagrams) * kept,
            lost: lost * kept,
        };
    }

    /// A datagram was lost.
    pub(super) fn on_lost(&mut self) {
        self.counted.lost += 1.0;
    }

    /// One that was deemed lost was not.
    pub(super) fn on_spurious_loss(&mut self) {
        self.counted.lost = (self.counted.lost - 1.0).max(0.0);
    }

    /// What is known now, to be known again if the next loss is none.
    pub(super) fn blame(&self) -> Blame {
        Blame {
            rank: self.rank,
            room: self.room,
        }
    }

    /// See [`Losses::blame`].
    pub(super) fn restore(&mut self, before: Blame) {
        self.rank = before.rank;
        self.room = before.room;
    }

    /// Some were lost, about when the newest one came through: whether a queue is to blame. Any
    /// loss beside delays of more than `queue` seconds is its work: who manages a queue drops
    /// packets before it is full.
    pub(super) fn on_congestion(&mut self, now: Instant, queue: f64) -> bool {
        let mut beside = self.newest.iter().skip(TUNING.losses.beside).copied();
        let Some(beside) = beside
            .next()
            .map(|one| beside.next().unwrap_or(one).max(one))
        else {
            return true;
        };
        if !self.delays.is_empty() {
            let of = |wanted: fn(&f64, &f64) -> bool| {
                self.delays
                    .iter()
                    .filter(|delay| wanted(delay, &beside))
                    .count() as f64
            };
            // Equal ones count by half.
            let below =
                of(|delay, beside| delay < beside) + of(|delay, beside| delay == beside) / 2.0;
            let rank = below / self.delays.len() as f64;
            self.rank += TUNING.losses.weight.get() * (rank - self.rank);
        }
        let Counted { came, lost } = self.counted;
        let full = self.rank >= TUNING.losses.full.get()
            || beside > queue
            || lost > TUNING.losses.many.get() * came.max(TUNING.losses.averaged.get() / 2.0);
        self.room = (self.rank >= TUNING.losses.sure.get()).then(|| {
            let known = self.room(now).unwrap_or(beside);
            let weight = TUNING.losses.room_weight.get();
            Room {
                delay: known + weight * (beside - known),
                seen: now,
            }
        });
        full
    }

    /// How long packets wait in a full queue, as far as losses have shown it.
    pub(super) fn room(&self, now: Instant) -> Option<f64> {
        let known = |at| now.saturating_duration_since(at) < TUNING.losses.room_kept;
        let room = self.room.filter(|room| known(room.seen));
        room.map(|room| room.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `losses` times so many delays from 0 to 9, and a loss beside delays of `beside`: whether the
    /// queue is to blame at last.
    fn after(losses: u32, beside: f64, between: u32) -> bool {
        let mut known = Losses::default();
        let mut full = true;
        for _ in 0..losses {
            for delay in 0..between {
                known.on_acked(f64::from(delay % 10), 1.0, 1.0);
            }
            for _ in 0..4 {
                known.on_acked(beside, 1.0, 1.0);
            }
            known.on_lost();
            full = known.on_congestion(crate::test_epoch(), f64::INFINITY);
        }
        full
    }

    #[test]
    fn losses_beside_long_delays_blame_the_queue() {
        assert!(after(20, 9.5, 100));
    }

    #[test]
    fn losses_anywhere_do_not_blame_the_queue() {
        assert!(!after(20, 4.5, 100));
    }

    #[test]
    fn nothing_excuses_many_losses() {
        assert!(after(20, 4.5, 20));
    }

    #[test]
    fn room_is_known_while_losses_show_it() {
        let (mut known, now) = (Losses::default(), crate::test_epoch());
        for (beside, expected) in [(9.5, true), (1.0, false)] {
            for _ in 0..20 {
                (0..100).for_each(|delay| known.on_acked(f64::from(delay % 10), 1.0, 1.0));
                (0..4).for_each(|_| known.on_acked(beside, 1.0, 1.0));
                known.on_congestion(now, f64::INFINITY);
            }
            assert_eq!(known.room(now).is_some(), expected);
            assert_eq!(known.room(now + TUNING.losses.room_kept), None);
        }
    }
}
