//! The in-kernel path where the gateway translates addresses: at the border's interfaces the two
//! directions of a connection then have different ones.

use super::beside::Tested;
use super::border::{Border, SERVER};
use super::kernel::{BLOCK, KERNEL, border, echo, page_passes_and_torrent_is_refused};

/// Rules of the gateway's owner.
fn translate(border: &Border, rule: &str) -> Tested {
    let words = ["iptables", "--table", "nat", "--append"];
    let words: Vec<&str> = words.into_iter().chain(rule.split(' ')).collect();
    border.gateway.check(&words)?;
    Ok(())
}

#[test]
fn masqueraded_pages_pass_and_torrents_are_refused() -> Tested {
    let Some(mut border) = border("the in-kernel path and masquerading") else {
        return Ok(());
    };
    border.masquerade()?;
    border.up(BLOCK, &KERNEL);
    for port in [80, 6881] {
        echo(&border, &format!("{SERVER}:{port}"))?;
    }
    page_passes_and_torrent_is_refused(&border, SERVER)
}

#[test]
fn server_behind_another_address_is_refused_too() -> Tested {
    const OTHER: &str = "198.51.100.77";
    let Some(mut border) = border("the in-kernel path and another address of a server") else {
        return Ok(());
    };
    let rule = format!("PREROUTING --destination {OTHER} --jump DNAT --to-destination {SERVER}");
    translate(&border, &rule)?;
    border.up(BLOCK, &KERNEL);
    for port in [80, 6881] {
        echo(&border, &format!("{SERVER}:{port}"))?;
    }
    page_passes_and_torrent_is_refused(&border, OTHER)
}
