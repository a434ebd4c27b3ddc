//! Cuts IP packets into fragments.

/// Fragments of `size` bytes each, a multiple of 8.
pub(crate) fn fragments(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let header = if packet[0] >> 4 == 6 { 40 } else { 20 };
    fragments_at(packet, header, size)
}

/// The same behind `header` bytes of headers that each fragment carries.
pub(crate) fn fragments_at(packet: &[u8], header: usize, size: usize) -> Vec<Vec<u8>> {
    assert_eq!(size % 8, 0);
    let (head, body) = packet.split_at(header);
    let parts = body.chunks(size).enumerate();
    parts
        .map(|(number, part)| {
            let more = (number + 1) * size < body.len();
            let offset = u16::try_from(number * size).unwrap();
            if head[0] >> 4 == 6 {
                ipv6(head, part, offset, more)
            } else {
                ipv4(head, part, offset, more)
            }
        })
        .collect()
}

fn ipv4(head: &[u8], part: &[u8], offset: u16, more: bool) -> Vec<u8> {
    let mut packet = [head, part].concat();
    let length = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let field = (offset / 8) | if more { 0x2000 } else { 0 };
    packet[6..8].copy_from_slice(&field.to_be_bytes());
    packet[10..12].fill(0);
    let sum: u32 = packet[..head.len()]
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

fn ipv6(head: &[u8], part: &[u8], offset: u16, more: bool) -> Vec<u8> {
    let mut head = head.to_vec();
    // The last header's number stands in the fixed header, or at the beginning of the one
    // extension.
    let place = if head.len() == 40 { 6 } else { 40 };
    let next = std::mem::replace(&mut head[place], 44);
    let length = u16::try_from(head.len() - 40 + 8 + part.len()).unwrap();
    head[4..6].copy_from_slice(&length.to_be_bytes());
    let [high, low] = (offset | u16::from(more)).to_be_bytes();
    [
        head.as_slice(),
        &[next, 0, high, low, 0, 0, 0x12, 0x34],
        part,
    ]
    .concat()
}
