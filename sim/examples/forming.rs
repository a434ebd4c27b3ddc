//! Rings that form among traitors: `cargo run --release -p ringway-sim --example forming --
//! [MEMBERS] [SHARE,…] [BEHAVIOUR|None|all] [BURST] [SEEDS] [LOOKUPS] [SECONDS BEFORE]`

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::time::{Duration, Instant};

use ringway_sim::Behaviour;
use ringway_sim::attack::{Attack, Forming, forming};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize, default: &'static str| {
        let text = arguments.get(at).map_or(default, String::as_str);
        text.to_owned()
    };
    let members: usize = given(0, "60").parse()?;
    let only = given(2, "all");
    let (burst, seeds): (usize, u64) = (given(3, "1").parse()?, given(4, "1").parse()?);
    let lookups: usize = given(5, "200").parse()?;
    for share in given(1, "0.05,0.2,0.3").split(',') {
        let share: f64 = share.parse()?;
        for behaviour in Behaviour::ALL.into_iter().map(Some).chain([None]) {
            let name = behaviour.map_or("None".to_owned(), |behaviour| format!("{behaviour:?}"));
            if only != "all" && only != name {
                continue;
            }
            for seed in 1..=seeds {
                let attack = Attack {
                    behaviour,
                    loss: 0.01,
                    before: Duration::from_secs(given(6, "60").parse()?),
                    ..Attack::new(seed, members, share, lookups)
                };
                let began = Instant::now();
                let settings = Forming {
                    burst,
                    ..Forming::new(attack)
                };
                match forming(&settings) {
                    Ok(formed) => {
                        let outcome = &formed.outcome;
                        if std::env::var_os("MISTAKES").is_some() {
                            for (result, right) in &outcome.mistakes {
                                println!("{result:?} right {right:?}");
                            }
                        }
                        println!(
                            "{share} {name} seed {seed}: joined {} of {} (slowest {:?}), placed {} after {:?}; found {:.4} flagged {} wrong {} failed {}, messages {:.1} p99 {}, convicted {} innocent {}; {:.1} s",
                            formed.joined_after.len() + 1,
                            formed.honest,
                            formed.joined_after.last(),
                            formed.placed,
                            formed.settled_after,
                            outcome.success(),
                            outcome.flagged,
                            outcome.wrong,
                            outcome.failed,
                            outcome.mean_messages(),
                            outcome.p99_messages(),
                            outcome.convicted,
                            outcome.innocent,
                            began.elapsed().as_secs_f64(),
                        );
                    }
                    Err(failure) => println!("{share} {name}: {failure}"),
                }
            }
        }
    }
    Ok(())
}
