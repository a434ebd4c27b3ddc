//! Names of torrents in the flows of a border: which flows are read for them, and for how long the
//! kernel does not carry these alone.

use super::machine::FlowContext;
use crate::classify::{BITTORRENT_HANDSHAKE, UtpData, handshake_infohash, utp_data};
use crate::flow::{Direction, SynRole};
use crate::limits::{MAX_FLOW_TORRENTS, MAX_NAMING_CONNECTIONS};
use crate::packet::{L4, Packet};
use crate::torrent::{Follower, Progress, TorrentName, Transport};

/// The names that a flow has shown, and what is read of it for more. Most flows have nothing of it.
#[derive(Debug, Default)]
pub(super) struct Naming {
    /// A connection by TCP that will bring none.
    over: bool,
    shown: Option<Box<Shown>>,
}

#[derive(Debug, Default)]
struct Shown {
    /// Connections that may bring a name: one by TCP, several by uTP, which share the two ports.
    followed: Vec<Followed>,
    found: Vec<TorrentName>,
}

/// A connection that may bring a name.
#[derive(Debug)]
struct Followed {
    /// By uTP, how its sides number it.
    connections: [Option<u16>; 2],
    follower: Follower,
}

/// Data of a connection that may bring a name.
#[derive(Clone, Copy)]
struct Data<'a> {
    transport: Transport,
    number: u32,
    /// The connection by uTP.
    connection: Option<u16>,
    payload: &'a [u8],
}

impl<'a> Data<'a> {
    /// What a packet carries; `None`: nothing that may be followed.
    fn of(packet: &Packet<'a>) -> Option<Self> {
        match packet.tcp {
            Some(tcp) => (!packet.payload.is_empty()).then_some(Self {
                transport: Transport::of(packet),
                // A SYN takes one number for itself.
                number: tcp.sequence.wrapping_add(u32::from(tcp.syn)),
                connection: None,
                payload: packet.payload,
            }),
            None => {
                let UtpData {
                    connection,
                    number,
                    payload,
                } = utp_data(packet.payload)?;
                Some(Self {
                    transport: Transport::of(packet),
                    number: number.into(),
                    connection: Some(connection),
                    payload,
                })
            }
        }
    }
}

impl Followed {
    /// Data belong to this connection. BEP 29: the numbers of its two sides are one apart.
    fn has(&self, direction: Direction, data: &Data<'_>) -> bool {
        let Some(connection) = data.connection else {
            return true;
        };
        let of = |direction: Direction| self.connections.get(direction.slot()).copied().flatten();
        match (of(direction), of(direction.other())) {
            (Some(own), _) => own == connection,
            (None, Some(other)) => [1, u16::MAX].contains(&connection.wrapping_sub(other)),
            (None, None) => false,
        }
    }
}

impl Naming {
    /// The names that it has shown.
    pub(super) fn found(&self) -> &[TorrentName] {
        self.shown.as_ref().map_or(&[], |shown| &shown.found)
    }

    /// It may show a name: its next packets are needed.
    pub(super) fn follows(&self) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|shown| !shown.followed.is_empty())
    }

    fn note(&mut self, names: Vec<TorrentName>) {
        for name in names {
            let found = &mut self.shown.get_or_insert_default().found;
            if found.len() < MAX_FLOW_TORRENTS && !found.contains(&name) {
                found.push(name);
            }
        }
    }

    /// Nothing is read any more: by TCP for good, by uTP until another connection begins.
    fn end(&mut self, transport: Transport) {
        self.over = transport == Transport::Tcp;
        if let Some(shown) = &mut self.shown {
            shown.followed.clear();
        }
    }
}

impl FlowContext<'_> {
    /// Reads a packet for the name of a torrent, where names are looked for. It decides nothing.
    pub(super) fn seek_name(&mut self, packet: &Packet<'_>) {
        let flow = &*self.entry.flow;
        let naming = &flow.attachment.own.naming;
        let seeks = self.env.policy.seeks_torrent_names();
        if naming.over || !(seeks || naming.follows()) {
            return;
        }
        let blocked = self.env.enforces() && self.stage().blocked;
        // Without the beginning of a connection it is not known where messages begin in it.
        let midway = flow.midway && flow.l4 == L4::Tcp;
        if !seeks || blocked || packet.truncated || midway {
            self.own().naming.end(Transport::of(packet));
            return;
        }
        if flow.syn_role(packet) != SynRole::Own {
            return;
        }
        let direction = flow.direction(packet);
        if let Some(data) = Data::of(packet) {
            self.take_data(direction, &data);
        }
    }

    fn take_data(&mut self, direction: Direction, data: &Data<'_>) {
        let names = &self.env.torrent_names;
        let naming = &mut self.entry.flow.attachment.own.naming;
        let known = naming.shown.as_ref().and_then(|shown| {
            let mut followed = shown.followed.iter();
            followed.position(|followed| followed.has(direction, data))
        });
        let Some(at) = known.or_else(|| self.begin_search(direction, data)) else {
            return;
        };
        let naming = &mut self.entry.flow.attachment.own.naming;
        let Some(shown) = &mut naming.shown else {
            return;
        };
        let Some(followed) = shown.followed.get_mut(at) else {
            return;
        };
        if let Some(connection) = followed.connections.get_mut(direction.slot()) {
            *connection = data.connection;
        }
        let Data {
            number, payload, ..
        } = *data;
        if let Progress::Over(found) = followed.follower.handle(names, direction, number, payload) {
            shown.followed.remove(at);
            naming.note(found);
            naming.over = data.transport == Transport::Tcp;
        }
    }

    /// The first data of a connection show whether it may bring a name that is not known yet.
    /// Returns where it stands among those that are followed.
    fn begin_search(&mut self, direction: Direction, data: &Data<'_>) -> Option<usize> {
        let names = &self.env.torrent_names;
        let naming = &mut self.entry.flow.attachment.own.naming;
        let Data {
            transport, payload, ..
        } = *data;
        let opens = payload.starts_with(BITTORRENT_HANDSHAKE);
        // Of uTP there are packets in the middle of connections that are not followed.
        if transport == Transport::Utp && !opens {
            return None;
        }
        let known = handshake_infohash(payload).and_then(|hash| names.get(hash));
        let is_known = known.is_some();
        naming.note(known.into_iter().collect());
        let begun = (!is_known).then(|| Follower::begin(names, transport, direction, payload));
        let Some(follower) = begun.flatten() else {
            naming.over = transport == Transport::Tcp;
            return None;
        };
        let mut connections = [None; 2];
        if let Some(connection) = connections.get_mut(direction.slot()) {
            *connection = data.connection;
        }
        let followed = &mut naming.shown.get_or_insert_default().followed;
        if followed.len() >= MAX_NAMING_CONNECTIONS {
            followed.remove(0);
        }
        followed.push(Followed {
            connections,
            follower,
        });
        followed.len().checked_sub(1)
    }
}
