//! What may be wrong between the ring's owner and a DNS server, each with its mend.

use std::io;

use hickory_proto::op::ResponseCode;

use crate::limits::{TSIG_FUDGE, UPDATE_TIME};
use crate::statement::Statement;

/// How the two servers' administrators say that a key may do what is needed.
const ACL: &str = "an ACL of the zone with `action: [query, update]` in Knot, an `update-policy { grant … zonesub TXT; }` in BIND";

/// What a DNS server did, in words that follow its name.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No connection.
    #[error(
        "cannot be reached over TCP ({0}): is it running, is the port right, and does every firewall on the way let TCP through?"
    )]
    Unreachable(io::Error),
    /// It took too long.
    #[error("did not answer within {} s: try again, and look into its log", UPDATE_TIME.as_secs())]
    Silent,
    /// It closed the connection or the network broke.
    #[error("ended the connection ({0}): try again, and look into its log")]
    Broken(io::Error),
    /// Not DNS.
    #[error("gave an answer that is no DNS message: is this the port of a DNS server?")]
    Malformed,
    /// TSIG error 17.
    #[error(
        "does not take the key `{key}` with {algorithm} (BADKEY): put the key into its configuration under this very name, and allow it there: {ACL}"
    )]
    BadKey {
        /// The key's name.
        key: String,
        /// Its algorithm.
        algorithm: String,
    },
    /// TSIG error 16.
    #[error(
        "has another secret for the key `{key}` (BADSIG): give it and `--tsig-key` the same file"
    )]
    BadSignature {
        /// The key's name.
        key: String,
    },
    /// TSIG error 18, or an answer from another time.
    #[error(
        "has a clock that differs from this machine's {} (BADTIME); {TSIG_FUDGE} s are allowed: set both by NTP",
        .seconds.map_or_else(|| "by too much".to_owned(), |seconds| format!("by {seconds} s"))
    )]
    BadTime {
        /// The difference, if it said its time.
        seconds: Option<u64>,
    },
    /// No TSIG record in the answer.
    #[error(
        "gave an answer that is not signed ({0}), so that anybody may have given it: does it serve the ring's zone, as its primary server, and does it support TSIG?"
    )]
    Unsigned(ResponseCode),
    /// Signed with a key of another name.
    #[error("signed its answer with another key than `{key}`: nothing in it was believed")]
    OtherKey {
        /// Our key's name.
        key: String,
    },
    /// The MAC does not fit.
    #[error(
        "gave an answer that the key `{key}` did not sign: somebody between it and this machine may have changed it; nothing in it was believed"
    )]
    Forged {
        /// Our key's name.
        key: String,
    },
    /// It answers for no zone in which the ring's records could stand.
    #[error(
        "does not serve the zone of {domain} ({code}): give the address of the zone's primary server, not that of a resolver"
    )]
    NotAuthoritative {
        /// The ring's domain.
        domain: String,
        /// Its answer.
        code: ResponseCode,
    },
    /// It is a secondary server.
    #[error(
        "may not change the zone {zone} (NOTAUTH): give the address of the zone's primary server"
    )]
    NotPrimary {
        /// The zone.
        zone: String,
    },
    /// The key may not do this.
    #[error("does not let the key `{key}` change the zone {zone} (REFUSED): allow it there: {ACL}")]
    Refused {
        /// The zone.
        zone: String,
        /// The key.
        key: String,
    },
    /// It has the work of a newer copy of the authority.
    #[error(
        "serves statement {theirs} of this ring, which this authority, at {ours}, knows nothing of: its folder is an old copy; nothing was changed. Use the newest copy, or let `ringway ring recover` take over what members know"
    )]
    Newer {
        /// The number that it serves.
        theirs: u64,
        /// Our number.
        ours: u64,
        /// What it serves.
        statement: Box<Statement>,
    },
    /// The update had no effect.
    #[error(
        "took the update and still serves something else at {name}: look for a wildcard, a CNAME or another writer of the zone there"
    )]
    NotTaken {
        /// The first such name.
        name: String,
    },
    /// Anything else.
    #[error("answered {0}: its log says why")]
    Code(ResponseCode),
}
