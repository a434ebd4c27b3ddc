//! Round trips that somebody has asked for.

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::{Address, MemberId};
use tokio::sync::oneshot;

use super::runtime::Runtime;
use super::{Echoed, Unreachable};
use crate::certificate::{Certificate, Role};
use crate::limits::{ECHOES, PEER_TIME, SEEK_AFTER, SEEK_AGAIN};
use crate::link::LinkMessage;

#[derive(Debug)]
struct Waiting {
    certificate: Certificate,
    since: Instant,
    /// When it left, and over which path; none until the link is up.
    sent: Option<(Instant, Option<Address>)>,
    /// When a leaf that is silent is looked for (again).
    seek: Instant,
    reply: oneshot::Sender<Result<Echoed, Unreachable>>,
}

/// The echoes that are out.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

impl Waiting {
    fn member(&self) -> MemberId {
        self.certificate.member()
    }

    fn begun(&self) -> Instant {
        self.sent.as_ref().map_or(self.since, |(sent, _)| *sent)
    }
}

impl Echoes {
    fn add(&mut self, waiting: Waiting) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, waiting);
        self.next
    }

    fn ask_again(&mut self, member: &MemberId) {
        let waiting = self.waiting.values_mut();
        for waiting in waiting.filter(|waiting| waiting.member() == *member) {
            waiting.sent = None;
        }
    }
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
        self.links.keep_working(now, &certificate.member());
        let waiting = Waiting {
            certificate: certificate.clone(),
            since: now,
            sent: None,
            seek: now + SEEK_AFTER,
            reply,
        };
        self.echoes.add(waiting);
        self.send_echoes(now);
    }

    /// Sends the echoes whose link is up now: the time that a handshake takes is no round trip.
    /// Those that left over a path that is not used any more leave again, under another number.
    pub(super) fn send_echoes(&mut self, now: Instant) {
        let due = self.echoes.waiting.iter().filter(|(_, waiting)| {
            let path = self.links.path(&waiting.member());
            let is_up = self.links.is_up(&waiting.member());
            let sent = waiting.sent.as_ref();
            is_up && sent.is_none_or(|(_, over)| over.as_ref() != path)
        });
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        for number in due {
            let Some(mut waiting) = self.echoes.waiting.remove(&number) else {
                continue;
            };
            let member = waiting.member();
            waiting.sent = Some((now, self.links.path(&member).cloned()));
            let number = self.echoes.add(waiting);
            self.links.send(now, &member, LinkMessage::Echo(number));
        }
    }

    /// A handshake has succeeded: the peer may have restarted and forgotten what was asked.
    pub(super) fn echo_link_up(&mut self, now: Instant, member: &MemberId) {
        self.echoes.ask_again(member);
        self.send_echoes(now);
    }

    /// Leaves that do not answer, and for which it is time to look.
    pub(super) fn silent_leaves_of_echoes(&mut self, now: Instant) -> Vec<Certificate> {
        let waiting = self.echoes.waiting.values_mut();
        let due = waiting.filter(|w| now >= w.seek && w.certificate.role() == Role::Leaf);
        due.map(|waiting| {
            waiting.seek = now + SEEK_AGAIN;
            waiting.certificate.clone()
        })
        .collect()
    }

    pub(super) fn echo_answered(&mut self, now: Instant, member: MemberId, number: u64) {
        let fits = self
            .echoes
            .waiting
            .get(&number)
            .is_some_and(|waiting| waiting.member() == member);
        if !fits {
            return;
        }
        let Some(waiting) = self.echoes.waiting.remove(&number) else {
            return;
        };
        let address = self.path_to(&member);
        let rtt = now.saturating_duration_since(waiting.begun());
        let rtt = Some(rtt);
        answer(waiting.reply, Ok(Echoed { address, rtt }));
    }

    fn path_to(&self, member: &MemberId) -> Option<Address> {
        let (_, peer) = self.links.up().find(|(id, _)| *id == member)?;
        peer.path().cloned()
    }

    pub(super) fn echo_link_down(&mut self, now: Instant, member: &MemberId) {
        let asked = |w: &&Waiting| w.member() == *member && w.sent.is_some();
        let leaf = self.echoes.waiting.values().find(asked);
        let leaf = leaf.filter(|waiting| waiting.certificate.role() == Role::Leaf);
        // It may have restarted somewhere else.
        if let Some(certificate) = leaf.map(|waiting| waiting.certificate.clone())
            && self.search(now, &certificate)
        {
            return self.echoes.ask_again(member);
        }
        self.end_echoes(|waiting| waiting.member() == *member);
    }

    /// No way to the leaf has been found.
    pub(super) fn echo_not_found(&mut self, member: &MemberId, reason: fn(String) -> Unreachable) {
        let numbers = self.echoes.waiting.iter();
        let numbers: Vec<u64> = numbers
            .filter(|(_, waiting)| waiting.member() == *member)
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            if let Some(waiting) = self.echoes.waiting.remove(&number) {
                let name = waiting.certificate.name().to_string();
                answer(waiting.reply, Err(reason(name)));
            }
        }
    }

    pub(super) fn end_overdue_echoes(&mut self, now: Instant) {
        let late = |waiting: &Waiting| {
            // However often it left again.
            let all = waiting.since + 2 * PEER_TIME;
            now >= all.min(waiting.begun() + PEER_TIME)
        };
        self.end_echoes(late);
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
            // A link over which something comes while the echo is lost is another finding than one
            // over which nothing does.
            let heard = self.links.up().any(|(member, peer)| {
                *member == waiting.member() && peer.last_heard() >= waiting.since
            });
            let outcome = match self.path_to(&waiting.member()).filter(|_| heard) {
                Some(path) => Ok(Echoed {
                    address: Some(path),
                    rtt: None,
                }),
                None => Err(Unreachable::Silent(waiting.certificate.name().to_string())),
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
