//! Fragments of IPv4 and IPv6, joined to the datagrams that they were.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use super::checksum::fill_ipv4;
use super::ip::Fragment;
use crate::limits;
use crate::ranges::{Ranges, after};

/// Bounds of a [`Defragmenter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefragmentBounds {
    /// Bytes held; see [`limits::MAX_FRAGMENT_BYTES`].
    pub bytes: usize,
    /// Incomplete datagrams; see [`limits::MAX_DATAGRAMS`].
    pub datagrams: usize,
    /// Fragments of one datagram; see [`limits::MAX_FRAGMENTS`].
    pub fragments: u16,
    /// Time for an IPv4 datagram; see [`limits::IPV4_REASSEMBLY`].
    pub ipv4: Duration,
    /// Time for an IPv6 datagram; see [`limits::IPV6_REASSEMBLY`].
    pub ipv6: Duration,
}

impl Default for DefragmentBounds {
    fn default() -> Self {
        Self {
            bytes: limits::MAX_FRAGMENT_BYTES,
            datagrams: limits::MAX_DATAGRAMS,
            fragments: limits::MAX_FRAGMENTS,
            ipv4: limits::IPV4_REASSEMBLY,
            ipv6: limits::IPV6_REASSEMBLY,
        }
    }
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FragmentStep {
    /// It is kept, and its datagram is not whole yet. It may go on at once: without the last
    /// fragment the receiver can make nothing of it.
    Kept,
    /// Its datagram is whole now: [`Defragmenter::poll_datagram`] has it. This fragment waits for
    /// the verdict on it. If [`Datagram::overlapped`], the joined datagram goes on in its
    /// place: this fragment may have other bytes too.
    Complete,
    /// Nothing new is in it.
    Repeated,
    /// It is kept, but has other bytes than fragments before (IPv4 only). The first copies stay;
    /// this packet must not go on, because the receiver might take its bytes. What it has
    /// besides comes with the joined datagram.
    Overlap,
    /// It is no part of a datagram that a receiver would take, and must not go on.
    Refused(FragmentFault),
}

/// Why a fragment is refused. All but [`Shape`](Self::Shape) refuse the whole datagram with it,
/// also fragments to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FragmentFault {
    /// Without payload, or not the last and not a multiple of 8 bytes long (RFC 8200 §4.5).
    Shape,
    /// The datagram would be longer than an IP packet can be.
    TooLong,
    /// It ends the datagram elsewhere than an earlier one, or reaches past the end.
    OtherEnd,
    /// It overlaps an earlier one, over IPv6 (RFC 5722 §4).
    Overlap,
    /// More fragments than [`DefragmentBounds::fragments`], or no room for them.
    TooMany,
    /// The datagram was refused before.
    Earlier,
}

/// An IP packet made of fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The packet, without link header. When incomplete: the beginning up to the first gap, as one
    /// first fragment; empty if the first fragment is missing.
    pub bytes: Vec<u8>,
    /// All fragments came.
    pub complete: bool,
    /// Some fragments had other bytes at the same position than earlier ones.
    pub overlapped: bool,
    /// Fragments that it was made of; repetitions do not count.
    pub fragments: u16,
}

/// RFC 791 §3.2: datagrams of one number differ by protocol too. RFC 8200 §4.5: not so in IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    protocol: u8,
}

impl Key {
    fn of(fragment: &Fragment<'_>) -> Self {
        Self {
            source: fragment.source,
            destination: fragment.destination,
            identification: fragment.identification,
            protocol: if fragment.source.is_ipv4() {
                fragment.protocol
            } else {
                0
            },
        }
    }
}

/// Of the first fragment: its headers, and the number of what follows them.
#[derive(Debug)]
struct Head {
    bytes: Box<[u8]>,
    announced_at: usize,
    protocol: u8,
}

/// A datagram in the making.
#[derive(Debug)]
struct Partial {
    head: Option<Head>,
    ranges: Ranges,
    have: usize,
    total: Option<usize>,
    fragments: u16,
    overlapped: bool,
    refused: bool,
    /// Its position in the order of time-outs.
    due: (Duration, u64),
}

impl Partial {
    fn cost(&self) -> usize {
        self.ranges.held().saturating_add(limits::DATAGRAM_OVERHEAD)
    }

    fn refuse(&mut self, fault: FragmentFault) -> FragmentStep {
        self.refused = true;
        self.head = None;
        self.ranges = Ranges::default();
        FragmentStep::Refused(fault)
    }

    /// Takes in a fragment, whose bytes may cost `room`.
    fn take_in(&mut self, fragment: &Fragment<'_>, room: usize, most: u16) -> FragmentStep {
        if self.refused {
            return FragmentStep::Refused(FragmentFault::Earlier);
        }
        let (at, payload) = (usize::from(fragment.offset), fragment.payload);
        let end = at.saturating_add(payload.len());
        // IPv6 does not count its fixed header of 40 bytes.
        let fixed = if fragment.source.is_ipv4() { 0 } else { 40 };
        if end.saturating_add(fragment.head.len().saturating_sub(fixed)) > 65_535 {
            return self.refuse(FragmentFault::TooLong);
        }
        let reached = usize::try_from(self.ranges.end().unwrap_or(0)).unwrap_or(usize::MAX);
        let agrees = match self.total {
            Some(total) => end == total || (fragment.more && end < total),
            None => fragment.more || end >= reached,
        };
        if !agrees {
            return self.refuse(FragmentFault::OtherEnd);
        }
        let begin = after(0, at);
        let differs = self.ranges.differs(begin, payload);
        let Some(new) = self.ranges.insert(begin, payload, room, most.into()) else {
            return self.refuse(FragmentFault::TooMany);
        };
        let repeated = new == 0 && !differs;
        if !fragment.source.is_ipv4() && new < payload.len() && !repeated {
            return self.refuse(FragmentFault::Overlap);
        }
        self.fragments = self.fragments.saturating_add(u16::from(new > 0));
        self.have = self.have.saturating_add(new);
        self.overlapped |= differs;
        if !fragment.more {
            self.total = Some(end);
        }
        if at == 0 && self.head.is_none() {
            self.head = Some(Head {
                bytes: fragment.head.into(),
                announced_at: fragment.announced_at,
                protocol: fragment.protocol,
            });
        }
        match (self.total == Some(self.have), differs, repeated) {
            (true, ..) => FragmentStep::Complete,
            (_, true, _) => FragmentStep::Overlap,
            (.., true) => FragmentStep::Repeated,
            _ => FragmentStep::Kept,
        }
    }

    /// The packet, up to the first gap.
    fn into_datagram(mut self, key: &Key) -> Datagram {
        let complete = self.total == Some(self.have) && !self.refused;
        let mut bytes = Vec::new();
        if let Some(head) = &self.head {
            bytes.extend_from_slice(&head.bytes);
            // With a fragment header (RFC 8200 §4.5) the decoder knows that the rest is missing.
            if key.source.is_ipv6() && !complete {
                let [a, b, c, d] = key.identification.to_be_bytes();
                bytes.extend_from_slice(&[head.protocol, 0, 0, 1, a, b, c, d]);
            }
            let begin = bytes.len();
            let mut next = 0_u64;
            while let Some((at, part)) = self.ranges.take_due(next) {
                let had = usize::try_from(next.saturating_sub(at)).unwrap_or(usize::MAX);
                bytes.extend_from_slice(part.get(had..).unwrap_or_default());
                next = after(0, bytes.len().saturating_sub(begin));
            }
            mend(&mut bytes, head, key.source.is_ipv4(), complete);
        }
        Datagram {
            bytes,
            complete,
            overlapped: self.overlapped,
            fragments: self.fragments,
        }
    }
}

/// Writes length and fragment fields of the joined packet.
fn mend(packet: &mut [u8], head: &Head, is_v4: bool, complete: bool) {
    // IPv6 does not count its header (RFC 8200 §3), IPv4 does (RFC 791 §3.1).
    let length = packet.len().saturating_sub(if is_v4 { 0 } else { 40 });
    let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let mut set = |at: usize, value: u8| {
        if let Some(byte) = packet.get_mut(at) {
            *byte = value;
        }
    };
    if !is_v4 {
        set(4, high);
        set(5, low);
        if complete {
            set(head.announced_at, head.protocol);
        }
        return;
    }
    set(2, high);
    set(3, low);
    // Without its end it stays a fragment, and is not taken for a whole packet.
    set(6, if complete { 0 } else { 0x20 });
    set(7, 0);
    if let Some(header) = packet.get_mut(..head.bytes.len()) {
        fill_ipv4(header);
    }
}

/// Joins fragments. Memory is bounded; where a bound is reached, the datagram that is next to time
/// out gives way.
///
/// Order of calls: [`handle_fragment`](Self::handle_fragment), and
/// [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout); after each of
/// both drain [`poll_datagram`](Self::poll_datagram). At the end [`finish`](Self::finish), and
/// drain again.
///
/// IPv4: of overlapping bytes the first copy counts. IPv6: an overlap refuses the datagram (RFC
/// 5722).
#[derive(Debug)]
pub struct Defragmenter {
    bounds: DefragmentBounds,
    now: Duration,
    serial: u64,
    partials: HashMap<Key, Partial>,
    order: BTreeMap<(Duration, u64), Key>,
    held: usize,
    ready: VecDeque<Datagram>,
}

impl Defragmenter {
    /// Without fragments.
    #[must_use]
    pub fn new(bounds: DefragmentBounds) -> Self {
        Self {
            bounds,
            now: Duration::ZERO,
            serial: 0,
            partials: HashMap::new(),
            order: BTreeMap::new(),
            held: 0,
            ready: VecDeque::new(),
        }
    }

    /// Takes in a fragment. Time that runs backwards counts as standing still.
    pub fn handle_fragment(&mut self, now: Duration, fragment: &Fragment<'_>) -> FragmentStep {
        self.now = self.now.max(now);
        let whole_words = fragment.payload.len().is_multiple_of(8);
        if fragment.payload.is_empty() || (fragment.more && !whole_words) {
            return FragmentStep::Refused(FragmentFault::Shape);
        }
        let key = Key::of(fragment);
        // Out of the table while others may have to give way for it.
        let mut partial = match self.take(&key) {
            Some(partial) => partial,
            None => self.begin(&key),
        };
        let parts = fragment.payload.len().saturating_add(limits::PART_OVERHEAD);
        self.make_room(partial.cost().saturating_add(parts));
        let room = self
            .bounds
            .bytes
            .saturating_sub(self.held)
            .saturating_sub(partial.cost());
        let step = partial.take_in(fragment, room, self.bounds.fragments);
        if step == FragmentStep::Complete {
            self.ready.push_back(partial.into_datagram(&key));
        } else {
            self.held = self.held.saturating_add(partial.cost());
            self.order.insert(partial.due, key);
            self.partials.insert(key, partial);
        }
        step
    }

    /// The next datagram: whole, or given up.
    pub fn poll_datagram(&mut self) -> Option<Datagram> {
        self.ready.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: the time of a datagram is over then.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.order.first_key_value().map(|((due, _), _)| *due)
    }

    /// Gives up datagrams whose time is over, some at once; the rest follows with the next call.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.now = self.now.max(now);
        for _ in 0..limits::MAX_EXPIRED_AT_ONCE {
            if self.poll_timeout().is_none_or(|due| self.now < due) {
                return;
            }
            self.give_up_first();
        }
    }

    /// Gives up all datagrams.
    pub fn finish(&mut self) {
        while !self.order.is_empty() {
            self.give_up_first();
        }
    }

    /// No datagram is incomplete, and none waits to be polled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partials.is_empty() && self.ready.is_empty()
    }

    /// Memory held for incomplete datagrams, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    fn begin(&mut self, key: &Key) -> Partial {
        let time = if key.source.is_ipv4() {
            self.bounds.ipv4
        } else {
            self.bounds.ipv6
        };
        self.serial = self.serial.wrapping_add(1);
        Partial {
            head: None,
            ranges: Ranges::default(),
            have: 0,
            total: None,
            fragments: 0,
            overlapped: false,
            refused: false,
            due: (self.now.saturating_add(time), self.serial),
        }
    }

    fn take(&mut self, key: &Key) -> Option<Partial> {
        let partial = self.partials.remove(key)?;
        self.order.remove(&partial.due);
        self.held = self.held.saturating_sub(partial.cost());
        Some(partial)
    }

    fn make_room(&mut self, cost: usize) {
        while !self.order.is_empty()
            && (self.held.saturating_add(cost) > self.bounds.bytes
                || self.partials.len() >= self.bounds.datagrams)
        {
            self.give_up_first();
        }
    }

    fn give_up_first(&mut self) {
        let Some((_, key)) = self.order.pop_first() else {
            return;
        };
        let Some(partial) = self.take(&key) else {
            return;
        };
        // The fragments of a refused one were answered when they came.
        if !partial.refused {
            self.ready.push_back(partial.into_datagram(&key));
        }
    }
}
