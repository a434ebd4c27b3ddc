//! All conversations of a member. What comes is taken in rounds: each is one transaction, and what
//! it has to answer leaves after that is on the disk.
//!
//! No clock, no network, no randomness: those are arguments. If the disk refuses a round, nothing
//! of it has happened: [`Engine::round`] reads everything again.

mod peer;
mod receive;
mod reminder;
mod send;

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_transport::MemberId;
use tokio::sync::oneshot;

use self::peer::Conversation;
pub(super) use self::peer::Kin;
use super::incoming::Room;
use super::outgoing::Outgoing;
use super::record::{Epoch, Holder, Message, MessageId, Standing, Stored};
use super::store::{MessageStore, PeerKey, Writing};
use super::wire::Frame;
use crate::certificate::{Certificate, RingId};
use crate::config::MessagesConfig;
use crate::identity::Identity;
use crate::limits::{
    BATCH_BYTES, CONVERSATIONS, MESSAGE_WINDOW, UNREAD_MESSAGE_BYTES, UNREAD_MESSAGE_BYTES_IN_ALL,
    UNREAD_MESSAGES,
};
use crate::state::StateError;

/// Why a message was not taken, or a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    #[error("a message has {0} bytes, and may have 65536: send a file for more")]
    TooLong(usize),
    #[error("there is no message to send")]
    Empty,
    #[error("a message may name 16 transfers, not {0}")]
    TooManyAttached(usize),
    #[error("`{0}` is no id of a transfer")]
    NotATransfer(String),
    #[error("a message to oneself needs no ring")]
    Oneself,
    #[error(
        "too many messages wait for {0} to sign for them: wait until it is back, or has room again"
    )]
    Full(String),
    #[error("there are as many conversations as there may be")]
    TooMany,
    #[error(
        "{0} has another key, and the ring owner's word for it is not here yet: try again in some seconds"
    )]
    KeyNotKnown(String),
    #[error("there is no conversation with `{0}`")]
    NoConversation(String),
    #[error("no message `{0}`: `ringway msg --list` shows them")]
    Unknown(String),
    #[error("`{0}` fits more than one message: give more of its id")]
    Ambiguous(String),
    #[error("message {0} waits no more")]
    Ended(String),
    #[error("{0}")]
    Disk(String),
    #[error("this member is stopping")]
    Stopping,
}

impl MessageError {
    pub(crate) fn is_usage(&self) -> bool {
        !matches!(
            self,
            MessageError::Full(_)
                | MessageError::TooMany
                | MessageError::KeyNotKnown(_)
                | MessageError::Disk(_)
                | MessageError::Stopping
        )
    }
}

/// Where an answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, MessageError>>;

/// How many of some messages were stored: the first ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentAll {
    pub(crate) stored: usize,
    /// The last of them.
    pub(crate) last: MessageId,
    /// Why it was not all.
    pub(crate) left: Option<MessageError>,
}

/// What a round takes.
#[derive(Debug)]
pub(super) enum Input {
    /// A link has brought a frame of the member with this certificate.
    Frame(Certificate, Vec<u8>),
    /// A message is to be sent.
    Send {
        to: Certificate,
        message: Message,
        priority: f64,
        answer: Answer<Stored>,
    },
    /// Messages are to be sent to one member, in this order.
    SendAll {
        to: Certificate,
        messages: Vec<Message>,
        priority: f64,
        answer: Answer<SentAll>,
    },
    /// Received messages up to this one were read.
    MarkRead {
        peer: PeerKey,
        upto: MessageId,
        answer: Answer<()>,
    },
    /// One that waits gets another priority.
    Priority {
        id: MessageId,
        priority: f64,
        answer: Answer<()>,
    },
    /// A member is not reached now.
    Unreachable(PeerKey, String),
    /// It will never be.
    Lost(PeerKey, String),
    /// It has this certificate now.
    Moved(PeerKey, Certificate),
    /// What is sent to it goes by mail, or does not.
    Way(PeerKey, bool),
    /// This member is back, or the network of this machine.
    Wake(Option<MemberId>),
    /// Other rules count.
    Rules(MessagesConfig),
}

/// What a round has come to.
#[derive(Debug)]
pub(super) enum Output {
    /// A frame for a member.
    Transmit(PeerKey, Holder, Vec<u8>),
    /// The answer to [`Input::Send`].
    Sent(Answer<Stored>, Result<Stored, MessageError>),
    /// The answer to [`Input::SendAll`].
    SentAll(Answer<SentAll>, Result<SentAll, MessageError>),
    /// The answer to the others.
    Done(Answer<()>, Result<(), MessageError>),
    /// There are new messages, or others stand elsewhere.
    Changed,
}

/// The time, and chance, of a round.
pub(super) struct Moment<'a> {
    pub(super) now: Instant,
    /// Unix milliseconds.
    pub(super) unix: u64,
    /// 16 random bytes, each time others.
    pub(super) random: &'a mut dyn FnMut() -> Epoch,
}

/// All conversations.
#[derive(Debug)]
pub(super) struct Engine {
    store: MessageStore,
    own: Own,
    peers: BTreeMap<PeerKey, Conversation>,
    by_member: BTreeMap<MemberId, PeerKey>,
    /// Rounds that had something to write.
    writes: u64,
}

/// This member, and its rules.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) identity: Identity,
    pub(super) ring: RingId,
    pub(super) rules: MessagesConfig,
}

/// A round as it is written.
struct Round<'a, 'b> {
    moment: &'a mut Moment<'b>,
    writing: Writing<'a>,
    own: &'a Own,
    kin: &'a dyn Kin,
    outputs: Vec<Output>,
    changed: bool,
}

impl Engine {
    pub(super) fn new(store: MessageStore, own: Own) -> Result<Engine, StateError> {
        let mut engine = Engine {
            store,
            own,
            peers: BTreeMap::new(),
            by_member: BTreeMap::new(),
            writes: 0,
        };
        engine.read_again()?;
        Ok(engine)
    }

    fn read_again(&mut self) -> Result<(), StateError> {
        let left = self.store.left()?;
        let peers = left
            .into_iter()
            .map(|left| (left.key, Conversation::restore(left)));
        self.peers = peers.collect();
        let members = self.peers.iter();
        self.by_member = members
            .map(|(key, peer)| (peer.holder.member, *key))
            .collect();
        Ok(())
    }

    /// How many messages wait for a signature.
    pub(super) fn pending(&self) -> usize {
        let all = self.peers.values().flat_map(|peer| &peer.outgoing);
        all.map(|outgoing| outgoing.pending().0).sum()
    }

    /// How often something was written to the disk.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// When a round has something to do without input.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let all = self.peers.values().flat_map(|peer| {
            let outgoing = peer.outgoing.as_ref();
            let again = outgoing.and_then(Outgoing::poll_timeout);
            [again, peer.poll_reminder(&self.own)]
        });
        all.flatten().min()
    }

    /// Takes all inputs, writes what they change by one transaction, and gives what leaves then.
    ///
    /// # Errors
    /// When the disk refuses: nothing has happened then, and those who wait for answers get none.
    pub(super) fn round(
        &mut self,
        moment: &mut Moment<'_>,
        kin: &dyn Kin,
        inputs: Vec<Input>,
    ) -> Result<Vec<Output>, StateError> {
        let done = self.try_round(moment, kin, inputs);
        if done.is_err() {
            self.read_again()?;
        }
        done
    }

    fn try_round(
        &mut self,
        moment: &mut Moment<'_>,
        kin: &dyn Kin,
        inputs: Vec<Input>,
    ) -> Result<Vec<Output>, StateError> {
        let now = moment.now;
        let mut outputs = self.write(moment, kin, inputs)?;
        self.transmit(now, &mut outputs);
        Ok(outputs)
    }

    /// What a round changes, by one transaction.
    fn write(
        &mut self,
        moment: &mut Moment<'_>,
        kin: &dyn Kin,
        mut inputs: Vec<Input>,
    ) -> Result<Vec<Output>, StateError> {
        for input in inputs.extract_if(.., |input| matches!(input, Input::Rules(_))) {
            if let Input::Rules(rules) = input {
                self.own.rules = rules;
            }
        }
        let Engine {
            store,
            own,
            peers,
            by_member,
            writes,
        } = self;
        let mut round = Round {
            moment,
            writing: store.write()?,
            own,
            kin,
            outputs: Vec::new(),
            changed: false,
        };
        let mut all = Conversations { peers, by_member };
        for input in inputs {
            all.take(&mut round, input)?;
        }
        all.keep_history(&mut round)?;
        let now = round.moment.now;
        for outgoing in all.peers.values_mut().flat_map(|peer| &mut peer.outgoing) {
            outgoing.handle_timeout(now);
        }
        let Round {
            writing,
            mut outputs,
            changed,
            ..
        } = round;
        // A round that changes nothing costs no write: there is nothing to commit.
        *writes += u64::from(writing.commit()?);
        if changed {
            outputs.push(Output::Changed);
        }
        Ok(outputs)
    }

    /// Receipts, and what may leave: conversations with the highest priority first.
    fn transmit(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let own = &self.own;
        let mut waiting = Vec::new();
        for (key, peer) in &mut self.peers {
            for frame in peer.poll_receipts(now, own) {
                outputs.push(Output::Transmit(*key, peer.holder.clone(), frame.encode()));
            }
            if let Some(outgoing) = peer.outgoing.as_ref().filter(|out| out.pending().0 > 0) {
                waiting.push((outgoing.priority(), *key));
            }
        }
        waiting.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (priority, key) in waiting {
            let Some(peer) = self.peers.get_mut(&key) else {
                continue;
            };
            // Less than best effort: one batch at a time.
            let most = if priority > 0.0 {
                MESSAGE_WINDOW
            } else {
                BATCH_BYTES
            };
            let Some(outgoing) = &mut peer.outgoing else {
                continue;
            };
            loop {
                let frames = outgoing.poll_transmit(now, most);
                if frames.is_empty() {
                    break;
                }
                let transmit =
                    |frame: Frame| Output::Transmit(key, peer.holder.clone(), frame.encode());
                outputs.extend(frames.into_iter().map(transmit));
            }
        }
    }

    /// Says of a message that waits why it does, as far as that is known.
    pub(super) fn explain(&self, stored: &mut Stored) {
        let waits = stored.outgoing && stored.standing == Standing::Pending;
        if !waits {
            return;
        }
        let mut peers = self.peers.values();
        let Some(peer) = peers.find(|peer| peer.holder.name == stored.peer) else {
            return;
        };
        let Some(outgoing) = &peer.outgoing else {
            return;
        };
        stored.reason = match (outgoing.is_full(), outgoing.tries) {
            (true, _) => Some("the peer has no room for more messages now".to_owned()),
            (false, 0) => None,
            (false, tries) => peer
                .reason
                .clone()
                .or_else(|| Some(format!("no answer yet, after {tries} tries"))),
        };
    }

    /// The conversations, for those who only read.
    pub(super) fn store(&self) -> &MessageStore {
        &self.store
    }
}

/// All conversations while a round changes them.
struct Conversations<'a> {
    peers: &'a mut BTreeMap<PeerKey, Conversation>,
    by_member: &'a mut BTreeMap<MemberId, PeerKey>,
}

impl Conversations<'_> {
    fn take(&mut self, round: &mut Round<'_, '_>, input: Input) -> Result<(), StateError> {
        match input {
            Input::Frame(from, bytes) => self.take_frame(round, &from, &bytes)?,
            Input::Send {
                to,
                message,
                priority,
                answer,
            } => {
                let sent = self.send(round, &to, message, priority)?;
                round.outputs.push(Output::Sent(answer, sent));
            }
            Input::SendAll {
                to,
                messages,
                priority,
                answer,
            } => {
                let sent = self.send_all(round, &to, messages, priority)?;
                round.outputs.push(Output::SentAll(answer, sent));
            }
            Input::MarkRead { peer, upto, answer } => {
                let marked = self.mark_read(round, peer, &upto)?;
                round.outputs.push(Output::Done(answer, marked));
            }
            Input::Priority {
                id,
                priority,
                answer,
            } => {
                let set = self.set_priority(round, &id, priority)?;
                round.outputs.push(Output::Done(answer, set));
            }
            Input::Unreachable(peer, reason) => self.note(peer, reason),
            Input::Lost(peer, reason) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.incoming.note_all();
                }
                self.give_up(round, peer, u64::MAX, &reason)?;
            }
            Input::Moved(peer, to) => self.move_peer(round, peer, &to)?,
            Input::Way(peer, by_mail) => {
                let peer = self.peers.get_mut(&peer);
                if let Some(peer) = peer {
                    peer.set_way(by_mail);
                }
            }
            Input::Wake(back) => self.wake(round.moment.now, back),
            // Taken before all others.
            Input::Rules(_) => {}
        }
        Ok(())
    }

    fn note(&mut self, peer: PeerKey, reason: String) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.reason = Some(reason);
        }
    }

    fn wake(&mut self, now: Instant, back: Option<MemberId>) {
        let of_peer = |peer: &&mut Conversation| back.is_none_or(|back| back == peer.holder.member);
        for peer in self.peers.values_mut().filter(of_peer) {
            peer.wake(now);
        }
    }

    /// The conversation with the holder of a certificate: one that there is, or a new one. A key
    /// that may be the next one of a known member has to wait for the owner's word.
    fn open(
        &mut self,
        round: &mut Round<'_, '_>,
        with: &Certificate,
    ) -> Result<Result<PeerKey, MessageError>, StateError> {
        let holder = Holder::of(with);
        if let Some(key) = self.by_member.get(&holder.member) {
            return Ok(Ok(*key));
        }
        let named = self.peers.iter();
        let named = named.filter(|(_, peer)| peer.holder.name == holder.name);
        let (mut next, mut maybe) = (None, false);
        for (key, peer) in named {
            let before = &peer.holder;
            if round.kin.succeeds(before.serial, with) {
                next = Some(*key);
            } else if !round.kin.has_lost(before) {
                maybe = true;
            }
        }
        if let Some(key) = next {
            self.move_peer(round, key, with)?;
            return Ok(Ok(key));
        }
        if maybe {
            return Ok(Err(MessageError::KeyNotKnown(holder.name)));
        }
        if self.peers.len() >= CONVERSATIONS {
            return Ok(Err(MessageError::TooMany));
        }
        let key = round.writing.add_peer(&holder)?;
        self.by_member.insert(holder.member, key);
        self.peers.insert(key, Conversation::new(holder));
        Ok(Ok(key))
    }

    fn move_peer(
        &mut self,
        round: &mut Round<'_, '_>,
        key: PeerKey,
        to: &Certificate,
    ) -> Result<(), StateError> {
        let holder = Holder::of(to);
        let Some(peer) = self
            .peers
            .get_mut(&key)
            .filter(|peer| peer.holder != holder)
        else {
            return Ok(());
        };
        self.by_member.remove(&peer.holder.member);
        self.by_member.insert(holder.member, key);
        round.writing.move_peer(key, &holder)?;
        peer.holder = holder;
        Ok(())
    }

    /// What of a peer's may still be stored.
    fn room(&self, of: PeerKey) -> Room {
        let all: usize = self.peers.values().map(|peer| peer.unread.1).sum();
        let (messages, bytes) = self.peers.get(&of).map_or((0, 0), |peer| peer.unread);
        let own = UNREAD_MESSAGE_BYTES.saturating_sub(bytes);
        Room {
            messages: UNREAD_MESSAGES.saturating_sub(messages),
            bytes: own.min(UNREAD_MESSAGE_BYTES_IN_ALL.saturating_sub(all)),
        }
    }

    fn keep_history(&mut self, round: &mut Round<'_, '_>) -> Result<(), StateError> {
        for (key, peer) in self.peers.iter_mut() {
            for outgoing in [false, true] {
                let kept = &mut peer.history[usize::from(outgoing)];
                *kept = round.writing.trim(*key, outgoing, *kept)?;
            }
        }
        Ok(())
    }
}
