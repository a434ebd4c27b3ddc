//! The way to the target: from group to group, each step's answers merged.
//!
//! ```text
//!  iterate
//!    enough answers, and no key unproven -> the paper's rule -> paper_step
//!                                        -> widen_if_sparse: more are wanted; again
//!                                        -> end_step
//!    enough are expected to answer -> waits
//!    one of the group is not asked -> ask_near; again. No room for requests -> waits until some
//!                                     have ended (handle_room)
//!    none is left -> answers or certificates are expected -> waits
//!                 -> some have answered -> end_step
//!                 -> only late answers are left -> waits
//!                 -> attempt_failed
//!  ask_near: GetNear, Purpose::Near -> near_answered -> request_certificates, iterate
//!  request_certificates: Purpose::Certificates -> certificates_answered -> proceed
//!  end_step -> none usable was named, or the paper's rule -> attempt_failed
//!           -> the target is reached -> finalise; else -> iterate_from, the next step
//! ```

use rand::seq::IndexedRandom;

use crate::context::Cx;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::LookupId;
use crate::group::{around, spacing};
use crate::key::{Offset, RingKey};
use crate::known::Known;
use crate::limits::{MAX_CERTIFICATES, MAX_FINAL_ASKED};
use crate::lookup::verified::{SPARSE, Stage, VerifiedLookups};
use crate::message::Message;
use crate::request::Purpose;

impl VerifiedLookups {
    /// Takes the next step from `base`, around which `group` stands.
    pub(super) fn iterate_from(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        base: RingKey,
        group: Vec<RingKey>,
    ) {
        let least = 2.0 * self.density_for(cx, known, id).spacing;
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        let offset = Offset::within(&base.distance_to(&lookup.target));
        let point = match offset.filter(|offset| offset.share() >= least) {
            Some(offset) => base.plus(offset),
            // The paper asks for the target itself, and none around it.
            None if group.len() > 1 && !lookup.by_the_paper => {
                return self.finalise(cx, known, id, &group);
            }
            // A single bootstrap next to the target: it is asked for its neighbours.
            None => lookup.target,
        };
        let wanted = lookup.askers();
        self.begin_step(cx, known, id, Stage::iterate(point, group, wanted));
    }

    /// Asks who stands around a finger's point: the members of the finger before it, and the own
    /// group.
    pub(super) fn iterate_to_finger(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        offset: Offset,
    ) {
        let point = cx.me.plus(offset);
        let own: Vec<RingKey> = known.group.keys().collect();
        let before = known.fingers.before(offset);
        let before = before.map_or_else(Vec::new, |finger| finger.group.clone());
        let mut group: Vec<RingKey> = before.sample(cx.rng, 3).copied().collect();
        let some = if group.is_empty() { own.len() } else { 3 };
        group.extend(own.sample(cx.rng, some).copied());
        group.sort_unstable();
        group.dedup();
        // All of them: what the finger held may come from liars.
        let wanted = group.len();
        let old = known.fingers.get(offset).cloned();
        self.begin_step(cx, known, id, Stage::iterate(point, group, wanted));
        let me = cx.me;
        if let (Some(lookup), Some(old)) = (self.running.get_mut(&id), old) {
            lookup.named.extend(old.group.iter().map(|key| (*key, me)));
            lookup.numbers = old.numbers;
        }
    }

    fn begin_step(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId, stage: Stage) {
        cx.requests.forget(|purpose| purpose.lookup() == Some(id));
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.begin_step(stage);
        self.iterate(cx, known, id);
    }

    /// Asks as many as are wanted, and goes on when enough have answered.
    pub(super) fn iterate(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        loop {
            let Some(lookup) = self.running.get(&id) else {
                return;
            };
            let Stage::Iterate {
                point,
                ref group,
                wanted,
                answers,
            } = lookup.stage
            else {
                return;
            };
            if answers >= wanted && lookup.unproven.is_empty() && lookup.by_the_paper {
                return self.paper_step(cx, known, id);
            }
            if answers >= wanted && lookup.unproven.is_empty() {
                if self.widen_if_sparse(cx, known, id) {
                    continue;
                }
                return self.end_step(cx, known, id);
            }
            if answers.saturating_add(lookup.expected()) >= wanted {
                return;
            }
            let me = cx.me;
            let free = |key: &&RingKey| **key != me && !lookup.asked.contains(*key);
            let unasked: Vec<RingKey> = group.iter().filter(free).copied().collect();
            let quiet = |key: &&RingKey| !cx.is_suspect(key);
            let trusted: Vec<RingKey> = unasked.iter().filter(quiet).copied().collect();
            let among = if trusted.is_empty() {
                &unasked
            } else {
                &trusted
            };
            let next = among.choose(cx.rng).copied();
            match next {
                Some(_) if !cx.requests.has_room() => {
                    self.without_room.insert(id);
                    return;
                }
                Some(next) => self.ask_near(cx, id, next, point),
                None if lookup.expected() > 0 || !lookup.unproven.is_empty() => return,
                None if answers > 0 => return self.end_step(cx, known, id),
                None if !lookup.waiting.is_empty() => return,
                None => return self.attempt_failed(cx, known, id),
            }
        }
    }

    fn ask_near(&mut self, cx: &mut Cx<'_>, id: LookupId, next: RingKey, point: RingKey) {
        if let Some(lookup) = self.running.get_mut(&id) {
            lookup.note_asked(next);
        }
        cx.request(next, Purpose::Near(id), |id| Message::GetNear { id, point });
    }

    /// Whether the members named so far stand so far apart that others may have been left out, and
    /// more can be asked.
    fn widen_if_sparse(&mut self, cx: &Cx<'_>, known: Known<'_>, id: LookupId) -> bool {
        let group = self.step_group(cx, id);
        let stretch = self.density_for(cx, known, id).stretch(&group);
        let Some(lookup) = self.running.get_mut(&id) else {
            return false;
        };
        let Stage::Iterate {
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
    fn step_group(&self, cx: &Cx<'_>, id: LookupId) -> Vec<RingKey> {
        let Some(lookup) = self.running.get(&id) else {
            return Vec::new();
        };
        let Stage::Iterate { point, .. } = lookup.stage else {
            return Vec::new();
        };
        let usable = lookup.named.keys().copied();
        let usable = usable.filter(|key| cx.trust.is_usable(key));
        around(&point, cx.config.group, usable)
    }

    fn end_step(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        let group = self.step_group(cx, id);
        let outside = !self.stands_in(cx, id);
        let spacing = spacing(&group, cx.config.group);
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        let Stage::Iterate { point, .. } = lookup.stage else {
            return;
        };
        if group.is_empty() || lookup.by_the_paper {
            return self.attempt_failed(cx, known, id);
        }
        // From outside only the groups on the way say how dense the ring is.
        if outside {
            lookup.spacings.push(spacing);
        }
        if point == lookup.target {
            self.finalise(cx, known, id, &group);
        } else {
            self.iterate_from(cx, known, id, point, group);
        }
    }

    /// A member names others around a point.
    pub(crate) fn near_answered(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        from: RingKey,
        answer: Option<Message>,
    ) {
        let members = match answer {
            Some(Message::Near { members, .. }) => Some(members),
            _ => None,
        };
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        lookup.stop_waiting(&from);
        if let Some(members) = members {
            lookup.note_hop(from);
            if let Stage::Iterate {
                ref mut answers, ..
            } = lookup.stage
            {
                *answers = answers.saturating_add(1);
            }
            // The paper compares answers by pairs instead of merging them.
            if lookup.by_the_paper {
                lookup.claims.push(members.clone());
            }
            for key in members {
                lookup.named.entry(key).or_insert(from);
            }
            if lookup.origin.is_outside() {
                cx.effect(Effect::RingSeen);
            }
            self.request_certificates(cx, id);
        }
        self.iterate(cx, known, id);
    }

    /// Asks for the certificates of those who were named and are not known, from the members that
    /// named them. Where requests have no room, they stay unproven, and this step does not use
    /// them.
    pub(super) fn request_certificates(&mut self, cx: &mut Cx<'_>, id: LookupId) {
        let Some(lookup) = self.running.get(&id) else {
            return;
        };
        let me = cx.me;
        let unknown = lookup.named.iter().filter(|(key, by)| {
            **key != me
                && **by != me
                && !lookup.unproven.contains(*key)
                && cx.standing(key) == Standing::Unknown
        });
        let mut unknown: Vec<(RingKey, RingKey)> = unknown.map(|(k, by)| (*by, *k)).collect();
        // Liars must not have a lookup ask about invented members without end.
        unknown.truncate(MAX_FINAL_ASKED.saturating_sub(lookup.unproven.len()));
        for few in unknown.chunk_by(|a, b| a.0 == b.0) {
            for few in few.chunks(MAX_CERTIFICATES) {
                let Some((by, _)) = few.first().copied() else {
                    continue;
                };
                if !cx.requests.has_room() {
                    return;
                }
                let members: Vec<RingKey> = few.iter().map(|(_, key)| *key).collect();
                if let Some(lookup) = self.running.get_mut(&id) {
                    lookup.unproven.extend(&members);
                    lookup.questions = lookup.questions.saturating_add(1);
                }
                cx.request(by, Purpose::Certificates(id), |id| {
                    Message::GetCertificates { id, members }
                });
            }
        }
    }

    /// Certificates came, or did not: who is not proven now is not used in this step.
    pub(crate) fn certificates_answered(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        id: LookupId,
        asked: &Message,
        answer: Option<Message>,
    ) {
        let Message::GetCertificates { members, .. } = asked else {
            return;
        };
        if let (Some(Message::Certificates { certificates, .. }), Some(credentials)) =
            (answer, cx.trust.credentials_mut())
        {
            for (key, certificate) in certificates {
                if members.contains(&key) {
                    credentials.admit(&key, &certificate);
                }
            }
        }
        let proven: Vec<bool> = members.iter().map(|key| cx.trust.is_usable(key)).collect();
        let Some(lookup) = self.running.get_mut(&id) else {
            return;
        };
        for (key, proven) in members.iter().zip(proven) {
            lookup.unproven.remove(key);
            // Forgotten altogether, so that it is neither asked nor counted as missing.
            if !proven {
                lookup.named.remove(key);
                lookup.near.remove(key);
            }
        }
        self.proceed(cx, known, id);
    }
}

/// The finger to begin with, and its point: the one of exactly the largest offset that does not
/// pass the target, or, for further attempts, a random one of the largest. Who has no such finger
/// yet begins with the own group, whose members have similar ones. `None`: the target is the own
/// key, or a further attempt has no finger that fits.
pub(super) fn first_step(
    cx: &mut Cx<'_>,
    known: Known<'_>,
    target: &RingKey,
    attempts: usize,
) -> Option<(RingKey, Vec<RingKey>)> {
    let within = Offset::within(&cx.me.distance_to(target))?;
    let fingers = known.fingers.entries().iter();
    let usable: Vec<_> = fingers.filter(|f| f.offset <= within).collect();
    let finger = if attempts <= 1 {
        let best = usable.last().copied();
        match best.filter(|finger| finger.offset == within) {
            Some(finger) => Some(finger),
            None => return Some((cx.me, known.group.keys().collect())),
        }
    } else {
        // Among the largest, so that the steps stay few.
        let some = usable.get(usable.len().saturating_sub(16)..)?;
        some.choose(cx.rng).copied()
    }?;
    Some((cx.me.plus(finger.offset), finger.group.clone()))
}
