//! Both sides crash at any step, and the network does what networks do: each message is there once,
//! in order. A seed that has failed is replayed by `RINGWAY_SIM_SEED`.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

struct Network {
    chance: StdRng,
    to_a: VecDeque<Vec<u8>>,
    to_b: VecDeque<Vec<u8>>,
}

impl Network {
    fn put(&mut self, to_b: bool, frames: Vec<Vec<u8>>) {
        for frame in frames {
            let copies = match self.chance.random_range(0..10) {
                0 | 1 => 0,
                2 => 2,
                _ => 1,
            };
            let queue = if to_b { &mut self.to_b } else { &mut self.to_a };
            for _ in 0..copies {
                let at = self.chance.random_range(0..=queue.len().min(3));
                queue.insert(queue.len() - at, frame.clone());
            }
        }
    }

    fn take(&mut self, to_b: bool) -> Vec<Vec<u8>> {
        let queue = if to_b { &mut self.to_b } else { &mut self.to_a };
        let some = self.chance.random_range(0..=queue.len().min(4));
        queue.drain(..some).collect()
    }
}

/// What the application has done with what it was given: it notes each id before it marks it read.
#[derive(Default)]
struct Application {
    seen: Vec<Vec<u8>>,
    last: Option<MessageId>,
}

impl Application {
    fn look(&mut self, side: &mut Side) {
        for stored in side.list(true) {
            if !self.seen.contains(&stored.message.body) {
                self.seen.push(stored.message.body.clone());
            }
            self.last = Some(stored.message.id);
        }
    }
}

/// Everything of one run.
struct Run {
    pair: Pair,
    network: Network,
    application: Application,
    next: u64,
    /// What the sender was told is stored.
    promised: Vec<Vec<u8>>,
}

impl Run {
    /// One side takes what has come, and crashes before its round, after it, or not.
    fn step(&mut self, faults: bool) {
        let chance = &mut self.network.chance;
        let crash = faults && chance.random_range(0..8) == 0;
        let before = crash && chance.random_range(0..2) == 0;
        let of_b = chance.random_range(0..2) == 0;
        let came = self.network.take(of_b);
        let pair = &mut self.pair;
        if before {
            // What has come is lost with the process.
            return if of_b {
                pair.b.restart()
            } else {
                pair.a.restart()
            };
        }
        let from = if of_b {
            &pair.a.certificate
        } else {
            &pair.b.certificate
        };
        let mut inputs = frames(from, came);
        let mut sent = None;
        if of_b {
            inputs.extend(self.read());
        } else if faults && self.network.chance.random_range(0..2) == 0 {
            sent = Some(self.write(&mut inputs));
        }
        let pair = &mut self.pair;
        let side = if of_b { &mut pair.b } else { &mut pair.a };
        let left = side.round(pair.now, &pair.kin, inputs);
        if let Some((body, mut answer)) = sent {
            // it is on the disk, whether that is learnt or not.
            assert!(answer.try_recv().unwrap().is_ok());
            self.promised.push(body);
        }
        if crash {
            // It was stored, and nothing of it has left.
            side.restart();
        } else {
            self.network.put(!of_b, left);
        }
        pair.now += Duration::from_millis(self.network.chance.random_range(0..3_000));
    }

    /// The application looks, and marks what it has seen, or does not come to that.
    fn read(&mut self) -> Option<Input> {
        self.application.look(&mut self.pair.b);
        let marks = self.network.chance.random_range(0..3) == 0;
        let upto = self.application.last.take().filter(|_| marks)?;
        let (answer, _) = oneshot::channel();
        let peer = self.pair.b.engine().store().peer("a").unwrap().unwrap();
        Some(Input::MarkRead { peer, upto, answer })
    }

    fn write(&mut self, inputs: &mut Vec<Input>) -> (Vec<u8>, Sent) {
        let length = match self.network.chance.random_range(0..8) {
            0 => 60_000,
            1 => 20_000,
            _ => 8,
        };
        let mut body = self.next.to_be_bytes().to_vec();
        body.resize(length, 7);
        let (input, answer) = send(&self.pair.b.certificate, self.next, &body);
        inputs.push(input);
        self.next += 1;
        (body, answer)
    }
}

fn run(seed: u64) {
    let mut run = Run {
        pair: Pair::new(),
        network: Network {
            chance: StdRng::seed_from_u64(seed),
            to_a: VecDeque::new(),
            to_b: VecDeque::new(),
        },
        application: Application::default(),
        next: 0,
        promised: Vec::new(),
    };
    for step in 0..400 {
        run.step(step < 250);
    }
    // The network has no faults any more.
    for _ in 0..60 {
        let again = run.pair.later();
        run.pair.settle(again);
        if run.pair.a.engine().pending() == 0 && run.pair.b.engine().next_deadline().is_none() {
            break;
        }
    }
    let read = |side: &mut Side| {
        let mut all = side.list(false);
        all.retain(|stored| stored.standing == Standing::Read);
        all.into_iter()
            .map(|read| read.message.id)
            .collect::<Vec<_>>()
    };
    let (of_a, of_b) = (read(&mut run.pair.a), read(&mut run.pair.b));
    assert_eq!(of_a, of_b, "seed {seed}: what was read");
    let Run {
        mut pair,
        mut application,
        promised,
        ..
    } = run;
    application.look(&mut pair.b);
    assert_eq!(pair.a.engine().pending(), 0, "seed {seed}");
    assert_eq!(
        pair.b.bodies(false),
        promised,
        "seed {seed}: once, in order"
    );
    assert_eq!(application.seen, promised, "seed {seed}: the application");
}

#[test]
fn messages_arrive_once_whatever_crashes() {
    let seeds = match std::env::var("RINGWAY_SIM_SEED") {
        Ok(seed) => seed.parse().unwrap()..=seed.parse().unwrap(),
        Err(_) => 1..=12,
    };
    for seed in seeds {
        run(seed);
    }
}
