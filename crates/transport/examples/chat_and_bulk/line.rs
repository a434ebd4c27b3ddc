//! A slow line on loopback, for datagrams between one program and another: a rate, a delay and a
//! queue each way. It stands for a home's router as well: it may come from another port at any
//! time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// What goes through Ethernet: larger datagrams are lost.
const LARGEST: usize = 1472;

/// How good a line is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quality {
    /// Bits a second each way.
    pub(crate) rate: u64,
    /// Of each way.
    pub(crate) delay: Duration,
    /// What the queue of each way holds; more is dropped.
    pub(crate) queue: Duration,
}

/// A line; it ends with this handle.
#[derive(Debug)]
pub(crate) struct Line {
    address: SocketAddr,
    outside: watch::Sender<Arc<UdpSocket>>,
    _tasks: JoinSet<()>,
}

/// The queue of one way.
struct Queue {
    quality: Quality,
    /// When the last datagram has left.
    free: Instant,
    sender: mpsc::UnboundedSender<(Instant, Vec<u8>)>,
}

impl Queue {
    fn new(quality: Quality) -> (Queue, mpsc::UnboundedReceiver<(Instant, Vec<u8>)>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let free = Instant::now();
        let queue = Queue {
            quality,
            free,
            sender,
        };
        (queue, receiver)
    }

    fn push(&mut self, datagram: &[u8]) {
        let now = Instant::now();
        if datagram.len() > LARGEST || self.free > now + self.quality.queue {
            return;
        }
        let takes = datagram.len() as f64 * 8.0 / self.quality.rate as f64;
        self.free = self.free.max(now) + Duration::from_secs_f64(takes);
        let arrives = self.free + self.quality.delay;
        // The other task ends when the line does.
        self.sender.send((arrives, datagram.to_vec())).ok();
    }
}

impl Line {
    /// Lays a line to `server`; the one who sends to its address first, or last, is at this end.
    pub(crate) async fn lay(server: SocketAddr, quality: Quality) -> io::Result<Line> {
        let inside = Arc::new(socket().await?);
        let address = inside.local_addr()?;
        let (outside, outsides) = watch::channel(Arc::new(socket().await?));
        let (client, clients) = watch::channel(None);
        let (mut there, mut to_server) = Queue::new(quality);
        let (mut back, mut to_client) = Queue::new(quality);
        let mut tasks = JoinSet::new();
        let from_client = inside.clone();
        tasks.spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok((size, from)) = from_client.recv_from(&mut buffer).await {
                client.send_replace(Some(from));
                there.push(&buffer[..size]);
            }
        });
        let current = outsides.clone();
        tasks.spawn(async move {
            while let Some((when, datagram)) = to_server.recv().await {
                sleep_until(when).await;
                let socket = current.borrow().clone();
                // Lost, as on any line.
                socket.send_to(&datagram, server).await.ok();
            }
        });
        let mut current = outsides;
        tasks.spawn(async move {
            let mut buffer = vec![0; 65_536];
            loop {
                let socket = current.borrow_and_update().clone();
                tokio::select! {
                    received = socket.recv_from(&mut buffer) => match received {
                        Ok((size, _)) => back.push(&buffer[..size]),
                        Err(_) => return,
                    },
                    changed = current.changed() => if changed.is_err() { return },
                }
            }
        });
        tasks.spawn(async move {
            while let Some((when, datagram)) = to_client.recv().await {
                sleep_until(when).await;
                let to = *clients.borrow();
                if let Some(to) = to {
                    inside.send_to(&datagram, to).await.ok();
                }
            }
        });
        Ok(Line {
            address,
            outside,
            _tasks: tasks,
        })
    }

    /// Where this end is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes on from another port, as a NAT that has forgotten: what comes to the former is lost.
    #[allow(dead_code, reason = "only the tests do it")]
    pub(crate) async fn renumber(&self) -> io::Result<SocketAddr> {
        let socket = socket().await?;
        let address = socket.local_addr()?;
        self.outside.send_replace(Arc::new(socket));
        Ok(address)
    }
}

async fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await
}
