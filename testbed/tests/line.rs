//! The emulator of lines, with the kernel's TCP on it. Needs root and ethtool; says so where they
//! are missing.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A line of 10 Mbit/s and 40 ms, both ways, with a queue of 50 000 bytes.
struct Line {
    emulator: Child,
    /// Behind the line, and before it.
    ends: [File; 2],
    base: IpAddr,
}

impl Drop for Line {
    fn drop(&mut self) {
        drop(self.emulator.stdin.take());
        self.emulator.wait().ok();
    }
}

impl Line {
    fn lay() -> Option<Line> {
        let ethtool = Command::new("ethtool").arg("--version").output().is_ok();
        if !(rustix::process::geteuid().is_root() && ethtool) {
            let line = b"\n*** NOT TESTED: the emulator of lines: it takes root and ethtool\n";
            std::io::stderr().write_all(line).unwrap();
            return None;
        }
        let mut arguments = vec!["link".to_owned()];
        for way in ["uplink", "downlink"] {
            for (option, value) in [
                ("bandwidth", "10000kbps"),
                ("delay", "20000us"),
                ("queue", "droptail"),
                ("queue-args", "{\"byte_limit\":50000}"),
            ] {
                arguments.extend([format!("--{way}-{option}"), value.to_owned()]);
            }
        }
        // In a namespace of its own; what is behind the line says where it is, and stays until
        // standard input ends.
        let mut emulator = Command::new("unshare")
            .args([
                "--net",
                "sh",
                "-c",
                "ip link set lo up && exec \"$@\"",
                "sh",
            ])
            .arg(env!("CARGO_BIN_EXE_dtl-line"))
            .args(arguments)
            .args([
                "--",
                "sh",
                "-c",
                "echo $$ $RATTAN_BASE; exec cat > /dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(emulator.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let (inner, base) = said.trim().split_once(' ').expect("the line is laid");
        let pids = [inner.parse().unwrap(), emulator.id()];
        Some(Line {
            base: base.parse().unwrap(),
            ends: pids.map(|pid: u32| File::open(format!("/proc/{pid}/ns/net")).unwrap()),
            emulator,
        })
    }

    /// Does something at an end, on a thread of its own, which stays there.
    fn at<T: Send + 'static>(
        &self,
        end: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let end = self.ends[end].try_clone().unwrap();
        thread::spawn(move || {
            move_into_link_name_space(end.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        })
    }
}

#[test]
fn rate_and_round_trip_are_as_set() {
    let Some(line) = Line::lay() else { return };
    let address = SocketAddr::new(line.base, 0);
    let listener = line.at(1, move || TcpListener::bind(address).unwrap());
    let listener = listener.join().unwrap();
    let server = listener.local_addr().unwrap();
    let received = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (begun, mut bytes, mut buffer) = (Instant::now(), 0_usize, vec![0; 65_536]);
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return (bytes, begun.elapsed()),
                more => bytes += more,
            }
        }
    });
    let sent = line.at(0, move || {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(server).unwrap();
        let round_trip = begun.elapsed();
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            stream.write_all(&[7; 16_384]).unwrap();
        }
        round_trip
    });
    let round_trip = sent.join().unwrap();
    let (bytes, time) = received.join().unwrap();
    assert!(round_trip >= Duration::from_millis(40), "{round_trip:?}");
    let rate = 8.0 * bytes as f64 / time.as_secs_f64();
    // Never more than the line has; how much less is TCP's affair, and that of a machine that is
    // busy.
    assert!((2e6..10e6).contains(&rate), "{rate} bit/s");
}
