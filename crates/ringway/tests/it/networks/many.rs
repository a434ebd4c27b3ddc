//! Thirty routers on thirty hosts, with loss and delay between them.

use ringway_testbed::{Line, Network, Ring, Rule, TestbedError, Traffic, wait_until};
use serde_json::Value;

use super::{DEADLINE, Lan, started};

/// Keys whose owners are the same for each member that asks.
const KEYS: usize = 10;

fn names() -> Vec<String> {
    (0..30).map(|n| format!("r{n}")).collect()
}

/// Who owns a key, if the answer is verified.
fn owner(ring: &Ring, from: &str, key: &str) -> Result<String, TestbedError> {
    let found = &ring.member(from)?.call(&["route", "--key", key])?[0];
    match (&found["verified"], found["owner"]["ring_key"].as_str()) {
        (Value::Bool(true), Some(owner)) => Ok(owner.to_owned()),
        _ => Err(TestbedError(found.to_string())),
    }
}

/// All of them name the same owner for each key.
fn agree(ring: &Ring, names: &[&str]) -> Result<(), TestbedError> {
    for key in (0..KEYS).map(|n| format!("key {n}")) {
        let owners = names.iter().map(|name| owner(ring, name, &key));
        let mut owners = owners.collect::<Result<Vec<String>, _>>()?;
        owners.dedup();
        if owners.len() > 1 {
            return Err(TestbedError(format!("{key}: {owners:?}")));
        }
    }
    Ok(())
}

/// Each of them is reached through the ring.
fn reached(ring: &Ring, from: &str, names: &[&str]) -> Result<(), TestbedError> {
    for to in names.iter().filter(|to| **to != from) {
        let pongs = ring.member(from)?;
        let pongs = pongs.call(&["ping", to, "--through-ring", "--count", "1"])?;
        if !pongs[0]["rtt_ms"].is_f64() {
            return Err(TestbedError(format!("{to}: {pongs:?}")));
        }
    }
    Ok(())
}

/// Nothing gets from the first half of the hosts to the second; the other way everything does.
fn divide_one_way(lan: &Lan, names: &[&str]) {
    let address = |name: &&str| lan.host(name).address().unwrap();
    let (first, second) = names.split_at(names.len() / 2);
    let lost = first.iter().flat_map(|from| {
        let to = second.iter().map(address);
        to.map(move |to| Rule::Drop(Traffic::any().from(address(from)).to(to)))
    });
    lan.switch.rules(&lost.collect::<Vec<Rule>>()).unwrap();
}

/// A router that receives nothing from the other half has taken it for dead: its successors are all
/// among these.
fn has_only(ring: &Ring, from: &str, half: &[&str]) -> Result<(), TestbedError> {
    let status = ring.member(from)?.status()?;
    let successors = status["successors"].as_array().cloned().unwrap_or_default();
    let mut names = successors.iter().map(|router| router["name"].as_str());
    let only = names.all(|name| name.is_some_and(|name| half.contains(&name)));
    match only && !successors.is_empty() {
        true => Ok(()),
        false => Err(TestbedError(status["successors"].to_string())),
    }
}

#[test]
fn ring_survives_one_way_cut_and_deaths() {
    let Some(network) = Network::or_skip("thirty hosts").unwrap() else {
        return;
    };
    let all = names();
    let mut names: Vec<&str> = all.iter().map(String::as_str).collect();
    let line = Line::plain().delay_ms(10).loss(0.01);
    let lan = Lan::new(network, &names, &line);
    let mut ring = started(lan.routers(&names));
    // Two routers that stand behind each other: all of r0's successor list. Its group knows who is
    // behind them.
    let status = ring.member("r0").unwrap().status().unwrap();
    let successors = status["successors"].as_array().unwrap().iter();
    let dead: Vec<String> = successors
        .filter_map(|router| router["name"].as_str().map(str::to_owned))
        .take(2)
        .collect();
    assert_eq!(dead.len(), 2, "{status}");
    let alive = |name: &&str| !dead.iter().any(|dead| dead == name);
    // Where keys lie is chance: the routers that are asked are none of those that die.
    let others = names.iter().copied().filter(alive);
    let asked: Vec<&str> = others.step_by(9).take(3).collect();
    wait_until(DEADLINE, || agree(&ring, &asked)).unwrap();
    wait_until(DEADLINE, || reached(&ring, "r0", &names)).unwrap();
    divide_one_way(&lan, &names);
    let deaf = &names[names.len() / 2..];
    wait_until(DEADLINE, || has_only(&ring, deaf[0], deaf)).unwrap();
    wait_until(DEADLINE, || has_only(&ring, deaf[14], deaf)).unwrap();
    lan.switch.rules(&[]).unwrap();
    wait_until(DEADLINE, || agree(&ring, &asked)).unwrap();
    for from in [names[0], names[29]] {
        wait_until(DEADLINE, || reached(&ring, from, &names)).unwrap();
    }
    for name in &dead {
        ring.member_mut(name).unwrap().kill().unwrap();
    }
    names.retain(alive);
    wait_until(DEADLINE, || agree(&ring, &asked)).unwrap();
    wait_until(DEADLINE, || reached(&ring, asked[1], &names)).unwrap();
}
