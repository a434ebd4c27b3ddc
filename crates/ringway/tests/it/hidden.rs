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

/// Leaves of which some are known to the ring at a router that is no parent of alice's.
const LEAVES: [&str; 6] = ["bob", "carl", "dana", "emil", "fritz", "gina"];

fn links(ring: &Ring, name: &str) -> Result<BTreeSet<String>, TestbedError> {
    let status = ring.member(name)?.status()?;
    let links = status["links"].as_array().cloned().unwrap_or_default();
    let name = |link: &Value| link["name"].as_str().unwrap_or_default().to_owned();
    Ok(links.iter().map(name).collect())
}

fn parents(ring: &Ring, name: &str) -> Result<BTreeSet<String>, TestbedError> {
    let status = ring.member(name)?.status()?;
    let parents = status["parents"].as_array().cloned().unwrap_or_default();
    let name = |router: &Value| router["name"].as_str().unwrap_or_default().to_owned();
    Ok(parents.iter().map(name).collect())
}

/// Routers in the order of the ring, and how many leaves each of them keeps.
fn kept(ring: &Ring) -> Result<Vec<(String, u64)>, TestbedError> {
    let statuses = ROUTERS.iter().map(|name| ring.member(name)?.status());
    let mut statuses = statuses.collect::<Result<Vec<Value>, TestbedError>>()?;
    statuses.sort_by_key(|status| status["ring_key"].to_string());
    let kept = |status: &Value| {
        let name = status["name"].as_str().unwrap_or_default().to_owned();
        (
            name,
            status["counters"]["leaves_kept"]
                .as_u64()
                .unwrap_or_default(),
        )
    };
    Ok(statuses.iter().map(kept).collect())
}

/// Starts leaves until one is known at a router that is not in `near`; gives its name.
fn start_a_leaf_known_elsewhere(ring: &mut Ring, near: &BTreeSet<String>) -> &'static str {
    for leaf in LEAVES {
        let before = kept(ring).unwrap();
        ring.member_mut(leaf).unwrap().start().unwrap();
        // The router that is responsible and its successor.
        let keepers = wait_until(DEADLINE, || {
            let now = kept(ring)?;
            let more: Vec<bool> = now.iter().zip(&before).map(|(a, b)| a.1 > b.1).collect();
            match more.iter().filter(|more| **more).count() {
                2 => Ok(more),
                _ => Err(TestbedError(format!("{leaf}: {now:?} after {before:?}"))),
            }
        });
        let keepers = keepers.unwrap();
        let count = keepers.len();
        let first = (0..count).find(|n| keepers[*n] && keepers[(n + 1) % count]);
        if !near.contains(&before[first.unwrap()].0) {
            return leaf;
        }
    }
    LEAVES[0]
}

/// Sends a file, which arrives.
fn sends_to(ring: &Ring, name: &str, peer: &str) {
    let file = ring.folder().join("file.bin");
    fs::write(&file, random_bytes(peer, 300_000)).unwrap();
    let file = file.to_str().unwrap();
    let sent = ring.member(name).unwrap().call(&["send", file, peer]);
    let sent = sent.unwrap();
    assert_eq!(sent.last().unwrap()["state"], "done", "{sent:?}");
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
fn leaf_shows_itself_to_its_parents_only() {
    let builder = ROUTERS
        .iter()
        .fold(RingBuilder::new(program()), |ring, name| ring.router(name));
    let builder = builder.absent_leaf("alice").absent_leaf("bruno");
    let builder = LEAVES.iter().fold(builder, |b, name| b.absent_leaf(name));
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
    let near = wait_until(DEADLINE, || {
        let near = links(&ring, "alice")?;
        match near.len() {
            3 => Ok(near),
            _ => Err(TestbedError(format!("{near:?}"))),
        }
    });
    let near = near.unwrap();
    let other = start_a_leaf_known_elsewhere(&mut ring, &near);
    let alice = ring.member("alice").unwrap();
    assert_eq!(
        alice.status().unwrap()["addresses"],
        Value::Array(Vec::new())
    );
    let far: Vec<&str> = ROUTERS.into_iter().filter(|n| !near.contains(*n)).collect();
    // Files reach a parent over the link.
    sends_to(&ring, "alice", near.first().unwrap());
    // Routers and leaves to which it shows nothing are reached through parents.
    for name in [far[0], far[1], other] {
        is_relayed_to(&ring, "alice", name);
        sends_to(&ring, "alice", name);
    }
    assert_eq!(parents(&ring, "alice").unwrap(), near, "and no other");
    for name in &far {
        let status = ring.member(name).unwrap().status().unwrap();
        let links = status["links"].as_array().unwrap();
        let shown = links.iter().filter(|link| link["name"] == "alice");
        let shown = shown.map(|link| link["address"].as_str().unwrap());
        let shown: Vec<&str> = shown.collect();
        assert!(shown.iter().all(|a| a.starts_with("relay://")), "{shown:?}");
    }
    // No other address is asked directly, whatever the user wants.
    let refused = ring.member("alice").unwrap();
    let refused = refused.run(&["ping", "bruno", "--count", "1"]).unwrap();
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("`bruno`"), "{}", refused.stderr);
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
    let again = wait_until(DEADLINE, || match parents(&ring, "alice")? {
        found if found == near => Ok(()),
        found => Err(TestbedError(format!("{found:?} instead of {near:?}"))),
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
