//! The first stage with its memory: captured packets to segments and datagrams, fragments joined on
//! the way.

use std::time::Duration;

use super::{
    Checksum, Counters, DefragmentBounds, Defragmenter, Fragment, FragmentStep, Layer, LinkType,
    Packet, Skip, decode, decode_layer, decode_outer, tunnel,
};
use crate::limits::MAX_ENCAPSULATION;

/// Decodes packets and joins fragments.
#[derive(Debug)]
pub(crate) struct Decoder {
    defragmenter: Defragmenter,
    verify_checksums: bool,
    enter_tunnels: bool,
    counters: Counters,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            defragmenter: Defragmenter::new(DefragmentBounds::default()),
            verify_checksums: false,
            enter_tunnels: false,
            counters: Counters::default(),
        }
    }

    /// Passes over packets with a wrong checksum from now on.
    pub(crate) fn verify_checksums(&mut self) {
        self.verify_checksums = true;
    }

    /// Reads what tunnels carry from now on.
    pub(crate) fn enter_tunnels(&mut self) {
        self.enter_tunnels = true;
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Takes in one packet and hands on what it completes: most often itself, seldom nothing or
    /// several. Returns why it takes part in no flow, if that is so.
    pub(crate) fn handle_packet(
        &mut self,
        now: Duration,
        link: LinkType,
        bytes: &[u8],
        take: &mut dyn FnMut(&Packet<'_>),
    ) -> Option<Skip> {
        self.counters.packets = self.counters.packets.saturating_add(1);
        let layer = if self.enter_tunnels {
            decode_layer(link, bytes)
        } else {
            decode_outer(link, bytes)
        };
        let skipped = layer.as_ref().err().copied();
        match layer {
            Ok(Layer::Packet(packet)) => self.hand_on(now, 0, &packet, take),
            Ok(Layer::Fragment(fragment)) => self.handle_fragment(now, &fragment),
            Err(reason) => self.counters.skip(reason),
        }
        if !self.defragmenter.is_empty() {
            self.defragmenter.handle_timeout(now);
            self.handle_datagrams(now, take);
        }
        skipped
    }

    /// Whether the receiver will discard this packet for a wrong checksum; it counts as passed over
    /// then.
    pub(crate) fn is_spoilt(&mut self, link: LinkType, bytes: &[u8]) -> bool {
        let spoilt = decode(link, bytes).is_ok_and(|packet| packet.checksum() == Checksum::Bad);
        if spoilt {
            self.counters.packets = self.counters.packets.saturating_add(1);
            self.counters.skip(Skip::BadChecksum);
        }
        spoilt
    }

    /// Hands on what is left of incomplete datagrams.
    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(&Packet<'_>)) {
        self.defragmenter.finish();
        // The latest time seen stands.
        self.handle_datagrams(Duration::ZERO, take);
    }

    fn handle_fragment(&mut self, now: Duration, fragment: &Fragment<'_>) {
        self.counters.fragments = self.counters.fragments.saturating_add(1);
        if let FragmentStep::Refused(_) = self.defragmenter.handle_fragment(now, fragment) {
            self.counters.skip(Skip::RefusedFragment);
        }
    }

    /// Hands on what became of fragments. Inside a whole datagram there may be a tunnel with a
    /// fragment again; an incomplete one counts as a packet that was cut.
    fn handle_datagrams(&mut self, now: Duration, take: &mut dyn FnMut(&Packet<'_>)) {
        while let Some(datagram) = self.defragmenter.poll_datagram() {
            // Without the first fragment there are no ports, and so no flow.
            if datagram.bytes.is_empty() {
                for _ in 0..datagram.fragments {
                    self.counters.skip(Skip::LaterFragment);
                }
                continue;
            }
            let layer = if datagram.complete {
                self.counters.reassembled = self.counters.reassembled.saturating_add(1);
                decode_layer(LinkType::RawIp, &datagram.bytes)
            } else {
                decode(LinkType::RawIp, &datagram.bytes).map(Layer::Packet)
            };
            match layer {
                Ok(Layer::Packet(packet)) => self.hand_on(now, 0, &packet, take),
                Ok(Layer::Fragment(fragment)) => self.handle_fragment(now, &fragment),
                Err(reason) => self.counters.skip(reason),
            }
        }
    }

    /// Hands on a packet, or what a tunnel carries in it; `depth`: in so many tunnels it was.
    fn hand_on(
        &mut self,
        now: Duration,
        depth: usize,
        packet: &Packet<'_>,
        take: &mut dyn FnMut(&Packet<'_>),
    ) {
        if self.enter_tunnels
            && depth < MAX_ENCAPSULATION
            && let Some(inner) = tunnel::inside(packet)
        {
            match decode_layer(LinkType::RawIp, inner) {
                Ok(Layer::Packet(inner)) => {
                    return self.hand_on(now, depth.saturating_add(1), &inner, take);
                }
                Ok(Layer::Fragment(fragment)) => return self.handle_fragment(now, &fragment),
                // It only looked like one.
                Err(_) => {}
            }
        }
        if self.verify_checksums && packet.checksum() == Checksum::Bad {
            self.counters.skip(Skip::BadChecksum);
            return;
        }
        self.counters.in_flows = self.counters.in_flows.saturating_add(1);
        take(packet);
    }
}
