//! What a large capture of recorded conversations takes of the processor, beside nDPI: with the
//! built-in signatures, and with ten times as many.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringway_gateway::SignatureSet;
use ringway_terminal::{Failure, Output};

use super::recall::{NDPI, files, spent};
use crate::figure::Figure;
use crate::program::ringway;

/// How often the recorded conversations stand in the capture, each time between other hosts.
const COPIES: u8 = 80;
/// How often each program reads it in a round.
const READ: usize = 4;
/// Signatures of one file; it may have 1 024.
const IN_FILE: usize = 720;
/// Packets of a second of the capture: its conversations may not outlive what waits for them.
const A_SECOND: u32 = 2_000;
/// A pcap file's header with microseconds, in this machine's order of bytes, and one for Ethernet.
const LITTLE: [u8; 4] = [0xd4, 0xc3, 0xb2, 0xa1];
const HEADER: usize = 24;
const RECORD: usize = 16;
const ETHERNET: u8 = 1;

/// Measures both programs on the recorded captures in a folder.
pub(super) fn measure(
    output: Output,
    captures: &Path,
    folder: &Path,
    rounds: usize,
) -> Result<Vec<Figure>, Failure> {
    let large = folder.join("recorded.pcap");
    let recorded = files(&captures.join("given"))?;
    std::fs::write(&large, copied(&recorded)?).map_err(Failure::failed)?;
    let more = signatures(folder)?;
    let program = ringway()?;
    let four = vec![large.clone(); READ];
    let ours = |signatures: &[PathBuf]| {
        let mut words: Vec<PathBuf> = vec!["gate".into(), "classify".into()];
        for file in signatures {
            words.extend(["--signatures".into(), file.clone()]);
        }
        words.extend_from_slice(&four);
        spent(&program, &words, 1)
    };
    let (mut plain, mut many, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        plain.push(ours(&[])?);
        many.push(ours(&more)?);
        let words = ["-q", "-n", "1", "-i"].map(PathBuf::from);
        let words = [&words[..], std::slice::from_ref(&large)].concat();
        other.push(spent(Path::new(NDPI), &words, READ)?);
        let last = |times: &[f64]| times.last().copied().unwrap_or_default();
        output.note(&format!(
            "round {} of {rounds}, {READ} times the recorded conversations: {:.2} s, with ten times the signatures {:.2} s, nDPI {:.2} s",
            round + 1,
            last(&plain),
            last(&many),
            last(&other)
        ));
    }
    let figure = |case: &str, times: &[f64]| {
        Figure::new("gate", case, "processor time", "s", times).against("nDPI", &other)
    };
    Ok(vec![
        figure("recorded conversations", &plain),
        figure("recorded conversations, ten times the signatures", &many),
    ])
}

/// The conversations of all captures of Ethernet, again and again, each time between other hosts.
fn copied(files: &[PathBuf]) -> Result<Vec<u8>, Failure> {
    let mut packets = Vec::new();
    for file in files {
        let bytes = std::fs::read(file).map_err(Failure::failed)?;
        let is_ethernet = bytes.starts_with(&LITTLE) && bytes.get(20) == Some(&ETHERNET);
        let mut rest = bytes.get(HEADER..).filter(|_| is_ethernet).unwrap_or(&[]);
        while let Some((length, packet)) = record(rest) {
            packets.push(packet.to_vec());
            rest = rest.get(RECORD + length..).unwrap_or_default();
        }
    }
    let mut capture = [&LITTLE[..], &[2, 0, 4, 0], &[0; 8], &[0xff, 0xff, 0, 0]].concat();
    capture.extend_from_slice(&[ETHERNET, 0, 0, 0]);
    let mut number = 0_u32;
    for copy in 1..=COPIES {
        for packet in &packets {
            let mut packet = packet.clone();
            move_hosts(&mut packet, copy);
            let length = u32::try_from(packet.len()).unwrap_or_default();
            let seconds = 1_700_000_000 + number / A_SECOND;
            for field in [seconds, number % A_SECOND * 500, length, length] {
                capture.extend_from_slice(&field.to_le_bytes());
            }
            capture.extend_from_slice(&packet);
            number += 1;
        }
    }
    Ok(capture)
}

/// The next packet of a capture, and its length.
fn record(rest: &[u8]) -> Option<(usize, &[u8])> {
    let length = u32::from_le_bytes(*rest.get(8..12)?.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    Some((length, rest.get(RECORD..RECORD + length)?))
}

/// Changes a byte of both addresses. Neither program verifies checksums.
fn move_hosts(packet: &mut [u8], copy: u8) {
    let places: [usize; 2] = match packet.get(12..14) {
        Some([0x08, 0x00]) => [27, 31],
        Some([0x86, 0xdd]) => [24, 40],
        _ => return,
    };
    for place in places {
        if let Some(byte) = packet.get_mut(place) {
            *byte ^= copy;
        }
    }
}

/// Files of signatures that match nothing but by chance, nine times as many as are built in.
fn signatures(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let count = SignatureSet::built_in().signatures().len() * 9;
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    let mut files = Vec::new();
    for first in (0..count).step_by(IN_FILE) {
        let mut text = String::new();
        for number in first..count.min(first + IN_FILE) {
            let l4 = if number % 2 == 0 { "udp" } else { "tcp" };
            let bytes: String = (0..4 + number % 5)
                .map(|_| format!("{:02x} ", random()))
                .collect();
            writeln!(
                text,
                "[[signature]]\nname = \"made.number{number}\"\napplication = \"made{}\"\nl4 = \"{l4}\"\n\
                 confidence = \"certain\"\n[[signature.pattern]]\nhex = \"{}\"",
                number % 900,
                bytes.trim_end()
            )
            .map_err(Failure::failed)?;
        }
        let file = folder.join(format!("signatures-{first}.toml"));
        std::fs::write(&file, text).map_err(Failure::failed)?;
        files.push(file);
    }
    Ok(files)
}
