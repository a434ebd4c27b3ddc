//! How a new member gets its certificate: one TCP connection, Noise IK with the ring owner's key
//! and the invite's secret as pre-shared key.
//!
//! ```text
//! member → authority   e, es, s, ss           payload: the invite's id
//! authority → member   e, ee, se, psk         payload: none
//! member → authority   Request                its key, and a router's address
//! authority → member   Reply                  certificate, statement, some routers; or a refusal
//! ```
//!
//! The member knows the authority by the ring's identity in the invite; the authority knows the
//! member by its key and by the secret. Without the secret no peer gets past the second message.
//! In its place comes a refusal in the clear if the invite is used, has expired or is unknown. A
//! spoken invite has too few bits for that and names no ring: with one, two messages come before
//! (`pake`), and the handshake is another.
//!
//! A member that wants another key (`crate::rotation`) comes to the same port, by Noise IK with the
//! key that it has; so does one whose certificate ends before long, for a newer one, and one that
//! wants the list of members. One that knows
//! more than an authority that was restored from a backup brings
//! that there (`bring`). A person that signs in at the organisation's issuer needs no invite
//! (`sign_in`): the ring's key comes by a join link, which is no secret.

mod admit_signed_in;
mod again;
mod bring;
mod channel;
mod client;
mod departure;
mod known;
mod locate;
mod offline;
mod pake;
mod place;
mod renew;
mod rotate;
mod server;
mod sign_in;
mod store;
mod tries;

use minicbor::bytes::{ByteArray, ByteVec};
use minicbor::{Decode, Encode};

pub(crate) use self::bring::bring_to;
pub use self::bring::{BringError, bring};
pub use self::client::{JoinError, JoinOptions, Joined, join, join_with};
pub(crate) use self::departure::{depart, report};
pub use self::known::AskError;
pub(crate) use self::known::list_page;
pub(crate) use self::locate::record_of as place_record;
pub use self::locate::{LocateError, Locator};
pub use self::offline::{complete, request};
pub use self::pake::Refusal;
#[cfg(feature = "fuzzing")]
pub(crate) use self::pake::decode_anything;
pub(crate) use self::renew::{RenewError, check_renewed, renew};
pub use self::rotate::{RotateError, Rotated, complete_rotation, request_rotation};
pub(crate) use self::rotate::{Rotation, load_identity};
pub(crate) use self::server::serve;
pub use self::sign_in::{SignInOptions, SignInPrompt, SignedInAs, sign_in};
pub(crate) use self::tries::Tries;

#[derive(Debug, Encode, Decode)]
struct Request {
    /// The member's Ed25519 key; the handshake proves its X25519 form.
    #[n(1)]
    member: ByteArray<32>,
    /// A router's address, IPv4 mapped into IPv6, and port.
    #[n(0)]
    address: Option<ByteArray<18>>,
    /// Version of its program; earlier ones do not say it.
    #[n(2)]
    version: Option<String>,
}

#[derive(Debug, Encode, Decode)]
enum Reply {
    #[n(0)]
    Granted {
        #[n(0)]
        certificate: ByteVec,
        #[n(1)]
        statement: ByteVec,
        #[n(2)]
        routers: Vec<ByteVec>,
        /// Where the ring's DNS is answered.
        #[n(3)]
        dns: ByteArray<18>,
        /// The same as host name and port, if it is no address: `dns` is all zeros then.
        #[n(4)]
        dns_host: Option<String>,
    },
    #[n(1)]
    Refused {
        #[n(0)]
        reason: String,
        /// True if the same invite is good for another key.
        #[n(1)]
        other_key: Option<bool>,
    },
}

/// What a member brings to an authority that knows less: all of it is public and signed.
#[derive(Debug, Encode, Decode)]
struct Bring {
    /// A statement of the owner.
    #[n(0)]
    statement: ByteVec,
    /// The member's own certificate.
    #[n(1)]
    certificate: ByteVec,
}

/// What it is answered.
#[derive(Debug, Encode, Decode)]
enum BringAnswer {
    /// The authority knows it.
    #[n(0)]
    Known,
    /// It did not.
    #[n(1)]
    News,
}

/// What the fuzzer tries: each message that comes within the channel.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode_inner(data: &[u8]) {
    minicbor::decode::<Request>(data).ok();
    minicbor::decode::<Reply>(data).ok();
    minicbor::decode::<known::KnownAnswer>(data).ok();
    minicbor::decode::<known::ListRequest>(data).ok();
    minicbor::decode::<departure::Report>(data).ok();
    minicbor::decode::<ByteVec>(data).ok();
    sign_in::decode_anything(data);
    minicbor::decode::<Bring>(data).ok();
    minicbor::decode::<BringAnswer>(data).ok();
}
