//! The names by which signatures refer to checks.

use super::message::Check;
use super::{
    bittorrent, bittorrent_http, calls, coins, databases, direct_connect, discord, dns, edonkey,
    fasttrack, games, gnutella, http, hyperswarm, irc, kad, libp2p, mail, msn, network, ppstream,
    qq, quic, remote, resilio, ringway, skype, soulseek, stun, syncthing, telegram, things, tls,
    tor, tunnels, utp, web_torrent, whatsapp, wireguard, xmpp,
};

const CHECKS: [(&str, Check); 71] = [
    ("bittorrent.dht", bittorrent::dht),
    ("bittorrent.handshake", bittorrent::handshake),
    ("bittorrent.http_client", bittorrent_http::client),
    ("bittorrent.http_seed", bittorrent_http::seed),
    ("bittorrent.http_tracker", bittorrent_http::tracker),
    ("bittorrent.local_discovery", bittorrent::local_discovery),
    ("bittorrent.messages", bittorrent::messages),
    ("bittorrent.udp_tracker", bittorrent::udp_tracker),
    ("bittorrent.utp", utp::packet),
    ("bittorrent.utp_handshake", utp::handshake),
    ("bittorrent.web_socket", web_torrent::frame),
    ("dcc.acknowledgement", irc::acknowledgement),
    ("directconnect.adc", direct_connect::adc),
    ("directconnect.datagram", direct_connect::datagram),
    ("directconnect.nmdc", direct_connect::nmdc),
    ("discord.ip_discovery", discord::ip_discovery),
    ("discord.ping", discord::ping),
    ("dns.message", dns::message),
    ("dns.tcp_message", dns::tcp_message),
    ("edonkey.kad", kad::datagram),
    ("edonkey.tcp", edonkey::tcp),
    ("edonkey.udp", edonkey::udp),
    ("fasttrack.ping", fasttrack::ping),
    ("fasttrack.push", fasttrack::push),
    ("fasttrack.session", fasttrack::session),
    ("fasttrack.transfer", fasttrack::transfer),
    ("gnutella.answer", gnutella::answer),
    ("gnutella.descriptor", gnutella::descriptor),
    ("gnutella.handshake", gnutella::handshake),
    ("gnutella.http", gnutella::http_transfer),
    ("gnutella.push", gnutella::push),
    ("gnutella.reliable_udp", gnutella::reliable_udp),
    ("http.request", http::request),
    ("http.response", http::response),
    ("hyperswarm.message", hyperswarm::message),
    ("irc.lines", irc::lines),
    ("libp2p.multistream", libp2p::multistream),
    ("msn.gateway", msn::gateway),
    ("msn.keepalive", msn::keepalive),
    ("msn.messenger", msn::messenger),
    ("msnftp.lines", msn::file_transfer),
    ("ppstream.datagram", ppstream::datagram),
    ("qq.datagram", qq::datagram),
    ("quic.google", quic::google),
    ("quic.long_header", quic::long_header),
    ("resilio.opening", resilio::opening),
    ("ringway.datagram", ringway::datagram),
    ("ringway.frames", ringway::frames),
    ("ringway.web_socket", ringway::web_socket),
    ("skype.datagram", skype::datagram),
    ("soulseek.login", soulseek::login),
    ("soulseek.peer_init", soulseek::peer_init),
    ("soulseek.welcome", soulseek::welcome),
    ("stun.channel", stun::channel),
    ("stun.message", stun::message),
    ("stun.teams", stun::teams),
    ("syncthing.discovery", syncthing::discovery),
    ("syncthing.hello", syncthing::hello),
    ("syncthing.relay", syncthing::relay),
    ("telegram.obfuscated", telegram::obfuscated),
    ("telegram.plain", telegram::plain),
    ("telegram.reflector", telegram::reflector),
    ("tls.record", tls::record),
    ("tor.certificate", tor::certificate),
    ("tor.client_hello", tor::client_hello),
    ("whatsapp.prologue", whatsapp::prologue),
    ("whatsapp.stun", stun::whatsapp),
    ("wireguard.datagram", wireguard::datagram),
    ("xmpp.bytestream", xmpp::bytestream),
    ("xmpp.over_http", xmpp::over_http),
    ("xmpp.stream", xmpp::stream),
];

/// Checks of families that have a folder of their own.
const FAMILIES: [&[(&str, Check)]; 9] = [
    calls::CHECKS,
    coins::CHECKS,
    databases::CHECKS,
    games::CHECKS,
    mail::CHECKS,
    network::CHECKS,
    remote::CHECKS,
    things::CHECKS,
    tunnels::CHECKS,
];

/// The check of this name.
pub(super) fn by_name(name: &str) -> Option<Check> {
    let families = FAMILIES.iter().flat_map(|checks| checks.iter());
    CHECKS
        .iter()
        .chain(families)
        .find(|(known, _)| *known == name)
        .map(|(_, check)| *check)
}

/// Whether a check looks at the very message that its refined application was found by; no later
/// one can fit then.
pub(super) fn decides_at_once(name: &str) -> bool {
    name == "tor.client_hello"
}
