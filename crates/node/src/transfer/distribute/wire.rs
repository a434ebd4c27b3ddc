//! What frames say about a distributed file.

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};

/// In an offer: the file goes to several members, and those that accept it may give it to each
/// other. Releases before 0.3 skip it, and get all from the sender.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(in crate::transfer) struct Distributed {
    /// What the transfer is worth.
    #[n(0)]
    pub(in crate::transfer) priority: f64,
}

/// From the sender to one that has accepted: who else has, and what entitles them to ask each
/// other.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(in crate::transfer) struct Shared {
    #[n(0)]
    pub(in crate::transfer) secret: ByteArray<16>,
    #[n(1)]
    pub(in crate::transfer) others: Vec<ByteArray<32>>,
}
