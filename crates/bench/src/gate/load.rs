//! What crosses the border: files over HTTP, each on a connection of its own, chat, and connections
//! that only send.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::border::{Border, Running, SERVER, Side};
use super::bulk::Bulk;
use super::pages;
use ringway_terminal::Failure;

/// Bytes of a file, as in the papers.
const FILE: usize = 2_000_000;
const FILES: u16 = 80;
/// The file that every scanner takes for a virus (eicar.org), in two parts: scanners of this
/// program would find it whole.
const TEST_VIRUS: [&str; 2] = [
    "X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-",
    "ANTIVIRUS-TEST-FILE!$H+H*",
];
const TEST_VIRUS_NAME: &[u8] = b"GET /eicar.com ";
const CHAT: u16 = 6_667;
/// Time at the beginning of a measurement that does not count.
pub(super) const WARM: Duration = Duration::from_millis(500);

/// What is loaded, and by how many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Files of 2 MB.
    Files(usize),
    /// Bytes without end, by iperf3.
    Bulk(usize),
}

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Self::Files(clients) => format!("{clients} clients, files of 2 MB"),
            Self::Bulk(1) => "1 connection".to_owned(),
            Self::Bulk(connections) => format!("{connections} connections"),
        }
    }
}

/// Bytes of which files are made, at least; they repeat after so many, which is more than any
/// scanner looks at once.
const PATTERN: usize = 1_048_576;

/// The servers; they end with the program.
#[derive(Debug)]
pub(super) struct Load {
    bulk: Option<Bulk>,
}

impl Load {
    /// Starts the servers.
    pub(super) fn serve(border: &Border) -> Result<Load, Failure> {
        let pattern: Arc<[u8]> = pattern().into();
        for port in [FILES, CHAT] {
            let bound = border
                .at(Side::Server, move || TcpListener::bind((SERVER, port)))
                .map_err(Failure::failed)?;
            let listener = bound
                .join()
                .map_err(|_| Failure::failed("a server's thread ended by a fault"))?
                .and_then(|bound| bound)
                .map_err(Failure::failed)?;
            // The papers' servers had what became CUBIC; the system's own may be another one.
            rustix::net::sockopt::set_tcp_congestion(&listener, "cubic")
                .map_err(Failure::failed)?;
            let pattern = Arc::clone(&pattern);
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    // A client that has had enough goes.
                    let pattern = Arc::clone(&pattern);
                    std::thread::spawn(move || {
                        if port == CHAT {
                            echo(stream).ok()
                        } else {
                            answer(stream, &pattern).ok()
                        }
                    });
                }
            });
        }
        pages::serve(border, &pattern)?;
        Ok(Load {
            bulk: Bulk::serve(border)?,
        })
    }

    /// Whether this can be measured here.
    pub(super) fn has(&self, kind: Kind) -> bool {
        matches!(kind, Kind::Files(_)) || self.bulk.is_some()
    }

    /// Gbit/s of payload that arrive.
    pub(super) fn measure(
        &self,
        border: &Border,
        kind: Kind,
        time: Duration,
    ) -> Result<f64, Failure> {
        match (kind, &self.bulk) {
            (Kind::Files(clients), _) => {
                let nothing = || Ok([Duration::ZERO; 2]);
                Ok(files(border, clients, time, &nothing)?.rate)
            }
            (Kind::Bulk(connections), Some(bulk)) => bulk.measure(border, connections, time),
            (Kind::Bulk(_), None) => Err(Failure::failed("iperf3 is not installed")),
        }
    }

    /// The same of files, and what the gateway in the middle spends on them.
    pub(super) fn cost(
        &self,
        (border, running): (&Border, &Running),
        clients: usize,
        time: Duration,
    ) -> Result<Loaded, Failure> {
        files(border, clients, time, &|| running.processor_time())
    }

    /// Whether the test virus arrives.
    pub(super) fn lets_a_virus_through(&self, border: &Border) -> Result<bool, Failure> {
        let loading = border.at(Side::Client, || -> io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect((SERVER, FILES))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let rest = b"HTTP/1.1\r\nHost: server\r\n\r\n";
            stream.write_all(&[TEST_VIRUS_NAME, rest].concat())?;
            let mut came = Vec::new();
            // A connection that is broken off has brought what it has brought.
            stream.read_to_end(&mut came).ok();
            Ok(came)
        });
        let loaded = loading.map_err(Failure::failed)?.join();
        let came = loaded
            .map_err(|_| Failure::failed("a client's thread ended by a fault"))?
            .and_then(|came| came)
            .map_err(Failure::failed)?;
        let virus = TEST_VIRUS.concat();
        let mut places = came.windows(virus.len());
        Ok(places.any(|bytes| bytes == virus.as_bytes()))
    }

    /// Times that lines take there and back, while so many clients load files.
    pub(super) fn chat(
        &self,
        border: &Border,
        downloads: usize,
        time: Duration,
    ) -> Result<Vec<Duration>, Failure> {
        let times = border
            .at(Side::Client, move || lines(time.saturating_add(WARM)))
            .map_err(Failure::failed)?;
        self.measure(border, Kind::Files(downloads), time)?;
        times
            .join()
            .map_err(|_| Failure::failed("the chat ended by a fault"))?
            .and_then(|times| times)
            .map_err(Failure::failed)
    }
}

/// What came of loading files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    /// Gbit/s.
    pub(super) rate: f64,
    /// Seconds of processor time for each GB: the gateway's process, and its queues' threads.
    pub(super) all: f64,
    pub(super) queues: f64,
}

/// So many clients load files. `spent_by`: processor time that somebody has spent so far.
fn files(
    border: &Border,
    clients: usize,
    time: Duration,
    spent_by: &dyn Fn() -> Result<[Duration; 2], Failure>,
) -> Result<Loaded, Failure> {
    let (bytes, over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut threads = Vec::new();
    for _ in 0..clients {
        let (bytes, over) = (Arc::clone(&bytes), Arc::clone(&over));
        let thread = border.at(Side::Client, move || {
            while !over.load(Ordering::Relaxed) {
                // A connection that fails is made again; what did not arrive does not count.
                fetch(&bytes, &over).ok();
            }
        });
        threads.push(thread.map_err(Failure::failed)?);
    }
    std::thread::sleep(WARM);
    let (began, before, spent) = (Instant::now(), bytes.load(Ordering::Relaxed), spent_by()?);
    std::thread::sleep(time);
    let arrived = bytes.load(Ordering::Relaxed).saturating_sub(before);
    let (took, after) = (began.elapsed(), spent_by()?);
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread
            .join()
            .map_err(|_| Failure::failed("a client's thread ended by a fault"))?
            .map_err(Failure::failed)?;
    }
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a rate")]
    let bytes = arrived as f64;
    let [all, queues] = [0, 1].map(|part: usize| {
        let (before, after) = (spent.get(part), after.get(part));
        let spent = after
            .copied()
            .unwrap_or_default()
            .saturating_sub(before.copied().unwrap_or_default());
        spent.as_secs_f64() * 1e9 / bytes.max(1.0)
    });
    Ok(Loaded {
        rate: bytes * 8.0 / took.as_secs_f64() / 1e9,
        all,
        queues,
    })
}

/// A line of chat as IRC's clients write it.
const LINE: &[u8] = b"PRIVMSG #ring :how long does this take\r\n";

/// Says a line and waits for its echo, again and again; those of the beginning do not count.
fn lines(time: Duration) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect((SERVER, CHAT))?;
    stream.set_nodelay(true)?;
    stream.write_all(b"NICK founder\r\nUSER founder 0 * :founder\r\n")?;
    let mut buffer = [0; 1_024];
    let mut read = stream.read(&mut buffer)?;
    let (began, mut times) = (Instant::now(), Vec::new());
    while read > 0 && began.elapsed() < time {
        let said = Instant::now();
        stream.write_all(LINE)?;
        read = stream.read(&mut buffer)?;
        if began.elapsed() > WARM {
            times.push(said.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(times)
}

/// A server of chat, which returns what it receives.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1_024];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(buffer.get(..read).unwrap_or_default())?;
    }
}

/// Bytes without a pattern, the same in each run: files of one byte over and over are easier for
/// scanners than others.
pub(super) fn pattern() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(PATTERN / 8)
    .flatten()
    .collect()
}

fn answer(mut stream: TcpStream, pattern: &[u8]) -> io::Result<()> {
    let mut request = [0; 1_024];
    if stream.read(&mut request)? == 0 {
        return Ok(());
    }
    let virus = request.starts_with(TEST_VIRUS_NAME);
    let length = if virus {
        TEST_VIRUS.concat().len()
    } else {
        FILE
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
    );
    if virus {
        return stream.write_all(&[head.as_bytes(), TEST_VIRUS.concat().as_bytes()].concat());
    }
    stream.write_all(head.as_bytes())?;
    let mut left = FILE;
    for part in pattern.chunks(65_536).cycle() {
        let part = part.get(..left.min(part.len())).unwrap_or_default();
        stream.write_all(part)?;
        left = left.saturating_sub(part.len());
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// Loads a file.
pub(super) fn fetch(bytes: &AtomicU64, over: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect((SERVER, FILES))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"GET /file.bin HTTP/1.1\r\nHost: server\r\n\r\n")?;
    let mut buffer = vec![0; 131_072];
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut buffer)? {
            0 => break,
            read => bytes.fetch_add(u64::try_from(read).unwrap_or(0), Ordering::Relaxed),
        };
    }
    Ok(())
}
