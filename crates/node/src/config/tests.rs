//! Right and wrong files.

mod wrong;

use super::*;
use crate::certificate::Role;
use crate::limits::RELAY_RATE;

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("ringway.toml"))
}

fn of(text: &str) -> Config {
    read(text).unwrap()
}

fn refused(text: &str) -> String {
    let error = read(text).expect_err(text);
    assert!(error.is_usage());
    error.to_string()
}

/// Each text is refused with its line (none where it is 0) and all of the words.
fn all_refused(wrong: &[(&str, usize, &[&str])]) {
    for (text, line, words) in wrong {
        let message = refused(text);
        assert!(message.starts_with("ringway.toml: "), "{message}");
        let named = message.contains(&format!("line {line}: `"));
        assert!(named || *line == 0, "{text}\n{message}");
        for word in *words {
            assert!(message.contains(word), "`{word}` of {text}\n{message}");
        }
        for word in [
            "u64", "u32", "u16", "sequence", "map,", "variant", "invalid",
        ] {
            assert!(!message.contains(word), "{message}");
        }
        assert!(!message.contains('\n'), "{message}");
    }
}

const NAMED: &str = "mailbox = \"a@b\"\nheader = [\"X-R\", \"x\"]\n";
const POP3: &str = "pop3 = { host = \"h\", port = 995, user = \"u\", password_file = \"/p\"";

#[test]
fn wrong_values_are_named_with_an_example() {
    all_refused(wrong::FILES);
    for (text, line, words) in wrong::MAIL {
        let text = text.replace("NAMED", NAMED).replace("POP3", POP3);
        all_refused(&[(&format!("[node]\n[smtp]\n{text}\n"), *line, words)]);
    }
}

#[test]
fn text_that_is_no_toml_is_shown() {
    all_refused(&[
        ("[node\n", 1, &["`[node`", "no TOML"]),
        ("node]\n", 1, &["no TOML"]),
        (
            "[node]\nhide_address true\n",
            2,
            &["`hide_address true`", "no TOML"],
        ),
        (
            "[node]\nquic = \"0.0.0.0:1\"\nquic = \"0.0.0.0:2\"\n",
            3,
            &["already"],
        ),
        ("[node]\n[ws]\n[ws]\n", 3, &["already"]),
        (
            "[node]\n[ws]\nlisten = \"127.0.0.1:1\n",
            3,
            &["ws.listen", "in quotes"],
        ),
        (
            "[node]\n[smtp]\nhourly =\n",
            3,
            &["smtp.hourly", "a whole number"],
        ),
    ]);
}

#[test]
fn errors_show_no_secrets_or_control_characters() {
    for text in [
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\nenvironment = { KEY = 77 }\n",
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\n[exec.environment]\nKEY = 77\n",
        "[node]\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\n[exec.environment]\nKEY = \"77\n",
        "[node]\n[smtp]\nrelay = { host = \"h\", port = 25, password = \"77\" }\n",
        "[node]\n[smtp.relay]\nhost = \"h\"\nport = 25\npassword = \"77\"\n",
    ] {
        let message = refused(text);
        assert!(
            !message.contains("77") && message.contains("line "),
            "{message}"
        );
    }
    let message = refused("[node]\nlisten = \"\u{1b}[2J\"\n");
    assert!(!message.contains('\u{1b}'), "{message}");
    let message = refused(&format!("[node]\nlisten = \"{}\"\n", "x".repeat(5000)));
    assert!(message.len() < 300, "{message}");
}

#[test]
fn missing_and_binary_files_are_mistakes() {
    let home = tempfile::tempdir().unwrap();
    let refused = || {
        let error = Config::load(home.path()).unwrap_err();
        assert!(error.is_usage(), "{error}");
        error.to_string()
    };
    assert!(refused().contains("[node]"), "{}", refused());
    std::fs::write(home::config_path(home.path()), [b'#', 0xff]).unwrap();
    assert!(refused().contains("UTF-8"), "{}", refused());
}

#[test]
fn what_means_nothing_for_a_role_is_refused() {
    for (text, role, words) in [
        (
            "[node]\nhide_address = true\n",
            Role::Router,
            ["hide_address", "leaf"],
        ),
        (
            "[node]\nport_mapping = true\n",
            Role::Router,
            ["port_mapping", "router"],
        ),
        (
            "[node]\nlisten = \"192.0.2.1:4000\"\n",
            Role::Leaf,
            ["node.listen", "leaf"],
        ),
        (
            "[node]\nquic = \"192.0.2.1:4000\"\n",
            Role::Leaf,
            ["node.quic", "leaf"],
        ),
        (
            "[node]\nlimits.relay = 5\n",
            Role::Leaf,
            ["line 2", "belongs below"],
        ),
        (
            "[node]\n[limits]\nrelay = 5\n",
            Role::Leaf,
            ["limits.relay", "leaf"],
        ),
    ] {
        let error = read(text).and_then(|config| config.check_role(role));
        let error = error.unwrap_err();
        let message = error.to_string();
        assert!(error.is_usage() && message.contains("line "), "{message}");
        let named = words.iter().all(|word| message.contains(word));
        assert!(named || text.contains("limits.relay"), "{message}");
    }
    for (text, role) in [
        (
            "[node]\nhide_address = true\nport_mapping = true\n",
            Role::Leaf,
        ),
        ("[node]\nport_mapping = false\n", Role::Router),
        (
            "[node]\nlisten = \"0.0.0.0:4000\"\n[limits]\nrelay = 0\n",
            Role::Router,
        ),
        ("[node]\n[ws]\nlisten = \"127.0.0.1:7080\"\n", Role::Leaf),
        ("[node]\n", Role::Router),
        ("[node]\n", Role::Leaf),
    ] {
        of(text).check_role(role).unwrap();
    }
}

#[test]
fn transports_and_known_peers_are_read() {
    let text = "[node]\n[ws]\nlisten = \"127.0.0.1:7080\"\nadvertise = [\"wss://oslo.example.org/ringway\"]\n\
        [[exec]]\nname = \"folder\"\ncommand = \"/bin/sh\"\narguments = [\"x.py\", \"\"]\nenvironment = { A = \"\" }\n\
        [[peer]]\nname = \"lima\"\naddresses = [\"ws://192.0.2.1/ringway\", \"exec://folder/lima\"]\n";
    let config = of(text);
    assert_eq!(config.ws.advertise[0].path(), "/ringway");
    assert_eq!(config.peer[0].addresses.len(), 2);
    // A hidden leaf does not start it, so it need not be there.
    let hidden = text.replace("[node]", "[node]\nhide_address = true");
    of(&hidden.replace("/bin/sh", "/no/such"));
}

#[test]
fn a_hidden_leaf_needs_more_than_a_program() {
    let text = "[node]\ntransports = []\n[[exec]]\nname = \"a\"\ncommand = \"/bin/sh\"\n";
    of(text);
    let hidden = text.replace("[node]", "[node]\nhide_address = true");
    assert!(refused(&hidden).contains("node.transports"));
}

#[test]
fn mail_is_read() {
    let text = "[node]\ntransports = []\n[smtp]\nmailbox = \"oslo@example.org\"\nheader = [\"X-Ringway\", \"k3\"]\n\
        maildir = \"/var/mail/oslo\"\nquota = 200\nrelay = { host = \"mail.example.org\", port = 465 }\nbatch_ms = 0\nmailbox_hourly = 7\nhourly = 0\n\
        pop3 = { host = \"h\", port = 995, user = \"u\", password_file = \"/p\", poll_seconds = 86400 }\n";
    let config = of(text);
    let options = config.smtp.options().unwrap();
    assert_eq!(options.sources.len(), 2);
    assert_eq!(
        (
            options.batch_time.as_millis(),
            options.mailbox_budget.hourly,
            options.budget.hourly
        ),
        (0, 7, 0)
    );
    assert!(options.relay.is_some() && options.address.is_some());
    assert_eq!(options.quota, Some(200));
    for (file, key) in [
        ("/p", "smtp.pop3.password_file"),
        ("/var/mail/oslo/new", "smtp.maildir"),
    ] {
        assert_eq!(config.smtp.key_of(Path::new(file)), key);
    }
    // One that only sends, and a password that does not leave the machine.
    of("[node]\n[smtp]\nrelay = { host = \"h\", port = 25, tls = \"plain\" }\n");
    of(
        "[node]\n[smtp]\nrelay = { host = \"::1\", port = 25, tls = \"plain\", user = \"u\", password_file = \"/p\" }\n",
    );
    of(&format!(
        "[node]\n[smtp]\n{NAMED}{POP3}, poll_seconds = 1 }}\n"
    ));
}

#[test]
fn the_papers_rules_of_priority_can_be_chosen() {
    let chosen = |text: &str| match of(text).node.algorithm.congestion() {
        CongestionControl::Priority(config) => config.algorithm,
        other => panic!("{other:?}"),
    };
    assert_eq!(chosen("[node]\n"), Algorithm::Adaptive);
    assert_eq!(chosen("[node]\nalgorithm = \"paper\"\n"), Algorithm::Paper);
}

#[test]
fn priorities_are_shared_unless_configured() {
    assert!(of("[node]\n").node.coupling);
    assert!(!of("[node]\ncoupling = false\n").node.coupling);
}

#[test]
fn relaying_is_limited_and_can_be_disabled() {
    let usual = of("[node]\n");
    assert_eq!(
        (usual.limits.relay, usual.node.port_mapping),
        (RELAY_RATE, true)
    );
    let none = of("[node]\nport_mapping = false\n[limits]\nrelay = 0\n[receive]\nmax_bytes = 0\n");
    assert_eq!((none.limits.relay, none.node.port_mapping), (0, false));
    assert_eq!(
        of("[node]\n[limits]\nupload = 0x5\n").limits,
        LimitsConfig {
            upload: Some(5),
            relay: RELAY_RATE,
            max_priority: None,
        }
    );
}

#[test]
fn the_command_line_overrides_caps_of_the_file() {
    let text = "[node]\n[limits]\nupload = 7\n[[interface]]\nname = \"eth0.12\"\nupload = \"5 kB\"\n[[interface]]\nname = \"lo\"\nupload = 0\n";
    let (all, interfaces) = of(text).caps(None);
    let interfaces: Vec<_> = interfaces.iter().map(|i| (&*i.name, i.upload)).collect();
    assert_eq!(
        (all, interfaces),
        (Some(7), vec![("eth0.12", 5_000), ("lo", 0)])
    );
    assert_eq!(of(text).caps(Some(9)).0, Some(9));
}

#[test]
fn paths_have_costs() {
    let text =
        "[node]\n[[path]]\nto = \"tcp\"\ncost = 5\n[[path]]\nto = \"10.0.0.0/8\"\nmetered = true\n";
    let address = "tcp://10.0.0.1:1".parse().unwrap();
    assert_eq!(of(text).path_rules().of(&address).unwrap().cost, Some(5));
}

#[test]
fn services_are_offered_to_none_by_default() {
    let text = String::from(
        "[node]\n[[service]]\nname = \"ssh\"\nto = \"127.0.0.1:22\"\n[[service]]\nname = \"db\"\nto = \"unix:/run/db\"\n\
         from = [\"lab-*\"]\npriority = 0.5\nmax = 3\nidle = 60\n",
    );
    let config = of(&text);
    let [ssh, db] = config.service.as_slice() else {
        panic!("{config:?}");
    };
    assert!(ssh.from.is_empty());
    assert_eq!((ssh.priority, ssh.idle), (1.0, 0));
    assert_eq!((db.priority, db.max, db.idle), (0.5, 3, 60));
    for wrong in [
        "name = \"SSH\"\nto = \"127.0.0.1:22\"",
        "name = \"a\"\nto = \"localhost:22\"",
        "name = \"a\"\nto = \"127.0.0.1:22\"\nfrom = [\"A b\"]",
        "name = \"a\"\nto = \"127.0.0.1:22\"\npriority = -1",
        "name = \"ssh\"\nto = \"127.0.0.1:22\"",
    ] {
        let text = format!("{text}[[service]]\n{wrong}\n");
        assert!(refused(&text).contains("ringway.toml"), "{wrong}");
    }
}
