//! Two ends in a simulation that loses connections, and ends with a malicious peer.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::limits::STREAM_PATIENCE;

/// How many seeds each simulation runs with.
const SEEDS: u64 = 24;

/// One way of a connection: records in order, each with the time at which it arrives.
#[derive(Default)]
struct Way(VecDeque<(Instant, Record)>);

struct Sim {
    now: Instant,
    rng: StdRng,
    ends: [Resumable; 2],
    /// From each end, while there is a connection.
    ways: Option<[Way; 2]>,
    /// Whether what is sent vanishes.
    black: bool,
    given: [Vec<u8>; 2],
    taken: [Vec<u8>; 2],
    to_give: [usize; 2],
    outcomes: [Option<Outcome>; 2],
    /// When the next connection is there, and what the opener has said when it began to make it.
    redial: Option<(Instant, (u64, u64))>,
    /// Until when each program reads nothing.
    busy: [Instant; 2],
}

impl Sim {
    fn new(seed: u64) -> Sim {
        let now = Instant::now();
        let mut rng = StdRng::seed_from_u64(seed);
        let size = |rng: &mut StdRng| rng.random_range(0..1_500_000);
        let to_give = [size(&mut rng), size(&mut rng)];
        Sim {
            now,
            rng,
            ends: [true, false].map(|opener| Resumable::new(now, opener, STREAM_PATIENCE)),
            ways: None,
            black: false,
            given: Default::default(),
            taken: Default::default(),
            to_give,
            outcomes: [None, None],
            redial: Some((now, (0, 0))),
            busy: [now; 2],
        }
    }

    /// The opener begins to make another connection, unless it does so already.
    fn dial(&mut self, within: std::ops::Range<u64>) {
        let soon = Duration::from_millis(self.rng.random_range(within));
        let position = self.ends[0].position();
        self.redial.get_or_insert((self.now + soon, position));
    }

    /// Another connection is there, which has told the other end `told`.
    fn attach(&mut self, told: (u64, u64)) {
        self.ways = Some(Default::default());
        self.black = false;
        let answer = self.ends[1].position();
        let [opener, other] = &mut self.ends;
        other.handle_attached(self.now, answer, told).unwrap();
        opener.handle_attached(self.now, told, answer).unwrap();
    }

    /// The local programs write and read, in pieces and pauses of any kind.
    fn programs(&mut self) {
        for end in 0..2 {
            let left = self.to_give[end] - self.given[end].len();
            let most = left.min(self.ends[end].room()).min(70_000);
            if most > 0 && self.rng.random_bool(0.6) {
                let size = self.rng.random_range(1..=most);
                let bytes: Vec<u8> = (0..size).map(|_| self.rng.random()).collect();
                self.given[end].extend_from_slice(&bytes);
                self.ends[end].handle_local(self.now, bytes.into());
            } else if left == 0 {
                self.ends[end].handle_local_end();
            }
            if self.now < self.busy[end] || !self.rng.random_bool(0.7) {
                continue;
            }
            // Some programs are away for longer than a silent peer is waited for.
            if self.rng.random_bool(0.000_3) {
                self.busy[end] = self.now + STREAM_WAIT * 2;
            }
            while let Some(item) = self.ends[end].poll_local() {
                match item {
                    ToLocal::Data(bytes) => {
                        self.taken[end].extend_from_slice(&bytes);
                        self.ends[end].handle_written(self.now, bytes.len());
                    }
                    ToLocal::End => self.ends[end].handle_end_written(),
                }
            }
        }
    }

    fn carry(&mut self) {
        let Some(ways) = &mut self.ways else { return };
        for (end, way) in ways.iter_mut().enumerate() {
            let delay = Duration::from_millis(self.rng.random_range(5..40));
            while way.0.len() < 40 {
                let Some(record) = self.ends[end].poll_record(self.now) else {
                    break;
                };
                let before = way.0.back().map_or(self.now, |(at, _)| *at);
                way.0.push_back((before.max(self.now + delay), record));
            }
            let other = 1 - end;
            while !self.black && way.0.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, record) = way.0.pop_front().unwrap();
                self.ends[other].handle_record(self.now, record).unwrap();
            }
        }
    }

    fn events(&mut self) {
        for end in 0..2 {
            self.ends[end].handle_timeout(self.now);
            let due = self.ends[end].poll_timeout(self.now);
            assert!(due.is_none_or(|due| due + STREAM_WAIT > self.now));
            while let Some(event) = self.ends[end].poll_event() {
                match event {
                    Event::Suspect if end == 0 => self.dial(10..2_000),
                    // It has all paths tried.
                    Event::Suspect => {}
                    Event::Ended(outcome) => {
                        assert!(self.outcomes[end].is_none());
                        self.outcomes[end] = Some(outcome);
                    }
                }
            }
        }
    }

    /// The stream of the connection ends: the opener makes another, if it has not finished.
    fn detach(&mut self) {
        self.ways = None;
        let now = self.now;
        self.ends
            .iter_mut()
            .for_each(|end| end.handle_detached(now));
        if self.outcomes[0].is_none() {
            self.dial(1..3_000);
        }
    }

    fn breaks(&mut self) {
        if self.rng.random_bool(0.5) {
            // QUIC sends again what was lost meanwhile.
            self.black = !self.black;
        } else {
            self.detach();
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.rng.random_range(1..20));
        self.programs();
        self.carry();
        self.events();
        // One end has finished: what it said last still arrives, then there is nothing more.
        let last = |ways: &[Way; 2], end: usize| ways[end].0.is_empty() && !self.black;
        let over = |end: &usize| self.outcomes[*end].is_some();
        let ended = [0, 1].into_iter().find(over);
        if ended.is_some_and(|end| self.ways.as_ref().is_some_and(|ways| last(ways, end))) {
            self.detach();
        } else if self.ways.is_some() && ended.is_none() && self.rng.random_bool(0.01) {
            self.breaks();
        }
        if let Some((_, told)) = self.redial.take_if(|(at, _)| self.now >= *at) {
            match (&self.outcomes[0], &self.outcomes[1]) {
                (Some(_), _) => {}
                (None, Some(Outcome::Finished)) => self.ends[0].handle_finished(),
                (None, Some(_)) => panic!("the other end has lost it"),
                (None, None) => self.attach(told),
            }
        }
    }
}

#[test]
fn every_byte_arrives_once_whatever_breaks() {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(seed);
        for _ in 0..60_000 {
            sim.step();
            for end in &sim.ends {
                let kept: usize = end.out.unacked.iter().map(Bytes::len).sum();
                let waits: usize = end.inc.inbox.iter().map(Bytes::len).sum();
                assert!(
                    kept <= STREAM_BUFFER && waits <= STREAM_BUFFER,
                    "seed {seed}"
                );
            }
            if sim.outcomes.iter().all(Option::is_some) {
                break;
            }
        }
        let finished = Some(Outcome::Finished);
        assert_eq!(sim.outcomes, [finished.clone(), finished], "seed {seed}");
        assert!(sim.given[0] == sim.taken[1], "seed {seed}: lost or doubled");
        assert!(sim.given[1] == sim.taken[0], "seed {seed}: lost or doubled");
        assert_eq!(
            sim.given.each_ref().map(Vec::len),
            sim.to_give,
            "seed {seed}"
        );
    }
}

/// An end with a connection, which has sent 100 bytes.
fn attached(opener: bool) -> (Resumable, Instant) {
    let now = Instant::now();
    let mut end = Resumable::new(now, opener, STREAM_PATIENCE);
    end.handle_attached(now, end.position(), (0, 1 << 16))
        .unwrap();
    end.handle_local(now, vec![7; 100].into());
    let sent = end.poll_record(now);
    assert!(matches!(sent, Some(Record::Data { offset: 0, .. })));
    (end, now)
}

fn broken_by(record: Record) -> Broken {
    let (mut end, now) = attached(false);
    let broken = end.handle_record(now, record).unwrap_err();
    // The peer is told, then it is over.
    assert!(matches!(
        end.poll_record(now),
        Some(Record::Reset {
            code: code::BROKEN,
            ..
        })
    ));
    assert!(matches!(
        end.poll_event(),
        Some(Event::Ended(Outcome::Reset { by_peer: false, .. }))
    ));
    assert_eq!(end.poll_record(now), None);
    broken
}

#[test]
fn acknowledgements_beyond_what_was_sent_end_it() {
    let ack = |received| Record::Ack { received, limit: 0 };
    assert_eq!(broken_by(ack(101)), Broken::Ack);
    assert_eq!(broken_by(ack(u64::MAX)), Broken::Ack);
    let (mut end, now) = attached(false);
    assert_eq!(end.handle_attached(now, (0, 0), (101, 0)), Err(Broken::Ack));
}

#[test]
fn gaps_and_overruns_end_it() {
    let data = |offset, size| Record::Data {
        offset,
        bytes: vec![0; size].into(),
    };
    assert_eq!(broken_by(data(1, 1)), Broken::Gap);
    assert_eq!(broken_by(data(u64::MAX / 2, 1)), Broken::Gap);
    assert_eq!(broken_by(data(0, STREAM_BUFFER + 1)), Broken::Overrun);
    assert_eq!(broken_by(Record::End { offset: 5 }), Broken::Gap);
    let (mut end, now) = attached(false);
    end.handle_record(now, data(0, 10)).unwrap();
    end.handle_record(now, Record::End { offset: 10 }).unwrap();
    assert_eq!(end.handle_record(now, data(10, 1)), Err(Broken::End));
}

#[test]
fn repeated_bytes_come_once() {
    let (mut end, now) = attached(false);
    let data = |offset, bytes: &'static [u8]| Record::Data {
        offset,
        bytes: Bytes::from_static(bytes),
    };
    end.handle_record(now, data(0, b"abc")).unwrap();
    end.handle_record(now, data(0, b"abcd")).unwrap();
    end.handle_record(now, data(1, b"bc")).unwrap();
    let mut all = Vec::new();
    while let Some(ToLocal::Data(bytes)) = end.poll_local() {
        all.extend_from_slice(&bytes);
    }
    assert_eq!(all, b"abcd");
}

#[test]
fn peer_that_may_send_no_more_waits() {
    let now = Instant::now();
    let mut end = Resumable::new(now, true, STREAM_PATIENCE);
    end.handle_attached(now, end.position(), (0, 10)).unwrap();
    end.handle_local(now, vec![1; 100].into());
    let Some(Record::Data { bytes, .. }) = end.poll_record(now) else {
        panic!("nothing is sent");
    };
    assert_eq!(bytes.len(), 10);
    assert_eq!(end.poll_record(now), None);
    // A limit never shrinks.
    let ack = |limit| Record::Ack {
        received: 10,
        limit,
    };
    end.handle_record(now, ack(5)).unwrap();
    assert_eq!(end.poll_record(now), None);
    end.handle_record(now, ack(20)).unwrap();
    assert!(matches!(
        end.poll_record(now),
        Some(Record::Data { offset: 10, .. })
    ));
}

#[test]
fn silence_is_suspected_and_then_fatal() {
    let (mut end, mut now) = attached(true);
    let begin = now;
    let mut suspicions = Vec::new();
    let outcome = loop {
        now = end.poll_timeout(now).unwrap();
        end.handle_timeout(now);
        while end.poll_record(now).is_some() {}
        match end.poll_event() {
            Some(Event::Suspect) => suspicions.push(now - begin),
            Some(Event::Ended(outcome)) => break outcome,
            None => {}
        }
    };
    assert_eq!(suspicions[0], STREAM_PATIENCE);
    assert_eq!(outcome, Outcome::Lost);
    assert_eq!(now - begin, STREAM_WAIT);
}

#[test]
fn opener_asks_where_only_the_peer_sends() {
    let now = Instant::now();
    let mut end = Resumable::new(now, true, STREAM_PATIENCE);
    end.handle_attached(now, end.position(), (0, 10)).unwrap();
    let later = end.poll_timeout(now).unwrap();
    assert_eq!(later, now + STREAM_PING);
    end.handle_timeout(later);
    assert_eq!(end.poll_record(later), Some(Record::Ping));
    let due = end.poll_timeout(later).unwrap();
    assert_eq!(due, later + STREAM_PATIENCE);
    end.handle_record(due, Record::Pong).unwrap();
    end.handle_timeout(due);
    assert_eq!(end.poll_event(), None);
}

#[test]
fn half_of_it_may_end_first() {
    let (mut end, now) = attached(true);
    end.handle_local_end();
    assert_eq!(end.poll_record(now), Some(Record::End { offset: 100 }));
    let ack = Record::Ack {
        received: 101,
        limit: 0,
    };
    end.handle_record(now, ack).unwrap();
    assert_eq!(end.poll_event(), None);
    let bytes = Bytes::from_static(b"late");
    end.handle_record(now, Record::Data { offset: 0, bytes })
        .unwrap();
    end.handle_record(now, Record::End { offset: 4 }).unwrap();
    assert!(matches!(end.poll_local(), Some(ToLocal::Data(_))));
    end.handle_written(now, 4);
    assert_eq!(end.poll_local(), Some(ToLocal::End));
    end.handle_end_written();
    assert_eq!(end.poll_event(), None, "the peer does not know yet");
    assert!(matches!(
        end.poll_record(now),
        Some(Record::Ack { received: 5, .. })
    ));
    assert_eq!(end.poll_event(), Some(Event::Ended(Outcome::Finished)));
}

/// The opener has finished, and asks no more. What its program sent is still to be taken here.
#[test]
fn slow_program_is_no_loss_after_the_end() {
    for detached in [false, true] {
        let (mut end, mut now) = attached(false);
        end.handle_local_end();
        assert!(matches!(end.poll_record(now), Some(Record::End { .. })));
        let bytes = Bytes::from_static(b"taken late");
        end.handle_record(now, Record::Data { offset: 0, bytes })
            .unwrap();
        end.handle_record(now, Record::End { offset: 10 }).unwrap();
        let ack = Record::Ack {
            received: 101,
            limit: 0,
        };
        end.handle_record(now, ack).unwrap();
        assert!(matches!(
            end.poll_record(now),
            Some(Record::Ack { received: 11, .. })
        ));
        assert!(matches!(end.poll_local(), Some(ToLocal::Data(_))));
        if detached {
            end.handle_detached(now);
        }
        // However long it takes, and without waking up all the time.
        let mut woken = 0;
        while let Some(due) = end.poll_timeout(now) {
            now = due;
            end.handle_timeout(now);
            assert_eq!(end.poll_event(), None);
            woken += 1;
        }
        assert!(woken < 5, "{woken}");
        now += STREAM_WAIT * 5;
        end.handle_timeout(now);
        end.handle_written(now, 10);
        assert_eq!(end.poll_local(), Some(ToLocal::End));
        end.handle_end_written();
        assert_eq!(end.poll_event(), Some(Event::Ended(Outcome::Finished)));
    }
}

/// The connection before goes on while the next one is made, and its acknowledgements overtake
/// what the next one says.
#[test]
fn old_position_of_a_new_connection_ends_nothing() {
    let (mut end, now) = attached(false);
    end.handle_record(
        now,
        Record::Ack {
            received: 100,
            limit: 1 << 17,
        },
    )
    .unwrap();
    end.handle_attached(now, end.position(), (40, 1 << 16))
        .unwrap();
    end.handle_local(now, vec![8; 10].into());
    let sent = end.poll_record(now);
    assert!(
        matches!(sent, Some(Record::Data { offset: 100, .. })),
        "{sent:?}"
    );
    // What the peer was not told with it, it is told at once.
    let bytes = Bytes::from_static(b"more");
    end.handle_record(now, Record::Data { offset: 0, bytes })
        .unwrap();
    end.handle_attached(now, (0, 1 << 20), (100, 1 << 17))
        .unwrap();
    assert!(matches!(
        end.poll_record(now),
        Some(Record::Ack { received: 4, .. })
    ));
}

/// This end cannot dial, but it can have all paths tried: its own way out may be the
/// one that is dead.
#[test]
fn silence_is_suspected_by_the_other_end_too() {
    let (mut end, begin) = attached(false);
    let mut now = begin;
    while end.poll_event() != Some(Event::Suspect) {
        now = end.poll_timeout(now).unwrap();
        end.handle_timeout(now);
        while end.poll_record(now).is_some() {}
    }
    assert_eq!(now - begin, STREAM_PING + STREAM_PATIENCE);
    end.handle_record(now, Record::Ping).unwrap();
    end.handle_timeout(now + STREAM_PING);
    assert_eq!(end.poll_event(), None);
}

/// Each is acknowledged by the connection; only the opener looks for that.
#[test]
fn datagrams_beside_are_watched_by_the_opener() {
    let now = Instant::now();
    let unused = |opener| {
        let mut end = Resumable::new(now, opener, STREAM_PATIENCE);
        end.handle_attached(now, end.position(), (0, 10)).unwrap();
        end
    };
    let later = now + Duration::from_millis(10);
    let mut end = unused(true);
    end.handle_beside(later, true, false);
    assert_eq!((end.owed(), end.used()), (Some(later), later));
    end.handle_timeout(later + STREAM_PATIENCE);
    assert_eq!(end.poll_event(), Some(Event::Suspect));
    end.handle_beside(later + STREAM_PATIENCE, false, true);
    assert_eq!(end.owed(), None);
    let mut other = unused(false);
    other.handle_beside(later, true, false);
    assert_eq!(other.owed(), None);
}
