//! The pipeline with a policy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::Moved;
use super::engine::FlowEngine;
use super::event::Event;
use super::expected::Announcements;
use super::state::{DecidedFlow, LiveFlow};
use super::{
    BlockedConnections, Cached, FilePart, Mode, Offload, PASSED, RefusedConnections, ScanJob,
    Scanned, Settings, Verdict, Why,
};
use crate::accounting::FlowAccount;
use crate::classify::{Classifier, Surroundings};
use crate::flow::TableBounds;
use crate::packet::{Counters, Decoder, LinkType, Packet, Skip};
use crate::policy::Policy;
use crate::quota::OverQuota;
use crate::torrent::{TorrentName, TorrentNames};

/// Decides flows by a policy, and returns each packet's verdict.
///
/// Order of calls: [`handle_packet`](Self::handle_packet), then poll until each returns `None`; at
/// the end [`finish`](Self::finish), and poll again.
#[derive(Debug)]
pub struct Gateway {
    decoder: Decoder,
    pub(super) engine: FlowEngine,
}

/// What the gateways of one border's queues know together. Clones are the same.
#[derive(Clone, Debug)]
pub struct Knowledge {
    surroundings: Surroundings,
    announced: Announcements,
    torrent_names: TorrentNames,
}

impl Gateway {
    /// A gateway that has seen nothing.
    #[must_use]
    pub fn new(
        classifier: Classifier,
        bounds: TableBounds,
        policy: Arc<Policy>,
        settings: Settings,
    ) -> Self {
        Self {
            decoder: Decoder::new(),
            engine: FlowEngine::new(classifier, bounds, policy, settings),
        }
    }

    /// Takes in one packet; `now` is the time since the Unix epoch. Time that runs backwards counts
    /// as standing still.
    ///
    /// What takes part in no flow goes on, unless the policy blocks all that is neither TCP nor
    /// UDP. Fragments go on too: the one that makes a datagram whole gets
    /// the verdict on it. (On the live path the kernel has joined them before.)
    pub fn handle_packet(&mut self, now: Duration, link: LinkType, bytes: &[u8]) -> Verdict {
        self.handle_queued(now, 0, link, bytes)
    }

    /// The same for a packet that can wait; [`poll_released`](Self::poll_released) calls it by its
    /// token then.
    pub fn handle_queued(
        &mut self,
        now: Duration,
        token: u64,
        link: LinkType,
        bytes: &[u8],
    ) -> Verdict {
        let (engine, mut verdict) = (&mut self.engine, Verdict::ACCEPT);
        // What is kept to say why is kept from the IP header on.
        let whole = if link == LinkType::RawIp { bytes } else { &[] };
        let take = &mut |packet: &Packet<'_>| {
            verdict = engine.handle_packet(now, token, packet, whole);
        };
        let skipped = self.decoder.handle_packet(now, link, bytes, take);
        if skipped == Some(Skip::OtherProtocol) && engine.env.policy.blocks_other() {
            verdict = Verdict::DROP;
        }
        engine.collect(now);
        match engine.env.settings.mode {
            Mode::Enforce => verdict,
            // The kernel carries what is decided, whatever that is; what is read comes here all the
            // same.
            Mode::Observe => {
                let offload = verdict.offload().map(|offload| match offload {
                    Offload::Blocked | Offload::Shaped(_) => Offload::Allowed,
                    Offload::WatchedIn(_) => Offload::Watched,
                    other => other,
                });
                match verdict {
                    Verdict::Hold { .. } => Verdict::Hold { offload },
                    Verdict::Accept { .. } | Verdict::Drop { .. } => Verdict::Accept { offload },
                }
            }
        }
    }

    /// Takes in a packet that has gone on without being asked about. What becomes of its flow shows
    /// with the flow's next packet.
    pub fn handle_passed(&mut self, now: Duration, link: LinkType, bytes: &[u8]) {
        self.handle_queued(now, PASSED, link, bytes);
        self.engine.effects.rewritten = None;
    }

    /// Whether the next packet belongs to a connection that was to be read: the kernel remembers
    /// it, also from an earlier run.
    pub fn set_watched(&mut self, watched: bool) {
        self.engine.set_watched(watched);
    }

    /// By which interface the next packets come, by its number; 0: that is not known. Events name
    /// it.
    pub fn set_came_by(&mut self, interface: u32) {
        self.engine.set_came_by(interface);
    }

    /// [`handle_queued`](Self::handle_queued) for a packet whose checksums are not verified. One
    /// that its receiver will discard goes on and changes nothing: its content reaches no program.
    pub fn handle_unverified(
        &mut self,
        now: Duration,
        token: u64,
        link: LinkType,
        bytes: &[u8],
    ) -> Verdict {
        if self.decoder.is_spoilt(link, bytes) {
            return Verdict::ACCEPT;
        }
        self.handle_queued(now, token, link, bytes)
    }

    /// The kernel keeps a connection cache, too. From now on it has to receive its changes
    /// ([`poll_cached`](Self::poll_cached)), and reports what it refused
    /// ([`handle_refused`](Self::handle_refused)).
    pub fn share_cache(&mut self) {
        self.engine.blocked.cache.share();
    }

    /// These are refused by the kernel since an earlier run: here they are known, too, from now
    /// on, and for no longer than what is blocked now.
    pub fn take_up_blocked(&mut self, now: Duration, left: Vec<BlockedConnections>) {
        let latest = now.saturating_add(self.engine.env.settings.blocked_for);
        self.engine.blocked.cache.take_up(left, latest);
    }

    /// The next change that the kernel's connection cache has to receive.
    pub fn poll_cached(&mut self) -> Option<Cached> {
        self.engine.blocked.cache.poll_shared()
    }

    /// Calls that the kernel has refused.
    pub fn handle_refused(&mut self, refused: &RefusedConnections) {
        let serial = self.engine.tracker.number_unseen();
        self.engine.blocked.cache.take_in(refused, serial);
        self.engine.blocked.report(&mut self.engine.effects);
    }

    /// What it knows of its flows' hosts, and what they have announced to each other.
    #[must_use]
    pub fn knowledge(&self) -> Knowledge {
        Knowledge {
            surroundings: self.engine.tracker.surroundings().clone(),
            announced: self.engine.env.announced.clone(),
            torrent_names: self.engine.env.torrent_names.clone(),
        }
    }

    /// Knows from now on what those know that share it: the other queues of one border.
    pub fn share(&mut self, knowledge: &Knowledge) {
        let surroundings = &knowledge.surroundings;
        self.engine.tracker.share_surroundings(surroundings);
        self.engine.env.announced = knowledge.announced.clone();
        self.engine.env.torrent_names = knowledge.torrent_names.clone();
    }

    /// Knows what torrents are called, as an earlier run has seen it.
    pub fn know_torrents(&mut self, names: &[TorrentName]) {
        self.engine.env.torrent_names.note(names);
    }

    /// Tells at which endpoint a member of a ring listens; its Ringway flows then name it.
    pub fn know_member(&mut self, endpoint: SocketAddr, member: &str) {
        let surroundings = self.engine.tracker.surroundings();
        surroundings.know_member(endpoint, member);
    }

    /// The payload that has to take the place of the latest packet's own, of the same length, if it
    /// goes on or waits: it repeats bytes that were seen before, with others.
    pub fn take_rewritten(&mut self) -> Option<Vec<u8>> {
        self.engine.effects.rewritten.take()
    }

    /// The next packet that has waited, by its token, and what becomes of it.
    pub fn poll_released(&mut self) -> Option<(u64, Verdict)> {
        self.engine.effects.released.pop_front()
    }

    /// The next window of a file to scan.
    pub fn poll_scan(&mut self) -> Option<ScanJob> {
        self.engine.effects.scans.pop_front()
    }

    /// The next part of an audited file. Its consumer makes the file's hash, and with it completes
    /// the event that comes with the last part ([`Digester`](crate::audit::Digester)).
    pub fn poll_file_part(&mut self) -> Option<FilePart> {
        self.engine.effects.parts.pop_front()
    }

    /// What a scanner reports of a window.
    pub fn handle_scanned(&mut self, now: Duration, job: &ScanJob, scanned: &Scanned) {
        self.engine.handle_scanned(now, job, scanned);
    }

    /// Flows whose contents are followed wait for their time:
    /// [`handle_timeout`](Self::handle_timeout) is to be called every few hundredths of a
    /// second, packets or not.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.engine.is_waiting()
    }

    /// Does what is due by now for flows whose contents are followed.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.engine.handle_timeout(now);
    }

    /// The next packet to send, a whole IP packet: resets for both ends of what is blocked.
    pub fn poll_injection(&mut self) -> Option<Vec<u8>> {
        self.engine.effects.injections.pop_front()
    }

    /// The next event to write down.
    pub fn poll_event(&mut self) -> Option<Event> {
        let mut event = self.engine.effects.events.pop_front()?;
        let names = &self.engine.env.torrent_names;
        let named = event.names.infohash.and_then(|hash| names.get(hash));
        event.torrent = named.map(|named| named.name);
        Some(event)
    }

    /// The next flow that is over.
    pub fn poll_flow(&mut self) -> Option<DecidedFlow> {
        self.engine.over.pop_front()
    }

    /// Keeps a view of each flow that begins, is decided or is over, from now on, for
    /// [`poll_account`](Self::poll_account).
    pub fn report_accounts(&mut self) {
        self.engine.accounts.begin();
    }

    /// The next view of a flow that has begun, was decided, or is over (`ended`).
    pub fn poll_account(&mut self) -> Option<FlowAccount> {
        self.engine.accounts.poll()
    }

    /// Tells what is still counted, because no more packets will come; flows go on.
    pub fn report_rest(&mut self) {
        self.engine.blocked.close(&mut self.engine.effects);
    }

    /// Ends all flows.
    pub fn finish(&mut self, now: Duration) {
        let engine = &mut self.engine;
        self.decoder.finish(&mut |packet| {
            engine.handle_packet(now, 0, packet, &[]);
        });
        engine.finish();
        engine.collect(now);
    }

    /// Another policy, for flows that are not decided yet. Of decided ones it blocks those of whose
    /// torrents it refuses all.
    pub fn set_policy(&mut self, policy: Arc<Policy>) {
        self.engine.set_policy(policy);
    }

    /// Who is above a quota, from now on as this says at any time.
    pub fn set_over_quota(&mut self, over: OverQuota) {
        // What it says now is a change for this one.
        self.engine.env.above_changes = over.changes().wrapping_sub(1);
        self.engine.env.over_quota = over;
    }

    /// Keeps decided flows that get something else, from now on, for
    /// [`poll_moved`](Self::poll_moved).
    #[cfg(target_os = "linux")]
    pub(crate) fn report_moved(&mut self) {
        self.engine.effects.moved.get_or_insert_default();
    }

    /// The next decided flow that gets something else from now on.
    #[cfg(target_os = "linux")]
    pub(crate) fn poll_moved(&mut self) -> Option<Moved> {
        self.engine.effects.moved.as_mut()?.pop_front()
    }

    /// Whether decisions are carried out from now on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.engine.set_mode(mode);
    }

    /// Flows that are not over, the latest first, at most so many.
    #[must_use]
    pub fn flows(&self, most: usize) -> Vec<LiveFlow> {
        self.engine.flows(most)
    }

    /// Why the flow with this number got what it got; of flows that are over only the latest are
    /// known.
    #[must_use]
    pub fn why(&self, flow_id: u64) -> Option<Why> {
        self.engine.why(flow_id)
    }

    /// The policy at work.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.engine.env.policy
    }

    /// Other packets go on while one waits for its scan.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_hold_list(&self) -> bool {
        self.engine.env.settings.hold_list
    }

    /// Totals so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.decoder.counters().clone();
        counters.evicted = self.engine.tracker.evicted();
        counters.records_dropped = self.engine.over_dropped;
        counters
    }

    /// Events that were not polled in time.
    #[must_use]
    pub fn events_dropped(&self) -> u64 {
        let views = self.engine.accounts.dropped;
        self.engine.effects.events_dropped.saturating_add(views)
    }

    /// Packets whose flow was not there: a fault of this program. They go on unless the policy
    /// fails closed.
    #[must_use]
    pub fn flows_missing(&self) -> u64 {
        self.engine.effects.flows_missing
    }

    /// Flows that are not over.
    #[must_use]
    pub fn live_flows(&self) -> usize {
        self.engine.tracker.live_flows()
    }

    /// Bytes of contents that are kept.
    #[must_use]
    pub fn content_held(&self) -> usize {
        self.engine.effects.content_held
    }
}
