//! Round trips that somebody has asked for.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::{Address, MemberId};
use tokio::sync::oneshot;

use super::runtime::Runtime;
use super::{Echoed, Unreachable};
use crate::certificate::Certificate;
use crate::limits::{ECHOES, PEER_TIME};
use crate::link::LinkMessage;

#[derive(Debug)]
struct Waiting {
    member: MemberId,
    name: String,
    since: Instant,
    /// None until the link is up.
    sent: Option<Instant>,
    reply: oneshot::Sender<Result<Echoed, Unreachable>>,
}

/// The echoes that are out.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

impl Runtime {
    pub(super) fn begin_echo(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        reply: oneshot::Sender<Result<Echoed, Unreachable>>,
    ) {
        let name = certificate.name().to_string();
        if !self.link_to(now, certificate) || self.echoes.waiting.len() >= ECHOES {
            return answer(reply, Err(self.no_address(name)));
        }
        self.echoes.next += 1;
        let number = self.echoes.next;
        let waiting = Waiting {
            member: certificate.member(),
            name,
            since: now,
            sent: None,
            reply,
        };
        self.echoes.waiting.insert(number, waiting);
        self.send_echoes(now);
    }

    /// Sends the echoes whose link is up now: the time that a handshake takes is no round trip.
    pub(super) fn send_echoes(&mut self, now: Instant) {
        for (number, waiting) in &mut self.echoes.waiting {
            if waiting.sent.is_none() && self.links.is_up(&waiting.member) {
                waiting.sent = Some(now);
                self.links
                    .send(now, &waiting.member, LinkMessage::Echo(*number));
            }
        }
    }

    pub(super) fn echo_answered(&mut self, now: Instant, member: MemberId, number: u64) {
        let fits = self
            .echoes
            .waiting
            .get(&number)
            .is_some_and(|waiting| waiting.member == member);
        if !fits {
            return;
        }
        let Some(waiting) = self.echoes.waiting.remove(&number) else {
            return;
        };
        let address = self.path_to(&member);
        let rtt = now.saturating_duration_since(waiting.sent.unwrap_or(waiting.since));
        let rtt = Some(rtt);
        answer(waiting.reply, Ok(Echoed { address, rtt }));
    }

    fn path_to(&self, member: &MemberId) -> Option<Address> {
        let (_, peer) = self.links.up().find(|(id, _)| *id == member)?;
        peer.path().cloned()
    }

    pub(super) fn echo_link_down(&mut self, member: &MemberId) {
        self.end_echoes(|waiting| waiting.member == *member);
    }

    /// Nobody knows where the leaf is.
    pub(super) fn echo_not_found(&mut self, member: &MemberId) {
        let numbers = self.echoes.waiting.iter();
        let numbers: Vec<u64> = numbers
            .filter(|(_, waiting)| waiting.member == *member)
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            if let Some(waiting) = self.echoes.waiting.remove(&number) {
                answer(waiting.reply, Err(Unreachable::NotFound(waiting.name)));
            }
        }
    }

    pub(super) fn end_overdue_echoes(&mut self, now: Instant) {
        self.end_echoes(|waiting| now >= waiting.sent.unwrap_or(waiting.since) + PEER_TIME);
    }

    fn end_echoes(&mut self, ends: impl Fn(&Waiting) -> bool) {
        let numbers: Vec<u64> = self
            .echoes
            .waiting
            .iter()
            .filter(|(_, waiting)| ends(waiting))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            let Some(waiting) = self.echoes.waiting.remove(&number) else {
                continue;
            };
            // A link that stands while the echo is lost is another finding than no link at all.
            let outcome = match self.path_to(&waiting.member) {
                Some(path) => Ok(Echoed {
                    address: Some(path),
                    rtt: None,
                }),
                None => Err(Unreachable::Silent(waiting.name)),
            };
            answer(waiting.reply, outcome);
        }
    }
}

/// Whoever asked may have gone meanwhile.
pub(super) fn answer<T>(reply: oneshot::Sender<T>, value: T) {
    if reply.send(value).is_err() {
        tracing::trace!("an answer is no longer wanted");
    }
}
