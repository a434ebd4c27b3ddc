//! Whole IP packets onto the wire.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

/// Raw sockets of both versions of IP, on which the header is part of what is sent.
#[derive(Debug)]
pub struct Injector {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl Injector {
    /// Opens the sockets. A machine without IPv6 has the other one only.
    ///
    /// # Errors
    /// The process has no CAP_NET_RAW.
    pub fn open() -> io::Result<Self> {
        // IPPROTO_RAW implies that the header is included: raw(7).
        let open = |family| socket(family, SocketType::RAW, Some(ipproto::RAW));
        Ok(Self {
            v4: open(AddressFamily::INET)?,
            v6: open(AddressFamily::INET6).ok(),
        })
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// It is no IP packet, or the kernel has no way for it.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let no_packet = || io::Error::new(io::ErrorKind::InvalidInput, "no IP packet");
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => {
                let octets: [u8; 4] = field(packet, 16).ok_or_else(no_packet)?;
                let to = SocketAddrV4::new(Ipv4Addr::from(octets), 0);
                sendto(&self.v4, packet, SendFlags::empty(), &to)?;
            }
            Some(6) => {
                let octets: [u8; 16] = field(packet, 24).ok_or_else(no_packet)?;
                let to = SocketAddrV6::new(Ipv6Addr::from(octets), 0, 0, 0);
                let socket = self
                    .v6
                    .as_ref()
                    .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
                sendto(socket, packet, SendFlags::empty(), &to)?;
            }
            _ => return Err(no_packet()),
        }
        Ok(())
    }
}

fn field<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..)?.first_chunk::<N>().copied()
}
