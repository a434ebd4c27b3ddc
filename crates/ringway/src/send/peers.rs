//! To whom something is sent: names, and patterns of names.

use std::collections::BTreeSet;

use ringway_node::control::KnownMember;
use ringway_terminal::Failure;

use crate::context::Context;
use crate::request;

/// Names that a refusal has room for.
const NEAR: usize = 5;

/// The members that `named` means, each once: names and ids as they are, and for a pattern all that
/// it fits of those that `ringway members` lists.
pub(super) async fn resolve(context: &Context, named: &[String]) -> Result<Vec<String>, Failure> {
    let mut known = Vec::new();
    if named.iter().any(|name| is_pattern(name)) {
        known = request::members(context).await?;
    }
    let mut peers = Vec::new();
    let mut seen = BTreeSet::new();
    for name in named {
        for peer in meant(name, &known)? {
            if seen.insert(peer.clone()) {
                peers.push(peer);
            }
        }
    }
    Ok(peers)
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

fn meant(name: &str, known: &[KnownMember]) -> Result<Vec<String>, Failure> {
    if !is_pattern(name) {
        return Ok(vec![name.to_owned()]);
    }
    let others = known.iter().filter(|member| !member.this);
    let others: Vec<&str> = others.map(|member| member.name.as_str()).collect();
    let wanted = name.to_lowercase();
    let fitting = others.iter().filter(|name| fits(&wanted, name));
    let fitting: Vec<String> = fitting.map(|name| (*name).to_owned()).collect();
    if fitting.is_empty() {
        return Err(Failure::usage(format_args!(
            "no member that is known here fits `{name}`{}",
            in_words(&near(&wanted, &others))
        )));
    }
    Ok(fitting)
}

fn in_words(near: &[&str]) -> String {
    if near.is_empty() {
        return ": `ringway members` lists those that are known here".to_owned();
    }
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "; known are {} (`ringway members` lists all)",
        quoted.join(", ")
    )
}

/// Names that begin as much like the pattern as any does.
fn near<'a>(pattern: &str, names: &[&'a str]) -> Vec<&'a str> {
    let same = |name: &str| {
        let pairs = pattern.chars().zip(name.chars());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let most = names.iter().map(|name| same(name)).max().unwrap_or(0);
    let near = names.iter().filter(|name| same(name) == most);
    near.copied().take(NEAR).collect()
}

/// Whether a name fits a pattern in which `*` is any text and `?` any letter. In steps at most the
/// product of both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The last star, and where what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || name.get(n) == Some(c) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    p = at + 1;
                    n = end + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> Vec<KnownMember> {
        let member = |name: &&str| KnownMember {
            name: (*name).to_owned(),
            this: *name == "own",
            ..KnownMember::default()
        };
        names.iter().map(member).collect()
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fit) in [
            ("lab-*", "lab-1", true),
            ("lab-*", "lab-", true),
            ("lab-*", "slab-1", false),
            ("*", "oslo", true),
            ("l?b-?", "lab-1", true),
            ("l?b-?", "lab-12", false),
            ("*a*b", "xaaxab", true),
            ("*a*b", "xaaxabc", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, name), fit, "{pattern} {name}");
        }
        let (pattern, name) = ("*a".repeat(40), "a".repeat(39));
        assert!(!fits(&pattern, &name));
    }

    #[test]
    fn pattern_means_all_others_that_fit() {
        let known = known(&["lab-1", "lab-2", "oslo", "own"]);
        assert_eq!(meant("LAB-*", &known).unwrap(), ["lab-1", "lab-2"]);
        assert_eq!(meant("*", &known).unwrap(), ["lab-1", "lab-2", "oslo"]);
        assert_eq!(meant("nowhere", &known).unwrap(), ["nowhere"]);
        let Err(Failure::Usage(text)) = meant("lap-*", &known) else {
            panic!("it fits nothing");
        };
        assert!(
            text.contains("`lab-1`, `lab-2`") && !text.contains("oslo"),
            "{text}"
        );
    }
}
