//! Applications by the names in a confirmed message: hosts, and the application protocols of TLS.
//!
//! One look-up for each label of a host's name, whatever the number of signatures.

use std::collections::HashMap;

use super::Confidence;
use super::message::Finding;
use super::signature::Signature;

/// Names, and the signatures that name them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    hosts: HashMap<String, Vec<usize>>,
    protocols: HashMap<String, Vec<usize>>,
}

/// A signature that fits, and why.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) signature: usize,
    pub(super) confidence: Confidence,
    pub(super) why: String,
}

impl Names {
    pub(super) fn new(signatures: &[Signature]) -> Self {
        let mut names = Self::default();
        for (index, signature) in signatures.iter().enumerate() {
            for host in &signature.hosts {
                names.hosts.entry(host.clone()).or_default().push(index);
            }
            for protocol in &signature.alpn {
                names
                    .protocols
                    .entry(protocol.clone())
                    .or_default()
                    .push(index);
            }
        }
        names
    }

    /// Signatures that fit what was found of an application which they refine.
    pub(super) fn of(
        &self,
        signatures: &[Signature],
        application: &str,
        finding: &Finding,
    ) -> Vec<Named> {
        let mut named = Vec::new();
        let refines = |index: &usize| {
            signatures
                .get(*index)
                .is_some_and(|signature| signature.refines.iter().any(|name| name == application))
        };
        for protocol in &finding.protocols {
            let indices = self.protocols.get(protocol).into_iter().flatten();
            named.extend(indices.copied().filter(refines).map(|signature| Named {
                signature,
                confidence: finding.confidence,
                why: format!("{}, with the application protocol {protocol}", finding.why),
            }));
        }
        let details = &finding.details;
        for name in [&details.sni, &details.host, &details.query]
            .into_iter()
            .flatten()
        {
            let Some((suffix, indices)) = self.by_suffix(name) else {
                continue;
            };
            // The client chooses the name: it says what is asked for, not who serves it.
            named.extend(
                indices
                    .iter()
                    .copied()
                    .filter(refines)
                    .map(|signature| Named {
                        signature,
                        confidence: finding.confidence.min(Confidence::Likely),
                        why: format!("{}, to a host of {suffix}", finding.why),
                    }),
            );
        }
        named
    }

    /// The longest known suffix of whole labels, and its signatures.
    fn by_suffix(&self, name: &str) -> Option<(&str, &[usize])> {
        if self.hosts.is_empty() {
            return None;
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let mut rest = match name.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => name.as_str(),
        };
        loop {
            if let Some((suffix, indices)) = self.hosts.get_key_value(rest) {
                return Some((suffix, indices));
            }
            rest = rest.split_once('.')?.1;
        }
    }
}
