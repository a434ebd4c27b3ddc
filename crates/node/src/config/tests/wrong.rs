//! Values that are refused.

/// A file, the line that is wrong (0: none), and words that the error has.
pub(super) type WrongFile = (&'static str, usize, &'static [&'static str]);

pub(super) const FILES: &[WrongFile] = &[
    (
        "[node]\ntransport = [\"udp\"]\n",
        2,
        &["node.transport", "transports"],
    ),
    (
        "[node]\nupload = 5\n",
        2,
        &["node.upload", "belongs below [limits]"],
    ),
    ("[nodes]\n", 1, &["nodes", "no such table", "node"]),
    ("", 0, &["node", "`[node]` is missing"]),
    (
        "[node]\ntransports = [\"pigeon\"]\n",
        2,
        &["node.transports", "`transports = [\"pigeon\"]`", "\"udp\""],
    ),
    (
        "[node]\ntransports = \"udp\"\n",
        2,
        &["node.transports", "a list of"],
    ),
    ("[node]\ntransports = []\n", 2, &["at least one of"]),
    ("[node]\ntransports = [\"udp\", \"udp\"]\n", 2, &["twice"]),
    (
        "[node]\nresolver = \"dns.example.org\"\n",
        2,
        &[
            "node.resolver",
            "a host name or an IP address, and a port",
            "`resolver = \"192.0.2.1:53\"`",
        ],
    ),
    (
        "[node]\nresolver = \"192.0.2.1:0\"\n",
        2,
        &["node.resolver", "a port"],
    ),
    (
        "[node]\nlisten = 4000\n",
        2,
        &["node.listen", "`listen = \"0.0.0.0:4000\"`"],
    ),
    (
        "[node]\nlisten = 192.0.2.1:4000\n",
        2,
        &["node.listen", "in quotes"],
    ),
    (
        "[node]\nhide_address = \"yes\"\n",
        2,
        &["node.hide_address", "true or false"],
    ),
    (
        "[node]\nport_mapping = yes\n",
        2,
        &["node.port_mapping", "true or false"],
    ),
    (
        "[node]\nalgorithm = \"cubic\"\n",
        2,
        &["node.algorithm", "\"adaptive\"", "\"paper\""],
    ),
    ("node = 1\n", 1, &["node", "[node]"]),
    ("[[node]]\n", 1, &["write [node], in single brackets"]),
    (
        "[node]\n[limits]\nupload = -1\n",
        3,
        &[
            "`upload = -1`",
            "limits.upload",
            "a whole number of bytes from 0",
            "`upload = \"5MB\"`",
        ],
    ),
    (
        "[node]\n[limits]\nupload = 1.5\n",
        3,
        &["limits.upload", "a whole number"],
    ),
    (
        "[node]\n[limits]\nupload = 10MB\n",
        3,
        &["limits.upload", "a whole number"],
    ),
    (
        "[node]\n[limits]\nupload = 99999999999999999999\n",
        3,
        &["limits.upload"],
    ),
    (
        "[node]\n[limits]\nrelay = \"0 miles\"\n",
        3,
        &["limits.relay", "a whole number"],
    ),
    (
        "[node]\n[[receive]]\nfrom = \"*\"\n",
        3,
        &["receive.from", "a list of patterns", "`from = ["],
    ),
    (
        "[node]\n[[receive]]\n[[receive]]\nfrom = [\"oslo\",\n\"lab-[\"]\n",
        5,
        &["receive.from", "`lab-[` is no pattern"],
    ),
    (
        "[node]\n[[receive]]\nfrom = [\"Os lo\"]\n",
        3,
        &["receive.from", "`Os lo`", "lab-*"],
    ),
    (
        "[node]\n[[receive]]\ntype = [\"movie\"]\n",
        3,
        &["receive.type", "\"video\""],
    ),
    (
        "[node]\n[[receive]]\nmax = \"1.5 GB\"\n",
        3,
        &["receive.max", "with a unit"],
    ),
    (
        "[node]\n[[receive]]\ninto = \"~/in\"\n",
        3,
        &["receive.into", "the whole path"],
    ),
    (
        "[node]\n[[receive]]\nrefuse = true\nask = true\n",
        3,
        &["receive.refuse", "remove"],
    ),
    (
        "[node]\n[[receive]]\nrun = [\"sort-scans\"]\n",
        3,
        &["receive.run", "no absolute path"],
    ),
    (
        "[node]\n[[receive]]\nrun = []\n",
        3,
        &["receive.run", "a program by its absolute path"],
    ),
    (
        "[node]\n[[receive]]\nmax_bytes = 3\n",
        3,
        &["receive.max_bytes", "no such key"],
    ),
    (
        "[node]\n[[receive]]\nfrom = [\"*\"]\n[[receive]]\nask = true\n",
        4,
        &["never asked", "rule 1", "the last"],
    ),
    ("[node]\n[receive]\n[[receive]]\n", 3, &["already"]),
    (
        "[node]\n[receive]\naccept = \"*\"\n",
        3,
        &["receive.accept", "`accept = [\"oslo\"]`"],
    ),
    (
        "[node]\n[receive]\naccept = *\n",
        3,
        &["receive.accept", "a list of"],
    ),
    (
        "[node]\n[receive]\naccept = [\"Os lo\"]\n",
        3,
        &["receive.accept", "`Os lo`"],
    ),
    (
        "[node]\n[receive]\ndirectory = \"\"\n",
        3,
        &["receive.directory", "\"inbox\""],
    ),
    (
        "[node]\n[receive]\ndirectory = \" \"\n",
        3,
        &["receive.directory", "\"inbox\""],
    ),
    (
        "[node]\n[receive]\nmax_bytes = true\n",
        3,
        &["receive.max_bytes", "a whole number"],
    ),
    (
        "[node]\n[path]\nto = \"udp\"\ncost = 1\n",
        2,
        &["path", "write [[path]]"],
    ),
    (
        "[node]\n[[interface]]\nname = \"eth0\"\n",
        2,
        &["interface.upload", "missing", "upload = \"5MB\""],
    ),
    (
        "[node]\n[[interface]]\nname = \"the first one\"\nupload = 5\n",
        3,
        &[
            "interface.name",
            "`the first one` is no interface's name",
            "ip link",
        ],
    ),
    (
        "[node]\n[[interface]]\nname = \"lo\"\nupload = 5\n[[interface]]\nname = \"lo\"\nupload = 6\n",
        6,
        &["interface.name", "a cap already"],
    ),
    (
        "[node]\n[[path]]\nto = \"pigeon\"\ncost = 1\n",
        3,
        &["path.to", "pigeon"],
    ),
    (
        "[node]\n[[path]]\nto = \"udp\"\n",
        3,
        &["path.to", "`metered = true`"],
    ),
    (
        "[node]\n[[path]]\ncost = 1\n",
        2,
        &["path.to", "missing", "10.0.0.0/8"],
    ),
    (
        "[node]\n[[path]]\nto = \"udp\"\nprice = 1\n",
        4,
        &["path.price", "cost"],
    ),
    (
        "[node]\n[[path]]\nto = \"udp\"\ncost = 4294967296\n",
        4,
        &["path.cost", "4294967295"],
    ),
    (
        "[node]\n[ws]\nadvertise = [\"http://x/\"]\n",
        3,
        &["ws.advertise", "ws://"],
    ),
    (
        "[node]\n[ws]\nadvertise = [\"wss://x/\"]\n",
        3,
        &["ws.advertise", "without `listen`"],
    ),
    (
        "[node]\n[ws]\npath = \"ringway\"\n",
        3,
        &["ws.path", "`ringway` is no path", "/ringway"],
    ),
    (
        "[node]\n[ws]\npath = \"/a/../b\"\n",
        3,
        &["ws.path", "is no path"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\n[[exec]]\nname = \"fol der\"\ncommand = \"/bin/sh\"\n",
        6,
        &["exec.name", "`fol der`", "lower-case"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\n",
        6,
        &["exec.name", "another program"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\n",
        2,
        &["exec.command", "missing"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"sh\"\n",
        4,
        &["exec.command", "absolute"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/no/such\"\n",
        4,
        &["exec.command", "`/no/such` cannot be used", "No such file"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/\"\n",
        4,
        &["exec.command", "no program"],
    ),
    (
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/etc/passwd\"\n",
        4,
        &["exec.command", "chmod +x"],
    ),
    (
        "[node]\n[[peer]]\nname = \"a\"\naddresses = [\n\"ws://x/\",\n\"exec://folder/oslo\"]\n",
        6,
        &[
            "peer.addresses",
            "exec://folder/oslo",
            "[[exec]]",
            "`name = \"folder\"`",
        ],
    ),
    (
        "[node]\n[[peer]]\nname = \"a\"\naddresses = [\"x\"]\n",
        4,
        &["peer.addresses", "scheme"],
    ),
    (
        "[node]\n[[peer]]\nname = \"a\"\naddresses = []\n",
        4,
        &["peer.addresses", "a list of"],
    ),
    (
        "[node]\n[[peer]]\nname = \"a\"\naddresses = [\"udp://192.0.2.1:0\"]\n",
        4,
        &["nothing can be sent"],
    ),
    (
        "[node]\n[[peer]]\nname = \"A B\"\naddresses = [\"ws://x/\"]\n",
        3,
        &["peer.name", "`A B`"],
    ),
    ("[node]\n[peer]\n", 2, &["write [[peer]]"]),
];

/// Behind `[node]` and `[smtp]`. `NAMED` stands for a mailbox and its header, `POP3` for the
/// beginning of a server.
pub(super) const MAIL: &[WrongFile] = &[
    ("", 2, &["smtp", "relay", "maildir", "remove"]),
    ("quota = 5", 2, &["smtp", "relay"]),
    (
        "relay = \"mail.example.org\"",
        3,
        &["smtp.relay", "{ host ="],
    ),
    (
        "relay = { host = \"h\" }",
        3,
        &["smtp.relay.port", "missing"],
    ),
    (
        "relay = { host = \"\", port = 25 }",
        3,
        &["smtp.relay.host", "mail.example.org"],
    ),
    (
        "relay = { host = \"h:25\", port = 25 }",
        3,
        &["smtp.relay.host", "`port`"],
    ),
    (
        "relay = { host = \"h\", port = 0 }",
        3,
        &["smtp.relay.port", "from 1 to 65535"],
    ),
    (
        "relay = { host = \"h\", port = 65536 }",
        3,
        &["smtp.relay.port", "from 1 to 65535"],
    ),
    (
        "relay = { host = \"h\", port = 25, tls = \"ssl\" }",
        3,
        &["smtp.relay.tls", "\"starttls\""],
    ),
    (
        "relay = { host = \"h\", port = 25, folder = \"f\" }",
        3,
        &["smtp.relay.folder", "remove"],
    ),
    (
        "relay = { host = \"h\", port = 25, user = \"u\", password_file = \"/p\", tls = \"plain\" }",
        3,
        &["smtp.relay.tls", "unprotected", "starttls"],
    ),
    (
        "relay = { host = \"h\", port = 25, user = \"u\", password_file = \"/p\", password_credential = \"x\" }",
        3,
        &["smtp.relay.password_credential", "not both"],
    ),
    (
        "relay = { host = \"h\", port = 25, password_file = \"/p\" }",
        3,
        &["belong together"],
    ),
    ("maildir = \"/m\"", 2, &["smtp.mailbox", "header"]),
    (
        "mailbox = \"a@b\"\nmaildir = \"/m\"",
        3,
        &["smtp.mailbox", "`header = "],
    ),
    (
        "header = [\"X-R\", \"x\"]\nmaildir = \"/m\"",
        3,
        &["smtp.header", "`mailbox = "],
    ),
    (
        "mailbox = \"a\"\nheader = [\"X-R\", \"x\"]",
        3,
        &["smtp.mailbox", "name@host"],
    ),
    (
        "mailbox = \"a@b\"\nheader = [\"Bcc\", \"x\"]",
        4,
        &["smtp.header", "X-"],
    ),
    (
        "mailbox = \"a@b\"\nheader = [\"X-R\"]",
        4,
        &["smtp.header", "two texts"],
    ),
    (
        "mailbox = \"a@b\"\nheader = [\"X-R\", \"x\"]",
        2,
        &["relay"],
    ),
    (
        "NAMEDlmtp_tcp = \"0.0.0.0:25\"",
        5,
        &["smtp.lmtp_tcp", "loopback"],
    ),
    (
        "NAMEDimap = { host = \"h\", port = 993 }",
        5,
        &["smtp.imap", "password_file", "password_credential"],
    ),
    (
        "NAMEDpop3 = { host = \"h\", port = 995 }",
        5,
        &["smtp.pop3", "password_file", "password_credential"],
    ),
    (
        "NAMEDpop3 = { host = \"h\", port = 995, user = \"u\" }",
        5,
        &["smtp.pop3.user", "belong together"],
    ),
    (
        "NAMEDpop3 = { host = \"h\", port = 995, user = \"u\", password_credential = \"../x\" }",
        5,
        &["no path"],
    ),
    (
        "NAMEDPOP3, tls = \"plain\" }",
        5,
        &["smtp.pop3.tls", "unprotected"],
    ),
    ("NAMEDPOP3, folder = \"f\" }", 5, &["smtp.pop3.folder"]),
    (
        "NAMEDPOP3, poll_seconds = 0 }",
        5,
        &["smtp.pop3.poll_seconds", "from 1 to 86400"],
    ),
    (
        "NAMEDPOP3, poll_seconds = 86401 }",
        5,
        &["smtp.pop3.poll_seconds", "from 1 to 86400"],
    ),
    (
        "NAMEDPOP3, poll_seconds = 18446744073709551615 }",
        5,
        &["smtp.pop3.poll_seconds", "`poll_seconds = 30`"],
    ),
    ("batch_ms = 18446744073709551615", 3, &["smtp.batch_ms"]),
    ("hourly = -1", 3, &["smtp.hourly", "from 0"]),
];
