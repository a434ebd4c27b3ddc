//! What the bare sockets of this machine do with the same messages: the limit of every transport
//! over them.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::messages::{Burst, SILENCE};
use ringway_terminal::Failure;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Keeps this thread, one end of what is measured, on a core of its own, as if it were another
/// machine. Where the scheduler chooses, both ends share a core for a while and then do not, and
/// each wake-up costs six times as much.
pub(super) fn on_own_core(end: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    // A thread inherits the one core of the thread that starts it: the process remembers them all.
    let Some(allowed) = ALLOWED.get_or_init(|| sched_getaffinity(None).ok()) else {
        return;
    };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    if let Some(core) = cores.nth(end) {
        let mut own = CpuSet::new();
        own.set(core);
        // Without the right to, it is measured as it is.
        sched_setaffinity(None, &own).ok();
    }
}

/// The cores that the process may use.
static ALLOWED: OnceLock<Option<rustix::thread::CpuSet>> = OnceLock::new();

/// Runs one end on a core of its own, and gives back the thread as it was.
fn on_core<T: Send>(end: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            on_own_core(end);
            work()
        });
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Seconds for `count` messages of `size` bytes over two UDP sockets, each sent after the one
/// before has arrived.
pub(super) fn udp_sequential(count: u32, size: usize) -> Result<f64, Failure> {
    on_core(0, || udp_echoes(count, size)).map_err(Failure::failed)
}

fn udp_echoes(count: u32, size: usize) -> io::Result<f64> {
    let (here, there) = udp_pair()?;
    let answering = std::thread::spawn(move || -> io::Result<()> {
        on_own_core(1);
        let mut buffer = vec![0; 65_536];
        loop {
            let length = there.recv(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            there.send(buffer.get(..length).unwrap_or_default())?;
        }
    });
    let mut buffer = vec![0; 65_536];
    let message = vec![7; size];
    let begin = Instant::now();
    for _ in 0..count / 2 {
        here.send(&message)?;
        here.recv(&mut buffer)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    here.send(&[])?;
    answering.join().unwrap_or(Ok(()))?;
    Ok(seconds)
}

fn udp_pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let (here, there) = (UdpSocket::bind(ANY)?, UdpSocket::bind(ANY)?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    here.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok((here, there))
}

/// The same over a TCP connection, each message behind its length.
pub(super) fn tcp_sequential(count: u32, size: usize) -> Result<f64, Failure> {
    on_core(0, || tcp_echoes(count, size)).map_err(Failure::failed)
}

fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(ANY)?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    Ok((here, there))
}

fn framed(size: usize) -> Vec<u8> {
    let mut message = u32::try_from(size).unwrap_or(0).to_be_bytes().to_vec();
    message.resize(4 + size, 7);
    message
}

fn tcp_echoes(count: u32, size: usize) -> io::Result<f64> {
    let (mut here, mut there) = tcp_pair()?;
    let mut buffer = framed(size);
    let answering = std::thread::spawn(move || -> io::Result<()> {
        on_own_core(1);
        while there.read_exact(&mut buffer).is_ok() {
            there.write_all(&buffer)?;
        }
        Ok(())
    });
    let message = framed(size);
    let mut answer = message.clone();
    let begin = Instant::now();
    for _ in 0..count / 2 {
        here.write_all(&message)?;
        here.read_exact(&mut answer)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    drop(here);
    answering.join().unwrap_or(Ok(()))?;
    Ok(seconds)
}

/// `count` datagrams as fast as the system call takes them: what the paper's Figure 6 shows.
pub(super) fn udp_burst(count: u32, size: usize) -> Result<Burst, Failure> {
    on_core(0, || udp_flood(count, size)).map_err(Failure::failed)
}

fn udp_flood(count: u32, size: usize) -> io::Result<Burst> {
    let (there, here) = udp_pair()?;
    let receiving = std::thread::spawn(move || {
        on_own_core(1);
        let mut buffer = vec![0; 65_536];
        let (mut received, mut last) = (0, Instant::now());
        there.set_read_timeout(Some(SILENCE)).ok();
        while received < count && there.recv(&mut buffer).is_ok() {
            received += 1;
            last = Instant::now();
        }
        (received, last)
    });
    let message = vec![7; size];
    let used = Burst::begin();
    for _ in 0..count {
        // A full buffer is a loss, as for the paper.
        here.send(&message).ok();
    }
    let (received, last) = receiving.join().unwrap_or((0, Instant::now()));
    Ok(used.end(count, received, size, last))
}

/// The same over a TCP connection.
pub(super) fn tcp_burst(count: u32, size: usize) -> Result<Burst, Failure> {
    on_core(0, || tcp_flood(count, size)).map_err(Failure::failed)
}

fn tcp_flood(count: u32, size: usize) -> io::Result<Burst> {
    let (mut here, mut there) = tcp_pair()?;
    let receiving = std::thread::spawn(move || {
        on_own_core(1);
        let mut buffer = framed(size);
        let (mut received, mut last) = (0, Instant::now());
        while received < count && there.read_exact(&mut buffer).is_ok() {
            received += 1;
            last = Instant::now();
        }
        (received, last)
    });
    let message = framed(size);
    let used = Burst::begin();
    for _ in 0..count {
        here.write_all(&message)?;
    }
    let (received, last) = receiving.join().unwrap_or((0, Instant::now()));
    Ok(used.end(count, received, size, last))
}
