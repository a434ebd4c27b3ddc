//! How a test is written in a policy file.

use std::net::SocketAddr;

use serde::Deserialize;

use super::quantities::bytes;
use super::rule::Action;
use super::schedule::Moment;
use super::trial::{Trial, TrialFile};
use crate::classify::{Confidence, UNKNOWN};
use crate::packet::L4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrialEntry {
    name: String,
    #[serde(default)]
    l4: Option<L4>,
    client: String,
    server: String,
    app: Option<String>,
    confidence: Option<Confidence>,
    host: Option<String>,
    member: Option<String>,
    time: Option<String>,
    file: Option<FileEntry>,
    message: Option<String>,
    expect: Action,
    rule: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    size: Option<String>,
    #[serde(default)]
    part: bool,
}

impl TrialEntry {
    pub(super) fn resolve(&self, line: usize) -> Result<Trial, String> {
        self.read(line)
            .map_err(|reason| format!("test `{}`: {reason}", self.name))
    }

    fn read(&self, line: usize) -> Result<Trial, String> {
        if self.file.is_some() && self.message.is_some() {
            return Err("it has a file and a message; write two tests".to_owned());
        }
        let at = match &self.time {
            Some(time) => Moment::parse(time)?,
            None => Moment::default(),
        };
        let file = match &self.file {
            Some(file) => Some(TrialFile {
                name: file.name.clone(),
                kind: file.kind.clone(),
                part: file.part,
                size: match &file.size {
                    Some(size) => Some(
                        bytes(size).ok_or_else(|| format!("`{size}` is no size such as 3 MiB"))?,
                    ),
                    None => None,
                },
            }),
            None => None,
        };
        Ok(Trial {
            name: self.name.clone(),
            line,
            l4: self.l4.unwrap_or(L4::Tcp),
            client: address(&self.client)?,
            server: address(&self.server)?,
            application: self.app.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            confidence: self.confidence.unwrap_or(Confidence::Certain),
            host: self.host.clone(),
            member: self.member.clone(),
            at,
            file,
            message: self.message.clone(),
            action: self.expect,
            rule: self.rule.clone(),
        })
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address with a port, such as 10.1.2.3:6881"))
}
