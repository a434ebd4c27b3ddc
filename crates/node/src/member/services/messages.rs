//! Messages of applications, and frames of messages that are stored until they are signed for:
//! handed over here, sent as fast as the link takes them. Unreliable and unordered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use ringway_transport::{MemberId, Protocol};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::certificate::Certificate;
use crate::limits::{MESSAGES_UNREAD, MESSAGES_WAITING};
use crate::link::{LinkMessage, LinkVersion};
use crate::member::core::{Core, Signal};
use crate::member::counters::counters;
use crate::member::handle::MemberHandle;
use crate::member::service::{Handled, Service};
use crate::message::Mailroom;
use crate::state::StateError;

/// A message of another member's application.
pub(crate) type Arrived = (MemberId, Bytes);

/// Sends messages to one member. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageSender {
    queue: mpsc::Sender<Bytes>,
    wake: Arc<Notify>,
    by_mail: Arc<AtomicBool>,
}

/// What a link's message is that carries what was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An application's own.
    Raw,
    /// A frame of stored messages.
    Stored,
}

impl MessageSender {
    /// Whether what was handed over last went by mail.
    pub(crate) fn goes_by_mail(&self) -> bool {
        self.by_mail.load(Ordering::Relaxed)
    }

    /// Hands a message over, as soon as there is room. It may be lost on the way, and is if the
    /// member cannot be reached.
    ///
    /// False once this member stops.
    pub async fn send(&self, message: Bytes) -> bool {
        let handed_over = self.queue.send(message).await.is_ok();
        self.wake.notify_one();
        handed_over
    }
}

/// An application wants to send messages to a member.
#[derive(Debug)]
pub(in crate::member) struct Command {
    certificate: Box<Certificate>,
    kind: Kind,
    reply: oneshot::Sender<MessageSender>,
}

impl MemberHandle {
    /// A way to send messages to the peer's application, or none when the member is stopping.
    pub(crate) async fn messages_to(&self, certificate: &Certificate) -> Option<MessageSender> {
        self.open_outlet(certificate, Kind::Raw).await
    }

    /// A way to send frames of stored messages to the peer, or none when the member is stopping.
    pub(crate) async fn frames_to(&self, certificate: &Certificate) -> Option<MessageSender> {
        self.open_outlet(certificate, Kind::Stored).await
    }

    async fn open_outlet(&self, certificate: &Certificate, kind: Kind) -> Option<MessageSender> {
        let certificate = Box::new(certificate.clone());
        let command = |reply| Command {
            certificate,
            kind,
            reply,
        };
        self.ask(command).await
    }
}

/// Where an application's messages to one member wait.
#[derive(Debug)]
struct Outlet {
    certificate: Certificate,
    kind: Kind,
    queue: mpsc::Receiver<Bytes>,
    by_mail: Arc<AtomicBool>,
}

counters! {
    /// What this service counts.
    Counters {
        messages_unreachable,
        messages_unread,
        message_frames_dropped,
    }
}

/// All of them, and where messages of others go.
#[derive(Debug)]
pub(in crate::member) struct Messages {
    outlets: BTreeMap<MemberId, Vec<Outlet>>,
    wake: Arc<Notify>,
    inbox: mpsc::Sender<Arrived>,
    mailroom: Mailroom,
    /// When to try again to make a link for what waits for one.
    retry: Option<Instant>,
    counted: Counters,
}

impl Messages {
    /// Where messages of others arrive from now on.
    pub(in crate::member) fn open_inbox(&mut self) -> mpsc::Receiver<Arrived> {
        let (inbox, arrived) = mpsc::channel(MESSAGES_UNREAD);
        self.inbox = inbox;
        arrived
    }

    /// Where frames of stored messages of others arrive.
    pub(in crate::member) fn mailroom(&self) -> Mailroom {
        self.mailroom.clone()
    }

    fn open(&mut self, certificate: Certificate, kind: Kind) -> MessageSender {
        let (queue, receiver) = mpsc::channel(MESSAGES_WAITING);
        let member = certificate.member();
        let by_mail = Arc::new(AtomicBool::new(false));
        let outlet = Outlet {
            certificate,
            kind,
            queue: receiver,
            by_mail: Arc::clone(&by_mail),
        };
        self.outlets.entry(member).or_default().push(outlet);
        MessageSender {
            queue,
            wake: Arc::clone(&self.wake),
            by_mail,
        }
    }

    /// What has been handed over for this member is lost, as on any network without a way to it.
    fn lose(&mut self, member: &MemberId) {
        for outlet in self.outlets.get_mut(member).into_iter().flatten() {
            self.counted.messages_unreachable += outlet.lose();
        }
    }
}

impl Outlet {
    /// Empties the queue; gives the number of messages.
    fn lose(&mut self) -> u64 {
        let mut lost = 0;
        while self.queue.try_recv().is_ok() {
            lost += 1;
        }
        lost
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes what the application has handed over, as much as the link has room for. False once the
    /// application has let go of its end.
    fn pull(&mut self, core: &mut Core, member: &MemberId) -> bool {
        if self.queue.is_empty() {
            return !self.queue.is_closed();
        }
        if !core.links.is_up(member) {
            return true;
        }
        let by_mail = goes_by_mail(core, member);
        self.by_mail.store(by_mail, Ordering::Relaxed);
        // A build before this one would drop what follows in the packet as well.
        if self.kind == Kind::Stored && !is_newest(core, member) {
            self.lose();
            return !self.queue.is_closed();
        }
        // What finds no room stays with the application, which waits as long as its queue is full.
        while core.links.takes_messages(member) {
            match self.queue.try_recv() {
                Ok(message) => {
                    let bytes = Vec::from(message).into();
                    let message = match self.kind {
                        Kind::Raw => LinkMessage::Message(bytes),
                        Kind::Stored => LinkMessage::Stored(bytes),
                    };
                    core.send(member, message);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }
}

fn goes_by_mail(core: &Core, member: &MemberId) -> bool {
    let path = core.links.path(member);
    path.is_some_and(|path| path.protocol() == Protocol::Smtp)
}

fn is_newest(core: &Core, member: &MemberId) -> bool {
    core.links.versions().of(member) == Some(LinkVersion::Newest)
}

impl Service for Messages {
    type Command = Command;

    fn start(core: &mut Core) -> Result<Messages, StateError> {
        // No program reads it yet.
        let (inbox, _) = mpsc::channel(1);
        Ok(Messages {
            outlets: BTreeMap::new(),
            wake: Arc::clone(&core.wake),
            inbox,
            mailroom: Mailroom::default(),
            retry: None,
            counted: Counters::default(),
        })
    }

    fn on_command(&mut self, core: &mut Core, command: Command) {
        let by_mail = goes_by_mail(core, &command.certificate.member());
        let sender = self.open(*command.certificate, command.kind);
        sender.by_mail.store(by_mail, Ordering::Relaxed);
        core.reply(command.reply, sender);
    }

    fn on_message(
        &mut self,
        _core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        match message {
            LinkMessage::Message(bytes) => {
                let bytes = std::mem::take(&mut **bytes).into();
                if self.inbox.try_send((member, bytes)).is_err() {
                    self.counted.messages_unread += 1;
                }
            }
            LinkMessage::Stored(frame) => {
                if !self.mailroom.put(member, std::mem::take(&mut **frame)) {
                    self.counted.message_frames_dropped += 1;
                }
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }

    fn on_signal(&mut self, _core: &mut Core, signal: &Signal) {
        if let Signal::NoWay { leaf, .. } = signal {
            self.lose(leaf);
        }
    }

    fn on_room(&mut self, core: &mut Core) {
        self.retry = None;
        for (member, of_member) in &mut self.outlets {
            if core.links.is_up(member) {
                continue;
            }
            for outlet in of_member.iter_mut().filter(|outlet| !outlet.is_empty()) {
                if core.link_to(&outlet.certificate) {
                    self.retry = Some(core.next_look());
                } else {
                    self.counted.messages_unreachable += outlet.lose();
                }
            }
        }
        self.outlets.retain(|member, of_member| {
            of_member.retain_mut(|outlet| outlet.pull(core, member));
            !of_member.is_empty()
        });
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.retry
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
