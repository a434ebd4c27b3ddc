//! Classes of bandwidth for what every program of the live matrix sends: the rate comes within 5 %
//! of the class.
//!
//! What people say to each other has no rate that could be measured: of chat programs it is the
//! files.

use super::beside::{Tested, all};
use super::both::on_both;
use super::{classes, clients, directconnect, edonkey, files, irc, speakers, torrents, xmpp};

#[test]
fn torrents_get_the_rate_of_their_class() -> Tested {
    let mut jobs = clients::all_shaped();
    jobs.extend(torrents::all_shaped());
    all(jobs)
}

#[test]
fn other_files_get_the_rate_of_their_class() -> Tested {
    let mut jobs = vec![
        on_both("shaped eiskaltdcpp", directconnect::shaped),
        on_both("shaped curl", files::shaped),
        on_both("a shaped upload", classes::upload),
        on_both("shaped files over IRC", irc::shaped),
        on_both("shaped files over XMPP", xmpp::shaped),
    ];
    jobs.extend(edonkey::all_shaped());
    jobs.extend(speakers::all_shaped());
    all(jobs)
}
