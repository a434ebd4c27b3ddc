//! Messages about tallies go to routers of link version 3 only: those of release 0.2 do not know
//! them, and would seem to be silent.

use ringway_overlay::{Message, RingKey};

use super::Core;
use crate::link::LinkVersion;

impl Core {
    /// Whether a message is not to be sent as it is. A router of release 0.2 need not be asked: it
    /// keeps no counts. Where there is no link there is one soon, and the overlay asks again. One
    /// whose certificate is not at hand is sent its first message all the same: release 0.2 counts
    /// it as malformed, and by the second the certificate is there.
    pub(super) fn keeps_back(&mut self, to: RingKey, message: &Message) -> bool {
        if !message.is_of_tallies() {
            return false;
        }
        let Some(certificate) = self.directory.cached_router(&to) else {
            return false;
        };
        let version = self.links.versions().of(&certificate.member());
        match version {
            Some(LinkVersion::Newest) => return false,
            // Answered in its place, or it would seem to be silent and lose its place here.
            Some(LinkVersion::Earlier) => {
                let answer = message.answer_without_tallies();
                if let (Some(chord), Some(answer)) = (&mut self.chord, answer) {
                    chord.handle_message(self.now, to, answer);
                }
            }
            None => {
                self.link_to(&certificate);
            }
        }
        true
    }
}
