//! Rings that are divided among traitors: `cargo run --release -p ringway-sim --example divided --
//! [MEMBERS] [SMALLER SIDE] [ITS SHARE OF TRAITORS] [SHARE OF THE OTHER] [BEHAVIOUR|None|all]
//! [SEEDS] [SECONDS] [SECONDS AFTER]`

#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::time::{Duration, Instant};

use ringway_sim::Behaviour;
use ringway_sim::attack::{Attack, Divided, divided};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |at: usize, default: &'static str| {
        let text = arguments.get(at).map_or(default, String::as_str);
        text.to_owned()
    };
    let only = given(4, "all");
    let share: f64 = given(3, "0.3").parse()?;
    let hide = [Some(Behaviour::Hide), None];
    for behaviour in Behaviour::ALL.into_iter().map(Some).chain(hide) {
        let name = behaviour.map_or("None".to_owned(), |behaviour| format!("{behaviour:?}"));
        if only != "all" && only != name {
            continue;
        }
        for seed in 1..=given(5, "1").parse()? {
            let attack = Attack {
                behaviour,
                loss: 0.01,
                before: Duration::from_secs(20),
                ..Attack::new(seed, given(0, "60").parse()?, share, 200)
            };
            let began = Instant::now();
            let reunion = divided(&Divided {
                attack,
                small: given(1, "20").parse()?,
                traitors: given(2, "0.6").parse()?,
                lasts: Duration::from_secs(given(6, "240").parse()?),
                patience: Duration::from_secs(600),
                settles: Duration::from_secs(given(7, "60").parse()?),
            })?;
            let outcome = &reunion.outcome;
            if std::env::var_os("MISTAKES").is_some() {
                for (result, right) in &outcome.mistakes {
                    println!("{result:?} right {right:?}");
                }
            }
            println!(
                "{name} seed {seed}: honest {} ({} cut off), placed {} before and {} after {:?}, eclipsed {}; found {:.4} flagged {} wrong {} failed {}, convicted {} innocent {}; {:.1} s",
                reunion.honest,
                reunion.cut_off,
                reunion.placed_before,
                reunion.placed,
                reunion.after,
                reunion.eclipsed,
                outcome.success(),
                outcome.flagged,
                outcome.wrong,
                outcome.failed,
                outcome.convicted,
                outcome.innocent,
                began.elapsed().as_secs_f64(),
            );
        }
    }
    Ok(())
}
