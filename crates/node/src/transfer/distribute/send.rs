//! Giving pieces of a file to its receivers: the sender's side.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bao_tree::ChunkRanges;
use bytes::Bytes;
use ringway_transport::MemberId;
use ringway_transport::quic::{QuicConnection, RecvStream, SendStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::pieces::{Division, Pieces};
use super::receive::is_stalled;
use super::seed::Seeder;
use super::share::Secret;
use super::wire::Shared;
use crate::limits::{SHARE_LINGER, SHARE_SILENCE};
use crate::transfer::content::Source;
use crate::transfer::live::Live;
use crate::transfer::pipe;
use crate::transfer::send::{Ended, NOT_TAKEN, encode_failed, refused, send_block};
use crate::transfer::service::Context;
use crate::transfer::uplink::Flow;
use crate::transfer::wire::{Frame, FrameError};

/// A file on its way to several members, who give it to each other.
#[derive(Debug)]
pub(in crate::transfer) struct Distribution {
    secret: Secret,
    division: Division,
    seeder: Mutex<Seeder<MemberId>>,
    /// Changes when something of it does.
    changed: watch::Sender<()>,
}

/// A place for one, where transfers of one command have what they share.
#[derive(Debug, Default)]
pub(in crate::transfer) struct Slot(OnceLock<Option<Arc<Distribution>>>);

impl Slot {
    /// The distribution of a file of this size; none if it is too small or too large for that.
    pub(in crate::transfer) fn get(&self, size: u64) -> Option<Arc<Distribution>> {
        let begin = || {
            let division = Division::of(size)?;
            let mut secret = [0; 16];
            getrandom::fill(&mut secret).ok()?;
            Some(Arc::new(Distribution {
                secret,
                division,
                seeder: Mutex::new(Seeder::new(division.count())),
                changed: watch::Sender::new(()),
            }))
        };
        self.0.get_or_init(begin).clone()
    }
}

impl Distribution {
    fn lock(&self) -> MutexGuard<'_, Seeder<MemberId>> {
        self.seeder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Seeder<MemberId>) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.send_replace(());
        changed
    }
}

/// One receiver's part in a distribution; dropping it ends that.
struct Joined {
    distribution: Arc<Distribution>,
    receiver: MemberId,
}

impl Joined {
    fn new(distribution: &Arc<Distribution>, receiver: MemberId, has: Pieces) -> Joined {
        distribution.change(|seeder| seeder.join(receiver, has));
        Joined {
            distribution: Arc::clone(distribution),
            receiver,
        }
    }

    /// The receiver has the whole file, and gives it to others for a while.
    fn linger(self) {
        tokio::spawn(async move {
            tokio::time::sleep(SHARE_LINGER).await;
            drop(self);
        });
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.distribution
            .change(|seeder| seeder.leave(self.receiver));
    }
}

/// What gives a file to one receiver.
pub(in crate::transfer) struct Giving<'a> {
    pub(in crate::transfer) context: &'a Context,
    pub(in crate::transfer) live: &'a Live,
    pub(in crate::transfer) connection: &'a QuicConnection,
    pub(in crate::transfer) flow: &'a Flow,
    pub(in crate::transfer) source: Arc<Source>,
    pub(in crate::transfer) distribution: Arc<Distribution>,
}

impl Giving<'_> {
    /// Ends when the receiver says that it has the whole file.
    pub(in crate::transfer) async fn run(
        &self,
        missing: &ChunkRanges,
        sink: &mut SendStream,
        answers: RecvStream,
    ) -> Result<(), Ended> {
        let division = self.distribution.division;
        let has = division.without(missing);
        let joined = Joined::new(&self.distribution, self.connection.peer(), has.clone());
        tokio::select! {
            listened = self.listen(has, answers) => listened?,
            given = self.give(sink) => match given? {},
        }
        joined.linger();
        Ok(())
    }

    /// Takes what the receiver says, until it has all.
    async fn listen(&self, mut has: Pieces, mut answers: RecvStream) -> Result<(), Ended> {
        let division = self.distribution.division;
        let receiver = self.connection.peer();
        let pieces = |bounds: &[u32]| {
            Pieces::from_wire(bounds, division.count()).ok_or(FrameError::Malformed)
        };
        let mut came = Instant::now();
        loop {
            if is_stalled(self.context, self.live, self.connection, came) {
                return Err(Ended::Later(NOT_TAKEN.to_owned()));
            }
            let frame = timeout(SHARE_SILENCE, Frame::read(&mut answers)).await;
            let silent = |_| Ended::Later("the peer says nothing any more".to_owned());
            match frame.map_err(silent)?? {
                Frame::Has(bounds) => {
                    let new = pieces(&bounds)?;
                    if new.iter().filter(|piece| has.add(*piece)).count() > 0 {
                        came = Instant::now();
                    }
                    // Progress is what the receiver has, whichever way it came.
                    let bytes = division.bytes_of(&has);
                    self.live.bytes.fetch_max(bytes, Ordering::Relaxed);
                    self.distribution
                        .change(|all| all.handle_has(receiver, &new));
                }
                Frame::Wants(bounds) => {
                    let wants = pieces(&bounds)?;
                    self.distribution
                        .change(|all| all.handle_wants(receiver, &wants));
                }
                Frame::Finished => return Ok(()),
                Frame::Refuse { reason, try_later } => {
                    return Err(refused(self.live, &reason, try_later));
                }
                _ => return Err(FrameError::Malformed.into()),
            }
        }
    }

    /// Names the others, and gives pieces whenever there is one for this receiver.
    async fn give(&self, sink: &mut SendStream) -> Result<Infallible, Ended> {
        let receiver = self.connection.peer();
        let mut changed = self.distribution.changed.subscribe();
        let mut named: Option<Vec<MemberId>> = None;
        loop {
            changed.mark_unchanged();
            let others = self.distribution.lock().others(receiver);
            if named.as_ref() != Some(&others) {
                let shared = Shared {
                    secret: self.distribution.secret.into(),
                    others: others.iter().map(|other| other.0.into()).collect(),
                };
                Frame::Shared(shared).write(sink).await?;
                named = Some(others);
            }
            let piece = self.distribution.lock().poll_piece(receiver);
            match piece {
                Some(piece) => self.give_piece(piece, sink).await?,
                // The distribution is held here, so this does not fail.
                None => changed
                    .changed()
                    .await
                    .map_err(|error| Ended::Later(error.to_string()))?,
            }
        }
    }

    async fn give_piece(&self, piece: u32, sink: &mut SendStream) -> Result<(), Ended> {
        let (source, ranges) = (
            Arc::clone(&self.source),
            self.distribution.division.range(piece),
        );
        // As a whole, since its length goes before it.
        let reading = tokio::task::spawn_blocking(move || {
            let mut content = Vec::new();
            source.encode(&ranges, &mut content).map(|()| content)
        });
        let read = reading.await;
        let read = read.map_err(|error| Ended::Later(error.to_string()))?;
        let content = read.map_err(|failed| encode_failed(&self.live.record().path, failed))?;
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Frame::Piece { piece, bytes }.write(sink).await?;
        let mut content = Bytes::from(content);
        while !content.is_empty() {
            let block = content.split_to(pipe::BLOCK.min(content.len()));
            send_block(
                self.context,
                self.live,
                self.connection,
                self.flow,
                block,
                sink,
            )
            .await?;
        }
        Ok(())
    }
}

/// How many bytes each member has given of a file.
#[derive(Debug, Default)]
pub(in crate::transfer) struct Givers(Mutex<BTreeMap<MemberId, u64>>);

impl Givers {
    pub(super) fn add(&self, giver: MemberId, bytes: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = all.entry(giver).or_default();
        *given = given.saturating_add(bytes);
    }

    pub(in crate::transfer) fn all(&self) -> BTreeMap<MemberId, u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
