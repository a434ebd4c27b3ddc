//! Tunnels over UDP, found by the port that was called and by a header that fits.
//!
//! Only captures are read through them. At a border the kernel's verdict is on the whole tunnel,
//! and one flow inside must not decide on all others.

use super::Packet;
use super::link;
use crate::reader::Reader;

/// The IP packet within a datagram, if that is a tunnel's. What it carries has still to be decoded:
/// where that fails it was no tunnel.
pub(super) fn inside<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    if packet.tcp.is_some() {
        return None;
    }
    let reader = Reader::new(packet.payload);
    match packet.destination.port() {
        // The second is what Linux used before there was a registered one.
        4_789 | 8_472 => vxlan(reader),
        6_081 => geneve(reader),
        2_152 => gtp_u(reader),
        5_247 => capwap(reader),
        _ if packet.destination.port() == TEREDO || packet.source.port() == TEREDO => {
            teredo(reader)
        }
        _ => None,
    }
}

const TEREDO: u16 = 3_544;

/// RFC 7348 §5: a flag that the network's number is there, and the number.
fn vxlan(mut reader: Reader<'_>) -> Option<&[u8]> {
    let [flags, _, _, _, _, _, _, reserved] = reader.array::<8>()?;
    (flags & 0x08 != 0 && reserved == 0).then_some(())?;
    ethernet(reader)
}

/// RFC 8926 §3.4: version and length of options, the inner protocol, the network's number.
fn geneve(mut reader: Reader<'_>) -> Option<&[u8]> {
    let [first, _] = reader.array::<2>()?;
    let protocol = reader.be16()?;
    let [_, _, _, reserved] = reader.array::<4>()?;
    (first >> 6 == 0 && reserved == 0).then_some(())?;
    reader.take(usize::from(first & 0x3f).checked_mul(4)?)?;
    match protocol {
        0x6558 => ethernet(reader),
        protocol => link::by_ether_type(protocol, reader).ok(),
    }
}

/// 3GPP TS 29.281 §5.1: a user's packet is message 255; extension headers may follow the header.
fn gtp_u(mut reader: Reader<'_>) -> Option<&[u8]> {
    let [flags, kind] = reader.array::<2>()?;
    (flags & 0xf0 == 0x30 && kind == 0xff).then_some(())?;
    let length = usize::from(reader.be16()?);
    reader.take(4)?;
    (length <= reader.rest().len()).then_some(())?;
    if flags & 0x07 != 0 {
        let [_, _, _, mut next] = reader.array::<4>()?;
        while flags & 0x04 != 0 && next != 0 {
            // In units of four bytes, this one and the next header's number included.
            let units = usize::from(reader.u8()?);
            let rest = reader.take(units.checked_mul(4)?.checked_sub(1)?)?;
            next = *rest.last()?;
        }
    }
    link::by_version(reader.rest()).ok()
}

/// RFC 4380 §5.1.1: an IPv6 packet, perhaps behind what proves the sender, and where that is.
fn teredo(mut reader: Reader<'_>) -> Option<&[u8]> {
    if reader.rest().starts_with(&[0, 1]) {
        let [_, _, id, value] = reader.array::<4>()?;
        reader.take(usize::from(id).checked_add(value.into())?)?;
        // A nonce and a confirmation.
        reader.take(9)?;
    }
    if reader.rest().starts_with(&[0, 0]) {
        reader.take(8)?;
    }
    let inner = reader.rest();
    inner
        .first()
        .is_some_and(|first| first >> 4 == 6)
        .then_some(inner)
}

/// RFC 5415 §4.3: a header of its own length, then a frame as on Ethernet or as on the air.
fn capwap(mut reader: Reader<'_>) -> Option<&[u8]> {
    let [preamble, length, wireless, flags, ..] = reader.array::<8>()?;
    // Version 0 and not encrypted; all of a packet.
    let fragment = flags & 0x80 != 0;
    let units = usize::from(length >> 3);
    (preamble == 0 && !fragment && units >= 2).then_some(())?;
    reader.take(units.checked_mul(4)?.checked_sub(8)?)?;
    match (wireless & 1, (wireless >> 1) & 0x1f) {
        (0, _) => ethernet(reader),
        // IEEE 802.11.
        (_, 1) => on_the_air(reader),
        _ => None,
    }
}

/// A data frame of IEEE 802.11, with LLC and SNAP behind its header.
fn on_the_air(mut reader: Reader<'_>) -> Option<&[u8]> {
    let control = reader.array::<2>()?;
    // Some controllers swap the two bytes.
    let [kind, flags] = match control {
        [kind, _] if kind & 0x0f == 0x08 => control,
        [flags, kind] if kind & 0x0f == 0x08 => [kind, flags],
        _ => return None,
    };
    let encrypted = flags & 0x40 != 0;
    let mut header = 22_usize;
    if flags & 0x03 == 0x03 {
        header = header.checked_add(6)?;
    }
    if kind & 0x80 != 0 {
        header = header.checked_add(2)?;
    }
    (!encrypted).then_some(())?;
    reader.take(header)?;
    let snap = reader.array::<6>()?;
    (snap == [0xaa, 0xaa, 3, 0, 0, 0]).then_some(())?;
    let ether_type = reader.be16()?;
    link::by_ether_type(ether_type, reader).ok()
}

fn ethernet(mut reader: Reader<'_>) -> Option<&[u8]> {
    reader.take(12)?;
    let ether_type = reader.be16()?;
    link::by_ether_type(ether_type, reader).ok()
}
