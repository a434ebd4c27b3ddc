//! Capture files: both formats, both byte orders, and every way of being broken.

use std::io::Read;
use std::time::Duration;

use ringway_gateway::{
    CaptureError, CaptureReader, LinkType, Packets, classify_file, classify_reader,
};

use crate::pair;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

fn packets() -> Packets {
    let (client, server) = pair();
    let mut packets = Packets::starting_at(Duration::from_millis(1_500));
    packets.udp(client, server, b"one");
    packets.udp(server, client, b"three");
    packets
}

fn word(big: bool, value: u32) -> [u8; 4] {
    if big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

fn half(big: bool, value: u16) -> [u8; 2] {
    if big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

fn pcap(big: bool, magic: u32, link: u32) -> Vec<u8> {
    let mut file = word(big, magic).to_vec();
    file.extend([half(big, 2), half(big, 4)].concat());
    for value in [0, 0, 65_535, link] {
        file.extend(word(big, value));
    }
    for (now, bytes) in packets().iter() {
        let length = u32::try_from(bytes.len()).unwrap();
        let part = if magic == NANOSECONDS {
            now.subsec_nanos()
        } else {
            now.subsec_micros()
        };
        for value in [u32::try_from(now.as_secs()).unwrap(), part, length, length] {
            file.extend(word(big, value));
        }
        file.extend(bytes);
    }
    file
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let length = word(big, u32::try_from(body.len() + padding.len() + 12).unwrap());
    [&word(big, kind), &length, body, &padding, &length].concat()
}

fn section(big: bool) -> Vec<u8> {
    block(
        big,
        0x0a0d_0d0a,
        &[
            &word(big, 0x1a2b_3c4d)[..],
            &half(big, 1),
            &half(big, 0),
            &[0xff; 8],
        ]
        .concat(),
    )
}

/// An interface; `resolution` is the value of `if_tsresol`.
fn interface(big: bool, link: u16, resolution: u8) -> Vec<u8> {
    let option = [
        &half(big, 9)[..],
        &half(big, 1),
        &[resolution, 0, 0, 0],
        &[0; 4],
    ]
    .concat();
    block(
        big,
        1,
        &[&half(big, link)[..], &[0, 0], &word(big, 0), &option].concat(),
    )
}

fn enhanced(big: bool, interface: u32, ticks: u64, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    let high = u32::try_from(ticks >> 32).unwrap();
    let low = u32::try_from(ticks & 0xffff_ffff).unwrap();
    let head = [interface, high, low, length, length]
        .map(|value| word(big, value))
        .concat();
    block(big, 6, &[head.as_slice(), bytes].concat())
}

/// Times and lengths of all packets, and the error that ended them.
fn read(input: impl Read) -> (Vec<(Duration, usize)>, Option<CaptureError>) {
    let mut found = Vec::new();
    let mut reader = match CaptureReader::new("test.pcap", input) {
        Ok(reader) => reader,
        Err(error) => return (found, Some(error)),
    };
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => found.push((packet.timestamp, packet.bytes.len())),
            Ok(None) => return (found, None),
            Err(error) => {
                assert!(
                    reader.next_packet().unwrap().is_none(),
                    "after an error there is nothing more"
                );
                return (found, Some(error));
            }
        }
    }
}

fn expected() -> Vec<(Duration, usize)> {
    packets()
        .iter()
        .map(|(now, bytes)| (now, bytes.len()))
        .collect()
}

/// Gives one byte at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        let [first, rest @ ..] = self.0 else {
            return Ok(0);
        };
        space[0] = *first;
        self.0 = rest;
        Ok(1)
    }
}

#[test]
fn either_pcap_byte_order_and_resolution_is_read() {
    for big in [false, true] {
        for magic in [MICROSECONDS, NANOSECONDS] {
            let file = pcap(big, magic, 101);
            let (found, error) = read(Trickle(&file));
            assert!(error.is_none(), "{error:?}");
            assert_eq!(found, expected());
        }
    }
}

#[test]
fn pcapng_sections_interfaces_and_resolutions_are_kept_apart() {
    let bytes: Vec<Vec<u8>> = packets().iter().map(|(_, bytes)| bytes.to_vec()).collect();
    let mut file = Vec::new();
    for big in [false, true] {
        file.extend(section(big));
        file.extend(interface(big, 1, 6));
        file.extend(interface(big, 101, 9));
        file.extend(interface(big, 101, 0x80 | 10));
        file.extend(block(big, 5, &[0; 12]));
        file.extend(enhanced(big, 1, 1_500_000_000, &bytes[0]));
        file.extend(enhanced(big, 2, 1_024 + 512, &bytes[1]));
    }
    let (found, error) = read(Trickle(&file));
    assert!(error.is_none(), "{error:?}");
    let each = [
        (Duration::from_millis(1_500), bytes[0].len()),
        (Duration::from_millis(1_500), bytes[1].len()),
    ];
    assert_eq!(found, [each, each].concat());
}

#[test]
fn interface_offset_is_added_in_either_byte_order() {
    let bytes = packets().iter().next().unwrap().1.to_vec();
    for big in [false, true] {
        let seconds = if big {
            100_i64.to_be_bytes()
        } else {
            100_i64.to_le_bytes()
        };
        let option = [&half(big, 14)[..], &half(big, 8), &seconds, &[0; 4]].concat();
        let interface = block(
            big,
            1,
            &[&half(big, 101)[..], &[0, 0], &word(big, 0), &option].concat(),
        );
        let file = [section(big), interface, enhanced(big, 0, 2_000_000, &bytes)].concat();
        assert_eq!(
            read(file.as_slice()).0,
            [(Duration::from_secs(102), bytes.len())]
        );
    }
}

#[test]
fn simple_and_obsolete_packet_blocks_are_read() {
    let bytes = packets().iter().next().unwrap().1.to_vec();
    let length = word(false, u32::try_from(bytes.len()).unwrap());
    let simple = block(false, 3, &[&length[..], &bytes].concat());
    let head = [
        &[0, 0, 0, 0][..],
        &word(false, 0),
        &word(false, 3_000_000),
        &length,
        &length,
    ]
    .concat();
    let obsolete = block(false, 2, &[head.as_slice(), &bytes].concat());
    let file = [section(false), interface(false, 101, 6), obsolete, simple].concat();
    let (found, error) = read(file.as_slice());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(found, [(Duration::from_secs(3), bytes.len()); 2]);
}

#[test]
fn cut_capture_delivers_whole_packets_and_names_offset() {
    let classic = pcap(false, MICROSECONDS, 101);
    let next = {
        let mut file = [section(true), interface(true, 101, 6)].concat();
        for (now, bytes) in packets().iter() {
            file.extend(enhanced(
                true,
                0,
                u64::try_from(now.as_micros()).unwrap(),
                bytes,
            ));
        }
        file
    };
    let sizes: Vec<usize> = packets().iter().map(|(_, bytes)| bytes.len()).collect();
    let classic_ends = [24, 24 + 16 + sizes[0], classic.len()];
    let padded = |size: usize| 32 + size.next_multiple_of(4);
    let next_start = next.len() - padded(sizes[0]) - padded(sizes[1]);
    let next_ends = [28, next_start, next_start + padded(sizes[0]), next.len()];
    for (file, ends) in [
        (&classic, classic_ends.as_slice()),
        (&next, next_ends.as_slice()),
    ] {
        for cut in 4..file.len() {
            let (found, error) = read(&file[..cut]);
            if ends.contains(&cut) {
                assert!(error.is_none(), "cut at {cut}: {error:?}");
                continue;
            }
            let Some(CaptureError::Damaged { name, offset, what }) = error else {
                panic!("cut at {cut}: {error:?}")
            };
            let begun = ends
                .iter()
                .rev()
                .find(|&&end| end < cut)
                .copied()
                .unwrap_or(0);
            assert_eq!(
                (name.as_str(), offset),
                ("test.pcap", u64::try_from(begun).unwrap()),
                "cut at {cut}: {what}"
            );
            assert!(found.len() <= 2 && expected().starts_with(&found));
        }
    }
}

#[test]
fn absurd_lengths_are_damage_and_cost_no_memory() {
    let mut file = pcap(false, MICROSECONDS, 101);
    let start = 24 + 16 + packets().iter().next().unwrap().1.len();
    file[start + 8..start + 12].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let (found, error) = read(file.as_slice());
    assert_eq!(found.len(), 1);
    let text = error.unwrap().to_string();
    assert!(
        text.contains("4294967280") && text.contains(&format!("byte {start}")),
        "{text}"
    );

    for length in [0_u32, 8, 13, 0xffff_fffc] {
        let mut file = [section(false), interface(false, 101, 6)].concat();
        file.extend([6_u32.to_le_bytes(), length.to_le_bytes(), [0; 4]].concat());
        assert!(
            matches!(read(file.as_slice()).1, Some(CaptureError::Damaged { .. })),
            "{length}"
        );
    }
}

#[test]
fn blocks_that_contradict_themselves_are_damage() {
    let bytes = packets().iter().next().unwrap().1.to_vec();
    let start = [section(false), interface(false, 101, 6)].concat();
    let good = enhanced(false, 0, 0, &bytes);
    let unknown_interface = enhanced(false, 7, 0, &bytes);
    let mut other_length = good.clone();
    *other_length.last_mut().unwrap() = 9;
    let mut too_much = good.clone();
    too_much[20..24].copy_from_slice(&5_000_u32.to_le_bytes());
    for (bad, word) in [
        (unknown_interface, "interface 7"),
        (other_length, "lengths"),
        (too_much, "decoded"),
    ] {
        let (found, error) = read([start.clone(), good.clone(), bad].concat().as_slice());
        let text = error.unwrap().to_string();
        assert_eq!(found.len(), 1);
        assert!(
            text.contains(word) && text.contains(&format!("byte {}", start.len() + good.len())),
            "{text}"
        );
    }
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let cases: [(&[u8], &str); 5] = [
        (b"", "it is empty"),
        (b"hello world, this is text", "68 65 6c 6c"),
        (&[0x1f, 0x8b, 8, 0], "gunzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "unzstd"),
        (&[0xd4, 0xc3], "no capture"),
    ];
    for (bytes, word) in cases {
        let text = read(bytes).1.unwrap().to_string();
        assert!(text.contains("test.pcap") && text.contains(word), "{text}");
    }
    let missing = classify_file(std::path::Path::new("/no/such.pcap"), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(missing.contains("/no/such.pcap"), "{missing}");
}

#[test]
fn an_unknown_link_type_is_named() {
    let text = read(pcap(false, MICROSECONDS, 195).as_slice())
        .1
        .unwrap()
        .to_string();
    assert!(text.contains("link type 195"), "{text}");

    let bytes = packets().iter().next().unwrap().1.to_vec();
    let parts = [
        interface(false, 195, 6),
        interface(false, 101, 6),
        enhanced(false, 0, 0, &bytes),
    ];
    let file = [
        section(false),
        parts.concat(),
        enhanced(false, 1, 0, &bytes),
    ]
    .concat();
    let (found, error) = read(file.as_slice());
    assert_eq!(
        found.len(),
        1,
        "packets of the known interface are delivered"
    );
    let text = error.unwrap().to_string();
    assert!(
        text.contains("link type 195") && text.contains("1 packets"),
        "{text}"
    );
}

#[test]
fn flows_before_the_damage_are_delivered() {
    let file = pcap(false, MICROSECONDS, 101);
    let mut flows = Vec::new();
    let cut = &file[..file.len() - 1];
    let interrupted = classify_reader("cut.pcap", cut, &mut |flow| flows.push(flow)).unwrap_err();
    assert_eq!(flows.len(), 1);
    assert_eq!((interrupted.summary.flows, flows[0].packets), (1, 1));
    assert_eq!(flows[0].file.as_deref(), Some("cut.pcap"));
    assert!(matches!(interrupted.error, CaptureError::Damaged { .. }));
}

#[test]
fn stream_beyond_the_buffer_takes_bounded_memory() {
    let (client, server) = pair();
    let mut packets = Packets::new();
    for _ in 0..2_000 {
        packets.udp(client, server, &[7; 1_000]);
    }
    let file = packets.to_pcap(LinkType::Ethernet);
    assert!(file.len() > 4 * ringway_gateway::limits::READ_CHUNK);
    let (found, error) = read(file.as_slice());
    assert!(error.is_none());
    assert_eq!(found.len(), 2_000);
}
