//! Fingers: the groups around the points m · 16^i clockwise of this member, m = 1 … 15.
//!
//! Only offsets of at least two mean spacings count: nearer points are within the own group's
//! reach. So a member has about 15 · log16(N / 2) fingers of g members each, and a lookup takes at
//! most log16(N) steps along them.
//!
//! Fingers are looked up like any point (`lookup`), from the nearest to the farthest, but not
//! through themselves alone. The members of the finger before it and the own group are asked, and
//! what the finger held so far counts as one answer among them. So fingers that liars have filled
//! recover as long as one honest member is asked.
//!
//! A member without credentials keeps single owners instead of groups.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::chord::Chord;
use crate::group::{Density, width};
use crate::key::{Offset, RingKey};
use crate::limits::{MAX_FINGER_FAILURES, MAX_FINGERS};

/// One finger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finger {
    pub(crate) offset: Offset,
    /// The group around the finger's point, clockwise. Never empty.
    pub(crate) group: Vec<RingKey>,
    /// The numbers of the views that the group was made from, where they are known.
    pub(crate) numbers: BTreeMap<RingKey, u64>,
    /// How wide the group is, as a share of the ring.
    pub(crate) width: f64,
}

impl Finger {
    pub(crate) fn new(
        offset: Offset,
        mut group: Vec<RingKey>,
        numbers: BTreeMap<RingKey, u64>,
    ) -> Finger {
        group.shrink_to_fit();
        let width = width(&group);
        Finger {
            offset,
            group,
            numbers,
            width,
        }
    }

    fn remove(&mut self, key: &RingKey) {
        let before = self.group.len();
        self.group.retain(|member| member != key);
        if self.group.len() != before {
            self.width = width(&self.group);
        }
    }
}

/// All fingers, the nearest first.
#[derive(Debug, Default)]
pub(crate) struct Fingers {
    entries: Vec<Finger>,
    /// The finger to look up next; none before the first of a pass.
    cursor: Option<Offset>,
    /// Whether every finger has been looked up once.
    complete: bool,
    /// The most that the members of the own group have stood apart since the pass began, on
    /// average, as a share of the ring.
    widest: f64,
    next: Option<Instant>,
    /// Lookups that failed in a row.
    failures: u32,
}

impl Fingers {
    /// The first lookup is at `first`.
    pub(crate) fn start(&mut self, first: Instant) {
        *self = Fingers {
            next: Some(first),
            ..Fingers::default()
        };
    }

    pub(crate) fn stop(&mut self) {
        *self = Fingers::default();
    }

    /// Takes over what is known already, so that no pass has to be waited for.
    pub(crate) fn restore(&mut self, fingers: Vec<Finger>, next: Instant) {
        self.entries = fingers;
        self.complete = true;
        self.next = Some(next);
    }

    pub(crate) fn entries(&self) -> &[Finger] {
        &self.entries
    }

    /// The members of all fingers, the nearest finger first. Members of several come several times.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RingKey> {
        self.entries
            .iter()
            .flat_map(|finger| finger.group.iter().copied())
    }

    pub(crate) fn remove(&mut self, key: &RingKey) {
        for finger in &mut self.entries {
            finger.remove(key);
        }
        self.entries.retain(|finger| !finger.group.is_empty());
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next
    }

    /// One member of each finger, at random.
    pub(crate) fn one_of_each(&self, rng: &mut impl Rng) -> Vec<RingKey> {
        let each = self.entries.iter();
        each.filter_map(|finger| finger.group.choose(rng).copied())
            .collect()
    }

    /// The fingers whose points are next to `share` of the ring: the last before it and the first
    /// after it.
    pub(crate) fn beside(&self, share: f64) -> impl Iterator<Item = &Finger> {
        let place = self.entries.partition_point(|f| f.offset.share() <= share);
        let before = place.checked_sub(1).and_then(|at| self.entries.get(at));
        before.into_iter().chain(self.entries.get(place))
    }

    pub(crate) fn get(&self, offset: Offset) -> Option<&Finger> {
        self.entries.iter().find(|finger| finger.offset == offset)
    }

    /// The finger with the greatest offset below `offset`.
    fn before(&self, offset: Offset) -> Option<&Finger> {
        self.entries.iter().rfind(|finger| finger.offset < offset)
    }

    fn set(&mut self, offset: Offset, group: Vec<RingKey>, numbers: BTreeMap<RingKey, u64>) {
        self.entries.retain(|finger| finger.offset != offset);
        if group.is_empty() {
            return;
        }
        let place = self.entries.partition_point(|f| f.offset < offset);
        let finger = Finger::new(offset, group, numbers);
        self.entries.insert(place, finger);
        if self.entries.len() > MAX_FINGERS {
            self.entries.remove(0);
        }
    }

    /// The own group's members stand so far apart on average. If they stood twice as far apart
    /// since the last pass began, the fingers are from a smaller ring, or from a part of this
    /// one: all of them are looked up again, in a hurry.
    fn compare(&mut self, spacing: f64) {
        self.widest = self.widest.max(spacing);
        if 2.0 * spacing <= self.widest {
            self.cursor = None;
            self.complete = false;
        }
        if self.cursor.is_none() {
            self.widest = spacing;
        }
    }

    fn advance(&mut self, past: Offset) {
        if past == Offset::MAX {
            self.cursor = None;
            self.complete = true;
        } else {
            self.cursor = Some(past.next());
        }
    }
}

impl Chord {
    /// How far members stand from each other, as far as this one can tell.
    pub(crate) fn density(&self) -> Density {
        let fingers = &self.fingers.entries;
        let everybody = self.knows_everybody();
        Density::estimate(self.own_group(), everybody, fingers, self.config.group)
    }

    /// The nearest finger that is worth having; none where the own group holds the whole ring.
    fn first_offset(&self) -> Option<Offset> {
        if self.credentials.is_some() {
            let spacing = self.density().spacing;
            let any = !self.knows_everybody() && spacing > 0.0;
            return any.then(|| Offset::reaching(2.0 * spacing));
        }
        let last = self.ring.successors.last()?;
        let first = Offset::reaching(self.me.share_to(last));
        (first != Offset::MAX).then_some(first)
    }

    pub(crate) fn fingers_due(&mut self, now: Instant) {
        if !self.is_member() || self.fingers.next.is_none_or(|next| next > now) {
            return;
        }
        let pause = self.finger_pause();
        self.fingers.next = Some(now + pause);
        let Some(first) = self.first_offset() else {
            return;
        };
        let own = self.own_group();
        if own.len() > self.config.group / 2 {
            let gaps = u32::try_from(own.len()).unwrap_or(u32::MAX);
            let spacing = width(own) / f64::from(gaps.saturating_sub(1));
            self.fingers.compare(spacing);
        }
        // One step below may come and go with the estimate.
        let keep = first.share() / 2.0;
        self.fingers
            .entries
            .retain(|finger| finger.offset.share() >= keep);
        if self.credentials.is_some() && self.fingers.cursor.is_none() {
            self.start_own_lookup(now);
        }
        let offset = self.fingers.cursor.map_or(first, |next| next.max(first));
        self.fingers.cursor = Some(offset);
        self.start_finger_lookup(now, offset, self.me.plus(offset));
    }

    /// Time to the next lookup of a finger: what can wait most waits longest while this member is
    /// overloaded, or lookups fail.
    fn finger_pause(&mut self) -> Duration {
        let part = if self.fingers.complete { 1 } else { 16 };
        let doubt = self.doubt();
        let pause = self.config.finger_interval / part;
        let failures = match self.credentials {
            Some(_) => self.fingers.failures.min(MAX_FINGER_FAILURES),
            None => 0,
        };
        let pause = pause.saturating_mul(1 << failures);
        let pause = self.jittered(pause.mul_f64(doubt * doubt));
        pause.max(Duration::from_millis(1))
    }

    /// When the first of the fingers is looked up: not by all who join together at once.
    pub(crate) fn first_finger(&mut self, now: Instant) -> Instant {
        if self.credentials.is_none() {
            return now;
        }
        let within = self.config.finger_interval / 16;
        now + within.mul_f64(self.rng.random())
    }

    /// The members who can say most about the finger at `offset`: those of the finger before it, or
    /// else the own group.
    pub(crate) fn finger_sources(&self, offset: Offset) -> (Vec<RingKey>, Vec<RingKey>) {
        let own: Vec<RingKey> = self.neighbours.keys().collect();
        let before = self.fingers.before(offset);
        let before = before.map_or_else(Vec::new, |finger| finger.group.clone());
        (before, own)
    }

    /// The group around a finger's point, and the numbers of the views that say so.
    pub(crate) fn finger_found(
        &mut self,
        offset: Offset,
        group: Vec<RingKey>,
        mut numbers: BTreeMap<RingKey, u64>,
    ) {
        self.fingers.failures = 0;
        numbers.retain(|key, _| group.contains(key));
        self.fingers.set(offset, group, numbers);
        self.fingers.advance(offset);
    }

    /// The owner of a finger's point, for a member that keeps no groups. All points up to the owner
    /// have it too.
    pub(crate) fn finger_owner_found(&mut self, offset: Offset, owner: RingKey) {
        self.fingers.failures = 0;
        let reach = Offset::within(&self.me.distance_to(&owner));
        let past = reach.filter(|_| owner != self.me).unwrap_or(Offset::MAX);
        let entries = &mut self.fingers.entries;
        entries.retain(|finger| finger.offset < offset || finger.offset > past);
        entries.retain(|finger| !finger.group.contains(&owner));
        if owner != self.me {
            self.fingers.set(offset, vec![owner], BTreeMap::new());
        }
        self.fingers.advance(past.max(offset));
    }

    pub(crate) fn finger_not_found(&mut self, offset: Offset) {
        self.fingers.failures = self.fingers.failures.saturating_add(1);
        self.fingers.advance(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_owner_replaces_the_fingers_that_it_makes_superfluous() {
        let me = RingKey::ZERO;
        let mut chord = Chord::new(me, Config::default(), [1; 32]).unwrap();
        let at = |level, digit| Offset { level, digit };
        for (level, digit) in [(50, 1), (50, 2), (50, 4), (51, 2)] {
            let offset = at(level, digit);
            chord.finger_owner_found(offset, me.plus(offset));
        }
        assert_eq!(chord.fingers.entries.len(), 4);
        chord.finger_owner_found(at(50, 1), me.plus(at(50, 4)));
        let offsets: Vec<Offset> = chord.fingers.entries.iter().map(|f| f.offset).collect();
        assert_eq!(offsets, [at(50, 1), at(51, 2)]);
        assert_eq!(chord.fingers.cursor, Some(at(50, 5)));
        chord.finger_owner_found(at(50, 5), me);
        assert_eq!(chord.fingers.entries.len(), 1);
        assert!(chord.fingers.complete);
        assert_eq!(chord.fingers.cursor, None);
    }

    #[test]
    fn the_fingers_beside_a_point_are_those_before_and_after_it() {
        let mut fingers = Fingers::default();
        for digit in [1, 2, 4] {
            let offset = Offset { level: 60, digit };
            fingers.set(offset, vec![RingKey::point(&[digit])], BTreeMap::new());
        }
        let unit = Offset {
            level: 60,
            digit: 1,
        }
        .share();
        let beside = |share: f64| -> Vec<u8> {
            fingers
                .beside(share)
                .map(|finger| finger.offset.digit)
                .collect()
        };
        assert_eq!(beside(unit * 0.5), [1]);
        assert_eq!(beside(unit * 2.5), [2, 4]);
        assert_eq!(beside(unit * 9.0), [4]);
    }
}
