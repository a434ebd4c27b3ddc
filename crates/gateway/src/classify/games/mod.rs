//! Games and what their libraries speak.

mod engines;
mod minecraft;
mod raknet;
mod steam;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("minecraft.handshake", minecraft::handshake),
    ("quake.message", engines::quake),
    ("raknet.offline", raknet::offline),
    ("source.query", engines::source),
    ("steam.datagram", steam::datagram),
    ("steam.stream", steam::stream),
];
