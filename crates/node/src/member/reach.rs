//! Finding a peer's QUIC address: link, HELLO, PING and PONG, in that order.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

use ringway_transport::{Address, MemberId, Protocol};
use tokio::sync::oneshot;

use super::Unreachable;
use super::echo::answer;
use super::runtime::Runtime;
use crate::certificate::{Certificate, Role};
use crate::limits::{ECHOES, HELLO_PAUSE, PEER_TIME, QUIC_TIME, SEEK_AFTER, SEEK_AGAIN};
use crate::link::LinkMessage;

type Reply = oneshot::Sender<Result<Vec<SocketAddr>, Unreachable>>;

#[derive(Debug)]
struct Waiting {
    certificate: Certificate,
    since: Instant,
    /// When a leaf that is silent is looked for (again).
    seek: Instant,
    /// When the peer's HELLO is asked for (again).
    ask_again: Instant,
    reply: Reply,
}

impl Waiting {
    fn member(&self) -> MemberId {
        self.certificate.member()
    }

    fn name(&self) -> String {
        self.certificate.name().to_string()
    }
}

/// Who waits for a peer's QUIC address.
#[derive(Debug, Default)]
pub(super) struct Reaching {
    waiting: Vec<Waiting>,
}

impl Runtime {
    pub(super) fn begin_reach(&mut self, now: Instant, certificate: &Certificate, reply: Reply) {
        let member = certificate.member();
        let name = certificate.name().to_string();
        let up = self.link_to(now, certificate);
        if !up || self.reaching.waiting.len() >= ECHOES {
            return answer(reply, Err(self.no_address(name)));
        }
        self.links.keep_working(now, &member);
        let waiting = Waiting {
            certificate: certificate.clone(),
            since: now,
            seek: now + SEEK_AFTER,
            ask_again: now,
            reply,
        };
        self.reaching.waiting.push(waiting);
        self.reach_progress(now, &member);
        self.ask_for_hellos(now);
    }

    fn quic_addresses(&self, now: Instant, member: &MemberId) -> Vec<SocketAddr> {
        let usable = self.validator.usable(now, member);
        let quic = usable
            .iter()
            .filter_map(|(descriptor, _)| match descriptor.address {
                Address::Quic(address) => Some(address),
                _ => None,
            });
        quic.collect()
    }

    /// Answers those who wait for `member`, if an address of it is proven by now and the link
    /// stands.
    pub(super) fn reach_progress(&mut self, now: Instant, member: &MemberId) {
        // A link tells the peer who we are, which it must know before our QUIC connection comes.
        if !self.links.is_up(member) {
            return;
        }
        let addresses = self.quic_addresses(now, member);
        if addresses.is_empty() {
            return self.give_up_quic(now, member);
        }
        for waiting in self
            .reaching
            .waiting
            .extract_if(.., |waiting| waiting.member() == *member)
        {
            answer(waiting.reply, Ok(addresses.clone()));
        }
    }

    /// A peer that has no QUIC address, or none that answers soon, is reached over the link.
    fn give_up_quic(&mut self, now: Instant, member: &MemberId) {
        if !self.validator.has_heard_of(member) {
            return;
        }
        let advertised = self.validator.advertised(now, member);
        let has_one = advertised
            .iter()
            .any(|known| known.descriptor.protocol() == Protocol::Quic);
        let too_late = |waiting: &Waiting| now >= waiting.since + QUIC_TIME;
        let given_up = self.reaching.waiting.extract_if(.., |waiting| {
            waiting.member() == *member && (!has_one || too_late(waiting))
        });
        for waiting in given_up {
            let reason = Unreachable::NoQuic(waiting.name());
            answer(waiting.reply, Err(reason));
        }
    }

    /// No way to the leaf has been found.
    pub(super) fn leaf_not_found(&mut self, member: &MemberId, reason: fn(String) -> Unreachable) {
        self.echo_not_found(member, reason);
        let waiting = &mut self.reaching.waiting;
        for waiting in waiting.extract_if(.., |waiting| waiting.member() == *member) {
            let reason = reason(waiting.name());
            answer(waiting.reply, Err(reason));
        }
    }

    pub(super) fn reach_link_up(&mut self, now: Instant, member: &MemberId) {
        self.end_search(member);
        self.echo_link_up(now, member);
        self.reach_progress(now, member);
    }

    /// A HELLO is one packet, and packets are lost: whoever is waited for is asked again, and its
    /// addresses are tried again.
    fn ask_for_hellos(&mut self, now: Instant) {
        let mut asked = Vec::new();
        for waiting in &mut self.reaching.waiting {
            if now >= waiting.ask_again && self.links.is_up(&waiting.member()) {
                waiting.ask_again = now + HELLO_PAUSE;
                asked.push(waiting.member());
            }
        }
        for member in asked {
            self.validator.retry(now, &member);
            self.links.send(now, &member, LinkMessage::HelloWanted);
        }
    }

    /// A leaf that does not answer may have restarted, and is where the ring says by now, whatever
    /// links and dials there are.
    fn seek_silent_leaves(&mut self, now: Instant) {
        let mut leaves = self.silent_leaves_of_echoes(now);
        let waiting = self.reaching.waiting.iter_mut();
        for waiting in waiting.filter(|w| now >= w.seek && w.certificate.role() == Role::Leaf) {
            waiting.seek = now + SEEK_AGAIN;
            leaves.push(waiting.certificate.clone());
        }
        for certificate in leaves {
            self.search(now, &certificate);
        }
    }

    /// Ends what has waited for too long.
    pub(super) fn end_overdue(&mut self, now: Instant) {
        self.end_overdue_echoes(now);
        self.look_after_lookups(now);
        self.look_after_searches(now);
        self.seek_silent_leaves(now);
        self.send_echoes(now);
        self.ask_for_hellos(now);
        let waited_for: BTreeSet<MemberId> =
            self.reaching.waiting.iter().map(Waiting::member).collect();
        for member in waited_for {
            self.reach_progress(now, &member);
        }
        let (links, whereabouts) = (&self.links, &self.whereabouts);
        let overdue = |waiting: &mut Waiting| {
            let late = now >= waiting.since + PEER_TIME;
            let member = &waiting.member();
            late || !(links.knows(member) || whereabouts.searches(member))
        };
        for waiting in self.reaching.waiting.extract_if(.., overdue) {
            let reason = match links.is_up(&waiting.member()) {
                true => Unreachable::NoQuic(waiting.name()),
                false => Unreachable::Silent(waiting.name()),
            };
            answer(waiting.reply, Err(reason));
        }
    }
}
