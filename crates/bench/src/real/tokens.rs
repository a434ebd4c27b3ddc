//! What the routers of the benchmark do with messages: pass tokens on, and count packets.
//!
//! Source: "Our Brothers' Keepers" §4.1 and §4.2.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringway_node::daemon::{RingMessages, RingSender};
use ringway_overlay::RingKey;

/// Bodies of messages begin with one of these.
mod kind {
    pub(super) const TOKEN: u8 = b'p';
    pub(super) const PACKET: u8 = b't';
}

/// What all routers together count.
#[derive(Debug, Default)]
pub(super) struct Game {
    playing: AtomicBool,
    passes: AtomicU64,
    /// Passes of which no answer came.
    lost: AtomicU64,
    packets: Mutex<Packets>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Packets {
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Game {
    /// Lets a router take part for as long as it runs.
    pub(super) fn join(self: &Arc<Game>, mut messages: RingMessages) {
        let game = Arc::clone(self);
        let sender = messages.sender();
        tokio::spawn(async move {
            while let Some(message) = messages.receive().await {
                match message.body.split_first() {
                    Some((&kind::TOKEN, _)) => {
                        game.passes.fetch_add(1, Ordering::Relaxed);
                        if game.playing.load(Ordering::Relaxed) {
                            tokio::spawn(Arc::clone(&game).pass(sender.clone()));
                        }
                    }
                    Some((&kind::PACKET, _)) => game.packet(),
                    _ => {}
                }
            }
        });
    }

    /// Sends a token to the owner of a random point, until somebody has it.
    async fn pass(self: Arc<Game>, sender: RingSender) {
        while self.playing.load(Ordering::Relaxed) {
            let point = RingKey::from_bytes(rand::random());
            if sender.to_point(point, &[kind::TOKEN]).await.is_ok() {
                return;
            }
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets `tokens` go round, until [`Game::end`].
    pub(super) fn begin(self: &Arc<Game>, senders: &[RingSender], tokens: usize) {
        self.playing.store(true, Ordering::Relaxed);
        for sender in senders.iter().cycle().take(tokens) {
            tokio::spawn(Arc::clone(self).pass(sender.clone()));
        }
    }

    /// Passes of all tokens so far, and those of which no answer came.
    pub(super) fn counts(&self) -> (u64, u64) {
        let lost = self.lost.load(Ordering::Relaxed);
        (self.passes.load(Ordering::Relaxed), lost)
    }

    /// What is under way arrives, and stays where it is.
    pub(super) async fn end(&self) {
        self.playing.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    fn packet(&self) {
        let mut packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        packets.count += 1;
        packets.first.get_or_insert(now);
        packets.last = Some(now);
    }

    /// Has `sender` send `count` packets to the router `to` as fast as the ring takes them; packets
    /// a second between the first and the last.
    pub(super) async fn packets(&self, sender: &RingSender, to: &str, count: usize) -> Option<f64> {
        let counted = || *self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        *self.packets.lock().unwrap_or_else(PoisonError::into_inner) = Packets::default();
        let mut sending = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (sender, to) = (sender.clone(), to.to_owned());
            sending.spawn(async move { sender.to_router(&to, &[kind::PACKET]).await.is_ok() });
            if sending.len() >= WINDOW {
                sending.join_next().await;
            }
        }
        while sending.join_next().await.is_some() {}
        let end = Instant::now() + Duration::from_secs(2);
        while counted().count < count as u64 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let packets = counted();
        let spent = packets.last?.duration_since(packets.first?);
        (spent > Duration::ZERO).then(|| (packets.count - 1) as f64 / spent.as_secs_f64())
    }
}

/// Packets under way at once.
/// Source: chosen; more than a round trip through the ring takes.
const WINDOW: usize = 256;
