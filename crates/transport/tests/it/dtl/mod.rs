//! DTL as a library: a program that knows nothing but [`ringway_transport::dtl`]. The table of
//! features in `docs/how-to/use-dtl.md` names these tests.

mod api;
mod example;
mod features;
mod nat;

#[path = "../../../examples/chat_and_bulk/line.rs"]
mod line;
#[path = "../../../examples/chat_and_bulk/measure.rs"]
mod measure;

use std::net::SocketAddr;

use ringway_transport::dtl::{Connection, Endpoint, Key, PeerKey, Priority, Stream, Trust};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{loopback, soon};

fn priority(flows: f64) -> Priority {
    Priority::new(flows).unwrap()
}

fn key(number: u8) -> Key {
    Key::from_bytes(&[number; 32])
}

/// An endpoint on loopback that accepts every key.
fn bound(number: u8) -> (Endpoint, SocketAddr, PeerKey) {
    let key = key(number);
    let endpoint = Endpoint::bind(loopback(), &key, Trust::Anyone).unwrap();
    let address = endpoint.local_address().unwrap();
    (endpoint, address, key.peer_key())
}

/// Two endpoints, and a connection of the first to the second.
struct Pair {
    ends: [Endpoint; 2],
    out: Connection,
    into: Connection,
}

/// By way of `through`, if it is another address than the second endpoint's own.
async fn pair(through: impl AsyncFnOnce(SocketAddr) -> SocketAddr) -> Pair {
    let ((one, ..), (two, address, key)) = (bound(1), bound(2));
    let address = through(address).await;
    let connecting = one.connect(address, key, Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, two.accept()) }).await;
    Pair {
        ends: [one, two],
        out: out.unwrap(),
        into: into.unwrap(),
    }
}

async fn directly() -> Pair {
    pair(async |address| address).await
}

/// A stream of the first, and the second's end of it.
async fn stream(pair: &Pair, flows: f64) -> (Stream, Stream) {
    let mut ours = pair.out.open(priority(flows)).await.unwrap();
    ours.write_all(b"x").await.unwrap();
    let mut theirs = soon(pair.into.accept()).await.unwrap();
    assert_eq!(soon(theirs.read_u8()).await.unwrap(), b'x');
    (ours, theirs)
}
