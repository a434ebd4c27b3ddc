//! Numbers in the place of names and addresses, the same in every file of a bundle: so that a
//! reader still sees which belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

/// Keys of JSON objects whose text is a name, and what it is called.
const NAMED: &[(&str, &str)] = &[
    ("name", "name"),
    ("peer", "name"),
    ("via", "name"),
    ("shares_with", "name"),
    ("ring", "ring"),
    ("file", "file"),
    ("path", "path"),
];

/// The same of TOML.
const SET: &[(&str, &str)] = &[
    ("name", "name"),
    ("accept", "name"),
    ("host", "host"),
    ("resolver", "host"),
    ("user", "user"),
    ("directory", "path"),
    ("maildir", "path"),
];

/// Hexadecimal digits of a ring key, which holds the router's address, and of a hash.
const HEX_KEY: usize = 64;

/// Characters of a member's id.
const ID: usize = 52;

/// What was seen, and what stands in its place.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Names {
    /// Learns names from a text: JSON, one object a line or one in all, or TOML. Of other texts
    /// only the machine's own names are learnt.
    pub(super) fn learn(&mut self, text: &str) {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let users = ["USER", "SUDO_USER", "LOGNAME"].map(std::env::var);
        self.add("host", own.trim());
        if let Ok(home) = std::env::var("HOME") {
            self.add("home", &home);
        }
        for user in users.into_iter().flatten().filter(|user| user != "root") {
            self.add("user", &user);
        }
        // A log is neither, and names in it are learnt from the others.
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            return self.learn_json(&value, None);
        }
        if let Ok(table) = text.parse::<toml::Table>() {
            return self.learn_toml(&toml::Value::Table(table), None);
        }
        for line in text.lines() {
            if let Ok(value) = serde_json::from_str::<Value>(line) {
                self.learn_json(&value, None);
            }
        }
    }

    fn learn_json(&mut self, value: &Value, kind: Option<&'static str>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    let kind = NAMED.iter().find(|(named, _)| named == key);
                    self.learn_json(value, kind.map(|(_, kind)| *kind));
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.learn_json(value, kind)),
            Value::String(text) => kind.into_iter().for_each(|kind| self.add(kind, text)),
            _ => {}
        }
    }

    fn learn_toml(&mut self, value: &toml::Value, kind: Option<&'static str>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let kind = SET.iter().find(|(named, _)| named == key);
                    self.learn_toml(value, kind.map(|(_, kind)| *kind));
                }
            }
            toml::Value::Array(list) => list.iter().for_each(|value| self.learn_toml(value, kind)),
            toml::Value::String(text) => kind.into_iter().for_each(|kind| self.add(kind, text)),
            _ => {}
        }
    }

    fn add(&mut self, kind: &'static str, text: &str) {
        // Addresses are known by their form.
        if text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok() {
            return;
        }
        let text = if kind == "host" {
            without_port(text)
        } else {
            text
        };
        let is_name = text.chars().any(char::is_alphanumeric) && text != "localhost";
        if is_name && !self.known.contains_key(text) {
            let number = self.number(kind);
            self.known.insert(text.to_owned(), number);
        }
    }

    fn number(&mut self, kind: &'static str) -> String {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        format!("{kind}-{count}")
    }

    /// The text with numbers in their place.
    pub(super) fn replaced_in(&mut self, text: &str) -> String {
        // Paths contain names, and names others.
        let mut texts: Vec<(String, String)> = self
            .known
            .iter()
            .map(|(text, number)| (text.clone(), number.clone()))
            .collect();
        texts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let mut replaced = text.to_owned();
        for (name, number) in texts {
            // Within JSON it stands with escapes.
            let escaped = serde_json::to_string(&name).unwrap_or_default();
            let forms = BTreeSet::from([name.as_str(), escaped.trim_matches('"')]);
            for form in forms {
                replaced = replace_words(&replaced, form, &number);
            }
        }
        self.replace_addresses(&replaced)
    }

    /// Addresses, ring keys, ids and mailboxes are known by their form.
    fn replace_addresses(&mut self, text: &str) -> String {
        let is_part =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '@' | '-' | '_' | '+');
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(is_part) {
            let (before, from) = rest.split_at(begin);
            let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
            let (word, after) = from.split_at(end);
            out.push_str(before);
            // A sentence's end is no part of an address.
            let bare = word.trim_end_matches(['.', ':']);
            let kind = match kind_of(bare) {
                // The host of a URL, unless a number stands there already.
                "" if out.ends_with("://") && bare.contains('.') => "host",
                kind => kind,
            };
            out.push_str(&self.address(bare, kind));
            out.push_str(word.get(bare.len()..).unwrap_or_default());
            rest = after;
        }
        out + rest
    }

    /// The number of an address, or of what is of this kind; what is of none stays.
    fn address(&mut self, word: &str, kind: &'static str) -> String {
        let ip = word.parse::<IpAddr>().ok();
        let socket = word.parse::<SocketAddr>().ok();
        let (kind, ip, port) = match (ip, socket) {
            (Some(ip), _) => ("address", Some(ip), None),
            (None, Some(socket)) => ("address", Some(socket.ip()), Some(socket.port())),
            _ => (kind, None, None),
        };
        if kind.is_empty() || ip.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified()) {
            return word.to_owned();
        }
        // With a port or without, it is the same host.
        let key = ip.map_or_else(|| word.to_owned(), |ip| ip.to_string());
        let number = match self.known.get(&key) {
            Some(number) => number.clone(),
            None => {
                let number = self.number(kind);
                self.known.insert(key, number.clone());
                number
            }
        };
        port.map_or(number.clone(), |port| format!("{number}:{port}"))
    }
}

/// A host's name, of one that may have a port.
fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => text,
    }
}

/// What a word is that is no address; empty for one that stays.
fn kind_of(word: &str) -> &'static str {
    let hex = |b: u8| b.is_ascii_hexdigit();
    let base32 = |b: u8| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b);
    match word.len() {
        HEX_KEY if word.bytes().all(hex) => "key",
        ID if word.bytes().all(base32) => "id",
        _ if word.trim_matches('@').contains('@') => "mailbox",
        _ => "",
    }
}

/// Replaces `word` where it is not a part of a longer one.
fn replace_words(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, from) = rest.split_at(at);
        let after = from.get(word.len()..).unwrap_or_default();
        let within = before.chars().next_back().is_some_and(is_part)
            || after.chars().next().is_some_and(is_part);
        out.push_str(before);
        out.push_str(if within { word } else { by });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_become_the_same_numbers() {
        let key = "ab".repeat(32);
        let status = serde_json::json!({
            "name": "oslo", "ring": "ring.example.org", "ring_key": key,
            "links": [{ "name": "lima", "address": "udp://192.0.2.7:7400" }],
        });
        let mut names = Names::default();
        names.learn(&format!("{status:#}"));
        let log = "lima (192.0.2.7) is up at [2001:db8::1]:7, oslos is not; 127.0.0.1 stays, a@b.org and wss://web.b.net/x go.";
        let log = names.replaced_in(log);
        let shown = names.replaced_in(&status.to_string());
        for gone in ["lima", "192.0.2.7", "2001:db8::1", "a@b.org", "web.b.net"] {
            assert!(!log.contains(gone), "{log}");
        }
        assert!(log.contains("oslos is not; 127.0.0.1 stays"), "{log}");
        for gone in ["oslo", "ring.example.org", "abab", "192.0.2.7"] {
            assert!(!shown.contains(gone), "{shown}");
        }
        let address = log.split(['(', ')']).nth(1).unwrap();
        assert!(shown.contains(&format!("{address}:7400")), "{shown} {log}");
    }
}
