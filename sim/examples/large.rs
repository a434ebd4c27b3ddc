//! One large ring, by one rule, with what it took: `cargo run --release -p ringway-sim --example
//! large -- [MEMBERS] [LOOKUPS] [SHARE] [RULE,…] [SEED]`
//!
//! The line's last figure is a hash of all that was measured: changes that ought not to change
//! anything leave it as it is.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::time::{Duration, Instant};

use ringway_overlay::Rule;
use ringway_sim::Trace;
use ringway_sim::attack::{Attack, Outcome, run};

/// Source: proc(5), `VmHWM`, in kB.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn show(attack: &Attack, outcome: &Outcome, took: Duration) {
    let mut trace = Trace::default();
    trace.add(format!("{outcome:?}").as_bytes());
    let peak = peak_memory().unwrap_or(0);
    let each = peak / u64::try_from(attack.members).unwrap_or(1);
    println!(
        "{} members, {:.0} % traitors, {:?}: {} lookups, found {:.5}, flagged {}, wrong {}, failed {}, messages {:.1} p99 {}, hops {:.2}, {:?}, innocent {}, idle {:.2}/s {:.0} B/s, told {:?}; {:.1} s, peak {} MB ({each} kB each), {trace:?}",
        attack.members,
        attack.traitors * 100.0,
        attack.rule,
        outcome.lookups,
        outcome.success(),
        outcome.flagged,
        outcome.wrong,
        outcome.failed,
        outcome.mean_messages(),
        outcome.p99_messages(),
        outcome.steps,
        outcome.median_time(),
        outcome.innocent,
        outcome.idle_rate,
        outcome.idle_bytes + 64.0 * outcome.idle_rate,
        outcome.told_99(),
        took.as_secs_f64(),
        peak / 1000,
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize, default: &'static str| {
        let text = arguments.get(at).map_or(default, String::as_str);
        text.to_owned()
    };
    let members: usize = given(0, "10000").parse()?;
    let lookups: usize = given(1, "1000").parse()?;
    let share: f64 = given(2, "0.3").parse()?;
    let seed: u64 = given(4, "1").parse()?;
    for name in given(3, "verified").split(',') {
        let rule = match name {
            "plain" => Rule::Plain,
            "paper" => Rule::Paper,
            _ => Rule::Verified,
        };
        // As `ringway-bench overlay` has it.
        let over = Duration::from_millis(u64::try_from(lookups)? * 10);
        let attack = Attack {
            rule,
            churn: 0.1,
            loss: 0.01,
            over: over.clamp(Duration::from_secs(20), Duration::from_secs(120)),
            ..Attack::new(seed, members, share, lookups)
        };
        let began = Instant::now();
        let outcome = run(&attack)?;
        show(&attack, &outcome, began.elapsed());
    }
    Ok(())
}
