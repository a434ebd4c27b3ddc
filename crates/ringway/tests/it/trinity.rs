//! The example `trinity`: mail is counted by its sender's network in a ring of which a fifth lies,
//! and a real Postfix is told.

mod mail;
// An example that is tested is not built to be run, so its tests are run here.
#[path = "../../../../examples/trinity/request.rs"]
mod request;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringway_node::control::{Client, CountsToLeave, NamedCount, Reply, Request, TallyFound};
use ringway_testbed::{Ring, RingBuilder, Running, TestbedError, free_port, wait_until};
use serde_json::json;

use super::program;

/// How long each part may take; generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(180);

/// What a malicious router claims to have counted.
const LIE: u64 = 1_000_000_000;

/// Cargo builds it before it runs the tests of a whole package, beside the folder that this program
/// is in.
fn example() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).unwrap();
    let found = folder.join("examples/trinity");
    let path = found.display();
    assert!(
        found.is_file(),
        "{path} is missing: `cargo build -p ringway --example trinity`"
    );
    found
}

/// One that runs beside a router.
struct Trinity {
    port: u16,
    _running: Running,
}

impl Trinity {
    fn start(ring: &Ring, router: &str, arguments: &[&str]) -> Trinity {
        let port = free_port().unwrap();
        let mut command = Command::new(example());
        command.arg("--control").arg(socket(ring, router));
        command.arg("--listen").arg(format!("127.0.0.1:{port}"));
        command.args(arguments);
        let log = ring.folder().join(format!("{router}.trinity.log"));
        let running = Running::start(command, &log).unwrap();
        wait_until(DEADLINE, || {
            let connected = TcpStream::connect(("127.0.0.1", port));
            connected.map_err(|error| TestbedError(format!("{error}: {}", running.log_text())))
        })
        .unwrap();
        Trinity {
            port,
            _running: running,
        }
    }
}

/// What Postfix holds to one: a connection for many requests.
struct Asking(BufReader<TcpStream>);

impl Asking {
    fn to(trinity: &Trinity) -> Asking {
        let stream = TcpStream::connect(("127.0.0.1", trinity.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Asking(BufReader::new(stream))
    }

    /// The action for a mail from this address.
    fn ask(&mut self, client: &str) -> String {
        let request = format!(
            "request=smtpd_access_policy\nprotocol_state=RCPT\nprotocol_name=ESMTP\n\
             client_address={client}\nclient_name=unknown\ninstance=\nsender=a@b.test\n\n"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut action = String::new();
        self.0.read_line(&mut action).unwrap();
        let mut end = String::new();
        self.0.read_line(&mut end).unwrap();
        assert_eq!(end, "\n");
        let action = action.trim_end().strip_prefix("action=");
        action.unwrap().to_owned()
    }
}

/// A number of the header that an action adds.
fn number(action: &str, field: &str) -> u64 {
    let found = action.split("; ").find_map(|part| {
        let (name, value) = part
            .rsplit_once(' ')
            .unwrap_or(("", part))
            .1
            .split_once('=')?;
        (name == field).then(|| value.parse().ok())?
    });
    found.unwrap_or_else(|| panic!("no {field} in {action}"))
}

fn socket(ring: &Ring, router: &str) -> PathBuf {
    ring.member(router).unwrap().home.join("control.sock")
}

fn ask(socket: &Path, request: &Request) -> Vec<Reply> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let replies = runtime.block_on(async { Client::request(socket, request).await?.all().await });
    replies.unwrap()
}

/// Seconds of a window that does not end soon, and when it has begun.
pub(super) fn window() -> (u64, u64) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let fits = |window: &u64| window - now % window > 3_600;
    let window = [86_400, 70_000].into_iter().find(fits).unwrap();
    (window, now - now % window)
}

/// Has a router leave counts, until most of those that ought to have them say so.
pub(super) fn leave(ring: &Ring, router: &str, counts: &[(String, u64)], start: u64, window: u64) {
    let socket = socket(ring, router);
    let counts = counts.iter().map(|(network, count)| NamedCount {
        name: format!("mail/{network}/{start}"),
        count: *count,
    });
    let request = Request::Count(CountsToLeave {
        counts: counts.collect(),
        expires: start + window + 600,
    });
    let left = wait_until(DEADLINE, || {
        for reply in ask(&socket, &request) {
            match reply {
                Reply::CountLeft(left) if 2 * left.copies > left.group => {}
                other => return Err(TestbedError(format!("{other:?}"))),
            }
        }
        Ok(())
    });
    left.unwrap_or_else(|error| panic!("{error}\n{}", ring.member(router).unwrap().log_text()));
}

pub(super) fn tally(ring: &Ring, router: &str, network: &str, start: u64) -> TallyFound {
    let name = format!("mail/{network}/{start}");
    let replies = ask(&socket(ring, router), &Request::Tally { name });
    match replies.into_iter().next() {
        Some(Reply::Tally(found)) => found,
        other => panic!("{other:?}"),
    }
}

const ROUTERS: usize = 20;
const LIARS: usize = 4;
/// Routers that have a mail server, which asks.
const ASKED: usize = 4;
const NETWORKS: usize = 40;
/// Queries a second, of all mail servers together.
const RATE: u64 = 500;
/// Processes of each mail server that ask, and queries of each of them.
const PROCESSES: u64 = 10;
const QUERIES: u64 = 250;

fn router(n: usize) -> String {
    format!("mx{n}")
}

/// The last of each five.
fn lies(router: usize) -> bool {
    router % 5 == 4
}

pub(super) fn network(n: usize) -> String {
    format!("192.0.{n}.0/24")
}

/// What an honest router that asks nothing has counted.
fn counted(router: usize, network: usize) -> u64 {
    ((router * 7 + network * 3) % 30 + 1) as u64
}

/// The mails of one network at one server.
#[derive(Default)]
struct Asked {
    begun: AtomicU64,
    answered: AtomicU64,
}

/// What is true of one network: what each honest router has counted.
struct Truth {
    /// Of those that ask: it grows.
    asked: Vec<Asked>,
    others: Vec<u64>,
}

impl Truth {
    fn now(&self) -> Vec<u64> {
        let asked = self.asked.iter();
        let asked = asked.map(|asked| asked.begun.load(Ordering::SeqCst));
        asked.chain(self.others.iter().copied()).collect()
    }

    fn sum(&self) -> u64 {
        self.now().iter().sum()
    }

    /// The most that decision 113 lets a reader miss: the largest honest counts but its own.
    fn hidden(&self, reader: usize) -> u64 {
        let mut counts = self.now();
        counts.remove(reader);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.iter().take(LIARS).sum()
    }

    /// Counts a mail at a server that asks, and whether the answer is within the stated error: what
    /// has been in the ring since before, and the own count, are known for sure.
    fn ask(&self, asking: &mut Asking, reader: usize, network: usize) -> String {
        let of_it = &self.asked[reader];
        let own = of_it.answered.load(Ordering::SeqCst) + 1;
        let begun = of_it.begun.fetch_add(1, Ordering::SeqCst);
        let action = asking.ask(&format!("192.0.{network}.{}", begun % 250));
        of_it.answered.fetch_add(1, Ordering::SeqCst);
        let certain = number(&action, "at-least");
        let (most, hidden) = (self.sum(), self.hidden(reader));
        let least = (self.others.iter().sum::<u64>() + own).saturating_sub(hidden);
        assert!(
            (least..=most).contains(&certain),
            "{certain} is not within {least} and {most}: {action}"
        );
        action
    }
}

/// Twenty routers, four of which sign a thousand million for each network and fill keepers with
/// counts of their own.
fn ring_with_liars(start: u64, window: u64) -> (Ring, Vec<Truth>) {
    let builder = RingBuilder::new(program());
    let builder = (0..ROUTERS).fold(builder, |builder, n| builder.router(&router(n)));
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    for n in (0..ROUTERS).filter(|n| lies(*n)) {
        let lies: Vec<_> = (0..NETWORKS).map(|n| (network(n), LIE)).collect();
        leave(&ring, &router(n), &lies, start, window);
        let flood: Vec<_> = (0..100).map(|n| (format!("10.{n}.0.0/24"), 1)).collect();
        leave(&ring, &router(n), &flood, start, window);
    }
    let honest: Vec<usize> = (0..ROUTERS).filter(|n| !lies(*n)).collect();
    for n in &honest[ASKED..] {
        let counts: Vec<_> = (0..NETWORKS)
            .map(|at| (network(at), counted(*n, at)))
            .collect();
        leave(&ring, &router(*n), &counts, start, window);
    }
    let truth = (0..NETWORKS).map(|at| Truth {
        asked: (0..ASKED).map(|_| Asked::default()).collect(),
        others: honest[ASKED..].iter().map(|n| counted(*n, at)).collect(),
    });
    (ring, truth.collect())
}

/// The first mail of each network waits until its tally has been read.
fn warm_up(servers: &[Trinity], truth: &[Truth]) {
    thread::scope(|scope| {
        for (reader, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                let mut asking = Asking::to(server);
                for (at, truth) in truth.iter().enumerate() {
                    let asked = &truth.asked[reader];
                    let warm = wait_until(DEADLINE, || {
                        asked.begun.fetch_add(1, Ordering::SeqCst);
                        let action = asking.ask(&format!("192.0.{at}.1"));
                        asked.answered.fetch_add(1, Ordering::SeqCst);
                        if action.starts_with("PREPEND") {
                            return Ok(());
                        }
                        Err(TestbedError(format!("{}: {action}", network(at))))
                    });
                    warm.unwrap();
                }
            });
        }
    });
}

/// Asks as fast as Postfix would, and longer if that is too fast; gives how long it took, and each
/// answer.
fn ask_all(servers: &[Trinity], truth: &[Truth]) -> (Duration, Vec<Duration>) {
    let begun = Instant::now();
    let answers = Mutex::new(Vec::new());
    let asking = ASKED as u64 * PROCESSES;
    thread::scope(|scope| {
        for n in 0..asking {
            let answers = &answers;
            scope.spawn(move || {
                let reader = n as usize % ASKED;
                let mut own = Vec::new();
                let mut connection = Asking::to(&servers[reader]);
                for query in 0..QUERIES {
                    let due = Duration::from_secs(query * asking + n) / RATE as u32;
                    thread::sleep(due.saturating_sub(begun.elapsed()));
                    // Some networks send far more than others.
                    let at = (query * query + n) as usize % NETWORKS;
                    let asked = Instant::now();
                    truth[at].ask(&mut connection, reader, at);
                    own.push(asked.elapsed());
                }
                answers.lock().unwrap().extend(own);
            });
        }
    });
    let mut answers = answers.into_inner().unwrap();
    answers.sort_unstable();
    (begun.elapsed(), answers)
}

/// Each answer is within the stated error while 500 queries a second are asked for; how many there
/// were is printed, and kept in `target/bench/trinity.json`.
#[test]
fn answers_stay_right_among_lying_routers() {
    let (window, start) = window();
    let (ring, truth) = ring_with_liars(start, window);
    let seconds = window.to_string();
    let arguments = ["--window", &seconds];
    let honest: Vec<usize> = (0..ROUTERS).filter(|n| !lies(*n)).collect();
    let servers = honest.iter().take(ASKED);
    let servers: Vec<_> = servers
        .map(|n| Trinity::start(&ring, &router(*n), &arguments))
        .collect();
    warm_up(&servers, &truth);
    let (took, answers) = ask_all(&servers, &truth);
    keep(took, &answers);
    // Once all has been left and read again, nothing that honest routers have counted is missing
    // but the largest counts.
    for (reader, server) in servers.iter().enumerate() {
        let mut asking = Asking::to(server);
        for (at, truth) in truth.iter().enumerate() {
            wait_until(DEADLINE, || {
                let action = truth.ask(&mut asking, reader, at);
                let least = truth.sum() - truth.hidden(reader);
                // What the others count from now on is none.
                if number(&action, "at-least") < least {
                    return Err(TestbedError(format!("{least} are certain: {action}")));
                }
                assert!(number(&action, "reported") >= LIE, "{action}");
                Ok(())
            })
            .unwrap();
        }
    }
    assert_lies_are_seen(&ring, start);
}

/// What a service has left in the ring is not counted twice, nor forgotten, when it starts again.
#[test]
fn counts_go_on_after_restart() {
    let (window, start) = window();
    let builder = RingBuilder::new(program());
    let builder = ["mx0", "mx1", "mx2"]
        .iter()
        .fold(builder, |b, name| b.router(name));
    let ring = builder.start().unwrap();
    ring.wait_until_settled().unwrap();
    let seconds = window.to_string();
    let arguments = ["--window", &seconds, "--publish", "1", "--cache", "1"];
    let mut mails = 0;
    for _ in 0..2 {
        let trinity = Trinity::start(&ring, "mx0", &arguments);
        let mut asking = Asking::to(&trinity);
        let counted = wait_until(DEADLINE, || {
            mails += 1;
            let action = asking.ask("192.0.9.1");
            if action.starts_with("PREPEND") {
                return Ok(number(&action, "at-least"));
            }
            Err(TestbedError(action))
        });
        assert_eq!(counted.unwrap(), mails);
        let left = wait_until(DEADLINE, || {
            let found = tally(&ring, "mx1", &network(9), start);
            let counts: Vec<u64> = found.counts.iter().map(|count| count.count).collect();
            (counts == [mails])
                .then_some(())
                .ok_or_else(|| TestbedError(format!("{counts:?}")))
        });
        left.unwrap();
    }
}

/// The tally itself: all counts, of each router one.
fn assert_lies_are_seen(ring: &Ring, start: u64) {
    let found = tally(ring, "mx0", &network(3), start);
    let mut by_router = BTreeMap::new();
    for count in &found.counts {
        assert!(by_router.insert(&count.ring_key, count.count).is_none());
    }
    assert_eq!(by_router.len(), ROUTERS, "{found:?}");
    let lies = by_router.values().filter(|count| **count == LIE);
    assert_eq!(lies.count(), LIARS, "{found:?}");
}

/// Keeps the rate, and how long the slowest hundredth of the answers took.
fn keep(took: Duration, answers: &[Duration]) {
    let rate = answers.len() as f64 / took.as_secs_f64();
    let slow = answers[answers.len() * 99 / 100].as_secs_f64() * 1e3;
    let mut lines = String::new();
    for (metric, value, unit) in [("queries", rate, "1/s"), ("answer_p99", slow, "ms")] {
        let figure = json!({
            "schema": "ringway.bench/1", "bench": "trinity",
            "case": format!("20 routers, 4 lie, {NETWORKS} networks"),
            "metric": metric, "value": value, "unit": unit,
            "baseline": null, "runs": 1, "deviation": 0.0,
        });
        writeln!(lines, "{figure}").unwrap();
    }
    // Past the harness, which hides what passing tests print.
    write!(std::io::stderr(), "{lines}").ok();
    let folder = example();
    let folder = folder.ancestors().nth(3).unwrap().join("bench");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("trinity.json"), lines).unwrap();
}
