//! A distributed file at one of its receivers, and all such files of a member.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bao_tree::ChunkRanges;
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use tokio::sync::{Semaphore, watch};

use super::gather::Gatherer;
use super::pieces::Division;
use crate::limits::{ASKERS, SHARES};
use crate::transfer::content::Partial;

/// What the sender gives to those that accepted its file, and to no other: who knows it may ask.
pub(in crate::transfer) type Secret = [u8; 16];

/// A distributed file at one of its receivers.
#[derive(Debug)]
pub(in crate::transfer) struct Share {
    division: Division,
    /// What it is worth to give it to others.
    pub(super) priority: Priority,
    partial: RwLock<Partial>,
    gatherer: Mutex<Gatherer<MemberId>>,
    /// Once the sender has told it.
    pub(super) secret: OnceLock<Secret>,
    began: Instant,
    /// Changes when something of it does.
    pub(super) changed: watch::Sender<()>,
    /// Whether it is given no more.
    pub(super) ended: watch::Sender<bool>,
    pub(super) askers: Semaphore,
}

impl Share {
    /// Of a file that lacks what is `missing`, and is worth so much to its sender.
    pub(in crate::transfer) fn new(
        division: Division,
        partial: Partial,
        missing: &ChunkRanges,
        priority: f64,
    ) -> Arc<Share> {
        // To give it is worth no more than a transfer that nothing is said about.
        let priority = Priority::new(priority.min(Priority::NORMAL.get()));
        let priority = priority.unwrap_or(Priority::NORMAL);
        let has = division.without(missing);
        Arc::new(Share {
            division,
            priority,
            partial: RwLock::new(partial),
            gatherer: Mutex::new(Gatherer::new(division, has, rand::random())),
            secret: OnceLock::new(),
            began: Instant::now(),
            changed: watch::Sender::new(()),
            ended: watch::Sender::new(false),
            askers: Semaphore::new(ASKERS),
        })
    }

    pub(super) fn division(&self) -> Division {
        self.division
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Gatherer<MemberId>> {
        self.gatherer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the [`Gatherer`].
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Changes something, and says that it has changed.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Gatherer<MemberId>) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.send_replace(());
        changed
    }

    /// Proves a piece, and writes it.
    pub(super) async fn write(self: &Arc<Share>, piece: u32, content: Vec<u8>) -> io::Result<()> {
        let share = Arc::clone(self);
        let writing = tokio::task::spawn_blocking(move || {
            let mut partial = share
                .partial
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            // It has come twice: the file may be whole already, and be a person's.
            if share.lock().has(piece) {
                return Ok(());
            }
            let counted = AtomicU64::new(0);
            partial.decode(&share.division.range(piece), content.as_slice(), &counted)
        });
        writing.await.map_err(io::Error::other)?
    }

    /// A piece that is here, with the hashes that prove it.
    pub(super) async fn read(self: &Arc<Share>, piece: u32) -> io::Result<Vec<u8>> {
        let share = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || {
            let partial = share.partial.read().unwrap_or_else(PoisonError::into_inner);
            let mut content = Vec::new();
            partial.encode(&share.division.range(piece), &mut content)?;
            Ok(content)
        });
        reading.await.map_err(io::Error::other)?
    }
}

/// All distributed files that a member gives to others.
#[derive(Debug, Default)]
pub(in crate::transfer) struct Shares {
    all: Mutex<BTreeMap<Secret, Arc<Share>>>,
    changed: watch::Sender<()>,
}

impl Shares {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Secret, Arc<Share>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that know the secret may ask for the file from now on.
    pub(super) fn add(&self, secret: Secret, share: &Arc<Share>) {
        let mut all = self.lock();
        if let Some(before) = all.insert(secret, Arc::clone(share))
            && !Arc::ptr_eq(&before, share)
        {
            before.ended.send_replace(true);
        }
        if all.len() > SHARES {
            let complete = all.iter().filter(|(_, share)| share.lock().is_complete());
            let first = complete.min_by_key(|(_, share)| share.began);
            let first = first.map_or(secret, |(secret, _)| *secret);
            if let Some(gone) = all.remove(&first) {
                gone.ended.send_replace(true);
            }
        }
        drop(all);
        self.changed.send_replace(());
    }

    /// It is given no more.
    pub(super) fn remove(&self, share: &Arc<Share>) {
        share.ended.send_replace(true);
        self.lock().retain(|_, known| !Arc::ptr_eq(known, share));
    }

    /// What the secret is for, once the sender has said so here.
    pub(super) async fn find(&self, secret: &Secret) -> Arc<Share> {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(share) = self.lock().get(secret) {
                return Arc::clone(share);
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
