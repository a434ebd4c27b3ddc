//! Members that join by an invite that was read aloud.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringway_testbed::{Network, Outcome, Process, TestbedError, free_address, wait_until};
use serde_json::Value;

use super::program;

struct Place {
    folder: tempfile::TempDir,
    enrol: String,
    serving: Option<Process>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (dns, enrol) = (free_address().unwrap(), free_address().unwrap());
        let mut place = Place {
            folder,
            enrol: enrol.to_string(),
            serving: None,
        };
        let (dns, enrol) = (dns.to_string(), enrol.to_string());
        let init = [
            "ring",
            "init",
            "ring.test",
            "--dns",
            &dns,
            "--enrol",
            &enrol,
        ];
        object(&place.at("owner", &init, ""));
        place.serve();
        place
    }

    fn serve(&mut self) {
        self.serving = None;
        let home = self.home("owner");
        let serve = [
            "--json",
            "--home",
            &home,
            "ring",
            "serve",
            "--exit-with-stdin",
        ];
        let log = self.folder.path().join("owner.log");
        self.serving = Some(Process::start(program().command(serve), &log).unwrap());
    }

    fn home(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn at(&self, home: &str, arguments: &[&str], input: &str) -> Outcome {
        let home = self.home(home);
        let all = [&["--json", "--home", &home], arguments].concat();
        program().run_with_input(all, input).unwrap()
    }

    fn invite(&self, name: &str, more: &[&str]) -> String {
        let arguments = [
            &["ring", "invite", name, "--role", "leaf", "--spoken"],
            more,
        ]
        .concat();
        let invite = object(&self.at("owner", &arguments, ""));
        assert!(
            text(&invite["invite"]).starts_with("rw1"),
            "the long form is there as well"
        );
        text(&invite["spoken"])
    }

    fn join(&self, home: &str, typed: &str) -> Outcome {
        self.at(home, &["join", "--at", &self.enrol], typed)
    }
}

fn object(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome.objects().unwrap().pop().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn refused(outcome: &Outcome, words: &str) {
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    assert_eq!(
        outcome.stderr.trim().lines().count(),
        1,
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stdout, "");
}

/// The same invite with another first word.
fn misheard(invite: &str) -> String {
    let (number, rest) = invite.split_once('-').unwrap();
    let (first, rest) = rest.split_once('-').unwrap();
    let other = if first == "zulu" { "ragtime" } else { "zulu" };
    format!("{number}-{other}-{rest}")
}

#[test]
fn leaf_joins_by_words_and_reaches_a_router() {
    let place = Place::new();
    let listen = free_address().unwrap().to_string();
    let routers = ["ring", "invite", "oslo", "--spoken"];
    let oslo = text(&object(&place.at("owner", &routers, ""))["spoken"]);
    let join = ["join", "--at", &place.enrol, "--listen", &listen];
    let joined = object(&place.at("oslo", &join, &oslo));
    assert_eq!(
        (text(&joined["role"]), text(&joined["address"])),
        ("router".to_owned(), listen)
    );
    // As somebody types it who has heard it: without the domain, in capitals, with spaces, and most
    // words cut short.
    let heard = place.invite("alice", &[]);
    let code = heard.split('@').next().unwrap();
    let typed = format!("  {}\n", code.to_ascii_uppercase().replace('-', " "));
    let joined = object(&place.join("alice", &typed));
    assert_eq!(
        (text(&joined["name"]), text(&joined["ring"])),
        ("alice".to_owned(), "ring.test".to_owned())
    );
    let start = |name: &str| {
        let home = place.home(name);
        let arguments = ["--json", "--home", &home, "node", "--exit-with-stdin"];
        let log = place.folder.path().join(format!("{name}.log"));
        Process::start(program().command(arguments), &log).unwrap()
    };
    let _daemons = (start("oslo"), start("alice"));
    let answered = wait_until(Duration::from_secs(60), || {
        let pinged = place.at("alice", &["ping", "oslo", "--count", "1"], "");
        match pinged.code {
            Some(0) => Ok(()),
            _ => Err(TestbedError(pinged.stderr)),
        }
    });
    answered.unwrap();
}

/// The owner sees it.
#[test]
fn wrong_words_burn_an_invite_across_restarts() {
    let mut place = Place::new();
    let invite = place.invite("alice", &[]);
    let wrong = misheard(&invite);
    refused(&place.join("mallory", &wrong), "2 tries are left");
    refused(&place.join("mallory", &wrong), "one try is left");
    place.serve();
    refused(&place.join("mallory", &wrong), "last try");
    refused(&place.join("alice", &invite), "no more");
    let listed = object(&place.at("owner", &["ring", "members"], ""));
    assert_eq!(
        (&listed["burnt"], &listed["wrong_tries"]),
        (&Value::from(true), &Value::from(3))
    );
    // A new one mends it.
    let newer = place.invite("alice", &[]);
    refused(&place.join("alice", &invite), "newer one");
    object(&place.join("alice", &newer));
    let log = fs::read_to_string(place.folder.path().join("owner.log")).unwrap();
    for secret in invite.split(['-', '@']).skip(1).take(3) {
        assert!(!log.contains(secret), "{log}");
    }
}

/// It waits until an invite has expired, of which the shortest lasts a second.
#[test]
fn used_expired_and_unanswered_invites_say_so() {
    let mut place = Place::new();
    let used = place.invite("alice", &[]);
    object(&place.join("alice", &used));
    refused(&place.join("thief", &used), "used already");
    let expired = place.invite("bob", &["--expires", "1s"]);
    // Times are whole seconds: two later it has ended in any case.
    std::thread::sleep(Duration::from_millis(2_100));
    refused(&place.join("bob", &expired), "expired");
    refused(
        &place.join("bob", "4711-crackdown-adviser-ragtime"),
        "not known",
    );
    let open = place.invite("carol", &[]);
    place.serving = None;
    refused(&place.join("carol", &open), "ring serve");
}

#[test]
fn the_words_alone_are_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let at = |arguments: &[&str]| program().run([&["--home", home, "ring"], arguments].concat());
    at(&["init", "ring.test"]).unwrap();
    let shown = at(&["invite", "oslo", "--spoken"]).unwrap();
    let line = shown.stdout.trim();
    assert_eq!(shown.stdout.lines().count(), 1, "{line}");
    assert!(
        line.starts_with("1-") && line.ends_with("@ring.test"),
        "{line}"
    );
    let words: Vec<&str> = line.split(['-', '@']).skip(1).take(3).collect();
    assert!(
        words.iter().all(|word| !shown.stderr.contains(word)),
        "the secret is not in the notes"
    );
}

/// A network of its own, in which the ring's DNS server is the one of the system.
#[test]
fn the_systems_resolver_says_where_to_join() {
    let Some(mut network) = Network::or_skip("the_systems_resolver_says_where_to_join").unwrap()
    else {
        return;
    };
    let host = network.host("alone").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let there = program().on(&host);
    let owner = home("owner");
    let at_owner = |arguments: &[&str]| {
        let all = [&["--json", "--home", &owner, "ring"], arguments].concat();
        object(&there.run(all).unwrap())
    };
    at_owner(&[
        "init",
        "ring.test",
        "--dns",
        "127.0.0.1:53",
        "--enrol",
        "127.0.0.1:7410",
    ]);
    let invite = text(&at_owner(&["invite", "alice", "--role", "leaf", "--spoken"])["spoken"]);
    let serve = there.command([
        "--json",
        "--home",
        &owner,
        "ring",
        "serve",
        "--exit-with-stdin",
    ]);
    let _serving = Process::start(serve, &folder.path().join("owner.log")).unwrap();
    let typed = folder.path().join("typed");
    fs::write(&typed, invite).unwrap();
    let resolv = folder.path().join("resolv.conf");
    fs::write(&resolv, "nameserver 127.0.0.1\n").unwrap();
    // `ip netns exec` has given the command a view of the file system of its own.
    let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    let mut join: Command = host.command(Path::new("sh"));
    join.args(["-c", script])
        .arg(&resolv)
        .arg(env!("CARGO_BIN_EXE_ringway"));
    join.args(["--json", "--home", &home("alice"), "join", "--invite"])
        .arg(&typed);
    let output = join.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("ring.test"));
}
