//! A revocation reaches those, too, who get no answer from DNS: members tell each other.

use std::fs;
use std::time::Duration;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};

use super::{ping_until_answered, program};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(90);

const ROUTERS: [&str; 4] = ["oslo", "lima", "quito", "accra"];

/// Gives a member a DNS server that does not answer, and starts it again.
fn without_dns(ring: &mut Ring, name: &str) {
    let path = ring.folder().join(name).join("ringway.toml");
    let member = ring.member_mut(name).unwrap();
    member.terminate().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let resolver = text.lines().find(|line| line.starts_with("resolver"));
    let resolver = resolver.unwrap_or_else(|| panic!("no DNS server of its own: {text}"));
    let changed = text.replace(resolver, "resolver = \"127.0.0.1:9\"");
    fs::write(&path, changed).unwrap();
    member.start().unwrap();
}

/// Whether a member has a link with another.
fn is_linked(ring: &Ring, name: &str, peer: &str) -> Result<bool, TestbedError> {
    let status = ring.member(name)?.status()?;
    let links = status["links"].as_array().cloned().unwrap_or_default();
    Ok(links.iter().any(|link| link["name"] == peer))
}

/// Number of the owner's statement that a member knows.
fn statement(ring: &Ring, name: &str) -> Result<u64, TestbedError> {
    let status = ring.member(name)?.status()?;
    let number = status["statement"].as_u64();
    number.ok_or_else(|| TestbedError(status.to_string()))
}

#[test]
fn member_without_dns_learns_revocations_from_others() {
    let builder = RingBuilder::new(program());
    let builder = ROUTERS.iter().fold(builder, |b, name| b.router(name));
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    // No member is behind, so that whatever is newer later is the revocation.
    let level = wait_until(DEADLINE, || {
        let numbers = ROUTERS.iter().chain(&["alice"]);
        let mut numbers = numbers
            .map(|name| statement(&ring, name))
            .collect::<Result<Vec<_>, _>>()?;
        numbers.dedup();
        match numbers.len() {
            1 => Ok(()),
            _ => Err(TestbedError(format!("{numbers:?}"))),
        }
    });
    level.unwrap();
    // Both know lima: a link shows that it is trusted, and the end of it that it is not any more.
    for name in ["accra", "alice"] {
        ping_until_answered(&ring, name, "lima");
        without_dns(&mut ring, name);
    }
    ring.wait_until_settled().unwrap();
    let linked = wait_until(DEADLINE, || match is_linked(&ring, "accra", "lima")? {
        true => Ok(()),
        false => Err(TestbedError("accra has no link with lima yet".to_owned())),
    });
    linked.unwrap();

    let known = statement(&ring, "accra").unwrap();
    ring.owner_call(&["ring", "revoke", "lima"]).unwrap();
    for name in ["accra", "alice"] {
        let ended = wait_until(DEADLINE, || {
            let log = ring.member(name)?.log_text();
            let heard = log.contains("another router says") || name == "alice";
            match heard && !is_linked(&ring, name, "lima")? && statement(&ring, name)? > known {
                true => Ok(()),
                false => Err(TestbedError(format!("{name} still trusts lima"))),
            }
        });
        ended.unwrap_or_else(|error| panic!("{error}\n{}", ring.member(name).unwrap().log_text()));
    }
    // It is not let in again, and what was heard is remembered.
    for name in ["accra", "alice"] {
        let member = ring.member_mut(name).unwrap();
        member.terminate().unwrap();
        member.start().unwrap();
        wait_until(DEADLINE, || ring.member(name)?.status()).unwrap();
    }
    let ping = ring.member("accra").unwrap();
    let ping = ping.run(&["ping", "lima", "--count", "1"]).unwrap();
    // Its certificate, which is on accra's disk, does not count: so DNS is asked, in vain.
    let told = ping.stderr;
    assert!(
        told.contains("DNS did not answer") || told.contains("revoked"),
        "{told}"
    );
}
