//! Messages as they are stored and shown.

use std::fmt;

use data_encoding::HEXLOWER;
use ringway_transport::MemberId;

use crate::certificate::Certificate;
use crate::control::MessageStatus;
use crate::transfer::TransferId;

/// Names a message at both ends: 16 random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessageId(pub(crate) [u8; 16]);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// A sender's name for a run of numbers: 16 random bytes.
pub(super) type Epoch = [u8; 16];

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: MessageId,
    /// Unix milliseconds, by the sender's clock.
    pub(super) created: u64,
    pub(super) body: Vec<u8>,
    /// Ids of transfers that belong to it.
    pub(super) attached: Vec<[u8; 16]>,
}

impl Message {
    /// What it takes in memory and on the way, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.body.len() + 64
    }
}

/// Who holds a conversation's other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) member: MemberId,
    /// Of the certificate that it had when this was last looked at.
    pub(super) serial: u64,
    pub(super) name: String,
}

impl Holder {
    pub(super) fn of(certificate: &Certificate) -> Holder {
        Holder {
            member: certificate.member(),
            serial: certificate.serial(),
            name: certificate.name().to_string(),
        }
    }
}

/// How far a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// To be signed for.
    Pending,
    /// The receiver has signed.
    Signed,
    /// Signed for or received, and read.
    Read,
    /// It will never be taken.
    Failed,
    /// Received and not read.
    Received,
}

impl Standing {
    const ALL: [Standing; 5] = [
        Standing::Pending,
        Standing::Signed,
        Standing::Read,
        Standing::Failed,
        Standing::Received,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Standing::Pending => "pending",
            Standing::Signed => "signed",
            Standing::Read => "read",
            Standing::Failed => "failed",
            Standing::Received => "received",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Standing> {
        let mut all = Standing::ALL.into_iter();
        all.find(|standing| standing.as_str() == text)
    }
}

/// A message as it is on the disk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    /// Where it stands among all messages here.
    pub(super) position: u64,
    pub(super) outgoing: bool,
    pub(super) peer: String,
    pub(super) number: u64,
    pub(super) message: Message,
    pub(super) standing: Standing,
    /// Unix milliseconds.
    pub(super) signed: Option<u64>,
    pub(super) read: Option<u64>,
    pub(super) reason: Option<String>,
    pub(super) priority: f64,
}

impl Stored {
    pub(super) fn status(self) -> MessageStatus {
        let seconds = |milliseconds: u64| milliseconds / 1_000;
        let direction = ["receive", "send"][usize::from(self.outgoing)];
        MessageStatus {
            id: self.message.id.to_string(),
            direction: direction.to_owned(),
            peer: self.peer,
            number: self.number,
            state: self.standing.as_str().to_owned(),
            created: seconds(self.message.created),
            signed: self.signed.map(seconds),
            read: self.read.map(seconds),
            body: self.message.body,
            attach: self
                .message
                .attached
                .iter()
                .map(|id| TransferId(*id).to_string())
                .collect(),
            priority: self.priority,
            reason: self.reason,
        }
    }
}
