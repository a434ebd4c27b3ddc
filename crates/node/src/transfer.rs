//! Files from member to member: verified chunk by chunk, resumed where they stopped.
//!
//! A transfer has one QUIC connection, so that it has a congestion controller and a priority of its
//! own.
//!
//! ```text
//! sender                                   receiver
//!   Ping {challenge, address}        →
//!                                    ←     Pong (signed)
//!   Offer {certificate, file, hash}  →
//!                                    ←     Accept {missing chunks} or Refuse {reason}
//!   the missing chunks, with the
//!   hashes that prove each (bao)     →
//!                                    ←     Finished {hash} or Failed {reason}
//! ```
//!
//! Before it accepts, the receiver goes by its rules (`rules`), and may wait for a person
//! (`inbox`), who is asked once: the sender comes again after `Come`, or by itself.
//!
//! Folders, and several files at once, travel as one content ([`bundle`]).
//!
//! A sender that gives a transfer up says so by closing the connection, and by `GiveUp` until the
//! receiver has answered `GivenUp`: it may be away.
//!
//! The BLAKE3 tree (crate `bao-tree`) lets the receiver check every 16 KiB before it writes them,
//! and lets it find out after a crash which parts on its disk are good.

mod arrival;
mod arrived;
pub(crate) mod bundle;
mod cap;
mod content;
mod deadline;
mod desktop;
mod distribute;
mod give_up;
mod hook;
mod inbox;
mod live;
mod origin;
mod patience;
mod pipe;
mod receive;
mod record;
mod register;
mod route;
mod rules;
mod send;
mod send_all;
mod service;
#[cfg(test)]
mod tests;
mod to_send;
mod told;
mod uplink;
mod wire;

pub(crate) use self::deadline::KeptDeadline;
pub(crate) use self::deadline::check as check_deadline;
pub(crate) use self::record::{Direction, Phase, Record, TransferId};
pub(crate) use self::send::ping;
pub(crate) use self::send_all::{Form, SendAll};
pub(crate) use self::service::{Setup, TransferError, Transfers};
pub(crate) use self::to_send::ToSend;

/// Everything that is done with a peer's frames, for fuzzing.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_anything(data: &[u8]) {
    wire::decode_anything(data);
    bundle::decode_list(data);
}
