//! BitTorrent inside HTTP: trackers (BEP 3, BEP 48), web seeds (BEP 17, BEP 19), and programs by
//! their name.

use super::http::Request;
use super::http_marks;
use super::message::{Finding, Memory, Message};
use super::torrents;

/// Product names of programs whose HTTP requests serve BitTorrent.
const PROGRAMS: [&str; 12] = [
    "transmission/",
    "qbittorrent/",
    "utorrent/",
    "utorrentmac/",
    "bittorrent/",
    "btwebclient/",
    "libtorrent/",
    "rtorrent/",
    "deluge/",
    "azureus ",
    "bitcomet/",
    "vuze/",
];

/// A request to a tracker: announce or scrape.
pub(super) fn tracker(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).info_hash {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let query = request.query()?;
    let hash = query_value(query, "info_hash").filter(|hash| decoded_len(hash) == Some(20))?;
    let hash = torrents::percent_decoded(hash.as_bytes());
    let announces = query_value(query, "peer_id").is_some() || query_value(query, "port").is_some();
    let kind = match (announces, request.path().contains("scrape")) {
        (true, _) => "announce",
        (false, true) => "scrape",
        (false, false) => return None,
    };
    Some(
        Finding::certain(format!("{kind} with an info-hash of 20 bytes"))
            .with_host(request.host())
            .with_infohash(hash)
            .about_many(),
    )
}

/// A piece asked of a web seed by its info-hash (BEP 17).
pub(super) fn seed(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).info_hash {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let query = request.query()?;
    let hash = query_value(query, "info_hash")?;
    let asks = decoded_len(hash) == Some(20) && query_value(query, "piece").is_some();
    asks.then(|| {
        Finding::certain("a piece asked by info-hash")
            .with_host(request.host())
            .with_infohash(torrents::percent_decoded(hash.as_bytes()))
            .about_many()
    })
}

/// A request by a BitTorrent program, for a web seed (BEP 19) or for its own needs.
pub(super) fn client(message: &Message<'_>, memory: &mut Memory) -> Option<Finding> {
    if !http_marks::of(message, &mut memory.http).bittorrent {
        return None;
    }
    let request = Request::parse(message.bytes)?;
    let program = program(request.header("user-agent")?)?;
    let name = program.trim_end_matches(['/', ' ']);
    Some(
        Finding::likely(format!("requested by {name}"))
            .with_host(request.host())
            .about_many(),
    )
}

/// The BitTorrent program that this user agent is.
pub(super) fn program(agent: &str) -> Option<&'static str> {
    PROGRAMS
        .into_iter()
        .find(|program| http_marks::begins(agent, program))
}

fn query_value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// Bytes of a percent-encoded value.
fn decoded_len(value: &str) -> Option<usize> {
    let mut bytes = value.bytes();
    let mut length = 0_usize;
    while let Some(byte) = bytes.next() {
        if byte == b'%' && !(bytes.next()?.is_ascii_hexdigit() && bytes.next()?.is_ascii_hexdigit())
        {
            return None;
        }
        length = length.checked_add(1)?;
    }
    Some(length)
}
