//! `[[service]]`: what other members may reach of this machine.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::limits::{SERVICE_NAME, SERVICE_STREAMS, SERVICE_STREAMS_PER_PEER};

/// One service.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// What others call it.
    pub name: String,
    /// Where it is.
    #[serde(deserialize_with = "target")]
    pub to: ServiceTarget,
    /// Names of the members that may use it; `*` stands for any characters. None may by default.
    #[serde(default)]
    pub from: Vec<String>,
    /// What its streams are sent with unless their users ask for less.
    #[serde(default = "one")]
    pub priority: f64,
    /// Streams at once.
    #[serde(default = "streams")]
    pub max: u64,
    /// Streams at once of each member.
    #[serde(default = "streams_per_peer")]
    pub max_per_peer: u64,
    /// Seconds for which nothing may come or go on a stream; 0 is no limit.
    #[serde(default)]
    pub idle: u64,
    /// Seconds that a stream may last; 0 is no limit.
    #[serde(default)]
    pub time: u64,
}

fn one() -> f64 {
    1.0
}

fn streams() -> u64 {
    u64::try_from(SERVICE_STREAMS).unwrap_or(u64::MAX)
}

fn streams_per_peer() -> u64 {
    u64::try_from(SERVICE_STREAMS_PER_PEER).unwrap_or(u64::MAX)
}

fn target<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ServiceTarget, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Where a service of this machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceTarget {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A UDP address.
    Udp(SocketAddr),
}

/// Why a text is no such place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an IP address and a port, such as 127.0.0.1:22 or udp://127.0.0.1:53, or unix: and an absolute path are needed"
)]
pub struct NoTarget;

impl FromStr for ServiceTarget {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<ServiceTarget, NoTarget> {
        let address = |text: &str| {
            let parsed = text.parse::<SocketAddr>().map_err(|_| NoTarget)?;
            Some(parsed).filter(|it| it.port() != 0).ok_or(NoTarget)
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            if path.is_absolute() && !text.contains('\0') {
                return Ok(ServiceTarget::Unix(path));
            }
            return Err(NoTarget);
        }
        match text.strip_prefix("udp://") {
            Some(rest) => address(rest).map(ServiceTarget::Udp),
            None => address(text.strip_prefix("tcp://").unwrap_or(text)).map(ServiceTarget::Tcp),
        }
    }
}

impl fmt::Display for ServiceTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceTarget::Tcp(address) => write!(f, "{address}"),
            ServiceTarget::Unix(path) => write!(f, "unix:{}", path.display()),
            ServiceTarget::Udp(address) => write!(f, "udp://{address}"),
        }
    }
}

impl ServiceTarget {
    /// `tcp`, `unix` or `udp`.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match self {
            ServiceTarget::Tcp(_) => "tcp",
            ServiceTarget::Unix(_) => "unix",
            ServiceTarget::Udp(_) => "udp",
        }
    }

    /// Its port, if it has one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            ServiceTarget::Tcp(address) | ServiceTarget::Udp(address) => Some(address.port()),
            ServiceTarget::Unix(_) => None,
        }
    }
}

/// What a service is called: 1 to 32 lower-case letters, digits, hyphens, underscores and dots,
/// the first of which is a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(String);

/// Why a text is no name of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a service has 1 to {SERVICE_NAME} lower-case letters, digits, hyphens, underscores and dots, and begins with a letter or a digit"
)]
pub struct NoServiceName;

impl FromStr for ServiceName {
    type Err = NoServiceName;

    fn from_str(text: &str) -> Result<ServiceName, NoServiceName> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = text.len() <= SERVICE_NAME
            && text.starts_with(plain)
            && text.chars().all(|c| plain(c) || "-_.".contains(c));
        fits.then(|| ServiceName(text.to_owned()))
            .ok_or(NoServiceName)
    }
}

impl ServiceName {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True if a member of this name fits a pattern: its characters, and `*` for any number of others.
#[must_use]
pub fn fits_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    if !pattern.contains('*') {
        return rest.is_empty();
    }
    let mut parts: Vec<&str> = parts.collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// True for what may stand in `from`.
pub(super) fn is_pattern(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*".contains(c);
    !text.is_empty() && text.len() <= 64 && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_survive_a_round_trip() {
        for text in [
            "127.0.0.1:22",
            "[::1]:80",
            "udp://127.0.0.1:53",
            "unix:/run/x.sock",
        ] {
            assert_eq!(text.parse::<ServiceTarget>().unwrap().to_string(), text);
        }
        let tcp = "tcp://127.0.0.1:22".parse::<ServiceTarget>().unwrap();
        assert_eq!((tcp.protocol(), tcp.port()), ("tcp", Some(22)));
        for wrong in ["", "22", "127.0.0.1:0", "localhost:22", "unix:x", "udp://x"] {
            assert!(wrong.parse::<ServiceTarget>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("*", "oslo", true),
            ("oslo", "oslo", true),
            ("oslo", "oslo2", false),
            ("lab-*", "lab-7", true),
            ("lab-*", "slab-7", false),
            ("*-lab", "a-lab", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*b", "ab", false),
            ("**", "", true),
        ] {
            assert_eq!(fits_pattern(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn names_are_plain_and_short() {
        for good in ["ssh", "db-1", "a.b_c", "8080"] {
            assert!(good.parse::<ServiceName>().is_ok(), "{good}");
        }
        for wrong in ["", "-x", "SSH", "a b", "a/b", "\u{1b}", &"x".repeat(33)] {
            assert!(wrong.parse::<ServiceName>().is_err(), "{wrong}");
        }
    }
}
