//! Calls: how they are arranged, and their sound and pictures.

mod dtls;
mod h323;
mod mgcp;
mod rtp;
mod sip;
mod zoom;

use super::message::Check;

/// The names by which signatures refer to these checks.
pub(super) const CHECKS: &[(&str, Check)] = &[
    ("dtls.record", dtls::record),
    ("h323.signalling", h323::signalling),
    ("mgcp.request", mgcp::request),
    ("rtp.control", rtp::control),
    ("rtp.packet", rtp::packet),
    ("sip.message", sip::message),
    ("zoom.media", zoom::media),
];
