//! Bounds of renewals of certificates.

/// How long the certificates of a ring may be valid, in seconds.
///
/// Source: members look each second, so that three of ten are enough to renew one in time; above it
/// [`CERTIFICATE_LIFETIME`](super::CERTIFICATE_LIFETIME), by which members judge when a certificate
/// has expired that they know by its serial only. Others are refused.
pub const CERTIFICATE_LIFETIMES: std::ops::RangeInclusive<u64> = 10..=365 * 86_400;

/// The part of its lifetime after which a certificate is renewed: the first third of three is left.
///
/// Source: chosen, as usual for machines' certificates; four months of twelve for an authority that
/// is away. Earlier a request is refused, so that at most two certificates of a member are valid.
pub const RENEW_AFTER: (u64, u64) = (2, 3);

/// The part of its lifetime over which members spread their first tries, at random.
///
/// Source: chosen; two months of a year, in which 100 000 members that joined on one day come one a
/// minute. After it other members ask DNS for the new one.
pub const RENEW_SPREAD: (u64, u64) = (1, 6);

/// Longest pause before a member that could not renew its certificate tries again, or asks DNS for
/// a new one of another member; the first is [`ROTATION_RETRY_FIRST`](super::ROTATION_RETRY_FIRST),
/// and each is twice the one before.
///
/// Source: chosen; 100 000 members that find no authority cost it 30 connections a second when it
/// is back. It is shorter where less than sixteen of them are left.
pub const RENEW_RETRY_LONGEST: std::time::Duration = std::time::Duration::from_secs(3_600);

/// Time before the end of a certificate from which its member, and the ring's owner, are warned.
///
/// Source: chosen: time to look into it. It is a twelfth of the lifetime where that is less. Before
/// it a failed renewal is no more than a line in the log.
pub const EXPIRY_WARNING: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);

/// Pause between two such warnings in the log.
///
/// Source: chosen. More would hide other lines.
pub const EXPIRY_WARNING_PAUSE: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Certificates of others for which DNS is asked at once because they end before long.
///
/// Source: chosen; each takes a round trip, and there are months for them. The others wait for the
/// next look.
pub const RENEWED_LOOKED_UP: usize = 8;

/// Requests for a newer certificate by DNS that wait to be looked at.
///
/// Source: chosen; each is 80 bytes. Further ones are dropped, and members ask again.
pub const RENEWALS_BY_DNS: usize = 64;

/// Pause after each request for a newer certificate by DNS.
///
/// Source: 20 a second cost a hundredth of a core, from any senders: their addresses are not
/// proved. 100 000 members come one a minute.
pub const RENEWAL_BY_DNS_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// When a member that has asked by DNS looks there for the newer certificate, after it has asked
/// and after each look in vain.
///
/// Source: the zone is made again within a second, and resolvers may keep its records for five.
pub const RENEWED_IN_DNS: [std::time::Duration; 3] = [
    std::time::Duration::from_secs(1),
    std::time::Duration::from_secs(3),
    std::time::Duration::from_secs(5),
];
