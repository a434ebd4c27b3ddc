//! Captures made in code from published message formats, with the application expected of each
//! flow.
//!
//! They are no recordings: addresses, names, hashes and contents are invented (documentation ranges
//! of RFC 5737 and RFC 2606), and only as much of each protocol is spoken as its format description
//! fixes. They let a program show and test itself on a machine that has no captures. [`Packets`] is
//! the workshop they are made in.

mod bittorrent;
mod calls;
mod databases;
mod edonkey;
mod gnutella;
mod hidden;
mod mail;
mod media;
mod messengers;
mod network;
mod packets;
mod private;
mod sharing;
mod things;
mod tunnels;
mod web;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

pub use packets::{Packets, TcpStream, frame};

use crate::packet::{L4, LinkType};
use crate::record::FlowRecord;

/// A flow that a sample contains and the application that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// File name of the sample, without folders.
    pub file: &'static str,
    /// Transport protocol.
    pub l4: L4,
    /// The side that opens the flow.
    pub client: SocketAddr,
    /// The other side.
    pub server: SocketAddr,
    /// Application that a classifier should name.
    pub app: &'static str,
}

impl Expected {
    /// The record is about this flow; its application is not compared.
    #[must_use]
    pub fn is_flow_of(&self, record: &FlowRecord) -> bool {
        let file = record
            .file
            .as_deref()
            .map(Path::new)
            .and_then(Path::file_name);
        file == Some(self.file.as_ref())
            && record.l4 == self.l4
            && SocketAddr::new(record.client_ip, record.client_port) == self.client
            && SocketAddr::new(record.server_ip, record.server_port) == self.server
    }
}

/// A capture in the making.
struct Sample {
    file: &'static str,
    packets: Packets,
    expected: Vec<Expected>,
}

impl Sample {
    fn new(file: &'static str) -> Self {
        // Some day in 2026, so that tools show plausible times.
        Self {
            file,
            packets: Packets::starting_at(Duration::from_secs(1_780_000_000)),
            expected: Vec::new(),
        }
    }

    fn expect(&mut self, l4: L4, client: SocketAddr, server: SocketAddr, app: &'static str) {
        self.expected.push(Expected {
            file: self.file,
            l4,
            client,
            server,
            app,
        });
    }

    /// A TCP conversation whose application is expected to be `app`.
    fn tcp(&mut self, client: SocketAddr, server: SocketAddr, app: &'static str) -> TcpStream<'_> {
        self.expect(L4::Tcp, client, server, app);
        let mut stream = self.packets.tcp(client, server);
        stream.open();
        stream
    }

    /// UDP datagrams, sent by client and server in turn.
    fn udp(
        &mut self,
        client: SocketAddr,
        server: SocketAddr,
        app: &'static str,
        datagrams: &[&[u8]],
    ) {
        self.expect(L4::Udp, client, server, app);
        for pair in datagrams.chunks(2) {
            for (datagram, (from, to)) in pair.iter().zip([(client, server), (server, client)]) {
                self.packets.udp(from, to, datagram);
            }
        }
    }
}

fn samples() -> [Sample; 17] {
    [
        bittorrent::sample(),
        edonkey::sample(),
        gnutella::sample(),
        web::sample(),
        sharing::sample(),
        messengers::sample(),
        calls::sample(),
        private::sample(),
        hidden::sample(),
        tunnels::sample(),
        tunnels::remote(),
        media::sample(),
        network::sample(),
        mail::sample(),
        databases::sample(),
        things::sample(),
        things::games(),
    ]
}

/// Writes the samples into a folder, which must exist; returns their paths.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for sample in samples() {
        let path = folder.join(sample.file);
        fs::write(&path, sample.packets.to_pcap(LinkType::Ethernet))?;
        paths.push(path);
    }
    Ok(paths)
}

/// All flows of all samples.
#[must_use]
pub fn expected() -> Vec<Expected> {
    samples()
        .into_iter()
        .flat_map(|sample| sample.expected)
        .collect()
}

/// The samples as pcap files in memory: file name and bytes.
#[must_use]
pub fn captures() -> Vec<(&'static str, Vec<u8>)> {
    samples()
        .into_iter()
        .map(|sample| (sample.file, sample.packets.to_pcap(LinkType::Ethernet)))
        .collect()
}

/// A machine inside, in the range for private use.
const fn inside(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port)
}

/// A machine outside, in a range for documentation.
const fn outside(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, host)), port)
}

/// Bytes without a pattern, the same in every run.
fn noise(seed: u8, count: usize) -> Vec<u8> {
    // Far apart, so that no two begin alike.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(seed).saturating_add(1));
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let [byte, ..] = state.to_be_bytes();
        byte
    };
    (0..count).map(|_| next()).collect()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}
