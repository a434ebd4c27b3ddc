//! The keys of `ringway.toml`: which there are, what stands behind them, and an example of each.

use ringway_transport::limits::{
    MAIL_BATCH_TIME_MOST, MAIL_DAILY_MOST, POP3_LOOK_LEAST, POP3_LOOK_MOST,
};

use crate::config::OfferedType;

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// True or false.
    Flag,
    /// From the first to the second.
    Whole(u64, u64),
    /// Bytes: a whole number, or a text with a unit.
    Bytes,
    /// A number of TCP flows, with fractions.
    Priority,
    /// Not empty.
    Text,
    /// A list of texts.
    Texts,
    /// The same, not empty: a program and its arguments.
    Command,
    /// A list of members' names, or `*`.
    Names,
    /// A list of patterns of names.
    Globs,
    /// A list of addresses of transports, not empty.
    Addresses,
    /// A list of addresses of WebSocket servers.
    WebAddresses,
    /// Two texts.
    Pair,
    /// An IP address and a port other than 0.
    Socket,
    /// A host name or an address, and a port.
    Endpoint,
    /// The same, or port 0.
    SocketOrAny,
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    /// Texts by names of any kind.
    Variables,
    Table(&'static [Key]),
    /// Any number of tables.
    Tables(&'static [Key]),
    /// The same, or one table with other keys.
    TablesOrTable(&'static [Key], &'static [Key]),
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What the user could write.
    pub(super) example: &'static str,
    pub(super) is_needed: bool,
}

const fn key(name: &'static str, kind: Kind, example: &'static str) -> Key {
    Key {
        name,
        kind,
        example,
        is_needed: false,
    }
}

const fn needed_key(name: &'static str, kind: Kind, example: &'static str) -> Key {
    Key {
        is_needed: true,
        ..key(name, kind, example)
    }
}

/// No bound above.
pub(super) const ANY: u64 = u64::MAX;
/// Streams of one service, as many as a member has ([`STREAMS`](crate::limits::STREAMS)).
const STREAMS_MOST: u64 = crate::limits::STREAMS as u64;
const COST: u64 = 0xffff_ffff;
const DAILY: u64 = MAIL_DAILY_MOST as u64;
const BATCH: u64 = MAIL_BATCH_TIME_MOST.as_secs() * 1000;

pub(super) static FILE: &[Key] = &[
    needed_key("node", Kind::Table(NODE), "[node]"),
    key(
        "receive",
        Kind::TablesOrTable(RULES, RECEIVE),
        "[[receive]]",
    ),
    key("messages", Kind::Table(MESSAGES), "[messages]"),
    key("limits", Kind::Table(LIMITS), "[limits]"),
    key("interface", Kind::Tables(INTERFACE), "[[interface]]"),
    key("path", Kind::Tables(PATH), "[[path]]"),
    key("ws", Kind::Table(WS), "[ws]"),
    key("exec", Kind::Tables(EXEC), "[[exec]]"),
    key("smtp", Kind::Table(SMTP), "[smtp]"),
    key("peer", Kind::Tables(PEER), "[[peer]]"),
    key("class", Kind::Tables(CLASS), "[[class]]"),
    key("service", Kind::Tables(SERVICE), "[[service]]"),
];

static NODE: &[Key] = &[
    key("resolver", Kind::Endpoint, r#"resolver = "192.0.2.1:53""#),
    key("listen", Kind::Socket, r#"listen = "0.0.0.0:4000""#),
    key("quic", Kind::SocketOrAny, r#"quic = "0.0.0.0:4001""#),
    key("hide_address", Kind::Flag, "hide_address = true"),
    key(
        "transports",
        Kind::Choices(&["udp", "tcp", "quic", "ws"]),
        r#"transports = ["udp", "tcp"]"#,
    ),
    key("port_mapping", Kind::Flag, "port_mapping = false"),
    key(
        "algorithm",
        Kind::Choice(&["adaptive", "paper"]),
        r#"algorithm = "adaptive""#,
    ),
    key("coupling", Kind::Flag, "coupling = false"),
];

static RECEIVE: &[Key] = &[
    key("directory", Kind::Text, r#"directory = "inbox""#),
    key("accept", Kind::Names, r#"accept = ["oslo"]"#),
    key("max_bytes", Kind::Bytes, r#"max_bytes = "1GB""#),
];

static RULES: &[Key] = &[
    key("from", Kind::Globs, r#"from = ["oslo", "lab-*"]"#),
    key("name", Kind::Globs, r#"name = ["*.pdf"]"#),
    key(
        "type",
        Kind::Choices(OfferedType::WORDS),
        r#"type = ["image", "video"]"#,
    ),
    key("max", Kind::Bytes, r#"max = "1 GB""#),
    key("into", Kind::Text, r#"into = "inbox""#),
    key("ask", Kind::Flag, "ask = true"),
    key("refuse", Kind::Flag, "refuse = true"),
    key(
        "run",
        Kind::Command,
        r#"run = ["/usr/local/bin/sort-scans"]"#,
    ),
    key("notify", Kind::Flag, "notify = false"),
];

static MESSAGES: &[Key] = &[
    key("receipts", Kind::Flag, "receipts = false"),
    key("from", Kind::Names, r#"from = ["oslo"]"#),
];

static LIMITS: &[Key] = &[
    key("upload", Kind::Bytes, r#"upload = "5MB""#),
    key("relay", Kind::Bytes, r#"relay = "10MiB""#),
    key("max_priority", Kind::Priority, "max_priority = 2"),
];

static CLASS: &[Key] = &[
    needed_key("name", Kind::Text, r#"name = "backup""#),
    needed_key("priority", Kind::Priority, "priority = 0"),
];

static INTERFACE: &[Key] = &[
    needed_key("name", Kind::Text, r#"name = "eth0""#),
    needed_key("upload", Kind::Bytes, r#"upload = "5MB""#),
];

static PATH: &[Key] = &[
    needed_key("to", Kind::Text, r#"to = "10.0.0.0/8""#),
    key("cost", Kind::Whole(0, COST), "cost = 5"),
    key("metered", Kind::Flag, "metered = true"),
];

static WS: &[Key] = &[
    key("listen", Kind::SocketOrAny, r#"listen = "127.0.0.1:7080""#),
    key("path", Kind::Text, r#"path = "/ringway""#),
    key(
        "advertise",
        Kind::WebAddresses,
        r#"advertise = ["wss://oslo.example.org/ringway"]"#,
    ),
    key("ca_file", Kind::Text, r#"ca_file = "/etc/ssl/ca.pem""#),
];

static EXEC: &[Key] = &[
    needed_key("name", Kind::Text, r#"name = "folder""#),
    needed_key("command", Kind::Text, r#"command = "/usr/bin/python3""#),
    key(
        "arguments",
        Kind::Texts,
        r#"arguments = ["/opt/ringway/folder.py", "--name", "oslo"]"#,
    ),
    key(
        "environment",
        Kind::Variables,
        r#"environment = { LANG = "C" }"#,
    ),
];

static PEER: &[Key] = &[
    needed_key("name", Kind::Text, r#"name = "oslo""#),
    needed_key(
        "addresses",
        Kind::Addresses,
        r#"addresses = ["wss://oslo.example.org/ringway"]"#,
    ),
];

static SERVICE: &[Key] = &[
    needed_key("name", Kind::Text, r#"name = "ssh""#),
    needed_key("to", Kind::Text, r#"to = "127.0.0.1:22""#),
    key("from", Kind::Texts, r#"from = ["anna", "lab-*"]"#),
    key("priority", Kind::Priority, "priority = 4"),
    key("max", Kind::Whole(1, STREAMS_MOST), "max = 64"),
    key(
        "max_per_peer",
        Kind::Whole(1, STREAMS_MOST),
        "max_per_peer = 8",
    ),
    key("idle", Kind::Whole(0, COST), "idle = 3600"),
    key("time", Kind::Whole(0, COST), "time = 86400"),
];

static SMTP: &[Key] = &[
    key("mailbox", Kind::Text, r#"mailbox = "oslo@example.org""#),
    key("header", Kind::Pair, r#"header = ["X-Ringway", "k3"]"#),
    key(
        "relay",
        Kind::Table(SERVER),
        r#"relay = { host = "mail.example.org", port = 465 }"#,
    ),
    key("maildir", Kind::Text, r#"maildir = "/var/mail/oslo""#),
    key("pipe", Kind::Text, r#"pipe = "/run/ringway/mail""#),
    key("lmtp", Kind::Text, r#"lmtp = "/run/ringway/lmtp""#),
    key(
        "lmtp_tcp",
        Kind::SocketOrAny,
        r#"lmtp_tcp = "127.0.0.1:2525""#,
    ),
    key(
        "imap",
        Kind::Table(SERVER),
        r#"imap = { host = "mail.example.org", port = 993, user = "oslo", password_file = "/etc/ringway/mail" }"#,
    ),
    key(
        "pop3",
        Kind::Table(SERVER),
        r#"pop3 = { host = "mail.example.org", port = 995, user = "oslo", password_file = "/etc/ringway/mail" }"#,
    ),
    key("quota", Kind::Whole(0, COST), "quota = 200"),
    key("hourly", Kind::Whole(0, DAILY), "hourly = 60"),
    key("daily", Kind::Whole(0, DAILY), "daily = 500"),
    key(
        "mailbox_hourly",
        Kind::Whole(0, DAILY),
        "mailbox_hourly = 20",
    ),
    key(
        "mailbox_daily",
        Kind::Whole(0, DAILY),
        "mailbox_daily = 100",
    ),
    key("batch_ms", Kind::Whole(0, BATCH), "batch_ms = 2000"),
];

pub(super) static SERVER: &[Key] = &[
    needed_key("host", Kind::Text, r#"host = "mail.example.org""#),
    needed_key("port", Kind::Whole(1, 65_535), "port = 465"),
    key(
        "tls",
        Kind::Choice(&["tls", "starttls", "plain"]),
        r#"tls = "starttls""#,
    ),
    key("ca_file", Kind::Text, r#"ca_file = "/etc/ssl/ca.pem""#),
    key("user", Kind::Text, r#"user = "oslo""#),
    key(
        "password_file",
        Kind::Text,
        r#"password_file = "/etc/ringway/mail-password""#,
    ),
    key(
        "password_credential",
        Kind::Text,
        r#"password_credential = "mail""#,
    ),
    key("folder", Kind::Text, r#"folder = "INBOX""#),
    key(
        "poll_seconds",
        Kind::Whole(POP3_LOOK_LEAST.as_secs(), POP3_LOOK_MOST.as_secs()),
        "poll_seconds = 30",
    ),
];
