//! Our rules in what `iptables-save -t mangle` prints, and what takes them out.

use super::class_rules::is_of_class;
use super::rules::{CHAINS, CROSSING, HOOK, MARK};
use super::tool::{Tool, ToolError};

/// Whether a chain is ours.
fn is_ours(chain: &str) -> bool {
    CHAINS.contains(&chain) || is_of_class(chain)
}

/// What the tool lists of the table. A table with rules of others that it cannot write down it
/// does not list at all, without an error: taken for an empty one, it would get our rules again
/// and again, and they could not be taken out.
pub(super) fn list(save: Tool) -> Result<String, ToolError> {
    let saved = save.run(&["-t", "mangle"], "")?;
    match saved
        .lines()
        .find(|line| line.contains("' is incompatible"))
    {
        Some(line) => Err(ToolError::Refused(
            save.name,
            format!(
                "{line} (somebody's rules there are not of iptables: let them be in a table of their own)"
            ),
        )),
        None => Ok(saved),
    }
}

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
        let ours = is_ours(chain);
        let to = rest.rsplit_once("-j ").map(|(_, to)| to);
        let jump = to.is_some_and(is_ours);
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
        is_ours(chain) || to.is_some_and(is_ours)
    };
    standing.len() >= least && standing.iter().all(ours)
}

/// Commands that remove earlier jumps to our chains, and chains of classes that are not `wanted`:
/// nothing jumps to them once the chain of all classes is emptied.
pub(super) fn stale(saved: &str, wanted: &[String]) -> Vec<String> {
    let mut stale = jumps(saved);
    let gone = |chain: &&str| is_of_class(chain) && wanted.iter().all(|new| new != chain);
    let gone = chains(saved).into_iter().filter(gone);
    stale.extend(gone.flat_map(|chain| [format!("-F {chain}"), format!("-X {chain}")]));
    stale
}

/// Commands that remove the jumps to our chains from all others, of what iptables-save printed.
fn jumps(saved: &str) -> Vec<String> {
    let to_ours = |rule: &&str| {
        let (chain, rule) = rule.split_once(' ').unwrap_or_default();
        let to = rule.rsplit_once("-j ").map(|(_, to)| to);
        !is_ours(chain) && to.is_some_and(is_ours)
    };
    saved
        .lines()
        .filter_map(|line| line.strip_prefix("-A "))
        .filter(to_ours)
        .map(|line| format!("-D {line}"))
        .collect()
}

/// Our chains that there are.
fn chains(saved: &str) -> Vec<&str> {
    let names = saved.lines().filter_map(|line| line.strip_prefix(':'));
    let names = names.filter_map(|line| line.split(' ').next());
    names.filter(|name| is_ours(name)).collect()
}

/// All that removes our chains and jumps; empty where there are none.
pub(super) fn removal(saved: &str) -> String {
    let chains = chains(saved);
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
    use super::{is_whole, jumps, removal, returned_mark, stale, standing};

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
                     :RINGWAY-MARK - [0:0]\n:RINGWAY-CLASS-3 - [0:0]\n-A FORWARD -j TCPMSS --clamp-mss-to-pmtu\n-A FORWARD -i lan0 -o wan0 -j RINGWAY\n\
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
        let left = stale(saved, &["RINGWAY-CLASS-0".to_owned()]);
        assert_eq!(left[4..], ["-F RINGWAY-CLASS-3", "-X RINGWAY-CLASS-3"]);
        let text = removal(saved);
        assert!(
            text.ends_with(
                "-F RINGWAY\n-F RINGWAY-CROSSING\n-F RINGWAY-MARK\n-F RINGWAY-CLASS-3\n\
                 -X RINGWAY\n-X RINGWAY-CROSSING\n-X RINGWAY-MARK\n-X RINGWAY-CLASS-3\nCOMMIT\n"
            ),
            "{text}"
        );
        assert!(!text.contains("TCPMSS"));
        assert_eq!(removal("*mangle\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"), "");
    }
}
