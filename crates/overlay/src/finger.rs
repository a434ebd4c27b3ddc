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

use crate::context::Cx;
use crate::effect::Effect;
use crate::event::LookupFailure;
use crate::group::width;
use crate::key::{Offset, RingKey};
use crate::limits::{MAX_FINGER_FAILURES, MAX_FINGERS};
use crate::lookup::inquiry::{Around, Asker, Found, Inquiry, Origin, Rule};

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
    /// This member is in the ring now: the first finger is looked up soon, but not by all who join
    /// together at once.
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        let within = cx.config.finger_interval / 16;
        let first = match cx.trust.credentials() {
            Some(_) => cx.now + within.mul_f64(cx.rng.random()),
            None => cx.now,
        };
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
    pub(crate) fn before(&self, offset: Offset) -> Option<&Finger> {
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

    pub(crate) fn is_due(&self, cx: &Cx<'_>) -> bool {
        cx.member && self.next.is_some_and(|next| next <= cx.now)
    }

    /// Asks for the lookup of the next finger. `own` is the own group, `first` the offset of the
    /// nearest finger that is worth having.
    pub(crate) fn look_up_next(&mut self, cx: &mut Cx<'_>, own: &[RingKey], first: Option<Offset>) {
        let pause = self.pause(cx);
        self.next = Some(cx.now + pause);
        let Some(first) = first else {
            return;
        };
        if own.len() > cx.config.group / 2 {
            let gaps = u32::try_from(own.len()).unwrap_or(u32::MAX);
            let spacing = width(own) / f64::from(gaps.saturating_sub(1));
            self.compare(spacing);
        }
        // One step below may come and go with the estimate.
        let keep = first.share() / 2.0;
        self.entries.retain(|finger| finger.offset.share() >= keep);
        let rule = if cx.trust.has_credentials() {
            Rule::Verified
        } else {
            Rule::Plain
        };
        if rule == Rule::Verified && self.cursor.is_none() {
            cx.effect(Effect::LookUp(Box::new(own_group_inquiry(cx.me))));
        }
        let offset = self.cursor.map_or(first, |next| next.max(first));
        self.cursor = Some(offset);
        let inquiry = Inquiry::new(Asker::Finger(offset), cx.me.plus(offset), rule);
        let inquiry = inquiry.from(Origin::Finger(offset)).at_most(1);
        cx.effect(Effect::LookUp(Box::new(inquiry)));
    }

    /// Time to the next lookup of a finger: what can wait most waits longest while this member is
    /// overloaded, or lookups fail.
    fn pause(&self, cx: &mut Cx<'_>) -> Duration {
        let part = if self.complete { 1 } else { 16 };
        let multiplier = cx.health_multiplier();
        let pause = cx.config.finger_interval / part;
        let failures = if cx.trust.has_credentials() {
            self.failures.min(MAX_FINGER_FAILURES)
        } else {
            0
        };
        let pause = pause.saturating_mul(1 << failures);
        let pause = cx.jittered(pause.mul_f64(multiplier * multiplier));
        pause.max(Duration::from_millis(1))
    }

    /// The lookup of a finger's point has ended.
    pub(crate) fn looked_up(
        &mut self,
        cx: &Cx<'_>,
        offset: Offset,
        result: Result<Found, LookupFailure>,
    ) {
        match result {
            Ok(Found {
                around: Around::Views(views),
                ..
            }) => {
                self.found(offset, views.group, views.numbers);
            }
            Ok(found) => self.found_owner(&cx.me, offset, found.owner),
            Err(_) => self.not_found(offset),
        }
    }

    /// The group around a finger's point, and the numbers of the views that say so.
    fn found(&mut self, offset: Offset, group: Vec<RingKey>, mut numbers: BTreeMap<RingKey, u64>) {
        self.failures = 0;
        numbers.retain(|key, _| group.contains(key));
        self.set(offset, group, numbers);
        self.advance(offset);
    }

    /// The owner of a finger's point, for a member `me` that keeps no groups. All points up to the
    /// owner have it too.
    fn found_owner(&mut self, me: &RingKey, offset: Offset, owner: RingKey) {
        self.failures = 0;
        let reach = Offset::within(&me.distance_to(&owner));
        let past = reach.filter(|_| owner != *me).unwrap_or(Offset::MAX);
        let entries = &mut self.entries;
        entries.retain(|finger| finger.offset < offset || finger.offset > past);
        entries.retain(|finger| !finger.group.contains(&owner));
        if owner != *me {
            self.set(offset, vec![owner], BTreeMap::new());
        }
        self.advance(past.max(offset));
    }

    fn not_found(&mut self, offset: Offset) {
        self.failures = self.failures.saturating_add(1);
        self.advance(offset);
    }
}

/// Who stands around `me`, seen from a random finger.
pub(crate) fn own_group_inquiry(me: RingKey) -> Inquiry {
    let inquiry = Inquiry::new(Asker::OwnGroup, me, Rule::Verified);
    inquiry.from(Origin::AnyFinger).at_most(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_replaces_superfluous_fingers() {
        let me = RingKey::ZERO;
        let mut fingers = Fingers::default();
        let at = |level, digit| Offset { level, digit };
        for (level, digit) in [(50, 1), (50, 2), (50, 4), (51, 2)] {
            let offset = at(level, digit);
            fingers.found_owner(&me, offset, me.plus(offset));
        }
        assert_eq!(fingers.entries.len(), 4);
        fingers.found_owner(&me, at(50, 1), me.plus(at(50, 4)));
        let offsets: Vec<Offset> = fingers.entries.iter().map(|f| f.offset).collect();
        assert_eq!(offsets, [at(50, 1), at(51, 2)]);
        assert_eq!(fingers.cursor, Some(at(50, 5)));
        fingers.found_owner(&me, at(50, 5), me);
        assert_eq!(fingers.entries.len(), 1);
        assert!(fingers.complete);
        assert_eq!(fingers.cursor, None);
    }

    #[test]
    fn fingers_beside_a_point_lie_before_and_after() {
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
