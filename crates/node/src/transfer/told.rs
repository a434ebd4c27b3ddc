//! What the log tells of files: a line for each that was sent, received or refused.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::record::{Direction, Phase, Record};
use super::wire::Offer;
use crate::clock::unix_seconds;
use crate::control::InboxItem;
use crate::limits::{REFUSALS, REFUSALS_OF_MEMBER};
use crate::text::printable;

/// A transfer has ended. Nothing is told of one that has not.
pub(super) fn ended(record: &Record) {
    let Record {
        peer_name,
        file,
        size,
        ..
    } = record;
    // As values and not as text of our own: names are quoted then, whatever stands in them.
    let (id, path) = (record.id.to_string(), record.path.display().to_string());
    let hash = record.hash.map(|hash| hash.to_hex().to_string());
    let hash = hash.as_deref().unwrap_or_default();
    let reason = record.reason.as_deref().unwrap_or_default();
    match (record.direction, record.phase) {
        (_, Phase::Waiting | Phase::Hashing | Phase::Connecting | Phase::Active) => {}
        (Direction::Receive, Phase::Done) => {
            tracing::info!(
                from = peer_name,
                file,
                size,
                path,
                hash,
                id,
                "a file was received"
            );
        }
        (Direction::Send, Phase::Done) => {
            tracing::info!(
                to = peer_name,
                file,
                size,
                path,
                hash,
                id,
                "a file was sent"
            );
        }
        (Direction::Receive, Phase::Failed | Phase::Cancelled) => {
            tracing::info!(
                from = peer_name,
                file,
                size,
                hash,
                id,
                reason,
                "a file was not received"
            );
        }
        (Direction::Send, Phase::Failed | Phase::Cancelled) => {
            tracing::info!(
                to = peer_name,
                file,
                size,
                path,
                hash,
                id,
                reason,
                "a file was not sent"
            );
        }
    }
}

/// A person is asked about a file.
pub(super) fn asks(record: &Record) {
    let Record {
        peer_name,
        file,
        size,
        ..
    } = record;
    let id = record.id.to_string();
    tracing::info!(
        from = peer_name,
        file,
        size,
        id,
        "a file waits for an answer"
    );
}

/// A file that a member offers is not taken, now or ever. It is remembered, and told once however
/// often the member comes with it.
pub(super) fn refused(
    refusals: &Refusals,
    from: &str,
    offer: &Offer,
    reason: &str,
    try_later: bool,
) {
    let id = super::TransferId(*offer.id).to_string();
    let hash = blake3::Hash::from_bytes(*offer.hash).to_hex().to_string();
    // Of a name that is not checked yet the beginning is enough.
    let (file, size) = (printable(&offer.file, 300), offer.size);
    let item = InboxItem {
        id: id.clone(),
        state: if try_later { "later" } else { "refused" }.to_owned(),
        from: from.to_owned(),
        file: file.clone(),
        kind: "file".to_owned(),
        size,
        blake3: Some(hash.clone()),
        path: None,
        offered: unix_seconds(),
        ended: None,
        rule: 0,
        reason: Some(reason.to_owned()),
        hook: None,
    };
    if refusals.remember(item) {
        tracing::info!(from, file, size, hash, id, reason, "a file was refused");
    }
}

/// The latest offers that were refused before they had a record. Only in memory, and bounded: who
/// offers much pushes out its own first.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    latest: Mutex<VecDeque<InboxItem>>,
}

impl Refusals {
    /// False if this offer has been refused for this reason before.
    fn remember(&self, item: InboxItem) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &InboxItem| known.id == item.id && known.from == item.from;
        if let Some(known) = latest.iter_mut().find(|known| is_it(known)) {
            let is_new = known.reason != item.reason;
            (known.reason, known.state) = (item.reason, item.state);
            return is_new;
        }
        let of_sender = latest.iter().filter(|known| known.from == item.from);
        if of_sender.count() >= REFUSALS_OF_MEMBER {
            let first = latest.iter().position(|known| known.from == item.from);
            first.and_then(|first| latest.remove(first));
        } else if latest.len() >= REFUSALS {
            latest.pop_front();
        }
        latest.push_back(item);
        true
    }

    /// Oldest first.
    pub(super) fn items(&self) -> Vec<InboxItem> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter().cloned().collect()
    }

    /// An offer that is taken now after all.
    pub(super) fn forget(&self, id: &str) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.retain(|known| known.id != id);
    }
}
