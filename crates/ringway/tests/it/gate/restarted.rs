//! A gateway on the in-kernel path that is killed and started again while dozens of connections are
//! open and others are made.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::beside::{Tested, until, wrong};
use super::border::{Border, DEADLINE, SERVER};
use super::kernel::{ANYTHING, Bpffs, HELLO, KERNEL, answered, border, count, echo, said_back};

/// Connections of each kind.
const EACH: usize = 12;
const PLAIN: u16 = 8_080;
const TORRENTS: u16 = 6_881;
const BLOCKED: u16 = 6_346;
const POLICY: &str = "[[rule]]\nname = \"seen\"\napp = \"bittorrent\"\naction = \"audit\"\n\
    [[rule]]\nname = \"no-gnutella\"\napp = \"gnutella\"\naction = \"block\"\n";
const SHARED: &[u8] = b"GET /get/1/a HTTP/1.1\r\nUser-Agent: LimeWire/4.12\r\nX-Queue: 0.1\r\n\r\n";
const LINE: &[u8] = b"a line of text that is no application's\n";

fn call(border: &Border, port: u16) -> Tested<TcpStream> {
    let server: SocketAddr = format!("{SERVER}:{port}").parse()?;
    let connect = || TcpStream::connect_timeout(&server, DEADLINE);
    let stream = border.client.enter(connect)??;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// A conversation that goes on until it is told to end.
struct Talk {
    port: u16,
    turns: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

impl Talk {
    fn begin(
        border: &Border,
        port: u16,
        first: &'static [u8],
        over: &Arc<AtomicBool>,
    ) -> Tested<Talk> {
        let mut stream = call(border, port)?;
        let (turns, over) = (Arc::new(AtomicU64::new(0)), Arc::clone(over));
        Ok(Talk {
            port: stream.local_addr()?.port(),
            turns: Arc::clone(&turns),
            thread: thread::spawn(move || {
                said_back(&mut stream, first)?;
                while !over.load(Ordering::Relaxed) {
                    said_back(&mut stream, LINE)?;
                    turns.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(())
            }),
        })
    }

    fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// Every conversation has said something since this was called.
fn all_go_on(talks: &[Talk], when: &str) -> Tested {
    let before: Vec<u64> = talks.iter().map(Talk::turns).collect();
    let stuck = || {
        let turns = talks.iter().zip(&before);
        let stuck = turns.filter(|(talk, before)| talk.turns() < *before + 3);
        stuck.count()
    };
    until(&format!("{when}: some stand still"), String::new, || {
        stuck() == 0
    })
}

/// How often each calling port was told of by the rule.
fn told(events: &[Value]) -> BTreeMap<u64, usize> {
    let mut told = BTreeMap::new();
    let seen = events
        .iter()
        .filter(|event| event["ringway"]["rule"] == "seen");
    for event in seen {
        *told
            .entry(event["src_port"].as_u64().unwrap_or(0))
            .or_default() += 1;
    }
    told
}

#[test]
fn gateway_killed_under_load_continues_its_flows() -> Tested {
    let Some(mut border) = border("a restart under load on the in-kernel path") else {
        return Ok(());
    };
    let bpffs = Bpffs::mount(border.folder.path())?;
    // For longer than anybody waits here.
    let more = ["--bpffs", bpffs.0.as_str(), "--blocked-for", "10m"];
    let kernel = [&KERNEL[..], &more].concat();
    for port in [PLAIN, TORRENTS, BLOCKED] {
        echo(&border, &format!("{SERVER}:{port}"))?;
    }
    border.up(POLICY, &kernel);
    let blocked = format!("{SERVER}:{BLOCKED}");
    answered(&border, &blocked, SHARED, false)?;
    let over = Arc::new(AtomicBool::new(false));
    let mut talks = Vec::new();
    for (port, first) in [(PLAIN, LINE), (TORRENTS, HELLO.as_slice())] {
        for _ in 0..EACH {
            talks.push(Talk::begin(&border, port, first, &over)?);
        }
    }
    // Of these nothing is decided yet, and they say nothing for a while.
    let quiet: Tested<Vec<TcpStream>> = (0..EACH).map(|_| call(&border, PLAIN)).collect();
    let mut quiet = quiet?;
    for stream in &mut quiet {
        said_back(stream, LINE)?;
    }
    // No decision takes more than 64 packets.
    until("some say too little", String::new, || {
        talks.iter().all(|talk| talk.turns() > 64)
    })?;
    let ports: Vec<u64> = talks.iter().map(|talk| talk.port.into()).collect();
    let torrents = &ports[EACH..];
    let all_told = |events: &[Value]| {
        let told = told(events);
        torrents.iter().all(|port| told.contains_key(port))
    };
    border.audit_when(all_told);

    border.daemon().kill()?;
    all_go_on(&talks, "without a gateway")?;
    answered(&border, &blocked, ANYTHING, false)?;
    for turn in 0..EACH {
        said_back(&mut call(&border, PLAIN)?, LINE)
            .map_err(|error| format!("call {turn} without a gateway: {error}"))?;
    }

    border.up(POLICY, &kernel);
    all_go_on(&talks, "after")?;
    answered(&border, &blocked, ANYTHING, false)?;
    for stream in &mut quiet {
        for _ in 0..EACH {
            said_back(stream, LINE)?;
        }
    }
    for _ in 0..EACH {
        said_back(&mut call(&border, PLAIN)?, LINE)?;
    }
    over.store(true, Ordering::Relaxed);
    for (number, talk) in talks.into_iter().enumerate() {
        let ended = talk.thread.join().map_err(|_| "a conversation panicked")?;
        ended.map_err(|error| format!("conversation {number}: {error}"))?;
    }
    no_flow_is_midway(&border, &ports)
}

/// Of none of these connections, of which the later ones are torrents, a beginning was missed, and
/// none was told of twice.
fn no_flow_is_midway(border: &Border, ports: &[u64]) -> Tested {
    let status = border.status();
    if count(&status, "lost") != 0 {
        return wrong(format!("beginnings were lost: {status}"));
    }
    // Of those who were quiet nothing was decided: they are looked at from where they go on.
    let flows = border.ask(&["flows"]).objects()?;
    let midway = |flow: &&Value| {
        flow["midway"] == true && ports.iter().any(|port| flow["client_port"] == *port)
    };
    let midway: Vec<&Value> = flows.iter().filter(midway).collect();
    if !midway.is_empty() {
        return wrong(format!("{} begun in the middle: {midway:#?}", midway.len()));
    }
    let told = told(&border.audit());
    let once = ports[EACH..].iter().all(|port| told.get(port) == Some(&1));
    if !once || told.len() != EACH {
        return wrong(format!("told {told:?}: {:#?}", border.audit()));
    }
    Ok(())
}
