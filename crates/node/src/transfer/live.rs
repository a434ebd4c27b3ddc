//! A transfer in memory: what is on disk about it, and what happens to it now.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bao_tree::ChunkRanges;
use ringway_dtl::{LimitedBy, Priority};
use ringway_transport::MemberId;
use ringway_transport::limits::QUIC_STREAM_WINDOW;
use ringway_transport::quic::{ConnectionReport, QuicConnection, member_address};
use tokio::sync::{Notify, watch};

use super::bundle::{Kind, ListSlot};
use super::content::{Partial, safe_file_name};
use super::distribute::Givers;
use super::origin;
use super::record::{Direction, Phase, Record, TransferId};
use super::uplink::{Flow, HeldBack};
use crate::control::{Giver, PathReport, TransferStatus, limited_by};
use crate::directory::Directory;

/// How far back the rate looks.
const WINDOW: Duration = Duration::from_secs(1);
/// How often it is sampled.
pub(super) const SAMPLE: Duration = Duration::from_millis(100);

/// How long the network must have taken nothing before that is worth telling.
const BLOCKED: Duration = Duration::from_millis(500);
/// The part of the last second for which the network must have taken nothing, if it takes something
/// again and again.
const MOSTLY: f64 = 0.5;
/// The part of what one transfer may have under way that must be, for that to be what holds it
/// back.
const UNDER_WAY: f64 = 0.75;
/// How long a peer must have been silent: far longer than an acknowledgement takes, also over a
/// slow link.
const SILENT: Duration = Duration::from_secs(2);
/// Whose cap the process's is, in [`TransferStatus::capped_by`].
const ALL: &str = "all";

/// A transfer that this daemon knows.
#[derive(Debug)]
pub(super) struct Live {
    record: Mutex<Record>,
    /// Bytes of content done.
    pub(super) bytes: Arc<AtomicU64>,
    /// Bytes that an earlier attempt has left here.
    pub(super) resumed: AtomicU64,
    /// Whether the log has been told that the disk takes it not.
    pub(super) disk_failed: AtomicBool,
    /// True once the user has given the transfer up.
    pub(super) cancelled: watch::Sender<bool>,
    /// The network or the peer is back: waiting has an end.
    pub(super) woken: Notify,
    /// The network is another: connections may be dead.
    pub(super) moved: Notify,
    /// Counts attempts: a later one makes earlier ones end.
    pub(super) attempts: watch::Sender<u64>,
    /// A partial file that a superseded attempt has checked, for the next one.
    checked: Mutex<Option<Checked>>,
    /// Where its content comes from, of one that is sent and has not ended.
    pub(super) origin: origin::Slot,
    /// The list of a bundle, as long as it is used.
    pub(super) list: ListSlot,
    /// Who has given how much of one that comes in from several.
    pub(super) givers: Givers,
    /// What a person should know of it, a line for each thing.
    notes: Mutex<Vec<String>>,
    /// Held by the attempt that runs.
    pub(super) running: tokio::sync::Mutex<()>,
    /// What was so at moments of the last second.
    samples: Mutex<VecDeque<Sample>>,
    writes: Mutex<Writes>,
    /// Packets that had come from the peer, and when the last one did.
    last_received: Mutex<Option<(u64, Instant)>>,
    channel: Mutex<Option<Channel>>,
}

/// A moment of a transfer.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// Bytes done.
    bytes: u64,
    /// How long content has waited for the network until then, in all.
    waited: Duration,
}

/// How content waits for the network to take it.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// Since when the network has taken nothing more, while it takes nothing.
    since: Option<Instant>,
    /// Waits that are over, in all.
    over: Duration,
}

impl Writes {
    /// All waits until now.
    fn waited(&self, now: Instant) -> Duration {
        let since = self.since.unwrap_or(now);
        self.over + now.saturating_duration_since(since)
    }
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
            disk_failed: AtomicBool::new(false),
            cancelled: watch::Sender::new(false),
            woken: Notify::new(),
            moved: Notify::new(),
            attempts: watch::Sender::new(0),
            checked: Mutex::new(None),
            origin: origin::Slot::default(),
            list: ListSlot::default(),
            givers: Givers::default(),
            notes: Mutex::default(),
            running: tokio::sync::Mutex::new(()),
            samples: Mutex::default(),
            writes: Mutex::default(),
            last_received: Mutex::default(),
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

    fn lock_samples(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_channel(&self, channel: Option<Channel>) {
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = channel;
        *self.lock_last_received() = None;
    }

    fn lock_last_received(&self) -> MutexGuard<'_, Option<(u64, Instant)>> {
        self.last_received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_writes(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Content is handed to the network, which may not take it at once.
    pub(super) fn begin_write(&self) {
        self.lock_writes().since = Some(Instant::now());
    }

    /// The network has taken it, or never will.
    pub(super) fn end_write(&self) {
        let mut writes = self.lock_writes();
        writes.over = writes.waited(Instant::now());
        writes.since = None;
    }

    /// Whether the network has taken nothing for long.
    fn is_network_stalled(&self, now: Instant) -> bool {
        let since = self.lock_writes().since;
        since.is_some_and(|since| now.saturating_duration_since(since) > BLOCKED)
    }

    /// Whether content has waited for the network for most of the last second: a receiver that is
    /// slow lets a block pass now and then.
    fn mostly_waits(&self) -> bool {
        let samples = self.lock_samples();
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
            return false;
        };
        let waited = last.waited.saturating_sub(first.waited);
        waited > (last.at - first.at).mul_f64(MOSTLY)
    }

    /// Whether nothing has come from the peer for long, although it has something to answer.
    fn is_unanswered(&self, now: Instant) -> bool {
        let last_received = *self.lock_last_received();
        let silent =
            last_received.is_some_and(|(_, at)| now.saturating_duration_since(at) > SILENT);
        silent && self.is_network_stalled(now)
    }

    /// Whether what the receiver allows to be under way mostly is, on a path of this round trip.
    /// With a receiver that is slow most of it has come, and waits there.
    fn uses_its_window(&self, rtt: Duration) -> bool {
        let rate = self.moves().unwrap_or(0.0);
        rate * rtt.as_secs_f64() > f64::from(QUIC_STREAM_WINDOW) * UNDER_WAY
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

    pub(super) fn set_notes(&self, notes: Vec<String>) {
        *self.notes.lock().unwrap_or_else(PoisonError::into_inner) = notes;
    }

    pub(super) fn add_note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(note);
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

    /// Members to whom what is sent waits in one queue with this, as it has shown.
    pub(super) fn coupled_with(&self) -> Vec<MemberId> {
        let channel = self.channel();
        channel.map_or_else(Vec::new, |channel| {
            channel.connection.coupled_with().into_iter().collect()
        })
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
        let at = Instant::now();
        samples.push_back(Sample {
            at,
            bytes: present,
            waited: self.lock_writes().waited(at),
        });
    }

    /// Called every [`SAMPLE`] while the transfer is active, and when it ceases to be.
    pub(super) fn sample(&self, now: Instant) {
        if let Some(channel) = self.channel() {
            let received = channel.connection.report().received;
            let mut last_received = self.lock_last_received();
            if last_received.is_none_or(|(before, _)| before != received) {
                *last_received = Some((received, now));
            }
        }
        let bytes = self.bytes.load(Ordering::Relaxed);
        let mut samples = self.lock_samples();
        let last = samples.back().copied();
        samples.push_back(Sample {
            at: now,
            bytes,
            waited: self.lock_writes().waited(now),
        });
        while samples.len() > 2 && samples.get(1).is_some_and(|next| next.at + WINDOW < now) {
            samples.pop_front();
        }
        drop(samples);
        if let Some(last) = last {
            let mut record = self.lock_record();
            record.active += now.saturating_duration_since(last.at);
            record.moved += bytes.saturating_sub(last.bytes);
        }
    }

    /// Bytes per second over the last second, or over all the time that data flowed once it does
    /// not; none before it did.
    fn rate(&self, record: &Record) -> Option<f64> {
        if record.phase != Phase::Active {
            return per_second(record.moved, record.active);
        }
        self.moves()
    }

    /// Bytes per second over the last second.
    fn moves(&self) -> Option<f64> {
        let samples = self.lock_samples();
        let (first, last) = (samples.front()?, samples.back()?);
        per_second(last.bytes.saturating_sub(first.bytes), last.at - first.at)
    }

    /// Why an active transfer is not faster.
    fn limit(
        &self,
        now: Instant,
        priority: Priority,
        held: Option<&HeldBack>,
        by_network: Option<LimitedBy>,
        rtt: Duration,
    ) -> Option<LimitedBy> {
        if let Some(held) = held {
            let behind = priority.is_scavenger() && held.is_behind_others;
            return Some(if behind {
                LimitedBy::BehindOthers
            } else {
                LimitedBy::Capped
            });
        }
        if self.is_unanswered(now) {
            return Some(LimitedBy::Unanswered);
        }
        // There is data, and the network would take more: the receiver has not allowed it, and why
        // is seen from where the data is.
        let allows_no_more = || self.is_network_stalled(now) || self.mostly_waits();
        match by_network {
            Some(LimitedBy::Application) if allows_no_more() => {
                Some(if self.uses_its_window(rtt) {
                    LimitedBy::FlowControl
                } else {
                    LimitedBy::Receiver
                })
            }
            reason => reason,
        }
    }

    fn notes(&self, record: &Record) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        renamed(record)
            .into_iter()
            .chain(notes.iter().cloned())
            .collect()
    }

    /// Who has given how much, if more than the sender has.
    fn givers(&self, directory: &Directory) -> Vec<Giver> {
        let all = self.givers.all().into_iter();
        let mut givers: Vec<Giver> = all
            .map(|(member, bytes)| Giver {
                peer: name(directory, member),
                bytes,
            })
            .collect();
        givers.sort_by(|a, b| a.peer.cmp(&b.peer));
        givers
    }

    /// Names come from `directory`.
    pub(super) fn status(&self, directory: &Directory) -> TransferStatus {
        let record = self.record();
        let done = match record.phase {
            Phase::Done => record.size,
            _ => self.bytes.load(Ordering::Relaxed).min(record.size),
        };
        // Lists of bundles are nothing that anybody sends.
        let head = record.bundle.as_ref().map_or(0, |bundle| bundle.head);
        let [size, bytes] = [record.size, done].map(|bytes| bytes.saturating_sub(head));
        let list = self.list.get();
        let files = list.as_ref().map(|list| u64::from(list.files()));
        let rate = self.rate(&record);
        let left = as_f64(size.saturating_sub(bytes));
        let active = record.phase == Phase::Active;
        let channel = self.channel().filter(|_| active);
        let report = channel.as_ref().map(|channel| channel.connection.report());
        let now = Instant::now();
        let sends = record.direction == Direction::Send;
        let flow = channel.as_ref().and_then(|channel| channel.flow.as_ref());
        let held = flow.and_then(|flow| flow.held_back(now));
        let by_network = report.as_ref().and_then(|report| report.limited_by);
        let rtt = report.as_ref().map_or(Duration::ZERO, |report| report.rtt);
        let limit = if sends && channel.is_some() {
            self.limit(now, record.priority, held.as_ref(), by_network, rtt)
        } else {
            None
        };
        TransferStatus {
            id: record.id.to_string(),
            direction: record.direction.as_str().to_owned(),
            state: record.phase.as_str().to_owned(),
            reason: record.reason.clone(),
            peer: record.peer_name.clone(),
            file: record.file.clone(),
            path: record.path.clone(),
            size,
            bytes,
            kind: kind(&record).as_str().to_owned(),
            entries: entries(&record),
            files,
            files_done: list.map(|list| u64::from(list.files_within(done))),
            group: group(&record),
            givers: self.givers(directory),
            notes: self.notes(&record),
            rate,
            eta_s: rate
                .filter(|rate| active && *rate > 0.0)
                .map(|rate| left / rate),
            created: record.created,
            ended: record.ended,
            active_s: record.active.as_secs_f64(),
            priority: record.priority.get(),
            blake3: record.hash.map(|hash| hash.to_hex().to_string()),
            resumed_from: self.resumed.load(Ordering::Relaxed),
            deadline: None,
            expected: None,
            in_time: None,
            steered: false,
            limited_by: limit.map(limited_by),
            shares_with: match channel.as_ref().filter(|_| sends) {
                Some(channel) => names(directory, channel.connection.coupled_with()),
                None => Vec::new(),
            },
            capped_by: held
                .filter(|_| sends)
                .map(|held| held.interface.unwrap_or_else(|| ALL.to_owned())),
            path_report: channel
                .zip(report)
                .map(|(channel, report)| path_report(&channel, &report)),
        }
    }
}

fn path_report(channel: &Channel, report: &ConnectionReport) -> PathReport {
    PathReport {
        address: shown(&channel.connection),
        rtt_ms: report.rtt.as_secs_f64() * 1e3,
        queueing_ms: report.queueing_delay.unwrap_or_default().as_secs_f64() * 1e3,
        way_back_ms: report.way_back_delay.map(|delay| delay.as_secs_f64() * 1e3),
        window: report.window,
        packets_sent: report.sent,
        packets_lost: report.lost,
    }
}

/// How many entries a bundle has, once that is known.
fn entries(record: &Record) -> Option<u64> {
    let entries = record.bundle.as_ref().map(|bundle| bundle.entries);
    entries.filter(|entries| *entries > 0)
}

/// What transfers of one command have in common.
fn group(record: &Record) -> Option<String> {
    let group = record.bundle.as_ref().and_then(|bundle| bundle.group);
    group.map(|group| TransferId(group).to_string())
}

fn kind(record: &Record) -> Kind {
    record
        .bundle
        .as_ref()
        .map_or(Kind::File, |bundle| bundle.kind)
}

/// Under which other name what is sent arrives.
fn renamed(record: &Record) -> Option<String> {
    if record.direction == Direction::Receive || kind(record) == Kind::Several {
        return None;
    }
    let arrives = safe_file_name(&record.file)?;
    let lossy = record.file.contains('\u{fffd}');
    let why = match () {
        () if lossy => "its name is no UTF-8",
        () if arrives != record.file => "its own name is none that a receiver takes",
        () => return None,
    };
    Some(format!("it arrives as `{arrives}`: {why}"))
}

/// A member's id where no name is known.
fn name(directory: &Directory, member: MemberId) -> String {
    let certificate = directory.cached(&member);
    certificate.map_or_else(|| member.to_string(), |known| known.name().to_string())
}

/// In alphabetic order.
fn names(directory: &Directory, members: impl IntoIterator<Item = MemberId>) -> Vec<String> {
    let name = |member| name(directory, member);
    let mut names: Vec<String> = members.into_iter().map(name).collect();
    names.sort();
    names
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

#[cfg(test)]
mod tests {
    use ringway_transport::Signer as _;

    use super::super::record::TransferId;
    use super::super::uplink::Uplink;
    use super::*;
    use crate::identity::Identity;

    /// What the controller may say of a sender that has nothing in its way.
    const OF_THE_NETWORK: [LimitedBy; 6] = [
        LimitedBy::SlowStart,
        LimitedBy::Application,
        LimitedBy::Yielding,
        LimitedBy::Path,
        LimitedBy::Loss,
        LimitedBy::Growth,
    ];

    const RTT: Duration = Duration::from_millis(100);

    /// Priority 0 and another, neither of which changes what the network's word is.
    const PRIORITIES: [Priority; 2] = [Priority::SCAVENGER, Priority::NORMAL];

    fn live() -> Live {
        Live::new(Record {
            id: TransferId([7; 16]),
            direction: Direction::Send,
            peer: Identity::generate().unwrap().member(),
            peer_serial: 1,
            peer_name: "oslo".to_owned(),
            path: "/f".into(),
            file: "f".to_owned(),
            size: 1 << 30,
            priority: Priority::NORMAL,
            phase: Phase::Active,
            reason: None,
            hash: None,
            created: 0,
            active: Duration::ZERO,
            moved: 0,
            offered: false,
            handed: false,
            ended: None,
            arrival: None,
            bundle: None,
        })
    }

    #[test]
    fn the_controllers_reason_counts_last() {
        let (live, now) = (live(), Instant::now());
        for priority in PRIORITIES {
            for reason in OF_THE_NETWORK {
                let limit = live.limit(now, priority, None, Some(reason), RTT);
                assert_eq!(limit, Some(reason));
            }
            assert_eq!(live.limit(now, priority, None, None, RTT), None);
        }
    }

    #[test]
    fn blocked_and_silent_networks_are_distinguished() {
        let (live, now) = (live(), Instant::now());
        let limit = |after, reason| live.limit(now + after, Priority::NORMAL, None, reason, RTT);
        let (soon, later) = (BLOCKED / 2, SILENT * 2);
        live.begin_write();
        let application = Some(LimitedBy::Application);
        assert_eq!(limit(soon, application), Some(LimitedBy::Application));
        assert_eq!(limit(later, application), Some(LimitedBy::Receiver));
        // The window is used up: that is the reason, whichever side waits for it.
        assert_eq!(limit(later, Some(LimitedBy::Loss)), Some(LimitedBy::Loss));
        *live.lock_last_received() = Some((1, now));
        assert_eq!(limit(soon, application), Some(LimitedBy::Application));
        let all = OF_THE_NETWORK.into_iter().map(Some);
        for reason in all.chain([None]) {
            assert_eq!(
                limit(later, reason),
                Some(LimitedBy::Unanswered),
                "{reason:?}"
            );
        }
        // There is nothing to be answered.
        live.end_write();
        assert_eq!(limit(later, application), Some(LimitedBy::Application));
    }

    #[test]
    fn a_full_window_is_not_the_receivers_limit() {
        let window = u64::from(QUIC_STREAM_WINDOW);
        // In a round trip of a tenth of a second.
        for (in_a_second, word) in [
            (7 * window, LimitedBy::Receiver),
            (8 * window, LimitedBy::FlowControl),
        ] {
            let (live, now) = (live(), Instant::now());
            let moment = |at, bytes| Sample {
                at,
                bytes,
                waited: Duration::ZERO,
            };
            let second = [
                moment(now, 0),
                moment(now + Duration::from_secs(1), in_a_second),
            ];
            live.lock_samples().extend(second);
            live.begin_write();
            let reason = Some(LimitedBy::Application);
            let limit = live.limit(now + WINDOW, Priority::NORMAL, None, reason, RTT);
            assert_eq!(limit, Some(word));
        }
    }

    #[tokio::test]
    async fn caps_are_reported_before_network_limits() {
        let (live, slow, fast) = (live(), 1_000, 1 << 40);
        for (all, interface) in [(slow, fast), (fast, slow)] {
            let uplink = Uplink::start(Some(all), [("eth0", interface)]);
            let flow = || {
                let flow = uplink.flow(Priority::NORMAL).unwrap();
                flow.leaves_by(Some("eth0")).unwrap();
                flow
            };
            let sender = flow();
            let limits = || {
                let now = Instant::now();
                let held = sender.held_back(now);
                PRIORITIES.map(|priority| {
                    let limit = |reason| live.limit(now, priority, held.as_ref(), reason, RTT);
                    let held = OF_THE_NETWORK.map(|reason| limit(Some(reason)));
                    // Whatever the network says.
                    limit(None).filter(|first| held.iter().all(|other| *other == Some(*first)))
                })
            };
            assert_eq!(limits(), [None; 2], "the network alone decides");
            let soon = Duration::from_millis(50);
            let wait = tokio::time::timeout(soon, sender.acquire(100_000));
            assert!(wait.await.is_err());
            assert_eq!(limits(), [Some(LimitedBy::Capped); 2]);
            let other = flow();
            assert_eq!(limits(), [Some(LimitedBy::Capped); 2], "it wants nothing");
            let wait = tokio::time::timeout(soon, other.acquire(100_000));
            assert!(wait.await.is_err());
            assert_eq!(
                limits(),
                [Some(LimitedBy::BehindOthers), Some(LimitedBy::Capped)]
            );
            drop(other);
            assert_eq!(limits(), [Some(LimitedBy::Capped); 2]);
        }
    }
}
