//! A leaf that hides its address from all but its parents.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{program, random_bytes};

/// Long enough for a busy machine; what is waited for takes seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// Routers of the ring; a leaf has three parents.
const ROUTERS: [&str; 5] = ["oslo", "lima", "quito", "cairo", "dakar"];

fn links(ring: &Ring, name: &str) -> Result<BTreeSet<String>, TestbedError> {
    let status = ring.member(name)?.status()?;
    let links = status["links"].as_array().cloned().unwrap_or_default();
    let name = |link: &Value| link["name"].as_str().unwrap_or_default().to_owned();
    Ok(links.iter().map(name).collect())
}

/// Waits until a ping is answered through a router.
fn is_relayed_to(ring: &Ring, name: &str, peer: &str) {
    let relayed = wait_until(DEADLINE, || {
        let pongs = ring.member(name)?.call(&["ping", peer, "--count", "1"])?;
        let pong = pongs.into_iter().next().unwrap_or_default();
        let address = pong["address"].as_str().unwrap_or_default();
        match pong["rtt_ms"].is_number() && address.starts_with("relay://") {
            true => Ok(()),
            false => Err(TestbedError(pong.to_string())),
        }
    });
    relayed.unwrap();
}

#[test]
fn a_hidden_leaf_shows_itself_to_its_parents_only() {
    let builder = ROUTERS
        .iter()
        .fold(RingBuilder::new(program()), |ring, name| ring.router(name));
    let builder = builder.absent_leaf("alice").absent_leaf("bruno");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    // Somebody of whom the user says that he is at a certain address.
    let curious = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = curious.local_addr().unwrap();
    let alice = ring.member_mut("alice").unwrap();
    let config = alice.home.join("ringway.toml");
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace("[node]\n", "[node]\nhide_address = true\n");
    let known = format!("[[peer]]\nname = \"bruno\"\naddresses = [\"udp://{at}\"]\n");
    fs::write(&config, text + &known).unwrap();
    alice.start().unwrap();
    let parents = wait_until(DEADLINE, || {
        let parents = links(&ring, "alice")?;
        match parents.len() {
            3 => Ok(parents),
            _ => Err(TestbedError(format!("{parents:?}"))),
        }
    });
    let parents = parents.unwrap();
    let alice = ring.member("alice").unwrap();
    assert_eq!(
        alice.status().unwrap()["addresses"],
        Value::Array(Vec::new())
    );
    let (near, far): (Vec<&str>, Vec<&str>) =
        ROUTERS.iter().partition(|name| parents.contains(**name));
    // Files reach a parent over the link.
    let file = ring.folder().join("file.bin");
    fs::write(&file, random_bytes("alice", 300_000)).unwrap();
    let sent = alice
        .call(&["send", file.to_str().unwrap(), near[0]])
        .unwrap();
    assert_eq!(sent.last().unwrap()["state"], "done", "{sent:?}");
    // Nobody else is asked directly, whoever wants it.
    let why = far.iter().map(|name| (*name, "hide_address"));
    for (name, why) in why.chain([("bruno", "`bruno`")]) {
        let refused = alice.run(&["ping", name, "--count", "1"]).unwrap();
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    for name in &far {
        assert!(!links(&ring, name).unwrap().contains("alice"), "{name}");
    }
    curious
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    assert!(
        curious.recv(&mut [0; 2048]).is_err(),
        "bruno has heard of it"
    );
    // Through a parent it is reached nevertheless, and shows nothing.
    is_relayed_to(&ring, far[0], "alice");
    // The same ones after a restart: in the long run few have seen it.
    let alice = ring.member_mut("alice").unwrap();
    alice.kill().unwrap();
    alice.start().unwrap();
    let again = wait_until(DEADLINE, || match links(&ring, "alice")? {
        found if found == parents => Ok(()),
        found => Err(TestbedError(format!("{found:?} instead of {parents:?}"))),
    });
    again.unwrap();
}

#[test]
fn a_router_cannot_hide() {
    let builder = RingBuilder::new(program()).absent_router("oslo");
    let ring = builder.start().unwrap();
    let oslo = ring.member("oslo").unwrap();
    let config = oslo.home.join("ringway.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("[node]\n", "[node]\nhide_address = true\n"),
    )
    .unwrap();
    let refused = oslo.run(&["node"]).unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for word in ["ringway.toml", "hide_address", "router", "leaf"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
}
