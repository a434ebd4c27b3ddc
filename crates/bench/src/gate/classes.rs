//! Four downloads in a class of 2 Mbit/s: how evenly they share it, and how long a question of a
//! few bytes takes there and back in the same class meanwhile.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::border::{Border, SERVER, Side};
use super::ladder::{along, words};
use crate::cli::GateBenchArgs;
use crate::figure::{Figure, median};
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// Everything that goes out is in the class.
const POLICY: &str = "[gateway]\ninside = [\"10.0.0.0/8\"]\n\n[classes.bulk]\nrate = \"2 Mbit/s\"\n\n[[rule]]\nname = \"all\"\n\
    direction = \"outbound\"\naction = \"shape\"\nclass = \"bulk\"\n";
const PORT: u16 = 8_080;
/// The last bytes of addresses inside that download.
const HOSTS: [u8; 4] = [2, 3, 4, 5];
/// The one that only asks.
const ASKING: u8 = 6;
/// What comes before anything is counted: windows have to find their size.
const FIRST: Duration = Duration::from_secs(5);
/// How often the time is that a configuration of the ladder takes: a download of 500 kbit/s has
/// some forty packets a second.
const LONGER: u32 = 3;
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// A question that has waited so long is over.
const LOST: Duration = Duration::from_secs(20);

/// What is asked of the server: bytes without an end, or each one back.
const DOWNLOAD: u8 = b'd';
const QUESTIONS: u8 = b'q';

/// Who downloads.
#[derive(Clone, Copy, Debug)]
enum Downloads {
    OfFourHosts,
    OfOneHost,
}

impl Downloads {
    fn name(self) -> &'static str {
        match self {
            Self::OfFourHosts => "four downloads of four hosts in a class of 2 Mbit/s",
            Self::OfOneHost => "four downloads of one host in a class of 2 Mbit/s",
        }
    }

    fn hosts(self) -> [u8; 4] {
        match self {
            Self::OfFourHosts => HOSTS,
            Self::OfOneHost => [HOSTS[0]; 4],
        }
    }
}

/// What a run came to.
#[derive(Debug, Default)]
struct Run {
    /// Jain's index of the four.
    index: f64,
    /// What all four have got, Mbit/s.
    rate: f64,
    /// Round trips of a host that only asks, and of one that downloads too, in ms.
    trips: [Vec<f64>; 2],
}

/// Measures each for three times `time`.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    border: &Border,
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    for host in HOSTS.into_iter().skip(1).chain([ASKING]) {
        let address = format!("10.66.0.{host}/24");
        border.inside(
            Side::Client,
            &["ip", "addr", "replace", &address, "dev", "eth0"],
        )?;
    }
    serve(border)?;
    let mut figures = Vec::new();
    for path in &args.path {
        for downloads in [Downloads::OfFourHosts, Downloads::OfOneHost] {
            let (name, more) = along(*path, downloads.name());
            let mut runs = Vec::new();
            for round in 0..rounds {
                let running =
                    border.gateway(POLICY, &[words(args, None), more.clone()].concat())?;
                let run = run(border, downloads, time.saturating_mul(LONGER));
                running.end()?;
                let run = run?;
                output.note(&format!(
                    "round {} of {rounds}, {name}: {:.2} Mbit/s, index {:.3}",
                    round + 1,
                    run.rate,
                    run.index
                ));
                runs.push(run);
            }
            figures.extend(figures_of(&name, &runs));
        }
    }
    Ok(figures)
}

fn figures_of(name: &str, runs: &[Run]) -> Vec<Figure> {
    let of = |value: &dyn Fn(&Run) -> f64| -> Vec<f64> { runs.iter().map(value).collect() };
    let mut figures = vec![
        Figure::new(
            "gate",
            name,
            "fairness",
            "Jain's index",
            &of(&|run| run.index),
        ),
        Figure::new("gate", name, "throughput", "Mbit/s", &of(&|run| run.rate)),
    ];
    for (at, who) in ["another host", "a host that downloads"]
        .into_iter()
        .enumerate()
    {
        let case = format!("{name}, question of {who}");
        let trips = |run: &Run| run.trips.get(at).cloned().unwrap_or_default();
        let middle = of(&|run| median(&trips(run)));
        let late = of(&|run| late(trips(run)));
        figures.push(Figure::new(
            "gate",
            case.clone(),
            "round_trip",
            "ms",
            &middle,
        ));
        figures.push(Figure::new(
            "gate",
            case,
            "95th of a hundred round trips",
            "ms",
            &late,
        ));
    }
    figures
}

/// The 95th of a hundred.
fn late(mut trips: Vec<f64>) -> f64 {
    trips.sort_by(f64::total_cmp);
    let at = trips.len().saturating_mul(95) / 100;
    trips.get(at).or(trips.last()).copied().unwrap_or(0.0)
}

fn run(border: &Border, downloads: Downloads, time: Duration) -> Result<Run, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let counts: Arc<[AtomicU64; 4]> = Arc::default();
    let mut threads = Vec::new();
    for (at, host) in downloads.hosts().into_iter().enumerate() {
        let (over, counts) = (Arc::clone(&over), Arc::clone(&counts));
        let load = move || download(host, &over, counts.get(at));
        threads.push(border.at(Side::Client, load).map_err(Failure::failed)?);
    }
    std::thread::sleep(FIRST);
    let mut asking = Vec::new();
    for host in [ASKING, HOSTS[0]] {
        let over = Arc::clone(&over);
        let ask = border.at(Side::Client, move || ask(host, &over));
        asking.push(ask.map_err(Failure::failed)?);
    }
    let now = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let (began, before) = (Instant::now(), now());
    std::thread::sleep(time);
    let (took, after) = (began.elapsed(), now());
    over.store(true, Ordering::Relaxed);
    let fault = |_| Failure::failed("a client's thread ended by a fault");
    let mut run = Run::default();
    for (trips, asked) in run.trips.iter_mut().zip(asking) {
        let asked = asked.join().map_err(fault)?.and_then(|asked| asked);
        *trips = asked.map_err(Failure::failed)?;
    }
    for thread in threads {
        let loaded = thread.join().map_err(fault)?.and_then(|loaded| loaded);
        loaded.map_err(Failure::failed)?;
    }
    let came = after.iter().zip(before).map(|(after, before)| {
        let bytes = u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX);
        f64::from(bytes) * 8e-6 / took.as_secs_f64()
    });
    let came: Vec<f64> = came.collect();
    run.rate = came.iter().sum();
    let squares: f64 = came.iter().map(|rate| rate * rate).sum();
    run.index = run.rate * run.rate / (4.0 * squares);
    Ok(run)
}

/// A connection from this address inside.
fn open(host: u8) -> io::Result<TcpStream> {
    let from = SocketAddrV4::new(Ipv4Addr::new(10, 66, 0, host), 0);
    let server: Ipv4Addr = SERVER.parse().map_err(io::Error::other)?;
    let end = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&end, &from)?;
    connect(&end, &SocketAddrV4::new(server, PORT))?;
    let stream = TcpStream::from(end);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOST))?;
    Ok(stream)
}

/// Loads until it is over.
fn download(host: u8, over: &AtomicBool, count: Option<&AtomicU64>) -> io::Result<()> {
    let mut stream = open(host)?;
    stream.write_all(&[DOWNLOAD])?;
    let mut buffer = vec![0; 65_536];
    while !over.load(Ordering::Relaxed) {
        let read = u64::try_from(stream.read(&mut buffer)?).unwrap_or(0);
        if let Some(count) = count {
            count.fetch_add(read, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Asks until it is over; gives how long each question took, in ms.
fn ask(host: u8, over: &AtomicBool) -> io::Result<Vec<f64>> {
    let mut stream = open(host)?;
    stream.write_all(&[QUESTIONS])?;
    let mut trips = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        stream.write_all(&[0])?;
        stream.read_exact(&mut [0])?;
        trips.push(asked.elapsed().as_secs_f64() * 1_000.0);
        std::thread::sleep(PAUSE);
    }
    Ok(trips)
}

/// Serves both, until the program ends.
fn serve(border: &Border) -> Result<(), Failure> {
    let bound = border.at(Side::Server, || TcpListener::bind((SERVER, PORT)));
    let bound = bound.map_err(Failure::failed)?.join();
    let listener = bound
        .map_err(|_| Failure::failed("the server's thread ended by a fault"))?
        .and_then(|bound| bound)
        .map_err(Failure::failed)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that has had enough goes.
            std::thread::spawn(move || answer(stream).ok());
        }
    });
    Ok(())
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut wanted = [0];
    stream.read_exact(&mut wanted)?;
    let zeros = vec![0; 65_536];
    if wanted == [DOWNLOAD] {
        loop {
            stream.write_all(&zeros)?;
        }
    }
    let mut question = [0];
    while stream.read(&mut question)? > 0 {
        stream.write_all(&question)?;
    }
    Ok(())
}
