//! `dtl-peers`: what `ringway-bench dtl` is measured beside, and `dtl-peers speed`, which measures
//! how fast all of them are.
//!
//! - `dtl-peers list` prints the names of the flows that other libraries make, one a line.
//! - `dtl-peers receive NAME IP:PORT` binds there and prints `ready`. It accepts one connection,
//!   reads and throws away. From the first byte on it prints every 100 ms a line `SECONDS BYTES`:
//!   time since the first byte, and payload since then. It ends with the connection, or when stdin
//!   is closed.
//! - `dtl-peers send NAME IP:PORT SECONDS` connects there, sends without end for so long, and ends.
//!   What is unsent then is lost.
//! - `dtl-peers speed [--quick] [--json] [--only NAME,…]`: see `speed`.
//!
//! `receive` and `send` also know `ringway-0` and `ringway-1`, which are ours at priority 0 and 1,
//! and `tcp`, the kernel's. `noq-large`, `quinn-large` and `s2n-large` make packets as large as the
//! path allows, up to 6 500 bytes, as ours does and they do not by default. With `--cpu`
//! they end with two lines: `cpu SECONDS`, the processor time of the process, user and system, and
//! `waited SECONDS`, the time in which it would have run had the core been free. What fails is said
//! on stderr, with exit code 1.
//!
//! Every process has one thread that does the work. Connections are encrypted where the protocol
//! is: TLS 1.3 by rustls with aws-lc-rs, which agrees on AES-256-GCM everywhere (`tls`).
//! Certificates are not checked; they are made at start and thrown away.
//!
//! # Settings
//! Each library's defaults, which include CUBIC, except for what would measure something else than
//! the stack:
//! - **Socket buffers** of 2 MiB for all QUIC stacks, as ours has (`sockets`). `utp` asks for more
//!   by itself.
//! - **`noq-cubic`, `quinn-cubic`**: a stream's window of 1.5 MiB, as ours: the default of 1.25 MB
//!   holds less than 100 Mbit/s at 60 ms with as much in the queue. A larger one is no gain, as
//!   both end the connection when 2 048 packets wait for a gap. Packets of up to 1 452 bytes
//!   (default).
//! - **`s2n-quic`**: TLS by rustls, not by s2n-tls, so that all have the same handshake and cipher.
//!   The windows of 3.75 MB and the packets of up to 1 472 bytes are its defaults.
//! - **`utp`**: librqbit-utp, which has uTP's packets with CUBIC instead of LEDBAT, and no
//!   encryption. Buffers of 4 MiB in both directions instead of 1 MiB, which 100 Mbit/s at 60 ms
//!   fill, and more patience with packets that are lost again and again, as it gives up otherwise.
//! - **`libtorrent`**: where Python has libtorrent (Debian: python3-libtorrent), its uTP, which is
//!   LEDBAT with a target of 100 ms: what people use as a scavenger today. A torrent of zeros goes
//!   from a seed to a leecher (`libtorrent.py`). Neither TCP nor encryption; all else by default
//!   but for limits that are made for disks.
//! - **`tcp`**: the system's default congestion control, no encryption.

mod ends;
mod libtorrent;
mod noq_peer;
mod pair;
mod quinn_peer;
mod ringway_peer;
mod s2n_peer;
mod sockets;
mod speed;

mod tcp_peer;
mod tls;
mod utp_peer;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use sockets::Packets;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Both ends of a flow that a library makes.
#[derive(Clone, Copy, Debug)]
struct Peer {
    name: &'static str,
    /// Whether `list` names it: those that `ringway-bench dtl` does not have itself.
    listed: bool,
    receive: fn(SocketAddr) -> Result<(), Failure>,
    send: fn(SocketAddr, Duration) -> Result<(), Failure>,
}

const PEERS: [Peer; 11] = [
    Peer {
        name: "noq-cubic",
        listed: true,
        receive: |at| noq_peer::receive(at, Packets::Default),
        send: |to, time| noq_peer::send(to, time, Packets::Default),
    },
    Peer {
        name: "quinn-cubic",
        listed: true,
        receive: |at| quinn_peer::receive(at, Packets::Default),
        send: |to, time| quinn_peer::send(to, time, Packets::Default),
    },
    Peer {
        name: "s2n-quic",
        listed: true,
        receive: |at| s2n_peer::receive(at, Packets::Default),
        send: |to, time| s2n_peer::send(to, time, Packets::Default),
    },
    Peer {
        name: "utp",
        listed: true,
        receive: utp_peer::receive,
        send: utp_peer::send,
    },
    Peer {
        name: libtorrent::NAME,
        listed: true,
        receive: libtorrent::receive,
        send: libtorrent::send,
    },
    Peer {
        name: "ringway-0",
        listed: false,
        receive: ringway_peer::receive,
        send: |to, time| ringway_peer::send(to, time, 0.0),
    },
    Peer {
        name: "ringway-1",
        listed: false,
        receive: ringway_peer::receive,
        send: |to, time| ringway_peer::send(to, time, 1.0),
    },
    Peer {
        name: "noq-large",
        listed: false,
        receive: |at| noq_peer::receive(at, Packets::AsOurs),
        send: |to, time| noq_peer::send(to, time, Packets::AsOurs),
    },
    Peer {
        name: "quinn-large",
        listed: false,
        receive: |at| quinn_peer::receive(at, Packets::AsOurs),
        send: |to, time| quinn_peer::send(to, time, Packets::AsOurs),
    },
    Peer {
        name: "s2n-large",
        listed: false,
        receive: |at| s2n_peer::receive(at, Packets::AsOurs),
        send: |to, time| s2n_peer::send(to, time, Packets::AsOurs),
    },
    Peer {
        name: "tcp",
        listed: false,
        receive: tcp_peer::receive,
        send: tcp_peer::send,
    },
];

const USAGE: &str = "usage: dtl-peers list | receive NAME IP:PORT [--cpu] | send NAME IP:PORT SECONDS [--cpu] | speed [--quick] [--json] [--only NAME,…]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            #[allow(
                clippy::print_stderr,
                reason = "whoever started it shows the last line"
            )]
            {
                eprintln!("dtl-peers: {failure}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Failure> {
    let (words, cpu) = match words {
        [words @ .., "--cpu"] => (words, true),
        words => (words, false),
    };
    match *words {
        ["list"] => {
            for peer in PEERS.iter().filter(|peer| peer.listed) {
                if peer.name != libtorrent::NAME || libtorrent::python().is_some() {
                    ends::line(peer.name)?;
                }
            }
        }
        ["receive", name, at] => (find(name)?.receive)(address(at)?)?,
        ["send", name, to, seconds] => {
            let time = seconds
                .parse()
                .ok()
                .and_then(|s| Duration::try_from_secs_f64(s).ok());
            let time =
                time.ok_or_else(|| format!("`{seconds}` is not a number of seconds from 0 on"))?;
            (find(name)?.send)(address(to)?, time)?;
        }
        ["speed", ref options @ ..] => speed::run(options)?,
        _ => return Err(USAGE.into()),
    }
    if cpu {
        let (used, waited) = (ends::processor_time(), ends::waited());
        ends::line(&format!("cpu {:.6}", used.as_secs_f64()))?;
        ends::line(&format!("waited {:.6}", waited.as_secs_f64()))?;
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static Peer, Failure> {
    let found = PEERS.iter().find(|peer| peer.name == name);
    found.ok_or_else(|| format!("no flow is called `{name}`: see `dtl-peers list`").into())
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    text.parse()
        .map_err(|_| format!("`{text}` is not IP:PORT").into())
}
