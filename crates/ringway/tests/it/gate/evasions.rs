//! Evasion on both paths: every sample, and every capture of a real program, changed on the way as
//! a sender could, has the same verdicts in user space and with the kernel's triage before it.
//!
//! The packets are put on the wire as they are (raw sockets), between hosts that are only routes.
//! Each change of each capture has addresses of its own, so that no conversation tells the gateway
//! anything of another one.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ringway_gateway::samples::captures;
use ringway_gateway::{LinkType, Packets};
use ringway_testbed::Host;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use serde_json::Value;

use super::beside::{Job, Tested, all, wrong};
use super::border::{Border, CLIENT, CLIENT_V6, DEADLINE, SERVER, SERVER_V6};
use super::both::{GatePath, on_both};
use super::changes::{CHANGES, Change, parts};

/// Between two packets of a conversation, at the least.
const PAUSE: Duration = Duration::from_millis(1);
/// What is sent last, after which nothing more is to come; no program listens there.
const LAST: u16 = 9;

/// Captures made in code, and those of real programs.
fn every_capture() -> Tested<Vec<Vec<u8>>> {
    let mut files: Vec<Vec<u8>> = captures().into_iter().map(|(_, file)| file).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/tests/captures");
    let mut paths: Vec<_> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "pcap"));
    paths.sort();
    for path in paths {
        files.push(fs::read(path)?);
    }
    Ok(files)
}

/// Sends IP packets as they are, of both versions.
pub(super) struct Sender([OwnedFd; 2]);

impl Sender {
    pub(super) fn of(host: &Host) -> Tested<Sender> {
        let raw = |family| host.enter(|| socket(family, SocketType::RAW, Some(ipproto::RAW)));
        Ok(Sender([
            raw(AddressFamily::INET)??,
            raw(AddressFamily::INET6)??,
        ]))
    }

    pub(super) fn send(&self, packet: &[u8]) -> Tested {
        let [v4, v6] = &self.0;
        let (socket, to): (_, IpAddr) = match packet[0] >> 4 {
            6 => (v6, <[u8; 16]>::try_from(&packet[24..40])?.into()),
            _ => (v4, <[u8; 4]>::try_from(&packet[16..20])?.into()),
        };
        sendto(socket, packet, SendFlags::empty(), &SocketAddr::new(to, 0))?;
        Ok(())
    }
}

/// Lets the gateway take client and server for the ways to hosts that there are not: what comes for
/// them is dropped there.
fn route(border: &Border) -> Tested {
    border.with_ipv6();
    for host in [&border.client, &border.server] {
        host.check(&["sysctl", "-qw", "net.ipv4.ip_forward=0"])?;
    }
    for (place, by) in [
        ("10.96.0.0/11", CLIENT),
        ("100.64.0.0/10", SERVER),
        ("2001:db8:a::/48", CLIENT_V6),
        ("2001:db8:b::/48", SERVER_V6),
    ] {
        border.gateway.route(place, by.parse()?)?;
    }
    // From now on all know where their neighbours are, and nothing is lost at the beginning.
    for server in [SERVER, SERVER_V6] {
        let called = border.client.enter(|| TcpStream::connect((server, LAST)))?;
        if !called.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            return wrong(format!("{server} does not answer"));
        }
    }
    Ok(())
}

/// How many packets wait in the queues of a host.
struct Queues(File);

impl Queues {
    fn of(host: &Host) -> Tested<Queues> {
        // The process that opens it decides whose it is.
        let open = || File::open("/proc/thread-self/net/netfilter/nfnetlink_queue");
        Ok(Queues(host.enter(open)??))
    }

    fn waiting(&self) -> Tested<usize> {
        let mut text = [0; 4_096];
        let length = self.0.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        let waiting = text.lines().filter_map(|line| {
            let third = line.split_whitespace().nth(2)?;
            third.parse::<usize>().ok()
        });
        Ok(waiting.sum())
    }

    /// Waits until nothing waits in them: each packet of a conversation has its verdict before the
    /// next one is sent. What was decided meanwhile would take another queue and overtake it,
    /// and the copy that counts is the one that comes first.
    fn empty(&self) -> Tested {
        let end = Instant::now() + DEADLINE;
        thread::sleep(PAUSE);
        while self.waiting()? > 0 {
            if Instant::now() > end {
                return wrong("packets wait for a verdict");
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Sends all of them beside each other, each in its order.
fn play(border: &Border, conversations: Vec<Vec<(bool, Vec<u8>)>>) -> Tested {
    let (inside, outside) = (Sender::of(&border.client)?, Sender::of(&border.server)?);
    let queues = Queues::of(&border.gateway)?;
    let mut running: Vec<_> = conversations.into_iter().map(Vec::into_iter).collect();
    while !running.is_empty() {
        for conversation in &mut running {
            let Some((outbound, packet)) = conversation.next() else {
                continue;
            };
            let sender = if outbound { &inside } else { &outside };
            sender.send(&packet)?;
        }
        running.retain(|conversation| conversation.len() > 0);
        queues.empty()?;
    }
    Ok(())
}

/// A node of Gnutella at a port that no capture has.
fn last() -> Vec<u8> {
    let mut packets = Packets::new();
    let client = SocketAddr::from(([10, 0, 0, 1], 40_000));
    let mut stream = packets.tcp(client, SocketAddr::from(([198, 51, 100, 1], LAST)));
    stream.open();
    stream.client(b"GNUTELLA CONNECT/0.6\r\nUser-Agent: a\r\n\r\n");
    packets.to_pcap(LinkType::RawIp)
}

/// Every change of every capture through a gateway with this policy.
fn evading(name: &'static str, policy: String) -> Job<'static> {
    on_both(name, move |path| {
        let Some(mut border) = Border::on(name, path) else {
            return Ok(None);
        };
        route(&border)?;
        let policy = format!(
            "[[rule]]\nname = \"last\"\napp = \"gnutella\"\nport = {LAST}\naction = \"audit\"\n{policy}"
        );
        // One conversation is not to tell anything of the next.
        border.up(&policy, &["--enforce", "--no-connection-cache"]);
        let mut conversations = Vec::new();
        for (capture, file) in every_capture()?.iter().enumerate() {
            for change in CHANGES.into_iter().enumerate() {
                conversations.push(change.1.wire(&parts(file, change, capture)?));
            }
        }
        play(&border, conversations)?;
        // Packets are taken from the queue in their order.
        let last = parts(&last(), (CHANGES.len(), Change::Nothing), 0)?;
        play(&border, vec![Change::Nothing.wire(&last)])?;
        let events = border.audit_when(|events| {
            let mut rules = events.iter().map(|event| &event["ringway"]["rule"]);
            rules.any(|rule| rule == "last")
        });
        let status = border.status();
        // Were everything asked about, nothing would be tested but user space twice. Handshakes are
        // a tenth.
        let [passed, asked] =
            [&status["in_kernel"]["passed"], &status["packets"]].map(Value::as_u64);
        if path == GatePath::Kernel && passed < asked.map(|asked| asked / 8) {
            return wrong(format!("the kernel has asked too much: {status}"));
        }
        if events.len() < 10 * CHANGES.len() {
            return wrong(format!("{} events only: {status}", events.len()));
        }
        border.seen()
    })
}

#[test]
fn disguised_conversations_get_equal_verdicts_on_both_paths() -> Tested {
    let rule = |apps: [&str; 5], more: &str| {
        format!("[[rule]]\nname = \"these\"\napp = {apps:?}\n{more}\n")
    };
    // Some of the applications each, so that the kernel has something to pass; of the first ones
    // none is known but by what its packets say, so that it passes what nothing is known of as
    // well.
    let read = ["http", "irc", "msn", "gnutella", "fasttrack"];
    let shared = ["bittorrent", "edonkey", "directconnect", "dcc", "xmpp"];
    all(vec![
        // Files and messages are read and written down.
        evading(
            "evasions, audited",
            rule(read, "action = \"audit\"\naudit_text = true"),
        ),
        evading(
            "evasions, blocked",
            rule(shared, "confidence = \"guess\"\naction = \"block\""),
        ),
    ])
}
