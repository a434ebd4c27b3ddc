//! Memory that a full flow table takes for each flow, as Linux counts it: `flow_memory [FLOWS]`.
#![expect(clippy::print_stdout, reason = "it is a program for the terminal")]

use std::time::Duration;

use ringway_gateway::classify::Inspection;
use ringway_gateway::flow::{FlowTable, TableBounds};
use ringway_gateway::limits;
use ringway_gateway::packet::decode;
use ringway_gateway::{LinkType, Packets};

fn main() {
    let flows = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let flows: u32 = flows.unwrap_or(65_536);
    let mut packets = Packets::new();
    let ends = ([10, 0, 0, 1], 4_000).into();
    packets.tcp(ends, ([192, 0, 2, 9], 7_000).into()).open();
    let Some(syn) = packets.iter().next().map(|(_, bytes)| bytes.to_vec()) else {
        return;
    };
    let mut syn = syn;
    let mut table: FlowTable<Inspection> = FlowTable::new(TableBounds {
        flows: usize::try_from(flows).unwrap_or(limits::MAX_FLOWS),
        ..TableBounds::default()
    });
    let before = resident();
    let mut most = 0;
    for number in 0..flows.saturating_mul(4) {
        syn[12..16].copy_from_slice(&(0x0b00_0000 | number).to_be_bytes());
        if let Ok(packet) = decode(LinkType::RawIp, &syn) {
            table.handle_packet(Duration::ZERO, &packet);
        }
        while table.poll_finished().is_some() {}
        if number % 1_000 == 0 {
            most = most.max(resident());
        }
    }
    let bytes = most.saturating_sub(before) / u64::from(flows.max(1));
    println!(
        "{flows} flows, four times as many came: {bytes} bytes each; stated are {}",
        limits::FLOW_BYTES
    );
}

/// Bytes of this process in memory; 0 where the system does not tell.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1_024
}
