//! What each side shows the other in a handshake, and the epoch that follows from it.
//!
//! A link's sessions are numbered: their epochs. Each side says the number of its newest session
//! with the other, and the new one gets a higher number than both. Sessions that both begin at once
//! have different numbers: even ones are begun by the member whose id is smaller, odd ones by the
//! other. So both sides agree which one is the newest.

use ringway_transport::MemberId;

use super::version::LinkVersion;
use crate::limits::CERTIFICATE_BYTES;

/// A handshake's payload: newest epoch as u32 and time as u64, big-endian, and the certificate. In
/// version 2 there is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Epoch of the newest session with the other; 0 if there is none. So a peer that has
    /// restarted says so.
    pub(super) newest: u32,
    /// Microseconds since 1970 by the clock of who shows it; later in each handshake. 0 in version
    /// 2.
    pub(super) time: u64,
    pub(super) certificate: Vec<u8>,
}

impl Shown {
    /// The longest.
    pub(super) const BYTES: usize = 4 + 8 + CERTIFICATE_BYTES;

    pub(super) fn encode(&self, version: LinkVersion) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Shown::BYTES);
        bytes.extend_from_slice(&self.newest.to_be_bytes());
        if version == LinkVersion::Newest {
            bytes.extend_from_slice(&self.time.to_be_bytes());
        }
        bytes.extend_from_slice(&self.certificate);
        bytes
    }

    pub(super) fn decode(version: LinkVersion, bytes: &[u8]) -> Option<Shown> {
        let (newest, bytes) = bytes.split_first_chunk::<4>()?;
        let (time, certificate) = match version {
            LinkVersion::Earlier => (&[0; 8], bytes),
            LinkVersion::Newest => bytes.split_first_chunk::<8>()?,
        };
        (certificate.len() <= CERTIFICATE_BYTES).then(|| Shown {
            newest: u32::from_be_bytes(*newest),
            time: u64::from_be_bytes(*time),
            certificate: certificate.to_vec(),
        })
    }
}

/// The epoch of a session that `initiator` begins with `responder`, of which each has said its
/// newest. None past the last number.
pub(super) fn next_epoch(
    newest: (u32, u32),
    initiator: &MemberId,
    responder: &MemberId,
) -> Option<u32> {
    let next = newest.0.max(newest.1).checked_add(1)?;
    let wanted = u32::from(initiator > responder);
    next.checked_add(u32::from(next % 2 != wanted))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_survives_a_round_trip(newest: u32, time: u64, certificate in proptest::collection::vec(any::<u8>(), 0..CERTIFICATE_BYTES)) {
            let shown = Shown { newest, time, certificate };
            let newest = LinkVersion::Newest;
            prop_assert_eq!(Shown::decode(newest, &shown.encode(newest)), Some(shown.clone()));
            let earlier = LinkVersion::Earlier;
            let timeless = Shown { time: 0, ..shown };
            prop_assert_eq!(Shown::decode(earlier, &timeless.encode(earlier)), Some(timeless));
        }

        #[test]
        fn epochs_rise_and_those_of_two_beginners_differ(a in 0..u32::MAX - 2, b in 0..u32::MAX - 2) {
            let (low, high) = (MemberId::new([1; 32]), MemberId::new([2; 32]));
            let first = next_epoch((a, b), &low, &high).unwrap();
            let second = next_epoch((b, a), &high, &low).unwrap();
            prop_assert!(first > a.max(b) && second > a.max(b));
            prop_assert_ne!(first, second);
        }
    }

    #[test]
    fn past_the_last_epoch_there_is_none() {
        let (low, high) = (MemberId::new([1; 32]), MemberId::new([2; 32]));
        assert_eq!(next_epoch((u32::MAX, 0), &low, &high), None);
        assert_eq!(Shown::decode(LinkVersion::Newest, &[0; 11]), None);
        assert_eq!(
            Shown::decode(LinkVersion::Newest, &[0; Shown::BYTES + 1]),
            None
        );
    }
}
