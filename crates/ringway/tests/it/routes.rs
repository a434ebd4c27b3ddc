//! Messages through the ring: pings from router to router, and a ring of many real ones.

use std::process::Command;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::program;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

const ROUTERS: [&str; 4] = ["oslo", "lima", "quito", "accra"];

fn pings(ring: &Ring, from: &str, to: &str) -> Result<Vec<Value>, TestbedError> {
    let member = ring.member(from)?;
    let pongs = member.call(&["ping", to, "--through-ring", "--count", "2"])?;
    let answered = pongs.iter().all(|pong| pong["rtt_ms"].is_f64());
    match answered && pongs.len() == 2 {
        true => Ok(pongs),
        false => Err(TestbedError(format!("{pongs:?}\n{}", member.log_text()))),
    }
}

#[test]
fn routers_ping_each_other_through_the_ring() {
    let builder = RingBuilder::new(program());
    let builder = ROUTERS.iter().fold(builder, |b, name| b.router(name));
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    for from in ROUTERS {
        for to in ROUTERS.iter().filter(|to| **to != from) {
            let pongs = wait_until(DEADLINE, || pings(&ring, from, to)).unwrap();
            assert_eq!(pongs[0]["schema"], "ringway.pong/1");
            assert_eq!(pongs[0]["peer"], *to);
            assert!(pongs[0]["ways"].as_u64().unwrap() >= 1, "{pongs:?}");
            assert!(pongs[0]["address"].is_null());
        }
    }
    let says = |name: &str, to: &str| {
        let member = ring.member(name).unwrap();
        let said = member.run(&["ping", to, "--through-ring", "--count", "1"]);
        let said = said.unwrap();
        (said.code, format!("{}{}", said.stdout, said.stderr))
    };
    let answered = wait_until(DEADLINE, || match says("oslo", "lima") {
        (Some(0), text) => Ok(text),
        (_, text) => Err(TestbedError(text)),
    });
    let text = answered.unwrap();
    assert!(text.contains("through the ring"), "{text}");
    let (code, text) = says("oslo", "alice");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("`alice` is a leaf"), "{text}");
    let (code, text) = says("alice", "oslo");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("only routers send"), "{text}");
    ring.member_mut("accra").unwrap().kill().unwrap();
    let oslo = ring.member("oslo").unwrap();
    let silent = oslo.run(&["ping", "accra", "--through-ring", "--count", "1"]);
    let silent = silent.unwrap();
    assert_eq!(silent.code, Some(1), "{}", silent.stdout);
    assert!(silent.stderr.contains("`accra`"), "{}", silent.stderr);
}

/// The figures of `ringway bench overlay --real --quick` with this many routers, and what else is
/// asked for.
fn real_ring(routers: &str, more: &[&str]) -> Vec<Value> {
    let done = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(["bench", "overlay", "--real", "--quick", "--json"])
        .args(["--members", routers])
        .args(more)
        .output();
    let done = done.unwrap();
    let (text, errors) = [done.stdout, done.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .into();
    assert!(done.status.success(), "{errors}");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The value of this metric in the first case that begins so.
fn value(figures: &[Value], case: &str, metric: &str) -> Option<f64> {
    let of_case = |figure: &&Value| figure["case"].as_str().is_some_and(|c| c.starts_with(case));
    let mut figures = figures.iter().filter(of_case);
    let figure = figures.find(|figure| figure["metric"] == metric);
    figure.and_then(|figure| figure["value"].as_f64())
}

#[test]
fn real_routers_find_every_point_also_when_one_of_them_is_silent() {
    let plots = tempfile::tempdir().unwrap();
    let folder = plots.path().to_str().unwrap();
    let lookups = ["--only-lookups", "--lookups", "30", "--traitors", "12.5"];
    let figures = real_ring("8", &[&lookups[..], &["--plots", folder]].concat());
    assert!(plots.path().join("overlay-lookup-time.svg").exists());
    let value = |case: &str, metric: &str| value(&figures, case, metric);
    let all = "8 members, ringway";
    assert_eq!(value(all, "lookup_success"), Some(1.0), "{figures:?}");
    assert_eq!(value(all, "wrong_accepted"), Some(0.0), "{figures:?}");
    assert!(
        value(all, "messages_mean").is_some_and(|n| n > 0.0),
        "{figures:?}"
    );
    assert!(
        value(all, "idle_traffic").is_some_and(|n| n > 0.0),
        "{figures:?}"
    );
    let silent = value("8 members 12 % silent, ringway", "lookup_success");
    assert!(silent.is_some_and(|share| share > 0.5), "{figures:?}");
    assert!(
        figures
            .iter()
            .all(|figure| figure["schema"] == "ringway.bench/1")
    );
}

#[test]
fn dozens_of_real_routers_form_a_ring_and_carry_messages() {
    let figures = real_ring("32", &[]);
    let value = |metric: &str| value(&figures, "32 routers", metric);
    assert_eq!(value("pings_unanswered"), Some(0.0), "{figures:?}");
    assert!(value("packets_least").unwrap() > 0.0, "{figures:?}");
    assert!(value("passes").unwrap() > 1.0, "{figures:?}");
    assert!(value("passes_lost").unwrap() < 0.01, "{figures:?}");
    for metric in [
        "packets_processor_time_per_message",
        "revocation_known_after_command",
    ] {
        assert!(value(metric).unwrap() > 0.0, "{metric}: {figures:?}");
    }
}
