//! After what time members are convicted that lie to one stranger in eight: `cargo run --release -p ringway-sim --example audits -- [MEMBERS] [SEEDS] [SECONDS]`

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::time::Duration;

use ringway_sim::attack::furtive;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut next = |default: u64| args.next().unwrap_or(Ok(default));
    let members = usize::try_from(next(1_000)?)?;
    let (seeds, patience) = (next(2)?, Duration::from_secs(next(600)?));
    for seed in 1..=seeds {
        let found = furtive(seed, members, patience)?;
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
