//! Which members this one knows of, and which of them may be meant by a name that is none.
//!
//! The ring has no list of its members. What is gathered here are certificates that this member has
//! seen, its links and transfers, and the owner's list where the owner lets members have it.

use std::collections::BTreeMap;

use super::message::KnownMember;
use super::server::Services;
use crate::certificate::Certificate;
use crate::directory::DirectoryError;
use crate::limits::{KNOWN_MEMBERS, SUGGESTED_NAMES};
use crate::versions::{LINK, RELEASE};

/// Edits that a name may be away from one that is meant.
const EDITS: usize = 2;

impl Services {
    /// All members that are known here, by name. At most [`KNOWN_MEMBERS`].
    pub(super) async fn members(&self) -> Vec<KnownMember> {
        let mut known = BTreeMap::new();
        let listed = self.list.get(&self.own()).await;
        // What is sure comes first: a later source adds to it and says less.
        for certificate in self.directory.known_certificates() {
            note(
                &mut known,
                certificate.name().as_str(),
                "certificate",
                |member| {
                    describe(member, &certificate);
                },
            );
        }
        for (id, peer) in self.member.known_peers().await {
            let Some(certificate) = self.directory.cached(&id) else {
                continue;
            };
            note(&mut known, certificate.name().as_str(), "link", |member| {
                describe(member, &certificate);
                member.reachable = match (peer.linked, peer.failed) {
                    (true, _) => Some(true),
                    (false, true) => Some(false),
                    (false, false) => None,
                };
                member.address = peer.address;
                member.via = peer.via;
                member.heard = peer.heard;
                member.release = peer.release;
                member.link_version = peer.link_version;
            });
        }
        for transfer in self.transfers.list() {
            note(&mut known, &transfer.peer, "transfer", |_| {});
        }
        for entry in listed.iter() {
            note(&mut known, entry.name.as_str(), "owner", |member| {
                member.role = Some(entry.role.as_str().to_owned());
            });
        }
        let own = self.own();
        note(&mut known, own.name().as_str(), "certificate", |member| {
            describe(member, &own);
            member.this = true;
            member.reachable = Some(true);
            member.release = Some(RELEASE.to_owned());
            member.link_version = Some(LINK);
        });
        known.into_values().collect()
    }

    /// This member's certificate, as it is now.
    fn own(&self) -> Certificate {
        self.directory.own(&self.certificate)
    }

    /// As [`Directory::find`](crate::directory::Directory::find). Where the ring has no such member,
    /// those are named that may be meant.
    pub(super) async fn find(&self, peer: &str) -> Result<Certificate, DirectoryError> {
        match self.directory.find(peer).await {
            Err(DirectoryError::Absent(name, ring, _)) => {
                let known = self.members().await;
                let names = known.iter().map(|member| member.name.as_str());
                // One that has just joined may have come over a link meanwhile, before its name
                // stands in DNS.
                if names.clone().any(|known| known == name) {
                    return self.directory.find(peer).await;
                }
                let meant = meant_by(&name, names);
                Err(DirectoryError::Absent(name, ring, in_words(&meant)))
            }
            found => found,
        }
    }
}

fn describe(member: &mut KnownMember, certificate: &Certificate) {
    member.member = Some(certificate.member().to_string());
    member.role = Some(certificate.role().as_str().to_owned());
}

/// Notes one more thing about the member with this name.
fn note(
    known: &mut BTreeMap<String, KnownMember>,
    name: &str,
    from: &str,
    change: impl FnOnce(&mut KnownMember),
) {
    if known.len() >= KNOWN_MEMBERS && !known.contains_key(name) {
        return;
    }
    let member = known.entry(name.to_owned()).or_default();
    name.clone_into(&mut member.name);
    if !member.known_from.iter().any(|known| known == from) {
        member.known_from.push(from.to_owned());
    }
    change(member);
}

/// The names that may be meant by `wrong`, the nearest first.
fn meant_by<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong = wrong.to_lowercase();
    let near = names.filter_map(|name| {
        let begins = wrong.len() > 1 && name.starts_with(&wrong);
        let edits = if begins { 1 } else { edits(&wrong, name) };
        // Of a name of two letters everything is two edits away.
        (edits <= EDITS && edits * 2 <= name.chars().count()).then_some((edits, name))
    });
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort_unstable();
    near.into_iter()
        .map(|(_, name)| name)
        .take(SUGGESTED_NAMES)
        .collect()
}

fn in_words(meant: &[&str]) -> String {
    let quoted: Vec<String> = meant.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "`ringway members` lists those that are known here".to_owned(),
        names => format!("did you mean {}?", names.join(" or ")),
    }
}

/// How many letters have to be added, removed, changed, or swapped with the next one.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Names have few letters; what is longer is no near one.
    if from.len().abs_diff(to.len()) > EDITS {
        return usize::MAX / 2;
    }
    // The last two rows of the table of distances between beginnings.
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let changed = at(&row, j) + usize::from(a != b);
            let mut least = changed.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let swapped = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_meant() {
        let names = || ["oslo", "lima", "alice", "bergen-1", "bergen-2", "x"].into_iter();
        assert_eq!(meant_by("olso", names()), ["oslo"]);
        assert_eq!(meant_by("Oslo", names()), ["oslo"]);
        assert_eq!(meant_by("alise", names()), ["alice"]);
        assert_eq!(meant_by("berg", names()), ["bergen-1", "bergen-2"]);
        assert_eq!(meant_by("quito", names()), [""; 0]);
        assert_eq!(meant_by("y", names()), [""; 0]);
        assert_eq!(edits("", ""), 0);
        assert_eq!(edits("ab", "ba"), 1);
    }

    #[test]
    fn bounds_of_what_is_known_hold() {
        let mut known = BTreeMap::new();
        for number in 0..KNOWN_MEMBERS + 5 {
            note(&mut known, &format!("m{number}"), "owner", |_| {});
        }
        assert_eq!(known.len(), KNOWN_MEMBERS);
        note(&mut known, "m1", "link", |member| member.this = true);
        assert_eq!(known["m1"].known_from, ["owner", "link"]);
    }
}
