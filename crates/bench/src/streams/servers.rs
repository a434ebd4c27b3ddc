//! The services and their clients: one takes what comes, one gives back, one greets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringway_terminal::Failure;
use ringway_testbed::Host;

use super::failed;

/// Bytes read or written at once.
const PIECE: usize = 128 * 1024;
/// Time before a measurement, in which a connection finds its speed.
const WARMING: Duration = Duration::from_secs(1);
/// Silence that ends a client.
const SILENCE: Duration = Duration::from_secs(20);

/// A server on a thread of its own, at a free port of 127.0.0.1, on a host if one is given.
pub(super) fn start(
    host: Option<&Host>,
    serve: impl Fn(TcpStream) + Send + Sync + 'static,
) -> Result<SocketAddr, Failure> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = match host {
        Some(host) => host.enter(bind).map_err(failed)?,
        None => bind(),
    };
    let listener = listener.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// Gives back what comes.
pub(super) fn echo(mut stream: TcpStream) {
    // A client that is gone ends it.
    stream.set_nodelay(true).ok();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        if stream
            .write_all(piece.get(..length).unwrap_or_default())
            .is_err()
        {
            return;
        }
    }
}

/// Says one byte, and waits for the client's end.
pub(super) fn greet(mut stream: TcpStream) {
    // A client that is gone ends it.
    stream.set_nodelay(true).ok();
    if stream.write_all(b"!").is_ok() {
        stream.read_exact(&mut [0]).ok();
    }
}

/// A server that counts what comes.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) address: SocketAddr,
    received: Arc<AtomicU64>,
}

impl Sink {
    pub(super) fn start(host: Option<&Host>) -> Result<Sink, Failure> {
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        let address = start(host, move |mut stream| {
            let mut piece = vec![0; PIECE];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                let length = u64::try_from(length).unwrap_or(0);
                counted.fetch_add(length, Ordering::Relaxed);
            }
        })?;
        Ok(Sink { address, received })
    }

    /// Gbit/s that one connection by way of `through` brings here.
    pub(super) fn pour(&self, through: SocketAddr, time: Duration) -> Result<f64, Failure> {
        let mut stream = TcpStream::connect(through).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let writer = std::thread::spawn(move || {
            let piece = vec![7; PIECE];
            while !stopped.load(Ordering::Relaxed) {
                if stream.write_all(&piece).is_err() {
                    return;
                }
            }
        });
        std::thread::sleep(WARMING);
        let (begin, before) = (Instant::now(), self.received.load(Ordering::Relaxed));
        std::thread::sleep(time);
        let bytes = self.received.load(Ordering::Relaxed).saturating_sub(before);
        let seconds = begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        writer
            .join()
            .map_err(|_| failed("a thread of the benchmark failed"))?;
        if bytes == 0 {
            return Err(failed(format_args!("nothing comes by way of {through}")));
        }
        #[allow(clippy::cast_precision_loss, reason = "bytes of some seconds")]
        let bits = bytes as f64 * 8.0;
        Ok(bits / seconds / 1e9)
    }
}

/// How long each of so many keystrokes takes there and back.
pub(super) fn typed(
    to: SocketAddr,
    times: usize,
    pause: Duration,
) -> Result<Vec<Duration>, Failure> {
    let mut stream = connect(to)?;
    let mut all = Vec::new();
    for _ in 0..times {
        let begin = Instant::now();
        stream.write_all(b"k").map_err(failed)?;
        stream.read_exact(&mut [0]).map_err(failed)?;
        all.push(begin.elapsed());
        std::thread::sleep(pause);
    }
    Ok(all)
}

/// From the connection to the service's first byte.
pub(super) fn greeted(by: SocketAddr) -> Result<Duration, Failure> {
    let begin = Instant::now();
    let mut stream = connect(by)?;
    stream.read_exact(&mut [0]).map_err(failed)?;
    Ok(begin.elapsed())
}

fn connect(to: SocketAddr) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(to).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(SILENCE)).map_err(failed)?;
    Ok(stream)
}
