//! Other programs that change the packet filter's rules while the gateway is at work.

use super::beside::{Tested, until, wrong};
use super::border::Border;
use super::both::on_each;
use super::scans::{fetch, serve};
use crate::not_tested;

const POLICY: &str = "[[rule]]\nname = \"no-torrents\"\napp = \"bittorrent\"\naction = \"block\"\n";
/// A gateway that looks after its rules more often than the usual ten seconds.
const OFTEN: [&str; 3] = ["--enforce", "--rules-look", "2s"];
const PORT: u16 = 8_001;
const BODY: &[u8] = b"what arrives though somebody has changed the rules";
/// What a firewall does that reloads its rules.
const FLUSH: &str = "for t in iptables ip6tables; do $t -t mangle -F; $t -t mangle -X; done";
/// A rule before all others that leaves nothing of marks: what comes back from the queue with a
/// verdict is queued again.
const REMARK: &str = "iptables -t mangle -I FORWARD -j MARK --set-mark 0x1";

/// The rules are what they were, and were put back so often.
fn until_put_back(border: &Border, (before, times): (&str, u64)) -> Tested {
    until(
        "the rules do not come back",
        || border.traces(),
        || border.traces() == before && border.status()["rules_put_back"] == times,
    )
}

/// Another program removes them, or puts its own before them.
#[test]
fn displaced_rules_are_put_back() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("another program's rules", path) else {
            return Ok(());
        };
        serve(&border, PORT, BODY.to_vec(), true);
        border.up(POLICY, &OFTEN);
        let before = border.traces();
        border.gateway.check(&["sh", "-c", FLUSH])?;
        if border.traces() == before && border.status()["rules_put_back"] == 0 {
            return wrong("nothing was taken out");
        }
        until_put_back(&border, (&before, 1))?;
        border.gateway.check(&["sh", "-c", REMARK])?;
        until("nothing arrives", String::new, || {
            fetch(&border, PORT, "a.bin") == BODY
        })?;
        until_put_back(&border, (&before, 2))?;
        // The other's rule is left, behind ours.
        let rules = border.gateway.check(&["iptables-save", "-t", "mangle"])?;
        let place = |part: &str| rules.find(part);
        match (place("-j RINGWAY-MARK"), place("-j MARK --set-xmark 0x1/")) {
            (Some(ours), Some(theirs)) if ours < theirs => Ok(()),
            _ => wrong(rules),
        }
    })
}

/// A table of its own, routes and their rules bring connections here that end here; classes are
/// trees at interfaces.
const PLACES: &str = "[gateway]\nterminate = [8001]\n\n[classes.slow]\nrate = \"1 Mbit/s\"\n\n[[rule]]\nname = \"little\"\n\
                      app = \"bittorrent\"\naction = \"shape\"\nclass = \"slow\"\n";

#[test]
fn removed_redirections_and_classes_are_put_back() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("another program's ways", path) else {
            return Ok(());
        };
        border.up(PLACES, &OFTEN);
        let inside = &border.inside;
        // The kernel gives leaves other numbers each time.
        let show = format!(
            "iptables-save -t mangle | grep -c RINGWAY; nft list tables | grep ringway; ip rule show; \
             ip route show table 31249 2> /dev/null; tc class show dev {inside} | grep -v tbf | sed 's/leaf .*prio/prio/'; true"
        );
        let shown = || border.gateway.check(&["sh", "-c", &show]).unwrap();
        let before = shown();
        let ways = [
            "nft flush ruleset",
            "ip rule del lookup 31249; ip route flush table 31249",
            &format!("tc qdisc del dev {inside} root"),
        ];
        for (times, taken) in (1_u64..).zip(ways) {
            border.gateway.check(&["sh", "-c", taken])?;
            // On a busy machine it is back before one looks.
            if shown() == before && border.status()["rules_put_back"] == times - 1 {
                return wrong(format!("nothing was taken out by `{taken}`"));
            }
            until("they do not come back", shown, || {
                shown() == before && border.status()["rules_put_back"] == times
            })?;
        }
        // What IPv6 has of it goes with IPv6, and the rest stays.
        let off = ["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"];
        border.gateway.check(&off)?;
        until("IPv6 is missed for ever", shown, || {
            shown() == before && border.status()["rules_put_back"] == 4
        })?;
        serve(&border, PORT, BODY.to_vec(), true);
        if fetch(&border, PORT, "a.bin") != BODY || border.status()["terminated"]["taken"] != 1 {
            return wrong(border.status().to_string());
        }
        Ok(())
    })
}

/// A rule that iptables cannot write down; with it, it lists nothing of the table, and calls that
/// no failure.
const FOREIGN: &str = "nft insert rule ip mangle FORWARD numgen random mod 4 == 1 continue";

#[test]
fn unlistable_table_is_reported_and_gets_no_duplicates() -> Tested {
    let test = "a table that iptables cannot list";
    let Some(mut border) = Border::new(test) else {
        return Ok(());
    };
    border.up(POLICY, &OFTEN);
    if border.gateway.check(&["sh", "-c", FOREIGN]).is_err() {
        not_tested(&format!("{test}: iptables is none of nftables here"));
        return Ok(());
    }
    until(
        "nothing is told",
        || border.status().to_string(),
        || {
            let told = border.status()["rules_not_looked_after"].to_string();
            told.contains("incompatible")
        },
    )?;
    let list = ["nft", "list", "chain", "ip", "mangle", "FORWARD"];
    let rules = border.gateway.check(&list)?;
    match rules.matches("jump RINGWAY-CROSSING").count() {
        1 => Ok(()),
        _ => wrong(rules),
    }
}

/// The rules name interfaces: one that is called otherwise now is let through by them.
#[test]
fn renamed_interface_is_reported_until_it_is_back() -> Tested {
    on_each(|path| {
        let Some(mut border) = Border::on("a renamed interface", path) else {
            return Ok(());
        };
        border.up(POLICY, &OFTEN);
        let told = |border: &Border| border.status()["rules_not_looked_after"].to_string();
        let rename = |from: &str, to: &str| -> Tested {
            for words in [
                ["ip", "link", "set", "dev", from, "down"].as_slice(),
                &["ip", "link", "set", "dev", from, "name", to],
                &["ip", "link", "set", "dev", to, "up"],
            ] {
                border.gateway.check(words)?;
            }
            Ok(())
        };
        rename(&border.inside, "elsewhere0")?;
        let name = format!("no interface `{}`", border.inside);
        until(
            "nobody says so",
            || told(&border),
            || told(&border).contains(&name),
        )?;
        rename("elsewhere0", &border.inside)?;
        until(
            "it is still said",
            || told(&border),
            || told(&border) == "null",
        )
    })
}
