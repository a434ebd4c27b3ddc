//! Echoes that are asked for: each measures one round trip over the link with a member.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringway_transport::{Address, MemberId};
use tokio::sync::oneshot;

use crate::certificate::{Certificate, Role};
use crate::limits::{ECHOES, PEER_TIME, SEEK_AFTER, SEEK_AGAIN};
use crate::link::{LinkMessage, Urgency};
use crate::member::answer::{Reason, Unreachable, answer};
use crate::member::core::{Core, Signal, since};
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;

/// What became of an echo.
#[derive(Clone, Debug)]
pub(crate) struct Echoed {
    /// The link's path.
    pub(crate) address: Option<Address>,
    /// None if no answer within the time.
    pub(crate) rtt: Option<Duration>,
}

/// An echo is asked for.
#[derive(Debug)]
pub(in crate::member) struct Command {
    certificate: Box<Certificate>,
    reply: oneshot::Sender<Result<Echoed, Unreachable>>,
}

impl MemberHandle {
    /// Measures one round trip over the link to the peer.
    pub(crate) async fn echo(&self, certificate: Certificate) -> Result<Echoed, Unreachable> {
        let certificate = Box::new(certificate);
        let answer = self.ask(|reply| Command { certificate, reply }).await;
        answer.unwrap_or(Err(Unreachable::Stopping))
    }
}

/// When an echo left, and over which path.
#[derive(Debug)]
struct Sent {
    at: Instant,
    path: Option<Address>,
}

#[derive(Debug)]
struct Waiting {
    certificate: Certificate,
    since: Instant,
    /// None until the link is up.
    sent: Option<Sent>,
    /// When a leaf that is silent is looked for (again).
    seek: Instant,
    reply: oneshot::Sender<Result<Echoed, Unreachable>>,
}

impl Waiting {
    fn member(&self) -> MemberId {
        self.certificate.member()
    }

    fn is_leaf(&self) -> bool {
        self.certificate.role() == Role::Leaf
    }

    fn begun(&self) -> Instant {
        self.sent.as_ref().map_or(self.since, |sent| sent.at)
    }

    /// When it has waited for too long, however often it left again.
    fn ends(&self) -> Instant {
        (self.since + 2 * PEER_TIME).min(self.begun() + PEER_TIME)
    }

    fn fail(self, reason: Reason) {
        let name = self.certificate.name().to_string();
        answer(self.reply, Err(reason(name)));
    }
}

/// The echoes that are out, by number.
#[derive(Debug)]
pub(in crate::member) struct Echoes {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// When to look whether links have moved to other paths.
    look: Instant,
}

impl Echoes {
    fn begin(&mut self, core: &mut Core, command: Command) {
        let Command { certificate, reply } = command;
        let waiting = Waiting {
            since: core.now,
            sent: None,
            seek: core.now + SEEK_AFTER,
            reply,
            certificate: *certificate,
        };
        if !core.link_to(&waiting.certificate) || self.waiting.len() >= ECHOES {
            return waiting.fail(core.no_address());
        }
        core.links
            .keep_working(core.now, &waiting.member(), Urgency::Soon);
        self.add(waiting);
        self.send(core);
    }

    fn add(&mut self, waiting: Waiting) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, waiting);
        self.last
    }

    /// Sends the echoes whose link is up now: the time that a handshake takes is no round trip.
    /// Those that left over a path that is not used any more leave again, under another number.
    fn send(&mut self, core: &mut Core) {
        let due = self.waiting.iter().filter(|(_, waiting)| {
            let path = core.links.path(&waiting.member());
            let is_up = core.links.is_up(&waiting.member());
            let sent = waiting.sent.as_ref();
            is_up && sent.is_none_or(|sent| sent.path.as_ref() != path)
        });
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        for number in due {
            let Some(mut waiting) = self.waiting.remove(&number) else {
                continue;
            };
            // An answer over the old path counts no more: it would measure both.
            let member = waiting.member();
            waiting.sent = Some(Sent {
                at: core.now,
                path: core.links.path(&member).cloned(),
            });
            let number = self.add(waiting);
            core.send(&member, LinkMessage::Echo(number));
        }
        self.look = core.next_look();
    }

    /// What was asked may be forgotten over there.
    fn ask_again(&mut self, member: &MemberId) {
        let waiting = self.waiting.values_mut();
        for waiting in waiting.filter(|waiting| waiting.member() == *member) {
            waiting.sent = None;
        }
    }

    fn answered(&mut self, core: &Core, member: &MemberId, number: u64) {
        let waiting = self.waiting.get(&number);
        if waiting.is_none_or(|waiting| waiting.member() != *member) {
            return;
        }
        if let Some(waiting) = self.waiting.remove(&number) {
            let echoed = Echoed {
                address: path_of(core, member),
                rtt: Some(since(core.now, waiting.begun())),
            };
            answer(waiting.reply, Ok(echoed));
        }
    }

    /// The link is gone. A leaf may have restarted somewhere else.
    fn link_down(&mut self, core: &mut Core, member: &MemberId) {
        let asked = |w: &&Waiting| w.member() == *member && w.sent.is_some();
        let leaf = self.waiting.values().find(asked);
        let leaf = leaf.filter(|waiting| waiting.is_leaf());
        if let Some(certificate) = leaf.map(|waiting| waiting.certificate.clone()) {
            core.find_leaf(&certificate, Some(Unreachable::Silent));
            return self.ask_again(member);
        }
        self.end(core, |waiting| waiting.member() == *member);
    }

    /// Looks for leaves that do not answer.
    fn seek(&mut self, core: &mut Core) {
        let now = core.now;
        let waiting = self.waiting.values_mut();
        for waiting in waiting.filter(|waiting| now >= waiting.seek && waiting.is_leaf()) {
            waiting.seek = now + SEEK_AGAIN;
            core.find_leaf(&waiting.certificate, None);
        }
    }

    /// No way leads to the member.
    fn fail(&mut self, member: &MemberId, reason: Reason) {
        for waiting in self.extract(|waiting| waiting.member() == *member) {
            waiting.fail(reason);
        }
    }

    fn end(&mut self, core: &Core, ends: impl Fn(&Waiting) -> bool) {
        for waiting in self.extract(ends) {
            // A link over which something comes while the echo is lost is another finding than one
            // over which nothing does.
            let member = waiting.member();
            let heard = core.links.last_heard(&member);
            let heard = heard.is_some_and(|heard| heard >= waiting.since);
            match path_of(core, &member).filter(|_| heard) {
                Some(path) => {
                    let lost = Echoed {
                        address: Some(path),
                        rtt: None,
                    };
                    answer(waiting.reply, Ok(lost));
                }
                None => waiting.fail(Unreachable::Silent),
            }
        }
    }

    fn extract(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let which = self.waiting.extract_if(.., |_, waiting| which(waiting));
        which.map(|(_, waiting)| waiting).collect()
    }
}

fn path_of(core: &Core, member: &MemberId) -> Option<Address> {
    let path = core.links.path(member)?;
    core.links.is_up(member).then(|| path.clone())
}

impl Service for Echoes {
    type Command = Command;

    fn start(core: &mut Core) -> Result<Echoes, StateError> {
        Ok(Echoes {
            last: 0,
            waiting: BTreeMap::new(),
            look: core.now,
        })
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        self.begin(core, command);
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        match event {
            LinkEvent::Up(member) => {
                self.ask_again(&member);
                self.send(core);
            }
            LinkEvent::Down(member) => self.link_down(core, &member),
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        let LinkMessage::EchoReply(number) = message else {
            return Handled::No;
        };
        self.answered(core, &member, *number);
        Handled::Yes
    }

    fn on_signal(&mut self, _core: &mut Core, signal: &Signal) {
        if let Signal::NoWay { leaf, reason } | Signal::NotFound { leaf, reason } = signal {
            self.fail(leaf, *reason);
        }
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        let waiting = self.waiting.values();
        let deadlines = waiting.map(|waiting| {
            let seek = waiting.is_leaf().then_some(waiting.seek);
            seek.into_iter().fold(waiting.ends(), Instant::min)
        });
        deadlines.map(|deadline| deadline.min(self.look)).min()
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let now = core.now;
        self.end(core, |waiting| now >= waiting.ends());
        self.seek(core);
        self.send(core);
    }
}
