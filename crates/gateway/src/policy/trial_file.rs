//! How a test is written in a policy file. All that is wrong with one is found at once, each fault
//! at its key.

use std::net::SocketAddr;

use serde::Deserialize;
use toml::Spanned;

use super::quantities::bytes;
use super::rule::Action;
use super::rule_file::Fault;
use super::schedule::Moment;
use super::trial::{Trial, TrialFile};
use crate::classify::{Confidence, UNKNOWN};
use crate::infohash::InfoHash;
use crate::packet::L4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrialEntry {
    pub(super) name: String,
    #[serde(default)]
    l4: Option<L4>,
    client: Spanned<String>,
    server: Spanned<String>,
    app: Option<String>,
    confidence: Option<Confidence>,
    host: Option<String>,
    member: Option<String>,
    infohash: Option<Spanned<String>>,
    time: Option<Spanned<String>>,
    file: Option<FileEntry>,
    message: Option<Spanned<String>>,
    expect: Action,
    pub(super) rule: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    size: Option<Spanned<String>>,
    #[serde(default)]
    part: bool,
}

impl TrialEntry {
    /// The test that begins in this line.
    pub(super) fn resolve(&self, line: usize) -> Result<Trial, Vec<Fault>> {
        let mut faults = Vec::new();
        let trial = self.read(line, &mut faults);
        match trial {
            Some(trial) if faults.is_empty() => Ok(trial),
            _ => Err(faults),
        }
    }

    fn read(&self, line: usize, faults: &mut Vec<Fault>) -> Option<Trial> {
        if let (Some(_), Some(message)) = (&self.file, &self.message) {
            let reason = "it has a file and a message; write two tests";
            faults.push(Fault::at(message, reason));
        }
        let at = match &self.time {
            Some(time) => kept(time, Moment::parse(time.get_ref()), faults),
            None => Some(Moment::default()),
        };
        let file = self.file.as_ref().map(|file| TrialFile {
            name: file.name.clone(),
            kind: file.kind.clone(),
            part: file.part,
            size: file.size.as_ref().and_then(|size| {
                let text = size.get_ref();
                let read = bytes(text).ok_or_else(|| format!("`{text}` is no size such as 3 MiB"));
                kept(size, read, faults)
            }),
        });
        let infohash = self.infohash.as_ref().and_then(|key| {
            let text = key.get_ref();
            let read = InfoHash::parse(text).map_err(|error| format!("`{text}`: {error}"));
            kept(key, read, faults)
        });
        // Both are read before one is missed: each may have its fault.
        let client = kept(&self.client, address(self.client.get_ref()), faults);
        let server = kept(&self.server, address(self.server.get_ref()), faults);
        Some(Trial {
            name: self.name.clone(),
            line,
            l4: self.l4.unwrap_or(L4::Tcp),
            client: client?,
            server: server?,
            application: self.app.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            confidence: self.confidence.unwrap_or(Confidence::Certain),
            host: self.host.clone(),
            member: self.member.clone(),
            infohash,
            at: at?,
            file,
            message: self.message.as_ref().map(|text| text.get_ref().clone()),
            action: self.expect,
            rule: self.rule.as_ref().map(|rule| rule.get_ref().clone()),
        })
    }
}

/// What a key says, or the fault noted at it.
fn kept<T>(key: &Spanned<String>, read: Result<T, String>, faults: &mut Vec<Fault>) -> Option<T> {
    read.map_err(|reason| faults.push(Fault::at(key, reason)))
        .ok()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address with a port, such as 10.1.2.3:6881"))
}
