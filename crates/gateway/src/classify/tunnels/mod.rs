//! Private networks and tunnels: what carries other traffic past a border.

mod ike;
mod l2tp;
mod mesh;
mod openvpn;
mod pptp;
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
    ("tailscale.discovery", mesh::tailscale),
    ("tinc.identification", tinc::identification),
    ("zerotier.hello", mesh::zerotier),
];
