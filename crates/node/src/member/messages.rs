//! Messages of applications: handed over here, sent as fast as the link takes them. Unreliable and
//! unordered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ringway_transport::MemberId;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Notify, mpsc};

use super::runtime::Runtime;
use crate::certificate::Certificate;
use crate::limits::{MESSAGES_UNREAD, MESSAGES_WAITING};
use crate::link::LinkMessage;

/// A message of another member's application.
pub(crate) type Arrived = (MemberId, Bytes);

/// Sends messages to one member. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageSender {
    queue: mpsc::Sender<Bytes>,
    wake: Arc<Notify>,
}

impl MessageSender {
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

/// Where an application's messages to one member wait.
#[derive(Debug)]
struct Outlet {
    certificate: Certificate,
    queue: mpsc::Receiver<Bytes>,
}

/// All of them, and where messages of others go.
#[derive(Debug)]
pub(super) struct Messages {
    outlets: BTreeMap<MemberId, Vec<Outlet>>,
    wake: Arc<Notify>,
    inbox: mpsc::Sender<Arrived>,
}

impl Messages {
    pub(super) fn new() -> (Messages, mpsc::Receiver<Arrived>) {
        let (inbox, arrived) = mpsc::channel(MESSAGES_UNREAD);
        let messages = Messages {
            outlets: BTreeMap::new(),
            wake: Arc::new(Notify::new()),
            inbox,
        };
        (messages, arrived)
    }

    /// Completes when an application has handed something over.
    pub(super) fn handed_over(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }
}

impl Runtime {
    pub(super) fn open_messages(&mut self, certificate: &Certificate) -> MessageSender {
        let (queue, receiver) = mpsc::channel(MESSAGES_WAITING);
        let outlet = Outlet {
            certificate: certificate.clone(),
            queue: receiver,
        };
        let member = certificate.member();
        self.messages
            .outlets
            .entry(member)
            .or_default()
            .push(outlet);
        MessageSender {
            queue,
            wake: self.messages.handed_over(),
        }
    }

    /// Takes what applications have handed over, as much as the links have room for.
    pub(super) fn pull_messages(&mut self, now: Instant) {
        let mut outlets = std::mem::take(&mut self.messages.outlets);
        outlets.retain(|member, of_member| {
            of_member.retain_mut(|outlet| self.pull(now, member, outlet));
            !of_member.is_empty()
        });
        self.messages.outlets = outlets;
    }

    /// False once the application has let go of its end.
    fn pull(&mut self, now: Instant, member: &MemberId, outlet: &mut Outlet) -> bool {
        if outlet.queue.is_empty() {
            return !outlet.queue.is_closed();
        }
        if !self.links.is_up(member) {
            // Without a way to it the messages are lost, as on any network.
            if !self.link_to(now, &outlet.certificate) {
                while outlet.queue.try_recv().is_ok() {
                    self.count("messages_unreachable");
                }
            }
            return true;
        }
        while self.links.takes_messages(member) {
            match outlet.queue.try_recv() {
                Ok(message) => {
                    let message = LinkMessage::Message(Vec::from(message).into());
                    self.links.send(now, member, message);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    pub(super) fn message_arrived(&mut self, member: MemberId, bytes: Bytes) {
        if self.messages.inbox.try_send((member, bytes)).is_err() {
            self.count("messages_unread");
        }
    }
}
