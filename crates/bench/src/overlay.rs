//! `ringway-bench overlay`: lookups in rings with malicious routers, by the verified rule, the
//! paper's and plain Chord.
//!
//! The members are the program's own, on a simulated network with virtual time; the same run, with
//! the same malicious routers, churn and loss, is made for each rule.

mod forming;
mod memory;

use std::time::{Duration, Instant};

use ringway_overlay::Rule;
use ringway_sim::Behaviour;
use ringway_sim::attack::{Attack, Deliveries, Outcome, Receivers, deliveries, run as attack};

use super::figure::{Figure, show};
use super::plot::Bars;
use crate::cli::OverlayArgs;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// One ring, for each of its runs.
#[derive(Clone, Debug)]
struct Case {
    members: usize,
    malicious: f64,
    behaviour: Option<Behaviour>,
    rule: Rule,
    /// Share of the members that crash, and of those that join, in an hour; how many do so at
    /// least while points are looked up.
    churn: (f64, u32),
    lookups: usize,
    runs: u64,
}

/// How much is measured.
struct Plan {
    members: Vec<usize>,
    malicious: Vec<f64>,
    churn: (f64, u32),
    lookups: usize,
    runs: u64,
}

/// Members that come or go while points are looked up: fewer show nothing of it, and each takes 255
/// members at 10 % an hour a minute of virtual time.
const CHANGES: u32 = 10;

impl Plan {
    fn new(args: &OverlayArgs) -> Result<Plan, Failure> {
        let quick = Plan {
            members: vec![255, 1_000],
            malicious: vec![0.2, 0.3],
            churn: (0.1, 0),
            lookups: 1_000,
            runs: 1,
        };
        let whole = Plan {
            members: vec![255, 1_000, 10_000, 100_000],
            malicious: vec![0.0, 0.05, 0.1, 0.2, 0.25, 0.3],
            churn: (0.1, CHANGES),
            lookups: 10_000,
            runs: 2,
        };
        let mut plan = if args.quick { quick } else { whole };
        if !args.members.is_empty() {
            plan.members.clone_from(&args.members);
        }
        if !args.malicious.is_empty() {
            plan.malicious = args
                .malicious
                .iter()
                .map(|percent| percent / 100.0)
                .collect();
        }
        if let Some(few) = plan
            .members
            .iter()
            .find(|members| !(5..=200_000).contains(*members))
        {
            return Err(Failure::usage(format_args!(
                "--members {few}: rings of 5 to 200000 members are simulated"
            )));
        }
        if let Some(most) = plan
            .malicious
            .iter()
            .find(|share| !(0.0..=0.5).contains(*share))
        {
            return Err(Failure::usage(format_args!(
                "--malicious {}: 0 to 50 per cent are simulated",
                most * 100.0
            )));
        }
        if let Some(percent) = args.churn {
            if !(0.0..=1_000.0).contains(&percent) {
                return Err(Failure::usage(format_args!(
                    "--churn {percent}: 0 to 1000 per cent an hour are simulated"
                )));
            }
            plan.churn.0 = percent / 100.0;
        }
        plan.lookups = args.lookups.unwrap_or(plan.lookups).max(1);
        plan.runs = u64::from(args.runs.unwrap_or(u32::try_from(plan.runs).unwrap_or(1))).max(1);
        Ok(plan)
    }

    /// Each ring with each share of malicious routers, by each rule in turn.
    fn cases(&self, behaviours: &[String]) -> Result<Vec<Case>, Failure> {
        let mut cases = Vec::new();
        for members in &self.members {
            for malicious in &self.malicious {
                for behaviour in chosen(behaviours)? {
                    if behaviour.is_some() && *malicious == 0.0 {
                        continue;
                    }
                    for rule in [Rule::Verified, Rule::Paper, Rule::Plain] {
                        cases.push(Case {
                            members: *members,
                            malicious: *malicious,
                            behaviour,
                            rule,
                            churn: self.churn,
                            lookups: self.lookups,
                            runs: self.runs,
                        });
                    }
                }
            }
        }
        Ok(cases)
    }
}

/// The behaviours that the user asks for; all at once if none is named.
fn chosen(names: &[String]) -> Result<Vec<Option<Behaviour>>, Failure> {
    if names.is_empty() {
        return Ok(vec![None]);
    }
    let known = |name: &String| {
        let name = name.trim().to_lowercase();
        behaviours().find(|behaviour| behaviour_name(*behaviour) == name)
    };
    let list = || {
        behaviours()
            .map(behaviour_name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    names
        .iter()
        .map(|name| {
            known(name).ok_or_else(|| {
                Failure::usage(format_args!("--behaviour {name}: choose from {}", list()))
            })
        })
        .collect()
}

/// Those that can be chosen, and the mixture of those that hinder lookups.
fn behaviours() -> impl Iterator<Item = Option<Behaviour>> {
    let kinds = Behaviour::ALL.into_iter().chain(Behaviour::OTHERS);
    kinds.map(Some).chain([None])
}

fn behaviour_name(behaviour: Option<Behaviour>) -> String {
    match behaviour {
        None => "mixed".to_owned(),
        Some(Behaviour::TwoFaced) => "two-faced".to_owned(),
        Some(behaviour) => format!("{behaviour:?}").to_lowercase(),
    }
}

fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::Verified => "verified",
        Rule::Paper => "paper",
        Rule::Plain => "plain chord",
    }
}

impl Case {
    fn ring(&self) -> String {
        let malicious = self.malicious * 100.0;
        let behaviour = match self.behaviour {
            None => String::new(),
            Some(_) => format!(" {}", behaviour_name(self.behaviour)),
        };
        format!("{} members {malicious:.0} %{behaviour}", self.members)
    }

    fn name(&self) -> String {
        format!("{} {}", self.ring(), rule_name(self.rule))
    }

    fn run(&self, seed: u64) -> Result<Outcome, Failure> {
        attack(&self.attack(seed, self.lookups)).map_err(simulation_failed)
    }

    /// Messages through the same ring, if honest members look things up by the rule that is ours.
    fn messages(&self, seed: u64) -> Result<Option<Deliveries>, Failure> {
        if self.rule != Rule::Verified {
            return Ok(None);
        }
        let attack = self.attack(seed, self.lookups.min(MESSAGES));
        let done = deliveries(&attack, Receivers::Members);
        done.map(Some).map_err(simulation_failed)
    }

    fn attack(&self, seed: u64, lookups: usize) -> Attack {
        let (churn, changes) = self.churn;
        let attack = Attack {
            behaviour: self.behaviour,
            rule: self.rule,
            churn,
            loss: 0.01,
            // A hundred lookups a second, or 20 s.
            over: Duration::from_millis(u64::try_from(lookups).unwrap_or(u64::MAX) * 10)
                .clamp(Duration::from_secs(20), Duration::from_secs(120)),
            ..Attack::new(seed, self.members, self.malicious, lookups)
        };
        attack.until_changes(changes)
    }

    /// The share of lookups that is to find the owner.
    fn aim(&self) -> f64 {
        match self.malicious {
            share if share <= 0.05 => 0.9999,
            share if share <= 0.2 => 0.9995,
            _ => 0.998,
        }
    }
}

/// Messages through each ring, at most.
const MESSAGES: usize = 2_000;

fn simulation_failed(failure: ringway_sim::Failure) -> Failure {
    Failure::failed(format_args!("the simulation failed: {failure}"))
}

/// The runs of one case.
struct Measured {
    case: Case,
    runs: Vec<Outcome>,
    messages: Vec<Deliveries>,
}

impl Measured {
    fn each(&self, of: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |metric, unit, of: &dyn Fn(&Outcome) -> f64| {
            Figure::new("overlay", self.case.name(), metric, unit, &self.each(of))
        };
        let aim = |figure: Figure, aim: f64| figure.against("aim", &[aim]);
        let success = figure("lookup_success", "share", &Outcome::success);
        let wrong = figure("wrong_accepted", "share", &Outcome::accepted_wrong);
        let mean = figure("messages_mean", "messages", &Outcome::mean_messages);
        let p99 = |outcome: &Outcome| f64::from(outcome.p99_messages());
        let p99 = figure("messages_p99", "messages", &p99);
        let hops = figure("hops_mean", "hops", &|outcome| outcome.steps);
        let time = |outcome: &Outcome| outcome.median_time().as_secs_f64() * 1e3;
        let time = figure("time_median", "ms", &time);
        if self.case.rule != Rule::Verified {
            return vec![success, wrong, mean, hops, time];
        }
        let log = |members: usize| f64::from(u32::try_from(members).unwrap_or(u32::MAX)).log2();
        let innocent = |outcome: &Outcome| whole(outcome.innocent);
        let traffic = |o: &Outcome| o.idle_bytes + ADDED * o.idle_rate;
        let traffic = figure("idle_traffic", "B/s and member", &traffic);
        let mut figures = vec![
            aim(success, self.case.aim()),
            figure("found_in_doubt", "share", &Outcome::found_in_doubt),
            aim(wrong, 0.001),
            aim(mean, 50.0),
            aim(p99, 120.0),
            aim(hops, 0.5 * log(self.case.members)),
            time,
            aim(figure("honest_convicted", "members", &innocent), 0.0),
            figure("came_or_went", "members", &|o| whole(o.changes)),
            figure("idle_messages", "messages/s and member", &|o| o.idle_rate),
            aim(traffic, 1_000.0),
        ];
        figures.extend(self.figures_of_messages());
        let known = self.runs.iter().filter_map(Outcome::told_99);
        let known: Vec<f64> = known.map(|time| time.as_secs_f64()).collect();
        if known.len() == self.runs.len() {
            let metric = "revocation_known_to_99_percent";
            let known = Figure::new("overlay", self.case.name(), metric, "s", &known);
            figures.push(aim(known, 5.0));
        }
        let times = self.runs.iter().filter_map(|outcome| {
            let at = outcome.convicted_after.len() / 2;
            outcome.convicted_after.get(at).map(Duration::as_secs_f64)
        });
        let times: Vec<f64> = times.collect();
        if !times.is_empty() {
            let rounds = Figure::new(
                "overlay",
                self.case.name(),
                "conviction_time",
                "stabilisation rounds",
                &times,
            );
            figures.push(aim(rounds, 3.0));
        }
        figures
    }
}

impl Measured {
    /// Messages through the ring from honest members to honest members.
    fn figures_of_messages(&self) -> Vec<Figure> {
        let figure = |metric, unit, of: &dyn Fn(&Deliveries) -> f64| {
            let each: Vec<f64> = self.messages.iter().map(of).collect();
            Figure::new("overlay", self.case.name(), metric, unit, &each)
        };
        let amiss = |deliveries: &Deliveries| whole(deliveries.amiss);
        vec![
            figure("routed_delivered", "share", &Deliveries::success),
            figure("routed_by_the_first_way", "share", &Deliveries::at_once),
            figure("routed_amiss", "messages", &amiss).against("aim", &[0.0]),
            figure("routed_hops_mean", "hops", &|deliveries| deliveries.hops),
        ]
    }
}

/// Bytes that a link (packet header, tag, kind), UDP and IPv4 add to each message.
const ADDED: f64 = 64.0;

fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Measures, shows, and draws.
pub(super) fn run(output: Output, args: &OverlayArgs) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    if args.memory {
        return show(output, &memory::measure(output, &args.members)?);
    }
    if args.forming {
        return show(output, &forming::measure(output, args)?);
    }
    let cases = plan.cases(&args.behaviour)?;
    if let Some(folder) = &args.plots {
        super::plot::writable(folder)?;
    }
    let all: usize = cases.iter().map(Case::weight).sum();
    let (began, mut done) = (Instant::now(), 0);
    let mut measured = Vec::new();
    for case in cases {
        let (mut runs, mut messages) = (Vec::new(), Vec::new());
        for seed in 1..=case.runs {
            runs.push(case.run(seed)?);
            messages.extend(case.messages(seed)?);
        }
        done += case.weight();
        output.note(&format!(
            "{}: done; {}",
            case.name(),
            left(began.elapsed(), done, all)
        ));
        measured.push(Measured {
            case,
            runs,
            messages,
        });
    }
    let figures: Vec<Figure> = measured.iter().flat_map(Measured::figures).collect();
    if let Some(folder) = &args.plots {
        draw(&measured, folder)?;
    }
    show(output, &figures)
}

impl Case {
    /// How long it takes, beside others.
    fn weight(&self) -> usize {
        self.members + self.lookups
    }
}

fn left(spent: Duration, done: usize, all: usize) -> String {
    let part = whole(done) / whole(all.max(1));
    let left = spent.as_secs_f64() * (1.0 / part.max(1e-9) - 1.0);
    format!("about {:.0} minutes left", left / 60.0)
}

/// One plot for each size of ring: which share of lookups went wrong.
fn draw(measured: &[Measured], folder: &std::path::Path) -> Result<(), Failure> {
    let bars = measured.iter().map(|measured| {
        let right: Vec<f64> = measured.each(Outcome::success);
        let wrong = 1.0 - super::figure::median(&right);
        (measured.case.name(), wrong.max(1e-5))
    });
    let plot = Bars {
        name: "overlay-lookups".to_owned(),
        title: "Lookups that did not find the owner (at least 0.00001 is drawn)".to_owned(),
        unit: "share of all lookups",
        bars: bars.collect(),
    };
    plot.draw(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> OverlayArgs {
        OverlayArgs {
            quick: true,
            members: Vec::new(),
            malicious: Vec::new(),
            behaviour: Vec::new(),
            churn: None,
            lookups: None,
            runs: None,
            real: false,
            at_once: false,
            only_lookups: false,
            memory: false,
            forming: false,
            beside: None,
            plots: None,
        }
    }

    #[test]
    fn every_ring_is_measured_by_every_rule() {
        let plan = Plan::new(&args()).unwrap();
        let cases = plan.cases(&[]).unwrap();
        assert_eq!(cases.len(), 2 * 2 * 3);
        assert_eq!(cases[0].name(), "255 members 20 % verified");
        let cases = plan
            .cases(&["two-faced".to_owned(), "mixed".to_owned()])
            .unwrap();
        assert_eq!(cases.len(), 2 * 2 * 2 * 3);
        assert_eq!(cases[2].name(), "255 members 20 % two-faced plain chord");
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        let refused = |args: OverlayArgs| Plan::new(&args).is_err();
        assert!(refused(OverlayArgs {
            members: vec![4],
            ..args()
        }));
        assert!(refused(OverlayArgs {
            malicious: vec![60.0],
            ..args()
        }));
        for churn in [-1.0, f64::NAN, 1e9] {
            assert!(refused(OverlayArgs {
                churn: Some(churn),
                ..args()
            }));
        }
        assert!(
            Plan::new(&args())
                .unwrap()
                .cases(&["nice".to_owned()])
                .is_err()
        );
    }

    #[test]
    fn a_small_ring_under_attack_gives_figures() {
        let case = Case {
            members: 60,
            malicious: 0.2,
            behaviour: None,
            rule: Rule::Verified,
            churn: (0.5, 5),
            lookups: 40,
            runs: 1,
        };
        let runs = vec![case.run(1).unwrap()];
        let messages = case.messages(1).unwrap().into_iter().collect();
        let measured = Measured {
            case,
            runs,
            messages,
        };
        let figures = measured.figures();
        for metric in ["lookup_success", "routed_delivered"] {
            let figure = figures.iter().find(|figure| figure.metric == metric);
            assert!(figure.is_some_and(|f| f.value > 0.9), "{figures:?}");
        }
        let changes = figures.iter().find(|f| f.metric == "came_or_went");
        assert!(changes.is_some_and(|f| f.value >= 4.0), "{figures:?}");
    }
}
