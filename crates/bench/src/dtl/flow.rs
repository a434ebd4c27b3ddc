//! Flows over a line: the kernel's TCP, ours, the QUIC stack's CUBIC, and other programs.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ringway_dtl::{Algorithm, Config, Priority};
use ringway_node::identity::Identity;
use ringway_transport::MemberId;
use ringway_transport::quic::{
    CongestionControl, ConnectionReport, QuicConnection, QuicEndpoint, QuicOptions,
};
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::line::{End, Line};
use crate::limits::FLOW_END;
use ringway_terminal::Failure;

/// Bytes written at once.
const BLOCK: usize = 64 * 1024;
/// Seconds for which another program sends if it is not ended.
const FOR_EVER: &str = "100000";

/// Whose rules a flow follows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// The kernel's TCP with this congestion control.
    Tcp(&'static str),
    /// The same on the way back: from the receiving end to the sending one.
    Upload(&'static str),
    /// Ours, at this priority, with or without readings of the receiver's clock.
    Ours(Algorithm, f64, Clocks),
    /// The CUBIC of the QUIC stack that ours runs on.
    Noq,
    /// A case of the program given by `--beside`.
    Beside(PathBuf, String),
}

/// What one of ours knows of its round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clocks {
    /// How long they take.
    None,
    /// How long each way of them takes.
    Reported,
}

/// One flow, sending until it is stopped or dropped.
#[derive(Debug)]
pub(super) struct Flow {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    connection: Option<QuicConnection>,
    children: Vec<Child>,
    /// Its endpoints. Flows of one program have theirs with the last of them.
    endpoints: Vec<Endpoint>,
}

impl Flow {
    /// Starts a flow from the sending end to `port` of the receiving end.
    pub(super) fn start(line: &Line, kind: &Kind, port: u16) -> Result<Flow, Failure> {
        let started = match kind {
            Kind::Tcp(control) => Flow::tcp(line, control, port),
            Kind::Upload(control) => Flow::upload(line, control, port),
            Kind::Ours(algorithm, priority, clocks) => {
                let config = Config {
                    algorithm: *algorithm,
                    ..Config::default()
                };
                let options = QuicOptions {
                    congestion: CongestionControl::Priority(config),
                    clocks: *clocks == Clocks::Reported,
                    ..QuicOptions::default()
                };
                alone(line, &options, *priority, port)
            }
            Kind::Noq => {
                let options = QuicOptions {
                    congestion: CongestionControl::Cubic,
                    ..QuicOptions::default()
                };
                alone(line, &options, 1.0, port)
            }
            Kind::Beside(program, name) => Flow::beside(line, program, name, port),
        };
        started.map_err(|error| {
            Failure::failed(format_args!(
                "a flow of {kind:?} could not be started: {error}"
            ))
        })
    }

    /// Starts flows of ours from one program at the sending end to the receiving end: to one peer,
    /// or each to a peer of its own, from this port on.
    pub(super) fn start_together(
        line: &Line,
        priorities: &[f64],
        peers: Peers,
        port: u16,
    ) -> Result<Vec<Flow>, Failure> {
        quic(line, &QuicOptions::default(), priorities, peers, port).map_err(|error| {
            Failure::failed(format_args!(
                "flows of one program could not be started: {error}"
            ))
        })
    }

    /// Bytes of payload that have arrived.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// What our controller, or the stack's, says of the path; `None` for others.
    pub(super) fn report(&self) -> Option<ConnectionReport> {
        self.connection.as_ref().map(QuicConnection::report)
    }

    /// Changes the priority of one of ours.
    pub(super) fn set_priority(&self, priority: f64) -> Result<(), Failure> {
        let priority = Priority::new(priority).map_err(Failure::failed)?;
        if let Some(connection) = &self.connection {
            connection.set_priority(priority);
        }
        Ok(())
    }

    /// Ends it at once: what is in buffers is not sent.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(connection) = self.connection.take() {
            connection.close(0, "measured");
        }
        for mut child in self.children.drain(..) {
            // It has ended, or is ended now.
            child.kill().ok();
            child.wait().ok();
        }
    }

    fn idle() -> Flow {
        Flow {
            received: Arc::default(),
            stop: Arc::default(),
            connection: None,
            children: Vec::new(),
            endpoints: Vec::new(),
        }
    }

    fn tcp(line: &Line, control: &'static str, port: u16) -> io::Result<Flow> {
        let flow = Flow::idle();
        let there = line.receiver(port);
        let listener = joined(line.at(End::Receiver, move || TcpListener::bind(there))?)??;
        let (received, stop) = (Arc::clone(&flow.received), Arc::clone(&flow.stop));
        line.at(End::Receiver, move || count(&listener, &received))?;
        let stream = line.at(End::Sender, move || connect(there, control))?;
        let stream = joined(stream)??;
        line.at(End::Sender, move || fill(stream, &stop))?;
        Ok(flow)
    }

    /// The end that listens sends.
    fn upload(line: &Line, control: &'static str, port: u16) -> io::Result<Flow> {
        let flow = Flow::idle();
        let there = line.receiver(port);
        let listener = joined(line.at(End::Receiver, move || {
            let listener = TcpListener::bind(there)?;
            // What it accepts has it, too.
            set_tcp_congestion(&listener, control)?;
            io::Result::Ok(listener)
        })?)??;
        let (received, stop) = (Arc::clone(&flow.received), Arc::clone(&flow.stop));
        line.at(End::Receiver, move || {
            if let Ok((stream, _)) = listener.accept() {
                fill(stream, &stop);
            }
        })?;
        let stream = joined(line.at(End::Sender, move || TcpStream::connect(there))?)??;
        line.at(End::Sender, move || count_stream(stream, &received))?;
        Ok(flow)
    }

    fn beside(line: &Line, program: &Path, name: &str, port: u16) -> io::Result<Flow> {
        let mut flow = Flow::idle();
        let there = line.receiver(port).to_string();
        let start = |end, words: Vec<String>| {
            let mut command = Command::new(program);
            command
                .args(words)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            joined(line.at(end, move || command.spawn())?)?
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut receiver = start(End::Receiver, words(&["receive", name, &there]))?;
        let out = receiver.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        flow.children.push(receiver);
        let mut lines = BufReader::new(out).lines();
        lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        let received = Arc::clone(&flow.received);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let bytes = line.split(' ').nth(1).and_then(|bytes| bytes.parse().ok());
                bytes
                    .into_iter()
                    .for_each(|bytes: u64| received.store(bytes, Ordering::Relaxed));
            }
        });
        let sender = start(End::Sender, words(&["send", name, &there, FOR_EVER]))?;
        flow.children.push(sender);
        Ok(flow)
    }
}

impl Drop for Flow {
    /// Waits for its endpoints: one that outlived the line would go on sending into nothing until
    /// its connections are given up.
    fn drop(&mut self) {
        self.stop();
        let pause = Duration::from_millis(5);
        let mut looks = FLOW_END.as_millis() / pause.as_millis();
        while looks > 0 && !self.endpoints.iter().all(JoinHandle::is_finished) {
            thread::sleep(pause);
            looks -= 1;
        }
    }
}

/// A flow of ours, or of the QUIC stack's, that shares nothing with others.
fn alone(line: &Line, options: &QuicOptions, priority: f64, port: u16) -> io::Result<Flow> {
    let flows = quic(line, options, &[priority], Peers::One, port)?;
    let alone = flows.into_iter().next();
    alone.ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// To whom flows of one program go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peers {
    /// All to one.
    One,
    /// Each to one of its own.
    Each,
}

/// Flows from one endpoint to others, one for each priority.
fn quic(
    line: &Line,
    options: &QuicOptions,
    priorities: &[f64],
    peers: Peers,
    port: u16,
) -> io::Result<Vec<Flow>> {
    let priorities: Vec<_> = priorities
        .iter()
        .map(|priority| Priority::new(*priority).map_err(io::Error::other))
        .collect::<Result<_, _>>()?;
    let mut flows: Vec<_> = priorities.iter().map(|_| Flow::idle()).collect();
    let counters = flows.iter().map(|flow| Arc::clone(&flow.received));
    let counters: Vec<_> = counters.collect();
    let each = match peers {
        Peers::One => counters.len().max(1),
        Peers::Each => 1,
    };
    let (mut there, mut endpoints) = (Vec::new(), Vec::new());
    for (counters, port) in counters.chunks(each).zip(port..) {
        let (peer, endpoint) = receive(line, options, counters.to_vec(), port)?;
        there.extend(counters.iter().map(|_| peer));
        endpoints.push(endpoint);
    }
    let ours = Identity::generate().map_err(io::Error::other)?;
    let (connected, connections) = mpsc::channel();
    let (at_sender, local) = (options.clone(), unspecified(line.receiver(port)));
    let sender = line.at(End::Sender, move || {
        run(async {
            let endpoint = bind(SocketAddr::new(local, 0), &ours, at_sender)?;
            let mut sending = tokio::task::JoinSet::new();
            for (priority, (address, member)) in priorities.into_iter().zip(there) {
                let connection = endpoint.connect(address, member, priority).await;
                let connection = connection.map_err(io::Error::other)?;
                connected.send(connection.clone()).ok();
                sending.spawn(async move { source(&connection).await });
            }
            while sending.join_next().await.is_some() {}
            // The other end is notified.
            endpoint.wait_idle().await;
            Ok(())
        })
    })?;
    endpoints.push(sender);
    for flow in &mut flows {
        flow.connection = Some(connections.recv().map_err(io::Error::other)?);
    }
    if let Some(last) = flows.last_mut() {
        last.endpoints = endpoints;
    }
    Ok(flows)
}

/// An endpoint's thread.
type Endpoint = JoinHandle<io::Result<io::Result<()>>>;

/// Starts a peer at the receiving end that counts what so many connections bring; gives where and
/// who it is.
fn receive(
    line: &Line,
    options: &QuicOptions,
    counters: Vec<Arc<AtomicU64>>,
    port: u16,
) -> io::Result<((SocketAddr, MemberId), Endpoint)> {
    let there = line.receiver(port);
    let theirs = Identity::generate().map_err(io::Error::other)?;
    let member = MemberId::from(theirs.signing_key());
    let (ready, bound) = mpsc::channel();
    let options = options.clone();
    let endpoint = line.at(End::Receiver, move || {
        run(async {
            let endpoint = bind(there, &theirs, options)?;
            ready.send(()).ok();
            sink(&endpoint, counters).await?;
            endpoint.wait_idle().await;
            Ok(())
        })
    })?;
    bound.recv().map_err(io::Error::other)?;
    Ok(((there, member), endpoint))
}

/// Connects with this congestion control from the beginning. A connection that begins with the
/// system's own and changes keeps some of it: after BBR, Linux paces CUBIC and Reno, which it does
/// not otherwise.
fn connect(there: SocketAddr, control: &str) -> io::Result<TcpStream> {
    let family = match there {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    set_tcp_congestion(&socket, control)?;
    rustix::net::connect(&socket, &there)?;
    Ok(TcpStream::from(socket))
}

fn unspecified(like: SocketAddr) -> std::net::IpAddr {
    match like {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// What a thread at an end came to.
pub(super) fn joined<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err(io::Error::other("a thread of the benchmark failed")))
}

/// Counts what one connection brings.
fn count(listener: &TcpListener, received: &AtomicU64) {
    if let Ok((stream, _)) = listener.accept() {
        count_stream(stream, received);
    }
}

fn count_stream(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; BLOCK];
    // Its end, or that of the flow.
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Writes until it is stopped. Closing throws away what has not been sent.
fn fill(mut stream: TcpStream, stop: &AtomicBool) {
    let set = set_socket_linger(&stream, Some(Duration::ZERO))
        .map_err(io::Error::from)
        .and_then(|()| stream.set_write_timeout(Some(Duration::from_millis(100))));
    if set.is_err() {
        return;
    }
    let block = vec![7; BLOCK];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn run(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

fn bind(
    address: SocketAddr,
    identity: &Identity,
    options: QuicOptions,
) -> io::Result<QuicEndpoint> {
    QuicEndpoint::bind(address, identity.signing_key(), Arc::new(|_| true), options)
        .map_err(io::Error::other)
}

/// Counts what each connection brings, in the order in which they come.
async fn sink(endpoint: &QuicEndpoint, counters: Vec<Arc<AtomicU64>>) -> io::Result<()> {
    let mut arriving = tokio::task::JoinSet::new();
    for received in counters {
        let connection = endpoint.accept().await.ok_or(io::ErrorKind::BrokenPipe)?;
        arriving.spawn(async move {
            let Ok((_send, mut stream)) = connection.accept_bi().await else {
                return;
            };
            // Its end, or that of the flow.
            while let Ok(Some(chunk)) = stream.read_chunk(BLOCK).await {
                received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            }
        });
    }
    while arriving.join_next().await.is_some() {}
    Ok(())
}

async fn source(connection: &QuicConnection) -> io::Result<()> {
    let (mut stream, _receive) = connection.open_bi().await.map_err(io::Error::other)?;
    let block = bytes::Bytes::from(vec![7; BLOCK]);
    // Until the connection is closed.
    while stream.write_chunk(block.clone()).await.is_ok() {}
    Ok(())
}
