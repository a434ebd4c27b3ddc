//! The sockets of the QUIC stacks: the same buffers for all.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::Failure;

/// Bytes of a UDP socket's buffer, for each direction: as
/// `ringway_transport::limits::SOCKET_BUFFER`.
pub(crate) const BUFFER: usize = ringway_transport::limits::SOCKET_BUFFER;

/// How large packets may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    /// As large as the library lets them by default: for Ethernet.
    Default,
    /// As large as the path allows, within the same bound as ours.
    AsOurs,
}

/// Bytes of the UDP payload of such a packet.
pub(crate) const PAYLOAD: u16 = ringway_transport::limits::QUIC_PAYLOAD;

/// A socket with these buffers.
pub(crate) fn udp(at: SocketAddr) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(at).map_err(|error| format!("cannot bind {at}: {error}"))?;
    // The system grants what it allows.
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER)?;
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, BUFFER)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Any port, for the end that dials `peer`.
pub(crate) fn any(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
