//! One sender behind a slow line and receivers in one fast network, simulated: the same seed gives
//! the same run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use super::gather::{Gatherer, mixed};
use super::pieces::{Division, Pieces};
use super::seed::Seeder;

/// What a receiver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Honest,
    /// Says that it has everything, and gives what does not verify.
    Lies,
    /// Says that it has everything, and gives nothing.
    Silent,
    /// Takes, and refuses all who ask.
    Selfish,
    /// Is not reached by others, nor they by it.
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick,
    Given { to: usize, piece: u32 },
    Got { by: usize, from: usize, piece: u32 },
    Dies(usize),
    Joins(usize),
}

struct Node {
    kind: Kind,
    gatherer: Gatherer<usize>,
    joined: Option<Duration>,
    dead: bool,
    dialled: BTreeSet<usize>,
    /// How many of a giver's pieces it was told of.
    told: BTreeMap<usize, usize>,
    said: usize,
    /// How often it asked each of the others.
    asked: BTreeMap<usize, u32>,
    uplink_free: Duration,
}

struct Sim {
    now: Duration,
    division: Division,
    nodes: Vec<Node>,
    seeder: Seeder<usize>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    number: u64,
    turn: usize,
    line_busy: bool,
    /// Bytes across the sender's line.
    crossed: u64,
    line_rate: u64,
    uplink_rate: u64,
}

const MIB: u64 = 1 << 20;

/// What is simulated.
struct Case {
    size: u64,
    kinds: Vec<Kind>,
    line_rate: u64,
    uplink_rate: u64,
}

impl Case {
    /// Ten honest receivers, 10 Mbit/s to all of them, ten times that between them.
    fn usual(size: u64) -> Case {
        Case {
            size,
            kinds: vec![Kind::Honest; 10],
            line_rate: 1_250_000,
            uplink_rate: 12_500_000,
        }
    }
}

impl Sim {
    fn new(case: &Case, seed: u64) -> Sim {
        let division = Division::of(case.size).unwrap();
        let node = |(number, kind): (u64, &Kind)| Node {
            kind: *kind,
            gatherer: Gatherer::new(
                division,
                Pieces::none(division.count()),
                mixed(seed, number),
            ),
            joined: None,
            dead: false,
            dialled: BTreeSet::new(),
            told: BTreeMap::new(),
            said: 0,
            asked: BTreeMap::new(),
            uplink_free: Duration::ZERO,
        };
        let mut sim = Sim {
            now: Duration::ZERO,
            division,
            nodes: (0..).zip(&case.kinds).map(node).collect(),
            seeder: Seeder::new(division.count()),
            events: BinaryHeap::new(),
            number: 0,
            turn: 0,
            line_busy: false,
            crossed: 0,
            line_rate: case.line_rate,
            uplink_rate: case.uplink_rate,
        };
        for node in 0..sim.nodes.len() {
            let salt = mixed(seed, 1_000 + node as u64);
            sim.at(Duration::from_millis(salt % 500), Event::Joins(node));
        }
        sim.at(Duration::ZERO, Event::Tick);
        sim
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// Runs until all that live and are honest, or apart, have the file.
    fn run(&mut self, most: Duration) {
        while !self.is_done() {
            let Reverse((time, _, event)) = self.events.pop().unwrap();
            assert!(time < most, "not done: {:?}", self.state());
            self.now = time;
            self.handle(event);
            self.drive();
        }
    }

    fn state(&self) -> Vec<(Kind, bool, u32)> {
        let state = |node: &Node| {
            let (has, _) = node.gatherer.news(0);
            (node.kind, node.dead, has.len())
        };
        self.nodes.iter().map(state).collect()
    }

    fn is_done(&self) -> bool {
        let wants = |node: &&Node| !node.dead && !matches!(node.kind, Kind::Lies | Kind::Silent);
        let mut wanting = self.nodes.iter().filter(wants);
        wanting.all(|node| node.joined.is_some() && node.gatherer.is_complete())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick => {
                for node in 0..self.nodes.len() {
                    let Some(joined) = self.nodes[node].joined else {
                        continue;
                    };
                    let now = self.now.saturating_sub(joined);
                    let gatherer = &mut self.nodes[node].gatherer;
                    gatherer.handle_timeout(now);
                    let wants = gatherer.poll_wants(now);
                    self.seeder.handle_wants(node, &wants);
                }
                self.at(self.now + Duration::from_secs(1), Event::Tick);
            }
            Event::Given { to, piece } => {
                self.line_busy = false;
                if !self.nodes[to].dead {
                    self.nodes[to].gatherer.handle_piece(None, piece);
                }
            }
            Event::Got { by, from, piece } => {
                let (kind, gone) = (self.nodes[from].kind, self.nodes[from].dead);
                let gatherer = &mut self.nodes[by].gatherer;
                if kind == Kind::Honest && !gone {
                    assert!(gatherer.is_asked(from, piece) || gatherer.is_shunned(from));
                    gatherer.handle_piece(Some(from), piece);
                } else {
                    gatherer.shun(from);
                }
            }
            Event::Dies(node) => {
                self.nodes[node].dead = true;
                self.seeder.leave(node);
            }
            Event::Joins(node) => {
                self.nodes[node].joined = Some(self.now);
                let has = Pieces::none(self.division.count());
                self.seeder.join(node, has);
            }
        }
    }

    /// All that follows at once.
    fn drive(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].dead || self.nodes[node].joined.is_none() {
                continue;
            }
            let said = self.nodes[node].said;
            let (news, said) = self.nodes[node].gatherer.news(said);
            self.nodes[node].said = said;
            self.seeder.handle_has(node, &news);
            let others = self.seeder.others(node);
            self.nodes[node].gatherer.name(others);
            while let Some(other) = self.nodes[node].gatherer.poll_dial() {
                self.dial(node, other);
            }
            for other in self.nodes[node].dialled.clone() {
                self.ask(node, other);
            }
        }
        self.fill_line();
    }

    fn dial(&mut self, node: usize, other: usize) {
        let kind = self.nodes[other].kind;
        let apart = self.nodes[node].kind == Kind::Apart || kind == Kind::Apart;
        if self.nodes[other].dead || kind == Kind::Selfish || apart {
            self.nodes[node].gatherer.shun(other);
            return;
        }
        self.nodes[node].dialled.insert(other);
        self.nodes[other].gatherer.handle_asker(node);
        if kind != Kind::Honest {
            let count = self.division.count();
            let all = Pieces::from_wire(&[0, count], count).unwrap();
            self.nodes[node].gatherer.handle_has(other, &all);
        }
    }

    fn ask(&mut self, node: usize, other: usize) {
        if self.nodes[other].kind == Kind::Honest {
            let told = self.nodes[node].told.get(&other).copied().unwrap_or(0);
            let (news, told) = self.nodes[other].gatherer.news(told);
            self.nodes[node].told.insert(other, told);
            self.nodes[node].gatherer.handle_has(other, &news);
        }
        let shunned = self.nodes[node].gatherer.is_shunned(other);
        let joined = self.nodes[node].joined.unwrap();
        let now = self.now.saturating_sub(joined);
        while let Some(piece) = self.nodes[node].gatherer.poll_get(other, now) {
            assert!(!shunned, "asks one that it has shunned");
            assert!(
                self.nodes[other].joined.is_some(),
                "asks one that has not accepted"
            );
            *self.nodes[node].asked.entry(other).or_default() += 1;
            if self.nodes[other].kind == Kind::Silent {
                continue;
            }
            let takes = time_for(self.division.bytes(piece), self.uplink_rate);
            let begins = self.nodes[other].uplink_free.max(self.now);
            self.nodes[other].uplink_free = begins + takes;
            let (by, from) = (node, other);
            self.at(begins + takes, Event::Got { by, from, piece });
        }
    }

    fn fill_line(&mut self) {
        for _ in 0..self.nodes.len() {
            if self.line_busy {
                return;
            }
            self.turn = (self.turn + 1) % self.nodes.len();
            let to = self.turn;
            if let Some(piece) = self.seeder.poll_piece(to) {
                let bytes = self.division.bytes(piece);
                self.crossed += bytes;
                self.line_busy = true;
                let arrives = self.now + time_for(bytes, self.line_rate);
                self.at(arrives, Event::Given { to, piece });
            }
        }
    }

    /// Files' worth across the line.
    fn files(&self, size: u64) -> f64 {
        self.crossed as f64 / size as f64
    }
}

fn time_for(bytes: u64, rate: u64) -> Duration {
    Duration::from_micros(bytes * 1_000_000 / rate)
}

#[test]
fn ten_receivers_take_one_file_across() {
    for seed in 0..20 {
        // Large ones take long to simulate.
        let sizes = [2 * MIB, 10 * MIB, 100 * MIB];
        let sizes = if seed == 0 { &sizes[..] } else { &sizes[..2] };
        for size in sizes.iter().copied() {
            let mut sim = Sim::new(&Case::usual(size), seed);
            let line = time_for(size, sim.line_rate);
            sim.run(line * 2 + Duration::from_secs(60));
            assert!(sim.files(size) < 1.05, "seed {seed}: {}", sim.files(size));
            // They are done soon after the line is.
            assert!(
                sim.now < line * 5 / 4 + Duration::from_secs(3),
                "{:?}",
                sim.now
            );
        }
    }
}

#[test]
fn liars_and_the_silent_cost_one_timeout() {
    for seed in 0..10 {
        let size = 20 * MIB;
        let mut case = Case::usual(size);
        case.kinds[..4].copy_from_slice(&[Kind::Lies, Kind::Silent, Kind::Selfish, Kind::Lies]);
        let mut sim = Sim::new(&case, seed);
        sim.run(Duration::from_secs(600));
        for node in sim.nodes.iter().filter(|node| node.kind == Kind::Honest) {
            for (other, times) in &node.asked {
                let honest = sim.nodes[*other].kind == Kind::Honest;
                assert!(honest || *times <= 2, "seed {seed}: asked {times} times");
            }
        }
        // What went to the four alone has to cross again.
        assert!(sim.files(size) < 2.0, "seed {seed}: {}", sim.files(size));
    }
}

#[test]
fn receivers_that_die_are_made_up_for() {
    for seed in 0..10 {
        let size = 20 * MIB;
        let mut sim = Sim::new(&Case::usual(size), seed);
        for node in 0..3 {
            let time = Duration::from_millis(mixed(seed, 77 + node) % 16_000);
            sim.at(time, Event::Dies(usize::try_from(node).unwrap()));
        }
        sim.run(Duration::from_secs(600));
        assert!(sim.files(size) < 1.3, "seed {seed}: {}", sim.files(size));
    }
}

#[test]
fn receivers_apart_get_all_from_the_sender() {
    for seed in 0..5 {
        let size = 20 * MIB;
        let mut case = Case::usual(size);
        case.kinds = vec![Kind::Apart; 3];
        let mut sim = Sim::new(&case, seed);
        sim.run(Duration::from_secs(300));
        assert!(sim.files(size) < 3.01, "seed {seed}: {}", sim.files(size));
    }
}

/// Receivers whose own uplinks are slow do not make a fast sender slow.
#[test]
fn slow_givers_are_not_waited_for() {
    for seed in 0..5 {
        let size = 100 * MIB;
        let mut case = Case::usual(size);
        case.kinds = vec![Kind::Honest; 4];
        (case.line_rate, case.uplink_rate) = (12_500_000, 125_000);
        let mut sim = Sim::new(&case, seed);
        sim.run(Duration::from_secs(2_000));
        let alone = time_for(4 * size, sim.line_rate);
        assert!(
            sim.now < alone * 2 + Duration::from_secs(20),
            "{:?}, alone {alone:?}",
            sim.now
        );
    }
}

/// One that comes when the others have the whole file takes nothing from the sender's line.
#[test]
fn late_receivers_get_all_from_others() {
    let size = 20 * MIB;
    let mut case = Case::usual(size);
    case.kinds = vec![Kind::Honest; 4];
    let mut sim = Sim::new(&case, 1);
    sim.events
        .retain(|Reverse((_, _, event))| *event != Event::Joins(3));
    sim.at(Duration::from_secs(60), Event::Joins(3));
    sim.run(Duration::from_secs(120));
    assert!(sim.files(size) < 1.05, "{}", sim.files(size));
}
