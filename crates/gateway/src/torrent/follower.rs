//! One connection, read for as long as it may bring a torrent's name.

use super::TorrentName;
use super::known::{Held, TorrentNames};
use super::order::{Numbering, Order};
use super::peer::{More, Peers, opens};
use super::web::Web;
use crate::flow::{Both, Direction};
use crate::limits::{MAX_NAMING_BYTES, MAX_NAMING_PACKETS};
use crate::packet::{L4, Packet};

/// What carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Utp,
}

impl Transport {
    /// By which one a packet may be followed.
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        match packet.l4 {
            L4::Tcp => Self::Tcp,
            L4::Udp => Self::Utp,
        }
    }
}

/// What became of a connection with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It may bring a name.
    Going,
    /// It is over, with what it has brought.
    Over(Vec<TorrentName>),
}

/// Follows a connection between peers, or one of HTTP, from its first data on. It ends
///
/// - with a name;
/// - as soon as no name can come: a side knows no exchange of metadata, both have it already (the
///   usual case: that shows with the first packets), or the first file by HTTP is no torrent;
/// - past a bound of packets, bytes, or memory, and behind a gap that stays.
#[derive(Debug)]
pub(crate) struct Follower {
    transport: Transport,
    orders: Both<Option<Order>>,
    reader: Reader,
    held: Held,
    packets: u32,
    bytes: usize,
}

#[derive(Debug)]
enum Reader {
    Peers(Peers),
    Web(Web),
}

impl Follower {
    /// Follows a connection whose first data these are. `None`: it will bring no name.
    pub(crate) fn begin(
        names: &TorrentNames,
        transport: Transport,
        direction: Direction,
        opening: &[u8],
    ) -> Option<Self> {
        let is_request = transport == Transport::Tcp && direction == Direction::FromClient;
        let reader = if opens(opening).is_some() {
            Reader::Peers(Peers::default())
        } else {
            Reader::Web(is_request.then(|| Web::opens(opening)).flatten()?)
        };
        Some(Self {
            transport,
            orders: Both::default(),
            reader,
            held: names.account(),
            packets: 0,
            bytes: 0,
        })
    }

    /// Takes in data of a direction. `number`: of TCP its sequence number, of uTP its packet's.
    pub(crate) fn handle(
        &mut self,
        names: &TorrentNames,
        direction: Direction,
        number: u32,
        bytes: &[u8],
    ) -> Progress {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.packets > MAX_NAMING_PACKETS || self.bytes > MAX_NAMING_BYTES {
            return Progress::Over(Vec::new());
        }
        let numbering = match self.transport {
            Transport::Tcp => Numbering::Bytes,
            Transport::Utp => Numbering::Packets,
        };
        let order = self.orders.of(direction);
        let order = order.get_or_insert_with(|| Order::new(numbering, number));
        let (reader, mut found, mut more) = (&mut self.reader, Vec::new(), More::Maybe);
        let taken = order.take(number, bytes, &mut |bytes| {
            if more == More::No {
                return;
            }
            match reader {
                Reader::Peers(peers) => {
                    more = peers.read(direction, bytes, &mut |piece| {
                        found.extend(names.add(&piece));
                    });
                }
                Reader::Web(web) => (more, found) = web.read(direction, bytes),
            }
        });
        if let Reader::Web(_) = self.reader {
            names.note(&found);
        }
        let is_over = taken.is_none() || more == More::No || !found.is_empty();
        let held = match &self.reader {
            Reader::Peers(peers) => peers.held(),
            Reader::Web(web) => web.held(),
        };
        let ahead = self
            .orders
            .sum(|order| order.as_ref().map_or(0, Order::held));
        if is_over || !self.held.set(held.saturating_add(ahead)) {
            return Progress::Over(found);
        }
        Progress::Going
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::tests::{info, infohash};
    use super::super::peer::tests::{data, shakes};
    use super::{Follower, Progress, Transport};
    use crate::flow::Direction::{FromClient, FromServer};
    use crate::limits::{MAX_NAMING_PACKETS, METADATA_PIECE};
    use crate::torrent::TorrentNames;

    #[test]
    fn metadata_in_turned_packets_gives_a_name() {
        let names = TorrentNames::default();
        let info = info("A film", 20_000);
        let [client, server] = shakes(*infohash(&info).bytes(), info.len());
        for transport in [Transport::Tcp, Transport::Utp] {
            let names = TorrentNames::default();
            let mut follower = Follower::begin(&names, transport, FromClient, &client).unwrap();
            let parts: Vec<&[u8]> = info.chunks(METADATA_PIECE).collect();
            let pieces = parts.iter().enumerate();
            let pieces = pieces.flat_map(|(number, part)| data(info.len(), number, part));
            let stream = [server.clone(), pieces.collect()].concat();
            assert_eq!(
                follower.handle(&names, FromClient, 7, &client),
                Progress::Going
            );
            let mut packets = Vec::new();
            let mut number = 65_000;
            for part in stream.chunks(1_000) {
                packets.push((number, part));
                number += match transport {
                    Transport::Tcp => u32::try_from(part.len()).unwrap(),
                    Transport::Utp => 1,
                };
            }
            // The first one has to be first; of the others each pair is turned.
            let (first, rest) = packets.split_first().unwrap();
            assert_eq!(
                follower.handle(&names, FromServer, first.0, first.1),
                Progress::Going
            );
            let mut found = Vec::new();
            for pair in rest.chunks(2) {
                for (number, part) in pair.iter().rev() {
                    if let Progress::Over(names) =
                        follower.handle(&names, FromServer, *number, part)
                    {
                        found = names;
                    }
                }
            }
            assert_eq!(found[0].name, "A film", "{transport:?}");
            drop(follower);
            assert_eq!(names.held(), [0, 0]);
        }
        assert!(Follower::begin(&names, Transport::Utp, FromClient, b"GET / HTTP/1.1").is_none());
        assert!(Follower::begin(&names, Transport::Tcp, FromServer, b"GET / HTTP/1.1").is_none());
    }

    #[test]
    fn a_connection_that_brings_nothing_ends() {
        let names = TorrentNames::default();
        let [client, _] = shakes([1; 20], 9);
        let mut follower = Follower::begin(&names, Transport::Utp, FromClient, &client).unwrap();
        follower.handle(&names, FromClient, 0, &client);
        // Keep-alives.
        let ends = (1..=MAX_NAMING_PACKETS).find(|number| {
            follower.handle(&names, FromClient, *number, &[0; 4]) != Progress::Going
        });
        assert_eq!(ends, Some(MAX_NAMING_PACKETS));
    }
}
