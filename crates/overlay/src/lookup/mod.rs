//! Lookups: who owns a point of the ring.
//!
//! A part that wants a point looked up leaves an [`Inquiry`], and gets a
//! [`LookupEnd`](inquiry::LookupEnd) with its own [`Asker`] in it. A lookup knows nothing else of
//! those who ask. There are two kinds:
//!
//! - [`VerifiedLookups`] of members with credentials, which take no member's word alone. `verified`
//!   begins, judges and ends them; `iterate` goes from group to group to the target, and `finalise`
//!   asks all around it. `paper` is the paper's own rule, for comparison.
//! - [`PlainLookups`] as Chord has them, for members without credentials and for comparison.
//!
//! `answer` is what this member answers to others that look something up.

mod answer;
mod finalise;
pub(crate) mod inquiry;
mod iterate;
mod paper;
mod plain;
mod verified;

use std::time::Instant;

use crate::context::Cx;
use crate::event::{LookupFailure, LookupId};
use crate::key::RingKey;
use crate::known::Known;
use crate::message::Message;
use crate::request::{Purpose, Request};

pub(crate) use answer::{answer_certificates, answer_near, answer_owner};
pub use inquiry::Rule;

use inquiry::{Asker, Inquiry};
use plain::PlainLookups;
use verified::VerifiedLookups;

/// Too many lookups of this kind run: so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) usize);

/// All lookups of one member.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    plain: PlainLookups,
    verified: VerifiedLookups,
    next: u64,
}

impl Lookups {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let times = [self.plain.next_due(), self.verified.next_due()];
        times.into_iter().flatten().min()
    }

    /// Starts a lookup. Its end comes as an effect, perhaps at once.
    pub(crate) fn start(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        inquiry: Inquiry,
    ) -> Result<LookupId, TooMany> {
        let askers = self.plain.askers().chain(self.verified.askers());
        let alike = askers.filter(|asker| asker.is_like(inquiry.asker)).count();
        if alike >= inquiry.most {
            return Err(TooMany(alike));
        }
        self.next = self.next.wrapping_add(1);
        let id = LookupId(self.next);
        match inquiry.rule {
            Rule::Plain => self.plain.start(cx, known, id, inquiry),
            Rule::Paper | Rule::Verified => self.verified.start(cx, known, id, inquiry),
        }
        Ok(id)
    }

    /// Forgets the lookups of askers like this one. They are not notified.
    pub(crate) fn cancel(&mut self, cx: &mut Cx<'_>, asker: Asker) {
        let mut ids = self.plain.take_of(asker);
        ids.extend(self.verified.take_of(asker));
        for id in ids {
            cx.requests.forget(|purpose| purpose.lookup() == Some(id));
        }
    }

    pub(crate) fn fail_all(&mut self, cx: &mut Cx<'_>, reason: LookupFailure) {
        self.plain.fail_all(cx, reason);
        self.verified.fail_all(cx, reason);
    }

    /// The lookups that something is due for, to be handed to [`handle_due`](Self::handle_due) one
    /// after the other.
    pub(crate) fn due(&self, now: Instant) -> Vec<LookupId> {
        let plain = self.plain.due(now);
        plain.chain(self.verified.timed_out(now)).collect()
    }

    pub(crate) fn handle_due(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        if self.verified.is_running(id) {
            self.verified.handle_timed_out(cx, id);
        } else {
            self.plain.handle_due(cx, known, id);
        }
    }

    /// A request of a lookup has its answer from `request.to`, or never will.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Cx<'_>,
        known: Known<'_>,
        request: &Request,
        answer: Option<Message>,
    ) {
        let from = request.to;
        match request.purpose {
            Purpose::Hop(id) => self.plain.hop_answered(cx, id, from, answer),
            Purpose::Confirm(id) => self.plain.owner_answered(cx, known, id, from, answer),
            Purpose::Near(id) => self.verified.near_answered(cx, known, id, from, answer),
            Purpose::FinalView(id) => self.verified.view_answered(cx, known, id, from, answer),
            Purpose::Nearby(id) => self.verified.nearby_answered(cx, known, id, from, answer),
            Purpose::Certificates(id) => {
                let asked = &request.message;
                self.verified
                    .certificates_answered(cx, known, id, asked, answer);
            }
            _ => {}
        }
    }

    /// A request is repeated, so its answer is late.
    pub(crate) fn repeated(&mut self, cx: &mut Cx<'_>, request: &Request) {
        if let Purpose::Hop(id) = request.purpose {
            self.plain.step(cx, id);
        }
    }

    /// An answer takes longer than answers use to take.
    pub(crate) fn slow(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId, to: RingKey) {
        self.verified.slow(cx, known, id, to);
    }

    /// Requests have ended: lookups that found no room for theirs go on. Returns whether any did.
    /// Plain ones try again by themselves.
    pub(crate) fn handle_room(&mut self, cx: &mut Cx<'_>, known: Known<'_>) -> bool {
        self.verified.handle_room(cx, known)
    }

    /// What a member near the target has said has been judged.
    pub(crate) fn go_on(&mut self, cx: &mut Cx<'_>, known: Known<'_>, id: LookupId) {
        self.verified.go_on(cx, known, id);
    }
}
