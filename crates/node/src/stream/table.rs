//! The open streams of a member.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use data_encoding::HEXLOWER;
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use tokio::sync::mpsc;

use super::StreamError;
use super::drive::Order;
use super::wire::StreamId;
use crate::clock::unix_seconds;
use crate::control::StreamStatus;
use crate::limits::{STREAMS, STREAMS_ENDED};

/// What others see of a stream while its task works.
#[derive(Debug, Default)]
pub(super) struct Meters {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    /// Bits of the number.
    priority: AtomicU64,
    pub(super) attached: AtomicBool,
    pub(super) over_link: AtomicBool,
    pub(super) resumed: AtomicU32,
}

impl Meters {
    pub(super) fn set_priority(&self, priority: f64) {
        self.priority.store(priority.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn priority(&self) -> f64 {
        f64::from_bits(self.priority.load(Ordering::Relaxed))
    }
}

/// One stream.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: StreamId,
    pub(super) peer: MemberId,
    pub(super) peer_name: String,
    pub(super) service: String,
    /// It was opened here.
    pub(super) outgoing: bool,
    pub(super) since: u64,
    pub(super) began: Instant,
    pub(super) meters: Arc<Meters>,
    pub(super) orders: mpsc::Sender<Order>,
}

impl Entry {
    pub(super) fn new(
        id: StreamId,
        peer: (MemberId, String),
        service: &str,
        outgoing: bool,
        orders: mpsc::Sender<Order>,
    ) -> Entry {
        let (peer, peer_name) = peer;
        Entry {
            id,
            peer,
            peer_name,
            service: service.to_owned(),
            outgoing,
            since: unix_seconds(),
            began: Instant::now(),
            meters: Arc::default(),
            orders,
        }
    }

    pub(super) fn status(&self) -> StreamStatus {
        let meters = &self.meters;
        let attached = meters.attached.load(Ordering::Relaxed);
        let over_link = meters.over_link.load(Ordering::Relaxed);
        StreamStatus {
            id: HEXLOWER.encode(&self.id),
            peer: self.peer_name.clone(),
            service: self.service.clone(),
            direction: if self.outgoing { "out" } else { "in" }.to_owned(),
            state: if attached { "open" } else { "waiting" }.to_owned(),
            way: attached.then(|| if over_link { "link" } else { "quic" }.to_owned()),
            since: self.since,
            sent: meters.sent.load(Ordering::Relaxed),
            received: meters.received.load(Ordering::Relaxed),
            priority: meters.priority(),
            resumed: meters.resumed.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    open: BTreeMap<(MemberId, StreamId), Entry>,
    /// Those of peers that have ended well, the oldest first.
    ended: VecDeque<(MemberId, StreamId)>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<Known>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a stream in; false if there are too many, or one with this id. `fits` counts those
    /// that there are.
    pub(super) fn insert(&self, entry: Entry, fits: impl FnOnce(&[&Entry]) -> bool) -> bool {
        let mut known = self.lock();
        let key = (entry.peer, entry.id);
        let room = known.open.len() < STREAMS && !known.open.contains_key(&key);
        let fits = room && fits(&known.open.values().collect::<Vec<_>>());
        if fits {
            known.open.insert(key, entry);
        }
        fits
    }

    pub(super) fn remove(&self, entry: &Entry, finished: bool) {
        let mut known = self.lock();
        let key = (entry.peer, entry.id);
        known.open.remove(&key);
        if finished && !entry.outgoing {
            if known.ended.len() >= STREAMS_ENDED {
                known.ended.pop_front();
            }
            known.ended.push_back(key);
        }
    }

    /// A stream that this peer has opened.
    pub(super) fn of_peer(&self, peer: MemberId, id: StreamId) -> Option<Entry> {
        let known = self.lock();
        let entry = known.open.get(&(peer, id));
        entry.filter(|entry| !entry.outgoing).cloned()
    }

    /// Whether a stream that this peer has opened has ended well.
    pub(super) fn has_finished(&self, peer: MemberId, id: StreamId) -> bool {
        self.lock().ended.contains(&(peer, id))
    }

    pub(super) fn count(&self, wanted: impl Fn(&Entry) -> bool) -> usize {
        self.lock().open.values().filter(|it| wanted(it)).count()
    }

    pub(super) fn end_where(&self, wanted: impl Fn(&Entry) -> bool, reason: &str) {
        let all: Vec<Entry> = self.lock().open.values().cloned().collect();
        for entry in all.into_iter().filter(wanted) {
            // A stream whose task takes no order is ending.
            entry.orders.try_send(Order::End(reason.to_owned())).ok();
        }
    }

    pub(super) fn list(&self) -> Vec<StreamStatus> {
        let mut all: Vec<Entry> = self.lock().open.values().cloned().collect();
        all.sort_by_key(|entry| entry.began);
        all.iter().map(Entry::status).collect()
    }

    pub(super) fn set_priority(
        &self,
        prefix: &str,
        priority: Priority,
    ) -> Result<Option<StreamStatus>, StreamError> {
        let known = self.lock();
        let mut fitting = known
            .open
            .values()
            .filter(|entry| HEXLOWER.encode(&entry.id).starts_with(prefix));
        let Some(entry) = fitting.next().filter(|_| !prefix.is_empty()) else {
            return Ok(None);
        };
        if fitting.next().is_some() {
            return Err(StreamError::Usage(format!(
                "several streams have ids that begin with `{prefix}`: give more of it"
            )));
        }
        entry.orders.try_send(Order::Priority(priority)).ok();
        entry.meters.set_priority(priority.get());
        Ok(Some(entry.status()))
    }
}
