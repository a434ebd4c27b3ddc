//! Keys, addresses and waiting.

use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
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
    tokio::time::timeout(Duration::from_secs(600), future)
        .await
        .expect("happens within ten minutes")
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

/// The program, if it is installed.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(system);
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

/// A program that ends with the test.
pub(crate) struct Child(std::process::Child);

impl Child {
    pub(crate) fn start(command: &mut std::process::Command) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(quiet.spawn().unwrap())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Says loudly that a test did not happen. Written past the test harness, which hides what passing
/// tests print.
pub(crate) fn skipped(test: &str, needs: &str) {
    let line = format!("SKIPPED: {test} needs {needs}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
