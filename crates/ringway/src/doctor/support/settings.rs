//! Configurations without what may be secret: of the member's only known keys are shown, of other
//! files all but those whose name says that they are secret. Comments are left out.

use toml::{Table, Value};

use super::secrets::{REMOVED, Secrets, is_secret_name};

/// Keys of `ringway.toml` that hold no secrets, without the places in lists. Of programs
/// (`[[exec]]`) arguments and environment may.
const SHOWN: &[&str] = &[
    "node.resolver",
    "node.listen",
    "node.quic",
    "node.hide_address",
    "node.transports",
    "node.port_mapping",
    "node.algorithm",
    "node.coupling",
    "receive.directory",
    "receive.accept",
    "receive.max_bytes",
    "receive.from",
    "receive.name",
    "receive.type",
    "receive.max",
    "receive.into",
    "receive.ask",
    "receive.refuse",
    "receive.notify",
    "limits.upload",
    "limits.relay",
    "interface.name",
    "interface.upload",
    "path.to",
    "path.cost",
    "path.metered",
    "ws.listen",
    "ws.path",
    "ws.advertise",
    "ws.ca_file",
    "exec.name",
    "exec.command",
    "peer.name",
    "peer.addresses",
    "smtp.mailbox",
    "smtp.maildir",
    "smtp.pipe",
    "smtp.lmtp",
    "smtp.lmtp_tcp",
    "smtp.quota",
    "smtp.hourly",
    "smtp.daily",
    "smtp.mailbox_hourly",
    "smtp.mailbox_daily",
    "smtp.batch_ms",
];

/// Servers below `[smtp]`.
const SERVERS: [&str; 3] = ["smtp.relay", "smtp.imap", "smtp.pop3"];

/// Keys of each.
const OF_SERVERS: [&str; 9] = [
    "host",
    "port",
    "tls",
    "ca_file",
    "user",
    "password_file",
    "password_credential",
    "folder",
    "poll_seconds",
];

/// Characters of a text that may be secret in a file that is not understood: shorter ones are
/// words of answers, such as `false`.
const LEAST_UNKNOWN: usize = 6;

/// `ringway.toml`, and what it holds that is secret.
pub(super) fn of_member(text: &str, secrets: &mut Secrets) -> String {
    without(text, secrets, &|key: &str| {
        let of_server = key
            .rsplit_once('.')
            .is_some_and(|(table, name)| SERVERS.contains(&table) && OF_SERVERS.contains(&name));
        of_server || SHOWN.contains(&key)
    })
}

/// Another file, and what it holds that is secret.
pub(super) fn of_service(text: &str, secrets: &mut Secrets) -> String {
    without(text, secrets, &|key: &str| {
        !key.split('.').any(is_secret_name)
    })
}

fn without(text: &str, secrets: &mut Secrets, is_shown: &dyn Fn(&str) -> bool) -> String {
    let Ok(mut table) = text.parse::<Table>() else {
        // What is in it cannot be told apart, and errors quote its lines.
        let lines = text.lines().flat_map(|line| line.split('='));
        let texts = lines
            .map(|text| text.trim_matches(|c: char| c.is_whitespace() || "\"',[]{}".contains(c)));
        for text in texts.filter(|text| text.len() >= LEAST_UNKNOWN) {
            secrets.add(text.as_bytes());
        }
        return format!("# {REMOVED}: it is no TOML\n");
    };
    for (key, value) in &mut table {
        walk(key, value, secrets, is_shown);
    }
    table.to_string()
}

/// Goes down to the values; the key of one in a list is that of the list.
fn walk(key: &str, value: &mut Value, secrets: &mut Secrets, is_shown: &dyn Fn(&str) -> bool) {
    // What has values below it is no value: its name alone tells nothing.
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                walk(&format!("{key}.{name}"), value, secrets, is_shown);
            }
        }
        Value::Array(list) => {
            for value in list {
                walk(key, value, secrets, is_shown);
            }
        }
        Value::String(text) if is_shown(key) => *text = without_user(text, secrets),
        _ if is_shown(key) => {}
        value => {
            let secret = value.as_str().map(str::to_owned);
            let secret = secret.unwrap_or_else(|| value.to_string());
            secrets.add(secret.as_bytes());
            *value = Value::String(REMOVED.to_owned());
        }
    }
}

/// An address without the user and password that may stand before its host.
fn without_user(text: &str, secrets: &mut Secrets) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let Some(at) = rest.get(..host_end).and_then(|host| host.rfind('@')) else {
        return text.to_owned();
    };
    let (user, host) = rest.split_at(at);
    secrets.add(user.as_bytes());
    if let Some((_, password)) = user.split_once(':') {
        secrets.add(password.as_bytes());
    }
    format!("{scheme}://{REMOVED}{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_keys_of_members_are_shown() {
        let mut secrets = Secrets::default();
        let text = r#"
            pass = "top0"
            [node]
            listen = "192.0.2.1:7400"
            token = "top1secret"
            [smtp]
            header = ["X-Ringway", "top2secret"]
            relay = { host = "mail.example.org", port = 465, user = "oslo", password = "top3secret", password_file = "/etc/p" }
            [[exec]]
            name = "folder"
            command = "/usr/bin/x"
            arguments = ["--key", "top4secret"]
            environment = { KEY = "top5secret" }
            [[peer]]
            name = "lima"
            addresses = ["wss://lima:top6secret@lima.example.org/ringway"]
        "#;
        let shown = of_member(text, &mut secrets);
        assert!(!shown.contains("top"), "{shown}");
        for kept in [
            "192.0.2.1:7400",
            "mail.example.org",
            "465",
            "/etc/p",
            "folder",
            "@lima.example.org/ringway",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        let scrubbed = secrets.removed_from("it said top3secret and top6secret");
        assert!(!scrubbed.contains("top"), "{scrubbed}");
        assert!(of_member("no = toml = x secret", &mut secrets).contains("no TOML"));
        let options = of_service("home = \"/x\"\nmail-password = \"top7\"\n", &mut secrets);
        assert!(
            options.contains("/x") && !options.contains("top7"),
            "{options}"
        );
    }
}
