//! Paths in tables.

use ringway_dtl::Algorithm;

use super::changes::{figure_6, figure_7, four_and_none};
use super::measure::{beside_all, equals, late_jain};
use super::{Figure, Rival, Setting, TREMBLES, alone};
use crate::bottleneck::{CoDel, Discipline, Jitter, Path, Red};

/// A path of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Rate, round trip, queue.
    pub name: String,
    /// The path itself.
    pub path: Path,
    /// How many scavengers share it.
    counts: &'static [u32],
}

impl Cell {
    /// Plays it there: the scavenger alone, beside each TCP and with its kind, and two flows of
    /// priority 1.
    #[must_use]
    pub fn play(&self, algorithm: Algorithm, seed: u64) -> Vec<Figure> {
        let setting = Setting::on(self.path.clone(), algorithm);
        let mut figures = alone(&setting, seed);
        figures.extend(beside_all(&setting, &Rival::ALL, seed));
        for count in self.counts {
            figures.push(late_jain(&setting, *count, seed));
        }
        figures.push(equals(&setting, seed));
        figures
    }

    /// Plays changes of the priority there, where hosts take their time to answer: from 0 to 1 to 2
    /// to 0 (the paper's Figure 6) and from 1 to 4 to 0 beside a CUBIC.
    #[must_use]
    pub fn changes(&self, algorithm: Algorithm, seed: u64) -> Vec<Figure> {
        let setting = self.trembling(algorithm);
        let mut figures = figure_6(&setting, seed);
        figures.extend(four_and_none(&setting, seed));
        figures
    }

    /// Plays five flows there that go from 0 to 1, and some of them to 2: the paper's Figure 7.
    #[must_use]
    pub fn five(&self, algorithm: Algorithm, seed: u64) -> Vec<Figure> {
        figure_7(&self.trembling(algorithm), seed)
    }

    fn trembling(&self, algorithm: Algorithm) -> Setting {
        let mut setting = Setting::on(self.path.clone(), algorithm);
        setting.path.ack_jitter = Jitter::Uniform(TREMBLES);
        setting
    }
}

#[derive(Copy, Clone)]
enum Kind {
    DropTail,
    Red,
    CoDel,
}

impl Kind {
    fn cell(self, megabits: f64, rtt: u64, products: f64, counts: &'static [u32]) -> Cell {
        let mut path = Path::drop_tail(megabits, rtt, products);
        let kind = match self {
            Kind::DropTail => "drop-tail",
            Kind::Red => {
                path.discipline = Discipline::Red(Red::of(path.buffer));
                "RED"
            }
            Kind::CoDel => {
                path.discipline = Discipline::CoDel(CoDel::default());
                "CoDel"
            }
        };
        Cell {
            name: format!("{megabits} Mbit/s, {rtt} ms, {products} BDP, {kind}"),
            path,
            counts,
        }
    }
}

/// The cells that are measured against the kernel's TCP.
#[must_use]
pub fn table() -> Vec<Cell> {
    let counts = &[2, 4, 10];
    vec![
        Kind::DropTail.cell(10.0, 20, 1.0, counts),
        Kind::DropTail.cell(10.0, 20, 4.0, counts),
        Kind::DropTail.cell(10.0, 60, 1.0, counts),
        Kind::DropTail.cell(100.0, 20, 1.0, counts),
        Kind::DropTail.cell(100.0, 60, 1.0, counts),
        Kind::DropTail.cell(1.0, 60, 1.0, counts),
        Kind::CoDel.cell(10.0, 20, 10.0, counts),
        Kind::Red.cell(10.0, 20, 8.0, counts),
    ]
}

/// Every combination of rate, round trip, buffer and discipline.
#[must_use]
pub fn matrix() -> Vec<Cell> {
    let mut cells = Vec::new();
    for megabits in [1.0, 10.0, 100.0, 500.0] {
        for rtt in [20, 60, 150] {
            for products in [0.5, 1.0, 4.0] {
                for kind in [Kind::DropTail, Kind::Red, Kind::CoDel] {
                    cells.push(kind.cell(megabits, rtt, products, &[2]));
                }
            }
        }
    }
    cells
}
