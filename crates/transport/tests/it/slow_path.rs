//! A path that takes its time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::support::loopback;

/// What a path takes, in milliseconds; it may change at any time.
#[derive(Default)]
pub(crate) struct Path {
    there: AtomicU64,
    back: AtomicU64,
    /// Each datagram on the way there, as on a slow line: the others wait for it.
    pub(crate) each: AtomicU64,
}

impl Path {
    pub(crate) fn set(&self, there: u64, back: u64) {
        self.there.store(there, Ordering::Relaxed);
        self.back.store(back, Ordering::Relaxed);
    }
}

/// Carries datagrams between the client that writes to it first and `server`; in order, as a queue
/// does.
pub(crate) async fn path(server: SocketAddr, path: Arc<Path>) -> SocketAddr {
    let front = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
    let behind = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
    let address = front.local_addr().unwrap();
    let (client, clients) = tokio::sync::watch::channel(None);
    let (to_server, there) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (to_client, back) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let time = |ms: &AtomicU64| Duration::from_millis(ms.load(Ordering::Relaxed));
    let (one, other) = (path.clone(), path.clone());
    let hears = front.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((size, from)) = hears.recv_from(&mut buffer).await {
            client.send_replace(Some(from));
            let when = Instant::now() + time(&one.there);
            to_server.send((when, buffer[..size].to_vec())).unwrap();
        }
    });
    let hears = behind.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((size, _)) = hears.recv_from(&mut buffer).await {
            let when = Instant::now() + time(&other.back);
            to_client.send((when, buffer[..size].to_vec())).unwrap();
        }
    });
    for (mut queue, socket, way_there) in [(there, behind, true), (back, front, false)] {
        let (clients, path) = (clients.clone(), path.clone());
        tokio::spawn(async move {
            let mut free = Instant::now();
            while let Some((when, datagram)) = queue.recv().await {
                sleep_until(when.max(free)).await;
                let to = if way_there {
                    free = Instant::now() + time(&path.each);
                    Some(server)
                } else {
                    *clients.borrow()
                };
                socket.send_to(&datagram, to.unwrap()).await.ok();
            }
        });
    }
    address
}
