//! `ringway bench gate`: what crosses the gateway, beside plain forwarding and forwarding with address translation.
//!
//! The papers' ladder: three namespaces, client, gateway and server; a hundred clients that load files of 2 MB over HTTP, and
//! connections that only send. The configurations take turns, so that all of them see the same machine.

mod border;
mod load;

use std::time::Duration;

use self::border::{Border, Running};
use self::load::{Kind, Load};
use super::figure::{Figure, show};
use crate::cli::GateBenchArgs;
use crate::failure::Failure;
use crate::output::Output;

/// How the machine in the middle is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Forward,
    Translate,
    /// A gateway with this policy, beside address translation.
    Gateway(&'static str),
}

/// A configuration.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The word for `--only`.
    word: &'static str,
    name: &'static str,
    setup: Setup,
}

const LADDER: [Step; 6] = [
    step("forward", "forwarding", Setup::Forward),
    step("nat", NAT, Setup::Translate),
    step(
        "classify",
        "classification, nothing managed",
        Setup::Gateway(CLASSIFY),
    ),
    step("filter", "file-name filter", Setup::Gateway(FILTER)),
    step("audit", "filter and audit of files", Setup::Gateway(AUDIT)),
    step(
        "scan",
        "filter, audit and scan (clamd)",
        Setup::Gateway(SCAN),
    ),
];
const NAT: &str = "forwarding with NAT";

const fn step(word: &'static str, name: &'static str, setup: Setup) -> Step {
    Step { word, name, setup }
}

const CLASSIFY: &str = "[[rule]]\nname = \"p\"\napp = \"p2p\"\naction = \"block\"\n";
const FILTER: &str =
    "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n";
const AUDIT: &str = "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"a\"\napp = \"http\"\naction = \"audit\"\n";
const SCAN: &str = "[[rule]]\nname = \"n\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\
    [[rule]]\nname = \"s\"\napp = \"http\"\naction = \"scan\"\naudit = true\n";

/// Measures the configurations, in turns.
pub(super) fn run(output: Output, args: &GateBenchArgs) -> Result<(), Failure> {
    let steps = chosen(&args.only)?;
    let (rounds, time) = if args.quick {
        (1, Duration::from_secs(2))
    } else {
        (args.rounds.max(1), Duration::from_secs(args.seconds))
    };
    let border = Border::lay()?;
    let load = Load::serve(&border)?;
    let kinds = [Kind::Files(100), Kind::Bulk(1), Kind::Bulk(8)];
    let mut runs: Vec<(&str, Kind, f64)> = Vec::new();
    for round in 0..rounds {
        for Step { word, name, setup } in &steps {
            let Some(running) = start(&border, *setup, args)? else {
                if round == 0 {
                    output.note(&format!("{name}: left out, it needs --clamd"));
                }
                continue;
            };
            for kind in kinds {
                let rate = load.measure(&border, kind, time)?;
                output.note(&format!(
                    "round {} of {rounds}, {name}, {}: {rate:.2} Gbit/s",
                    round + 1,
                    kind.name()
                ));
                runs.push((word, kind, rate));
            }
            running.end()?;
        }
    }
    let of = |word: &str, kind: Kind| -> Vec<f64> {
        let same = runs.iter().filter(|run| run.0 == word && run.1 == kind);
        same.map(|run| run.2).collect()
    };
    let mut figures = Vec::new();
    for step in &steps {
        for kind in kinds {
            let rates = of(step.word, kind);
            if rates.is_empty() {
                continue;
            }
            let case = format!("{}, {}", step.name, kind.name());
            figures.push(
                Figure::new("gate", case, "throughput", "Gbit/s", &rates)
                    .against(NAT, &of("nat", kind)),
            );
        }
    }
    show(output, &figures)
}

/// The configurations that were asked for.
fn chosen(only: &[String]) -> Result<Vec<Step>, Failure> {
    let only: Vec<String> = only.iter().map(|word| word.trim().to_lowercase()).collect();
    let known = |word: &String| LADDER.iter().any(|step| step.word == *word);
    if let Some(word) = only.iter().find(|word| !known(word)) {
        return Err(Failure::usage(format_args!(
            "`{word}` is no configuration; there are {}",
            LADDER.map(|step| step.word).join(", ")
        )));
    }
    let asked = |step: &Step| only.is_empty() || only.iter().any(|word| word == step.word);
    Ok(LADDER.into_iter().filter(asked).collect())
}

/// `None`: it cannot be had here.
fn start(border: &Border, setup: Setup, args: &GateBenchArgs) -> Result<Option<Running>, Failure> {
    match setup {
        Setup::Forward => Ok(Some(Running::plain())),
        Setup::Translate => Ok(Some(border.translate()?)),
        Setup::Gateway(SCAN) if args.clamd.is_none() => Ok(None),
        Setup::Gateway(policy) => {
            let clamd = args.clamd.as_ref().filter(|_| policy == SCAN);
            Ok(Some(border.gateway(policy, args.queues, clamd)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use ringway_gateway::SignatureSet;
    use ringway_gateway::policy::Policy;

    use super::{LADDER, Setup, Step};

    #[test]
    fn the_policies_of_the_ladder_are_in_order() {
        let known = SignatureSet::built_in()
            .signatures()
            .iter()
            .map(|signature| signature.application.clone())
            .collect();
        let mut count = 0;
        for Step { name, setup, .. } in LADDER {
            if let Setup::Gateway(policy) = setup {
                assert!(Policy::parse(policy, &known).is_ok(), "{name}");
                count += 1;
            }
        }
        assert_eq!(count, 4);
    }
}
