//! What was counted here, what others have counted, and what Postfix is told.
//!
//! An answer is made from memory. What others have counted is read again in the background once it
//! is older than `cache`; the first mail of a network waits for it for [`PATIENCE`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringway_node::control::{NamedCount, TallyFound};
use ringway_node::limits::COUNTS_IN_REQUEST;
use ringway_overlay::at_least;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::limits::{AGAIN, KEPT, MAILS, NETWORKS, PATIENCE, QUESTIONS, STALE};
use crate::network::Network;
use crate::request::Request;
use crate::ring;

/// What the user has chosen.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) control: PathBuf,
    pub(crate) liars: usize,
    pub(crate) defer: Option<u64>,
    pub(crate) window: u64,
    pub(crate) cache: Duration,
}

/// One network in one window.
#[derive(Debug, Default)]
struct Entry {
    own: u64,
    /// Whether any of it may be in the ring.
    offered: bool,
    /// What of it is in the ring, and since when.
    left: Option<(u64, Instant)>,
    /// What all have counted, when it was read.
    found: Option<(TallyFound, Instant)>,
    /// Whether it is being read.
    reading: bool,
    /// Those who wait for the first time.
    read: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// When the window has begun, in Unix seconds.
    start: u64,
    entries: BTreeMap<Network, Entry>,
    /// Mails that have counted, the oldest first.
    mails: VecDeque<String>,
    known: BTreeSet<String>,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Counters {
    settings: Arc<Settings>,
    state: Arc<Mutex<State>>,
    questions: Arc<Semaphore>,
}

impl Counters {
    pub(crate) fn new(settings: Settings) -> Counters {
        Counters {
            settings: Arc::new(settings),
            state: Arc::default(),
            questions: Arc::new(Semaphore::new(QUESTIONS)),
        }
    }

    /// Counts a mail, and says what Postfix is to do with it.
    pub(crate) async fn answer(&self, request: &Request) -> String {
        let Some(client) = request.client else {
            return "DUNNO".to_owned();
        };
        let network = Network::of(client);
        let new = {
            let mut state = self.state();
            let new = state.is_new_mail(&request.instance);
            let full = state.entries.len() >= NETWORKS;
            if full && !state.entries.contains_key(&network) {
                return "DUNNO".to_owned();
            }
            let entry = state.entries.entry(network).or_default();
            entry.own = entry.own.saturating_add(u64::from(new));
            new
        };
        self.refresh(network).await;
        self.action(network, new)
    }

    /// Has the tally of a network read if it is not known, or is old; waits only if it never was.
    async fn refresh(&self, network: Network) {
        let read = {
            let mut state = self.state();
            let start = state.start;
            let Some(entry) = state.entries.get_mut(&network) else {
                return;
            };
            let age = entry.found.as_ref().map(|(_, at)| at.elapsed());
            if age.is_some_and(|age| age < self.settings.cache) {
                return;
            }
            if !std::mem::replace(&mut entry.reading, true) {
                self.read(network, start);
            }
            if age.is_some() {
                return;
            }
            Arc::clone(&entry.read).notified_owned()
        };
        timeout(PATIENCE, read).await.ok();
    }

    /// Reads a tally in the background.
    fn read(&self, network: Network, start: u64) {
        let (settings, state) = (Arc::clone(&self.settings), Arc::clone(&self.state));
        let questions = Arc::clone(&self.questions);
        tokio::spawn(async move {
            let permit = questions.acquire().await;
            let found = ring::tally(&settings.control, network.name(start)).await;
            drop(permit);
            let mut state = lock(&state);
            if state.start != start {
                return;
            }
            if let Some(entry) = state.entries.get_mut(&network) {
                entry.reading = false;
                if let Ok(found) = found {
                    entry.recall(&found);
                    entry.found = Some((found, Instant::now()));
                }
                entry.read.notify_waiters();
            }
        });
    }

    fn action(&self, network: Network, new: bool) -> String {
        let state = self.state();
        let Some(entry) = state.entries.get(&network) else {
            return "DUNNO".to_owned();
        };
        let found = entry.found.as_ref();
        let found = found.filter(|(_, at)| at.elapsed() < STALE.max(self.settings.cache));
        // Without the ring mail goes on as if this were not here.
        let Some((found, _)) = found else {
            return "DUNNO".to_owned();
        };
        let others = found.counts.iter().filter(|count| !count.own);
        let others = others.map(|count| count.count);
        // The own count is no lie.
        let certain = at_least(others.clone(), self.settings.liars).saturating_add(entry.own);
        if self.settings.defer.is_some_and(|most| certain > most) {
            return format!(
                "DEFER_IF_PERMIT 4.7.1 {network} has sent {certain} mails in this window"
            );
        }
        // For each recipient there would be another line.
        if !new {
            return "DUNNO".to_owned();
        }
        let reported = others.fold(entry.own, u64::saturating_add);
        format!(
            "PREPEND X-Trinity: network={network}; at-least={certain}; reported={reported}; \
             routers={}",
            found.counts.len()
        )
    }

    /// Leaves in the ring what has grown since, and what was left long ago.
    pub(crate) async fn publish(&self) -> Result<(), String> {
        let (start, counts) = {
            let mut state = self.state();
            let mut counts = Vec::new();
            for (network, entry) in &mut state.entries {
                if entry.is_due() {
                    entry.offered = true;
                    counts.push((*network, entry.own));
                }
            }
            (state.start, counts)
        };
        let expires = start + self.settings.window + KEPT;
        for some in counts.chunks(COUNTS_IN_REQUEST) {
            let named = some.iter().map(|(network, count)| NamedCount {
                name: network.name(start),
                count: *count,
            });
            let left = ring::leave(&self.settings.control, named.collect(), expires).await?;
            let left: BTreeSet<String> = left.into_iter().collect();
            let mut state = self.state();
            if state.start != start {
                return Ok(());
            }
            for (network, count) in some {
                if left.contains(&network.name(start))
                    && let Some(entry) = state.entries.get_mut(network)
                {
                    entry.left = Some((*count, Instant::now()));
                }
            }
        }
        Ok(())
    }

    /// The state of the window that it is now: of a new one nothing is known.
    fn state(&self) -> MutexGuard<'_, State> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let start = now - now % self.settings.window;
        let mut state = lock(&self.state);
        if state.start != start {
            state.start = start;
            state.entries.clear();
        }
        state
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// Whether there is something to leave in the ring. Not while the first reading is under way:
    /// it says what this server had counted before.
    fn is_due(&self) -> bool {
        match self.left {
            Some((left, at)) => self.own > left || at.elapsed() >= AGAIN,
            None => self.own > 0 && (self.found.is_some() || !self.reading),
        }
    }

    /// Goes on where this program has ended before. The router has signed that count itself, so
    /// no other can have raised it.
    fn recall(&mut self, found: &TallyFound) {
        if !self.offered && self.found.is_none() {
            let own = found.counts.iter().find(|count| count.own);
            let before = own.map_or(0, |count| count.count);
            self.own = self.own.saturating_add(before);
        }
    }
}

impl State {
    /// Whether this mail has not been seen. One without a name always counts.
    fn is_new_mail(&mut self, instance: &str) -> bool {
        if instance.is_empty() {
            return true;
        }
        if !self.known.insert(instance.to_owned()) {
            return false;
        }
        self.mails.push_back(instance.to_owned());
        if self.mails.len() > MAILS
            && let Some(oldest) = self.mails.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
