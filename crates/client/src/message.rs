//! What travels over the control socket: one JSON object a line, a [`Request`] in, [`Reply`]
//! objects out.
//!
//! The last reply to a request is always [`Reply::Done`] or [`Reply::Error`].

mod conversation;
mod inbox;
mod reach;
mod records;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::conversation::{BatchStatus, Body, MessageStatus};
pub use self::inbox::{HookStatus, InboxItem};
pub use self::reach::{PathStatus, PathsStatus, Pong, RouteFound};
pub use self::records::{RecordFound, RecordStored};
use crate::leave::LeaveOptions;
pub use crate::limited_by::LimitedBy;
use crate::limits::MAX_RELEASE;
use crate::streams::{ServiceStatus, StreamStatus};
use crate::tallies::{CountLeft, CountsToLeave, TallyFound};
use crate::text::printable;
use crate::versions::{CONTROL, RELEASE};

/// What each side says of itself: beside the request, and beside the first reply. Release 0.2 said
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaker {
    /// Its version of the control protocol.
    #[serde(default)]
    pub control: Option<u32>,
    /// Its release, such as `0.3.0`.
    #[serde(default)]
    pub ringway: Option<String>,
}

impl Speaker {
    /// This program.
    #[must_use]
    pub fn own() -> Speaker {
        Speaker {
            control: Some(CONTROL),
            ringway: Some(RELEASE.to_owned()),
        }
    }

    /// What a line says of its speaker; nothing where it does not.
    #[must_use]
    pub fn of(line: &[u8]) -> Speaker {
        serde_json::from_slice(line).unwrap_or_default()
    }

    /// True where it knows more than this program does.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        self.control.is_some_and(|control| control > CONTROL)
    }
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.ringway, self.control) {
            (Some(release), Some(control)) => {
                let release = printable(release, MAX_RELEASE);
                write!(f, "ringway {release} (control protocol {control})")
            }
            _ => write!(f, "an earlier ringway (control protocol 1)"),
        }
    }
}

/// How the answer to a request begins that cannot be read.
pub const MALFORMED: &str = "the request is malformed";

/// A line with what it says of its speaker.
#[derive(Debug, Serialize)]
pub struct Line<'a, T> {
    /// The request or reply.
    #[serde(flatten)]
    pub content: &'a T,
    /// Who says it.
    #[serde(flatten)]
    pub speaker: Speaker,
}

/// A command to the member daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// What the member sees: answered by one [`Reply::Status`].
    Status,
    /// Queue a file for a peer: answered by one [`Reply::Transfer`] as soon as the transfer is
    /// recorded on disk. It survives a restart of the daemon from then on.
    Send {
        /// Absolute path of a readable regular file; an array of bytes where it is no UTF-8. Who is
        /// not the daemon's user hands the open file over beside the request.
        #[serde(with = "crate::text::path")]
        path: PathBuf,
        /// Name of a member, or its id in base32.
        peer: String,
        /// See the `dtl` crate.
        priority: AskedPriority,
        /// When it has to have arrived, Unix seconds: then that chooses the priority.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<u64>,
    },
    /// Queue several files and folders, or some for several peers: answered by one
    /// [`Reply::Transfer`] for each peer.
    SendAll(Box<super::send_all::SendAll>),
    /// All transfers this daemon knows: one [`Reply::Transfer`] each, oldest first.
    Transfers,
    /// Follow one transfer: a [`Reply::Transfer`] about ten times a second until it has ended.
    Watch {
        /// Its id, or an unambiguous beginning of it.
        transfer: String,
    },
    /// Change the priority of a running or waiting transfer: answered by one [`Reply::Transfer`];
    /// or of a message that waits: answered by one [`Reply::Message`].
    Priority {
        /// The id of either, or an unambiguous beginning of it.
        transfer: String,
        /// The one to go on with.
        priority: AskedPriority,
    },
    /// Have a transfer arrive by a time, which chooses its priority from now on: answered by one
    /// [`Reply::Transfer`].
    Deadline {
        /// Its id, or an unambiguous beginning of it.
        transfer: String,
        /// Unix seconds.
        by: u64,
    },
    /// Give a transfer up: answered by one [`Reply::Transfer`].
    Cancel {
        /// Its id, or an unambiguous beginning of it.
        transfer: String,
    },
    /// What others have offered: one [`Reply::Inbox`] each, oldest first.
    Inbox,
    /// Accept or refuse what waits for an answer: answered by one [`Reply::Inbox`].
    Answer {
        /// Its id, or an unambiguous beginning of it.
        transfer: String,
        /// Whether it may come.
        accept: bool,
        /// For its sender, if it may not.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Measure the way to a peer: one [`Reply::Pong`] per answer or time-out.
    Ping {
        /// Name of a member, or its id in base32.
        peer: String,
        /// How many, 1 to 1 000.
        count: u32,
        /// Whether they go through the ring, from router to router, and not over a link to the
        /// peer. Routers only.
        #[serde(default)]
        through_ring: bool,
    },
    /// Say which ways to a peer were considered, and why each is or is not used: answered by one
    /// [`Reply::Paths`].
    Path {
        /// Name of a member, or its id in base32.
        peer: String,
    },
    /// Find the router responsible for a key: answered by one [`Reply::Route`].
    Route {
        /// What to look for.
        target: RouteTarget,
    },
    /// Leave a small record in the ring: answered by one [`Reply::Stored`].
    Put {
        /// 1 to 64 bytes.
        name: String,
        /// At most 400 bytes; empty removes the record.
        value: Vec<u8>,
        /// Seconds after which no member keeps it, at most 30 days.
        lifetime_s: u64,
    },
    /// Find a record: answered by one [`Reply::Record`].
    Get {
        /// Whose: name of a member, or its id in base32.
        peer: String,
        /// The name that its author gave it.
        name: String,
    },
    /// Leave what this router has counted: one [`Reply::CountLeft`] each. Routers only.
    Count(CountsToLeave),
    /// Read what routers have counted under a name: answered by one [`Reply::Tally`]. Routers only.
    Tally {
        /// 1 to 64 bytes.
        name: String,
    },
    /// The members that this one knows of: one [`Reply::Member`] each, by name.
    Members,
    /// The services that a peer offers to this member, or this member's own: one
    /// [`Reply::Service`] each, by name.
    Services {
        /// Name of a member, or its id in base32; none for this member's own.
        #[serde(default)]
        peer: Option<String>,
    },
    /// Open a stream to a service of a peer: answered by [`Reply::Opened`], behind which this
    /// connection carries the stream's bytes in both directions. Half of it is closed by
    /// `shutdown(SHUT_WR)`. Send no byte before that answer. For a UDP service each datagram has
    /// two bytes of length before it, the most significant first.
    ///
    /// With a connected stream socket handed over beside the request the daemon carries that
    /// socket's bytes instead, and answers [`Reply::Joined`].
    Open {
        /// Name of a member, or its id in base32.
        peer: String,
        /// Name of the service.
        service: String,
        /// A number or a class; that of the service if none is given.
        #[serde(default)]
        priority: Option<AskedPriority>,
    },
    /// The open streams: one [`Reply::Stream`] each, oldest first.
    Streams,
    /// Serve other members by a program of this machine for as long as this connection is open:
    /// answered by [`Reply::Serving`], then one [`Reply::Incoming`] for each stream.
    Serve {
        /// What the service is called.
        name: String,
        /// Names of the members that may use it; `*` stands for any characters.
        from: Vec<String>,
        /// What its streams are sent with unless their users ask for less.
        #[serde(default)]
        priority: Option<AskedPriority>,
    },
    /// Take a stream that was announced, within ten seconds: answered by [`Reply::Opened`], then
    /// as for [`Request::Open`].
    Take {
        /// Its id.
        id: String,
    },
    /// Send a message to members: answered by one [`Reply::Message`] each, as soon as it is on the
    /// disk. From then on it is sent until the member has signed for it, or never will.
    Message {
        /// Names of members, or their ids in base32.
        peers: Vec<String>,
        /// At most 65 536 bytes, in base64.
        #[serde(with = "crate::text::base64")]
        body: Vec<u8>,
        /// 0 or more: messages to the member with the highest go first; at 0 one batch at a time.
        #[serde(default = "usual_priority")]
        priority: AskedPriority,
        /// Ids of transfers that belong to it.
        #[serde(default)]
        attach: Vec<String>,
    },
    /// Send messages to one member, in this order: answered by one [`Reply::Batch`], as soon as
    /// they are on the disk by one write to it.
    Batch {
        /// Name of the member, or its id in base32.
        peer: String,
        /// At most 1 000, and 512 KiB of bytes in all.
        bodies: Vec<Body>,
        /// As of [`Request::Message`].
        #[serde(default = "usual_priority")]
        priority: AskedPriority,
    },
    /// Messages in the order in which they came to be here: one [`Reply::Message`] each, the newest
    /// 256, or the next 256 behind `after`.
    Messages {
        /// Only those with this member: its name, or its id in base32.
        #[serde(default)]
        peer: Option<String>,
        /// Only received ones that were not read, and then those that come, for ever. What is
        /// not marked as read by [`Request::MarkRead`] the next one that asks is given again.
        #[serde(default)]
        follow: bool,
        /// Only those behind the message with this id.
        #[serde(default)]
        after: Option<String>,
    },
    /// All received messages of a member, up to the one with this id, were read: the next
    /// [`Request::Messages`] that follows does not give them again, and the sender gets to know if
    /// the configuration allows that. Answered by [`Reply::Done`].
    MarkRead {
        /// Name of a member, or its id in base32.
        peer: String,
        /// Id of a message, or an unambiguous beginning of it.
        upto: String,
    },
    /// Leave the ring for good: answered by one [`Reply::Left`]; then the daemon ends, without key
    /// and state. Only for the daemon's own user, and root.
    Leave(LeaveOptions),
}

/// A priority as it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AskedPriority {
    /// 0 to 1000 TCP flows.
    Flows(f64),
    /// The name of a class of the daemon's configuration.
    Class(String),
}

impl From<f64> for AskedPriority {
    fn from(flows: f64) -> AskedPriority {
        AskedPriority::Flows(flows)
    }
}

impl From<&str> for AskedPriority {
    fn from(class: &str) -> AskedPriority {
        AskedPriority::Class(class.to_owned())
    }
}

/// What [`Request::Route`] looks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteTarget {
    /// A member by name or id.
    Peer(String),
    /// Any text; its SHA-256 is the point on the ring.
    Text(String),
}

/// One answer of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To the commands about transfers.
    Transfer(Box<TransferStatus>),
    /// To [`Request::Inbox`] and [`Request::Answer`].
    Inbox(Box<InboxItem>),
    /// To [`Request::Ping`].
    Pong(Pong),
    /// To [`Request::Path`].
    Paths(Box<PathsStatus>),
    /// To [`Request::Route`].
    Route(RouteFound),
    /// To [`Request::Put`].
    Stored(RecordStored),
    /// To [`Request::Get`].
    Record(RecordFound),
    /// To [`Request::Count`].
    CountLeft(CountLeft),
    /// To [`Request::Tally`].
    Tally(TallyFound),
    /// To [`Request::Members`].
    Member(Box<KnownMember>),
    /// To [`Request::Services`].
    Service(Box<ServiceStatus>),
    /// To [`Request::Streams`], and to [`Request::Priority`] where it is a stream's id.
    Stream(Box<StreamStatus>),
    /// To [`Request::Open`] and [`Request::Take`]: bytes of the stream follow.
    Opened(Box<StreamStatus>),
    /// To [`Request::Open`] with a socket beside it: the daemon carries its bytes. This connection
    /// stays for as long as the stream does; closing it ends the stream.
    Joined(Box<StreamStatus>),
    /// To [`Request::Serve`].
    Serving(Box<ServiceStatus>),
    /// A peer has opened a stream to what [`Request::Serve`] offers.
    Incoming {
        /// By which it is taken.
        id: String,
        /// Name of the member.
        peer: String,
        /// Name of the service.
        service: String,
    },
    /// To the commands about messages.
    Message(Box<MessageStatus>),
    /// To [`Request::Batch`].
    Batch(BatchStatus),
    /// To [`Request::Leave`].
    Left(crate::leave::Left),
    /// The request is answered.
    Done,
    /// The request failed.
    Error(ControlError),
}

fn usual_priority() -> AskedPriority {
    AskedPriority::Flows(1.0)
}

/// Why a request failed, in one line for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// True when the user's input was wrong (exit code 2), false when the work failed (exit code
    /// 1).
    pub usage: bool,
    /// What happened, to what, and what mends it.
    pub message: String,
}

/// A member's view of itself and its ring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Member id, base32.
    pub member: String,
    /// Name from the certificate.
    pub name: String,
    /// `router` or `leaf`.
    pub role: String,
    /// Domain of the ring.
    pub ring: String,
    /// Number of the owner's latest statement that this member knows; it grows with each change of
    /// the ring: who joins, who is revoked, who is asked for another key or has one. 0 from a
    /// daemon of a build that does not say it.
    #[serde(default)]
    pub statement: u64,
    /// Number of the statement that the ring's DNS gives, where that has for some time been older
    /// than `statement`, or says less than the owner has stated before: it lags, or the authority's
    /// folder is an old copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement_in_dns: Option<u64>,
    /// Number of this member's certificate; 0 from a daemon of a build that does not say it.
    #[serde(default)]
    pub serial: u64,
    /// When the certificate runs out, Unix seconds; it is renewed before. 0 as above.
    #[serde(default)]
    pub expires: u64,
    /// True if that is before long, and it should have been renewed by now.
    #[serde(default)]
    pub expires_soon: bool,
    /// Why the last try to renew it has failed, if it is time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_renewed: Option<String>,
    /// Release of the daemon, such as `0.3.0`; empty from a daemon of a build that does not say it.
    #[serde(default)]
    pub release: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_s: f64,
    /// `outside`, `joining` or `member`; a leaf is `member` when it has a parent. `convicted` for a
    /// router against which others hold proof: they do not use it.
    pub state: String,
    /// 64 hex digits; routers only.
    pub ring_key: Option<String>,
    /// Routers only.
    pub predecessor: Option<RouterRef>,
    /// Routers only, nearest first.
    pub successors: Vec<RouterRef>,
    /// Leaves only: the routers that it is attached to.
    pub parents: Vec<RouterRef>,
    /// Number of successors that this ring's routers keep (r).
    pub successor_list_length: usize,
    /// Own addresses as advertised in the HELLO.
    pub addresses: Vec<String>,
    /// Sessions with other members.
    pub links: Vec<LinkStatus>,
    /// What each transport has moved, and dropped by reason.
    pub transports: Vec<TransportStatus>,
    /// Events counted since the start, by name.
    pub counters: BTreeMap<String, u64>,
    /// Caps on what transfers send.
    pub caps: Vec<CapStatus>,
    /// What a leaf knows of the NAT before it; none of a router, of a leaf that no parent has heard
    /// yet, and from a daemon of a build that does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<NatStatus>,
}

/// What lies between a leaf and the Internet, as its parents see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatStatus {
    /// The UDP addresses from which parents hear this member, such as `udp://192.0.2.1:4000`. Those
    /// that differ in their ports show a NAT with a port for each destination.
    pub heard_from: Vec<String>,
    /// The address that the home router has mapped for it, if it was asked and gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<String>,
    /// Whether the home router was asked for a port.
    pub asked: bool,
}

/// A cap on what transfers send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapStatus {
    /// The interface by which they leave; none for the cap on all.
    pub interface: Option<String>,
    /// Bytes per second.
    pub upload: u64,
    /// Transfers that are under it now.
    pub transfers: usize,
}

/// What one transport has done since the start. Messages are what links send, whatever is in them;
/// files that QUIC carries itself are streams, and files that go over a link are among the messages
/// of the transport that carries the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Such as `udp`.
    pub protocol: String,
    /// Messages sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Bytes of files sent over streams; `quic` only.
    pub stream_sent_bytes: u64,
    /// Bytes of files received over streams; `quic` only.
    pub stream_received_bytes: u64,
    /// What was dropped or refused, by reason; reasons that never occurred are left out.
    pub dropped: BTreeMap<String, u64>,
    /// Probes of how long messages may be that this machine's system has refused at once: no
    /// losses.
    pub probes_refused: u64,
}

/// A router, by position and by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterRef {
    /// 64 hex digits.
    pub ring_key: String,
    /// Name from its certificate, if that is known here.
    pub name: Option<String>,
}

/// One encrypted session with another member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Member id, base32.
    pub member: String,
    /// Name from its certificate.
    pub name: String,
    /// The address in use, such as `udp://192.0.2.1:4000`.
    pub address: String,
    /// Name of the router, if that is a `relay://` address and the name is known here.
    pub via: Option<String>,
    /// Bytes of applications' messages that may be under way at once.
    pub window: u64,
    /// Bytes of them that are.
    pub in_flight: u64,
    /// Addresses of its HELLO that a PONG has validated.
    pub validated: Vec<String>,
    /// Smoothed round-trip time in milliseconds, once measured.
    pub rtt_ms: Option<f64>,
    /// Seconds since the last authenticated message.
    pub idle_s: f64,
    /// Version of the link protocol.
    #[serde(default)]
    pub link_version: Option<u8>,
    /// The release that the other member says it runs.
    #[serde(default)]
    pub release: Option<String>,
}

/// A transfer as its daemon sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferStatus {
    /// 32 hex digits; the same on both sides.
    pub id: String,
    /// `send` or `receive`.
    pub direction: String,
    /// `waiting`, `hashing`, `connecting`, `active`, `done`, `failed` or `cancelled`.
    pub state: String,
    /// Why it waits or failed.
    pub reason: Option<String>,
    /// Name of the other member.
    pub peer: String,
    /// File name without folders.
    pub file: String,
    /// Where it is read from or written to on this machine; an array of bytes where it is no UTF-8.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// Bytes in all.
    pub size: u64,
    /// Bytes verified by the receiver (receive) or handed to the network (send).
    pub bytes: u64,
    /// `file`, `folder`, or `several` files and folders.
    #[serde(default = "file")]
    pub kind: String,
    /// Files, folders and links in it, of a folder or several, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// How many of them are files, while it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// How many files are through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_done: Option<u64>,
    /// What transfers of one command to several members have in common, 32 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Who has given how much of a file that comes in, if others that get it give it as well; the
    /// sender is one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub givers: Vec<super::givers::Giver>,
    /// What a person should know of it: what is left out, or arrives under another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Bytes per second over the last second; while data does not flow, the mean over the time
    /// that it did, and none if it never did.
    pub rate: Option<f64>,
    /// Seconds to go at this rate.
    pub eta_s: Option<f64>,
    /// Seconds that data flowed, over all attempts.
    pub active_s: f64,
    /// In force now.
    pub priority: f64,
    /// BLAKE3 of the whole file, 64 hex digits, once known.
    pub blake3: Option<String>,
    /// Bytes that an earlier attempt had brought over and that were not sent again.
    pub resumed_from: u64,
    /// When it has to have arrived, Unix seconds, if it was sent with a deadline (senders only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// When it will have arrived as far as is known, or has, Unix seconds; only with a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Whether that is by the deadline; none where nothing is known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_time: Option<bool>,
    /// Whether the deadline sets the priority: it does until a user does.
    #[serde(default)]
    pub steered: bool,
    /// What QUIC and the controller report, while active.
    pub path_report: Option<PathReport>,
    /// Why it is not faster; senders only, while active.
    ///
    /// | value | means |
    /// |---|---|
    /// | `capped` | an upload limit holds it back |
    /// | `behind-others` | others have a priority above its 0, under that limit |
    /// | `yielding` | it has priority 0 and yields to other traffic |
    /// | `path-limited` | it has priority 0 and all that is free |
    /// | `loss-limited` | losses hold it back |
    /// | `slow-start`, `growing` | it is finding out what the path carries |
    /// | `receiver-limited` | the receiver takes no more for now |
    /// | `window-limited` | the path holds more than one transfer may have in flight |
    /// | `unanswered` | nothing arrives from the receiver at all |
    /// | `application-limited` | the network would take more than the disk gives |
    pub limited_by: Option<LimitedBy>,
    /// Whose upload limit that is, if it is one: an interface's name, or `all` for the limit on
    /// all transfers.
    pub capped_by: Option<String>,
    /// Names of other members to whom what is sent waits in one queue with it, as it has shown
    /// (senders only, while active): what all of them get there is shared by priority.
    #[serde(default)]
    pub shares_with: Vec<String>,
    /// When it began, Unix seconds; 0 from a daemon of a build that does not say it.
    #[serde(default)]
    pub created: u64,
    /// When it ended, Unix seconds; none where it has not, or a build ended it that noted nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

/// Of daemons that say nothing of kinds.
fn file() -> String {
    "file".to_owned()
}

/// Figures of a transfer's connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// `quic://address:port` of the peer, or `link` where QUIC goes over the link's messages.
    pub address: String,
    /// Round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// Estimated queueing delay in milliseconds, without that of the way back as far as it is
    /// known.
    pub queueing_ms: f64,
    /// Estimated queueing delay on the way back in milliseconds, which only a sender at priority 0
    /// asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_back_ms: Option<f64>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets lost.
    pub packets_lost: u64,
}

/// A member of the ring, as far as the one that is asked knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownMember {
    /// Its name.
    pub name: String,
    /// Its id in base32; none where only its name is known.
    pub member: Option<String>,
    /// `router` or `leaf`; none where it is not known.
    pub role: Option<String>,
    /// Whether it is the member that was asked.
    pub this: bool,
    /// True where there is a link with it now, false where the last try to make one has failed,
    /// none where neither is so.
    pub reachable: Option<bool>,
    /// The address in use, if there is a link.
    pub address: Option<String>,
    /// Name of the router, if that is a `relay://` address and the name is known.
    pub via: Option<String>,
    /// When something authentic last came from it, Unix seconds; none if nothing did since this
    /// member's start.
    pub heard: Option<u64>,
    /// The release that it says it runs.
    pub release: Option<String>,
    /// Version of the link protocol of its latest link.
    pub link_version: Option<u8>,
    /// How it is known: `certificate` (seen in a handshake, a lookup or DNS), `link`, `transfer`,
    /// `owner` (the owner's list).
    pub known_from: Vec<String>,
}
