//! Members that all start at once on machines that take time: whether they form a ring, and when.
//!
//! `cargo run --release -p ringway-sim --example overload -- 255 50 1000 2000 5 300`: members,
//! microseconds of a message, microseconds of a handshake, milliseconds that a message waits at
//! most, seeds, seconds.

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use ringway_overlay::Membership;
use ringway_sim::scenario::{at_rest, start_all};
use ringway_sim::{Check, Load, RingConfig, RingSim};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |default: u64| args.next().unwrap_or(Ok(default));
    let members = usize::try_from(next(255)?)?;
    let (message, first, patience) = (next(50)?, next(1_000)?, next(2_000)?);
    let (seeds, limit) = (next(5)?, next(300)?);
    for seed in 1..=seeds {
        let config = RingConfig {
            check: Check::Nothing,
            credentials: true,
            ..RingConfig::default()
        };
        let mut sim = RingSim::new(seed, config);
        sim.set_load(Load {
            machines: 1,
            message: Duration::from_micros(message),
            first: Duration::from_micros(first),
            patience: Duration::from_millis(patience),
        });
        start_all(&mut sim, &mut StdRng::seed_from_u64(seed), members, 8);
        let began = std::time::Instant::now();
        let mut at = 0;
        let formed = loop {
            if at_rest(&sim, members).is_ok() {
                break "formed";
            }
            if at >= limit {
                break "NOT formed";
            }
            sim.run_for(Duration::from_secs(1))?;
            at += 1;
            if at.is_multiple_of(20) {
                let live = sim.snapshots();
                let alone = live.iter().filter(|s| s.successors.is_empty());
                let alone = alone.filter(|s| s.state == Membership::Member).count();
                println!(
                    "  {at} s: {} members, {alone} alone, busy for {:?}, {} messages",
                    sim.members().len(),
                    sim.busy(),
                    sim.messages()
                );
            }
        };
        println!(
            "seed {seed}: {formed} after {at} s, {} messages, {:?} of computing",
            sim.messages(),
            began.elapsed()
        );
    }
    Ok(())
}
