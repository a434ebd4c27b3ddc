//! After what time members are convicted that lie to one stranger in eight: `cargo run --release -p
//! ringway-sim --example audits -- [MEMBERS] [SEEDS] [SECONDS] [FINGER_INTERVAL_MS]`
//!
//! Members look up one finger every 16 s, as they do by default, unless told otherwise.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::time::Duration;

use ringway_overlay::Config;
use ringway_sim::attack::furtive;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |default: u64| args.next().unwrap_or(Ok(default));
    let members = usize::try_from(next(1_000)?)?;
    let (seeds, patience) = (next(2)?, Duration::from_secs(next(600)?));
    let interval = u64::try_from(Config::default().finger_interval.as_millis())?;
    let interval = Duration::from_millis(next(interval)?);
    for seed in 1..=seeds {
        let found = furtive(seed, members, patience, interval)?;
        let at = |percent: usize| found.after.get(found.liars * percent / 100);
        println!(
            "seed {seed}: {} of {} convicted, half after {:?}, nine of ten after {:?}, {} innocent",
            found.after.len(),
            found.liars,
            at(50),
            at(90),
            found.innocent
        );
    }
    Ok(())
}
