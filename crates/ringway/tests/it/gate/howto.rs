//! `docs/how-to/govern-your-border.md`, step by step: its commands in its order, on a router whose
//! interfaces are called as in it, and what it promises of them. A command that this does not know
//! fails the test, so that neither can change alone.

mod quotas;

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ringway_testbed::Clamd;
use rustix::process::{Pid, Signal, kill_process};

use super::beside::{Tested, until, wrong};
use super::border::{Border, CLIENT, DEADLINE, SERVER, skipped};
use super::scans::{fetch, serve};

const HOW_TO: &str = include_str!("../../../../../docs/how-to/govern-your-border.md");
const YARA: &str = include_str!("../../../../../docs/reference/yara.md");
/// Packets of a connection in which both sides have greeted.
const GREETED: u32 = 5;
/// In two parts, so that no scanner takes this source for the test file.
const EICAR: [&str; 2] = [
    "X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR",
    "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*",
];
/// A system of its own for what lies outside of the test's folder: nothing of it is seen elsewhere,
/// or stays.
const ROOM: &str = "set -e; mount --make-rprivate /
    mkdir etc; mount -t tmpfs -o mode=0755 tmpfs etc; cp -a /etc/. etc/; mount --bind etc /etc
    for folder in /run /var/lib /var/log /usr/local/bin; do mount -t tmpfs -o mode=0755 tmpfs $folder; done
    ln -s \"$1\" /usr/local/bin/ringway; mkdir /run/clamav
    echo $$ > room.new; mv room.new room; exec cat > /dev/null";

/// What `ringway service install gate` writes, and what it reads.
const UNIT: &str = "/etc/systemd/system/ringway-gate.service";
const OPTIONS: &str = "/etc/ringway/gate.toml";

/// A block of the document: its language and its text.
type Block = (&'static str, &'static str);

fn blocks(text: &'static str) -> Vec<Block> {
    let mut parts = text.split("\n```");
    // Text and blocks take turns.
    parts.next();
    parts
        .step_by(2)
        .filter_map(|block| block.split_once('\n'))
        .collect()
}

/// The commands of a block, without what is said of them.
fn commands(block: &'static str) -> impl Iterator<Item = &'static str> {
    let bare = |line: &'static str| line.split("  #").next().unwrap_or_default().trim();
    block.lines().map(bare).filter(|line| !line.is_empty())
}

/// A reader who follows the document.
struct Reader {
    border: Border,
    /// Keeps the room.
    holder: Child,
    room: String,
    blocks: std::vec::IntoIter<Block>,
    /// The gateway of step 2, or the service.
    gateway: Option<Child>,
    /// A flow that somebody may ask about.
    flow: String,
    _clamd: Option<Clamd>,
}

impl Reader {
    /// A router like that of the document. `None`: something is missing here, and stderr says so.
    fn new() -> Tested<Option<Reader>> {
        let Some(mut border) = Border::new("the how-to") else {
            return Ok(None);
        };
        for program in ["unshare", "nsenter", "setpriv", "tcpdump", "curl"] {
            if Command::new(program).arg("--version").output().is_err() {
                return Ok(skipped("the how-to", program));
            }
        }
        for (own, name) in [(&mut border.inside, "lan0"), (&mut border.outside, "wan0")] {
            for words in [&["down"] as &[&str], &["name", name]] {
                let words = [&["ip", "link", "set", own], words].concat();
                border.gateway.check(&words)?;
            }
            border.gateway.check(&["ip", "link", "set", name, "up"])?;
            *own = name.to_owned();
        }
        let folder = border.folder.path();
        let mut room = border.gateway.command("unshare");
        room.args([
            "--mount",
            "sh",
            "-c",
            ROOM,
            "sh",
            env!("CARGO_BIN_EXE_ringway"),
        ]);
        let log = fs::File::create(folder.join("room.log"))?;
        let room = room
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let place = folder.join("room");
        let log = || fs::read_to_string(folder.join("room.log")).unwrap_or_default();
        until("there is no room", log, || place.exists())?;
        let clamd = Clamd::finding(&[("Eicar.Test", EICAR.concat().as_bytes())])?;
        let reader = Reader {
            room: fs::read_to_string(&place)?.trim().to_owned(),
            border,
            holder: room,
            blocks: blocks(HOW_TO).into_iter(),
            gateway: None,
            flow: String::new(),
            _clamd: clamd,
        };
        if let Some(clamd) = &reader._clamd {
            let socket = clamd.socket();
            reader.shell(&format!("ln -s {} /run/clamav/clamd.ctl", socket.display()))?;
        }
        Ok(Some(reader))
    }

    fn folder(&self) -> &Path {
        self.border.folder.path()
    }

    /// A command in the room.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.room, "--mount", "--net"]);
        command.arg(format!("--wd={}", self.folder().display()));
        command.args(["sh", "-c", &format!("exec {line}")]);
        command.env(
            "PATH",
            "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        command.stdin(Stdio::null());
        command
    }

    /// Runs one to its end; gives all that it said.
    fn shell(&self, line: &str) -> Tested<String> {
        let (code, said) = self.tried(line)?;
        match code {
            Some(0) => Ok(said),
            code => wrong(format!("`{line}` ended with {code:?}: {said}")),
        }
    }

    fn tried(&self, line: &str) -> Tested<(Option<i32>, String)> {
        let done = self.command(line).output()?;
        let said = [done.stdout, done.stderr].concat();
        Ok((
            done.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        ))
    }

    /// The next block, which is of this language.
    fn block(&mut self, language: &str) -> Tested<&'static str> {
        match self.blocks.next() {
            Some((found, text)) if found == language => Ok(text),
            other => wrong(format!("{language} was expected, and there is {other:?}")),
        }
    }

    /// The next block's commands, which begin with these words.
    fn lines(&mut self, beginnings: &[&str]) -> Tested<Vec<&'static str>> {
        let lines: Vec<_> = commands(self.block("sh")?).collect();
        let known = lines.len() == beginnings.len()
            && lines
                .iter()
                .zip(beginnings)
                .all(|(line, words)| line.starts_with(words));
        match known {
            true => Ok(lines),
            false => wrong(format!(
                "{beginnings:?} were expected, and there is {lines:#?}"
            )),
        }
    }

    /// Starts what stays, and waits until it says this, which the document promises.
    fn start(&mut self, line: &str, promise: &str) -> Tested {
        let log = self.folder().join("gateway.log");
        let file = fs::File::create(&log)?;
        let mut command = self.command(line);
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        self.gateway = Some(child);
        let said = || fs::read_to_string(&log).unwrap_or_default();
        until(line, said, || said().contains(promise))
    }

    /// Ends it; it goes by itself.
    fn stop(&mut self, signal: Signal) -> Tested {
        let Some(mut child) = self.gateway.take() else {
            return wrong("no gateway runs");
        };
        let pid = i32::try_from(child.id())?;
        kill_process(Pid::from_raw(pid).ok_or("no process")?, signal)?;
        match child.wait()?.success() {
            true => Ok(()),
            false => wrong(fs::read_to_string(self.folder().join("gateway.log"))?),
        }
    }

    /// Starts the service as its unit says.
    fn serve(&mut self, promise: &str) -> Tested {
        let unit = self.shell(&format!("cat {UNIT}"))?;
        let value = |name: &str| {
            let found = unit.lines().find_map(|line| line.strip_prefix(name));
            found.ok_or_else(|| format!("no {name} in {unit}"))
        };
        let capabilities = value("CapabilityBoundingSet=")?.to_lowercase();
        let kept = capabilities.replace("cap_", "+").replace(' ', ",");
        let made = format!(
            "mkdir -p /var/lib/{} /var/log/{} /run/{}",
            value("StateDirectory=")?,
            value("LogsDirectory=")?,
            value("RuntimeDirectory=")?
        );
        self.shell(&made)?;
        let line = format!(
            "setpriv --bounding-set -all,{kept} {}",
            value("ExecStart=")?
        );
        self.start(&line, promise)
    }

    /// A connection of BitTorrent from inside; both sides greet.
    fn torrent(&self, port: u16) -> Tested {
        let greeting = [b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat();
        let listener = self
            .border
            .server
            .enter(|| TcpListener::bind((SERVER, port)))??;
        let mut client = self
            .border
            .client
            .enter(|| TcpStream::connect((SERVER, port)))??;
        let (mut server, _) = listener.accept()?;
        for stream in [&mut client, &mut server] {
            stream.set_read_timeout(Some(DEADLINE))?;
            stream.write_all(&greeting)?;
        }
        std::io::Read::read_exact(&mut client, &mut vec![0; greeting.len()])?;
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut child) = self.gateway.take() {
            child.kill().ok();
            child.wait().ok();
        }
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

/// What was said, and the document promises; it stands there as code.
fn promised(said: &str, words: &str) -> Tested {
    if !HOW_TO.contains(&format!("`{words}`")) {
        return wrong(format!("the document does not say `{words}`"));
    }
    has(said, words)
}

fn has(said: &str, words: &str) -> Tested {
    // Columns have any width.
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match plain(said).contains(&plain(words)) {
        true => Ok(()),
        false => wrong(format!("`{words}` is missing: {said}")),
    }
}

#[test]
fn every_step_does_what_it_says() -> Tested {
    let Some(mut reader) = Reader::new()? else {
        return Ok(());
    };
    try_a_policy(&mut reader)?;
    observe(&mut reader)?;
    enforce(&mut reader)?;
    keep_it_running(&mut reader)?;
    scan_files(&mut reader)?;
    quotas::give_each_host(&mut reader)?;
    what_is_wrong(&mut reader)?;
    match reader.blocks.next() {
        None => Ok(()),
        block => wrong(format!("nobody has tried {block:?}")),
    }
}

fn try_a_policy(reader: &mut Reader) -> Tested {
    let policy = reader.block("toml")?;
    fs::write(reader.folder().join("border.toml"), format!("{policy}\n"))?;
    let beginnings = [
        "ringway gate check ",
        "tcpdump -i lan0 ",
        "ringway gate replay ",
    ];
    let lines = reader.lines(&beginnings)?;
    promised(
        &reader.shell(lines[0])?,
        "border.toml: 2 rules, 1 tests passed",
    )?;
    let log = reader.folder().join("tcpdump.log");
    let mut tcpdump = reader
        .command(lines[1])
        .stderr(fs::File::create(&log)?)
        .spawn()?;
    let said = || fs::read_to_string(&log).unwrap_or_default();
    until("tcpdump", said, || said().contains("listening on"))?;
    reader.torrent(6_881)?;
    let pid = i32::try_from(tcpdump.id())?;
    let pid = Pid::from_raw(pid).ok_or("no process")?;
    // As many as it was told would take long. It says how many it has when asked by this signal.
    let captured = || {
        kill_process(pid, Signal::USR1).ok();
        let said = said();
        let counts = said.split(" packets captured").filter_map(|text| {
            let count = text.rsplit(' ').next()?;
            count.parse::<u32>().ok()
        });
        counts.max() >= Some(GREETED)
    };
    until("tcpdump's packets", said, captured)?;
    kill_process(pid, Signal::INT)?;
    tcpdump.wait()?;
    let replayed = reader.shell(lines[2])?;
    has(&replayed, "bittorrent")?;
    has(&replayed, "1 flows: shape by little-sharing")
}

fn observe(reader: &mut Reader) -> Tested {
    let up = reader.lines(&["ringway gate up --policy border.toml "])?[0];
    let promise = "lan0 <-> wan0: observing, 2 rules";
    promised(promise, promise)?;
    reader.start(up, promise)?;
    reader.torrent(6_882)?;
    let lines = reader.lines(&[
        "ringway gate top",
        "ringway gate flows",
        "ringway gate why 17",
        "ringway gate why 17 --pcap flow-17.pcap",
        "ringway gate status",
        "ringway gate audit --since 1h",
        "ringway gate audit --app bittorrent --json",
        "ringway gate audit --flows --since 7d --by host",
    ])?;
    has(&reader.shell(lines[0])?, "bittorrent")?;
    let lines = &lines[1..];
    let flows = reader.shell(lines[0])?;
    let flow = flows.lines().find(|line| line.contains("bittorrent"));
    let flow = flow.ok_or_else(|| format!("no flow: {flows}"))?;
    has(flow, "certain shape little-sharing")?;
    reader.flow = flow
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned();
    let why = reader.shell(&lines[1].replace("17", &reader.flow))?;
    for words in ["shape by little-sharing", "BitTorrent prot"] {
        has(&why, words)?;
    }
    reader.shell(&lines[2].replace("why 17", &format!("why {}", reader.flow)))?;
    has(
        &reader.shell("ringway gate classify flow-17.pcap")?,
        "bittorrent",
    )?;
    let status = reader.shell(lines[3])?;
    for words in ["observing", "packets seen", "(0 lost)"] {
        has(&status, words)?;
    }
    let audit = || {
        reader
            .tried(lines[4])
            .map(|(_, said)| said)
            .unwrap_or_default()
    };
    until("the audit", audit, || audit().contains("little-sharing"))?;
    has(&audit(), "allowed shape little-sharing bittorrent")?;
    // What the document says of both words.
    let event: serde_json::Value = serde_json::from_str(&reader.shell(lines[5])?)?;
    for (key, value) in [("action", "allowed"), ("policy", "shape")] {
        has(event["ringway"][key].as_str().unwrap_or_default(), value)?;
    }
    let hosts = || {
        let said = reader.tried(lines[6]).map(|(_, said)| said);
        said.unwrap_or_default()
    };
    until("the history", hosts, || hosts().contains(CLIENT))?;
    match HOW_TO.contains("POLICY") {
        true => Ok(()),
        false => wrong("the document does not say where the policy's word stands"),
    }
}

fn enforce(reader: &mut Reader) -> Tested {
    let diff = reader.lines(&["ringway gate diff border.toml --since 7d"])?[0];
    has(&reader.shell(diff)?, "0 otherwise")?;
    let apply = reader.lines(&["ringway gate apply border.toml --enforce --confirm 60s"])?[0];
    let applied = reader.shell(apply)?;
    has(&applied, "border.toml is at work for 60 s")?;
    has(&reader.shell("ringway gate status")?, "unless confirmed")?;
    let confirm = reader.lines(&["ringway gate confirm"])?[0];
    has(&reader.shell(confirm)?, "border.toml stays")?;
    let status = reader.shell("ringway gate status")?;
    has(&status, "enforcing")?;
    // This one is not confirmed.
    reader.shell("ringway gate apply border.toml --observe --confirm 1s")?;
    let status = || {
        reader
            .tried("ringway gate status")
            .map(|(_, said)| said)
            .unwrap_or_default()
    };
    until("it comes back", status, || status().contains("enforcing"))?;
    let failing = reader
        .border
        .file("failing.toml", "[[rule]]\nname = \"a\"\n");
    let (code, said) = reader.tried(&format!("ringway gate apply {}", failing.display()))?;
    if code != Some(2) {
        return wrong(format!("{code:?}: {said}"));
    }
    has(&said, "failing.toml:1: ")?;
    reader.stop(Signal::INT)?;
    match reader.border.traces() {
        traces if traces.is_empty() => Ok(()),
        traces => wrong(format!("Ctrl-C leaves {traces}")),
    }
}

fn keep_it_running(reader: &mut Reader) -> Tested {
    let install = reader.lines(&["install -D -m 0644 border.toml /etc/ringway/border.toml"])?[0];
    reader.shell(install)?;
    // The program stands in a folder that a service does not see; the link to it does not.
    let install = reader.lines(&["ringway service install gate"])?[0];
    let installed = reader.shell(&format!("{install} --program /usr/local/bin/ringway"))?;
    has(&installed, UNIT)?;
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok()
    {
        let said = reader.shell(&format!("systemd-analyze verify --man=no {UNIT}"))?;
        if said.contains("ringway-gate") {
            return wrong(said);
        }
    }
    promised(OPTIONS, OPTIONS)?;
    let options = reader.block("toml")?;
    let options = reader.border.file("gate.toml", &format!("{options}\n"));
    reader.shell(&format!("install -m 0644 {} {OPTIONS}", options.display()))?;
    let lines = reader.lines(&[
        "ringway gate check --config /etc/ringway/gate.toml",
        "systemctl enable --now ringway-gate",
        "ringway gate status",
    ])?;
    let checked = "gate.toml: 6 options; it enforces lan0 <-> wan0";
    promised(&reader.shell(lines[0])?, checked)?;
    reader.serve("enforcing, 2 rules")?;
    promised(&reader.shell(lines[2])?, "gateway       enforcing")?;
    reader.torrent(6_883)?;
    let events = || {
        reader
            .tried("cat /var/log/ringway-gate/eve.json")
            .map(|(_, said)| said)
            .unwrap_or_default()
    };
    until("EVE", events, || events().contains("little-sharing"))?;
    // What is decided stays so without it.
    reader.stop(Signal::TERM)?;
    has(&reader.border.traces(), "RINGWAY")?;

    let more = "metrics = \"127.0.0.1:9710\"";
    promised(more, more)?;
    more_options(reader, more)?;
    reader.serve("enforcing, 2 rules")?;
    let curl = reader.lines(&["curl http://127.0.0.1:9710/metrics"])?[0];
    let figures = reader.shell(curl)?;
    let named = HOW_TO
        .split('`')
        .filter(|word| word.starts_with("ringway_gate_"));
    let mut count = 0;
    for name in named {
        has(&figures, &format!("\n{name} ")).or_else(|_| has(&figures, &format!("{name} 0")))?;
        count += 1;
    }
    match count {
        0 => wrong("the document names no figure"),
        _ => Ok(()),
    }
}

/// Adds lines to the options, as the document says.
fn more_options(reader: &Reader, lines: &str) -> Tested {
    let more = reader.border.file("more.toml", &format!("{lines}\n"));
    let line = format!("sh -c 'cat {} >> {OPTIONS}'", more.display());
    reader.shell(&line)?;
    Ok(())
}

fn scan_files(reader: &mut Reader) -> Tested {
    let lines = reader.lines(&[
        "apt-get install clamav-daemon",
        "ringway gate check --yara /etc/ringway/rules",
    ])?;
    let example = blocks(YARA)
        .into_iter()
        .find(|(_, text)| text.contains("Invoice"));
    let (_, example) = example.ok_or("no example of a rule")?;
    let rules = reader.border.file("own.yar", example);
    reader.shell(&format!(
        "install -D {} /etc/ringway/rules/own.yar",
        rules.display()
    ))?;
    has(&reader.shell(lines[1])?, "2 YARA rules")?;
    let rule = reader.block("toml")?;
    let rule = reader.border.file("rule.toml", rule);
    reader.shell(&format!(
        "sh -c 'cat {} >> /etc/ringway/border.toml'",
        rule.display()
    ))?;
    let options = reader.block("toml")?;
    let yara = options.lines().last().unwrap_or_default();
    let scanners = match reader._clamd {
        Some(_) => options,
        None => yara,
    };
    more_options(reader, scanners)?;
    let lines = reader.lines(&[
        "ringway gate check --config /etc/ringway/gate.toml",
        "systemctl restart ringway-gate",
    ])?;
    has(&reader.shell(lines[0])?, "3 rules, 1 tests passed")?;
    reader.stop(Signal::TERM)?;
    reader.serve("enforcing, 3 rules")?;
    let clean = b"a clean file".to_vec();
    serve(&reader.border, 8_001, clean.clone(), true);
    serve(&reader.border, 8_002, EICAR.concat().into_bytes(), true);
    if fetch(&reader.border, 8_001, "clean.txt") != clean {
        return wrong(format!(
            "a clean file: {}",
            reader.shell("ringway gate status")?
        ));
    }
    if fetch(&reader.border, 8_002, "eicar.com").len() >= EICAR.concat().len() {
        return wrong("EICAR's test file has arrived");
    }
    let audit = || {
        reader
            .tried("ringway gate audit")
            .map(|(_, said)| said)
            .unwrap_or_default()
    };
    until("the audit", audit, || audit().contains("EICAR_test_file"))
}

/// The messages of the table, where they can be had.
fn what_is_wrong(reader: &mut Reader) -> Tested {
    let up = "ringway gate up --policy border.toml --inside lan0 --outside wan0";
    let refused = |reader: &Reader, line: &str, words: &str| {
        let (code, said) = reader.tried(line)?;
        match code {
            Some(1) => promised(&said, words),
            code => wrong(format!("{code:?}: {said}")),
        }
    };
    let folder = "another gateway keeps its audit and files in /var/lib/ringway-gate";
    refused(reader, up, folder)?;
    let elsewhere = format!("{up} --state other --control other.sock");
    refused(reader, &elsewhere, "queue 7110 is held by another program")?;
    let bare = format!("setpriv --bounding-set -all {elsewhere}");
    refused(
        reader,
        &bare,
        "the gateway needs CAP_NET_ADMIN and CAP_NET_RAW",
    )?;

    reader.stop(Signal::TERM)?;
    let down = "ringway gate down lan0 wan0";
    promised(down, down)?;
    reader.shell(down)?;
    let traces = reader.border.traces();
    if !traces.is_empty() {
        return wrong(format!("`{down}` leaves {traces}"));
    }
    reader.shell("tc qdisc add dev wan0 root pfifo limit 10")?;
    let enforced = format!("{up} --enforce");
    refused(
        reader,
        &enforced,
        "interface wan0 has a queueing discipline of its own",
    )
}
