//! `transport-peers`: the work of `ringway-bench transport`, done by other libraries, so that the
//! figures stand beside theirs.
//!
//! - `transport-peers list` prints what there is, a name a line.
//! - `transport-peers NAME sequential COUNT SIZE`: COUNT messages of SIZE bytes in all, there and
//!   back alternately, each sent after the one before has arrived.
//! - `transport-peers NAME burst COUNT SIZE`: COUNT messages one way, handed over as fast as they
//!   are taken; the time ends when the last one is received.
//!
//! It prints one JSON object: `{"seconds": …, "received": …, "cpu_us": …}`. `cpu_us` is processor
//! time of both sides for each message. Making the connection and a warm-up of at most 100 messages
//! there and back are not counted. What fails, or stands still for 60 seconds, is said on stderr,
//! with exit code 1.
//!
//! As with Ringway's members, both ends are in this process, each on a thread with a runtime of its
//! own that has no other (`ends`), on loopback, at ports that the system chooses. All traffic is
//! encrypted and both ends are authenticated by their keys.
//!
//! # What each does, and why so
//!
//! **`libp2p quic`, `libp2p tcp`** (`libp2p_peer`): rust-libp2p's request-response behaviour over
//! QUIC, and over TCP with Noise and Yamux, which are the transports of its tutorials. A request
//! and its response are the two messages of a sequence; a message of a burst is a request with
//! an empty response. Every request has a stream of its own: that is how the behaviour works.
//! Settings:
//! - a codec of our own that writes nothing but the message, as CBOR or JSON would only cost. A
//!   message ends with its half of the stream; a length before it was slower, as the end has to be
//!   read in any case;
//! - the protocol of a stream is agreed on lazily (`V1Lazy`), which saves a round trip for each
//!   stream;
//! - 200 requests outstanding in a burst, the best of what we tried; the limits of streams, and the
//!   buffers between the swarm and its connection, are as large as that needs, so that no stream is
//!   refused;
//! - all else by default: TCP without Nagle's algorithm, path MTU discovery on.
//!
//! **`iroh`** (`iroh_peer`): two endpoints without relay and without address look-up; the one is
//! given the other's address. Messages are QUIC datagrams, which may be lost as Ringway's may.
//! Settings:
//! - `send_datagram_wait`, which waits where `send_datagram` drops what is oldest;
//!   `read_many_datagrams` at the receiver, as its documentation advises for bursts.
//!   `send_many_datagrams` drops, too, and was no faster once it is kept from that;
//! - the path is known to carry 1 452 bytes, where path MTU discovery would end. Otherwise 1 200
//!   bytes do not fit into a datagram at first, nor again after a burst whose losses are taken for
//!   a smaller MTU;
//! - 8 MiB of datagrams may wait for the application, so that a burst is not dropped there;
//! - aws-lc-rs for cryptography, as in Ringway; all else by default.
//!
//! **`iroh stream`**: the same, but one stream each way on which every message stands behind its
//! length, as applications do that want all of them. Nothing is copied when sending
//! (`write_all_chunks`), and as much is read at once as is there.

mod ends;
mod iroh_peer;
mod libp2p_peer;
mod measure;
mod pipe;

use std::process::ExitCode;

use libp2p_peer::Over;
use measure::{Measured, Work};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Does the work.
type Peer = fn(Work) -> Result<Measured, Failure>;

/// Names and what does the work under each.
const PEERS: [(&str, Peer); 4] = [
    ("libp2p quic", |work| {
        libp2p_peer::requests(Over::Quic, work)
    }),
    ("libp2p tcp", |work| libp2p_peer::requests(Over::Tcp, work)),
    ("iroh", iroh_peer::datagrams),
    ("iroh stream", iroh_peer::stream),
];

const USAGE: &str =
    "usage: transport-peers list | transport-peers NAME sequential|burst COUNT SIZE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(lines) => {
            #[allow(clippy::print_stdout, reason = "the answer of this program")]
            for line in lines {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            #[allow(
                clippy::print_stderr,
                reason = "`ringway-bench transport` shows the last line"
            )]
            {
                eprintln!("transport-peers: {failure}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<Vec<String>, Failure> {
    match arguments {
        [list] if list == "list" => Ok(PEERS.map(|(name, _)| name.to_owned()).to_vec()),
        [name, kind, count, size] => {
            let found = PEERS.iter().find(|(peer, _)| peer == name);
            let (_, peer) =
                found.ok_or_else(|| format!("no library is called `{name}`: see `list`"))?;
            let measured = peer(Work::parse(kind, count, size)?)?;
            Ok(vec![serde_json::to_string(&measured)?])
        }
        _ => Err(USAGE.into()),
    }
}
