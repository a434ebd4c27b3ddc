//! Private networks and tunnels: what carries other traffic past a border.

mod ike;
mod l2tp;
mod mesh;
mod openvpn;
mod pptp;
mod socks;
mod teredo;
mod tinc;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("ipsec.esp", ike::esp),
    ("ipsec.ike", ike::ike),
    ("l2tp.control", l2tp::control),
    ("nebula.handshake", mesh::nebula),
    ("openvpn.datagram", openvpn::datagram),
    ("openvpn.stream", openvpn::stream),
    ("pptp.control", pptp::control),
    ("socks.client", socks::client),
    ("socks.server", socks::server),
    ("tailscale.discovery", mesh::tailscale),
    ("teredo.packet", teredo::packet),
    ("tinc.identification", tinc::identification),
    ("zerotier.hello", mesh::zerotier),
];
