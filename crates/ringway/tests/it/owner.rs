//! The ring owner's commands, without a running authority.

use std::path::Path;

use ringway_node::certificate::{Certificate, CertificateFields};
use ringway_node::evidence::Evidence;
use ringway_node::identity::Identity;
use ringway_overlay::{Accusation, Header, SignedHeader};
use ringway_testbed::Outcome;
use ringway_transport::Signer;
use serde_json::Value;

use super::run;

fn ring(home: &Path, arguments: &[&str]) -> Outcome {
    run(&[
        &["--json", "--home", home.to_str().unwrap(), "ring"],
        arguments,
    ]
    .concat())
}

fn object(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.objects().unwrap().pop().unwrap()
}

#[test]
fn invite_goes_to_a_new_private_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    object(&ring(folder.path(), &["init", "ring.test"]));
    let (file, link) = (
        folder.path().join("oslo.invite"),
        folder.path().join("link"),
    );
    let out = file.to_str().unwrap();
    let invited = object(&ring(folder.path(), &["invite", "oslo", "--out", out]));
    assert!(invited["invite"].is_null(), "{invited}");
    assert_eq!(invited["file"], out);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("rw1") && text.ends_with('\n'), "{text}");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
    for taken in [out, link.to_str().unwrap()] {
        let refused = ring(folder.path(), &["invite", "oslo", "--out", taken]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert!(!folder.path().join("elsewhere").exists());
    // A name that is none leaves no file.
    let none = folder.path().join("none");
    let refused = ring(
        folder.path(),
        &["invite", "No Name", "--out", none.to_str().unwrap()],
    );
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(!none.exists());
}

#[test]
fn a_ring_is_founded_once() {
    let folder = tempfile::tempdir().unwrap();
    let founded = object(&ring(folder.path(), &["init", "ring.test"]));
    assert_eq!(founded["schema"], "ringway.ring/1");
    assert_eq!(founded["domain"], "ring.test");
    let key = folder.path().join("authority/root.key");
    let before = std::fs::read(&key).unwrap();
    let again = ring(folder.path(), &["init", "other.test"]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert_eq!(
        std::fs::read(&key).unwrap(),
        before,
        "the first ring's key stays"
    );
}

#[test]
fn newer_invitation_differs_and_withdraws_the_older() {
    let folder = tempfile::tempdir().unwrap();
    object(&ring(folder.path(), &["init", "ring.test"]));
    let first = object(&ring(folder.path(), &["invite", "oslo"]));
    let second = object(&ring(
        folder.path(),
        &["invite", "alice", "--role", "leaf", "--expires", "2h"],
    ));
    assert_eq!(first["schema"], "ringway.invite/1");
    assert_eq!(
        (&first["role"], &second["role"]),
        (&Value::from("router"), &Value::from("leaf"))
    );
    assert_ne!(first["invite"], second["invite"]);
    assert_eq!(first["withdraws"], false);
    let newer = object(&ring(folder.path(), &["invite", "oslo"]));
    assert_eq!(newer["withdraws"], true);
    assert_ne!(first["invite"], newer["invite"]);
    let listed = ring(folder.path(), &["members"]).objects().unwrap();
    let names: Vec<&Value> = listed.iter().map(|invite| &invite["name"]).collect();
    assert_eq!(
        names,
        ["alice", "oslo"],
        "each once, the one that ends first before"
    );
    object(&ring(folder.path(), &["revoke", "alice"]));
    assert_eq!(
        ring(folder.path(), &["members"]).objects().unwrap().len(),
        1
    );
    let gone = ring(folder.path(), &["revoke", "alice"]);
    assert_eq!(gone.code, Some(2), "{}", gone.stderr);
    let bad = ring(folder.path(), &["invite", "Not A Name"]);
    assert_eq!(bad.code, Some(2), "{}", bad.stderr);
}

#[test]
fn the_invitation_alone_is_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    run(&["--home", home, "ring", "init", "ring.test"]);
    let outcome = run(&["--home", home, "ring", "invite", "oslo"]);
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stdout);
    assert!(!outcome.stdout.trim().contains(' '), "{}", outcome.stdout);
    assert!(
        !outcome.stderr.contains(outcome.stdout.trim()),
        "the secret is not in the notes"
    );
}

#[test]
fn zone_goes_to_stdout_or_whole_to_file() {
    let folder = tempfile::tempdir().unwrap();
    object(&ring(folder.path(), &["init", "ring.test"]));
    let home = folder.path().to_str().unwrap();
    let shown = run(&["--home", home, "ring", "publish"]).stdout;
    assert!(shown.contains("SOA") && shown.contains("TXT"), "{shown}");
    let file = folder.path().join("ring.zone");
    let written = run(&[
        "--home",
        home,
        "ring",
        "publish",
        "--zone-file",
        file.to_str().unwrap(),
    ]);
    assert_eq!(
        (written.code, written.stdout.as_str()),
        (Some(0), ""),
        "{}",
        written.stderr
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), shown.trim());
    let zone = object(&run(&["--json", "--home", home, "ring", "publish"]));
    assert_eq!(zone["schema"], "ringway.zone/1");
    assert_eq!(zone["zone"].as_str().map(str::trim), Some(shown.trim()));
    let nowhere = run(&[
        "--home",
        home,
        "ring",
        "publish",
        "--zone-file",
        "/nonexistent/ring.zone",
    ]);
    assert_eq!(nowhere.code, Some(1));
}

const CONTEXT: &[u8] = b"ringway overlay statement";

/// A router of the ring in `home`.
fn router(owner: &Identity, name: &str, serial: u64) -> (Identity, Certificate) {
    let identity = Identity::generate().unwrap();
    let fields = CertificateFields {
        member: identity.member(),
        name: name.parse().unwrap(),
        address: Some(format!("192.0.2.{serial}:4000").parse().unwrap()),
        nonce: [7; 16],
        not_before: 0,
        not_after: u64::MAX,
        serial,
    };
    let certificate = Certificate::issue(owner, &fields);
    (identity, certificate)
}

/// What a router states of its group, which `content` stands for.
fn said(router: &(Identity, Certificate), content: u8) -> SignedHeader {
    let (identity, certificate) = router;
    let header = Header {
        author: certificate.ring_key().unwrap(),
        start: [0; 16],
        number: 5,
        previous: [0; 32],
        expires: 10,
        content: [content; 32],
    };
    let signature = identity.sign(CONTEXT, &header.statement());
    SignedHeader { header, signature }
}

fn owner(home: &Path) -> Identity {
    Identity::load(&home.join("authority/root.key")).unwrap()
}

/// Two statements of a router of the ring in `home`, of which it can have signed only one if it is
/// honest.
fn evidence(home: &Path) -> Evidence {
    let owner = owner(home);
    let liar = router(&owner, "oslo", 4);
    let (first, second) = (said(&liar, 1), said(&liar, 2));
    Evidence::new(&owner.member(), &liar.1, &first, &second)
}

/// An accusation of `oslo` by `rome`: `oslo` has signed the first of two statements only.
#[test]
fn who_accuses_falsely_is_guilty() {
    let folder = tempfile::tempdir().unwrap();
    object(&ring(folder.path(), &["init", "ring.test"]));
    let owner = owner(folder.path());
    let (oslo, rome) = (router(&owner, "oslo", 4), router(&owner, "rome", 5));
    let mut second = said(&oslo, 1);
    second.header.content = [2; 32];
    let mut accusation = Accusation {
        accuser: rome.1.ring_key().unwrap(),
        first: said(&oslo, 1),
        second,
        signature: [0; 64],
    };
    accusation.signature = rome.0.sign(CONTEXT, &accusation.statement());
    let file = folder.path().join("rome.evidence");
    let path = file.to_str().unwrap();
    let (of, by) = (&oslo.1, &rome.1);
    let evidence = Evidence::of_false_accusation(&owner.member(), by, &accusation, Some(of));
    std::fs::write(&file, evidence.as_bytes()).unwrap();
    let judged = object(&ring(folder.path(), &["judge", path]));
    let (guilty, name) = (&judged["guilty"], &judged["name"]);
    assert_eq!((guilty, name), (&Value::from(true), &Value::from("rome")));
    let reason = judged["reason"].as_str().unwrap();
    assert!(reason.contains("accused oslo"), "{judged}");
    // Whether it is false cannot be said without the certificate of the accused.
    let evidence = Evidence::of_false_accusation(&owner.member(), by, &accusation, None);
    std::fs::write(&file, evidence.as_bytes()).unwrap();
    let judged = ring(folder.path(), &["judge", path]);
    assert_eq!(judged.code, Some(1), "{}", judged.stderr);
}

#[test]
fn evidence_is_judged_by_what_was_signed() {
    let folder = tempfile::tempdir().unwrap();
    let founded = object(&ring(folder.path(), &["init", "ring.test"]));
    let file = folder.path().join("oslo.evidence");
    let bytes = evidence(folder.path()).as_bytes();
    std::fs::write(&file, &bytes).unwrap();
    let path = file.to_str().unwrap();
    // A new key is offered before the removal: the router may be honest and set up twice.
    let home = folder.path().to_str().unwrap();
    let text = run(&["--home", home, "ring", "judge", path]).stdout;
    let place = |what: &str| text.find(what).unwrap();
    assert!(
        place("ring rotate oslo") < place("ring revoke oslo"),
        "{text}"
    );
    let judged = object(&ring(folder.path(), &["judge", path]));
    assert_eq!(judged["schema"], "ringway.judgement/1");
    assert_eq!(
        (&judged["guilty"], &judged["name"]),
        (&Value::from(true), &Value::from("oslo"))
    );
    // A user who is not the owner needs the ring's identity, and nothing else.
    let elsewhere = tempfile::tempdir().unwrap();
    let unknown = ring(elsewhere.path(), &["judge", path]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
    let identity = founded["ring"].as_str().unwrap();
    let judged = object(&ring(
        elsewhere.path(),
        &["judge", path, "--ring", identity],
    ));
    assert_eq!(judged["guilty"], true);
    // Another ring's owner did not admit the accused.
    object(&ring(elsewhere.path(), &["init", "other.test"]));
    let foreign = ring(elsewhere.path(), &["judge", path]);
    assert_eq!(foreign.code, Some(1), "{}", foreign.stderr);
    // One bit, and it proves nothing.
    let mut forged = bytes;
    let last = forged.len() - 1;
    forged[last] ^= 1;
    std::fs::write(&file, &forged).unwrap();
    let refused = ring(folder.path(), &["judge", path]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let object = refused.objects().unwrap().pop().unwrap();
    assert_eq!(object["guilty"], false);
    assert!(
        object["reason"].as_str().unwrap().contains("did not sign"),
        "{object}"
    );
    let absent = ring(folder.path(), &["judge", "/nowhere/at/all"]);
    assert_eq!(absent.code, Some(2), "{}", absent.stderr);
}
