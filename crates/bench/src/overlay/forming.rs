//! `ringway-bench overlay --forming`: rings that form among malicious routers.

use std::time::Duration;

use ringway_overlay::Rule;
use ringway_sim::attack::{Attack, Formed, Forming, forming};

use super::{Case, Plan, simulation_failed, whole};
use crate::cli::OverlayArgs;
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Members of the rings, if the user asks for no others.
const SIZES: [usize; 2] = [60, 255];

/// Lookups in each, if the user asks for no other number.
const LOOKUPS: usize = 1_000;

/// Time between the moment at which the ring has settled and the first lookup: fingers are looked
/// up for the first time.
const BEFORE: Duration = Duration::from_secs(60);

/// Routers that come at the same moment.
const BURSTS: [usize; 2] = [1, 10];

/// Forms each ring by single routers and by bursts, and measures it.
pub(super) fn measure(output: Output, args: &OverlayArgs) -> Result<Vec<Figure>, Failure> {
    let mut plan = Plan::new(args)?;
    if args.members.is_empty() {
        plan.members = SIZES.to_vec();
    }
    if args.malicious.is_empty() {
        plan.malicious = vec![0.05, 0.2, 0.3];
    }
    plan.lookups = args.lookups.unwrap_or(LOOKUPS).max(1);
    plan.churn.1 = 0;
    let cases = plan.cases(&args.behaviour)?;
    let verified = cases.iter().filter(|case| case.rule == Rule::Verified);
    let mut figures = Vec::new();
    for case in verified {
        for burst in BURSTS {
            let name = format!("{} forming by {burst}", case.ring());
            output.note(&name);
            let runs = (1..=case.runs).map(|seed| form(case, seed, burst));
            let runs: Vec<Formed> = runs.collect::<Result<_, _>>()?;
            figures.extend(figures_of(&name, case, &runs));
        }
    }
    Ok(figures)
}

fn form(case: &Case, seed: u64, burst: usize) -> Result<Formed, Failure> {
    let attack = Attack {
        before: BEFORE,
        ..case.attack(seed, case.lookups)
    };
    let settings = Forming {
        burst,
        ..Forming::new(attack)
    };
    forming(&settings).map_err(simulation_failed)
}

fn figures_of(name: &str, case: &Case, runs: &[Formed]) -> Vec<Figure> {
    let figure = |metric, unit, of: &dyn Fn(&Formed) -> f64| {
        let each: Vec<f64> = runs.iter().map(of).collect();
        Figure::new("overlay", name.to_owned(), metric, unit, &each)
    };
    let joined = |formed: &Formed| whole(formed.joined_after.len() + 1) / whole(formed.honest);
    let placed = |formed: &Formed| whole(formed.placed) / whole(formed.honest);
    let slowest = |formed: &Formed| {
        let slowest = formed.joined_after.last();
        slowest.map_or(0.0, Duration::as_secs_f64)
    };
    let settled = runs.iter().filter_map(|formed| formed.settled_after);
    let settled: Vec<f64> = settled.map(|time| time.as_secs_f64()).collect();
    let p99 = |formed: &Formed| f64::from(formed.outcome.p99_messages());
    let mut figures = vec![
        figure("joined", "share of the honest", &joined).against("aim", &[1.0]),
        figure("join_time_slowest", "s", &slowest),
        figure("placed", "share of the honest", &placed).against("aim", &[1.0]),
        figure("lookup_success", "share", &|f| f.outcome.success()).against("aim", &[case.aim()]),
        figure("wrong_accepted", "share", &|f| f.outcome.accepted_wrong()).against("aim", &[0.001]),
        figure("messages_mean", "messages", &|f| f.outcome.mean_messages()).against("aim", &[50.0]),
        figure("messages_p99", "messages", &p99).against("aim", &[120.0]),
        figure("honest_convicted", "members", &|f| {
            whole(f.outcome.innocent)
        })
        .against("aim", &[0.0]),
    ];
    // Where one has not, `placed` says how many are missing.
    if settled.len() == runs.len() {
        let unit = "s after the last came";
        figures.push(Figure::new(
            "overlay",
            name.to_owned(),
            "settled",
            unit,
            &settled,
        ));
    }
    figures
}
