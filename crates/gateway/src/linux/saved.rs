//! Our rules in what `iptables-save -t mangle` prints, and what takes them out.

use super::rules::{CHAINS, CROSSING, HOOK, MARK};

/// The mark of packets that come back with a verdict, of what iptables-save printed.
pub(super) fn returned_mark(saved: &str) -> Option<&str> {
    let jump = format!(" -j {MARK}");
    saved.lines().find_map(|line| {
        let rule = line.strip_prefix("-A FORWARD -m mark --mark ")?;
        rule.strip_suffix(jump.as_str())
    })
}

/// Our rules, with whatever stands before the first and behind the last of them in FORWARD, of what
/// iptables-save printed.
pub(super) fn standing(saved: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut met, mut passed) = (false, false);
    for rule in saved.lines().filter_map(|line| line.strip_prefix("-A ")) {
        let (chain, rest) = rule.split_once(' ').unwrap_or_default();
        let ours = CHAINS.contains(&chain);
        let to = rest.rsplit_once("-j ").map(|(_, to)| to);
        let jump = to.is_some_and(|to| CHAINS.contains(&to));
        let hook = chain == HOOK;
        let outside = hook && (!met || passed);
        met |= hook && jump;
        passed |= hook && to == Some(CROSSING);
        if ours || jump || outside {
            lines.push(rule.to_owned());
        }
    }
    lines
}

/// Whether what stands is all of at least so many rules of ours, with no others before and behind
/// them.
pub(super) fn is_whole(standing: &[String], least: usize) -> bool {
    let ours = |rule: &String| {
        let (chain, rest) = rule.split_once(' ').unwrap_or_default();
        let to = rest.rsplit_once("-j ").map(|(_, to)| to);
        CHAINS.contains(&chain) || to.is_some_and(|to| CHAINS.contains(&to))
    };
    standing.len() >= least && standing.iter().all(ours)
}

/// Commands that remove the jumps to our chains from all others, of what iptables-save printed.
pub(super) fn jumps(saved: &str) -> Vec<String> {
    let to_ours = |rule: &&str| {
        let (chain, rule) = rule.split_once(' ').unwrap_or_default();
        let to = rule.rsplit_once("-j ").map(|(_, to)| to);
        !CHAINS.contains(&chain) && to.is_some_and(|to| CHAINS.contains(&to))
    };
    saved
        .lines()
        .filter_map(|line| line.strip_prefix("-A "))
        .filter(to_ours)
        .map(|line| format!("-D {line}"))
        .collect()
}

/// All that removes our chains and jumps; empty where there are none.
pub(super) fn removal(saved: &str) -> String {
    let chains: Vec<&str> = CHAINS
        .into_iter()
        .filter(|chain| saved.contains(&format!("\n:{chain} ")))
        .collect();
    if chains.is_empty() {
        return String::new();
    }
    let mut lines = vec!["*mangle".to_owned()];
    lines.extend(jumps(saved));
    lines.extend(chains.iter().map(|chain| format!("-F {chain}")));
    lines.extend(chains.iter().map(|chain| format!("-X {chain}")));
    lines.push("COMMIT\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{is_whole, jumps, removal, returned_mark, standing};

    #[test]
    fn foreign_changes_of_our_rules_are_seen() {
        let saved = |before: &str, chain: &str, behind: &str| {
            format!(
                "*mangle\n:FORWARD ACCEPT [7:0]\n:RINGWAY-MARK - [0:0]\n-A INPUT -j ACCEPT\n{before}\
                 -A FORWARD -m mark --mark 0x1/0x1 -j RINGWAY-MARK\n{behind}-A FORWARD -j RINGWAY-CROSSING\n\
                 {chain}-A POSTROUTING -j OTHER\nCOMMIT\n"
            )
        };
        let rule = "-A RINGWAY-MARK -j ACCEPT\n";
        assert_eq!(returned_mark(&saved("", rule, "")), Some("0x1/0x1"));
        assert_eq!(
            returned_mark("*mangle\n-A FORWARD -j RINGWAY-MARK\nCOMMIT\n"),
            None
        );
        let laid = standing(&saved("", rule, ""));
        assert_eq!(laid.len(), 3);
        let other = "-A FORWARD -j MARK --set-mark 0x1\n";
        assert_eq!(standing(&saved("", rule, other)), laid);
        assert_ne!(standing(&saved(other, rule, "")), laid);
        let behind = format!("{rule}{other}");
        assert_ne!(standing(&saved("", &behind, "")), laid);
        assert!(is_whole(&laid, 3) && !is_whole(&laid, 4));
        for changed in [saved(other, rule, ""), saved("", &behind, "")] {
            assert!(!is_whole(&standing(&changed), 3), "{changed}");
        }
        assert_ne!(standing(&saved("", "", "")), laid);
        assert_eq!(
            standing("*mangle\n:FORWARD ACCEPT [0:0]\nCOMMIT\n").len(),
            0
        );
    }

    #[test]
    fn only_our_own_lines_are_removed() {
        let saved = "# Generated\n*mangle\n:FORWARD ACCEPT [0:0]\n:RINGWAY - [0:0]\n:RINGWAY-CROSSING - [0:0]\n\
                     :RINGWAY-MARK - [0:0]\n-A FORWARD -j TCPMSS --clamp-mss-to-pmtu\n-A FORWARD -i lan0 -o wan0 -j RINGWAY\n\
                     -A FORWARD -j RINGWAY-CROSSING\n-A FORWARD -j RINGWAYS\n\
                     -A POSTROUTING -o wan0 -j RINGWAY-MARK\n-A OTHER -j RINGWAY\n-A RINGWAY-CROSSING -i lan0 -o wan0 -j RINGWAY\nCOMMIT\n";
        assert_eq!(
            jumps(saved),
            [
                "-D FORWARD -i lan0 -o wan0 -j RINGWAY",
                "-D FORWARD -j RINGWAY-CROSSING",
                "-D POSTROUTING -o wan0 -j RINGWAY-MARK",
                "-D OTHER -j RINGWAY"
            ]
        );
        let text = removal(saved);
        assert!(
            text.ends_with(
                "-F RINGWAY-CROSSING\n-F RINGWAY\n-F RINGWAY-MARK\n\
                 -X RINGWAY-CROSSING\n-X RINGWAY\n-X RINGWAY-MARK\nCOMMIT\n"
            ),
            "{text}"
        );
        assert!(!text.contains("TCPMSS"));
        assert_eq!(removal("*mangle\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"), "");
    }
}
