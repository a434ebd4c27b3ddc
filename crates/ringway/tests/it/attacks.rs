//! Somebody opens many connections to every listener and says next to nothing: others still get
//! through.
//!
//! What a member of the ring can do with HELLOs, PINGs and PONGs is tested in
//! `crates/node/src/member/attacks.rs`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use ringway_testbed::{Program, Ring, RingBuilder, TestbedError, free_address, wait_until};

use super::program;

/// Generous, the machine is busy.
const DEADLINE: Duration = Duration::from_secs(120);

/// Between two bytes of a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that are opened again in one such time, when they were closed.
const AGAIN: usize = 50;

trait Stream: Write + Send {}
impl<T: Write + Send> Stream for T {}

/// Holds connections open, sends a byte over each from time to time, and opens those that were
/// closed again.
struct Loris {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Loris {
    /// `count` connections, each of which says `text` byte by byte and then its last byte for ever.
    fn start<S: Stream + 'static>(
        count: usize,
        text: &'static [u8],
        connect: impl Fn() -> io::Result<S> + Send + 'static,
    ) -> Loris {
        let (stop, opened) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut loris = Loris {
            stop: Arc::clone(&stop),
            opened: Arc::clone(&opened),
            thread: None,
        };
        loris.thread = Some(thread::spawn(move || {
            let mut streams: Vec<Option<(S, usize)>> = (0..count).map(|_| None).collect();
            while !stop.load(Ordering::Relaxed) {
                let mut may_open = AGAIN;
                for stream in &mut streams {
                    if let Some((open, said)) = stream {
                        let byte = text.get(*said).or(text.last()).unwrap();
                        *said += 1;
                        if open.write(&[*byte]).is_err() {
                            *stream = None;
                        }
                    } else if may_open > 0 {
                        may_open -= 1;
                        *stream = connect().ok().map(|stream| (stream, 0));
                        opened.fetch_add(1, Ordering::Relaxed);
                    }
                }
                sleep(PAUSE);
            }
        }));
        let all = wait_until(DEADLINE, || match loris.opened.load(Ordering::Relaxed) {
            opened if opened >= count => Ok(()),
            opened => Err(TestbedError(format!("{opened} of {count} are open"))),
        });
        all.unwrap();
        loris
    }

    fn tcp(count: usize, text: &'static [u8], address: SocketAddr) -> Loris {
        Loris::start(count, text, move || {
            TcpStream::connect_timeout(&address, Duration::from_secs(1))
        })
    }
}

impl Drop for Loris {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The program, with as few open files as an old system allows at first.
fn modest(folder: &Path) -> Program {
    let script = folder.join("ringway");
    let executable = env!("CARGO_BIN_EXE_ringway");
    let text = format!("#!/bin/sh\nulimit -S -n 256\nexec {executable} \"$@\"\n");
    // Written by another process: a file that this one has open for writing, in whichever thread,
    // cannot be run.
    let written = Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
        .arg(&script)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
    Program::new(&script)
}

/// A member that can use nothing else reaches oslo over this transport, within the usual time.
fn gets_through(ring: &mut Ring, name: &str, transports: &str, more: &str, scheme: &str) {
    let member = ring.member_mut(name).unwrap();
    member.configure(transports, more).unwrap();
    member.start().unwrap();
    let member = ring.member(name).unwrap();
    let answered = wait_until(DEADLINE, || {
        let pongs = member.call(&["ping", "oslo", "--count", "1"])?;
        let pong = pongs.into_iter().next().unwrap_or_default();
        let address = pong["address"].as_str().unwrap_or_default();
        match pong["rtt_ms"].is_number() && address.starts_with(scheme) {
            true => Ok(()),
            false => Err(TestbedError(pong.to_string())),
        }
    });
    answered.unwrap_or_else(|error| panic!("{error}\n{}", member.log_text()));
}

/// Writes a line and reads until a line begins with `answer`.
fn converse(address: SocketAddr, lines: &[&str], answer: &str) -> Result<(), TestbedError> {
    let talk = || -> io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let (mut heard, mut buffer) = (String::new(), [0; 1024]);
        for line in lines {
            let size = stream.read(&mut buffer)?;
            heard += &String::from_utf8_lossy(&buffer[..size]);
            stream.write_all(line.as_bytes())?;
        }
        let size = stream.read(&mut buffer)?;
        Ok(heard + &String::from_utf8_lossy(&buffer[..size]))
    };
    let heard = talk().map_err(|error| TestbedError(error.to_string()))?;
    match heard.lines().any(|line| line.starts_with(answer)) {
        true => Ok(()),
        false => Err(TestbedError(heard)),
    }
}

#[test]
fn members_reach_a_router_with_beset_listeners() {
    let scripts = tempfile::tempdir().unwrap();
    let builder = RingBuilder::new(modest(scripts.path()))
        .absent_router("oslo")
        .absent_leaf("alice")
        .absent_leaf("bruno");
    let mut ring = builder.start().unwrap();
    let (ws, lmtp) = (free_address().unwrap(), free_address().unwrap());
    let more = format!(
        "[ws]\nlisten = \"{ws}\"\n[smtp]\nmailbox = \"oslo@ring.test\"\nheader = [\"X-Ringway\", \"k3\"]\nlmtp_tcp = \"{lmtp}\"\n"
    );
    let oslo = ring.member_mut("oslo").unwrap();
    oslo.configure("[\"udp\", \"tcp\", \"quic\", \"ws\"]", &more)
        .unwrap();
    oslo.start().unwrap();
    let status = oslo.status().unwrap();
    let addresses = status["addresses"].as_array().unwrap();
    let tcp = addresses
        .iter()
        .find_map(|address| address.as_str()?.strip_prefix("tcp://"));
    let tcp: SocketAddr = tcp.unwrap().parse().unwrap();
    let control = oslo.home.join("control.sock");

    {
        // The beginning of a frame of 1 024 bytes.
        let _silent = Loris::tcp(600, &[4, 0], tcp);
        gets_through(&mut ring, "alice", "[\"tcp\"]", "", "tcp://");
    }
    {
        let _silent = Loris::tcp(600, b"GET /ringway HTTP/1.1\r\nX-Slow: y", ws);
        let known = format!("[[peer]]\nname = \"oslo\"\naddresses = [\"ws://{ws}/ringway\"]\n");
        gets_through(&mut ring, "bruno", "[\"ws\"]", &known, "ws://");
    }
    {
        let _silent = Loris::tcp(60, b"LHLO mail.test.x", lmtp);
        let greeted = wait_until(DEADLINE, || converse(lmtp, &["LHLO mail.test\r\n"], "250"));
        greeted.unwrap();
    }
    {
        let _silent = Loris::start(150, b"{\"Status\":\"x", move || {
            UnixStream::connect(&control)
        });
        let oslo = ring.member("oslo").unwrap();
        wait_until(DEADLINE, || oslo.status()).unwrap();
    }
    let oslo = ring.member("oslo").unwrap();
    assert!(!oslo.log_text().contains("panicked"), "{}", oslo.log_text());
}

/// A query for the SOA record of the ring's domain, over TCP; true if it was answered.
fn dns_over_tcp(address: SocketAddr) -> Result<(), TestbedError> {
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["bed", "ringway", "test"] {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 6, 0, 1]);
    let ask = || -> io::Result<[u8; 14]> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(&[&[0, u8::try_from(query.len()).unwrap()], &query[..]].concat())?;
        let mut answer = [0; 14];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error| TestbedError(error.to_string()))?;
    // Length, id, flags, counts: one answer.
    match (answer[3], answer[9]) {
        (7, 1) => Ok(()),
        _ => Err(TestbedError(format!("{answer:?}"))),
    }
}

#[test]
fn somebody_joins_while_the_authority_is_beset() {
    let scripts = tempfile::tempdir().unwrap();
    let builder = RingBuilder::new(modest(scripts.path())).router("oslo");
    let ring = builder.start().unwrap();
    let address = |what: &str| -> SocketAddr {
        let ready = &ring.authority.ready;
        ready[what].as_str().unwrap().parse().unwrap()
    };
    let (dns, enrol) = (address("dns"), address("enrol"));
    let _dns = Loris::tcp(600, &[0, 200, 0], dns);
    let _enrol = Loris::tcp(200, &[0, 90, 0], enrol);
    let invited = ring
        .owner_call(&["ring", "invite", "clara", "--role", "leaf"])
        .unwrap();
    let invite = invited[0]["invite"].as_str().unwrap();
    let home = ring.folder().join("clara");
    let home = home.to_str().unwrap();
    let joined = wait_until(DEADLINE, || {
        let outcome = program().run_with_input(["--json", "--home", home, "join"], invite)?;
        match outcome.code {
            Some(0) => Ok(()),
            _ => Err(TestbedError(outcome.stderr)),
        }
    });
    joined.unwrap();
    wait_until(DEADLINE, || dns_over_tcp(dns)).unwrap();
    // Others find the new member by DNS.
    let oslo = ring.member("oslo").unwrap();
    let found = wait_until(DEADLINE, || {
        // It is known, though it does not run.
        let outcome = oslo.run(&["path", "clara"])?;
        match outcome.stderr.contains("where the leaf `clara` is") {
            true => Ok(()),
            false => Err(TestbedError(outcome.stderr)),
        }
    });
    found.unwrap();
}
