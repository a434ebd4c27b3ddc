//! A stream outlives the paths that it takes: ssh goes on while UDP is cut, then while only
//! WebSocket passes, then when all is back.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use super::*;

/// Lines that the session prints, one every 20 ms.
const LINES: u32 = 1500;

/// Longest time without a line.
const STALL: Duration = Duration::from_secs(40);

/// Where oslo's WebSocket is.
const WEB: u16 = 8080;

/// Ends it when the test does.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// An OpenSSH server of its own on a host, and the key to it.
fn start_sshd(host: &Host, folder: &Path, port: u16) -> Kept {
    for name in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.join(name))
            .status();
        assert!(made.unwrap().success());
    }
    fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
    fs::create_dir_all("/run/sshd").unwrap();
    let at = folder.display();
    let config = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\n\
         PidFile {at}/pid\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
    );
    fs::write(folder.join("sshd"), config).unwrap();
    let mut command = host.command("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f"]).arg(folder.join("sshd"));
    let log = fs::File::create(folder.join("sshd.log")).unwrap();
    Kept(command.stderr(log).stdin(Stdio::null()).spawn().unwrap())
}

/// The lines of a program, each with the time at which it came.
fn lines_of(child: &mut Child) -> Receiver<(Instant, String)> {
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (line, lines) = channel();
    std::thread::spawn(move || {
        for text in stdout.lines().map_while(Result::ok) {
            if line.send((Instant::now(), text)).is_err() {
                return;
            }
        }
    });
    lines
}

/// Takes so many lines, in order; gives the longest time without one. `log` says why one is
/// missing.
fn longest_stall(
    lines: &Receiver<(Instant, String)>,
    expected: std::ops::Range<u32>,
    log: impl Fn() -> String,
) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    for number in expected {
        let (at, text) = lines
            .recv_timeout(DEADLINE)
            .unwrap_or_else(|error| panic!("line {number}: {error}\n{}", log()));
        assert_eq!(text, number.to_string(), "a line is lost or doubled");
        longest = longest.max(at.saturating_duration_since(last));
        last = at;
    }
    longest
}

/// An ssh of this host that counts on oslo, by the service that oslo offers.
fn ssh_to_oslo(host: &Host, lima: &ringway_testbed::Member, key: &Path) -> Kept {
    let proxy = format!(
        "ProxyCommand={} --home {} connect oslo/ssh",
        env!("CARGO_BIN_EXE_ringway"),
        lima.home.display()
    );
    let remote = format!("for i in $(seq 1 {LINES}); do echo $i; sleep 0.02; done");
    let mut command = host.command("/usr/bin/ssh");
    command.args(["-F", "none", "-o", &proxy, "-o", "StrictHostKeyChecking=no"]);
    command.args([
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "IdentitiesOnly=yes",
        "-i",
    ]);
    command.arg(key).arg("root@oslo").arg(remote);
    Kept(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    )
}

/// The aim is 3 s for each stall, and what was seen is printed. What is asserted is only that it
/// goes on, well before a stream without a connection would end: the machine may be busy.
#[test]
fn ssh_goes_on_while_its_path_changes() {
    let test = "ssh over changing paths";
    let Some(network) = Network::or_skip(test).unwrap() else {
        return;
    };
    if !["/usr/sbin/sshd", "/usr/bin/ssh"]
        .iter()
        .all(|it| Path::new(it).exists())
    {
        let line = "needs OpenSSH (`./setup.sh --tests` as root installs it)";
        not_tested(&format!("{test} {line}"));
        return;
    }
    let lan = Lan::new(network, &["oslo", "lima"], &Line::plain());
    let builder = RingBuilder::new(program()).authority_on(lan.host("owner"));
    let builder = builder.absent_router("oslo").on(lan.host("oslo"));
    let builder = builder.absent_router("lima").on(lan.host("lima"));
    let mut ring = builder.start().unwrap();
    let address = lan.host("oslo").address().unwrap();
    let of_oslo = format!(
        "[ws]\nlisten = \"{address}:{WEB}\"\n[[service]]\nname = \"ssh\"\nto = \"127.0.0.1:2222\"\nfrom = [\"lima\"]\n"
    );
    let all = "[\"udp\", \"tcp\", \"quic\", \"ws\"]";
    for (name, more) in [("oslo", of_oslo.as_str()), ("lima", "")] {
        let member = ring.member_mut(name).unwrap();
        member.configure(all, more).unwrap();
        member.start().unwrap();
    }
    ring.wait_until_settled().unwrap();
    let folder = ring.folder().join("ssh");
    fs::create_dir(&folder).unwrap();
    let _server = start_sshd(lan.host("oslo"), &folder, 2222);
    ping(&ring, "lima", "oslo", ANY);

    let lima = ring.member("lima").unwrap();
    let mut ssh = ssh_to_oslo(lan.host("lima"), lima, &folder.join("user"));
    let lines = lines_of(&mut ssh.0);

    let owner = lan.host("owner").address().unwrap();
    let dns = [Traffic::any().from(owner), Traffic::any().to(owner)].map(Rule::Pass);
    let log = || {
        format!(
            "{}\n{}",
            lima.log_text(),
            ring.member("oslo").unwrap().log_text()
        )
    };
    let phase = |rules: &[Rule], lines_there: std::ops::Range<u32>, what: &str| {
        lan.switch.rules(rules).unwrap();
        let stall = longest_stall(&lines, lines_there, log);
        println!("{what}: longest stall {stall:?}");
        assert!(stall < STALL, "{what}: {stall:?}\n{}", log());
    };
    phase(&[], 1..100, "all passes");
    phase(
        &[&dns[..], &[Rule::Drop(Traffic::udp())]].concat(),
        100..450,
        "UDP is cut",
    );
    phase(
        &[&dns[..], &[Rule::OnlyTcp(WEB)]].concat(),
        450..850,
        "only WebSocket passes",
    );
    phase(&[], 850..LINES + 1, "all is back");
    assert!(ssh.0.wait().unwrap().success(), "{}", log());
    let ended = wait_until(DEADLINE, || {
        let ended = log().contains("a stream ended");
        ended.then_some(()).ok_or_else(|| TestbedError(log()))
    });
    ended.unwrap();
}
