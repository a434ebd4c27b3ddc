//! Connections to peers for streams: one for each priority, kept warm for a while.
//!
//! A connection has one congestion control and one priority. Streams of one priority share it, so
//! that a further stream costs no handshake.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::QuicConnection;

use super::Inner;
use crate::certificate::Certificate;
use crate::connection::{Connections, RaceError, code};
use crate::limits::{STREAM_CONNECTION_UNUSED, STREAM_STRAIGHT, STREAMS_ON_CONNECTION};

/// To whom, and the bits of the priority.
type Key = (MemberId, u64);

/// A connection for streams.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) connection: QuicConnection,
    certificate: Certificate,
    pub(super) priority: Priority,
    pub(super) over_link: bool,
    streams: AtomicUsize,
    /// Nothing comes over it: no new stream takes it.
    suspect: AtomicBool,
    /// There is a better one: streams leave it.
    retired: AtomicBool,
    last_used: Mutex<Instant>,
}

impl Pooled {
    fn is_good(&self) -> bool {
        self.connection.close_reason().is_none()
            && !self.suspect.load(Ordering::Relaxed)
            && !self.retired.load(Ordering::Relaxed)
    }

    pub(super) fn set_suspect(&self, suspect: bool) {
        self.suspect.store(suspect, Ordering::Relaxed);
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }
}

/// The use of a connection by one stream; dropping it ends the use.
#[derive(Debug)]
pub(super) struct Use(pub(super) Arc<Pooled>);

impl Use {
    fn of(pooled: &Arc<Pooled>) -> Option<Use> {
        let taken = pooled.streams.fetch_add(1, Ordering::Relaxed);
        // Counted: dropping it gives it back.
        let used = Use(Arc::clone(pooled));
        (taken < STREAMS_ON_CONNECTION && pooled.is_good()).then_some(used)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
        let mut last = self.0.last_used.lock();
        if let Ok(last) = &mut last {
            **last = Instant::now();
        }
    }
}

type Dialling = BTreeMap<Key, Weak<tokio::sync::Mutex<()>>>;

/// All of them.
#[derive(Debug)]
pub(super) struct Pool {
    connections: Connections,
    open: Mutex<BTreeMap<Key, Vec<Arc<Pooled>>>>,
    /// One attempt at a time for each: those who wait share what it brings.
    dialling: Mutex<Dialling>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(super) fn new(connections: Connections) -> Pool {
        Pool {
            connections,
            open: Mutex::default(),
            dialling: Mutex::default(),
        }
    }

    /// Getter: what makes them.
    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    fn warm(&self, key: Key) -> Option<Use> {
        let open = lock(&self.open);
        open.get(&key)?.iter().find_map(Use::of)
    }

    /// A connection of this priority: a warm one, or another.
    ///
    /// # Errors
    /// When the peer cannot be reached, or by mail only.
    pub(super) async fn get(
        &self,
        certificate: Certificate,
        priority: Priority,
        head_start: Duration,
    ) -> Result<Use, RaceError> {
        let key = (certificate.member(), priority.get().to_bits());
        if let Some(used) = self.warm(key) {
            return Ok(used);
        }
        let turn = {
            let mut dialling = lock(&self.dialling);
            dialling.retain(|_, turn| turn.strong_count() > 0);
            let known = dialling.get(&key).and_then(Weak::upgrade);
            let turn = known.unwrap_or_default();
            dialling.insert(key, Arc::downgrade(&turn));
            turn
        };
        let _turn = turn.lock().await;
        // The one before has brought one, or it is full.
        if let Some(used) = self.warm(key) {
            return Ok(used);
        }
        let connecting = self
            .connections
            .connect_first(certificate.clone(), priority, head_start);
        let (connection, over_link) = connecting.await?;
        let pooled = self.keep(connection, certificate, priority, over_link);
        pooled.streams.fetch_add(1, Ordering::Relaxed);
        Ok(Use(pooled))
    }

    fn keep(
        &self,
        connection: QuicConnection,
        certificate: Certificate,
        priority: Priority,
        over_link: bool,
    ) -> Arc<Pooled> {
        let key = (certificate.member(), priority.get().to_bits());
        let pooled = Arc::new(Pooled {
            connection,
            certificate,
            priority,
            over_link,
            streams: AtomicUsize::new(0),
            suspect: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            last_used: Mutex::new(Instant::now()),
        });
        let mut open = lock(&self.open);
        // The newest first: it is the one that is known to work.
        open.entry(key).or_default().insert(0, Arc::clone(&pooled));
        pooled
    }

    /// Closes what is dead, or has not been used for long.
    fn tidy(&self, now: Instant) {
        let mut open = lock(&self.open);
        for all in open.values_mut() {
            all.retain(|pooled| {
                if pooled.streams.load(Ordering::Relaxed) > 0 {
                    return pooled.connection.close_reason().is_none();
                }
                let unused = now.saturating_duration_since(*lock(&pooled.last_used));
                let keeps = pooled.is_good() && unused < STREAM_CONNECTION_UNUSED;
                if !keeps {
                    pooled.connection.close(code::DONE, "nothing more to do");
                }
                keeps
            });
        }
        open.retain(|_, all| !all.is_empty());
    }

    /// Connections over links that streams use.
    fn over_links(&self) -> Vec<Arc<Pooled>> {
        let open = lock(&self.open);
        let all = open.values().flatten();
        all.filter(|pooled| {
            pooled.over_link && pooled.is_good() && pooled.streams.load(Ordering::Relaxed) > 0
        })
        .cloned()
        .collect()
    }

    /// Looks for a straight connection instead of one over the link.
    async fn straighten(&self, slow: &Pooled) {
        let certificate = slow.certificate.clone();
        let connecting = self
            .connections
            .connect_straight(certificate.clone(), slow.priority);
        if let Ok(connection) = connecting.await {
            self.keep(connection, certificate, slow.priority, false);
            slow.retired.store(true, Ordering::Relaxed);
        }
    }
}

/// Looks after the pool for as long as it lives.
pub(super) async fn look_after(inner: Weak<Inner>) {
    let mut tick = tokio::time::interval(STREAM_STRAIGHT);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        inner.pool.tidy(Instant::now());
        for slow in inner.pool.over_links() {
            let inner = Arc::clone(&inner);
            tokio::spawn(async move { inner.pool.straighten(&slow).await });
        }
    }
}
