//! Finding a peer's QUIC address: link, HELLO, PING and PONG, in that order.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

use ringway_transport::{Address, MemberId, Protocol};
use tokio::sync::oneshot;

use crate::certificate::{Certificate, Role};
use crate::limits::{ECHOES, HELLO_PAUSE, PEER_TIME, QUIC_TIME, SEEK_AFTER, SEEK_AGAIN};
use crate::link::{LinkMessage, Urgency};
use crate::member::answer::{Reason, Unreachable, answer};
use crate::member::core::{Core, Signal};
use crate::member::handle::MemberHandle;
use crate::member::service::{LinkEvent, Service};
use crate::state::StateError;

/// A peer is to be reached over QUIC.
#[derive(Debug)]
pub(in crate::member) struct Command {
    certificate: Box<Certificate>,
    reply: oneshot::Sender<Result<Vec<SocketAddr>, Unreachable>>,
}

impl MemberHandle {
    /// Makes a link to the peer and gives its proven QUIC addresses, cheapest first.
    pub(crate) async fn reach(
        &self,
        certificate: Certificate,
    ) -> Result<Vec<SocketAddr>, Unreachable> {
        let certificate = Box::new(certificate);
        let answer = self.ask(|reply| Command { certificate, reply }).await;
        answer.unwrap_or(Err(Unreachable::Stopping))
    }

    /// A handle whose every search for `peer` ends with `outcome`; one for another never ends.
    #[cfg(test)]
    pub(crate) fn reaching(
        peer: MemberId,
        outcome: Result<Vec<SocketAddr>, Unreachable>,
    ) -> MemberHandle {
        let (handle, mut commands) = MemberHandle::channel();
        tokio::spawn(async move {
            let mut endless = Vec::new();
            while let Some(command) = commands.recv().await {
                let Ok(command) = command.downcast::<Command>() else {
                    continue;
                };
                if command.certificate.member() == peer {
                    command.reply.send(outcome.clone()).unwrap_or_default();
                } else {
                    endless.push(command.reply);
                }
            }
        });
        handle
    }
}

#[derive(Debug)]
struct Waiting {
    certificate: Certificate,
    since: Instant,
    /// When a leaf that is silent is looked for (again).
    seek: Instant,
    /// When the peer's HELLO is asked for (again).
    ask_again: Instant,
    reply: oneshot::Sender<Result<Vec<SocketAddr>, Unreachable>>,
}

impl Waiting {
    fn member(&self) -> MemberId {
        self.certificate.member()
    }

    fn is_leaf(&self) -> bool {
        self.certificate.role() == Role::Leaf
    }

    fn fail(self, reason: Reason) {
        let name = self.certificate.name().to_string();
        answer(self.reply, Err(reason(name)));
    }
}

/// Those who wait for a peer's QUIC address.
#[derive(Debug)]
pub(in crate::member) struct Reach {
    waiting: Vec<Waiting>,
    /// When to look at the links of those who are waited for.
    look: Instant,
}

impl Reach {
    fn begin(&mut self, core: &mut Core, command: Command) {
        let Command { certificate, reply } = command;
        let now = core.now;
        let waiting = Waiting {
            since: now,
            seek: now + SEEK_AFTER,
            ask_again: now,
            reply,
            certificate: *certificate,
        };
        if !core.link_to(&waiting.certificate) || self.waiting.len() >= ECHOES {
            return waiting.fail(core.no_address());
        }
        let member = waiting.member();
        core.links.keep_working(now, &member, Urgency::Soon);
        self.waiting.push(waiting);
        self.progress(core, &member);
        self.ask_for_hellos(core);
    }

    /// Answers those who wait for `member`, if an address of it is proven by now and the link
    /// stands.
    fn progress(&mut self, core: &Core, member: &MemberId) {
        // A link tells the peer who we are, which it must know before our QUIC connection comes.
        if self.waiting.is_empty() || !core.links.is_up(member) {
            return;
        }
        let addresses = quic_addresses(core, member);
        if addresses.is_empty() {
            return self.give_up_quic(core, member);
        }
        for waiting in self.extract(|waiting| waiting.member() == *member) {
            answer(waiting.reply, Ok(addresses.clone()));
        }
    }

    /// A peer that has no QUIC address, or none that answers soon, is reached over the link.
    fn give_up_quic(&mut self, core: &Core, member: &MemberId) {
        let now = core.now;
        if !core.validator.has_heard_of(member) {
            return;
        }
        let advertised = core.validator.advertised(now, member);
        let has_one = advertised
            .iter()
            .any(|known| known.descriptor.protocol() == Protocol::Quic);
        let too_late = |waiting: &Waiting| now >= waiting.since + QUIC_TIME;
        let given_up =
            self.extract(|waiting| waiting.member() == *member && (!has_one || too_late(waiting)));
        for waiting in given_up {
            waiting.fail(Unreachable::NoQuic);
        }
    }

    /// No way leads to the member.
    fn fail(&mut self, member: &MemberId, reason: Reason) {
        for waiting in self.extract(|waiting| waiting.member() == *member) {
            waiting.fail(reason);
        }
    }

    /// A HELLO is one packet, and packets are lost: those who are waited for are asked again, and
    /// their addresses are tried again.
    fn ask_for_hellos(&mut self, core: &mut Core) {
        let now = core.now;
        for waiting in &mut self.waiting {
            let member = waiting.member();
            if now >= waiting.ask_again && core.links.is_up(&member) {
                waiting.ask_again = now + HELLO_PAUSE;
                core.validator.retry(now, &member);
                core.send(&member, LinkMessage::HelloWanted);
            }
        }
        self.look = core.next_look();
    }

    /// A leaf that does not answer may have restarted, and is where the ring says by now, whatever
    /// links and dials there are.
    fn seek(&mut self, core: &mut Core) {
        let now = core.now;
        let waiting = self.waiting.iter_mut();
        for waiting in waiting.filter(|waiting| now >= waiting.seek && waiting.is_leaf()) {
            waiting.seek = now + SEEK_AGAIN;
            core.find_leaf(&waiting.certificate, None);
        }
    }

    /// Ends what has waited for too long, or waits for a link that nothing leads to any more.
    fn end_overdue(&mut self, core: &Core) {
        let overdue = |waiting: &Waiting| {
            let member = waiting.member();
            let late = core.now >= waiting.since + PEER_TIME;
            late || !(core.links.knows(&member) || core.sought.contains(&member))
        };
        for waiting in self.extract(overdue) {
            if core.links.is_up(&waiting.member()) {
                waiting.fail(Unreachable::NoQuic);
            } else {
                waiting.fail(Unreachable::Silent);
            }
        }
    }

    fn extract(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let which = self.waiting.extract_if(.., |waiting| which(waiting));
        which.collect()
    }
}

fn quic_addresses(core: &Core, member: &MemberId) -> Vec<SocketAddr> {
    let usable = core.validator.usable(core.now, member);
    let quic = usable
        .iter()
        .filter_map(|(descriptor, _)| match descriptor.address {
            Address::Quic(address) => Some(address),
            _ => None,
        });
    quic.collect()
}

impl Service for Reach {
    type Command = Command;

    fn start(core: &mut Core) -> Result<Reach, StateError> {
        Ok(Reach {
            waiting: Vec::new(),
            look: core.now,
        })
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        self.begin(core, command);
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        if let LinkEvent::Up(member) = event {
            self.progress(core, &member);
        }
    }

    fn on_signal(&mut self, core: &mut Core, signal: &Signal) {
        match signal {
            Signal::Proven(member) => self.progress(core, member),
            Signal::NoWay { leaf, reason } | Signal::NotFound { leaf, reason } => {
                self.fail(leaf, *reason);
            }
            _ => {}
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        let waiting = self.waiting.iter();
        let deadlines = waiting.map(|waiting| {
            let ends = waiting.since + PEER_TIME;
            let seek = waiting.is_leaf().then_some(waiting.seek);
            seek.into_iter().fold(ends, Instant::min)
        });
        deadlines.map(|deadline| deadline.min(self.look)).min()
    }

    fn on_deadline(&mut self, core: &mut Core) {
        self.seek(core);
        self.ask_for_hellos(core);
        let waited_for: BTreeSet<MemberId> = self.waiting.iter().map(Waiting::member).collect();
        for member in waited_for {
            self.progress(core, &member);
        }
        self.end_overdue(core);
    }
}
