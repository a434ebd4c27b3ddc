//! Keys, addresses and waiting.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use ringway_transport::{Address, AddressDescriptor, Incoming};
use tokio::sync::mpsc::Receiver;

/// A key that the same number always gives.
pub(crate) fn key(number: u16) -> SigningKey {
    let mut seed = [7; 32];
    seed[..2].copy_from_slice(&number.to_be_bytes());
    SigningKey::from_bytes(&seed)
}

pub(crate) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub(crate) fn udp(text: &str) -> AddressDescriptor {
    AddressDescriptor::new(Address::Udp(text.parse().unwrap()), 1200, 10)
}

/// Waits generously: the limit only turns a hang into a failure.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("happens within 30 s")
}

pub(crate) async fn next(queue: &mut Receiver<Incoming>) -> Incoming {
    soon(queue.recv()).await.expect("the transport runs")
}

/// Waits until the condition holds.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    soon(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
