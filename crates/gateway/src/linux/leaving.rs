//! With what packets leave the queue: each of them once, at once or when it has waited.

use std::collections::HashMap;

use super::queue_pair::PacketId;
use super::wire::Queued;
use crate::packet::{LinkType, replace_payload};
use crate::verdict::Verdict;

/// A verdict as the queue takes it.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) id: PacketId,
    pub(super) accept: bool,
    pub(super) mark: Option<u32>,
    pub(super) changed: Option<Vec<u8>>,
}

/// What a packet that waits has to leave with.
#[derive(Debug, Default)]
struct Waiting {
    mark: Option<u32>,
    changed: Option<Vec<u8>>,
    spoilt: bool,
}

/// Packets that wait, and how many have been dropped.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// By their tokens; those that leave as they came are not here.
    waiting: HashMap<u64, Waiting>,
    held: u64,
    dropped: u64,
}

impl Leaving {
    /// Packets that wait.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Packets that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What the queue gets for a packet now; `None`: it waits for [`release`](Self::release).
    /// `payload` has to take the place of its own.
    pub(super) fn decide(
        &mut self,
        id: PacketId,
        packet: &Queued<'_>,
        verdict: Verdict,
        mark: Option<u32>,
        payload: Option<&[u8]>,
    ) -> Option<Given> {
        // Spoilt is a cut packet that was to wait, whose rest no scan would see, and one that
        // cannot take its new payload. It is dropped, with a mark too: its sender repeats it.
        let mut spoilt = packet.cut && verdict.is_held();
        let changed = payload.map(|payload| {
            let mut bytes = packet.bytes.to_vec();
            spoilt |= packet.cut || !replace_payload(LinkType::RawIp, &mut bytes, payload);
            bytes
        });
        if verdict.is_held() {
            // Spoilt or not, the gateway lets it go later: dropped now, it would get two verdicts.
            self.held = self.held.saturating_add(1);
            if mark.is_some() || changed.is_some() || spoilt {
                let waiting = Waiting {
                    mark,
                    changed,
                    spoilt,
                };
                self.waiting.insert(id.token(), waiting);
            }
            return None;
        }
        if !verdict.accepts() || spoilt {
            self.dropped = self.dropped.saturating_add(1);
        }
        Some(Given {
            id,
            // What is settled goes on to the chain that saves the mark; that one drops what is
            // blocked.
            accept: (verdict.accepts() || mark.is_some()) && !spoilt,
            mark,
            changed,
        })
    }

    /// What the queue gets for a packet that has waited.
    pub(super) fn release(&mut self, id: PacketId, verdict: Verdict) -> Given {
        let Waiting {
            mark,
            changed,
            spoilt,
        } = self.waiting.remove(&id.token()).unwrap_or_default();
        let accept = verdict.accepts() && !spoilt;
        self.held = self.held.saturating_sub(1);
        if !accept {
            self.dropped = self.dropped.saturating_add(1);
        }
        Given {
            id,
            accept,
            mark,
            changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Leaving, PacketId};
    use crate::linux::wire::Queued;
    use crate::verdict::Verdict;

    fn queued(cut: bool) -> Queued<'static> {
        Queued {
            id: 7,
            mark: 0,
            bytes: &[],
            cut,
            sender: None,
            came_by: 0,
            unverified: false,
        }
    }

    /// The gateway holds each of them, and lets it go once: cut, or with a payload that it cannot
    /// take.
    #[test]
    fn spoilt_packets_that_wait_get_one_verdict() {
        let id = PacketId::of(7).unwrap();
        for (cut, payload, accept) in [
            (false, None, true),
            (true, None, false),
            (false, Some(b"other".as_slice()), false),
        ] {
            let mut leaving = Leaving::default();
            let first = leaving.decide(id, &queued(cut), Verdict::HOLD, Some(3), payload);
            assert!(first.is_none(), "{cut} {payload:?}");
            assert_eq!((leaving.held(), leaving.dropped()), (1, 0));
            let given = leaving.release(id, Verdict::ACCEPT);
            assert_eq!((given.accept, given.mark), (accept, Some(3)));
            assert_eq!((leaving.held(), leaving.dropped()), (0, u64::from(!accept)));
        }
    }
}
