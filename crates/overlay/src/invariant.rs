//! Zave's invariant, as pure functions on snapshots of all live members at one moment.
//!
//! What holds when, if no more members die at once than the preconditions allow:
//!
//! - **Forming**, from the first member on: [`check_structure`]. Every list is ordered, without
//!   duplicates and without its own member; every member has a live successor; the best (first
//!   live) successors form exactly one ring, in order of keys; every other member's path of best
//!   successors reaches it. The precondition is that a death leaves every member a live successor,
//!   and that the first member, or another principal, lives.
//! - **After**, from the moment on at which there are r + 1 principals: [`check_full`], which is
//!   the structure and r + 1 principals. A principal is a member that no other member's list skips.
//!   The precondition is that a death leaves every member a live successor and r + 1 principals,
//!   and that a member declared dead is dead.
//! - **At rest**, some rounds after the last change: [`check_ideal`]. Every list and predecessor is
//!   exact.
//!
//! Source: Zave, "Reasoning about Identifier Spaces: How to Make Chord Correct", §V.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Membership, Snapshot};
use crate::key::{RingKey, between};

/// What is wrong with a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A successor list does not go clockwise once.
    #[error("the successor list of {member:?} is not in order: {successors:?}")]
    Disordered {
        /// Whose list.
        member: RingKey,
        /// The list.
        successors: Vec<RingKey>,
    },
    /// A member has successors, and all are dead.
    #[error("every successor of {member:?} is dead: {successors:?}")]
    NoLiveSuccessor {
        /// Whose list.
        member: RingKey,
        /// The list.
        successors: Vec<RingKey>,
    },
    /// Best successors form more than one ring.
    #[error("there are {} rings, with {rings:?}", rings.len())]
    SeveralRings {
        /// The least member of each ring.
        rings: Vec<RingKey>,
    },
    /// The ring goes round the keys more than once.
    #[error("the ring is not in order: it is {ring:?}")]
    DisorderedRing {
        /// The ring, from its least member on.
        ring: Vec<RingKey>,
    },
    /// Too few members are skipped by no other.
    #[error("only {found} principals of {needed}: {principals:?}")]
    TooFewPrincipals {
        /// How many there are.
        found: usize,
        /// r + 1.
        needed: usize,
        /// Which.
        principals: Vec<RingKey>,
    },
    /// At rest, a successor list is not the exact one.
    #[error("the successors of {member:?} are {successors:?}, not {exact:?}")]
    NotIdeal {
        /// Whose list.
        member: RingKey,
        /// The list.
        successors: Vec<RingKey>,
        /// What it should be.
        exact: Vec<RingKey>,
    },
    /// At rest, a predecessor is not the exact one.
    #[error("the predecessor of {member:?} is {predecessor:?}, not {exact:?}")]
    WrongPredecessor {
        /// Whose predecessor.
        member: RingKey,
        /// What it is.
        predecessor: Option<RingKey>,
        /// What it should be.
        exact: Option<RingKey>,
    },
}

/// Checks what holds from the first member on. Snapshots of non-members are passed over.
///
/// # Errors
///
/// The first violation found.
pub fn check_structure(live: &[Snapshot]) -> Result<(), Violation> {
    let members = members(live);
    let mut best = BTreeMap::new();
    for (key, snapshot) in &members {
        check_order(snapshot)?;
        best.insert(**key, best_successor(&members, snapshot)?);
    }
    check_one_ring(&best)
}

/// Checks what holds once there have been r + 1 principals: the structure and r + 1 principals.
///
/// # Errors
///
/// The first violation found.
pub fn check_full(live: &[Snapshot], r: usize) -> Result<(), Violation> {
    check_structure(live)?;
    let principals = principals(live);
    let needed = r.saturating_add(1);
    if principals.len() < needed {
        let found = principals.len();
        return Err(Violation::TooFewPrincipals {
            found,
            needed,
            principals,
        });
    }
    Ok(())
}

/// Checks what holds at rest: each member has the next min(r, members − 1) as successors, and the
/// one before it as predecessor.
///
/// # Errors
///
/// The first violation found.
pub fn check_ideal(live: &[Snapshot], r: usize) -> Result<(), Violation> {
    let members = members(live);
    let keys: Vec<RingKey> = members.keys().map(|key| **key).collect();
    for (place, snapshot) in members.values().enumerate() {
        let others = || {
            keys.iter()
                .cycle()
                .skip(place + 1)
                .take(keys.len() - 1)
                .copied()
        };
        let exact: Vec<RingKey> = others().take(r).collect();
        if snapshot.successors != exact {
            let (member, successors) = (snapshot.key, snapshot.successors.clone());
            return Err(Violation::NotIdeal {
                member,
                successors,
                exact,
            });
        }
        let exact = others().last();
        if snapshot.predecessor != exact {
            let (member, predecessor) = (snapshot.key, snapshot.predecessor);
            return Err(Violation::WrongPredecessor {
                member,
                predecessor,
                exact,
            });
        }
    }
    Ok(())
}

/// The members that no other skips: no member has two neighbours in its list, itself counted as the
/// first, with the principal strictly between them. An empty list is that of a member that is its
/// own successor: it skips all others.
#[must_use]
pub fn principals(live: &[Snapshot]) -> Vec<RingKey> {
    let members = members(live);
    let keys: Vec<RingKey> = members.keys().map(|key| **key).collect();
    let mut skipped: BTreeSet<RingKey> = BTreeSet::new();
    for snapshot in members.values() {
        let list = match snapshot.successors.as_slice() {
            [] => std::slice::from_ref(&snapshot.key),
            list => list,
        };
        for (from, to) in std::iter::once(&snapshot.key).chain(list).zip(list) {
            let start = keys.partition_point(|key| key <= from);
            let (before, after) = keys.split_at(start);
            let clockwise = after.iter().chain(before);
            skipped.extend(clockwise.take_while(|key| between(from, key, to)));
        }
    }
    keys.into_iter()
        .filter(|key| !skipped.contains(key))
        .collect()
}

/// The live member that owns `target`: the one at it, or else the next clockwise.
#[must_use]
pub fn owner(live: &[Snapshot], target: &RingKey) -> Option<RingKey> {
    let keys = members(live);
    let at_or_after = keys.range::<RingKey, _>(target..).next();
    at_or_after
        .or_else(|| keys.iter().next())
        .map(|(key, _)| **key)
}

fn members(live: &[Snapshot]) -> BTreeMap<&RingKey, &Snapshot> {
    let members = live
        .iter()
        .filter(|snapshot| snapshot.state == Membership::Member);
    members.map(|snapshot| (&snapshot.key, snapshot)).collect()
}

/// Checks the one list: it goes clockwise once. That holds whatever other members say.
///
/// # Errors
///
/// When it does not.
pub fn check_order(snapshot: &Snapshot) -> Result<(), Violation> {
    let mut after = &snapshot.key;
    for key in &snapshot.successors {
        if !between(after, key, &snapshot.key) {
            let (member, successors) = (snapshot.key, snapshot.successors.clone());
            return Err(Violation::Disordered { member, successors });
        }
        after = key;
    }
    Ok(())
}

fn best_successor(
    members: &BTreeMap<&RingKey, &Snapshot>,
    snapshot: &Snapshot,
) -> Result<RingKey, Violation> {
    let live = snapshot
        .successors
        .iter()
        .find(|key| members.contains_key(key));
    match live {
        Some(key) => Ok(*key),
        // A ring of one: the member is its own successor.
        None if snapshot.successors.is_empty() => Ok(snapshot.key),
        None => {
            let (member, successors) = (snapshot.key, snapshot.successors.clone());
            Err(Violation::NoLiveSuccessor { member, successors })
        }
    }
}

/// Every path along `best` must end in one and the same ring, which goes round the keys once.
fn check_one_ring(best: &BTreeMap<RingKey, RingKey>) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    let mut rings: Vec<Vec<RingKey>> = Vec::new();
    for start in best.keys() {
        let mut path = Vec::new();
        let mut here = *start;
        while seen.insert(here) {
            path.push(here);
            here = best.get(&here).copied().unwrap_or(here);
        }
        if let Some(entry) = path.iter().position(|key| *key == here) {
            rings.push(path.split_off(entry));
        }
    }
    for ring in &mut rings {
        let least = ring
            .iter()
            .enumerate()
            .min_by_key(|(_, key)| **key)
            .map_or(0, |(i, _)| i);
        ring.rotate_left(least);
    }
    match rings.as_slice() {
        [] => Ok(()),
        [ring] if ring.is_sorted() => Ok(()),
        [ring] => Err(Violation::DisorderedRing { ring: ring.clone() }),
        several => {
            let rings = several
                .iter()
                .filter_map(|ring| ring.first().copied())
                .collect();
            Err(Violation::SeveralRings { rings })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> RingKey {
        let mut bytes = [0; 32];
        bytes[0] = n;
        RingKey::from_bytes(bytes)
    }

    fn member(n: u8, predecessor: u8, successors: &[u8]) -> Snapshot {
        Snapshot {
            key: key(n),
            state: Membership::Member,
            predecessor: Some(key(predecessor)),
            successors: successors.iter().map(|n| key(*n)).collect(),
        }
    }

    fn five() -> Vec<Snapshot> {
        vec![
            member(1, 5, &[2, 3, 4]),
            member(2, 1, &[3, 4, 5]),
            member(3, 2, &[4, 5, 1]),
            member(4, 3, &[5, 1, 2]),
            member(5, 4, &[1, 2, 3]),
        ]
    }

    #[test]
    fn an_exact_ring_passes_everything() {
        assert_eq!(check_full(&five(), 3), Ok(()));
        assert_eq!(check_ideal(&five(), 3), Ok(()));
        assert_eq!(principals(&five()).len(), 5);
        assert_eq!(owner(&five(), &key(3)), Some(key(3)));
        assert_eq!(owner(&five(), &RingKey::MAX), Some(key(1)));
    }

    #[test]
    fn a_lone_member_and_its_first_appendage_pass() {
        let mut alone = member(3, 3, &[]);
        alone.predecessor = None;
        assert_eq!(check_structure(std::slice::from_ref(&alone)), Ok(()));
        assert_eq!(check_structure(&[alone, member(9, 3, &[3])]), Ok(()));
    }

    #[test]
    fn a_list_out_of_order_is_found() {
        for bad in [&[4_u8, 3][..], &[3, 3], &[3, 2], &[3, 1, 4]] {
            let mut ring = five();
            ring[1] = member(2, 1, bad);
            assert!(
                matches!(check_structure(&ring), Err(Violation::Disordered { .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_member_with_dead_successors_only_is_found() {
        let mut ring = five();
        ring.truncate(4);
        ring[3] = member(4, 3, &[5]);
        let expected = Violation::NoLiveSuccessor {
            member: key(4),
            successors: vec![key(5)],
        };
        assert_eq!(check_structure(&ring), Err(expected));
    }

    #[test]
    fn two_rings_are_found() {
        let ring = [
            member(1, 2, &[2]),
            member(2, 1, &[1]),
            member(5, 6, &[6]),
            member(6, 5, &[5]),
        ];
        let expected = Violation::SeveralRings {
            rings: vec![key(1), key(5)],
        };
        assert_eq!(check_structure(&ring), Err(expected));
    }

    #[test]
    fn a_ring_that_winds_twice_is_found() {
        let ring = [
            member(1, 4, &[3]),
            member(2, 3, &[4]),
            member(3, 1, &[2]),
            member(4, 2, &[1]),
        ];
        let error = check_structure(&ring).unwrap_err();
        assert!(matches!(error, Violation::DisorderedRing { .. }), "{error}");
    }

    #[test]
    fn skipped_members_are_no_principals() {
        let mut ring = five();
        ring[0] = member(1, 5, &[3, 4, 5]);
        assert_eq!(principals(&ring), [key(1), key(3), key(4), key(5)]);
        assert_eq!(check_full(&ring, 3), Ok(()));
        ring[4] = member(5, 4, &[2, 3, 4]);
        assert!(matches!(
            check_full(&ring, 3),
            Err(Violation::TooFewPrincipals { found: 3, .. })
        ));
        assert!(matches!(
            check_ideal(&ring, 3),
            Err(Violation::NotIdeal { .. })
        ));
    }

    #[test]
    fn a_ring_of_one_skips_unknown_members() {
        let mut alone = member(1, 3, &[]);
        let others = [member(2, 1, &[3, 1]), member(3, 1, &[1])];
        let ring = |first: &Snapshot| [std::slice::from_ref(first), &others].concat();
        assert_eq!(principals(&ring(&alone)), [key(1)]);
        alone.successors = vec![key(3)];
        assert_eq!(principals(&ring(&alone)), [key(1), key(3)]);
    }

    #[test]
    fn a_wrong_predecessor_is_not_ideal() {
        let mut ring = five();
        ring[2].predecessor = Some(key(1));
        assert!(matches!(
            check_ideal(&ring, 3),
            Err(Violation::WrongPredecessor { .. })
        ));
    }
}
