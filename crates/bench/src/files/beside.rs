//! Others that send a folder: rsync's daemon, tar over one TCP connection, croc, and sendme.
//!
//! Each takes as long as from its sender's start until all is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringway_terminal::{Failure, Output};
use ringway_testbed::{Host, Running, TestbedError, wait_until};

use super::{FOLDER, Lab, Sender};
use crate::limits::WAIT;

/// Where rsync's daemon and tar's socat listen.
const RSYNC_PORT: u16 = 8730;
const TAR_PORT: u16 = 8731;
/// croc's own.
const CROC_PORT: u16 = 9009;
/// By which croc's ends find each other and agree on a key: for this run alone.
const CROC_CODE: &str = "1234-alpha-beta-gamma";

/// croc sends its standard input where that is a pipe, whatever files it is given.
const WITHOUT_INPUT: &str = "exec \"$0\" \"$@\" < /dev/null";

/// Where Tailscale's control server for tests listens.
const CONTROL_PORT: u16 = 8090;

/// How long a program may read the folder before it offers it.
const LISTING: Duration = Duration::from_secs(600);

/// Those whose programs are there; the others are named on stderr.
pub(super) fn found(output: Output, senders: Vec<Sender>) -> Vec<Sender> {
    let has = |sender: &Sender| {
        let missing = programs(*sender).iter().find(|program| !is_there(program));
        if let Some(program) = missing {
            let name = sender.name();
            output.note(&format!("{name} is left out: `{program}` is not installed"));
        }
        missing.is_none()
    };
    senders.into_iter().filter(has).collect()
}

fn programs(sender: Sender) -> &'static [&'static str] {
    match sender {
        Sender::Ringway => &[],
        Sender::Rsync => &["rsync"],
        Sender::Tar => &["tar", "socat"],
        Sender::Croc => &["croc"],
        Sender::Sendme => &["sendme"],
        Sender::Tailscale => &[
            "tailscaled",
            "tailscale",
            "tailscale-control",
            "tar",
            "socat",
        ],
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// A folder of lima's for what arrives.
fn arrivals(lab: &Lab, name: &str) -> Result<PathBuf, Failure> {
    let folder = lab.folder.path().join(name);
    std::fs::create_dir_all(&folder).map_err(Failure::failed)?;
    Ok(folder)
}

/// `rsync -a` to a daemon: no ssh, so neither its encryption nor its round trips.
pub(super) fn rsync(lab: &Lab) -> Result<(Duration, PathBuf), Failure> {
    let arrivals = arrivals(lab, "by-rsync")?;
    let config = lab.folder.path().join("rsyncd.conf");
    let text = format!(
        "port = {RSYNC_PORT}\nuse chroot = no\nuid = root\ngid = root\n[in]\npath = {}\nread only = no\n",
        arrivals.display()
    );
    std::fs::write(&config, text).map_err(Failure::failed)?;
    let lima = lab.host("lima")?;
    let mut daemon = lima.command("rsync");
    daemon.args(["--daemon", "--no-detach", "--config"]);
    daemon.arg(&config);
    let log = lab.folder.path().join("rsyncd.log");
    let _daemon = Running::start(daemon, &log).map_err(Failure::failed)?;
    listens(lima, RSYNC_PORT)?;
    let address = lima.address().map_err(Failure::failed)?;
    let mut rsync = lab.host("oslo")?.command("rsync");
    rsync.arg("-a").arg(&lab.sent);
    rsync.arg(format!("rsync://{address}:{RSYNC_PORT}/in/"));
    let begin = Instant::now();
    succeeds(rsync)?;
    Ok((begin.elapsed(), arrivals.join(FOLDER)))
}

/// tar into tar: as fast as files can be read, carried and written without any protocol.
pub(super) fn tar(lab: &Lab) -> Result<(Duration, PathBuf), Failure> {
    let address = lab.host("lima")?.address().map_err(Failure::failed)?;
    tar_to(lab, "by-tar", &address.to_string())
}

/// To this address of lima's.
fn tar_to(lab: &Lab, name: &str, address: &str) -> Result<(Duration, PathBuf), Failure> {
    let arrivals = arrivals(lab, name)?;
    let lima = lab.host("lima")?;
    let mut receiver = lima.command("sh");
    let listen = format!("socat -u TCP-LISTEN:{TAR_PORT},reuseaddr - | tar -xf -");
    receiver.args(["-c", &listen]).current_dir(&arrivals);
    let mut receiver = receiver
        .stdin(Stdio::null())
        .spawn()
        .map_err(Failure::failed)?;
    listens(lima, TAR_PORT)?;
    let mut sender = lab.host("oslo")?.command("sh");
    let send = format!("tar -cf - {FOLDER} | socat -u - TCP:{address}:{TAR_PORT}");
    sender.args(["-c", &send]).current_dir(lab.folder.path());
    let begin = Instant::now();
    let sent = succeeds(sender);
    if sent.is_err() {
        // It may have ended by itself.
        receiver.kill().ok();
    }
    let status = receiver.wait().map_err(Failure::failed)?;
    let took = begin.elapsed();
    sent?;
    if !status.success() {
        return Err(Failure::failed("tar could not write what came"));
    }
    Ok((took, arrivals.join(FOLDER)))
}

/// croc by a relay of its own at the receiver: encrypted, and its own way is as short as can be.
pub(super) fn croc(lab: &Lab) -> Result<(Duration, PathBuf), Failure> {
    let arrivals = arrivals(lab, "by-croc")?;
    let lima = lab.host("lima")?;
    let address = lima.address().map_err(Failure::failed)?;
    let at = |host: &Host, words: &[&str]| {
        let mut croc = at_home(lab, host, "croc", words);
        croc.env("CROC_SECRET", CROC_CODE);
        croc
    };
    let log = |name: &str| lab.folder.path().join(format!("croc-{name}.log"));
    let relay = at(lima, &["relay", "--host", &address.to_string()]);
    let _relay = Running::start(relay, &log("relay")).map_err(Failure::failed)?;
    listens(lima, CROC_PORT)?;
    let relay = format!("{address}:{CROC_PORT}");
    let mut sender = at_home(lab, lab.host("oslo")?, "sh", &["-c", WITHOUT_INPUT, "croc"]);
    sender.args(["--relay", &relay, "send", "--no-local"]);
    sender.arg(&lab.sent).env("CROC_SECRET", CROC_CODE);
    let begin = Instant::now();
    let _sender = Running::start(sender, &log("send")).map_err(Failure::failed)?;
    says(&log("send"), "CROC_SECRET=")?;
    let mut receiver = at(lima, &["--relay", &relay, "--yes", "--overwrite"]);
    receiver.current_dir(&arrivals);
    succeeds(receiver)?;
    Ok((begin.elapsed(), arrivals.join(FOLDER)))
}

/// sendme straight to the sender's address: QUIC and BLAKE3, as ours.
pub(super) fn sendme(lab: &Lab) -> Result<(Duration, PathBuf), Failure> {
    let arrivals = arrivals(lab, "by-sendme")?;
    let log = lab.folder.path().join("sendme.log");
    let words = ["send", "--relay", "disabled", "--ticket-type", "addresses"];
    let mut sender = at_home(lab, lab.host("oslo")?, "sendme", &words);
    // Where it keeps a copy of what it sends.
    sender.arg(&lab.sent).current_dir(lab.folder.path());
    let begin = Instant::now();
    let _sender = Running::start(sender, &log).map_err(Failure::failed)?;
    let said = says(&log, "sendme receive ")?;
    let (_, ticket) = said.split_once("sendme receive ").unwrap_or_default();
    let ticket = ticket.split_whitespace().next().unwrap_or_default();
    let words = ["receive", "--relay", "disabled", ticket];
    let mut receiver = at_home(lab, lab.host("lima")?, "sendme", &words);
    receiver.current_dir(&arrivals);
    succeeds(receiver)?;
    Ok((begin.elapsed(), arrivals.join(FOLDER)))
}

/// tar into tar through Tailscale: WireGuard from one host to the other, once they know the way.
pub(super) fn tailscale(lab: &Lab) -> Result<(Duration, PathBuf), Failure> {
    let folder = lab.folder.path();
    let owner = lab.host("owner")?;
    let address = owner.address().map_err(Failure::failed)?.to_string();
    let words = ["-test.run", "TestServe", "-test.timeout", "0"];
    let mut control = at_home(lab, owner, "tailscale-control", &words);
    control.env("CONTROL", &address);
    let _control = Running::start(control, &folder.join("control.log")).map_err(Failure::failed)?;
    listens(owner, CONTROL_PORT)?;
    let mut daemons = Vec::new();
    for name in ["oslo", "lima"] {
        let state = folder.join(format!("tailscale-{name}"));
        std::fs::create_dir_all(&state).map_err(Failure::failed)?;
        let mut daemon = at_home(
            lab,
            lab.host(name)?,
            "tailscaled",
            &["--no-logs-no-support"],
        );
        daemon.arg("--state=mem:").arg("--statedir").arg(&state);
        daemon.arg("--socket").arg(state.join("socket"));
        let log = folder.join(format!("tailscaled-{name}.log"));
        daemons.push(Running::start(daemon, &log).map_err(Failure::failed)?);
    }
    let asked = |name: &str, words: &[&str]| {
        let socket = folder.join(format!("tailscale-{name}/socket"));
        let host = lab
            .host(name)
            .map_err(|failure| TestbedError(failure.message().to_owned()))?;
        let socket = format!("--socket={}", socket.display());
        host.check(&[&["tailscale", socket.as_str()], words].concat())
    };
    let login = format!("--login-server=http://{address}:{CONTROL_PORT}");
    let up = ["up", login.as_str(), "--accept-dns=false", "--timeout=20s"];
    for name in ["oslo", "lima"] {
        let up = wait_until(WAIT, || asked(name, &up));
        up.map_err(Failure::failed)?;
    }
    let lima = asked("lima", &["ip", "-4"]).map_err(Failure::failed)?;
    let lima = lima.trim();
    let direct = wait_until(WAIT, || asked("oslo", &["ping", "--until-direct", lima]));
    direct.map_err(Failure::failed)?;
    tar_to(lab, "by-tailscale", lima)
}

/// A program whose settings are of this run alone.
fn at_home(lab: &Lab, host: &Host, program: &str, words: &[&str]) -> Command {
    let mut command = host.command(program);
    command.args(words).stdin(Stdio::null());
    command.env("HOME", lab.folder.path());
    command
}

/// Waits until a sender has read the folder and says how to get it.
fn says(log: &Path, what: &str) -> Result<String, Failure> {
    let said = wait_until(LISTING, || {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        let ready = said.contains(what).then_some(said);
        ready.ok_or_else(|| TestbedError(format!("no line with `{what}`")))
    });
    said.map_err(Failure::failed)
}

/// Waits until a host listens at a port, as its own table says: to try would be a connection.
fn listens(host: &Host, port: u16) -> Result<(), Failure> {
    let place = format!(":{port} ");
    let there = wait_until(WAIT, || {
        let table = host.check(&["ss", "-Hltn"])?;
        let there = table.contains(&place).then_some(());
        there.ok_or_else(|| TestbedError(format!("nothing listens at {port}")))
    });
    there.map_err(Failure::failed)
}

fn succeeds(mut command: Command) -> Result<(), Failure> {
    let shown = shown(&command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(Failure::failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(Failure::failed(format_args!("`{shown}` failed: {last}")))
}

/// Without the words that put it on a host.
fn shown(command: &Command) -> String {
    let words = command.get_args().map(|word| word.to_string_lossy());
    words.skip(3).collect::<Vec<_>>().join(" ")
}
