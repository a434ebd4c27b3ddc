//! The way to the target: from group to group, each step's answers merged.

use std::time::Instant;

use rand::seq::IndexedRandom;

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::event::LookupId;
use crate::group::{around, spacing};
use crate::key::{Offset, RingKey};
use crate::limits::{MAX_CERTIFICATES, MAX_CLOSURE, MAX_LIST};
use crate::lookup::Kind;
use crate::lookup::verified::{SPARSE, Stage};
use crate::message::{Message, RequestId};
use crate::request::Purpose;

impl Chord {
    /// Takes the next step from `base`, around which `group` stands.
    pub(super) fn climb_from(
        &mut self,
        now: Instant,
        id: LookupId,
        base: RingKey,
        group: Vec<RingKey>,
    ) {
        let least = 2.0 * self.density_for(id).spacing;
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        let offset = Offset::within(&base.distance_to(&lookup.target));
        let point = match offset.filter(|offset| offset.share() >= least) {
            Some(offset) => base.plus(offset),
            // The paper asks for the target itself, and nobody around it.
            None if group.len() > 1 && !lookup.by_the_paper => return self.close(now, id, &group),
            // A single bootstrap next to the target: it is asked for its neighbours.
            None => lookup.target,
        };
        let wanted = lookup.askers();
        self.begin_step(now, id, point, group, wanted);
    }

    /// Asks who stands around a finger's point: the members of the finger before it, and the own
    /// group.
    pub(super) fn climb_to_finger(
        &mut self,
        now: Instant,
        id: LookupId,
        offset: Offset,
        point: RingKey,
    ) {
        let (before, own) = self.finger_sources(offset);
        let mut group: Vec<RingKey> = before.sample(&mut self.rng, 3).copied().collect();
        let some = if group.is_empty() { own.len() } else { 3 };
        group.extend(own.sample(&mut self.rng, some).copied());
        group.sort_unstable();
        group.dedup();
        let wanted = group.len();
        let old = self.fingers.get(offset).cloned();
        self.begin_step(now, id, point, group, wanted);
        let me = self.me;
        if let (Some(lookup), Some(old)) = (self.lookups.verified.get_mut(&id), old) {
            lookup.named.extend(old.group.iter().map(|key| (*key, me)));
            lookup.numbers = old.numbers;
        }
    }

    fn begin_step(
        &mut self,
        now: Instant,
        id: LookupId,
        point: RingKey,
        group: Vec<RingKey>,
        wanted: usize,
    ) {
        self.requests.forget(|purpose| purpose.lookup() == Some(id));
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        let wanted = wanted.min(group.len()).max(1);
        lookup.begins_step(Stage::Climb {
            point,
            group,
            wanted,
            answers: 0,
        });
        self.climb_on(now, id);
    }

    /// Asks as many as are wanted, and goes on when enough have answered.
    pub(super) fn climb_on(&mut self, now: Instant, id: LookupId) {
        loop {
            let Some(lookup) = self.lookups.verified.get(&id) else {
                return;
            };
            let Stage::Climb {
                point,
                ref group,
                wanted,
                answers,
            } = lookup.stage
            else {
                return;
            };
            if answers >= wanted && lookup.unproven.is_empty() && lookup.by_the_paper {
                return self.paper_step(now, id);
            }
            if answers >= wanted && lookup.unproven.is_empty() {
                if self.step_is_sparse(id) {
                    continue;
                }
                return self.end_step(now, id);
            }
            if answers.saturating_add(lookup.expected()) >= wanted {
                return;
            }
            let me = self.me;
            let free = |key: &&RingKey| **key != me && !lookup.asked.contains(*key);
            let unasked: Vec<RingKey> = group.iter().filter(free).copied().collect();
            let quiet = |key: &&RingKey| !self.peers.is_suspect(now, key);
            let trusted: Vec<RingKey> = unasked.iter().filter(quiet).copied().collect();
            let among = if trusted.is_empty() {
                &unasked
            } else {
                &trusted
            };
            let next = among.choose(&mut self.rng).copied();
            match next {
                Some(_) if !self.requests.has_room() => return,
                Some(next) => self.ask_near(now, id, next, point),
                None if lookup.expected() > 0 || !lookup.unproven.is_empty() => return,
                None if answers > 0 => return self.end_step(now, id),
                None if !lookup.waiting.is_empty() => return,
                None => return self.way_lost(now, id),
            }
        }
    }

    fn ask_near(&mut self, now: Instant, id: LookupId, next: RingKey, point: RingKey) {
        if let Some(lookup) = self.lookups.verified.get_mut(&id) {
            lookup.asks(next);
        }
        self.request(now, next, Purpose::Near(id), |id| Message::GetNear {
            id,
            point,
        });
    }

    /// Whether the members named so far stand so far apart that others may have been left out, and
    /// more can be asked.
    fn step_is_sparse(&mut self, id: LookupId) -> bool {
        let group = self.step_group(id);
        let stretch = self.density_for(id).stretch(&group);
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return false;
        };
        let Stage::Climb {
            ref group,
            ref mut wanted,
            ..
        } = lookup.stage
        else {
            return false;
        };
        let left = group.len().saturating_sub(lookup.asked.len());
        if stretch <= SPARSE || left == 0 {
            return false;
        }
        // Three more twice, then everybody.
        let more = if *wanted >= 9 { left } else { left.min(3) };
        *wanted = wanted.saturating_add(more);
        true
    }

    /// The group around the step's point among those that were named.
    fn step_group(&self, id: LookupId) -> Vec<RingKey> {
        let Some(lookup) = self.lookups.verified.get(&id) else {
            return Vec::new();
        };
        let Stage::Climb { point, .. } = lookup.stage else {
            return Vec::new();
        };
        let usable = lookup.named.keys().copied();
        let usable = usable.filter(|key| self.is_usable(key));
        around(&point, self.config.group, usable)
    }

    fn end_step(&mut self, now: Instant, id: LookupId) {
        let group = self.step_group(id);
        let outside = !self.stands_in(id);
        let spacing = spacing(&group, self.config.group);
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        let Stage::Climb { point, .. } = lookup.stage else {
            return;
        };
        if group.is_empty() || lookup.by_the_paper {
            return self.way_lost(now, id);
        }
        if outside {
            lookup.spacings.push(spacing);
        }
        if point == lookup.target {
            self.close(now, id, &group);
        } else {
            self.climb_from(now, id, point, group);
        }
    }

    /// A member names others around a point.
    pub(crate) fn near_answered(
        &mut self,
        now: Instant,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let members = match answer {
            Some(Message::Near { members, .. }) => Some(members),
            _ => None,
        };
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        lookup.waits_no_more(&from);
        if let Some(members) = members {
            lookup.answered(from);
            if let Stage::Climb {
                ref mut answers, ..
            } = lookup.stage
            {
                *answers = answers.saturating_add(1);
            }
            if lookup.by_the_paper {
                lookup.claims.push(members.clone());
            }
            for key in members {
                lookup.named.entry(key).or_insert(from);
            }
            if lookup.kind == Kind::Join {
                self.ring_seen(now);
            }
            self.have_proven(now, id);
        }
        self.climb_on(now, id);
    }

    /// Asks for the certificates of those who were named and are not known, of whoever named them.
    pub(super) fn have_proven(&mut self, now: Instant, id: LookupId) {
        let Some(lookup) = self.lookups.verified.get(&id) else {
            return;
        };
        let me = self.me;
        let unknown = lookup.named.iter().filter(|(key, by)| {
            **key != me
                && **by != me
                && !lookup.unproven.contains(*key)
                && self.standing(key) == Standing::Unknown
        });
        let mut unknown: Vec<(RingKey, RingKey)> = unknown.map(|(k, by)| (*by, *k)).collect();
        unknown.truncate(MAX_CLOSURE.saturating_sub(lookup.unproven.len()));
        for few in unknown.chunk_by(|a, b| a.0 == b.0) {
            for few in few.chunks(MAX_CERTIFICATES) {
                let Some((by, _)) = few.first().copied() else {
                    continue;
                };
                if !self.requests.has_room() {
                    return;
                }
                let members: Vec<RingKey> = few.iter().map(|(_, key)| *key).collect();
                if let Some(lookup) = self.lookups.verified.get_mut(&id) {
                    lookup.unproven.extend(&members);
                    lookup.questions = lookup.questions.saturating_add(1);
                }
                self.request(now, by, Purpose::Certificates(id), |id| {
                    Message::GetCertificates { id, members }
                });
            }
        }
    }

    /// Certificates came, or did not: who is not proven now is not used in this step.
    pub(crate) fn certificates_answered(
        &mut self,
        now: Instant,
        id: LookupId,
        asked: &Message,
        answer: Option<Message>,
    ) {
        let Message::GetCertificates { members, .. } = asked else {
            return;
        };
        if let (Some(Message::Certificates { certificates, .. }), Some(credentials)) =
            (answer, &mut self.credentials)
        {
            for (key, certificate) in certificates {
                if members.contains(&key) {
                    credentials.admit(&key, &certificate);
                }
            }
        }
        let proven: Vec<bool> = members.iter().map(|key| self.is_usable(key)).collect();
        let Some(lookup) = self.lookups.verified.get_mut(&id) else {
            return;
        };
        for (key, proven) in members.iter().zip(proven) {
            lookup.unproven.remove(key);
            if !proven {
                lookup.named.remove(key);
                lookup.near.remove(key);
            }
        }
        match lookup.stage {
            Stage::Climb { .. } => self.climb_on(now, id),
            Stage::Close => self.close_on(now, id),
        }
    }

    pub(crate) fn answer_certificates(&mut self, from: RingKey, id: RequestId, keys: &[RingKey]) {
        let Some(credentials) = &self.credentials else {
            return;
        };
        let found = keys
            .iter()
            .filter_map(|key| Some((*key, credentials.certificate(key)?)));
        let certificates = found.take(MAX_CERTIFICATES).collect();
        self.send(from, Message::Certificates { id, certificates });
    }

    /// The members that this one knows around `point`: of its own group and of the fingers next to
    /// it.
    pub(crate) fn answer_near(&mut self, from: RingKey, id: RequestId, point: RingKey) {
        if !self.is_member() {
            return self.send(from, Message::NotMember { id });
        }
        let share = self.me.share_to(&point);
        let fingers = self.fingers.beside(share);
        let known = fingers.flat_map(|finger| finger.group.iter().copied());
        let known: Vec<RingKey> = known.chain(self.own_group().iter().copied()).collect();
        let usable = known.into_iter().filter(|key| self.is_usable(key));
        let mut members = around(&point, self.config.group, usable);
        members.truncate(MAX_LIST);
        if members.is_empty() {
            members.push(self.me);
        }
        self.send(from, Message::Near { id, members });
    }
}
