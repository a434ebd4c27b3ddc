//! One run: two processes, each on a core of its own, and what they say.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use ringway_testbed::{Host, Line, Network};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Failure;

/// What happens first is not counted for throughput: slow start, and the search for the largest
/// packet.
const WARM_UP: f64 = 1.0;

/// Time beyond the one that was asked for, after which a run has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What lies between the two processes.
#[derive(Debug)]
pub(crate) enum Way {
    Loopback,
    /// Two namespaces and a pair of interfaces, with packets of Ethernet's size.
    Veth {
        receiver: Host,
        sender: Host,
        /// Removes the namespaces when it goes.
        _network: Network,
    },
}

impl Way {
    /// # Errors
    /// When the system refuses.
    pub(crate) fn veth() -> Result<Way, Failure> {
        let mut network = Network::new()?;
        let (receiver, sender) = (network.host("receiver")?, network.host("sender")?);
        let ends = ((&receiver, "10.79.0.1/24"), (&sender, "10.79.0.2/24"));
        network.connect(ends.0, ends.1, &Line::plain())?;
        Ok(Way::Veth {
            receiver,
            sender,
            _network: network,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Way::Loopback => "loopback",
            Way::Veth { .. } => "veth",
        }
    }

    /// Where the receiver is to listen.
    fn address(&self) -> Result<SocketAddr, Failure> {
        match self {
            // A port that was free a moment ago.
            Way::Loopback => Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?),
            Way::Veth { receiver, .. } => Ok((receiver.address()?, 4433).into()),
        }
    }

    fn command(&self, program: &Path, end: End) -> Command {
        match (self, end) {
            (Way::Loopback, _) => Command::new(program),
            (Way::Veth { receiver, .. }, End::Receiver) => receiver.command(program),
            (Way::Veth { sender, .. }, End::Sender) => sender.command(program),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Payload, 10⁹ bits a second.
    pub(crate) throughput: f64,
    /// Processor time for 10⁹ bytes of payload, seconds.
    pub(crate) sender: f64,
    pub(crate) receiver: f64,
    /// How long the side that waited longer had to wait for its core, seconds.
    pub(crate) waited: f64,
}

/// Lets `name` send for `seconds`.
pub(crate) fn run(way: &Way, name: &str, seconds: f64) -> Result<Measured, Failure> {
    let program = std::env::current_exe()?;
    let at = way.address()?.to_string();
    let start = |end: End, words: &[&str]| {
        let mut command = way.command(&program, end);
        command
            .args(words)
            .arg("--cpu")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let child = on_core(end, || command.spawn())?;
        Ok::<_, Failure>(Running::new(child))
    };
    let mut receiver = start(End::Receiver, &["receive", name, &at])?;
    let limit = Instant::now() + PATIENCE + Duration::from_secs_f64(seconds);
    if receiver.line(limit)?.as_deref() != Some("ready") {
        return Err(format!("{name}: the receiver is not ready").into());
    }
    let sender = start(End::Sender, &["send", name, &at, &seconds.to_string()])?;
    let sent = sender.said(limit)?;
    // The sender's farewell may be lost.
    drop(receiver.child.stdin.take());
    let came = receiver.said(limit)?;
    let measured = Measured::of(&sent, &came);
    measured.ok_or_else(|| format!("{name}: too little has arrived").into())
}

/// What a process has said to its end.
#[derive(Debug, Default)]
struct Said {
    /// Seconds and bytes.
    progress: Vec<(f64, f64)>,
    cpu: Option<f64>,
    waited: Option<f64>,
}

impl Said {
    fn hear(&mut self, line: &str) -> Option<()> {
        let (first, second) = line.split_once(' ')?;
        let number = second.parse().ok()?;
        match first {
            "cpu" => self.cpu = Some(number),
            "waited" => self.waited = Some(number),
            seconds => self.progress.push((seconds.parse().ok()?, number)),
        }
        Some(())
    }
}

impl Measured {
    fn of(sent: &Said, came: &Said) -> Option<Measured> {
        let bytes = came.progress.last()?.1;
        // What came after the last byte was only the end of the connection.
        let (end, _) = *came.progress.iter().find(|(_, at)| *at >= bytes)?;
        let warm = came.progress.iter().find(|(at, _)| *at >= WARM_UP)?;
        let counted = (bytes - warm.1, end - warm.0);
        let per_gigabyte = |said: &Said| Some(said.cpu? / bytes * 1e9);
        (counted.0 > 0.0 && counted.1 > 0.0).then_some(())?;
        Some(Measured {
            throughput: counted.0 * 8.0 / counted.1 / 1e9,
            sender: per_gigabyte(sent)?,
            receiver: per_gigabyte(came)?,
            waited: sent.waited?.max(came.waited?),
        })
    }
}

/// A process and its lines; killed when it is dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn new(mut child: Child) -> Running {
        let (line, lines) = channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || {
                let mut read = BufReader::new(out).lines().map_while(Result::ok);
                read.try_for_each(|text| line.send(text)).ok();
            });
        }
        Running { child, lines }
    }

    /// The next line; `None` after the last.
    fn line(&mut self, limit: Instant) -> Result<Option<String>, Failure> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        let left = limit.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Ok(Some(line)),
            Err(Disconnected) => Ok(None),
            Err(Timeout) => Err("a process did not end in time".into()),
        }
    }

    /// All that is left to say; an error unless the process ends well.
    fn said(mut self, limit: Instant) -> Result<Said, Failure> {
        let mut said = Said::default();
        while let Some(line) = self.line(limit)? {
            let understood = said.hear(&line);
            understood.ok_or_else(|| format!("a process said `{line}`"))?;
        }
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(said),
            false => Err(format!("a process ended with {status}").into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself unless the run failed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts a process on the core of `end`: it inherits that from this thread.
fn on_core<T>(end: End, start: impl FnOnce() -> std::io::Result<T>) -> Result<T, Failure> {
    let allowed = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let own = match end {
        End::Sender => cores.next(),
        End::Receiver => cores.nth(1),
    };
    let own = own.ok_or("two cores are needed, one for each side")?;
    let mut only = CpuSet::new();
    only.set(own);
    sched_setaffinity(None, &only)?;
    let started = start();
    sched_setaffinity(None, &allowed)?;
    Ok(started?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Said {
        let mut said = Said::default();
        for line in lines {
            said.hear(line).unwrap();
        }
        said
    }

    /// It leaves out the first second, and the time after the last byte.
    #[test]
    fn throughput_leaves_out_start_and_silent_end() {
        let sent = said(&["cpu 3.0", "waited 0.5"]);
        let came = said(&[
            "0.5 7",
            "1.0 1000000000",
            "3.0 2000000000",
            "9.0 2000000000",
            "cpu 1.0",
            "waited 0.1",
        ]);
        let measured = Measured::of(&sent, &came).unwrap();
        assert_eq!(measured.throughput, 4.0);
        assert_eq!((measured.sender, measured.receiver), (1.5, 0.5));
        assert_eq!(measured.waited, 0.5);
    }

    #[test]
    fn run_with_too_little_data_gives_nothing() {
        let sent = said(&["cpu 3.0", "waited 0.5"]);
        assert!(Measured::of(&sent, &said(&["cpu 1.0", "waited 0"])).is_none());
        assert!(Measured::of(&sent, &said(&["0.5 7", "cpu 1.0", "waited 0"])).is_none());
        assert!(Measured::of(&sent, &said(&["0.5 7", "2.0 9"])).is_none());
        assert!(Said::default().hear("who knows").is_none());
    }
}
