//! Pages that are loaded over a connection of their own each: what a gateway costs those who call
//! often.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::border::{Border, SERVER, Side};
use super::load::WARM;
use ringway_terminal::Failure;

/// How many call at once.
pub(super) const CALLERS: usize = 32;

/// As long as a call takes at least of which a packet was lost: TCP says its first words again
/// after a second.
const LATE: Duration = Duration::from_secs(1);
/// Where pages are served, another port of the web.
const PORT: u16 = 8_080;
/// Bytes of one.
const BYTES: usize = 1_000;

/// Serves pages, cut from these bytes, by threads that are there already: to start one takes longer
/// than what is measured.
pub(super) fn serve(border: &Border, bytes: &[u8]) -> Result<(), Failure> {
    let bound = border
        .at(Side::Server, || TcpListener::bind((SERVER, PORT)))
        .map_err(Failure::failed)?;
    let listener = bound
        .join()
        .map_err(|_| Failure::failed("a server's thread ended by a fault"))?
        .and_then(|bound| bound)
        .map_err(Failure::failed)?;
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {BYTES}\r\n\r\n");
    let page = [head.as_bytes(), bytes.get(..BYTES).unwrap_or_default()].concat();
    for _ in 0..CALLERS {
        let listener = listener.try_clone().map_err(Failure::failed)?;
        let page = page.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                // A client that has had enough goes.
                let asked = stream.read(&mut [0; 1_024]);
                asked.and_then(|_| stream.write_all(&page)).ok();
            }
        });
    }
    Ok(())
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called {
    /// Connections a second, from the call to the end.
    pub(super) rate: f64,
    /// How long half of them took, in µs.
    pub(super) median: f64,
    /// Those that took [`LATE`] or longer, or failed, also of the beginning that does not count
    /// otherwise.
    pub(super) late: f64,
}

/// What one caller has seen.
#[derive(Debug, Default)]
struct Seen {
    times: Vec<Duration>,
    late: u32,
    failed: Option<io::Error>,
}

/// So many callers load page after page.
pub(super) fn call(border: &Border, callers: usize, time: Duration) -> Result<Called, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for _ in 0..callers {
        let over = Arc::clone(&over);
        let thread = border.at(Side::Client, move || {
            let (began, mut seen) = (Instant::now(), Seen::default());
            while !over.load(Ordering::Relaxed) {
                let called = Instant::now();
                // One that fails is made again, and does not count.
                let came = page();
                let took = called.elapsed();
                if came.is_ok() && began.elapsed() > WARM {
                    seen.times.push(took);
                }
                seen.late = seen
                    .late
                    .saturating_add((came.is_err() || took >= LATE).into());
                seen.failed = came.err().or(seen.failed);
            }
            seen
        });
        threads.push(thread.map_err(Failure::failed)?);
    }
    std::thread::sleep(WARM.saturating_add(time));
    over.store(true, Ordering::Relaxed);
    let mut all = Seen::default();
    for thread in threads {
        let ended = thread
            .join()
            .map_err(|_| Failure::failed("a client's thread ended by a fault"))?;
        let seen = ended.map_err(Failure::failed)?;
        all.times.extend(seen.times);
        all.late = all.late.saturating_add(seen.late);
        all.failed = seen.failed.or(all.failed);
    }
    all.sum(time)
}

impl Seen {
    fn sum(mut self, time: Duration) -> Result<Called, Failure> {
        self.times.sort_unstable();
        let Some(median) = self.times.get(self.times.len() / 2) else {
            let why = self.failed.map(|error| error.to_string());
            let why = why.unwrap_or_else(|| "each call took longer than was measured".to_owned());
            return Err(Failure::failed(format_args!("no page came: {why}")));
        };
        #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a rate")]
        let count = self.times.len() as f64;
        Ok(Called {
            rate: count / time.as_secs_f64(),
            median: median.as_secs_f64() * 1e6,
            late: self.late.into(),
        })
    }
}

fn page() -> io::Result<()> {
    let mut stream = TcpStream::connect((SERVER, PORT))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(
        b"GET /page HTTP/1.1\r\nHost: server\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
    )?;
    let mut came = Vec::new();
    stream.read_to_end(&mut came)?;
    if came.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}
