//! eDonkey: hello between two clients and the request of a part, login to a server, and Kad.

use super::{Sample, inside, joined, noise, outside};
use crate::reader::length32;

const APP: &str = "edonkey";

pub(super) fn sample() -> Sample {
    let mut sample = Sample::new("made-edonkey.pcap");
    clients(&mut sample);
    server(&mut sample);
    kad(&mut sample);
    sample
}

/// Protocol byte, little-endian length, opcode, body.
fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    joined(&[
        &[0xe3],
        &length32(body.len().saturating_add(1)).to_le_bytes(),
        &[opcode],
        body,
    ])
}

/// A user hash with eMule's marks, client id, port, and tags: name, version, port.
fn identity(seed: u8, port: u16) -> Vec<u8> {
    let mut hash = noise(seed, 16);
    for (place, mark) in [(5, 0x0e), (14, 0x6f)] {
        if let Some(byte) = hash.get_mut(place) {
            *byte = mark;
        }
    }
    let tags = [
        joined(&[&[2, 1, 0, 1, 6, 0], b"sample"]),
        joined(&[&[3, 1, 0, 0x11], &60_u32.to_le_bytes()]),
        joined(&[&[3, 1, 0, 0x0f], &u32::from(port).to_le_bytes()]),
    ];
    joined(&[
        &hash,
        &noise(seed, 4),
        &port.to_le_bytes(),
        &3_u32.to_le_bytes(),
        &tags.concat(),
    ])
}

fn clients(sample: &mut Sample) {
    let server_address = [198, 51, 100, 40, 0x36, 0x12];
    let file = noise(11, 16);
    let mut stream = sample.tcp(inside(6, 49_400), outside(30, 4_662), APP);
    stream.client(&frame(
        0x01,
        &joined(&[&[16], &identity(7, 4_662), &server_address]),
    ));
    stream.server(&frame(
        0x4c,
        &joined(&[&identity(8, 4_662), &server_address]),
    ));
    stream.client(&frame(0x58, &file));
    stream.server(&frame(0x59, &joined(&[&file, &[10, 0], b"sample.bin"])));
    stream.client(&frame(0x54, &file));
    stream.server(&frame(0x55, &[]));
    let range = [0_u32, 0, 0, 10_240, 0, 0].map(u32::to_le_bytes).concat();
    stream.client(&frame(0x47, &joined(&[&file, &range])));
    let place = [0_u32, 10_240].map(u32::to_le_bytes).concat();
    stream.server(&frame(0x46, &joined(&[&file, &place, &noise(12, 10_240)])));
    stream.close();
}

fn server(sample: &mut Sample) {
    let text = b"server version 17.15";
    let mut stream = sample.tcp(inside(6, 49_401), outside(40, 4_661), APP);
    stream.client(&frame(0x01, &identity(7, 4_662)));
    stream.server(&frame(0x38, &joined(&[&[20, 0], text])));
    stream.server(&frame(0x40, &noise(13, 4)));
    stream.close();
}

fn kad(sample: &mut Sample) {
    let request = joined(&[&[0xe4, 0x21, 2], &noise(14, 16), &noise(15, 16)]);
    let contacts = joined(&[&noise(16, 25), &noise(17, 25)]);
    let answer = joined(&[&[0xe4, 0x29], &noise(14, 16), &[2], &contacts]);
    sample.udp(
        inside(6, 4_672),
        outside(31, 4_672),
        APP,
        &[&request, &answer, &[0xe4, 0x60], &[0xe4, 0x61, 0x40, 0x12]],
    );
}
