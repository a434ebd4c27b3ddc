//! The gateway's end while files go by: killed under load, or restarted with its rules left in the
//! kernel.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::Value;

use super::beside::{Tested, all, job, until, wrong};
use super::border::{Border, DEADLINE, SERVER};
use super::both::{GatePath, on_each};
use super::scans::{SCAN, fetch, serve};
use crate::random_bytes;

/// Downloads that are under way when the gateway is killed.
const DOWNLOADS: usize = 20;
/// Bytes of each.
const SIZE: usize = 4 << 20;
const PORT: u16 = 8_001;
const NEEDLE: &[u8] = b"a needle in the hay";
const RULES: &str = r#"rule Needle { strings: $a = "a needle in the hay" condition: $a }"#;
const CLOSED: &str = "[gateway]\nfailure = \"closed\"\n";

/// A download under way.
struct Download(JoinHandle<Vec<u8>>);

impl Download {
    /// Asks for a file; what arrives is counted.
    fn begin(border: &Border, arrived: &Arc<AtomicUsize>) -> Tested<Download> {
        let connect = || TcpStream::connect((SERVER, PORT));
        let mut stream = border.client.enter(connect)??;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(format!("GET /a.bin HTTP/1.1\r\nHost: {SERVER}\r\n\r\n").as_bytes())?;
        let arrived = Arc::clone(arrived);
        Ok(Download(thread::spawn(move || {
            let (mut bytes, mut buffer) = (Vec::new(), vec![0; 65_536]);
            // A reset is an end too, and so is nothing for a minute.
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..read]);
                arrived.fetch_add(read, Ordering::Relaxed);
            }
            bytes
        })))
    }

    /// What came of the file, in the end.
    fn end(self) -> Tested<Vec<u8>> {
        let mut bytes = self.0.join().map_err(|_| "a download panicked")?;
        let head = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        Ok(head.map_or(Vec::new(), |end| bytes.split_off(end + 4)))
    }
}

/// Arguments of a gateway that scans with the test's rule.
fn scanner(border: &Border) -> [String; 3] {
    let rules = border.file("own.yar", RULES);
    ["--enforce", "--yara", rules.to_str().unwrap_or_default()].map(str::to_owned)
}

fn up(border: &mut Border, policy: &str, more: &[&str]) {
    let scanner = scanner(border);
    let arguments: Vec<&str> = scanner.iter().map(String::as_str).collect();
    border.up(policy, &[&arguments, more].concat());
}

/// Begins downloads and kills the gateway when an eighth has come; gives the count of what arrives.
fn killed_under_load(border: &mut Border) -> Tested<(Vec<Download>, Arc<AtomicUsize>)> {
    let arrived = Arc::new(AtomicUsize::new(0));
    let downloads: Tested<Vec<Download>> = (0..DOWNLOADS)
        .map(|_| Download::begin(border, &arrived))
        .collect();
    let came = || arrived.load(Ordering::Relaxed);
    until("too little comes", String::new, || {
        came() > DOWNLOADS * SIZE / 8
    })?;
    border.daemon().kill()?;
    if came() > DOWNLOADS * SIZE * 3 / 4 {
        return wrong("they were as good as over");
    }
    Ok((downloads?, arrived))
}

#[test]
fn scanned_downloads_end_whole_after_a_kill() -> Tested {
    on_each(|path| {
        // What a rule says for itself is for a gateway that is there.
        for failure in ["open", "closed"] {
            let policy = format!("{SCAN}failure = \"{failure}\"\n");
            let Some(mut border) = Border::on("a gateway killed while it scans", path) else {
                return Ok(());
            };
            let body = random_bytes("killed", SIZE);
            serve(&border, PORT, body.clone(), true);
            up(&mut border, &policy, &[]);
            let (downloads, _) = killed_under_load(&mut border)?;
            for (number, download) in downloads.into_iter().enumerate() {
                let arrived = download.end()?;
                if arrived != body {
                    let bytes = arrived.len();
                    return wrong(format!(
                        "{number}: {bytes} bytes, or others, under {policy}"
                    ));
                }
            }
            // The next run is none the worse for it, and writes down where the first one did.
            up(&mut border, &policy, &[]);
            let mut spoilt = body;
            spoilt[2_000_000..2_000_000 + NEEDLE.len()].copy_from_slice(NEEDLE);
            serve(&border, PORT + 1, spoilt, true);
            if fetch(&border, PORT + 1, "spoilt.bin").len() >= SIZE {
                return wrong("the next run does not scan");
            }
            border.audit_when(|events| {
                events
                    .iter()
                    .any(|event| event["ringway"]["found"] == "Needle")
            });
        }
        Ok(())
    })
}

/// That nothing comes takes a time to show.
#[test]
fn killed_gateway_failing_closed_stops_scanned_downloads() -> Tested {
    let Some(mut border) = Border::new("a gateway killed while it scans, failing closed") else {
        return Ok(());
    };
    let body = random_bytes("killed", SIZE);
    serve(&border, PORT, body.clone(), true);
    up(&mut border, &format!("{CLOSED}{SCAN}"), &[]);
    let (downloads, arrived) = killed_under_load(&mut border)?;
    // What had passed it is still taken from the client's buffers.
    thread::sleep(Duration::from_secs(1));
    let before = arrived.load(Ordering::Relaxed);
    let server: SocketAddr = format!("{SERVER}:{PORT}").parse()?;
    let connect = || TcpStream::connect_timeout(&server, Duration::from_secs(4));
    if border.client.enter(connect)?.is_ok() {
        return wrong("a new connection went through");
    }
    let after = arrived.load(Ordering::Relaxed);
    if after != before {
        return wrong(format!("{} bytes came nevertheless", after - before));
    }
    // TCP has repeated all the while: once the rules are gone the downloads go on.
    let down = ["gate", "down", &border.inside, &border.outside];
    let outcome = border.program().run(down)?;
    if outcome.code != Some(0) || !border.traces().is_empty() {
        return wrong(format!("{} {}", outcome.stderr, border.traces()));
    }
    for download in downloads {
        if download.end()? != body {
            return wrong("a download did not go on after `gate down`");
        }
    }
    Ok(())
}

/// Bytes of a download that lives across a restart: more than what was taken until then and all
/// buffers on its way.
const LONG: usize = 40 << 20;
/// Bytes that the client's kernel keeps for it. Where the kernel chooses by itself it may keep all
/// of the download (`net.ipv4.tcp_rmem`), which then comes before there is another gateway.
const BUFFER: usize = 1 << 20;

/// A download whose bytes are asked for by and by.
struct Slowly {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// How the last read ended that gave nothing: by the end, a pause, a reset.
    ended: Option<ErrorKind>,
}

impl Slowly {
    fn begin(border: &Border) -> Tested<Slowly> {
        let connect = || TcpStream::connect((SERVER, PORT));
        let mut stream = border.client.enter(connect)??;
        set_socket_recv_buffer_size(&stream, BUFFER)?;
        stream.write_all(format!("GET /a.bin HTTP/1.1\r\nHost: {SERVER}\r\n\r\n").as_bytes())?;
        Ok(Slowly {
            stream,
            bytes: Vec::new(),
            ended: None,
        })
    }

    /// Takes so many bytes more, or what there is before the end or a pause of this length.
    fn take(&mut self, most: usize, pause: Duration) -> Tested {
        self.stream.set_read_timeout(Some(pause))?;
        let (before, mut buffer) = (self.bytes.len(), vec![0; 65_536]);
        while self.bytes.len() < before + most {
            match self.stream.read(&mut buffer) {
                Ok(read @ 1..) => self.bytes.extend_from_slice(&buffer[..read]),
                Ok(_) => {
                    self.note(ErrorKind::UnexpectedEof);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.note(error.kind());
                    break;
                }
            }
        }
        Ok(())
    }

    /// What comes after a reset tells nothing more.
    fn note(&mut self, ended: ErrorKind) {
        if !self.reset() {
            self.ended = Some(ended);
        }
    }

    fn reset(&self) -> bool {
        self.ended == Some(ErrorKind::ConnectionReset)
    }

    /// Takes what has arrived, and no more than buffers hold where it comes without end; gives the
    /// time since when nothing waits.
    fn drain(&mut self) -> Tested<Instant> {
        self.stream.set_nonblocking(true)?;
        let (before, mut buffer) = (self.bytes.len(), vec![0; 65_536]);
        let begun = loop {
            let now = Instant::now();
            if self.bytes.len() > before + 2 * BUFFER {
                break now;
            }
            match self.stream.read(&mut buffer) {
                Ok(read @ 1..) => self.bytes.extend_from_slice(&buffer[..read]),
                Ok(_) => break now,
                Err(error) => {
                    // A reset is told once.
                    self.note(error.kind());
                    break now;
                }
            }
        };
        self.stream.set_nonblocking(false)?;
        Ok(begun)
    }

    /// Takes up to so many stretches of 4 MiB, until one comes by the class or nothing does for a
    /// pause of this length; gives the rate of each in bits a second.
    fn rates(&mut self, most: usize, pause: Duration) -> Tested<Vec<f64>> {
        let mut rates = Vec::new();
        while rates.len() < most {
            let begun = self.drain()?;
            let before = self.bytes.len();
            self.take(STRETCH, pause)?;
            let came = self.bytes.len() - before;
            let rate = 8.0 * f64::from(u32::try_from(came)?) / begun.elapsed().as_secs_f64();
            rates.push(rate);
            if came < STRETCH || OF_CLASS.contains(&rate) {
                break;
            }
        }
        Ok(rates)
    }

    /// Whether all of the file came, and nothing else.
    fn is(&self, body: &[u8]) -> bool {
        let head = self.bytes.windows(4).position(|part| part == b"\r\n\r\n");
        head.is_some_and(|end| self.bytes[end + 4..] == *body)
    }
}

/// A download under which the gateway was restarted.
struct Restarted {
    download: Slowly,
    /// What came without a gateway, in bits a second.
    meanwhile: f64,
    /// The rates without a gateway and with the next one.
    rates: [Vec<f64>; 2],
}

fn restarted(border: &mut Border, policy: &str, body: &[u8]) -> Tested<Restarted> {
    serve(border, PORT, body.to_vec(), true);
    up(border, policy, &["--leave"]);
    let mut download = Slowly::begin(border)?;
    download.take(4 << 20, DEADLINE)?;
    if border.daemon().terminate()? != Some(0) {
        return wrong("a bad end");
    }
    if border.traces().is_empty() {
        return wrong("no rules are left");
    }
    // What waits in the client's buffers comes faster.
    download.take(2 << 20, Duration::from_secs(5))?;
    let (begun, bytes) = (Instant::now(), download.bytes.len());
    let without = download.rates(2, Duration::from_secs(5))?;
    let came = u32::try_from(download.bytes.len() - bytes)?;
    let meanwhile = 8.0 * f64::from(came) / begun.elapsed().as_secs_f64();
    up(border, policy, &["--leave"]);
    download.take(8 << 20, Duration::from_secs(12))?;
    let with = download.rates(4, Duration::from_secs(12))?;
    download.take(LONG, Duration::from_secs(12))?;
    Ok(Restarted {
        download,
        meanwhile,
        rates: [without, with],
    })
}

/// Bytes whose rate is measured.
const STRETCH: usize = 4 << 20;
/// Within 5 % of the class, of which headers take another 5 % at most.
const OF_CLASS: std::ops::Range<f64> = 14.4e6..16.8e6;

const BULK: &str = "[classes.bulk]\nrate = \"16 Mbit/s\"\n";
const SHAPED: &str =
    "[[rule]]\nname = \"slow\"\napp = \"http\"\naction = \"shape\"\nclass = \"bulk\"\n";
const OTHERS: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const ALLOWED: &str = "[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"allow\"\n";

#[test]
fn other_marks_are_refused_behind_left_rules() -> Tested {
    let Some(mut border) = Border::new("rules with other marks") else {
        return Ok(());
    };
    border.up(OTHERS, &["--enforce", "--leave"]);
    border.status();
    border.daemon().terminate()?;
    let left = border.traces();
    let others = border.gate_up(OTHERS, &["--enforce", "--leave", "--mask", "0xff"]);
    let refused = border.program().run(&others)?;
    let mend = "`ringway gate down` takes them out";
    if refused.code != Some(2) || !refused.stderr.contains(mend) {
        return wrong(format!("{:?} {}", refused.code, refused.stderr));
    }
    if left.is_empty() || border.traces() != left {
        return wrong("what was left is changed");
    }
    let down = ["gate", "down", &border.inside, &border.outside];
    border.program().run(down)?;
    border.up(OTHERS, &["--enforce", "--mask", "0xff"]);
    border.status();
    Ok(())
}

/// What has to hold under each of these policies, on either path; each has a border of its own.
fn under_each(
    policies: &[(&'static str, String)],
    holds: impl Fn(&str, &str, GatePath) -> Tested + Send + Sync,
) -> Tested {
    on_each(|path| {
        let holds = &holds;
        let jobs = policies
            .iter()
            .map(|(what, policy)| job(*what, move || holds(what, policy, path)));
        all(jobs.collect())
    })
}

/// They keep their class.
#[test]
fn decided_and_fail_open_connections_outlive_a_restart() -> Tested {
    let body = random_bytes("restarted", LONG);
    let policies = [
        ("no rule of it", OTHERS.to_owned()),
        ("allowed, failing closed", format!("{CLOSED}{ALLOWED}")),
        ("shaped", format!("{BULK}{SHAPED}")),
        ("shaped, failing closed", format!("{CLOSED}{BULK}{SHAPED}")),
        ("scanned", format!("{SCAN}failure = \"open\"\n")),
    ];
    under_each(&policies, |what, policy, path| {
        let Some(mut border) = Border::on("a restart", path) else {
            return Ok(());
        };
        let restarted = restarted(&mut border, policy, &body)?;
        let Restarted {
            download, rates, ..
        } = restarted;
        if !download.is(&body) {
            let Slowly { bytes, ended, .. } = &download;
            let bytes = bytes.len();
            return wrong(format!(
                "{what}: {bytes} bytes, or others, ended by {ended:?}, {rates:?} bit/s: {}",
                border.status()
            ));
        }
        // None is faster, and one is as fast: a busy machine may take its time in the others.
        let kept = |rates: &Vec<f64>| {
            let none_above = rates.iter().all(|rate| *rate < OF_CLASS.end);
            none_above && rates.iter().any(|rate| OF_CLASS.contains(rate))
        };
        if policy.contains(BULK) && !rates.iter().all(kept) {
            return wrong(format!("{what}: {rates:?} bit/s"));
        }
        Ok(())
    })
}

#[test]
fn failing_closed_ends_scanned_downloads_at_a_restart() -> Tested {
    let body = random_bytes("restarted", LONG);
    let policies = [
        ("the gateway", format!("{CLOSED}{SCAN}")),
        (
            "the rule, which does so where it says nothing",
            SCAN.to_owned(),
        ),
    ];
    under_each(&policies, |_, policy, path| {
        let Some(mut border) = Border::on("a restart, failing closed", path) else {
            return Ok(());
        };
        let restarted = restarted(&mut border, policy, &body)?;
        let Restarted {
            download,
            meanwhile,
            ..
        } = restarted;
        // What a rule says for itself is for a gateway that is there.
        // Some bytes had passed it before its end.
        if (meanwhile < 1e6) != policy.starts_with(CLOSED) {
            return wrong(format!(
                "{meanwhile} bit/s without a gateway under {policy}"
            ));
        }
        if download.bytes.len() >= LONG {
            return wrong(format!("the rest came unscanned under {policy}"));
        }
        if !download.reset() {
            return wrong(format!("the client waits for ever under {policy}"));
        }
        let told = |event: &Value| {
            let why = "its contents cannot be read: it was not followed from its beginning";
            let alert = &event["ringway"];
            alert["evidence"] == why
                && alert["action"] == "blocked"
                && alert["rule"] == "scan"
                && event["dest_port"] == PORT
        };
        border.audit_when(|events| events.iter().any(told));
        // Who asks again is scanned from the beginning.
        if fetch(&border, PORT, "again.bin") != body {
            return wrong(format!("it does not come again: {}", border.status()));
        }
        Ok(())
    })
}
