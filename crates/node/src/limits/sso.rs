//! Bounds of enrolments by single sign-on.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::TryRate;

/// Sign-ins that are open at once.
///
/// Source: a class of 30 people at the same time, twice. Past it a further one is refused until
/// another has ended.
pub const SIGN_INS: usize = 64;

/// Sign-ins that are begun in all, from any sources.
///
/// Source: each costs the issuer three requests: less than one in a second is no load for it. Past
/// it a sign-in is refused, and can be tried again. A restart forgets it.
pub const SIGN_IN_RATE: TryRate = TryRate {
    burst: 30,
    every: Duration::from_secs(2),
};

/// Sign-ins that are begun from one IPv4 address or one IPv6 network of 64 bits.
///
/// Source: an office behind one NAT; below [`SIGN_IN_RATE`], so that one source alone cannot use
/// that up. Past it as there.
pub const SIGN_IN_SOURCE_RATE: TryRate = TryRate {
    burst: 12,
    every: Duration::from_secs(5),
};

/// The longest that a person may take to sign in.
///
/// Source: issuers give 5 to 15 minutes (Dex 5, Keycloak 10, Entra 15). Past it the sign-in is
/// closed, whatever its issuer says.
pub const SIGN_IN_TIME: Duration = Duration::from_secs(15 * 60);

/// After how long without a look of the joining member its sign-in is closed.
///
/// Source: thirty times [`SIGN_IN_LOOK`]: one that is there looks in that time on any network.
pub const SIGN_IN_SILENCE: Duration = Duration::from_secs(60);

/// How often a joining member asks whether its person has signed in.
///
/// Source: chosen: people do not notice two seconds, and it costs the authority one handshake.
pub const SIGN_IN_LOOK: Duration = Duration::from_secs(2);

/// Machines that one person may have in a ring at once.
///
/// Source: chosen: the lowest that is of use, and the size of a large ring. A number outside is
/// refused.
pub const SSO_MACHINES: RangeInclusive<u32> = 1..=1_000;

/// Seconds after which a person has to sign in again, where the owner wants that.
///
/// Source: as [`CERTIFICATE_LIFETIMES`](super::CERTIFICATE_LIFETIMES). A time outside is refused.
pub const SSO_AGAIN: RangeInclusive<u64> = 10..=365 * 86_400;

/// Groups whose people may join.
///
/// Source: chosen: more belong into one group of the issuer. A longer list is refused.
pub const SSO_GROUPS: usize = 32;

/// Characters of what is shown of a person.
///
/// Source: longer mail addresses exist, and are not told apart by the rest, which is cut off.
pub const PERSON_CHARS: usize = 100;

/// Bytes of an issuer's answer.
///
/// Source: the largest, keys of Entra, has 20 KiB; a token of a person in 200 groups 10. A longer
/// answer is refused.
pub const ISSUER_ANSWER: usize = 256 * 1024;

/// How long a request to the issuer may take.
///
/// Source: three follow each other within [`ENROL_TIME`](super::ENROL_TIME). Past it the issuer
/// counts as silent.
pub const ISSUER_TIME: Duration = Duration::from_secs(4);

/// The shortest pause between two questions whether a person has signed in.
///
/// Source: RFC 8628 §3.5 has five seconds where the issuer names none; one that names less than
/// this is asked this often.
pub const ISSUER_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a request or an answer of a sign-in at the authority, and of an address that is shown.
///
/// Source: addresses of issuers have some hundred. A longer one is refused.
pub const SIGN_IN_URL: usize = 2_048;
