//! Members that join by file, while none of them can reach the authority.

use std::fs;
use std::path::Path;

use ringway_testbed::{Outcome, free_address};
use serde_json::Value;

use super::{program, run};

struct Place {
    folder: tempfile::TempDir,
    ring: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let mut place = Place {
            folder,
            ring: String::new(),
        };
        let founded = object(&place.at("owner", &["ring", "init", "ring.test"]));
        place.ring = text(&founded["ring"]);
        place
    }

    fn at(&self, home: &str, arguments: &[&str]) -> Outcome {
        let home = self.folder.path().join(home);
        run(&[&["--json", "--home", home.to_str().unwrap()], arguments].concat())
    }

    /// A file with what a command printed.
    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text(content)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn request(&self, home: &str, arguments: &[&str]) -> (Value, String) {
        let made = object(&self.at(home, &[&["join", "--offline"], arguments].concat()));
        let file = self.file(&format!("{home}.request"), &made["request"]);
        (made, file)
    }
}

fn object(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.objects().unwrap().pop().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn refused(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

#[test]
fn router_and_leaf_join_without_reaching_authority() {
    let place = Place::new();
    let listen = free_address().unwrap().to_string();
    let (asked, oslo) = place.request("oslo", &["--name", "oslo", "--listen", &listen]);
    assert_eq!(asked["schema"], "ringway.admission-request/1");
    assert_eq!(
        (text(&asked["role"]), text(&asked["address"])),
        ("router".to_owned(), listen.clone())
    );
    let id = text(&asked["member"]);
    let admitted = object(&place.at("owner", &["ring", "admit", &oslo, "--member", &id[..16]]));
    assert_eq!(admitted["schema"], "ringway.admitted/1");
    assert_eq!(
        (&admitted["name"], &admitted["member"]),
        (&asked["name"], &asked["member"])
    );
    assert_eq!(text(&admitted["ring"]), place.ring);
    let reply = place.file("oslo.reply", &admitted["reply"]);
    let joined = object(&place.at("oslo", &["join", "--with", &reply, "--ring", &place.ring]));
    assert_eq!(
        (text(&joined["role"]), text(&joined["address"])),
        ("router".to_owned(), listen)
    );
    // Admitted again it gets the same certificate; joined again it is a member already.
    let again = object(&place.at("owner", &["ring", "admit", &oslo, "--member", &id]));
    assert_eq!(
        (&again["again"], &again["serial"]),
        (&Value::from(true), &admitted["serial"])
    );
    refused(
        &place.at("oslo", &["join", "--with", &reply, "--ring", &place.ring]),
        2,
        "oslo",
    );

    let (asked, alice) = place.request("alice", &["--name", "alice"]);
    let id = text(&asked["member"]);
    let admitted = object(&place.at("owner", &["ring", "admit", &alice, "--member", &id]));
    let reply = place.file("alice.reply", &admitted["reply"]);
    object(&place.at("alice", &["join", "--with", &reply, "--ring", &place.ring]));
    let members = place.at("owner", &["ring", "members"]).objects().unwrap();
    let names: Vec<&Value> = members.iter().map(|member| &member["name"]).collect();
    assert_eq!(names, ["oslo", "alice"]);
    talk(&place);
}

/// The two find each other and talk: the leaf knows the router from its reply. There is no DNS at
/// all.
fn talk(place: &Place) {
    let start = |name: &str| {
        let home = place.folder.path().join(name);
        let arguments = [
            "--json",
            "--home",
            home.to_str().unwrap(),
            "node",
            "--exit-with-stdin",
        ];
        let log = place.folder.path().join(format!("{name}.log"));
        ringway_testbed::Process::start(program().command(arguments), &log).unwrap()
    };
    let _daemons = (start("oslo"), start("alice"));
    let answered = ringway_testbed::wait_until(std::time::Duration::from_secs(60), || {
        let pinged = place.at("alice", &["ping", "oslo", "--count", "1"]);
        match pinged.code {
            Some(0) => Ok(()),
            _ => Err(ringway_testbed::TestbedError(pinged.stderr)),
        }
    });
    answered.unwrap();
}

#[test]
fn impostor_is_not_admitted() {
    let place = Place::new();
    let (asked, file) = place.request("alice", &["--name", "alice"]);
    let (impostor, _) = place.request("impostor", &["--name", "alice"]);
    let id = text(&impostor["member"]);
    let admit = |more: &[&str]| place.at("owner", &[&["ring", "admit", &file], more].concat());
    refused(&admit(&["--member", &id]), 2, "another key");
    refused(&admit(&["--member", &id[..5]]), 2, "too short");
    refused(&admit(&[]), 2, "--member");
    assert!(place.at("owner", &["ring", "members"]).stdout.is_empty());

    let changed = text(&asked["request"]);
    let last = changed.len() - 2;
    let other = if changed.ends_with("AA") { "BB" } else { "AA" };
    let changed = place.file(
        "changed",
        &Value::from(format!("{}{other}", &changed[..last])),
    );
    let id = text(&asked["member"]);
    let forged = place.at("owner", &["ring", "admit", &changed, "--member", &id]);
    assert_eq!(forged.code, Some(2), "{}", forged.stderr);
    refused(
        &place.at("owner", &["ring", "admit", "/nowhere/at/all"]),
        2,
        "/nowhere/at/all",
    );

    object(&admit(&["--member", &id]));
    let (second, file) = place.request("bob", &["--name", "alice"]);
    let id = text(&second["member"]);
    let taken = place.at("owner", &["ring", "admit", &file, "--member", &id]);
    refused(&taken, 2, "belongs to a member");
}

#[test]
fn reply_must_match_ring_and_last_request() {
    let place = Place::new();
    let (asked, file) = place.request("alice", &["--name", "alice"]);
    let id = text(&asked["member"]);
    let admit = |home: &str| {
        let admitted = object(&place.at(home, &["ring", "admit", &file, "--member", &id]));
        place.file(&format!("{home}.reply"), &admitted["reply"])
    };
    object(&place.at("false", &["ring", "init", "ring.test"]));
    let (right, false_ring) = (admit("owner"), admit("false"));
    let join = |reply: &str| place.at("alice", &["join", "--with", reply, "--ring", &place.ring]);
    refused(&join(&false_ring), 2, "not the one expected");
    refused(&place.at("alice", &["join", "--with", &right]), 2, "--ring");
    refused(&join(&file), 2, "rwr1=");
    refused(
        &place.at(
            "stranger",
            &["join", "--with", &right, "--ring", &place.ring],
        ),
        2,
        "no request",
    );
    let home = place.folder.path().join("alice");
    assert!(!joined(&home));
    // A newer request makes replies to the older one worthless.
    place.request("alice", &["--name", "alice"]);
    refused(&join(&right), 2, "another request");
    let newest = admit("owner");
    object(&join(&newest));
    assert!(joined(&home));
}

fn joined(home: &Path) -> bool {
    home.join("ringway.toml").exists()
}

#[test]
fn wrong_usage_is_said_so() {
    let place = Place::new();
    for (arguments, words) in [
        (&["join", "--offline"][..], "--name"),
        (
            &["join", "--offline", "--name", "Not A Name"],
            "member name",
        ),
        (
            &[
                "join",
                "--offline",
                "--name",
                "oslo",
                "--listen",
                "0.0.0.0:1",
            ],
            "--listen",
        ),
        (
            &["join", "--offline", "--name", "oslo", "--invite", "x"],
            "--invite",
        ),
        (
            &["join", "--with", "x", "--listen", "192.0.2.1:1"],
            "--listen",
        ),
        (&["join", "--with", "/nowhere/x.reply"], "/nowhere/x.reply"),
    ] {
        refused(&place.at("alice", arguments), 2, words);
    }
}
