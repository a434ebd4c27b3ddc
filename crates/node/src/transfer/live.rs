//! A transfer in memory: what is on disk about it, and what happens to it now.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bao_tree::ChunkRanges;
use ringway_dtl::{LimitedBy, Priority};
use ringway_transport::quic::{QuicConnection, member_address};
use tokio::sync::watch;

use super::content::Partial;
use super::record::{Direction, Phase, Record};
use super::uplink::Flow;
use crate::control::{PathReport, TransferStatus};

/// How far back the rate looks.
const WINDOW: Duration = Duration::from_secs(1);
/// How often it is sampled.
pub(super) const SAMPLE: Duration = Duration::from_millis(100);

/// A transfer that this daemon knows.
#[derive(Debug)]
pub(super) struct Live {
    record: Mutex<Record>,
    /// Bytes of content done.
    pub(super) bytes: Arc<AtomicU64>,
    /// Bytes that an earlier attempt has left here.
    pub(super) resumed: AtomicU64,
    /// True once the user has given the transfer up.
    pub(super) cancelled: watch::Sender<bool>,
    /// Counts attempts: a later one makes earlier ones end.
    pub(super) attempts: watch::Sender<u64>,
    /// A partial file that a superseded attempt has checked, for the next one.
    checked: Mutex<Option<Checked>>,
    /// Held by the attempt that runs.
    pub(super) running: tokio::sync::Mutex<()>,
    /// Bytes done at moments of the last second.
    samples: Mutex<VecDeque<(Instant, u64)>>,
    channel: Mutex<Option<Channel>>,
}

/// A partial file, what it lacks, and how many bytes it has.
pub(super) type Checked = (Partial, ChunkRanges, u64);

/// What carries the transfer at the moment.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) connection: QuicConnection,
    pub(super) flow: Option<Arc<Flow>>,
}

impl Live {
    pub(super) fn new(record: Record) -> Live {
        let done = if record.phase == Phase::Done {
            record.size
        } else {
            0
        };
        Live {
            record: Mutex::new(record),
            bytes: Arc::new(AtomicU64::new(done)),
            resumed: AtomicU64::new(0),
            cancelled: watch::Sender::new(false),
            attempts: watch::Sender::new(0),
            checked: Mutex::new(None),
            running: tokio::sync::Mutex::new(()),
            samples: Mutex::default(),
            channel: Mutex::new(None),
        }
    }

    pub(super) fn record(&self) -> Record {
        self.lock_record().clone()
    }

    pub(super) fn lock_record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock_record().phase
    }

    fn lock_samples(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_channel(&self, channel: Option<Channel>) {
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = channel;
    }

    pub(super) fn keep_checked(&self, checked: Checked) {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = Some(checked);
    }

    pub(super) fn take_checked(&self) -> Option<Checked> {
        self.checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ends what carries the transfer, if anything does.
    pub(super) fn close(&self, code: u32, reason: &str) {
        if let Some(channel) = self.channel() {
            channel.connection.close(code, reason);
        }
    }

    fn channel(&self) -> Option<Channel> {
        self.channel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Applies to what flows now and to what flows later.
    pub(super) fn set_priority(&self, priority: Priority) {
        self.lock_record().priority = priority;
        if let Some(channel) = self.channel() {
            channel.connection.set_priority(priority);
            if let Some(flow) = channel.flow {
                flow.set_priority(priority);
            }
        }
    }

    /// Content begins to flow with `present` bytes there already.
    pub(super) fn begin(&self, present: u64) {
        self.bytes.store(present, Ordering::Relaxed);
        self.resumed.fetch_max(present, Ordering::Relaxed);
        let mut samples = self.lock_samples();
        samples.clear();
        samples.push_back((Instant::now(), present));
    }

    /// Called every [`SAMPLE`] while the transfer is active, and when it ceases to be.
    pub(super) fn sample(&self, now: Instant) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let mut samples = self.lock_samples();
        let last = samples.back().copied();
        samples.push_back((now, bytes));
        while samples.len() > 2 && samples.get(1).is_some_and(|(time, _)| *time + WINDOW < now) {
            samples.pop_front();
        }
        drop(samples);
        if let Some((last, before)) = last {
            let mut record = self.lock_record();
            record.active += now.saturating_duration_since(last);
            record.moved += bytes.saturating_sub(before);
        }
    }

    /// Bytes per second over the last second, or over all the time that data flowed once it does not; none before it did.
    fn rate(&self, record: &Record) -> Option<f64> {
        if record.phase != Phase::Active {
            return per_second(record.moved, record.active);
        }
        let samples = self.lock_samples();
        let ((from, before), (to, after)) = (samples.front()?, samples.back()?);
        per_second(after.saturating_sub(*before), *to - *from)
    }

    pub(super) fn status(&self) -> TransferStatus {
        let record = self.record();
        let bytes = match record.phase {
            Phase::Done => record.size,
            _ => self.bytes.load(Ordering::Relaxed).min(record.size),
        };
        let rate = self.rate(&record);
        let left = as_f64(record.size.saturating_sub(bytes));
        let active = record.phase == Phase::Active;
        let channel = self.channel().filter(|_| active);
        let report = channel.as_ref().map(|channel| channel.connection.report());
        TransferStatus {
            id: record.id.to_string(),
            direction: record.direction.as_str().to_owned(),
            state: record.phase.as_str().to_owned(),
            reason: record.reason.clone(),
            peer: record.peer_name.clone(),
            file: record.file.clone(),
            path: record.path.clone(),
            size: record.size,
            bytes,
            rate,
            eta_s: rate
                .filter(|rate| active && *rate > 0.0)
                .map(|rate| left / rate),
            active_s: record.active.as_secs_f64(),
            priority: record.priority.get(),
            blake3: record.hash.map(|hash| hash.to_hex().to_string()),
            resumed_from: self.resumed.load(Ordering::Relaxed),
            limited_by: channel
                .as_ref()
                .zip(report.as_ref())
                .and_then(|(channel, report)| limit(&record, channel, report.limited_by)),
            path_report: channel.zip(report).map(|(channel, report)| PathReport {
                address: shown(&channel.connection),
                rtt_ms: report.rtt.as_secs_f64() * 1e3,
                queueing_ms: report.queueing_delay.unwrap_or_default().as_secs_f64() * 1e3,
                window: report.window,
                packets_sent: report.sent,
                packets_lost: report.lost,
            }),
        }
    }
}

/// Why the transfer is not faster, in the words of [`TransferStatus::limited_by`].
fn limit(record: &Record, channel: &Channel, limited_by: Option<LimitedBy>) -> Option<String> {
    if record.direction == Direction::Receive {
        return None;
    }
    let held_back = |flow: &&Arc<Flow>| flow.is_held_back(Instant::now());
    let text = match channel.flow.as_ref().filter(held_back) {
        Some(flow) if record.priority.is_scavenger() && flow.has_others() => "behind-others",
        Some(_) => "capped",
        None => match limited_by? {
            LimitedBy::Yielding => "yielding",
            LimitedBy::Loss => "loss-limited",
            LimitedBy::Application => "application-limited",
            LimitedBy::SlowStart => "slow-start",
            LimitedBy::Growth => "growing",
            _ => return None,
        },
    };
    Some(text.to_owned())
}

fn shown(connection: &QuicConnection) -> String {
    match connection.remote() {
        Some(address) if address == member_address(&connection.peer()) => "link".to_owned(),
        Some(address) => format!("quic://{address}"),
        None => String::new(),
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a rate for people; exact below 2^53 bytes"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

/// None of no time.
fn per_second(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| as_f64(bytes) / time.as_secs_f64())
}
