//! From flows to verdicts: the policy decides once on each flow, unless it is named for certain
//! later, and a verdict says of every packet whether it goes on.
//!
//! [`Gateway`] is the whole pipeline with a policy, without any I/O: packets in, a [`Verdict`] for
//! each, and to be polled packets to send ([`Gateway::poll_injection`]), [`Event`]s to write down
//! and [`DecidedFlow`]s that are over. The live path and the replay of captures run the same code.
//!
//! **How a packet goes**, from the queue to its verdict, in eight files with this one, to be read
//! in this order. Paths are below `src/verdict/` where no folder stands before them.
//!
//! 1. This file: the states of a flow, [`Verdict`] and [`Offload`].
//! 2. `src/linux/live.rs`: `Live::turn` reads packets from the queue, asks the [`Gateway`] about
//!    each, and returns the verdicts.
//! 3. `gateway.rs`: [`Gateway::handle_queued`] has the `Decoder` find addresses and payload in the
//!    bytes, and asks the engine. While it only observes, it lets go what the engine would drop.
//! 4. `engine.rs`: `FlowEngine::handle_packet` borrows the packet's flow once, as a `FlowContext`,
//!    with all that steps of the machine need.
//! 5. `src/tracker.rs`: `Tracker::handle_packet` finds the flow in its table, and has the
//!    classifier look at the flow's first data.
//! 6. `machine.rs`: `FlowContext::verdict` takes the flow from state to state until one has a
//!    verdict on the packet; `plan` asks the policy, `settle` decides.
//! 7. `inspecting.rs`: the steps of flows whose contents are read, and how that ends.
//! 8. `content/mod.rs`: what one connection carries, in order, and which packets wait for a scan.
//!
//! Of other files these facts suffice. `state.rs` holds `FlowState`; its `take_content` makes an
//! inspected flow a decided one. `effects.rs` is the buffer into which every step writes what
//! follows beside the verdict; `Gateway::poll_…` empties it. `findings.rs` takes what a scanner
//! found of a window: the packets that waited for it go on, or the flow is blocked.
//! `content/half_stream.rs` is one direction of a connection. It holds a packet with data or a FIN
//! while a window of a file is at the scanner, while it is not known whether the file ends, or
//! while the beginning of a file waits together (`hold_first`). Pure ACKs pass.
//!
//! A flow is *followed* while its `Content` exists. A packet is *watched* if it came by the queue
//! of followed connections: the mark may be an earlier run's. `Decision` is the policy's in
//! `machine.rs`, and a byte stream's in `content`; the classifier's verdict is `Classified` here.
//!
//! **The states of a flow** (`FlowState`). Each packet is put to the state of its flow, which has
//! a verdict on it (`Step::Done`), or changes the state and has the next one asked about the same
//! packet (`Step::Again`).
//!
//! ```text
//!  Refused <--- New ---------------------> Decided <--+
//!               |  ^                       ^   |      |
//!               v  |                       |   |      |
//!             Classifying -----------------+   |      |
//!               |   ^--------------------------+      |
//!               +-----------> Inspecting -------------+
//!
//!  from         to           by which function, and when
//!  New          Refused      first: it matches a connection that was just blocked (Enforce), and
//!                            was not picked up midway
//!               Decided      first: the rule that fits does not ask what the flow is
//!               Decided      unread: picked up midway, and it came watched: an earlier run read
//!                            it, or this run did and forgot it; the rules' `failure` is closed
//!               Classifying  first: all others. TCP keeps its bytes if a rule may read them
//!  Classifying  Classifying  classifying: not enough is known, or take_in held or dropped it
//!               Classifying  take_in: its bytes cannot be followed (urgent data, too many kept):
//!                            they are given up, and it is classified without them
//!               Classifying  classifying: one side alone has spoken, the application has a name,
//!                            and the rule blocks (Observe) or audits; MAX_UNDECIDED_PACKETS end
//!                            that
//!               New          drop_alone: the same, and the rule blocks (Enforce). The packet is
//!                            dropped, and what was found is forgotten
//!               Inspecting   settle: bytes were kept, a decoder fits, and the plan reads contents
//!                            or the conversation announces other flows
//!               Decided      settle: nothing is to be read, or no decoder fits
//!               Decided      give_up: the plan reads contents, but no bytes are kept (any more).
//!                            Failure open: as ruled; closed: blocked
//!               Decided      unread: as from New
//!  Inspecting   Inspecting   take_in: the packet goes on, waits for a scan, or is dropped. Offload
//!                            Watched, WatchedIn with a class; AnswersPass while the rest of a
//!                            file is not read
//!               Decided      block: for what it carries, by a rule or a scanner
//!               Decided      give_up: it cannot be read any more. Failure open, or read only for
//!                            what it announces: as ruled; closed: blocked
//!  Decided      Decided      stand: blocked: reset at both ends, then left to the kernel;
//!                            allowed: left to the kernel, in its class. Asked about for as long
//!                            as it announces other flows, or, without a class, may yet be named
//!               Classifying  decide_again: named for certain since, and the policy says another
//!                            thing of that
//!  Refused      Refused      step: every packet is dropped
//! ```
//!
//! Between packets three things end the reading. In `Inspecting` a scanner does that has found
//! something or failed (`findings.rs`). There and in `Classifying`, where the kept bytes are given
//! up, a gap does that is not filled in time (`FlowContext::handle_timeout`). In `Classifying` the
//! engine's `make_room` takes the bytes of the flow that has kept them longest. A pause ends
//! nothing: what there is of a window is scanned.
//!
//! One kind of packets passes by the states: a SYN of another connection between the same ends
//! settles nothing (`other_connection`).

mod account;
mod blocked;
mod cache;
mod content;
mod effects;
mod engine;
mod env;
mod event;
mod expected;
mod findings;
mod gateway;
mod inspecting;
mod machine;
mod quotas;
mod report;
mod reset;
mod state;
mod torrent_names;
mod torrents;
mod trace;
mod unanswered;

use std::time::Duration;

pub use cache::{BlockedConnections, BlockedKey, Cached, RefusedConnections};
pub use event::{Alert, Content, DroppedPacket, Event, EventKind, FileInfo, QuotaInfo, Text};
pub use gateway::{Gateway, Knowledge};
#[cfg(target_os = "linux")]
pub(crate) use quotas::Moved;
pub(crate) use state::CACHE_RULE;
pub use state::{DecidedFlow, LiveFlow};
pub use trace::{TraceStep, TracedPacket, Why};

use crate::flow::Direction;
use crate::limits::{BLOCKED_FOR, SCAN_WINDOW};

/// The token of what has passed unasked: no packet that waits has it.
const PASSED: u64 = u64::MAX;

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything goes on; what would have happened is written down.
    #[default]
    Observe,
    /// The policy is carried out.
    Enforce,
}

/// How a gateway works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// For how long new connections like a blocked one are dropped at once; zero: they are not.
    pub blocked_for: Duration,
    /// The zone of the policy's times.
    pub zone: jiff::tz::TimeZone,
    /// Bytes of a file that are scanned at once; the papers found 20 to 40 kB best.
    pub scan_window: usize,
    /// Packets of followed connections go on although bytes before them are missing. Off is for
    /// measurements.
    pub fast_pass: bool,
    /// Other packets go on while one waits for its scan. Off is for measurements.
    pub hold_list: bool,
    /// What flows ask for by name is an event of its own, once for each decided flow.
    pub names: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            blocked_for: BLOCKED_FOR,
            zone: jiff::tz::TimeZone::UTC,
            scan_window: SCAN_WINDOW,
            fast_pass: true,
            hold_list: true,
            names: false,
        }
    }
}

/// What happens to all further packets of a flow without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// They go on.
    Allowed,
    /// They are dropped.
    Blocked,
    /// They go on in this class, counted from 0 in
    /// [`Policy::classes`](crate::policy::Policy::classes).
    Shaped(usize),
    /// Those of the server go on: a file is under way of which nothing more need be known. Those of
    /// the client are asked about: one of them may ask for another file.
    AnswersPass,
    /// Those of both are asked about again.
    Watched,
    /// The same, and they go on in this class.
    WatchedIn(usize),
}

/// What happens to one packet; and what the kernel may do with the rest of the flow, from the
/// moment on at which this packet goes on. Without an offload the next packet is asked about, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Accept {
        /// The rest of the flow.
        offload: Option<Offload>,
    },
    /// It is dropped.
    Drop {
        /// The rest of the flow.
        offload: Option<Offload>,
    },
    /// It waits until [`Gateway::poll_released`] returns its verdict.
    Hold {
        /// The rest of the flow.
        offload: Option<Offload>,
    },
}

impl Verdict {
    /// It goes on, and the next one is asked about too.
    pub const ACCEPT: Self = Self::Accept { offload: None };
    /// It is dropped, and the next one is asked about too.
    pub const DROP: Self = Self::Drop { offload: None };
    /// It waits, and the next one is asked about too.
    pub const HOLD: Self = Self::Hold { offload: None };

    /// It goes on.
    #[must_use]
    pub fn accepts(self) -> bool {
        matches!(self, Self::Accept { .. })
    }

    /// It waits.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Self::Hold { .. })
    }

    /// What the kernel may do with the rest of the flow.
    #[must_use]
    pub fn offload(self) -> Option<Offload> {
        match self {
            Self::Accept { offload } | Self::Drop { offload } | Self::Hold { offload } => offload,
        }
    }

    /// The same for the packet, and this for the rest of the flow.
    #[must_use]
    pub fn with(self, offload: Option<Offload>) -> Self {
        match self {
            Self::Accept { .. } => Self::Accept { offload },
            Self::Drop { .. } => Self::Drop { offload },
            Self::Hold { .. } => Self::Hold { offload },
        }
    }
}

/// A flow, as scans know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowId {
    slot: usize,
    serial: u64,
}

#[cfg(test)]
impl FlowId {
    /// The flow with this number, wherever it stands.
    pub(crate) fn of(serial: u64) -> Self {
        Self { slot: 0, serial }
    }
}

/// Bytes of a file to scan. Windows of one direction of a flow are scanned in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanJob {
    /// The flow.
    pub flow: FlowId,
    /// Who sends the file.
    pub direction: Direction,
    /// The window's number in this direction, from 1.
    pub number: u32,
    /// The end of the window before, so that what lies across is found, and the new bytes.
    pub bytes: Vec<u8>,
    /// How many of the bytes were in the window before.
    pub repeated: usize,
    /// The position of the first of the bytes in the file.
    pub at: u64,
    /// The file begins with it.
    pub first: bool,
    /// The file ends with it.
    pub last: bool,
    /// The file's name.
    pub name: Option<String>,
}

impl ScanJob {
    /// The position behind the last of its bytes in the file.
    fn end(&self) -> u64 {
        let length = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        self.at.saturating_add(length)
    }
}

/// A part of a file that is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// What the file is called until it ends; no other file of this gateway is.
    pub file: u64,
    /// The bytes that follow those of the part before.
    pub bytes: Vec<u8>,
    /// The file itself is to be kept.
    pub keep: bool,
    /// It ends with this part.
    pub end: Option<FileEnd>,
}

/// How a file ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// It is whole; the event has all but its hash.
    Whole(Box<Event>),
    /// Its end did not come, or it is not followed any more.
    CutOff,
}

/// What a scanner found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// Nothing.
    Clean,
    /// Something, by this name.
    Found(String),
    /// It could not look, and why; the policy says what follows.
    Failed(String),
}
