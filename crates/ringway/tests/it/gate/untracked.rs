//! Connections that the machine does not track, by a rule of its owner: no mark stays with them, so that each packet is asked about.

use super::beside::Tested;
use super::border::{Border, SERVER};
use super::both::GatePath;
use super::kernel::{HELLO, answered, echo};

const BLOCK: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
const UNTRACKED: &str = "iptables --table raw --append PREROUTING --protocol tcp --jump NOTRACK";

#[test]
fn torrents_that_are_not_tracked_are_blocked_and_pages_come() -> Tested {
    for path in [GatePath::User, GatePath::Kernel] {
        let Some(mut border) = Border::on("connections that are not tracked", path) else {
            continue;
        };
        let words: Vec<&str> = UNTRACKED.split(' ').collect();
        border.gateway.check(&words)?;
        border.up(BLOCK, &["--enforce"]);
        let [page, torrent] = [80, 6881].map(|port| format!("{SERVER}:{port}"));
        for at in [&page, &torrent] {
            echo(&border, at)?;
        }
        answered(&border, &page, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true)?;
        answered(&border, &torrent, HELLO, false)?;
    }
    Ok(())
}
