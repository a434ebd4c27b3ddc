//! Lookups in rings with traitors, until twenty members have come or gone if any do: `cargo run
//! --release -p ringway-sim --example attacks -- [MEMBERS] [LOOKUPS] [SHARE,…] [CHURN] [LOSS]
//! [SECONDS BEFORE] [FINGER INTERVAL]`

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::time::Duration;

use ringway_overlay::{Config, Rule};
use ringway_sim::Behaviour;
use ringway_sim::attack::{Attack, run};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        let given = arguments.get(at);
        given.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let members = number(0, 1_000);
    let lookups = number(1, 2_000);
    let shares = arguments.get(2).map_or("0.2,0.3", String::as_str);
    let shares: Vec<f64> = shares
        .split(',')
        .filter_map(|text| text.parse().ok())
        .collect();
    let real = |at: usize, default: f64| {
        let given = arguments.get(at);
        given.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (churn, loss) = (real(3, 0.0), real(4, 0.0));
    let before = Duration::from_secs_f64(real(5, 10.0));
    let only = arguments.get(7);
    println!("{members} members, {lookups} lookups each");
    for share in shares {
        for behaviour in Behaviour::ALL.into_iter().map(Some).chain([None]) {
            if only.is_some_and(|only| *only != format!("{behaviour:?}")) {
                continue;
            }
            for rule in [Rule::Verified, Rule::Paper, Rule::Plain] {
                let overlay = Config {
                    finger_interval: Duration::from_secs_f64(real(6, 16.0)),
                    ..Config::default()
                };
                let attack = Attack {
                    churn,
                    loss,
                    before,
                    overlay,
                    behaviour,
                    rule,
                    ..Attack::new(1, members, share, lookups)
                };
                match run(&attack.until_changes(20)) {
                    Ok(outcome) => {
                        if std::env::var_os("MISTAKES").is_some() {
                            for (result, right) in &outcome.mistakes {
                                println!("{result:?} right {right:?}");
                            }
                        }
                        println!(
                            "{share:>5} {:<12} {rule:<9?} right {:.4} flagged {} wrong {} failed {}  came or went {}  messages {:.1} p99 {}  {:?}  convicted {} innocent {}  idle {:.1}/s, {:.0} B/s",
                            behaviour.map_or("mixed".to_owned(), |b| format!("{b:?}")),
                            outcome.success(),
                            outcome.flagged,
                            outcome.wrong,
                            outcome.failed,
                            outcome.changes,
                            outcome.mean_messages(),
                            outcome.p99_messages(),
                            outcome.median_time(),
                            outcome.convicted,
                            outcome.innocent,
                            outcome.idle_rate,
                            // What link, UDP and IPv4 add.
                            outcome.idle_bytes + 64.0 * outcome.idle_rate,
                        );
                    }
                    Err(failure) => println!("{failure}"),
                }
            }
        }
    }
}
