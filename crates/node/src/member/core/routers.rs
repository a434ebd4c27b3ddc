//! Messages for routers: the ring names a router by its key, and DNS says who that is.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringway_overlay::RingKey;

use super::{Core, Outcome};
use crate::certificate::Certificate;
use crate::limits::{UNRESOLVED, UNRESOLVED_MESSAGES};
use crate::link::LinkMessage;

/// Messages for routers whose certificates are being looked for.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    messages: BTreeMap<RingKey, Vec<LinkMessage>>,
}

impl Core {
    /// Sends a message to a router; looks its certificate up and makes a link first where needed.
    pub(in crate::member) fn send_to_router(&mut self, to: RingKey, message: LinkMessage) {
        if let Some(certificate) = self.directory.cached_router(&to) {
            self.link_to(&certificate);
            self.send(&certificate.member(), message);
            return;
        }
        let waiting = &mut self.unresolved.messages;
        if let Some(messages) = waiting.get_mut(&to) {
            if messages.len() < UNRESOLVED_MESSAGES {
                messages.push(message);
            }
            return;
        }
        if waiting.len() >= UNRESOLVED {
            self.counted.routers_unresolved_dropped += 1;
            return;
        }
        // DNS may take seconds, for which this task does not wait.
        waiting.insert(to, vec![message]);
        let directory = Arc::clone(&self.directory);
        let outcomes = self.outcomes.clone();
        tokio::spawn(async move {
            let found = directory.router(to).await;
            if let Err(error) = &found {
                tracing::info!(%error, "a router could not be looked up");
            }
            let outcome = Outcome::RouterResolved(to, found.ok().map(Box::new));
            if outcomes.send(outcome).await.is_err() {
                tracing::debug!("the member's task has ended");
            }
        });
    }

    /// DNS has answered: what waits is sent, or the overlay learns that there is no such router.
    pub(super) fn router_resolved(&mut self, key: RingKey, certificate: Option<Box<Certificate>>) {
        let messages = self.unresolved.messages.remove(&key).unwrap_or_default();
        let Some(certificate) = certificate else {
            if let Some(chord) = &mut self.chord {
                chord.handle_unreachable(self.now, key);
            }
            return;
        };
        self.link_to(&certificate);
        for message in messages {
            self.send(&certificate.member(), message);
        }
    }
}
