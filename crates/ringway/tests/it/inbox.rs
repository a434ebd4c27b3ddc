//! What a receiver decides about files: by rules, by a person's answer, and by a program.

use std::fs;

use ringway_testbed::{Ring, RingBuilder, TestbedError, wait_until};
use serde_json::Value;

use super::{program, transfer_when};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(180);

/// A ring in which lima has these rules.
fn with_rules(rules: &str) -> Ring {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let lima = ring.member_mut("lima").unwrap();
    let file = lima.home.join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("[[receive]]").unwrap();
    let (_, behind) = rest.split_once("[limits]").unwrap();
    fs::write(&file, format!("{before}{rules}\n[limits]{behind}")).unwrap();
    lima.reload().unwrap();
    let loaded = wait_until(DEADLINE, || {
        let log = ring.member("lima")?.log_text();
        match log.contains("the configuration was loaded again") {
            true => Ok(()),
            false => Err(TestbedError(log)),
        }
    });
    loaded.unwrap();
    ring
}

fn sent(ring: &Ring, name: &str, content: &[u8]) -> String {
    let file = ring.folder().join(name);
    fs::write(&file, content).unwrap();
    let oslo = ring.member("oslo").unwrap();
    let queued = oslo.call(&["send", file.to_str().unwrap(), "lima", "--detach"]);
    queued.unwrap()[0]["id"].as_str().unwrap().to_owned()
}

fn item_when(ring: &Ring, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let found = wait_until(DEADLINE, || {
        let items = ring.member("lima")?.call(&["inbox"])?;
        let item = items.iter().find(|item| item["id"] == id);
        match item.filter(|item| wanted(item)) {
            Some(item) => Ok(item.clone()),
            None => Err(TestbedError(format!("{items:?}"))),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", ring.member("lima").unwrap().log_text()))
}

#[test]
fn accepted_file_comes_and_runs_its_program() {
    let ring = with_rules(
        "[[receive]]\nfrom = [\"os*\"]\ninto = \"asked\"\nask = true\nrun = [\"/bin/sh\", \"-c\", \"echo ran for $RINGWAY_FROM; cp \\\"$RINGWAY_FILE\\\" copy\"]\n",
    );
    let id = sent(&ring, "a b.txt", b"content");
    let asks = item_when(&ring, &id, |item| item["state"] == "asks");
    assert_eq!(asks["schema"], "ringway.inbox/1");
    assert_eq!(asks["from"], "oslo");
    let waits = transfer_when(&ring, "oslo", &id, |transfer| {
        transfer["state"] == "waiting"
    });
    let reason = waits["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("a person at lima accepts it"), "{waits}");
    let lima = ring.member("lima").unwrap();
    lima.call(&["inbox", "accept", &id[..8]]).unwrap();
    let received = item_when(&ring, &id, |item| item["hook"]["state"] == "done");
    assert_eq!(received["state"], "received");
    let path = received["path"].as_str().unwrap();
    assert!(path.ends_with("/lima/asked/a b.txt"), "{path}");
    assert_eq!(fs::read(path).unwrap(), b"content");
    assert_eq!(fs::read(lima.home.join("asked/copy")).unwrap(), b"content");
    assert!(lima.log_text().contains("line=\"ran for oslo\""));
    let done = transfer_when(&ring, "oslo", &id, |transfer| transfer["state"] == "done");
    assert!(done["ended"].as_u64() >= done["created"].as_u64(), "{done}");
    // Answered once.
    assert!(lima.call(&["inbox", "refuse", &id]).is_err());
}

#[test]
fn refusals_say_rule_and_limit_at_both_ends() {
    let ring = with_rules(
        "[[receive]]\ntype = [\"program\"]\nrefuse = true\n[[receive]]\nmax = \"1 kB\"\n",
    );
    let large = sent(&ring, "large.bin.txt", &[7; 3000]);
    let words = "the file has 3 kB, and rule 2 of lima's [[receive]] takes at most 1 kB";
    let failed = transfer_when(&ring, "oslo", &large, |transfer| {
        transfer["state"] == "failed"
    });
    assert_eq!(failed["reason"], format!("refused: {words}"));
    let item = item_when(&ring, &large, |item| item["state"] == "refused");
    assert_eq!(item["reason"], words);
    let tricky = sent(&ring, "x.txt\u{202e}.exe", b"x");
    let failed = transfer_when(&ring, "oslo", &tricky, |transfer| {
        transfer["state"] == "failed"
    });
    assert_eq!(
        failed["reason"],
        "refused: rule 1 of lima's [[receive]] refuses it"
    );
    let oslo = ring.member("oslo").unwrap();
    let listed = oslo.call(&[
        "transfers",
        "--to",
        "lima",
        "--state",
        "failed",
        "--limit",
        "1",
    ]);
    let listed = listed.unwrap();
    assert_eq!(listed.len(), 1);
    // Both may have begun in the same second.
    assert!(
        [large, tricky]
            .iter()
            .any(|id| listed[0]["id"] == id.as_str())
    );
    assert!(oslo.call(&["transfers", "--receive"]).unwrap().is_empty());
}
