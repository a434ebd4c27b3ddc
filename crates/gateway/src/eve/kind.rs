//! Kinds of events, by Suricata's names, and which of them are written.

use std::fmt;
use std::str::FromStr;

/// A kind of event, as `event_type` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EveKind {
    /// A rule decided on a flow, a file or a message.
    Alert,
    /// Packets were dropped by themselves: connections that match a blocked one, or packets of a
    /// flow in which only one side has spoken.
    Drop,
    /// A flow is over.
    Flow,
    /// A file went by whole.
    FileInfo,
    /// The gateway's figures.
    Stats,
    /// The host that an HTTP request named.
    Http,
    /// The server's name in a TLS ClientHello.
    Tls,
    /// The name that a DNS message asked for.
    Dns,
    /// The server's name in a QUIC Initial packet.
    Quic,
}

impl EveKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Alert,
        Self::Drop,
        Self::Flow,
        Self::FileInfo,
        Self::Stats,
        Self::Http,
        Self::Tls,
        Self::Dns,
        Self::Quic,
    ];

    /// Its `event_type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Drop => "drop",
            Self::Flow => "flow",
            Self::FileInfo => "fileinfo",
            Self::Stats => "stats",
            Self::Http => "http",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Quic => "quic",
        }
    }

    /// It names what one flow asked for. There is one for each flow, which is many.
    #[must_use]
    pub fn is_protocol(self) -> bool {
        matches!(self, Self::Http | Self::Tls | Self::Dns | Self::Quic)
    }

    fn bit(self) -> u16 {
        let before = Self::ALL.iter().take_while(|kind| **kind != self);
        before.fold(1, |bit: u16, _| bit.rotate_left(1))
    }
}

/// Kinds that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EveKinds(u16);

impl EveKinds {
    /// It is among them.
    #[must_use]
    pub fn has(self, kind: EveKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// One of the kinds of which there is one for each flow is among them.
    #[must_use]
    pub fn has_protocols(self) -> bool {
        let mut kinds = EveKind::ALL.into_iter();
        kinds.any(|kind| kind.is_protocol() && self.has(kind))
    }
}

impl Default for EveKinds {
    /// All but those of protocols: these are as many as there are flows.
    fn default() -> Self {
        EveKind::ALL
            .into_iter()
            .filter(|kind| !kind.is_protocol())
            .collect()
    }
}

impl FromIterator<EveKind> for EveKinds {
    fn from_iter<T: IntoIterator<Item = EveKind>>(kinds: T) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | kind.bit()))
    }
}

/// A word that names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of event: take some of {all}", all = EveKinds(u16::MAX))]
pub struct NoKind(String);

impl FromStr for EveKinds {
    type Err = NoKind;

    fn from_str(text: &str) -> Result<Self, NoKind> {
        let named = |word: &str| {
            let mut kinds = EveKind::ALL.into_iter();
            let found = kinds.find(|kind| kind.name() == word.trim());
            found.ok_or_else(|| NoKind(word.trim().to_owned()))
        };
        text.split(',').map(named).collect()
    }
}

impl fmt::Display for EveKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = EveKind::ALL.into_iter().filter(|kind| self.has(*kind));
        let names: Vec<&str> = names.map(EveKind::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::{EveKind, EveKinds};

    #[test]
    fn kinds_are_written_as_they_are_read() {
        let kinds: EveKinds = "alert, tls,flow".parse().unwrap();
        assert_eq!(kinds.to_string(), "alert,flow,tls");
        assert!(kinds.has(EveKind::Tls) && !kinds.has(EveKind::Drop));
        assert!(kinds.has_protocols() && !EveKinds::default().has_protocols());
        let wrong = "alert,netflow".parse::<EveKinds>().unwrap_err();
        let text = wrong.to_string();
        assert!(
            text.contains("`netflow`") && text.contains("fileinfo"),
            "{text}"
        );
        assert_eq!(
            EveKinds::default().to_string(),
            "alert,drop,flow,fileinfo,stats"
        );
    }
}
