//! What is blocked stays blocked: every program of the live matrix tries again for longer
//! than it is refused without a look.
//!
//! All of them do so beside each other: it takes about as long as one.

use super::beside::{Tested, all};
use super::both::on_both;
use super::{clients, directconnect, edonkey, files, irc, speakers, torrents, xmpp};

#[test]
fn torrents_that_are_blocked_stay_blocked() -> Tested {
    let mut jobs = clients::all_blocked();
    jobs.extend(torrents::all_blocked());
    all(jobs)
}

#[test]
fn all_others_that_are_blocked_stay_blocked() -> Tested {
    let mut jobs = vec![on_both("blocked XMPP", xmpp::blocked)];
    jobs.extend(directconnect::all_blocked());
    jobs.extend(edonkey::all_blocked());
    jobs.extend(files::all_blocked());
    jobs.extend(irc::all_blocked());
    jobs.extend(speakers::all_blocked());
    all(jobs)
}
