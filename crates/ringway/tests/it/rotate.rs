//! Members change their keys: real daemons, the authority's own DNS and enrolment, files under way,
//! and those who would like to profit.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Member, Outcome, Ring, RingBuilder, TestbedError, free_address, wait_until};
use serde_json::Value;

use super::{ping_until_answered, program, random_bytes, run, transfer_when};

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of the file; at the sender's limit it takes several seconds.
const SIZE: usize = 24 << 20;

/// Bytes that have arrived when keys begin to change.
const ARRIVED: u64 = 4 << 20;

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn id_of(member: &Member) -> Result<String, TestbedError> {
    let status = member.status()?;
    let id = status["member"].as_str();
    id.map(str::to_owned)
        .ok_or_else(|| TestbedError(status.to_string()))
}

/// The new id of a member that had the id `old`, once its daemon runs with it.
fn wait_for_new_id(ring: &Ring, name: &str, old: &str) -> String {
    let member = ring.member(name).unwrap();
    let found = wait_until(DEADLINE, || {
        let id = id_of(member)?;
        match id == old {
            false => Ok(id),
            true => Err(TestbedError(format!("{name} has its old key"))),
        }
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()))
}

/// What `ring members` says of a name, the newest last.
fn entries(ring: &Ring, name: &str) -> Vec<Value> {
    let mut members = ring.owner_call(&["ring", "members"]).unwrap();
    members.retain(|member| member["name"] == name);
    members
}

fn states(ring: &Ring, name: &str) -> Vec<String> {
    let entries = entries(ring, name);
    entries.iter().map(|entry| text(&entry["state"])).collect()
}

fn secret_is_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", path.display());
}

fn copy_home(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() && entry.file_name() != "lock" {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Runs a command at a home that is no member's of the ring's.
fn at(home: &Path, arguments: &[&str]) -> Outcome {
    run(&[&["--json", "--home", home.to_str().unwrap()], arguments].concat())
}

#[test]
fn router_and_leaf_change_keys_during_a_transfer() {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .router("lima")
        .router("quito");
    let ring = builder
        .leaf_with("alice", &["--upload-limit", "1MiB"])
        .start()
        .unwrap();
    ring.wait_until_settled().unwrap();
    let names = ["oslo", "alice"];
    let before = names.map(|name| id_of(ring.member(name).unwrap()).unwrap());
    let content = random_bytes("rotate", SIZE);
    let file = ring.folder().join("big.bin");
    fs::write(&file, &content).unwrap();
    let alice = ring.member("alice").unwrap();
    alice.call(&["put", "printer", "blue"]).unwrap();
    let queued = alice.call(&["send", file.to_str().unwrap(), "oslo", "--detach"]);
    let id = text(&queued.unwrap()[0]["id"]);
    transfer_when(&ring, "oslo", &id, |transfer| {
        transfer["bytes"].as_u64() >= Some(ARRIVED)
    });

    // The receiver's, and while that file is still under way the sender's.
    let asked = ring.owner_call(&["ring", "rotate", "oslo"]).unwrap();
    assert_eq!(asked[0]["schema"], "ringway.member/1");
    assert!(asked[0]["rotate_until"].as_u64() > asked[0]["issued"].as_u64());
    let oslo = wait_for_new_id(&ring, "oslo", &before[0]);
    ring.owner_call(&["ring", "rotate", "alice"]).unwrap();
    let alice_id = wait_for_new_id(&ring, "alice", &before[1]);
    for name in names {
        assert_eq!(states(&ring, name), ["replaced", "active"]);
        let home = &ring.member(name).unwrap().home;
        secret_is_private(&home.join("identity.key"));
        assert!(!home.join("identity.next").exists());
    }

    let sent = transfer_when(&ring, "alice", &id, |transfer| transfer["state"] == "done");
    let received = transfer_when(&ring, "oslo", &id, |transfer| transfer["state"] == "done");
    assert!(
        received["resumed_from"].as_u64() >= Some(ARRIVED),
        "it began anew: {received}"
    );
    assert_eq!(sent["peer"], "oslo");
    assert!(
        fs::read(received["path"].as_str().unwrap()).unwrap() == content,
        "the file differs"
    );
    // The ring has closed again, with the router at another place; others reach both by their
    // names, and by their new ids.
    ring.wait_until_settled().unwrap();
    let lima = ring.member("lima").unwrap();
    for (name, id) in [("oslo", &oslo), ("alice", &alice_id)] {
        for peer in [name, id.as_str()] {
            ping_until_answered(&ring, "lima", peer);
        }
    }
    // What it had left in the ring is there again, under its new key.
    let got = wait_until(DEADLINE, || lima.call(&["get", "alice", "printer"])).unwrap();
    assert_eq!(got[0]["value"], "blue");
}

#[test]
fn stolen_old_key_is_worthless() {
    let builder = RingBuilder::new(program())
        .router("oslo")
        .router("lima")
        .router("quito");
    let ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let alice = ring.member("alice").unwrap();
    let old = id_of(alice).unwrap();
    let stolen = ring.folder().join("stolen");
    copy_home(&alice.home, &stolen);
    for name in ["oslo", "lima", "quito"] {
        ping_until_answered(&ring, "alice", name);
    }

    // The thief cannot have the key changed by itself.
    let request = text(&at(&stolen, &["rotate", "--offline"]).objects().unwrap()[0]["request"]);
    let request_file = ring.folder().join("thief.request");
    fs::write(&request_file, &request).unwrap();
    let request_file = request_file.to_str().unwrap();

    ring.owner_call(&["ring", "rotate", "alice"]).unwrap();
    wait_for_new_id(&ring, "alice", &old);
    let rotated = std::time::Instant::now();
    // Everybody has let the old key go within the time that a revocation takes: a look at DNS every
    // five seconds, and its answer.
    for name in ["oslo", "lima", "quito"] {
        let gone = wait_until(Duration::from_secs(60), || {
            let status = ring.member(name)?.status()?;
            let links = status["links"].as_array().cloned().unwrap_or_default();
            match links.iter().any(|link| link["member"] == old.as_str()) {
                false => Ok(()),
                true => Err(TestbedError(format!("{name} has a link with the old key"))),
            }
        });
        gone.unwrap();
    }
    assert!(rotated.elapsed() < DEADLINE);
    // With the old key the thief gets nowhere: its daemon learns that its certificate has ended,
    // that the key in its place is another's, and ends.
    let log = ring.folder().join("thief.log");
    let mut command = program().command(["--json", "--home"]);
    command
        .arg(&stolen)
        .args(["-v", "node", "--exit-with-stdin"]);
    // It may end before it says that it is ready.
    let _thief = ringway_testbed::Process::start(command, &log);
    let told = wait_until(DEADLINE, || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        match said.contains("another key for this member") {
            true => Ok(()),
            false => Err(TestbedError(said)),
        }
    });
    told.unwrap();
    // Nor by the owner's hand: the request that it has kept comes too late.
    let error = ring.owner_call(&["ring", "rotate", "alice", "--request", request_file]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has another new key already"), "{error}");
    assert_eq!(states(&ring, "alice"), ["replaced", "active"]);
    ping_until_answered(&ring, "alice", "oslo");
}

#[test]
fn absent_member_rotates_when_it_returns() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let old = id_of(ring.member("alice").unwrap()).unwrap();
    ring.member_mut("alice").unwrap().terminate().unwrap();
    ring.owner_call(&["ring", "rotate", "alice"]).unwrap();
    let asked = entries(&ring, "alice");
    assert!(asked[0]["rotate_until"].is_u64(), "{}", asked[0]);
    ring.member_mut("alice").unwrap().start().unwrap();
    wait_for_new_id(&ring, "alice", &old);

    // And one whose request was granted on paper while it was away finds its certificate in DNS.
    let alice = ring.member_mut("alice").unwrap();
    alice.terminate().unwrap();
    let request = alice.call(&["rotate", "--offline"]).unwrap();
    let (now, next) = (text(&request[0]["member"]), text(&request[0]["next"]));
    secret_is_private(&alice.home.join("identity.next"));
    let file = ring.folder().join("alice.request");
    fs::write(&file, text(&request[0]["request"])).unwrap();
    let file = file.to_str().unwrap();
    let granted = ring.owner_call(&["ring", "rotate", "alice", "--request", file]);
    assert_eq!(text(&granted.unwrap()[0]["member"]), next);
    ring.member_mut("alice").unwrap().start().unwrap();
    assert_eq!(wait_for_new_id(&ring, "alice", &now), next);
    assert_eq!(states(&ring, "alice"), ["replaced", "replaced", "active"]);
    ping_until_answered(&ring, "alice", "oslo");
}

#[test]
fn leaf_finds_its_routers_after_all_rotated() {
    let builder = RingBuilder::new(program()).router("oslo").router("lima");
    let mut ring = builder.leaf("alice").start().unwrap();
    ring.wait_until_settled().unwrap();
    let alice = ring.member_mut("alice").unwrap();
    alice.terminate().unwrap();
    // A router that was away meanwhile, too, comes back to others than it has left.
    for name in ["oslo", "lima"] {
        let before = id_of(ring.member(name).unwrap()).unwrap();
        ring.owner_call(&["ring", "rotate", name]).unwrap();
        wait_for_new_id(&ring, name, &before);
        if name == "oslo" {
            ring.wait_until_settled().unwrap();
            ring.member_mut("oslo").unwrap().terminate().unwrap();
        }
    }
    ring.member_mut("oslo").unwrap().start().unwrap();
    ring.member_mut("alice").unwrap().start().unwrap();
    ring.wait_until_settled().unwrap();
    for name in ["oslo", "lima"] {
        ping_until_answered(&ring, "alice", name);
    }
}

/// An owner and members that never reach each other.
struct Apart {
    folder: tempfile::TempDir,
    ring: String,
}

impl Apart {
    fn new() -> Apart {
        let folder = tempfile::tempdir().unwrap();
        let mut apart = Apart {
            folder,
            ring: String::new(),
        };
        let founded = apart.done("owner", &["ring", "init", "ring.test"]);
        apart.ring = text(&founded["ring"]);
        apart
    }

    fn at(&self, home: &str, arguments: &[&str]) -> Outcome {
        at(&self.folder.path().join(home), arguments)
    }

    fn done(&self, home: &str, arguments: &[&str]) -> Value {
        let outcome = self.at(home, arguments);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.objects().unwrap().pop().unwrap()
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn join(&self, name: &str) {
        let listen = free_address().unwrap().to_string();
        let asked = self.done(
            name,
            &["join", "--offline", "--name", name, "--listen", &listen],
        );
        let request = self.file("request", &text(&asked["request"]));
        let id = text(&asked["member"]);
        let admitted = self.done("owner", &["ring", "admit", &request, "--member", &id]);
        let reply = self.file("reply", &text(&admitted["reply"]));
        self.done(name, &["join", "--with", &reply, "--ring", &self.ring]);
    }

    /// The file with a new request of a member.
    fn request(&self, name: &str) -> String {
        let asked = self.done(name, &["rotate", "--offline"]);
        assert_eq!(asked["schema"], "ringway.rotation-request/1");
        self.file(&format!("{name}.request"), &text(&asked["request"]))
    }

    fn rotate(&self, name: &str, request: &str) -> Outcome {
        self.at("owner", &["ring", "rotate", name, "--request", request])
    }
}

fn refused(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
}

#[test]
fn a_key_is_changed_without_reaching_the_authority() {
    let apart = Apart::new();
    apart.join("oslo");
    let request = apart.request("oslo");
    let granted = apart.rotate("oslo", &request);
    let granted = granted.objects().unwrap().pop().unwrap();
    assert_eq!(granted["schema"], "ringway.rotated/1");
    assert!(granted["serial"].as_u64() > granted["replaces"].as_u64());
    // The reply was lost: the owner prints it again.
    let again = apart.rotate("oslo", &request).objects().unwrap().remove(0);
    assert_eq!(again["again"], true);
    let reply = apart.file("oslo.reply", &text(&again["reply"]));
    let rotated = apart.done("oslo", &["rotate", "--with", &reply]);
    assert_eq!(rotated["schema"], "ringway.rotated-member/1");
    assert_eq!(
        (&rotated["name"], &rotated["role"]),
        (&"oslo".into(), &"router".into())
    );
    assert_eq!(rotated["member"], granted["member"]);
    assert_eq!(rotated["was"], granted["was"]);
    refused(
        &apart.at("oslo", &["rotate", "--with", &reply]),
        2,
        "rotate --offline",
    );
    // It is a member with that key: it can ask for the next one.
    let request = apart.request("oslo");
    assert_eq!(apart.rotate("oslo", &request).code, Some(0));
}

#[test]
fn forged_repeated_and_foreign_requests_are_refused() {
    let apart = Apart::new();
    apart.join("oslo");
    apart.join("lima");
    let request = apart.request("oslo");
    // For another's name, of no member, for a certificate that ended, changed on its way.
    refused(
        &apart.rotate("lima", &request),
        2,
        "by `oslo` and not by `lima`",
    );
    refused(&apart.rotate("nobody", &request), 2, "by `oslo`");
    let content = fs::read_to_string(&request).unwrap();
    let middle = content.len() / 2;
    let other = if &content[middle..=middle] == "A" {
        "B"
    } else {
        "A"
    };
    let changed = format!("{}{other}{}", &content[..middle], &content[middle + 1..]);
    let changed = apart.file("changed", &changed);
    assert_eq!(apart.rotate("oslo", &changed).code, Some(2));
    refused(
        &apart.rotate("oslo", "/nowhere/at/all"),
        2,
        "/nowhere/at/all",
    );

    // By a machine that says that it is oslo, with another ring's word for it.
    let foreign = Apart::new();
    foreign.join("oslo");
    let theirs = foreign.request("oslo");
    refused(&apart.rotate("oslo", &theirs), 1, "another ring");

    // Lima is revoked: it gets no other key, neither by its request nor if the owner forgets that.
    let limas = apart.request("lima");
    apart.done("owner", &["ring", "revoke", "lima"]);
    refused(&apart.rotate("lima", &limas), 1, "revoked");
    refused(
        &apart.at("owner", &["ring", "rotate", "lima"]),
        2,
        "revoked already",
    );
    refused(
        &apart.at("owner", &["ring", "rotate", "nobody"]),
        2,
        "nobody",
    );

    // A copy of oslo's home asks after oslo has its new key: it is the old key that signs, and that
    // is worth nothing now.
    copy_home(
        &apart.folder.path().join("oslo"),
        &apart.folder.path().join("thief"),
    );
    fs::remove_file(apart.folder.path().join("thief/identity.next")).unwrap();
    let thiefs = apart.request("thief");
    assert_eq!(apart.rotate("oslo", &request).code, Some(0));
    refused(&apart.rotate("oslo", &thiefs), 1, "stolen");
    let members = apart.at("owner", &["ring", "members"]).objects().unwrap();
    let states: Vec<&Value> = members.iter().map(|member| &member["state"]).collect();
    assert_eq!(states, ["replaced", "revoked", "active"]);
}

#[test]
fn wrong_usage_is_said_so_and_changes_nothing() {
    let apart = Apart::new();
    refused(
        &apart.at("nobody", &["rotate", "--offline"]),
        2,
        "not a member's home",
    );
    apart.join("oslo");
    for (arguments, words) in [
        (&["rotate"][..], "--offline"),
        (&["rotate", "--offline", "--with", "x"], "--with"),
        (
            &["rotate", "--with", "/nowhere/x.reply"],
            "/nowhere/x.reply",
        ),
    ] {
        refused(&apart.at("oslo", arguments), 2, words);
    }
    let nonsense = apart.file("nonsense", "nonsense");
    refused(
        &apart.at("oslo", &["rotate", "--with", &nonsense]),
        2,
        "rwn1=",
    );
    refused(&apart.rotate("oslo", &nonsense), 2, "rwk1=");
    for arguments in [
        &["ring", "rotate"][..],
        &["ring", "rotate", "oslo", "--within", "never"],
        &["ring", "rotate", "oslo", "--within", "400d"],
        &["ring", "rotate", "oslo", "--within", "1d", "--request", "x"],
    ] {
        let outcome = apart.at("owner", arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
    }
    let members = apart.at("owner", &["ring", "members"]).objects().unwrap();
    assert_eq!(
        (members.len(), &members[0]["rotate_until"]),
        (1, &Value::Null)
    );
}
