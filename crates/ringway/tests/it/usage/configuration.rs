//! Wrong values in `ringway.toml`, and what the log says of right ones that do not work.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use ringway_testbed::{Member, Ring, RingBuilder, TestbedError, wait_until};

use super::super::program;

const DEADLINE: Duration = Duration::from_secs(60);

const NAMED: &str = "[smtp]\nmailbox = \"a@b\"\nheader = [\"X-R\", \"x\"]\n";

/// What stands behind `[node]`, and words of the error. `FILE` is a file that everybody can read,
/// `NAMED` a mailbox.
type Mistake = (&'static str, &'static [&'static str]);

/// `oslo` is a router.
const OF_A_ROUTER: &[Mistake] = &[
    (
        "listen = \"192.0.2.9:4000\"\n",
        &["line 2: ", "node.listen: 192.0.2.9", "0.0.0.0"],
    ),
    (
        "quic = \"192.0.2.9:4000\"\n",
        &["line 2: ", "node.quic: 192.0.2.9", "0.0.0.0"],
    ),
    (
        "port_mapping = true\n",
        &["line 2: ", "node.port_mapping: ", "router"],
    ),
    (
        "hide_address = true\n",
        &["line 2: ", "node.hide_address: ", "leaf"],
    ),
    (
        "transports = [\"udp\", \"udp\"]\n",
        &["line 2: ", "node.transports: ", "twice"],
    ),
    (
        "[ws]\nlisten = \"192.0.2.9:80\"\n",
        &["line 3: ", "ws.listen: ", "192.0.2.9:80"],
    ),
    (
        "[ws]\nca_file = \"/no/such\"\n",
        &["line 3: ", "ws.ca_file: ", "/no/such"],
    ),
    (
        "[ws]\npath = \"ringway\"\n",
        &["line 3: ", "ws.path: ", "`/`"],
    ),
    (
        "[receive]\ndirectory = \"\"\n",
        &["line 3: ", "receive.directory: ", "inbox"],
    ),
    (
        "[receive]\ndirectory = \"FILE\"\n",
        &["line 3: ", "receive.directory: ", "inbox"],
    ),
];

/// `alice` is a leaf.
const OF_A_LEAF: &[Mistake] = &[
    (
        "listen = \"127.0.0.1:4000\"\n",
        &["line 2: ", "node.listen: ", "leaf"],
    ),
    (
        "[limits]\nrelay = 0\n",
        &["line 3: ", "limits.relay: ", "leaf"],
    ),
    (
        "[limits]\nupload = -1\n",
        &["line 3: `upload = -1`: limits.upload: ", "from 0"],
    ),
    (
        "[receive]\naccept = \"*\"\n",
        &["line 3: ", "receive.accept: ", "[\"oslo\"]"],
    ),
    (
        "[path]\nto = \"udp\"\n",
        &["line 2: `[path]`: path: ", "[[path]]"],
    ),
    ("[smtp]\n", &["line 2: `[smtp]`: smtp: ", "relay"]),
    (
        "[smtp]\nrelay = { host = \"\", port = 25 }\n",
        &["line 3: ", "smtp.relay.host: "],
    ),
    (
        "[smtp]\nrelay = { host = \"h\", port = 0 }\n",
        &["line 3: ", "smtp.relay.port: "],
    ),
    (
        "NAMEDlmtp_tcp = \"0.0.0.0:2525\"\n",
        &["line 5: ", "smtp.lmtp_tcp: ", "loopback"],
    ),
    (
        "NAMEDlmtp = \"/no/such/socket\"\n",
        &["line 5: ", "smtp.lmtp: ", "/no/such/socket"],
    ),
    (
        "NAMEDmaildir = \"/no/such\"\n",
        &["line 5: ", "smtp.maildir: ", "/no/such/new"],
    ),
    (
        "NAMEDpipe = \"FILE\"\n",
        &["line 5: ", "smtp.pipe: ", "mkfifo"],
    ),
    (
        "NAMEDpop3 = { host = \"h\", port = 995, user = \"u\", password_file = \"FILE\" }\n",
        &["line 5: ", "smtp.pop3.password_file: ", "chmod 600"],
    ),
    (
        "NAMEDpop3 = { host = \"h\", port = 110, user = \"u\", password_file = \"FILE\", tls = \"plain\" }\n",
        &["line 5: ", "smtp.pop3.tls: ", "unprotected"],
    ),
    (
        "NAMEDpop3 = { host = \"h\", port = 995, user = \"u\", password_file = \"FILE\", poll_seconds = 0 }\n",
        &["line 5: ", "smtp.pop3.poll_seconds: ", "86400"],
    ),
    (
        "[[exec]]\nname = \"fol der\"\ncommand = \"/bin/sh\"\n",
        &["line 3: ", "exec.name: ", "fol der"],
    ),
    (
        "[[exec]]\nname = \"folder\"\ncommand = \"/bin/true\"\n",
        &[
            "line 4: ",
            "exec.command: ",
            "hello",
            "Use another transport",
        ],
    ),
    (
        "[[peer]]\nname = \"oslo\"\naddresses = [\"exec://folder/oslo\"]\n",
        &["line 4: ", "peer.addresses: ", "[[exec]]"],
    ),
];

fn check(member: &Member, file: &Path, mistakes: &[Mistake]) {
    let path = member.home.join("ringway.toml");
    for (text, words) in mistakes {
        let text = text.replace("FILE", file.to_str().unwrap());
        let text = format!("[node]\n{}", text.replace("NAMED", NAMED));
        fs::write(&path, &text).unwrap();
        let refused = member.run(&["node"]).unwrap();
        let shown = format!("{text}{}", refused.stderr);
        assert_eq!(refused.code, Some(2), "{shown}");
        assert_eq!(refused.stderr.lines().count(), 1, "{shown}");
        let start = format!("ringway: {}: ", path.display());
        assert!(refused.stderr.starts_with(&start), "{shown}");
        for word in *words {
            assert!(refused.stderr.contains(word), "{word}: {shown}");
        }
    }
    fs::remove_file(&path).unwrap();
    let refused = member.run(&["node"]).unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

#[test]
fn errors_name_file_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "secret").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let builder = RingBuilder::new(program()).absent_router("oslo");
    let ring = builder.absent_leaf("alice").start().unwrap();
    check(ring.member("oslo").unwrap(), &file, OF_A_ROUTER);
    check(ring.member("alice").unwrap(), &file, OF_A_LEAF);
}

fn set(member: &Member, text: &str) {
    let path = member.home.join("ringway.toml");
    let old = fs::read_to_string(&path).unwrap();
    fs::write(&path, old.replace("[node]\n", text)).unwrap();
}

fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Waits until the member's log has all of these.
fn wait_for_log(ring: &Ring, name: &str, words: &[&str]) {
    let logged = wait_until(DEADLINE, || {
        let log = ring.member(name)?.log_text();
        match words.iter().find(|word| !log.contains(**word)) {
            None => Ok(()),
            Some(word) => Err(TestbedError(format!("no {word} in {log}"))),
        }
    });
    logged.unwrap();
}

#[test]
fn a_hidden_leaf_starts_without_programs_and_listeners() {
    let builder = RingBuilder::new(program()).router("oslo");
    let mut ring = builder.absent_leaf("alice").start().unwrap();
    let (web, marker) = (closed_port(), tempfile::tempdir().unwrap());
    let started = marker.path().join("started");
    let alice = ring.member_mut("alice").unwrap();
    set(alice, "[node]\nhide_address = true\n");
    let more = format!(
        "[ws]\nlisten = \"{web}\"\n[[exec]]\nname = \"gone\"\ncommand = \"/no/such/program\"\n\
         [[exec]]\nname = \"there\"\ncommand = \"/bin/touch\"\narguments = [\"{}\"]\n",
        started.display()
    );
    alice.configure("[\"udp\", \"ws\"]", &more).unwrap();
    alice.start().unwrap();
    wait_for_log(
        &ring,
        "alice",
        &["[[exec]]", "ws.listen", "hides its address"],
    );
    ring.wait_until_settled().unwrap();
    assert!(TcpStream::connect(web).is_err(), "something listens");
    assert!(!started.exists(), "a program was started");
}

#[test]
fn warnings_of_mail_name_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "secret").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let builder = RingBuilder::new(program()).absent_router("oslo");
    let mut ring = builder.absent_leaf("alice").start().unwrap();
    let [relay, imap, pop3] = [(); 3].map(|()| closed_port());
    let alice = ring.member_mut("alice").unwrap();
    let server = |key: &str, at: SocketAddr| {
        format!(
            "{key} = {{ host = \"127.0.0.1\", port = {}, tls = \"plain\", user = \"u\", password_file = \"{}\" }}\n",
            at.port(),
            password.display()
        )
    };
    let more = format!(
        "{NAMED}{}{}{}[[peer]]\nname = \"oslo\"\naddresses = [\"smtp://oslo@example.org?X-Ringway=k3\"]\n",
        server("relay", relay),
        server("imap", imap),
        server("pop3", pop3)
    );
    alice.configure("[]", &more).unwrap();
    alice.start().unwrap();
    let named = [
        format!("imap {imap}: cannot receive mail"),
        format!("pop3 {pop3}: cannot receive mail"),
        format!("relay={relay}"),
    ];
    wait_for_log(&ring, "alice", &named.each_ref().map(String::as_str));
}
