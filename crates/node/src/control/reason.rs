//! Why a transfer is not faster: the controller's word, and the one that programs get.

use super::message::LimitedBy;

/// What programs are told.
pub(crate) fn limited_by(reason: ringway_dtl::LimitedBy) -> LimitedBy {
    use ringway_dtl::LimitedBy as Known;
    match reason {
        Known::SlowStart => LimitedBy::SlowStart,
        Known::Application => LimitedBy::Application,
        Known::Yielding => LimitedBy::Yielding,
        Known::Path => LimitedBy::Path,
        Known::Loss => LimitedBy::Loss,
        Known::Growth => LimitedBy::Growth,
        Known::Capped => LimitedBy::Capped,
        Known::BehindOthers => LimitedBy::BehindOthers,
        Known::Receiver => LimitedBy::Receiver,
        Known::FlowControl => LimitedBy::FlowControl,
        Known::Unanswered => LimitedBy::Unanswered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both crates have their own type, as neither may depend on the other.
    #[test]
    fn reasons_keep_their_words() {
        let known = ringway_dtl::LimitedBy::ALL;
        let told = known.map(|reason| limited_by(reason).word());
        assert_eq!(told, known.map(ringway_dtl::LimitedBy::word));
        assert_eq!(told, LimitedBy::ALL.map(LimitedBy::word));
    }
}
