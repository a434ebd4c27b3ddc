//! Messages through the ring: pings from router to router, and a ring of many real ones.

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
