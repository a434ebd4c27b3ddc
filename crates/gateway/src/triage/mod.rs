//! What the kernel may pass without asking: proof that no signature can match whose application the
//! policy cares about.
//!
//! [`Triage::new`] compiles signatures and policy to one deterministic automaton over the first
//! bytes of payloads, and a few facts about the policy. [`Triage::judge`] runs it over one
//! payload, [`FlowModel`] says what happens to each packet of a flow. Both are the model of a
//! program in the kernel, which has the same table and the same logic; here they are tested
//! against the classifier. Nothing here names an application: it only says of a packet that the
//! classifier need not see it.
//!
//! | file | holds |
//! |---|---|
//! | `touched` | applications that some rule may do anything to but let pass |
//! | `expression` | bytes that a message must have, as signature files write them |
//! | `condition` | what each signature makes necessary of a message |
//! | `automaton`, `minimal` | from conditions to a table |
//! | `flags` | what a state of the automaton says of a payload |
//! | `flow` | the model of one flow, with the layout of its state |
//!
//! **Soundness.** Where the classifier names a touched application by a message, the message begins
//! with a payload (of a stream, or of a later packet) whose first bytes fulfil that signature's
//! condition, or end before it is decided; either is asked about. A stream is judged segment by
//! segment only as long as each one follows the last without gap or overlap.
//!
//! ```
//! use ringway_gateway::SignatureSet;
//! use ringway_gateway::policy::Policy;
//! use ringway_gateway::triage::{Begin, Triage};
//!
//! let policy = "[[rule]]\nname = \"no\"\naction = \"block\"\napp = \"gnutella\"\n";
//! let policy = Policy::parse(policy, &["gnutella".to_owned()].into()).map_err(|_| "no policy")?;
//! let triage = Triage::new(&SignatureSet::built_in(), &policy)?;
//! let judge = |payload: &[u8]| triage.judge(Begin::Stream, payload, payload.len() as u32);
//! assert!(judge(b"GNUTELLA CONNECT/0.6\r\n").ask);
//! assert!(!judge(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00").ask);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod automaton;
mod condition;
mod expression;
pub(crate) mod flags;
mod flow;
mod minimal;
mod touched;

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use automaton::Automaton;
pub(crate) use expression::{Bytes, Expression};
pub use flags::{ASK, DEAD, KNOWN, OPEN};
pub use flow::{FlowModel, Seen, Segment, Stage, TriageVerdict};
use ipnet::IpNet;
use touched::Touched;

use crate::classify::{Bounds, SignatureSet};
use crate::limits::{MAX_TRIAGE_BYTES, MAX_TRIAGE_NETWORKS, MAX_TRIAGE_STATES, TRIAGE_SCAN};
use crate::packet::L4;
use crate::policy::{Policy, apart};

/// What a payload is the beginning of; each has a state of its own to start in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Begin {
    /// The first data of one direction of a TCP connection.
    Stream,
    /// Later data of a direction.
    Segment,
    /// A UDP datagram.
    Datagram,
}

/// All of them, in the order of [`Triage::starts`].
pub const BEGINS: [Begin; 3] = [Begin::Stream, Begin::Segment, Begin::Datagram];

/// What the automaton says of one payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// User space is asked.
    pub ask: bool,
    /// It opens as an application that the policy does not care about.
    pub known: bool,
}

/// Why signatures and policy cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriageError {
    /// The table would be too large.
    #[error(
        "the kernel's table of signatures would have more than {MAX_TRIAGE_STATES} states or {MAX_TRIAGE_BYTES} bytes, so \
         packets of undecided flows are all asked about; name fewer applications in the policy, or shorten the patterns and \
         `opening`s of your signature files"
    )]
    TooLarge,
}

/// Signatures and a policy, compiled.
#[derive(Clone, Debug)]
pub struct Triage {
    automaton: Automaton,
    asking_ports: [Vec<RangeInclusive<u16>>; 2],
    asking_networks: Vec<IpNet>,
    asks_everything: bool,
    needs_unknown: bool,
    needs_beginnings: bool,
    packets: u8,
}

impl Triage {
    /// Compiles a set of signatures under a policy, for a classifier with the usual [`Bounds`].
    ///
    /// # Errors
    /// The table would be too large.
    pub fn new(set: &SignatureSet, policy: &Policy) -> Result<Self, TriageError> {
        let concern = policy.concern();
        // Networks that do not fit the kernel's map make it ask about everything, which is only
        // slower.
        let too_many = concern.networks.len() > MAX_TRIAGE_NETWORKS;
        let touched = Touched::new(set, policy, concern.everything || too_many);
        let conditions = condition::of(set, &touched);
        let needs_unknown = touched.by_other_means();
        let [tcp, udp] = concern.ports;
        let [by_tcp, by_udp] = conditions.ports;
        let asking_ports = [(tcp, by_tcp), (udp, by_udp)].map(|(mut spans, single)| {
            spans.extend(single.into_iter().map(|port| port..=port));
            apart(&spans)
        });
        Ok(Self {
            automaton: Automaton::new(&conditions.clauses)?,
            asking_ports,
            asking_networks: concern.networks,
            asks_everything: touched.everything(),
            needs_unknown,
            needs_beginnings: needs_unknown || policy.looks_into_content(),
            packets: Bounds::default().packets,
        })
    }

    /// The same for a classifier with other bounds.
    #[must_use]
    pub fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.packets = bounds.packets;
        self
    }

    /// The same for a gateway to which flows that no signature names do not matter.
    #[must_use]
    pub fn for_named_flows(mut self) -> Self {
        self.needs_unknown = false;
        self
    }

    /// The policy cares about every flow: the kernel has nothing to decide.
    #[must_use]
    pub fn asks_everything(&self) -> bool {
        self.asks_everything
    }

    /// Flows that no signature names matter: the first data packet of a flow must be known, or is
    /// asked about.
    #[must_use]
    pub fn needs_unknown(&self) -> bool {
        self.needs_unknown
    }

    /// User space that is asked about a flow's first data has to know that they are the first, and
    /// who has sent the SYN: how a conversation opens and what it carries is read from its
    /// beginning only.
    #[must_use]
    pub fn needs_beginnings(&self) -> bool {
        self.needs_beginnings
    }

    /// Networks of either end of which every packet is asked about; at most
    /// [`MAX_TRIAGE_NETWORKS`].
    #[must_use]
    pub fn asking_networks(&self) -> &[IpNet] {
        &self.asking_networks
    }

    /// Whether every packet with this end is asked about.
    #[must_use]
    pub fn asks_about(&self, l4: L4, end: SocketAddr) -> bool {
        let (address, port) = (end.ip().to_canonical(), end.port());
        let mut networks = self.asking_networks.iter();
        let mut ports = self.asking_ports(l4).iter();
        networks.any(|network| network.contains(&address)) || ports.any(|span| span.contains(&port))
    }

    /// Ports of either end on which every packet is asked about: spans that lie apart.
    #[must_use]
    pub fn asking_ports(&self, l4: L4) -> &[RangeInclusive<u16>] {
        let [tcp, udp] = &self.asking_ports;
        match l4 {
            L4::Tcp => tcp,
            L4::Udp => udp,
        }
    }

    /// Data packets of each direction that are looked at; see [`Bounds`].
    #[must_use]
    pub fn packets(&self) -> u8 {
        self.packets
    }

    /// The next states: for each state a row, in it one for each class of bytes.
    #[must_use]
    pub fn table(&self) -> &[u16] {
        self.automaton.table()
    }

    /// The class of each byte.
    #[must_use]
    pub fn classes(&self) -> &[u8; 256] {
        self.automaton.classes()
    }

    /// Classes of bytes, and so the length of a row.
    #[must_use]
    pub fn class_count(&self) -> usize {
        self.automaton.class_count()
    }

    /// For each state its flags: [`ASK`], [`KNOWN`], [`OPEN`], [`DEAD`].
    #[must_use]
    pub fn flags(&self) -> &[u8] {
        self.automaton.flags()
    }

    /// The states to start in, in the order of [`BEGINS`].
    #[must_use]
    pub fn starts(&self) -> [u16; 3] {
        BEGINS.map(|begin| self.start(begin))
    }

    /// The state to start in.
    #[must_use]
    pub fn start(&self, begin: Begin) -> u16 {
        self.automaton.start(begin)
    }

    /// Judges one payload by at most [`TRIAGE_SCAN`] of its bytes. `payload` must hold as many of
    /// its `length`.
    #[must_use]
    pub fn judge(&self, begin: Begin, payload: &[u8], length: u32) -> Judgement {
        let scanned = payload.get(..TRIAGE_SCAN).unwrap_or(payload);
        let mut state = self.start(begin);
        for &byte in scanned {
            if self.automaton.flags_of(state) & (ASK | DEAD) != 0 {
                break;
            }
            state = self.automaton.next(state, byte);
        }
        let flags = self.automaton.flags_of(state);
        let whole = crate::reader::index(length) <= scanned.len();
        let undecided = if whole { OPEN } else { 0 };
        Judgement {
            ask: flags & (ASK | undecided) != 0 || (!whole && flags & DEAD == 0),
            known: flags & KNOWN != 0,
        }
    }
}
