//! A file of 300 MB over a line that loses packets before the gateway, with and without fast pass.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::border::{Border, Running, SERVER, Side};
use super::ladder::{NAT, along, words};
use super::policies::AUDIT;
use crate::cli::{GateBenchArgs, PathChoice};
use crate::figure::Figure;
use crate::limits::CHILD_END;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Bytes of the file, as in the paper.
const LENGTH: u64 = 300_000_000;
const PORT: u16 = 80;
/// For how long the file is waited for where nothing is lost at random: all of it comes, and what a
/// transfer begins with is a small part of its time.
const WHOLE: Duration = Duration::from_secs(120);
/// Per cent of the server's packets that are lost: the paper's range.
const LOSSES: [u32; 4] = [0, 1, 3, 5];
/// Round trips without queues, ms.
const ROUND_TRIPS: [u32; 3] = [10, 50, 100];
/// What the line carries, Mbit/s: less than the slowest of the configurations does.
const RATE: u32 = 200;
/// Bytes of its queue: 100 ms of it.
const QUEUE: u32 = 2_500_000;
/// Behind the line: says where it is, and stays until standard input ends. What one connection has
/// learned of the line is not handed to the next one, or they would not be alike.
const BEHIND: &str = "sysctl -qw net.ipv4.tcp_no_metrics_save=1; ip -4 -o addr show scope global | { read -r number name family address rest; echo $$ ${address%/*}; }; exec cat > /dev/null";

/// Who is in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    Nat,
    FastPass(PathChoice),
    /// In user space, as both paths follow files.
    Waiting,
}

impl Middle {
    /// NAT first, to which the others are compared.
    fn of(paths: &[PathChoice]) -> Vec<Middle> {
        let fast = paths.iter().map(|path| Middle::FastPass(*path));
        let waits = paths.contains(&PathChoice::User);
        let waiting = waits.then_some(Middle::Waiting);
        [Middle::Nat]
            .into_iter()
            .chain(fast)
            .chain(waiting)
            .collect()
    }

    fn name(self) -> String {
        match self {
            Self::Nat => NAT.to_owned(),
            Self::FastPass(path) => along(path, "file followed, fast pass").0,
            Self::Waiting => "file followed, without fast pass".to_owned(),
        }
    }

    fn start(self, border: &Border, args: &GateBenchArgs) -> Result<Running, Failure> {
        let more = match self {
            Self::Nat => return border.translate(),
            Self::FastPass(path) => along(path, "").1,
            Self::Waiting => vec!["--no-fast-pass".to_owned()],
        };
        border.gateway(AUDIT, &[words(args, None), more].concat())
    }
}

/// Measures each cell for at most `time`, and the whole file where no packet is lost at random.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    border: &Border,
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    let Some(rattan) = &args.rattan else {
        output.note("fast pass: LEFT OUT, it needs --rattan (`make bench-dtl` installs it)");
        return Ok(Vec::new());
    };
    let middles = Middle::of(&args.path);
    let trips = ROUND_TRIPS
        .into_iter()
        .take(if args.quick { 1 } else { ROUND_TRIPS.len() });
    let mut figures = Vec::new();
    for (round_trip, loss) in trips.flat_map(|trip| LOSSES.map(|loss| (trip, loss))) {
        let cell = format!("300 MB, {loss} % lost, round trip {round_trip} ms");
        let mut rates = vec![Vec::new(); middles.len()];
        for round in 0..rounds {
            let line = Line::lay(border, rattan, (loss, round_trip))?;
            // Each of them comes first in turn.
            for turn in 0..middles.len() {
                let at = (turn + round) % middles.len();
                let (Some(middle), Some(rates)) = (middles.get(at), rates.get_mut(at)) else {
                    continue;
                };
                let running = middle.start(border, args)?;
                let loaded = load(border, line.server, if loss == 0 { WHOLE } else { time });
                running.end()?;
                let rate = loaded?;
                output.note(&format!(
                    "round {} of {rounds}, {cell}, {}: {rate:.2} Mbit/s",
                    round + 1,
                    middle.name()
                ));
                rates.push(rate);
            }
        }
        figures.extend(figures_of(&cell, &middles, &rates));
    }
    Ok(figures)
}

/// Rates, and how long the whole file takes at them.
fn figures_of(cell: &str, middles: &[Middle], rates: &[Vec<f64>]) -> Vec<Figure> {
    let times = |rates: &[f64]| -> Vec<f64> {
        let megabits = f64::from(u32::try_from(LENGTH).unwrap_or(u32::MAX)) * 8.0 / 1e6;
        rates.iter().map(|rate| megabits / rate).collect()
    };
    let nat = rates.first().map(Vec::as_slice).unwrap_or_default();
    let mut figures = Vec::new();
    for (middle, rates) in middles.iter().zip(rates) {
        let case = format!("{cell}, {}", middle.name());
        let rate = Figure::new("gate", case.clone(), "throughput", "Mbit/s", rates);
        let time = Figure::new("gate", case, "transfer_time", "s", &times(rates));
        figures.push(rate.against(NAT, nat));
        figures.push(time.against(NAT, &times(nat)));
    }
    figures
}

/// Mbit/s of the file, of which at most so much time's worth is loaded.
fn load(border: &Border, server: SocketAddr, time: Duration) -> Result<f64, Failure> {
    let loading = border.at(Side::Client, move || -> io::Result<f64> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(time))?;
        stream.write_all(b"GET /file.bin HTTP/1.1\r\nHost: server\r\n\r\n")?;
        let (mut arrived, mut buffer) = (0_u64, vec![0; 131_072]);
        while began.elapsed() < time && arrived < LENGTH {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    arrived = arrived.saturating_add(u64::try_from(read).unwrap_or(0));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let bits = f64::from(u32::try_from(arrived).unwrap_or(u32::MAX)) * 8.0;
        Ok(bits / began.elapsed().as_secs_f64() / 1e6)
    });
    let loaded = loading.map_err(Failure::failed)?.join();
    loaded
        .map_err(|_| Failure::failed("a client's thread ended by a fault"))?
        .and_then(|rate| rate)
        .map_err(Failure::failed)
}

/// A line from the server's namespace to one behind it, emulated by `rattan`, and a server of one
/// file there.
#[derive(Debug)]
struct Line {
    emulator: Child,
    server: SocketAddr,
}

impl Line {
    fn lay(border: &Border, rattan: &Path, (loss, trip): (u32, u32)) -> Result<Line, Failure> {
        let failed = |what: &str| {
            Failure::failed(format_args!(
                "the line could not be laid: {what} (this needs util-linux and rattan: `make bench-dtl` installs it)"
            ))
        };
        border.inside(Side::Server, &["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        // Real-time priority: an emulator that is late makes a line that no network has.
        let mut command = border.command(Side::Server, "chrt");
        command
            .args(["-f", "10"])
            .arg(rattan)
            .args(arguments(loss, trip))
            .args(["--", "sh", "-c", BEHIND])
            .env("RUST_LOG", "error")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let emulator = command
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let nowhere = SocketAddr::new(IpAddr::from([0; 4]), PORT);
        let mut line = Line {
            emulator,
            server: nowhere,
        };
        let said = line.emulator.stdout.take().map(BufReader::new);
        let stated = said.and_then(|out| {
            let mut lines = out.lines();
            lines.find_map(|line| line.ok().and_then(|line| parse(&line)))
        });
        let Some((inner, address)) = stated else {
            return Err(failed("the emulator ended"));
        };
        let to = address.to_string();
        let route = ["ip", "route", "replace", &to, "via", SERVER];
        border.inside(Side::Gateway, &route)?;
        serve(inner).map_err(Failure::failed)?;
        line.server.set_ip(address);
        Ok(line)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // It removes what it has made when it reads the end of its input.
        drop(self.emulator.stdin.take());
        let began = Instant::now();
        while began.elapsed() < CHILD_END {
            if !matches!(self.emulator.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.emulator.kill().ok();
        self.emulator.wait().ok();
    }
}

/// `PID ADDRESS`.
fn parse(line: &str) -> Option<(u32, IpAddr)> {
    let (pid, address) = line.split_once(' ')?;
    Some((pid.parse().ok()?, address.trim().parse().ok()?))
}

/// The server is at the line's upper end: what it sends is lost.
fn arguments(loss: u32, round_trip: u32) -> Vec<String> {
    let mut arguments = vec!["link".to_owned()];
    let (rate, delay) = (format!("{RATE}Mbps"), format!("{}us", round_trip * 500));
    let bound = format!("{{\"byte_limit\":{QUEUE}}}");
    for way in ["uplink", "downlink"] {
        let options = [
            ("bandwidth", rate.as_str()),
            ("delay", &delay),
            ("queue", "droptail"),
            ("queue-args", &bound),
        ];
        for (option, value) in options {
            arguments.extend([format!("--{way}-{option}"), value.to_owned()]);
        }
    }
    if loss > 0 {
        let share = f64::from(loss) / 100.0;
        arguments.extend(["--uplink-loss".to_owned(), share.to_string()]);
    }
    arguments
}

/// Serves the file in the namespace of this process, until the program ends.
fn serve(inner: u32) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{inner}/ns/net"))?;
    let bound = std::thread::spawn(move || -> io::Result<TcpListener> {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        TcpListener::bind(("0.0.0.0", PORT))
    });
    let listener = bound
        .join()
        .map_err(|_| io::Error::other("the server's thread ended by a fault"))??;
    rustix::net::sockopt::set_tcp_congestion(&listener, "cubic")?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // A client that has had enough goes.
                answer(&mut stream).ok()
            });
        }
    });
    Ok(())
}

fn answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut request = [0; 1_024];
    if stream.read(&mut request)? == 0 {
        return Ok(());
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {LENGTH}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let zeros = vec![0_u8; 65_536];
    let mut left = LENGTH;
    while left > 0 {
        let part = zeros
            .get(..usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len()))
            .unwrap_or_default();
        stream.write_all(part)?;
        left = left.saturating_sub(u64::try_from(part.len()).unwrap_or(left));
    }
    Ok(())
}
