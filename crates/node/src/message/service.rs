//! The task that stores messages, and what commands ask of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ringway_dtl::Priority;
use ringway_transport::MemberId;
use tokio::sync::{mpsc, oneshot, watch};

use super::courier::Post;
use super::engine::{Answer, Engine, Input, Moment, Output, Own};
pub(crate) use super::engine::{MessageError, SentAll};
use super::mailroom::Mailroom;
use super::record::{Message, MessageId, Stored};
use super::store::{MessageStore, PeerKey, Wanted};
use crate::certificate::{Certificate, RingId};
use crate::config::MessagesConfig;
use crate::control::MessageStatus;
use crate::directory::Directory;
use crate::home;
use crate::identity::Identity;
use crate::limits::{COMMANDS, MESSAGES_IN_ROUND, MESSAGES_LISTED};
use crate::member::MemberHandle;
use crate::state::StateError;

/// What the service is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) home: PathBuf,
    pub(crate) ring: RingId,
    pub(crate) identity: Identity,
    pub(crate) directory: Arc<Directory>,
    pub(crate) member: MemberHandle,
    pub(crate) mailroom: Mailroom,
    pub(crate) rules: MessagesConfig,
}

/// A message as a command gives it.
#[derive(Clone, Debug)]
pub(crate) struct ToSend {
    pub(crate) body: Vec<u8>,
    pub(crate) attach: Vec<String>,
    pub(crate) priority: Priority,
}

/// Which messages a command asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    /// Name of a member, or its id.
    pub(crate) peer: Option<String>,
    /// Only those behind the one with this id.
    pub(crate) after: Option<String>,
    /// Only those behind [`Page::last`] of an earlier answer.
    pub(crate) behind: u64,
    /// Only received ones that were not read.
    pub(crate) unread: bool,
}

/// Messages that were asked for, as many as are listed at once.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) messages: Vec<MessageStatus>,
    /// Where the last one stands.
    pub(crate) last: u64,
}

/// What the task is asked for.
#[derive(Debug)]
pub(super) enum Ask {
    Input(Input),
    List(Question, Answer<Vec<Stored>>),
    Find(String, Answer<Stored>),
    MarkRead {
        peer: String,
        upto: String,
        answer: Answer<()>,
    },
    /// Ends the task, and lets go of the database.
    End(oneshot::Sender<()>),
}

/// The messages of a member. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    asks: mpsc::Sender<Ask>,
    changed: watch::Receiver<u64>,
    counts: Arc<Counts>,
}

/// What the task counts, for those who look.
#[derive(Debug, Default)]
struct Counts {
    pending: AtomicUsize,
    writes: AtomicU64,
}

impl Counts {
    fn take(&self, engine: &Engine) {
        self.pending.store(engine.pending(), Ordering::Relaxed);
        self.writes.store(engine.writes(), Ordering::Relaxed);
    }
}

impl Messages {
    /// Takes up what an earlier run has left.
    pub(crate) fn start(setup: Setup) -> Result<Messages, StateError> {
        let store = MessageStore::open(&home::messages_path(&setup.home), setup.ring)?;
        let own = Own {
            identity: setup.identity,
            ring: setup.ring,
            rules: setup.rules,
        };
        let engine = Engine::new(store, own)?;
        let (asks, asked) = mpsc::channel(COMMANDS);
        let (changes, changed) = watch::channel(0);
        let counts = Arc::<Counts>::default();
        counts.take(&engine);
        let post = Post {
            directory: setup.directory,
            member: setup.member,
            asks: asks.clone(),
        };
        let task = Task {
            post,
            mailroom: setup.mailroom,
            asked,
            changes,
            counts: Arc::clone(&counts),
            couriers: BTreeMap::new(),
        };
        tokio::spawn(task.run(engine));
        Ok(Messages {
            asks,
            changed,
            counts,
        })
    }

    async fn ask<T>(&self, ask: impl FnOnce(Answer<T>) -> Ask) -> Result<T, MessageError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.asks.send(ask(answer)).await;
        asked.map_err(|_| MessageError::Stopping)?;
        let refused =
            || MessageError::Disk("the messages could not be stored: the log says why".to_owned());
        answered.await.unwrap_or_else(|_| Err(refused()))
    }

    /// Stores a message to a member: it is on the disk, and will be sent until the member has
    /// signed for it, when this returns.
    pub(crate) async fn send(
        &self,
        to: Certificate,
        message: ToSend,
    ) -> Result<MessageStatus, MessageError> {
        let attached = message.attach.iter().map(|id| transfer(id));
        let priority = message.priority.get();
        let attached = attached.collect::<Result<_, _>>()?;
        let message = written(message.body, attached)?;
        let ask = |answer| {
            Ask::Input(Input::Send {
                to,
                message,
                priority,
                answer,
            })
        };
        self.ask(ask).await.map(Stored::status)
    }

    /// Stores messages to one member by one write to the disk: all of them, or the first ones for
    /// which there is room.
    pub(crate) async fn send_all(
        &self,
        to: Certificate,
        bodies: Vec<Vec<u8>>,
        priority: Priority,
    ) -> Result<SentAll, MessageError> {
        let priority = priority.get();
        let messages = bodies.into_iter().map(|body| written(body, Vec::new()));
        let messages = messages.collect::<Result<_, _>>()?;
        let ask = |answer| {
            Ask::Input(Input::SendAll {
                to,
                messages,
                priority,
                answer,
            })
        };
        self.ask(ask).await
    }

    /// Messages in the order in which they came to be here, a page of them.
    pub(crate) async fn list(&self, question: Question) -> Result<Page, MessageError> {
        let behind = question.behind;
        let stored = self.ask(|answer| Ask::List(question, answer)).await?;
        Ok(Page {
            last: stored.last().map_or(behind, |last| last.position),
            messages: stored.into_iter().map(Stored::status).collect(),
        })
    }

    /// What tells that messages have come, or stand elsewhere.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// All received messages of a member up to this one were read.
    pub(crate) async fn mark_read(&self, peer: String, upto: String) -> Result<(), MessageError> {
        self.ask(|answer| Ask::MarkRead { peer, upto, answer })
            .await
    }

    /// Gives one that waits another priority. `id` may be the beginning of its id.
    pub(crate) async fn set_priority(
        &self,
        id: &str,
        priority: Priority,
    ) -> Result<MessageStatus, MessageError> {
        let stored = self.ask(|answer| Ask::Find(id.to_owned(), answer)).await?;
        let (id, priority) = (stored.message.id, priority.get());
        let ask = |answer| {
            Ask::Input(Input::Priority {
                id,
                priority,
                answer,
            })
        };
        self.ask(ask).await?;
        Ok(Stored { priority, ..stored }.status())
    }

    /// How many messages wait for signatures.
    pub(crate) fn pending(&self) -> usize {
        self.counts.pending.load(Ordering::Relaxed)
    }

    /// How often this run of the program has written messages, or what became of them, to the
    /// disk.
    pub(crate) fn writes(&self) -> u64 {
        self.counts.writes.load(Ordering::Relaxed)
    }

    /// The member is back, or the network is: what waits is sent now.
    pub(crate) async fn wake(&self, back: Option<MemberId>) {
        self.asks.send(Ask::Input(Input::Wake(back))).await.ok();
    }

    /// Other rules count from now on.
    pub(crate) async fn configure(&self, rules: MessagesConfig) {
        self.asks.send(Ask::Input(Input::Rules(rules))).await.ok();
    }

    /// Ends: all that was taken is on the disk, and the database is free for another.
    pub(crate) async fn end(&self) {
        let (ended, end) = oneshot::channel();
        if self.asks.send(Ask::End(ended)).await.is_ok() {
            end.await.ok();
        }
    }
}

/// A message that is written now.
fn written(body: Vec<u8>, attached: Vec<[u8; 16]>) -> Result<Message, MessageError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| MessageError::Disk(error.to_string()))?;
    Ok(Message {
        id: MessageId(id),
        created: unix_milliseconds(),
        body,
        attached,
    })
}

fn transfer(id: &str) -> Result<[u8; 16], MessageError> {
    let bytes = data_encoding::HEXLOWER.decode(id.as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| MessageError::NotATransfer(id.to_owned()))
}

fn unix_milliseconds() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(elapsed.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

struct Task {
    post: Post,
    mailroom: Mailroom,
    asked: mpsc::Receiver<Ask>,
    changes: watch::Sender<u64>,
    counts: Arc<Counts>,
    couriers: BTreeMap<PeerKey, mpsc::Sender<Vec<u8>>>,
}

/// What a round is to do.
#[derive(Default)]
struct Work {
    inputs: Vec<Input>,
    /// Answered after the inputs.
    questions: Vec<Ask>,
    end: Option<oneshot::Sender<()>>,
}

impl Work {
    fn add(&mut self, ask: Ask) {
        match ask {
            Ask::Input(input) => self.inputs.push(input),
            Ask::End(ended) => self.end = Some(ended),
            question => self.questions.push(question),
        }
    }
}

impl Task {
    async fn run(mut self, mut engine: Engine) {
        let mut first = true;
        loop {
            let mut work = Work::default();
            // What an earlier run has left is sent at once.
            if !std::mem::take(&mut first) && !self.wait(engine.next_deadline(), &mut work).await {
                return;
            }
            self.gather(&mut work);
            let end = work.end.take();
            let directory = Arc::clone(&self.post.directory);
            let round = tokio::task::spawn_blocking(move || {
                let outputs = round(&mut engine, &directory, work);
                (engine, outputs)
            });
            let outputs;
            (engine, outputs) = match round.await {
                Ok(done) => done,
                // The program ends.
                Err(error) if error.is_cancelled() => return,
                Err(error) => return tracing::error!(%error, "messages are not stored any more"),
            };
            self.counts.take(&engine);
            for output in outputs {
                self.put_out(output);
            }
            if let Some(ended) = end {
                drop(engine);
                // Who has asked may have gone.
                ended.send(()).ok();
                return;
            }
        }
    }

    /// Waits until there is something to do; false once no command can come any more.
    async fn wait(&mut self, deadline: Option<Instant>, work: &mut Work) -> bool {
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ask = self.asked.recv() => match ask {
                Some(ask) => work.add(ask),
                None => return false,
            },
            () = self.mailroom.wait() => {}
            () = due => {}
        }
        true
    }

    /// Takes all else that waits.
    fn gather(&mut self, work: &mut Work) {
        for _ in 0..MESSAGES_IN_ROUND {
            match self.asked.try_recv() {
                Ok(ask) => work.add(ask),
                Err(_) => break,
            }
        }
        for (member, frame) in self.mailroom.take() {
            // Revoked members give nothing.
            if let Some(from) = self.post.directory.cached(&member) {
                work.inputs.push(Input::Frame(from, frame));
            }
        }
    }

    fn put_out(&mut self, output: Output) {
        // Who has asked may have gone.
        match output {
            Output::Transmit(peer, holder, frame) => {
                let courier = self
                    .couriers
                    .get(&peer)
                    .filter(|courier| !courier.is_closed());
                let courier = courier.cloned().unwrap_or_else(|| {
                    let courier = self.post.courier(peer, holder);
                    self.couriers.insert(peer, courier.clone());
                    courier
                });
                if courier.try_send(frame).is_err() {
                    tracing::debug!(peer, "a frame of messages finds no room");
                }
            }
            Output::Sent(answer, sent) => drop(answer.send(sent)),
            Output::SentAll(answer, sent) => drop(answer.send(sent)),
            Output::Done(answer, done) => drop(answer.send(done)),
            Output::Changed => self.changes.send_modify(|changes| *changes += 1),
        }
    }
}

/// One round, and then what is asked about what there is.
fn round(engine: &mut Engine, directory: &Directory, work: Work) -> Vec<Output> {
    let mut random = || {
        let mut bytes = [0; 16];
        if let Err(error) = getrandom::fill(&mut bytes) {
            // Two runs of numbers with one name would be taken for one.
            tracing::error!(%error, "the operating system gave no random bytes");
            std::process::abort();
        }
        bytes
    };
    let mut moment = Moment {
        now: Instant::now(),
        unix: unix_milliseconds(),
        random: &mut random,
    };
    let mut inputs = work.inputs;
    let mut outputs = Vec::new();
    let mut questions = Vec::new();
    for ask in work.questions {
        match ask {
            Ask::MarkRead { peer, upto, answer } => match named(engine, &peer, &upto) {
                Ok((peer, upto)) => inputs.push(Input::MarkRead { peer, upto, answer }),
                Err(error) => outputs.push(Output::Done(answer, Err(error))),
            },
            ask => questions.push(ask),
        }
    }
    match engine.round(&mut moment, directory, inputs) {
        Ok(done) => outputs.extend(done),
        Err(error) => {
            tracing::error!(%error, "messages could not be stored: senders are not answered, and will repeat them")
        }
    }
    for ask in questions {
        match ask {
            Ask::List(question, answer) => drop(answer.send(list(engine, &question))),
            Ask::Find(id, answer) => drop(answer.send(find(engine.store(), &id))),
            _ => {}
        }
    }
    outputs
}

fn disk(error: StateError) -> MessageError {
    MessageError::Disk(error.to_string())
}

fn named(engine: &Engine, peer: &str, upto: &str) -> Result<(PeerKey, MessageId), MessageError> {
    let key = engine.store().peer(peer).map_err(disk)?;
    let key = key.ok_or_else(|| MessageError::NoConversation(peer.to_owned()))?;
    Ok((key, find(engine.store(), upto)?.message.id))
}

fn find(store: &MessageStore, id: &str) -> Result<Stored, MessageError> {
    let digits = id.to_ascii_lowercase();
    let is_id = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut found = Vec::new();
    if is_id {
        found = store.find(&digits).map_err(disk)?;
    }
    match (found.pop(), found.is_empty()) {
        (Some(stored), true) => Ok(stored),
        (Some(_), false) => Err(MessageError::Ambiguous(id.to_owned())),
        (None, _) => Err(MessageError::Unknown(id.to_owned())),
    }
}

fn list(engine: &Engine, question: &Question) -> Result<Vec<Stored>, MessageError> {
    let store = engine.store();
    let peer = match &question.peer {
        Some(name) => {
            let key = store.peer(name).map_err(disk)?;
            // One that has said nothing yet may still.
            match (key, question.unread) {
                (None, true) => return Ok(Vec::new()),
                (None, false) => return Err(MessageError::NoConversation(name.clone())),
                (key, _) => key,
            }
        }
        None => None,
    };
    let after = match &question.after {
        Some(id) => find(store, id)?.position.max(question.behind),
        None => question.behind,
    };
    let wanted = Wanted {
        peer,
        after,
        unread: question.unread,
        most: MESSAGES_LISTED,
    };
    let mut listed = store.list(&wanted).map_err(disk)?;
    for stored in &mut listed {
        engine.explain(stored);
    }
    Ok(listed)
}
