//! One file for several members, who give it to each other: it goes across the sender's line about
//! once.
//!
//! ```text
//! sender                                      receiver                     another receiver
//!   Offer {…, distributed}            →
//!                                     ←       Accept {…, takes part}
//!   Shared {secret, others}           →
//!   Piece, its bytes and hashes       →
//!                                     ←       Has {pieces}
//!                                             Ask {secret}            →
//!                                                                     ←    Has {pieces}
//!                                             Get {piece}             →
//!                                                                     ←    Piece, bytes, hashes
//!                                     ←       Wants {pieces}
//!                                     ←       Finished
//! ```
//!
//! The sender gives each piece to one receiver ([`seed`]); that gives it to others, which ask for
//! the rarest first ([`gather`]). Each proves itself against the hash that the sender has
//! offered. One that lies, is silent or refuses is asked no more. What others do not give, or too
//! slowly, comes from the sender.
//!
//! Only those may ask that have accepted the same transfer: the sender tells them, and no other, a
//! random secret, and who they are.

mod gather;
mod pieces;
mod receive;
mod seed;
mod send;
mod serve;
mod share;
#[cfg(test)]
mod sim;
mod wire;

pub(super) use self::pieces::Division;
#[cfg(feature = "fuzzing")]
pub(super) use self::pieces::Pieces;
pub(super) use self::receive::Taking;
pub(super) use self::send::{Distribution, Givers, Giving, Slot};
pub(super) use self::serve::serve;
pub(super) use self::share::{Share, Shares};
pub(super) use self::wire::{Distributed, Shared};
