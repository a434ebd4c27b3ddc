//! Packets of our own onto the wire.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{IntoRawFd as _, OwnedFd};

use pnet_datalink::{Channel, ChannelType, Config, DataLinkSender, NetworkInterface};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

use crate::generations::Generations;
use crate::limits::MAX_NEIGHBOURS;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The way onto the wire.
#[derive(Debug)]
pub enum Injector {
    /// The machine routes: the kernel finds the way.
    Routed(Sockets),
    /// It bridges, and need not have an address: frames go to link addresses that were seen.
    Bridged(Box<Frames>),
}

/// Raw sockets of both versions of IP, on which the header is part of what is sent.
#[derive(Debug)]
pub struct Sockets {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

/// Frames to the hosts at bridges.
pub struct Frames {
    /// At least one.
    bridges: Vec<Bridge>,
    /// Who sent packets with this source, a host or the router before it, and through which
    /// bridge.
    neighbours: Generations<IpAddr, Heard>,
}

struct Bridge {
    index: u32,
    own: Mac,
    sender: Box<dyn DataLinkSender>,
}

#[derive(Clone, Copy)]
struct Heard {
    at: Mac,
    /// The bridge's number.
    through: u32,
}

impl fmt::Debug for Frames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bridges: Vec<u32> = self.bridges.iter().map(|bridge| bridge.index).collect();
        formatter
            .debug_struct("Frames")
            .field("bridges", &bridges)
            .finish_non_exhaustive()
    }
}

impl Injector {
    /// Opens the way of a machine that routes. A machine without IPv6 has the other one only.
    ///
    /// # Errors
    /// The process has no CAP_NET_RAW.
    pub fn routed() -> io::Result<Self> {
        // IPPROTO_RAW implies that the header is included: raw(7).
        let open = |family| {
            let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
            socket_with(family, kind, flags, Some(ipproto::RAW))
        };
        Ok(Self::Routed(Sockets {
            v4: open(AddressFamily::INET)?,
            v6: open(AddressFamily::INET6).ok(),
        }))
    }

    /// Opens the way of a machine that bridges; `ports` are interfaces of its bridges.
    ///
    /// # Errors
    /// One of them is none, or the process has no CAP_NET_RAW.
    pub fn bridged<'a>(ports: impl Iterator<Item = &'a str>) -> io::Result<Self> {
        let interfaces = pnet_datalink::interfaces();
        let mut bridges: Vec<Bridge> = Vec::new();
        for port in ports {
            let bridge = bridge_of(port, &interfaces)?;
            if bridges.iter().all(|known| known.index != bridge.index) {
                bridges.push(Bridge::open(bridge)?);
            }
        }
        Ok(Self::Bridged(Box::new(Frames {
            bridges,
            neighbours: Generations::new(MAX_NEIGHBOURS),
        })))
    }

    /// Notes who has sent a packet, and by which interface it came.
    pub fn hear(&mut self, packet: &[u8], sender: Option<Mac>, came_by: u32) {
        if let Some(at) = sender
            && let Some((source, _)) = ends(packet)
        {
            self.hear_of(source, at, came_by);
        }
    }

    /// Notes where a host is, or the router before it, and behind which bridge.
    pub fn hear_of(&mut self, host: IpAddr, at: Mac, through: u32) {
        if let Self::Bridged(frames) = self {
            frames.neighbours.insert(host, Heard { at, through });
        }
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// It is no IP packet, or there is no way for it.
    pub fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let (source, destination) = ends(packet)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no IP packet"))?;
        match self {
            Self::Routed(sockets) => sockets.send(packet, destination),
            Self::Bridged(frames) => frames.send(packet, source, destination),
        }
    }
}

impl Sockets {
    fn send(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        match to {
            IpAddr::V4(to) => {
                let to = SocketAddrV4::new(to, 0);
                sendto(&self.v4, packet, SendFlags::empty(), &to)?;
            }
            IpAddr::V6(to) => {
                let to = SocketAddrV6::new(to, 0, 0, 0);
                let socket = self
                    .v6
                    .as_ref()
                    .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
                sendto(socket, packet, SendFlags::empty(), &to)?;
            }
        }
        Ok(())
    }
}

/// The bridge that has this port.
fn bridge_of<'a>(
    port: &str,
    interfaces: &'a [NetworkInterface],
) -> io::Result<&'a NetworkInterface> {
    let master = std::fs::read_link(format!("/sys/class/net/{port}/master"))
        .map_err(|_| io::Error::other(format!("`{port}` is no port of a bridge")))?;
    let name = master.file_name().and_then(|name| name.to_str());
    interfaces
        .iter()
        .find(|interface| Some(interface.name.as_str()) == name)
        .ok_or_else(|| io::Error::other(format!("the bridge of `{port}` is not there")))
}

impl Bridge {
    /// A socket that sends only: without a protocol the kernel hands it nothing (packet(7)).
    fn open(interface: &NetworkInterface) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let config = Config {
            promiscuous: false,
            // Binds it without a protocol; frames are sent whole all the same, as the socket is a
            // raw one.
            channel_type: ChannelType::Layer3(0),
            socket_fd: Some(socket.into_raw_fd()),
            ..Config::default()
        };
        let Channel::Ethernet(sender, _) = pnet_datalink::channel(interface, config)? else {
            return Err(io::Error::other(format!(
                "`{}` is no Ethernet",
                interface.name
            )));
        };
        Ok(Self {
            index: interface.index,
            own: interface.mac.map(|mac| mac.octets()).unwrap_or_default(),
            sender,
        })
    }
}

impl Frames {
    /// With the link address of the packet's source, or the switches behind would learn a wrong
    /// port.
    fn send(&mut self, packet: &[u8], source: IpAddr, destination: IpAddr) -> io::Result<()> {
        let unreachable = || io::Error::from(io::ErrorKind::HostUnreachable);
        let to = *self.neighbours.get(&destination).ok_or_else(unreachable)?;
        let goes = |bridge: &Bridge| bridge.index == to.through;
        // A host that was seen through none of them, as the kernel did not say, is looked for at
        // the first.
        let index = self.bridges.iter().position(goes).unwrap_or_default();
        let bridge = self.bridges.get_mut(index).ok_or_else(unreachable)?;
        let from = self
            .neighbours
            .get(&source)
            .map_or(bridge.own, |from| from.at);
        let to = to.at;
        if to == from {
            // Somebody has sent in another's name.
            return Err(unreachable());
        }
        let kind: [u8; 2] = if destination.is_ipv4() {
            [0x08, 0x00]
        } else {
            [0x86, 0xdd]
        };
        let frame = [to.as_slice(), &from, &kind, packet].concat();
        bridge
            .sender
            .send_to(&frame, None)
            .unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::WouldBlock)))
    }
}

/// Source and destination of an IP packet.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let v4 = |at| field::<4>(packet, at).map(|octets| Ipv4Addr::from(octets).into());
            Some((v4(12)?, v4(16)?))
        }
        6 => {
            let v6 = |at| field::<16>(packet, at).map(|octets| Ipv6Addr::from(octets).into());
            Some((v6(8)?, v6(24)?))
        }
        _ => None,
    }
}

fn field<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..)?.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex};

    use pnet_datalink::{DataLinkSender, NetworkInterface};

    use super::{Bridge, Frames, Generations, Injector, Mac};

    /// What was sent through a bridge.
    #[derive(Clone, Default)]
    struct Wire(Arc<Mutex<Vec<Vec<u8>>>>);

    impl DataLinkSender for Wire {
        fn build_and_send(
            &mut self,
            _count: usize,
            _size: usize,
            _build: &mut dyn FnMut(&mut [u8]),
        ) -> Option<io::Result<()>> {
            None
        }

        fn send_to(
            &mut self,
            frame: &[u8],
            _by: Option<NetworkInterface>,
        ) -> Option<io::Result<()>> {
            self.0.lock().unwrap().push(frame.to_vec());
            Some(Ok(()))
        }
    }

    /// The beginning of an IPv4 packet.
    fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        [[0x45; 12].as_slice(), &from, &to].concat()
    }

    #[test]
    fn frames_leave_by_the_bridge_of_their_receiver() {
        let wires = [Wire::default(), Wire::default()];
        let bridge = |index: u32, wire: &Wire| Bridge {
            index,
            own: [index.to_be_bytes()[3]; 6],
            sender: Box::new(wire.clone()),
        };
        let mut injector = Injector::Bridged(Box::new(Frames {
            bridges: vec![bridge(5, &wires[0]), bridge(7, &wires[1])],
            neighbours: Generations::new(100),
        }));
        let hosts: [([u8; 4], Mac, u32); 4] = [
            ([10, 0, 0, 1], [1; 6], 5),
            ([10, 0, 0, 2], [2; 6], 7),
            ([10, 0, 0, 3], [3; 6], 7),
            // The kernel did not say.
            ([10, 0, 0, 4], [4; 6], 0),
        ];
        for (host, mac, through) in hosts {
            injector.hear(&packet(host, [10, 9, 9, 9]), Some(mac), through);
        }
        let sent = |wire: &Wire| std::mem::take(&mut *wire.0.lock().unwrap());
        for ((to, mac, _), expected) in hosts.into_iter().zip([0, 1, 1, 0]) {
            let unknown = packet([10, 8, 8, 8], to);
            injector.send(&unknown).unwrap();
            let frames = sent(&wires[expected]);
            let own = if expected == 0 { [5; 6] } else { [7; 6] };
            let whole = [mac.as_slice(), &own, &[8, 0], &unknown].concat();
            assert_eq!(frames, [whole], "{}", IpAddr::from(to));
            assert!(sent(&wires[1 - expected]).is_empty());
        }
        assert!(
            injector
                .send(&packet([10, 0, 0, 1], [10, 7, 7, 7]))
                .is_err()
        );
    }
}
