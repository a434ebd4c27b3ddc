//! Files over whatever gets through: TCP alone, WebSocket alone, a child program alone.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringway_testbed::{Postfix, Ring, RingBuilder, TestbedError, free_port, wait_until};

use super::{not_tested, program, random_bytes};

/// Long enough for a busy machine; what is waited for takes seconds.
const DEADLINE: Duration = Duration::from_secs(120);

fn send(ring: &Ring, from: &str, to: &str, size: usize) {
    let content = random_bytes(from, size);
    let file = ring.folder().join(format!("{from}.bin"));
    fs::write(&file, &content).unwrap();
    let sent = ring
        .member(from)
        .unwrap()
        .call(&["send", file.to_str().unwrap(), to])
        .unwrap();
    assert_eq!(sent.last().unwrap()["state"], "done", "{sent:?}");
    let inbox = ring.member(to).unwrap().home.join("inbox");
    let arrived = fs::read(inbox.join(format!("{from}.bin"))).unwrap();
    assert!(arrived == content, "the file has changed on the way");
}

/// Waits until messages from one member to another leave over an address with this beginning.
fn uses(ring: &Ring, from: &str, to: &str, scheme: &str) {
    let member = ring.member(from).unwrap();
    let used = wait_until(DEADLINE, || {
        let found = member.call(&["path", to])?;
        let paths = found[0]["paths"].as_array().cloned().unwrap_or_default();
        let active = paths.iter().find(|path| {
            let used_for = path["used_for"].as_str().unwrap_or_default();
            used_for.starts_with("messages")
        });
        let fits = active.is_some_and(|path| {
            path["address"]
                .as_str()
                .is_some_and(|address| address.starts_with(scheme))
        });
        match fits {
            true => Ok(()),
            false => Err(TestbedError(format!("{paths:?}"))),
        }
    });
    used.unwrap();
}

#[test]
fn without_udp_files_go_over_tcp() {
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_router("lima");
    let mut ring = builder.start().unwrap();
    for name in ["oslo", "lima"] {
        ring.member(name)
            .unwrap()
            .configure("[\"tcp\"]", "")
            .unwrap();
        ring.member_mut(name).unwrap().start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    uses(&ring, "oslo", "lima", "tcp://");
    send(&ring, "oslo", "lima", 2 << 20);
}

#[test]
fn link_moves_to_quic_where_udp_costs_more() {
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_router("lima");
    let mut ring = builder.start().unwrap();
    let rule = "[[path]]\nto = \"udp\"\ncost = 1000\n";
    for name in ["oslo", "lima"] {
        let member = ring.member_mut(name).unwrap();
        member.configure("[\"udp\", \"quic\"]", rule).unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    uses(&ring, "oslo", "lima", "quic://");
    uses(&ring, "lima", "oslo", "quic://");
    let paths = ring
        .member("oslo")
        .unwrap()
        .call(&["path", "lima"])
        .unwrap();
    let paths = paths[0]["paths"].as_array().unwrap();
    let of = |scheme: &str| {
        let mut fitting = paths.iter();
        let found = fitting.find(|path| path["address"].as_str().unwrap().starts_with(scheme));
        found.unwrap_or_else(|| panic!("no {scheme}: {paths:?}"))
    };
    assert_eq!(of("quic://")["cost"], 15);
    assert_eq!(of("udp://")["cost"], 1000);
    send(&ring, "oslo", "lima", 2 << 20);
    uses(&ring, "oslo", "lima", "quic://");
}

#[test]
fn ring_forms_and_files_arrive_over_quic_alone() {
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_router("lima")
        .absent_leaf("alice");
    let mut ring = builder.start().unwrap();
    for name in ["oslo", "lima", "alice"] {
        let member = ring.member_mut(name).unwrap();
        member.configure("[\"quic\"]", "").unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    uses(&ring, "oslo", "lima", "quic://");
    uses(&ring, "alice", "oslo", "quic://");
    send(&ring, "alice", "oslo", 2 << 20);
    send(&ring, "oslo", "lima", 2 << 20);
    // A member that has lost its peer finds it again, with a new process at the old address.
    ring.member_mut("oslo").unwrap().kill().unwrap();
    ring.member_mut("oslo").unwrap().start().unwrap();
    ring.wait_until_settled().unwrap();
    uses(&ring, "alice", "oslo", "quic://");
}

#[test]
fn websocket_carries_everything_where_only_web_passes() {
    let port = free_port().unwrap();
    let address = format!("ws://127.0.0.1:{port}/ringway");
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_leaf("alice");
    let mut ring = builder.start().unwrap();
    let server = format!("[ws]\nlisten = \"127.0.0.1:{port}\"\nadvertise = [\"{address}\"]\n");
    let known = format!("[[peer]]\nname = \"oslo\"\naddresses = [\"{address}\"]\n");
    let oslo = ring.member_mut("oslo").unwrap();
    oslo.configure("[\"udp\", \"tcp\", \"quic\", \"ws\"]", &server)
        .unwrap();
    oslo.start().unwrap();
    let alice = ring.member_mut("alice").unwrap();
    alice.configure("[\"ws\"]", &known).unwrap();
    alice.start().unwrap();
    ring.wait_until_settled().unwrap();
    uses(&ring, "alice", "oslo", "ws://");
    send(&ring, "alice", "oslo", 2 << 20);
}

#[test]
fn a_transport_of_ones_own_carries_files_too() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        not_tested(&format!("{} is not installed", python.display()));
        return;
    }
    assert!(Command::new(python).arg("-V").status().unwrap().success());
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_leaf("alice");
    let mut ring = builder.start().unwrap();
    let shared = ring.folder().join("shared");
    fs::create_dir(&shared).unwrap();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/exec-folder/folder.py"
    );
    for name in ["oslo", "alice"] {
        let exec = format!(
            "[[exec]]\nname = \"folder\"\ncommand = \"{}\"\narguments = [\"{example}\", \"--folder\", \"{}\", \"--name\", \"{name}\"]\n\
             [[peer]]\nname = \"oslo\"\naddresses = [\"exec://folder/oslo\"]\n",
            python.display(),
            shared.display()
        );
        let member = ring.member_mut(name).unwrap();
        member.configure("[]", &exec).unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    uses(&ring, "alice", "oslo", "exec://");
    send(&ring, "alice", "oslo", 300_000);
}

#[test]
fn file_arrives_by_mail_alone() {
    let ports = [(); 3].map(|()| free_port().unwrap());
    let mailboxes = [("oslo", ports[0]), ("alice", ports[1]), ("lima", ports[2])];
    let Some(postfix) = Postfix::start(&mailboxes, &[""], |_| String::new()).unwrap() else {
        not_tested("a ring by mail needs Postfix and root");
        return;
    };
    let builder = RingBuilder::new(program())
        .absent_router("oslo")
        .absent_router("lima")
        .absent_leaf("alice");
    let mut ring = builder.start().unwrap();
    let smtp = |name: &str, port: u16| {
        format!(
            "[smtp]\nmailbox = \"{name}@ring.test\"\nheader = [\"X-Ringway\", \"{name}-7f3k\"]\nlmtp_tcp = \"127.0.0.1:{port}\"\n\
             relay = {{ host = \"127.0.0.1\", port = {}, tls = \"plain\" }}\n",
            postfix.ports[0]
        )
    };
    let usual = "[\"udp\", \"tcp\", \"quic\", \"ws\"]";
    for (name, port) in [("oslo", ports[0]), ("lima", ports[2])] {
        let router = ring.member_mut(name).unwrap();
        router.configure(usual, &smtp(name, port)).unwrap();
        router.start().unwrap();
    }
    let known =
        "[[peer]]\nname = \"oslo\"\naddresses = [\"smtp://oslo@ring.test?X-Ringway=oslo-7f3k\"]\n";
    let alice = ring.member_mut("alice").unwrap();
    let config = smtp("alice", ports[1]) + known;
    alice.configure("[]", &config).unwrap();
    alice.start().unwrap();
    uses(&ring, "alice", "oslo", "smtp://");
    send(&ring, "alice", "oslo", 20_000);
    // The router has only the leaf's own word for its mailbox.
    send(&ring, "oslo", "alice", 20_000);
    // A message, and the signature for it, need no stream.
    let said = ring
        .member("alice")
        .unwrap()
        .call(&["msg", "oslo", "by mail"]);
    assert_eq!(said.unwrap()[0]["state"], "pending");
    let came = ring.member("oslo").unwrap();
    let came = came
        .call(&["msg", "--follow", "alice", "--count", "1"])
        .unwrap();
    assert_eq!(came[0]["body"], "by mail");
    super::messages::wait_for_states(&ring, "alice", &["signed", "read"]);
    // Another knows nothing of it but what the ring says.
    uses(&ring, "lima", "alice", "smtp://");
    send(&ring, "lima", "alice", 20_000);
    let log = postfix.log();
    assert!(
        log.contains("from=<>") && !log.contains("status=bounced"),
        "{log}"
    );
}
