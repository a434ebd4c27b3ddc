//! What finds a member and hands frames to its link: a task for each member that frames are for.
//! Frames that cannot be handed over are dropped: what was not signed for is sent again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::engine::Input;
use super::record::Holder;
use super::service::Ask;
use super::store::PeerKey;
use crate::certificate::Certificate;
use crate::directory::{Directory, DirectoryError};
use crate::limits::{COURIER_IDLE, FRAMES_TO_MEMBER};
use crate::member::{MemberHandle, MessageSender};
use crate::text::printable;

/// What all couriers need.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) directory: Arc<Directory>,
    pub(super) member: MemberHandle,
    /// To the task that stores messages.
    pub(super) asks: mpsc::Sender<Ask>,
}

impl Post {
    /// A courier to the holder of a conversation; it ends once it has had nothing to do.
    pub(super) fn courier(&self, peer: PeerKey, holder: Holder) -> mpsc::Sender<Vec<u8>> {
        let (frames, waiting) = mpsc::channel(FRAMES_TO_MEMBER);
        let courier = Courier {
            post: self.clone(),
            peer,
            holder,
            sender: None,
            by_mail: false,
        };
        tokio::spawn(courier.run(waiting));
        frames
    }
}

#[derive(Debug)]
struct Courier {
    post: Post,
    peer: PeerKey,
    holder: Holder,
    sender: Option<MessageSender>,
    by_mail: bool,
}

impl Courier {
    async fn run(mut self, mut frames: mpsc::Receiver<Vec<u8>>) {
        while let Ok(Some(frame)) = timeout(COURIER_IDLE, frames.recv()).await {
            if !self.carry(frame).await {
                // Those behind it would be found to be of no use as well.
                while frames.try_recv().is_ok() {}
            }
        }
    }

    async fn tell(&self, input: Input) {
        // The task has ended if it takes nothing: so does all else before long.
        self.post.asks.send(Ask::Input(input)).await.ok();
    }

    /// False if the member is not to be found.
    async fn carry(&mut self, frame: Vec<u8>) -> bool {
        let Holder { member, serial, .. } = self.holder;
        let directory = Arc::clone(&self.post.directory);
        if directory.has_lost(&member, serial) {
            let reason = format!("the ring owner has revoked {}", self.holder.name);
            self.tell(Input::Lost(self.peer, reason)).await;
            return false;
        }
        // Its frames would go to a key that no longer answers.
        if directory.has_heir(&member, serial) {
            self.sender = None;
        }
        let Some(sender) = self.sender().await else {
            return false;
        };
        if !sender.send(frame.into()).await {
            self.sender = None;
            return false;
        }
        let by_mail = sender.goes_by_mail();
        if by_mail != self.by_mail {
            self.by_mail = by_mail;
            self.tell(Input::Way(self.peer, by_mail)).await;
        }
        true
    }

    async fn sender(&mut self) -> Option<MessageSender> {
        if let Some(sender) = &self.sender {
            return Some(sender.clone());
        }
        match self.find().await {
            Ok(certificate) => {
                let holder = Holder::of(&certificate);
                // The same member by another certificate: the conversation goes on.
                if holder != self.holder {
                    self.holder = holder;
                    let moved = Input::Moved(self.peer, certificate.clone());
                    self.tell(moved).await;
                }
                self.sender = self.post.member.frames_to(&certificate).await;
                self.sender.clone()
            }
            Err(error) => {
                let reason = printable(&error.to_string(), 300);
                let said = match error {
                    DirectoryError::Revoked(_) => Input::Lost(self.peer, reason),
                    _ => Input::Unreachable(self.peer, reason),
                };
                self.tell(said).await;
                None
            }
        }
    }

    /// The certificate that the member has now.
    async fn find(&self) -> Result<Certificate, DirectoryError> {
        let Holder {
            member,
            serial,
            name,
        } = &self.holder;
        let directory = &self.post.directory;
        match name.parse() {
            Ok(name) if directory.has_heir(member, *serial) => directory.heir(*serial, &name).await,
            _ => directory.find(&member.to_string()).await,
        }
    }
}
