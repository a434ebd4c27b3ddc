//! Packets of our own onto the wire.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;

use pnet_datalink::{Channel, Config, DataLinkSender};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

use crate::generations::Generations;
use crate::limits::MAX_NEIGHBOURS;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The way onto the wire.
#[derive(Debug)]
pub enum Injector {
    /// The machine routes: the kernel finds the way.
    Routed(Sockets),
    /// It bridges, and need not have an address: frames go to whoever was heard.
    Bridged(Box<Frames>),
}

/// Raw sockets of both versions of IP, on which the header is part of what is sent.
#[derive(Debug)]
pub struct Sockets {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

/// Frames to the hosts at a bridge.
pub struct Frames {
    sender: Box<dyn DataLinkSender>,
    own: Mac,
    /// Who sent packets with this source, a host or the router before it.
    heard: Generations<IpAddr, Mac>,
}

impl fmt::Debug for Frames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Frames")
            .field("own", &self.own)
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
        let open = |family| socket(family, SocketType::RAW, Some(ipproto::RAW));
        Ok(Self::Routed(Sockets {
            v4: open(AddressFamily::INET)?,
            v6: open(AddressFamily::INET6).ok(),
        }))
    }

    /// Opens the way of a machine that bridges; `port` is one of the bridge's interfaces.
    ///
    /// # Errors
    /// It is none, or the process has no CAP_NET_RAW.
    pub fn bridged(port: &str) -> io::Result<Self> {
        let master = std::fs::read_link(format!("/sys/class/net/{port}/master"))
            .map_err(|_| io::Error::other(format!("`{port}` is no port of a bridge")))?;
        let name = master.file_name().and_then(|name| name.to_str());
        let bridge = pnet_datalink::interfaces()
            .into_iter()
            .find(|interface| Some(interface.name.as_str()) == name)
            .ok_or_else(|| io::Error::other(format!("the bridge of `{port}` is not there")))?;
        let config = Config {
            promiscuous: false,
            ..Config::default()
        };
        let Channel::Ethernet(sender, _) = pnet_datalink::channel(&bridge, config)? else {
            return Err(io::Error::other(format!(
                "`{}` is no Ethernet",
                bridge.name
            )));
        };
        Ok(Self::Bridged(Box::new(Frames {
            sender,
            own: bridge.mac.map(|mac| mac.octets()).unwrap_or_default(),
            heard: Generations::new(MAX_NEIGHBOURS),
        })))
    }

    /// Notes who has sent a packet.
    pub fn hear(&mut self, packet: &[u8], sender: Option<Mac>) {
        if let Self::Bridged(frames) = self
            && let Some(sender) = sender
            && let Some((source, _)) = ends(packet)
        {
            frames.heard.insert(source, sender);
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

impl Frames {
    /// In the name of whoever the packet says it is from, or the switches behind would learn a wrong place.
    fn send(&mut self, packet: &[u8], source: IpAddr, destination: IpAddr) -> io::Result<()> {
        let to = *self
            .heard
            .get(&destination)
            .ok_or_else(|| io::Error::from(io::ErrorKind::HostUnreachable))?;
        let from = self.heard.get(&source).copied().unwrap_or(self.own);
        if to == from {
            // Somebody has sent in another's name.
            return Err(io::Error::from(io::ErrorKind::HostUnreachable));
        }
        let kind: [u8; 2] = if destination.is_ipv4() {
            [0x08, 0x00]
        } else {
            [0x86, 0xdd]
        };
        let frame = [to.as_slice(), &from, &kind, packet].concat();
        self.sender
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
