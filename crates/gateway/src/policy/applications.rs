//! Groups of applications, so that a rule need not name them all.

/// A group's name and the applications in it.
pub const GROUPS: [(&str, &[&str]); 5] = [
    (
        "p2p",
        &[
            "bittorrent",
            "edonkey",
            "gnutella",
            "fasttrack",
            "directconnect",
            "soulseek",
            "libp2p",
            "ipfs",
        ],
    ),
    (
        "chat",
        &[
            "msn", "irc", "xmpp", "skype", "telegram", "whatsapp", "discord",
        ],
    ),
    ("chat-files", &["msnftp", "dcc"]),
    ("anonymity", &["tor", "i2p"]),
    ("web", &["http", "tls", "quic"]),
];

/// The applications of the group of this name.
pub(super) fn group(name: &str) -> Option<&'static [&'static str]> {
    GROUPS
        .iter()
        .find(|(group, _)| *group == name)
        .map(|(_, applications)| *applications)
}
