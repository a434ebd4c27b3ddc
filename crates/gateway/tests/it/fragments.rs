//! Fragments of IPv4 and IPv6, alone and in tunnels; attacks with them; and checksums.

use std::time::Duration;

use proptest::prelude::*;
use ringway_gateway::limits::{IPV4_REASSEMBLY, IPV6_REASSEMBLY, MAX_FRAGMENT_BYTES};
use ringway_gateway::packet::{
    Checksum, Datagram, DefragmentBounds, Defragmenter, Fragment, FragmentFault, FragmentStep,
    Layer, Skip, decode, decode_layer, replace_payload,
};
use ringway_gateway::{LinkType, Packets, built_in_pipeline};

use crate::cut::{fragments, fragments_at};
use crate::{at, only};

const NOW: Duration = Duration::from_secs(1);

fn udp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let mut packets = Packets::new();
    if v6 {
        packets.udp(at("[2001:db8::1]:1000"), at("[2001:db8::2]:2000"), payload);
    } else {
        packets.udp(at("192.0.2.1:1000"), at("192.0.2.2:2000"), payload);
    }
    may_fragment(packets.iter().next().unwrap().1)
}

fn tcp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let mut packets = Packets::new();
    let (from, to) = if v6 {
        (at("[2001:db8::1]:1000"), at("[2001:db8::2]:2000"))
    } else {
        (at("192.0.2.1:1000"), at("192.0.2.2:2000"))
    };
    packets.tcp(from, to).client(payload);
    may_fragment(packets.iter().next().unwrap().1)
}

/// Without the flag that forbids fragments.
fn may_fragment(packet: &[u8]) -> Vec<u8> {
    if packet[0] >> 4 == 6 {
        packet.to_vec()
    } else {
        fragments(packet, 65_528).remove(0)
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count)
        .map(|place| u8::try_from(place % 251).unwrap())
        .collect()
}

fn fragment(packet: &[u8]) -> Fragment<'_> {
    match decode_layer(LinkType::RawIp, packet) {
        Ok(Layer::Fragment(fragment)) => fragment,
        other => panic!("{other:?}"),
    }
}

fn join(defragmenter: &mut Defragmenter, parts: &[Vec<u8>]) -> Vec<FragmentStep> {
    parts
        .iter()
        .map(|part| defragmenter.handle_fragment(NOW, &fragment(part)))
        .collect()
}

fn fresh() -> Defragmenter {
    Defragmenter::new(DefragmentBounds::default())
}

fn all(defragmenter: &mut Defragmenter) -> Vec<Datagram> {
    std::iter::from_fn(|| defragmenter.poll_datagram()).collect()
}

#[test]
fn any_order_rebuilds_the_packet() {
    for v6 in [false, true] {
        let whole = udp(v6, &bytes(100));
        for size in [8, 16, 40, 104] {
            for turn in 0..6 {
                let mut parts = fragments(&whole, size);
                let count = parts.len();
                parts.rotate_left(turn % count);
                if turn % 2 == 1 {
                    parts.reverse();
                }
                let mut defragmenter = fresh();
                let steps = join(&mut defragmenter, &parts);
                let (last, others) = steps.split_last().unwrap();
                assert_eq!(*last, FragmentStep::Complete, "{v6} {size} {turn}");
                assert!(others.iter().all(|step| *step == FragmentStep::Kept));
                let datagrams = all(&mut defragmenter);
                assert_eq!(datagrams.len(), 1);
                assert!(datagrams[0].complete && !datagrams[0].overlapped);
                assert_eq!(datagrams[0].bytes, whole, "{v6} {size} {turn}");
                assert!(defragmenter.is_empty() && defragmenter.held() == 0);
                assert_eq!(defragmenter.poll_timeout(), None);
                let packet = decode(LinkType::RawIp, &datagrams[0].bytes).unwrap();
                assert_eq!(packet.checksum(), Checksum::Good);
            }
        }
    }
}

#[test]
fn extension_headers_before_the_fragment_header_stay() {
    // Destination options; authentication, whose length counts otherwise.
    for (kind, extension) in [
        (60, &[17, 0, 1, 4, 0, 0, 0, 0][..]),
        (
            51,
            &[
                17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
            ],
        ),
    ] {
        let mut whole = udp(true, &bytes(50));
        let length = u16::try_from(whole.len() - 40 + extension.len()).unwrap();
        whole[4..6].copy_from_slice(&length.to_be_bytes());
        whole[6] = kind;
        whole.splice(40..40, extension.iter().copied());
        let mut defragmenter = fresh();
        join(
            &mut defragmenter,
            &fragments_at(&whole, 40 + extension.len(), 24),
        );
        assert_eq!(all(&mut defragmenter)[0].bytes, whole);
    }
}

#[test]
fn partly_captured_fragment_is_not_joined() {
    let parts = fragments(&udp(false, &bytes(60)), 32);
    let cut = |part: &[u8]| {
        let layer = decode_layer(LinkType::RawIp, &part[..part.len() - 1]);
        layer.map(|layer| matches!(layer, Layer::Packet(packet) if packet.truncated))
    };
    assert_eq!(cut(&parts[0]), Ok(true));
    assert_eq!(cut(&parts[1]), Err(Skip::LaterFragment));
}

#[test]
fn excess_datagram_evicts_the_oldest() {
    let mut defragmenter = Defragmenter::new(DefragmentBounds {
        datagrams: 2,
        ..DefragmentBounds::default()
    });
    let first = fragments(&udp(false, &bytes(60)), 32).swap_remove(0);
    for number in 1..=3 {
        let mut part = first.clone();
        part[5] = number;
        // Another protocol, another datagram of the same number.
        for protocol in if number == 1 { &[17][..] } else { &[17, 6] } {
            part[9] = *protocol;
            assert_eq!(
                join(&mut defragmenter, std::slice::from_ref(&part)),
                [FragmentStep::Kept]
            );
        }
    }
    let given_up: Vec<(u8, u8)> = all(&mut defragmenter)
        .iter()
        .map(|datagram| (datagram.bytes[5], datagram.bytes[9]))
        .collect();
    assert_eq!(given_up, [(1, 17), (2, 17), (2, 6)]);
}

#[test]
fn repeated_and_interleaved_fragments_join_correctly() {
    for v6 in [false, true] {
        let (one, two) = (udp(v6, &bytes(40)), udp(v6, &[7; 40]));
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (first, mut second) in fragments(&one, 16).into_iter().zip(fragments(&two, 16)) {
            // Another identification.
            second[if v6 { 47 } else { 5 }] ^= 0x55;
            parts.extend([first.clone(), first, second]);
        }
        let mut defragmenter = fresh();
        let steps = join(&mut defragmenter, &parts[..4]);
        assert_eq!(steps[1], FragmentStep::Repeated);
        join(&mut defragmenter, &parts[4..]);
        let datagrams = all(&mut defragmenter);
        let payload = |datagram: &Datagram| {
            decode(LinkType::RawIp, &datagram.bytes)
                .unwrap()
                .payload
                .to_vec()
        };
        assert_eq!(
            datagrams.iter().map(payload).collect::<Vec<_>>(),
            [bytes(40), vec![7; 40]]
        );
    }
}

#[test]
fn ipv4_overlap_keeps_the_first_copy() {
    let whole = udp(false, &bytes(40));
    let mut parts = fragments(&whole, 16);
    let mut other = parts[1].clone();
    other[20..].fill(0xee);
    // The other copy has new bytes too: it reaches over the third fragment.
    other.extend([0xee; 8]);
    let length = u16::try_from(other.len()).unwrap().to_be_bytes();
    other[2..4].copy_from_slice(&length);
    parts.insert(2, other);
    let mut defragmenter = fresh();
    let steps = join(&mut defragmenter, &parts);
    assert_eq!(steps[2], FragmentStep::Overlap);
    assert_eq!(
        steps[3],
        FragmentStep::Complete,
        "though half of it came before"
    );
    let datagram = defragmenter.poll_datagram().unwrap();
    assert!(datagram.complete && datagram.overlapped);
    let mut expected = whole;
    expected[20 + 32..20 + 40].fill(0xee);
    assert_eq!(datagram.bytes, expected);
}

/// What follows of it is refused, too.
#[test]
fn ipv6_overlap_refuses_the_datagram() {
    let whole = udp(true, &bytes(40));
    let parts = fragments(&whole, 16);
    let mut other = parts[1].clone();
    other[60] ^= 1;
    let order = [&parts[0], &parts[1], &other, &parts[2]].map(Clone::clone);
    let mut defragmenter = fresh();
    let steps = join(&mut defragmenter, &order);
    assert_eq!(steps[2], FragmentStep::Refused(FragmentFault::Overlap));
    assert_eq!(steps[3], FragmentStep::Refused(FragmentFault::Earlier));
    assert_eq!(all(&mut defragmenter), []);
    defragmenter.handle_timeout(NOW + IPV6_REASSEMBLY);
    assert_eq!(
        all(&mut defragmenter),
        [],
        "a refused datagram is not delivered cut either"
    );
    assert_eq!(
        join(&mut defragmenter, &parts).last(),
        Some(&FragmentStep::Complete)
    );
}

#[test]
fn a_tiny_first_fragment_hides_no_header() {
    // RFC 1858: the first fragment ends within the TCP header; a later one would rewrite its flags.
    let whole = tcp(false, b"GNUTELLA CONNECT/0.6\r\n\r\n");
    let mut parts = fragments(&whole, 8);
    assert_eq!(
        decode(LinkType::RawIp, &parts[0]),
        Err(Skip::TruncatedTransport)
    );
    let mut rewriting = parts[1].clone();
    rewriting[20..].fill(0xff);
    parts.insert(2, rewriting);
    let mut defragmenter = fresh();
    let steps = join(&mut defragmenter, &parts);
    assert_eq!(steps[2], FragmentStep::Overlap);
    let datagram = defragmenter.poll_datagram().unwrap();
    assert!(datagram.overlapped);
    assert_eq!(datagram.bytes, whole);
}

#[test]
fn contradictions_refuse_the_datagram() {
    let whole = udp(false, &bytes(60));
    let parts = fragments(&whole, 24);
    let with = |part: usize, offset: u16, more: bool| {
        let mut packet = parts[part].clone();
        let field = (offset / 8) | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        packet
    };
    let shape = FragmentStep::Refused(FragmentFault::Shape);
    let end = FragmentStep::Refused(FragmentFault::OtherEnd);
    for (order, expected) in [
        (
            vec![with(0, 0, true), with(2, 65_528, false)],
            FragmentStep::Refused(FragmentFault::TooLong),
        ),
        (vec![with(2, 48, true)], shape),
        (vec![with(2, 48, false), with(2, 24, false)], end),
        (vec![with(2, 48, false), with(1, 72, true)], end),
        (vec![with(1, 72, true), with(2, 48, false)], end),
    ] {
        let mut defragmenter = fresh();
        assert_eq!(join(&mut defragmenter, &order).last(), Some(&expected));
        let rest = join(&mut defragmenter, &parts);
        let refused = rest
            .iter()
            .all(|step| *step == FragmentStep::Refused(FragmentFault::Earlier));
        assert_eq!(refused, expected != shape, "{expected:?}: {rest:?}");
    }
}

#[test]
fn largest_datagram_is_joined_and_longer_one_refused() {
    for (v6, header, room) in [(false, 20, 0), (true, 40, 40)] {
        let whole = udp(v6, &bytes(65_535 + room - header - 8));
        let mut defragmenter = fresh();
        join(&mut defragmenter, &fragments(&whole, 1_400));
        assert_eq!(all(&mut defragmenter)[0].bytes.len(), 65_535 + room);
        let mut longer = fragments(&whole, 1_400).pop().unwrap();
        longer.push(0);
        let place = if v6 { 4 } else { 2 };
        let length = u16::from_be_bytes([longer[place], longer[place + 1]]) + 1;
        longer[place..place + 2].copy_from_slice(&length.to_be_bytes());
        let step = defragmenter.handle_fragment(NOW, &fragment(&longer));
        assert_eq!(step, FragmentStep::Refused(FragmentFault::TooLong));
    }
}

#[test]
fn incomplete_datagram_times_out_as_truncated() {
    for (v6, time) in [(false, IPV4_REASSEMBLY), (true, IPV6_REASSEMBLY)] {
        let whole = udp(v6, &bytes(100));
        let parts = fragments(&whole, 32);
        let mut defragmenter = fresh();
        join(
            &mut defragmenter,
            &[parts[0].clone(), parts[1].clone(), parts[3].clone()],
        );
        assert_eq!(defragmenter.poll_timeout(), Some(NOW + time));
        defragmenter.handle_timeout(NOW + time - Duration::from_nanos(1));
        assert_eq!(defragmenter.poll_datagram(), None);
        defragmenter.handle_timeout(NOW + time);
        let datagram = defragmenter.poll_datagram().unwrap();
        assert_eq!((datagram.complete, datagram.fragments), (false, 3));
        let packet = decode(LinkType::RawIp, &datagram.bytes).unwrap();
        assert!(packet.truncated);
        assert_eq!(packet.payload, &bytes(100)[..64 - 8]);
        assert_eq!(packet.checksum(), Checksum::NotVerifiable);
        join(&mut defragmenter, &parts[1..]);
        defragmenter.finish();
        let headless = defragmenter.poll_datagram().unwrap();
        assert_eq!((headless.bytes.len(), headless.fragments), (0, 3));
    }
}

#[test]
fn memory_is_bounded_under_a_flood_of_fragments() {
    let bounds = DefragmentBounds::default();
    let mut defragmenter = fresh();
    let whole = udp(false, &bytes(4_000));
    let part = fragments(&whole, 1_400).swap_remove(1);
    for number in 0..20_000_u16 {
        let mut part = part.clone();
        part[4..6].copy_from_slice(&number.to_be_bytes());
        let _kept = defragmenter.handle_fragment(NOW, &fragment(&part));
        assert!(defragmenter.held() <= bounds.bytes);
        let given_up = all(&mut defragmenter);
        assert!(given_up.len() <= 2);
    }
    assert!(defragmenter.held() <= MAX_FRAGMENT_BYTES);
    // A datagram that comes amid the flood is still joined.
    let steps = join(
        &mut defragmenter,
        &fragments(&udp(true, &bytes(4_000)), 1_280),
    );
    assert_eq!(steps.last(), Some(&FragmentStep::Complete));
}

#[test]
fn too_many_fragments_refuse_the_datagram() {
    let whole = udp(false, &bytes(4_000));
    let mut defragmenter = fresh();
    let steps = join(&mut defragmenter, &fragments(&whole, 8));
    assert_eq!(steps[127], FragmentStep::Kept);
    assert_eq!(steps[128], FragmentStep::Refused(FragmentFault::TooMany));
    assert_eq!(all(&mut defragmenter), []);
}

#[test]
fn pipeline_joins_and_counts_tunnelled_fragments() {
    let search = b"BT-SEARCH * HTTP/1.1\r\nHost: 239.192.152.143:6771\r\nPort: 51413\r\nInfohash: 0123456789ABCDEF0123456789ABCDEF01234567\r\n\r\n\r\n";
    let whole = udp(false, search);
    let mut tunnelled = Vec::new();
    for part in fragments(&whole, 40) {
        let mut outer = vec![
            0x45,
            0,
            0,
            0,
            9,
            u8::try_from(tunnelled.len()).unwrap(),
            0,
            0,
            64,
            4,
            0,
            0,
            1,
            1,
            1,
            1,
            2,
            2,
            2,
            2,
        ];
        let length = u16::try_from(outer.len() + part.len()).unwrap();
        outer[2..4].copy_from_slice(&length.to_be_bytes());
        outer.extend(part);
        tunnelled.push(outer);
    }
    let nested: Vec<Vec<u8>> = tunnelled
        .iter()
        .flat_map(|outer| fragments(outer, 24))
        .collect();
    for parts in [fragments(&whole, 24), tunnelled, nested] {
        let mut packets = Packets::new();
        for part in &parts {
            packets.push(part.clone());
        }
        let flow = only(&packets);
        assert_eq!((flow.app.as_str(), flow.packets), ("bittorrent", 1));
        assert_eq!(flow.bytes, u64::try_from(whole.len()).unwrap());
        let mut pipeline = built_in_pipeline();
        for (now, bytes) in packets.iter() {
            pipeline.handle_packet(now, LinkType::RawIp, bytes);
        }
        let counters = pipeline.counters();
        assert_eq!(counters.in_flows, 1);
        assert!(counters.fragments >= u64::try_from(parts.len()).unwrap());
        assert!(counters.reassembled >= 1);
        assert_eq!(counters.skips().count(), 0, "{counters}");
    }
}

/// Later ones alone are counted.
#[test]
fn lone_first_fragment_is_classified() {
    let whole = tcp(
        false,
        &[b"\x13BitTorrent protocol".as_slice(), &[0; 48]].concat(),
    );
    let parts = fragments(&whole, 64);
    let mut packets = Packets::new();
    packets.push(parts[0].clone());
    let flow = only(&packets);
    assert_eq!((flow.app.as_str(), flow.packets), ("bittorrent", 1));
    let mut pipeline = built_in_pipeline();
    pipeline.handle_packet(NOW, LinkType::RawIp, &parts[0]);
    pipeline.handle_packet(NOW + IPV4_REASSEMBLY, LinkType::RawIp, &[]);
    assert_eq!(pipeline.live_flows(), 1, "at its time, not only at the end");
    let mut pipeline = built_in_pipeline();
    pipeline.handle_packet(NOW, LinkType::RawIp, &parts[1]);
    pipeline.finish();
    assert_eq!(pipeline.counters().skipped(Skip::LaterFragment), 1);
}

#[test]
fn every_changed_bit_is_a_wrong_checksum() {
    for v6 in [false, true] {
        for packet in [udp(v6, b"odd payload"), tcp(v6, b"payload.")] {
            let sum =
                |packet: &[u8]| decode(LinkType::RawIp, packet).map(|packet| packet.checksum());
            assert_eq!(sum(&packet), Ok(Checksum::Good));
            let from = if v6 { 40 } else { 20 };
            for place in from..packet.len() {
                let mut changed = packet.clone();
                changed[place] ^= 0x10;
                // Lengths and offsets that contradict the rest are told otherwise.
                assert_ne!(sum(&changed), Ok(Checksum::Good), "{place}");
            }
            for place in if v6 { 8..40 } else { 8..20 } {
                if place == 9 && !v6 {
                    continue;
                }
                let mut changed = packet.clone();
                changed[place] ^= 1;
                assert_eq!(sum(&changed), Ok(Checksum::Bad), "{place}");
            }
            assert_eq!(
                sum(&packet[..packet.len() - 1]),
                Ok(Checksum::NotVerifiable)
            );
        }
    }
}

#[test]
fn udp_may_go_without_a_checksum() {
    // Over IPv6 it is for the receiver to say (RFC 6936).
    for (v6, place, expected) in [
        (false, 26, Checksum::Good),
        (true, 46, Checksum::NotVerifiable),
    ] {
        let mut packet = udp(v6, b"payload");
        packet[place..place + 2].fill(0);
        assert_eq!(
            decode(LinkType::RawIp, &packet).unwrap().checksum(),
            expected
        );
    }
}

#[test]
fn source_routes_are_not_verified() {
    let mut v6 = udp(true, b"payload");
    let length = u16::try_from(v6.len() - 40 + 24).unwrap();
    v6[4..6].copy_from_slice(&length.to_be_bytes());
    v6[6] = 43;
    let mut routing = [0; 24];
    routing[..4].copy_from_slice(&[17, 2, 0, 1]);
    v6.splice(40..40, routing);
    let sum = |packet: &[u8]| decode(LinkType::RawIp, packet).unwrap().checksum();
    assert_eq!(sum(&v6), Checksum::NotVerifiable);
    v6[43] = 0;
    assert_eq!(sum(&v6), Checksum::Good, "no segments left");
    for (kind, expected) in [
        (131, Checksum::NotVerifiable),
        (137, Checksum::NotVerifiable),
        (68, Checksum::Good),
    ] {
        let mut v4 = udp(false, b"payload");
        v4.splice(20..20, [1, 7, 3, 4, kind, 3, 4, 0]);
        v4[0] = 0x47;
        let length = u16::try_from(v4.len()).unwrap();
        v4[2..4].copy_from_slice(&length.to_be_bytes());
        // Its header is right again when the datagram comes out of fragments.
        let whole = joined_of_two(&v4);
        assert_eq!(sum(&whole), expected, "option {kind}");
    }
}

/// The datagram after it was in two fragments; the header's checksum is filled in by that.
fn joined_of_two(packet: &[u8]) -> Vec<u8> {
    let mut defragmenter = fresh();
    join(&mut defragmenter, &fragments_at(packet, 28, 8));
    all(&mut defragmenter).remove(0).bytes
}

#[test]
fn a_replaced_payload_has_a_right_checksum() {
    for v6 in [false, true] {
        for mut packet in [udp(v6, b"odd payload"), tcp(v6, b"odd payload")] {
            let framed = ringway_gateway::samples::frame(LinkType::Ethernet, &packet);
            for (link, bytes) in [
                (LinkType::RawIp, &mut packet),
                (LinkType::Ethernet, &mut framed.clone()),
            ] {
                assert!(!replace_payload(link, bytes, b"another length"));
                assert!(replace_payload(link, bytes, b"new payload"));
                let changed = decode(link, bytes).unwrap();
                assert_eq!(
                    (changed.payload, changed.checksum()),
                    (&b"new payload"[..], Checksum::Good)
                );
            }
        }
    }
}

#[test]
fn wrong_checksum_is_skipped_when_verifying() {
    let mut packet = tcp(false, b"\x13BitTorrent protocol");
    *packet.last_mut().unwrap() ^= 1;
    for (verify, flows) in [(true, 0), (false, 1)] {
        let mut pipeline = built_in_pipeline();
        if verify {
            pipeline = pipeline.verifying_checksums();
        }
        pipeline.handle_packet(NOW, LinkType::RawIp, &packet);
        assert_eq!(pipeline.live_flows(), flows);
        let skipped = pipeline.counters().skipped(Skip::BadChecksum);
        assert_eq!(skipped, u64::from(verify));
    }
}

proptest! {
    /// Any fragments of a few datagrams, with offsets and lengths at will: bounds hold, and a whole
    /// one has all bytes.
    #[test]
    fn any_fragments_are_answered(
        parts in prop::collection::vec((0_u16..4, 0_u16..20, 0_usize..40, any::<bool>(), any::<u8>(), any::<bool>(), 0_u64..40), 0..120),
    ) {
        let bounds = DefragmentBounds { bytes: 3_000, datagrams: 3, fragments: 6, ..DefragmentBounds::default() };
        let mut defragmenter = Defragmenter::new(bounds);
        let mut now = NOW;
        for (number, offset, length, more, fill, v6, wait) in parts {
            now += Duration::from_secs(wait / 8);
            let payload = vec![fill; length];
            let fragment = Fragment {
                source: at(if v6 { "[2001:db8::1]:1" } else { "192.0.2.1:1" }).ip(),
                destination: at(if v6 { "[2001:db8::2]:1" } else { "192.0.2.2:1" }).ip(),
                identification: number.into(),
                protocol: 17,
                offset: offset * 8,
                more,
                head: if v6 { &[0x60; 40] } else { &[0x45; 20] },
                announced_at: 6,
                payload: &payload,
            };
            let _any = defragmenter.handle_fragment(now, &fragment);
            defragmenter.handle_timeout(now);
            prop_assert!(defragmenter.held() <= bounds.bytes);
            while let Some(datagram) = defragmenter.poll_datagram() {
                prop_assert!(datagram.fragments <= 6);
                prop_assert!(datagram.bytes.len() <= 48 + 20 * 8 + 40);
            }
        }
        defragmenter.finish();
        prop_assert_eq!(defragmenter.held(), 0);
    }
}
