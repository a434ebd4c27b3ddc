//! By which interface packets to an address leave, as the system's routing says (Linux; elsewhere
//! it is not known).

use std::io;
use std::net::IpAddr;

/// The interface's name; none if there is no route.
#[cfg(target_os = "linux")]
pub(super) fn interface_to(remote: IpAddr) -> io::Result<Option<String>> {
    use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::route::RouteAttribute;
    use netlink_sys::protocols::NETLINK_ROUTE;
    use netlink_sys::{Socket, SocketAddr};

    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let payload = NetlinkPayload::from(RouteNetlinkMessage::GetRoute(question(remote)));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // The answer is there when the question has been sent: nothing waits.
    socket.set_non_blocking(true)?;
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer);
    let answer = answer.map_err(io::Error::other)?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) = answer.payload else {
        return Ok(None);
    };
    let index = route
        .attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(index),
            _ => None,
        });
    index.map(name).transpose()
}

/// "Which route to this address?"
#[cfg(target_os = "linux")]
fn question(remote: IpAddr) -> netlink_packet_route::route::RouteMessage {
    use netlink_packet_route::AddressFamily;
    use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};

    let mut message = RouteMessage::default();
    let (family, bits, address) = match remote.to_canonical() {
        IpAddr::V4(v4) => (AddressFamily::Inet, 32, RouteAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(v6)),
    };
    message.header.address_family = family;
    message.header.destination_prefix_length = bits;
    message
        .attributes
        .push(RouteAttribute::Destination(address));
    message
}

#[cfg(target_os = "linux")]
fn name(index: u32) -> io::Result<String> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};

    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::index_to_name(&any, index)?)
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub(super) fn interface_to(_remote: IpAddr) -> io::Result<Option<String>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn loopback_leaves_by_loopback() {
        for address in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1"] {
            let interface = interface_to(address.parse().unwrap()).unwrap();
            assert_eq!(interface.as_deref(), Some("lo"), "{address}");
        }
    }
}
