//! Steps 5 and 6: every member finds the same router for a key, also after one was killed, and when
//! it is back.

use std::collections::BTreeMap;

use ringway_node::control::RouteFound;
use serde_json::json;
use tokio::time::Instant;

use super::exchange::{FIRST_RECEIVER, SECOND_RECEIVER};
use super::invariant::{owner_of, ring_holds};
use super::report::{Check, Done, Report};
use super::stage::Stage;
use crate::limits::{DEMO_KEYS, DEMO_POLL, DEMO_RING};
use ringway_terminal::Failure;

/// Texts looked up at least.
const KEYS: usize = 4;

/// One text, and who every member says is responsible for it.
#[derive(Clone, Debug)]
struct Lookup {
    text: String,
    target: String,
    owner: String,
    answers: BTreeMap<&'static str, RouteFound>,
}

impl Lookup {
    fn agreed(&self) -> bool {
        self.answers
            .values()
            .all(|answer| answer.owner.ring_key == self.owner && answer.target == self.target)
    }
}

/// Both steps.
pub(super) async fn steps(stage: &mut Stage, report: &mut Report) -> Result<(), Failure> {
    report.begin("looking keys up from every member");
    let mut lookups = Vec::new();
    let result = look_up(stage, &mut lookups).await;
    report.end("lookups", result)?;
    let victim = victim(stage, &lookups)?;
    report.begin(&format!(
        "killing {victim} and waiting until the ring has healed"
    ));
    let result = heal(stage, victim, &lookups).await;
    report.end("heal", result)?;
    report.begin(&format!("starting {victim} again"));
    let result = come_back(stage, victim).await;
    report.end("return", result)
}

/// Looks one text up from every running member.
async fn ask(stage: &Stage, text: &str) -> Result<Lookup, Failure> {
    let mut answers = BTreeMap::new();
    for (name, found) in stage
        .ask_all::<RouteFound>(&["route", "--key", text])
        .await?
    {
        answers.extend(found.into_iter().map(|found| (name, found)));
    }
    let target = answers
        .values()
        .map(|answer| answer.target.clone())
        .next()
        .unwrap_or_default();
    let running = stage.members.iter().filter(|member| member.runs());
    let keys: Vec<String> = running
        .filter_map(|member| member.ring_key.clone())
        .collect();
    let owner = owner_of(&target, &keys).unwrap_or_default().to_owned();
    Ok(Lookup {
        text: text.to_owned(),
        target,
        owner,
        answers,
    })
}

/// Enough texts, and more until one of them belongs to a router that may be killed.
async fn look_up(stage: &Stage, lookups: &mut Vec<Lookup>) -> Result<Done, Failure> {
    while lookups.len() < KEYS || (victim(stage, lookups).is_err() && lookups.len() < DEMO_KEYS) {
        let text = format!("record {}", lookups.len() + 1);
        lookups.push(ask(stage, &text).await?);
    }
    let good = lookups.iter().filter(|lookup| lookup.agreed()).count();
    let members = stage.members.iter().filter(|member| member.runs()).count();
    let hops = lookups
        .iter()
        .flat_map(|lookup| lookup.answers.values())
        .map(|answer| answer.hops.len())
        .max();
    Ok(Done {
        shown: Vec::new(),
        text: format!(
            "{} keys looked up from each of {members} members",
            lookups.len()
        ),
        checks: vec![Check::new(
            "every member finds the true owner of every key",
            good == lookups.len(),
            format!(
                "{good} of {} keys from {members} members, at most {} hops",
                lookups.len(),
                hops.unwrap_or(0)
            ),
        )],
        details: json!({ "lookups": lookups.iter().map(describe).collect::<Vec<_>>() }),
    })
}

fn describe(lookup: &Lookup) -> serde_json::Value {
    let Lookup {
        text,
        target,
        owner,
        answers,
    } = lookup;
    json!({ "text": text, "target": target, "owner": owner, "agreed": lookup.agreed(), "answers": answers })
}

/// A router that owns one of the keys and has received no file.
fn victim(stage: &Stage, lookups: &[Lookup]) -> Result<&'static str, Failure> {
    let spared = [FIRST_RECEIVER, SECOND_RECEIVER];
    let owns = |key: &Option<String>| {
        lookups
            .iter()
            .any(|lookup| Some(&lookup.owner) == key.as_ref())
    };
    let mut candidates = stage
        .members
        .iter()
        .filter(|member| !spared.contains(&member.name) && owns(&member.ring_key));
    candidates
        .next()
        .map(|member| member.name)
        .ok_or_else(|| Failure::failed("no key belongs to a router that may be killed"))
}

async fn heal(
    stage: &mut Stage,
    victim: &'static str,
    lookups: &[Lookup],
) -> Result<Done, Failure> {
    stage.member_mut(victim)?.kill().await?;
    let killed = Instant::now();
    stage.wait_until(DEMO_RING, ring_holds).await?;
    let healed_after = killed.elapsed().as_secs_f64();
    let (again, vain) = look_up_until_agreed(stage, lookups, killed + DEMO_RING).await?;
    let found_after = killed.elapsed().as_secs_f64();
    // The victim owned a key, so one at least has moved. Otherwise its end would prove nothing.
    let moved = lookups
        .iter()
        .zip(&again)
        .filter(|(old, new)| old.owner != new.owner)
        .count();
    let rounds = if vain == 0 {
        "no lookup failed".to_owned()
    } else {
        format!("{vain} earlier tries failed")
    };
    Ok(Done {
        shown: Vec::new(),
        text: format!("{victim} killed (SIGKILL); the ring has healed and finds every key again"),
        checks: vec![
            Check::new(
                "ring invariant holds again after a router was killed",
                true,
                format!("after {healed_after:.1} s"),
            ),
            Check::new(
                "every remaining member finds the new owner of every key",
                moved > 0,
                format!(
                    "{moved} of {} keys moved, all found after {found_after:.1} s, {rounds}",
                    again.len()
                ),
            ),
        ],
        details: json!({
            "killed": victim, "healed_after": healed_after, "found_after": found_after, "failed_rounds": vain,
            "lookups": again.iter().map(describe).collect::<Vec<_>>(),
        }),
    })
}

/// Looks all texts up again until every member is right about each; also tells how many rounds were
/// in vain.
///
/// A ring in order still has pointers to the killed router in its finger tables, so the first
/// lookups may fail.
async fn look_up_until_agreed(
    stage: &Stage,
    lookups: &[Lookup],
    end: Instant,
) -> Result<(Vec<Lookup>, u32), Failure> {
    let mut vain = 0;
    loop {
        let complaint = match look_up_all(stage, lookups).await {
            Ok(again) => match again.iter().find(|lookup| !lookup.agreed()) {
                None => return Ok((again, vain)),
                Some(lookup) => format!("the members do not agree who owns `{}`", lookup.text),
            },
            Err(failure) => failure.message().to_owned(),
        };
        if Instant::now() >= end {
            return Err(Failure::failed(format_args!(
                "after {} s still: {complaint}",
                DEMO_RING.as_secs()
            )));
        }
        vain += 1;
        tokio::time::sleep(DEMO_POLL).await;
    }
}

async fn look_up_all(stage: &Stage, lookups: &[Lookup]) -> Result<Vec<Lookup>, Failure> {
    let mut again = Vec::new();
    for lookup in lookups {
        again.push(ask(stage, &lookup.text).await?);
    }
    Ok(again)
}

async fn come_back(stage: &mut Stage, victim: &'static str) -> Result<Done, Failure> {
    let program = stage.program.clone();
    let member = stage.member_mut(victim)?;
    let (id, ring_key) = (member.id.clone(), member.ring_key.clone());
    member.start(&program).await?;
    let started = Instant::now();
    let statuses = stage.wait_until(DEMO_RING, ring_holds).await?;
    let seconds = started.elapsed().as_secs_f64();
    let status = statuses.iter().find(|status| status.name == victim);
    let same = status.is_some_and(|status| status.member == id && status.ring_key == ring_key);
    Ok(Done {
        shown: Vec::new(),
        text: format!("{victim} started again and has its old place in the ring"),
        checks: vec![Check::new(
            "the killed router is back with the same identity",
            same,
            format!("after {seconds:.1} s"),
        )],
        details: json!({ "member": id, "ring_key": ring_key, "back_after": seconds }),
    })
}
