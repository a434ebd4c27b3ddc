//! A line between two network namespaces, emulated by the program `rattan`.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::cell::{Cell, Queue};
use crate::limits::CHILD_END;
use ringway_terminal::Failure;

/// An end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The end that sends.
    Sender,
    /// The end that receives.
    Receiver,
}

/// The line. Both namespaces go when it is dropped, or when this process ends however it does: the
/// emulator then reads the end of its standard input.
#[derive(Debug)]
pub(super) struct Line {
    cell: Cell,
    emulator: Child,
    namespaces: [File; 2],
    receiver: IpAddr,
}

/// How long the queue on the way back is, seconds.
const BACK: f64 = 0.1;

/// In a namespace of its own: loopback, and the emulator under real-time priority, because an
/// emulator that is late makes a line that no network has. Arguments: the emulator and its own.
const OUTER: &str = "ip link set lo up && exec chrt -f 10 \"$@\"";
/// Behind the line: says where it is, and stays until standard input ends.
const INNER: &str = "echo $$ $RATTAN_BASE; exec cat > /dev/null";

impl Line {
    /// Lays the line. Needs root, `unshare` and `chrt` of util-linux, and rattan.
    pub(super) fn lay(rattan: &Path, cell: Cell) -> Result<Line, Failure> {
        let failed = |what: &str| {
            Failure::failed(format_args!(
                "the line {cell} could not be laid: {what} (this needs root, and what `./setup.sh --bench` installs)"
            ))
        };
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", OUTER, "sh"])
            .arg(rattan)
            .args(arguments(&cell))
            .args(["--", "sh", "-c", INNER])
            .env("RUST_LOG", "error")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut emulator = command
            .spawn()
            .map_err(|error| failed(&format!("unshare: {error}")))?;
        // Read as long as it lives: a full pipe would stop it.
        let complains = emulator.stderr.take().map(|err| {
            thread::spawn(move || {
                let lines = BufReader::new(err).lines().map_while(Result::ok);
                lines.filter(|line| !line.trim().is_empty()).last()
            })
        });
        let said = emulator.stdout.take().map(BufReader::new);
        let line = said.and_then(|out| {
            let mut lines = out.lines();
            lines.find_map(|line| line.ok().and_then(|line| parse(&line)))
        });
        let Some((inner, receiver)) = line else {
            reap(&mut emulator);
            let why = complains.and_then(|last| last.join().ok()).flatten();
            let why = why.unwrap_or_else(|| "it said nothing".to_owned());
            return Err(failed(&format!("the emulator ended: {why}")));
        };
        let opened = [inner, emulator.id()].map(|pid| File::open(format!("/proc/{pid}/ns/net")));
        let [Ok(behind), Ok(base)] = opened else {
            reap(&mut emulator);
            return Err(failed("its namespaces could not be opened"));
        };
        Ok(Line {
            cell,
            emulator,
            namespaces: [behind, base],
            receiver,
        })
    }

    pub(super) fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Where receivers listen.
    pub(super) fn receiver(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.receiver, port)
    }

    /// Does something at an end, on a thread that stays there: its sockets and child processes
    /// belong to that namespace.
    pub(super) fn at<T: Send + 'static>(
        &self,
        end: End,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<thread::JoinHandle<io::Result<T>>> {
        let [sender, receiver] = &self.namespaces;
        let namespace = match end {
            End::Sender => sender.try_clone()?,
            End::Receiver => receiver.try_clone()?,
        };
        Ok(thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        }))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        reap(&mut self.emulator);
    }
}

/// Lets the emulator end by itself, which removes what it made; kills it if it does not.
fn reap(emulator: &mut Child) {
    drop(emulator.stdin.take());
    let pause = Duration::from_millis(20);
    for _ in 0..CHILD_END.as_millis() / pause.as_millis() {
        if !matches!(emulator.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(pause);
    }
    // It has ended meanwhile, or is ended now.
    emulator.kill().ok();
    emulator.wait().ok();
}

/// `PID ADDRESS`.
fn parse(line: &str) -> Option<(u32, IpAddr)> {
    let (pid, address) = line.split_once(' ')?;
    Some((pid.parse().ok()?, address.trim().parse().ok()?))
}

fn arguments(cell: &Cell) -> Vec<String> {
    let rate = format!("{}kbps", (cell.rate * 1000.0) as u64);
    let delay = format!("{}us", cell.rtt_ms * 500);
    let (kind, bound) = match (cell.queue, cell.queue_bytes()) {
        (Queue::CoDel, _) | (_, None) => (
            "codel",
            "{\"interval\":\"100ms\",\"target\":\"5ms\",\"mtu\":1500,\"packet_limit\":1000}"
                .to_owned(),
        ),
        (Queue::DropTail(_), Some(bytes)) => ("droptail", format!("{{\"byte_limit\":{bytes}}}")),
    };
    let back = (cell.rate * 1e6 / 8.0 * BACK) as u64;
    let mut arguments = vec!["link".to_owned()];
    for way in ["uplink", "downlink"] {
        // Acknowledgements never fill the way back; an upload does, as home routers let it.
        let queue = match way {
            "uplink" => (kind, bound.clone()),
            _ => ("droptail", format!("{{\"byte_limit\":{back}}}")),
        };
        let options = [
            ("bandwidth", rate.as_str()),
            ("delay", delay.as_str()),
            ("queue", queue.0),
            ("queue-args", queue.1.as_str()),
        ];
        for (option, value) in options {
            arguments.push(format!("--{way}-{option}"));
            arguments.push(value.to_owned());
        }
    }
    arguments
}
