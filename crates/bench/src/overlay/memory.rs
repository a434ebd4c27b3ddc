//! Memory of a simulated member.

use std::time::Duration;

use ringway_overlay::Config;
use ringway_sim::{Check, Link, RingConfig, RingSim};

use super::{simulation_failed, whole};
use crate::figure::Figure;
use crate::real::resident;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Members of the rings, if the user asks for no others.
const SIZES: [usize; 2] = [1_000, 10_000];

/// Virtual time in which members that know their groups tell each other of them.
const RESTING: Duration = Duration::from_secs(5);

/// What the process grows by for each member of a ring at rest without malicious routers, of each
/// of these sizes.
///
/// All rings stay until the last has been measured: memory that is given back would be used again,
/// and not be seen.
pub(super) fn measure(output: Output, sizes: &[usize]) -> Result<Vec<Figure>, Failure> {
    let sizes = if sizes.is_empty() { &SIZES } else { sizes };
    let (mut rings, mut figures) = (Vec::new(), Vec::new());
    for members in sizes {
        output.note(&format!("a ring of {members} members"));
        let before = resident();
        let mut ring = RingSim::new(1, config());
        for _ in 0..*members {
            ring.add();
        }
        ring.settle();
        ring.run_for(RESTING).map_err(simulation_failed)?;
        if let (Some(before), Some(after)) = (before, resident()) {
            let each = (after - before) / whole(*members) / 1e3;
            let case = format!("{members} members simulated");
            let metric = "memory_at_rest";
            figures.push(Figure::new("overlay", case, metric, "kB/member", &[each]));
        }
        rings.push(ring);
    }
    Ok(figures)
}

fn config() -> RingConfig {
    RingConfig {
        overlay: Config::default(),
        link: Link::default(),
        check: Check::Nothing,
        credentials: true,
    }
}
