//! The names by which signatures call checks.

use super::message::Check;
use super::{bittorrent, bittorrent_http, dns, edonkey, gnutella, http, kad, quic, tls, utp};

const CHECKS: [(&str, Check); 26] = [
    ("bittorrent.handshake", bittorrent::handshake),
    ("bittorrent.messages", bittorrent::messages),
    ("bittorrent.dht", bittorrent::dht),
    ("bittorrent.udp_tracker", bittorrent::udp_tracker),
    ("bittorrent.local_discovery", bittorrent::local_discovery),
    ("bittorrent.http_tracker", bittorrent_http::tracker),
    ("bittorrent.http_seed", bittorrent_http::seed),
    ("bittorrent.http_client", bittorrent_http::client),
    ("bittorrent.utp", utp::packet),
    ("bittorrent.utp_handshake", utp::handshake),
    ("dns.message", dns::message),
    ("dns.tcp_message", dns::tcp_message),
    ("edonkey.tcp", edonkey::tcp),
    ("edonkey.udp", edonkey::udp),
    ("edonkey.kad", kad::datagram),
    ("gnutella.handshake", gnutella::handshake),
    ("gnutella.answer", gnutella::answer),
    ("gnutella.descriptor", gnutella::descriptor),
    ("gnutella.reliable_udp", gnutella::reliable_udp),
    ("gnutella.http", gnutella::http_transfer),
    ("gnutella.push", gnutella::push),
    ("http.request", http::request),
    ("http.response", http::response),
    ("quic.long_header", quic::long_header),
    ("quic.google", quic::google),
    ("tls.record", tls::record),
];

/// The check of this name.
pub(super) fn by_name(name: &str) -> Option<Check> {
    CHECKS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, check)| *check)
}
