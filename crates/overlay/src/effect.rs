//! [`Effect`]: what a machine wants of others. It names no machine: `Chord` takes it to those that
//! it concerns.

use crate::event::LookupId;
use crate::key::RingKey;
use crate::lookup::inquiry::{Inquiry, LookupEnd};
use crate::view::SignedHeader;

/// Something that follows from a step of one machine and is another's to do.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A point is to be looked up.
    LookUp(Box<Inquiry>),
    /// A lookup has ended.
    LookupEnded(Box<LookupEnd>),
    /// Questions of a lookup are to go on, after what came before this.
    LookupGoesOn(LookupId),
    /// A member of some ring has answered.
    RingSeen,
    /// This member founds a ring of one, because no member has answered for long.
    FoundRing,
    /// This member is in the ring now. These stand around it, and have answered.
    Joined(Vec<RingKey>),
    /// A member has said that it is not in the ring.
    NotInRing(RingKey),
    /// A member has signed this, which has been checked.
    Said(Box<SignedHeader>),
    /// A member of the own group is gone.
    NeighbourLost,
    /// A member is convicted now.
    Convicted(RingKey),
}
