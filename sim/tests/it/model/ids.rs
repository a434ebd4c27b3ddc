//! Identifiers, successor lists and Zave's invariant in a form that is fast enough for millions of
//! states. The test below compares every judgement with `ringway_overlay::invariant`, so both say
//! the same.

/// A member: its place in the order of keys.
pub(super) type Id = u8;

/// Entries of a successor list.
pub(super) const R: usize = 2;

/// The most members of a model.
pub(super) const MOST: usize = 6;

/// A successor list, nearest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct List {
    len: u8,
    ids: [Id; R],
}

impl List {
    pub(super) fn of(ids: &[Id]) -> List {
        let mut list = List::default();
        ids.iter().for_each(|id| list.push(*id));
        list
    }

    fn push(&mut self, id: Id) {
        self.ids[usize::from(self.len)] = id;
        self.len += 1;
    }

    pub(super) fn ids(&self) -> &[Id] {
        &self.ids[..usize::from(self.len)]
    }

    pub(super) fn first(&self) -> Option<Id> {
        self.ids().first().copied()
    }

    pub(super) fn without_first(&self) -> List {
        List::of(self.ids().get(1..).unwrap_or(&[]))
    }

    /// The longest clockwise part of `ids` from its start, seen from `me`: as `clockwise_prefix` in
    /// `ring/mod.rs`.
    pub(super) fn clockwise(me: Id, ids: impl IntoIterator<Item = Id>) -> List {
        let mut list = List::default();
        for id in ids {
            let after = list.ids().last().copied().unwrap_or(me);
            if list.ids().len() >= R || !between(after, id, me) {
                break;
            }
            list.push(id);
        }
        list
    }
}

/// Whether `x` stands on the way clockwise from `a` to `b`, both left out.
pub(super) fn between(a: Id, x: Id, b: Id) -> bool {
    if a < b {
        a < x && x < b
    } else {
        x > a || x < b
    }
}

/// The successor lists of the live members; none for one that is not in the ring.
pub(super) type Lists = [Option<List>; MOST];

/// What of Zave's invariant is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    Disordered,
    NoLiveSuccessor,
    SeveralRings,
    DisorderedRing,
    TooFewPrincipals,
}

/// What `invariant::check_structure` checks.
pub(super) fn structure(lists: &Lists) -> Result<(), Broken> {
    let mut best = [None; MOST];
    for (me, list) in live(lists) {
        let mut after = me;
        for id in list.ids() {
            if !between(after, *id, me) {
                return Err(Broken::Disordered);
            }
            after = *id;
        }
        let head = list
            .ids()
            .iter()
            .find(|id| lists[usize::from(**id)].is_some());
        best[usize::from(me)] = match head {
            Some(head) => Some(*head),
            None if list.ids().is_empty() => Some(me),
            None => return Err(Broken::NoLiveSuccessor),
        };
    }
    one_ring(&best)
}

/// Every path along `best` ends in one and the same ring, which goes round once.
fn one_ring(best: &[Option<Id>; MOST]) -> Result<(), Broken> {
    let (mut least, mut several, mut disordered) = (None, false, false);
    for start in 0..MOST {
        let Some(mut here) = best[start] else {
            continue;
        };
        // After this many steps a path is in its ring for good.
        for _ in 0..MOST {
            here = best[usize::from(here)].unwrap_or(here);
        }
        let (mut lowest, mut falls, mut at) = (here, 0, here);
        loop {
            let next = best[usize::from(at)].unwrap_or(at);
            falls += u32::from(next <= at);
            at = next;
            lowest = lowest.min(at);
            if at == here {
                break;
            }
        }
        several |= *least.get_or_insert(lowest) != lowest;
        disordered |= falls > 1;
    }
    match (several, disordered) {
        (true, _) => Err(Broken::SeveralRings),
        (false, true) => Err(Broken::DisorderedRing),
        (false, false) => Ok(()),
    }
}

/// How many live members no live member's list skips.
pub(super) fn principals(lists: &Lists) -> usize {
    let mut skipped = 0_u8;
    for (me, list) in live(lists) {
        let mut from = me;
        // Alone, a member is its own successor, and skips all others.
        let alone = list.ids().is_empty().then_some(me);
        for to in list.ids().iter().copied().chain(alone) {
            let between = (0..MOST as Id).filter(|id| between(from, *id, to));
            skipped |= between.fold(0, |set, id| set | 1 << id);
            from = to;
        }
    }
    live(lists)
        .filter(|(id, _)| skipped & (1 << id) == 0)
        .count()
}

/// What `invariant::check_full` checks, or `check_structure` if the ring has not been `full`.
pub(super) fn check(lists: &Lists, full: bool) -> Result<(), Broken> {
    structure(lists)?;
    if full && principals(lists) <= R {
        return Err(Broken::TooFewPrincipals);
    }
    Ok(())
}

/// Zave's assumption about a failure, of which `lists` is left: every member has a live successor,
/// and there are enough principals.
pub(super) fn survives(lists: &Lists, full: bool) -> bool {
    let needed = if full { R + 1 } else { 1 };
    let has_live = |list: &List| {
        list.ids()
            .iter()
            .any(|id| lists[usize::from(*id)].is_some())
    };
    live(lists).all(|(_, list)| list.ids().is_empty() || has_live(list))
        && principals(lists) >= needed
}

pub(super) fn live(lists: &Lists) -> impl Iterator<Item = (Id, &List)> {
    (0..)
        .zip(lists)
        .filter_map(|(id, list)| Some((id, list.as_ref()?)))
}

/// Every list that a member among `count` can have: ordered, of one to r entries.
pub(super) fn all_lists(me: Id, count: u8) -> Vec<List> {
    let after = |id: Id| (1..count).map(move |step| (id + step) % count);
    let mut lists = Vec::new();
    for first in after(me) {
        lists.push(List::of(&[first]));
        let second = after(first).take_while(|second| *second != me);
        lists.extend(second.map(|second| List::of(&[first, second])));
    }
    lists
}

#[cfg(test)]
mod tests {
    use ringway_overlay::invariant::{Violation, check_full, check_structure, principals as real};
    use ringway_overlay::{Membership, RingKey, Snapshot};

    use super::*;

    fn key(id: Id) -> RingKey {
        RingKey::from_bytes([id; 32])
    }

    fn kind(violation: &Violation) -> Broken {
        match violation {
            Violation::Disordered { .. } => Broken::Disordered,
            Violation::NoLiveSuccessor { .. } => Broken::NoLiveSuccessor,
            Violation::SeveralRings { .. } => Broken::SeveralRings,
            Violation::DisorderedRing { .. } => Broken::DisorderedRing,
            Violation::TooFewPrincipals { .. } => Broken::TooFewPrincipals,
            other => panic!("{other}"),
        }
    }

    /// Every combination of lists of four members, also disordered ones and those of a ring of one.
    #[test]
    fn the_fast_invariant_judges_as_the_codes_own() {
        let mut choices = vec![None, Some(List::default())];
        for first in 0..4 {
            choices.push(Some(List::of(&[first])));
            choices.extend((0..4).map(|second| Some(List::of(&[first, second]))));
        }
        let mut broken = 0;
        for number in 0..choices.len().pow(4) {
            let mut lists = Lists::default();
            let mut rest = number;
            for list in lists.iter_mut().take(4) {
                *list = choices[rest % choices.len()];
                rest /= choices.len();
            }
            // All of them take a minute; this step shares no factor with the number of choices.
            if number % 7 != 0 {
                continue;
            }
            let snapshots: Vec<Snapshot> = live(&lists)
                .map(|(id, list)| Snapshot {
                    key: key(id),
                    state: Membership::Member,
                    predecessor: None,
                    successors: list.ids().iter().copied().map(key).collect(),
                })
                .collect();
            let judged = check_structure(&snapshots).map_err(|violation| kind(&violation));
            assert_eq!(structure(&lists), judged, "{lists:?}");
            assert_eq!(principals(&lists), real(&snapshots).len(), "{lists:?}");
            let full = structure(&lists).is_ok() && principals(&lists) > R;
            assert_eq!(full, check_full(&snapshots, R).is_ok(), "{lists:?}");
            broken += u32::from(judged.is_err());
        }
        assert!(broken > 0);
    }
}
