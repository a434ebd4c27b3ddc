//! Packets per second of the pipeline on one processor: captures are read into memory and looped
//! for the given seconds.
//!
//! `throughput SECONDS FILE...` loops the files; without files, flows of random bytes, every flow
//! new, are classified, and the number of those that were called peer-to-peer is shown.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for the terminal"
)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use ringway_gateway::classify::PEER_TO_PEER;
use ringway_gateway::{CaptureReader, LinkType, Packets, Pipeline, built_in_pipeline};

type Loaded = Vec<(Duration, LinkType, Vec<u8>)>;

fn main() {
    let mut words = std::env::args().skip(1);
    let Some(seconds) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
        eprintln!("usage: throughput SECONDS [FILE...]");
        std::process::exit(2);
    };
    let files: Vec<String> = words.collect();
    for file in &files {
        report(file, &load(file), Duration::from_secs(seconds));
    }
    if files.is_empty() {
        report(
            "random flows",
            &random_flows(),
            Duration::from_secs(seconds),
        );
    }
}

fn load(file: &str) -> Loaded {
    let mut packets = Loaded::new();
    match CaptureReader::open(Path::new(file)) {
        Ok(mut reader) => {
            while let Ok(Some(packet)) = reader.next_packet() {
                packets.push((packet.timestamp, packet.link, packet.bytes.to_vec()));
            }
        }
        Err(error) => eprintln!("{error}"),
    }
    packets
}

/// 20 000 flows, half TCP and half UDP, of eight packets with random bytes.
fn random_flows() -> Loaded {
    let mut packets = Packets::new();
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for number in 0..20_000_u32 {
        let client = (Ipv4Addr::from_bits(0x0a00_0000 | number), 40_000).into();
        let server = (Ipv4Addr::new(192, 0, 2, 1), 7_000).into();
        let mut payloads = Vec::new();
        for _ in 0..8 {
            let length = usize::try_from(20 + random() % 600).unwrap_or(20);
            payloads.push(
                (0..length)
                    .map(|_| random().to_le_bytes()[3])
                    .collect::<Vec<u8>>(),
            );
        }
        if number % 2 == 0 {
            let mut stream = packets.tcp(client, server);
            stream.open();
            for pair in payloads.chunks(2) {
                stream.client(&pair[0]);
                stream.server(&pair[1]);
            }
            stream.close();
        } else {
            for pair in payloads.chunks(2) {
                packets.udp(client, server, &pair[0]);
                packets.udp(server, client, &pair[1]);
            }
        }
    }
    packets
        .iter()
        .map(|(now, bytes)| (now, LinkType::RawIp, bytes.to_vec()))
        .collect()
}

fn report(name: &str, packets: &Loaded, time: Duration) {
    let (Some((first, ..)), Some((last, ..))) = (packets.first(), packets.last()) else {
        return;
    };
    let round = *last - (*first).min(*last) + Duration::from_secs(10_000);
    let mut pipeline = built_in_pipeline();
    let mut found = Found::default();
    let (begun, cpu) = (Instant::now(), on_cpu().unwrap_or_default());
    let (mut count, mut bytes, mut rounds) = (0_u64, 0_u64, 0_u32);
    while begun.elapsed() < time || rounds == 0 {
        for (now, link, packet) in packets {
            pipeline.handle_packet(*now + round * rounds, *link, packet);
            bytes += packet.len() as u64;
            found.drain(&mut pipeline);
        }
        count += packets.len() as u64;
        rounds += 1;
    }
    let wall = begun.elapsed();
    let elapsed = on_cpu()
        .map_or(wall, |now| now.saturating_sub(cpu))
        .as_secs_f64();
    pipeline.finish();
    found.drain(&mut pipeline);
    println!(
        "{name}: {:.2} million packets/s, {:.2} Gbit/s, {} flows/s; of {} flows {} called peer-to-peer ({:?})",
        count as f64 / elapsed / 1e6,
        bytes as f64 * 8.0 / elapsed / 1e9,
        (found.flows as f64 / elapsed) as u64,
        found.flows,
        found.peer_to_peer.iter().sum::<u64>(),
        found.peer_to_peer,
    );
}

/// Time this thread has had a processor, where the system tells: other programs' load does not
/// count then.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ')
        .next()?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

/// Finished flows, and those called peer-to-peer as a guess, likely, and for certain.
#[derive(Default)]
struct Found {
    flows: u64,
    peer_to_peer: [u64; 3],
}

impl Found {
    fn drain(&mut self, pipeline: &mut Pipeline) {
        while let Some(flow) = pipeline.poll_flow() {
            self.flows += 1;
            if PEER_TO_PEER.contains(&flow.app.as_str()) {
                self.peer_to_peer[flow.confidence as usize] += 1;
            }
        }
    }
}
