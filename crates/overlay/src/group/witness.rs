//! Comparing what members say with what they said to others, and what follows from a contradiction.
//!
//! Views that lookups meet are passed to neighbours of their authors (`audit`). A member that holds
//! two statements of another that contradict each other has proof, and needs no other's word: the
//! proof goes to everybody, and everybody checks it. A member that tells of it signs that it does,
//! so that a false accusation is proof against its accuser. A convicted member is treated as if it
//! were not there. Only the ring's owner removes it for good.

use std::collections::{BTreeMap, VecDeque};

use rand::seq::IteratorRandom;

use super::neighbours::Neighbours;
use crate::context::Cx;
use crate::credentials::Standing;
use crate::effect::Effect;
use crate::event::Event;
use crate::key::RingKey;
use crate::limits::{CONVICTED_NOTICE_PAUSE, MAX_ACCUSED, MAX_PROOFS_SENT, MAX_SAID, MAX_SPEAKERS};
use crate::message::Message;
use crate::proof::{Accusation, Proof};
use crate::request::Purpose;
use crate::trust::{Conviction, Trust};
use crate::view::SignedHeader;

/// What members said lately, and accusations that cannot be judged yet.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    said: BTreeMap<RingKey, VecDeque<SignedHeader>>,
    /// Accusations, made or said to be false, by who said so and is asked for the certificate of
    /// somebody in it.
    waiting: BTreeMap<RingKey, Claim>,
    /// Whether the caller knows that this member is convicted itself.
    own: bool,
}

impl Witness {
    /// Remembers a statement, and gives an earlier one that contradicts it. `group` is whose
    /// statements to keep longest.
    fn remember(&mut self, said: &SignedHeader, group: &[RingKey]) -> Option<SignedHeader> {
        let author = said.header.author;
        if !self.said.contains_key(&author) && self.said.len() >= MAX_SPEAKERS {
            let mut speakers = self.said.keys();
            let stranger = speakers.find(|key| !group.contains(key)).copied();
            self.said.remove(&stranger?);
        }
        // Most are met once.
        let first = || VecDeque::with_capacity(1);
        let earlier = self.said.entry(author).or_insert_with(first);
        if earlier.contains(said) {
            return None;
        }
        let contradiction = earlier
            .iter()
            .find(|other| said.contradicts(other))
            .copied();
        if earlier.len() >= MAX_SAID {
            earlier.pop_front();
        }
        earlier.push_back(*said);
        contradiction
    }

    fn knows(&self, said: &SignedHeader) -> bool {
        let earlier = self.said.get(&said.header.author);
        earlier.is_some_and(|earlier| earlier.contains(said))
    }

    /// Compares a statement, whose signature has been checked, with what its author said before.
    pub(crate) fn compare(&mut self, cx: &mut Cx<'_>, group: &Neighbours, said: &SignedHeader) {
        if let Some(other) = self.remember(said, group.members()) {
            let (first, second) = (other, *said);
            self.convict(cx, Proof::TwoStories { first, second });
        }
    }

    /// Somebody passes on what a member of the own group has said elsewhere.
    pub(crate) fn handle_witness(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Neighbours,
        said: &SignedHeader,
    ) {
        let author = said.header.author;
        if !group.contains(&author) || self.knows(said) {
            return;
        }
        if cx.trust.is_genuine(said) {
            self.compare(cx, group, said);
        } else {
            cx.count_malformed();
        }
    }

    /// `from` accuses somebody. Either the accused is convicted by it, or the accuser.
    pub(crate) fn handle_evidence(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        accusation: Accusation,
    ) {
        if cx.trust.is_convicted(&accusation.accused()) {
            return;
        }
        // Everybody accuses for itself.
        if accusation.accuser != from {
            return blame(cx, from);
        }
        match judge_accusation(cx.trust, &accusation) {
            Judgement::Right => {
                let Accusation { first, second, .. } = accusation;
                self.convict(cx, Proof::TwoStories { first, second });
            }
            Judgement::False => {
                blame(cx, from);
                self.convict(cx, Proof::FalseAccusation(accusation));
            }
            Judgement::Unsigned => blame(cx, from),
            Judgement::Unknown(member) => {
                self.request_certificate(cx, from, member, Claim::Right(accusation));
            }
            Judgement::Open => {}
        }
    }

    /// `from` says that an accusation is false, whichever member made it.
    pub(crate) fn handle_false_accusation(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        accusation: Accusation,
    ) {
        if cx.trust.is_convicted(&accusation.accuser) {
            return;
        }
        match judge_accusation(cx.trust, &accusation) {
            Judgement::False => self.convict(cx, Proof::FalseAccusation(accusation)),
            Judgement::Right | Judgement::Unsigned => blame(cx, from),
            Judgement::Unknown(member) => {
                self.request_certificate(cx, from, member, Claim::False(accusation));
            }
            Judgement::Open => {}
        }
    }

    /// No member can be judged without a certificate. Its accuser has it.
    fn request_certificate(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        member: RingKey,
        claim: Claim,
    ) {
        if self.waiting.contains_key(&from) || self.waiting.len() >= MAX_ACCUSED {
            return;
        }
        self.waiting.insert(from, claim);
        let members = vec![member];
        cx.request(from, Purpose::Accused, |id| Message::GetCertificates {
            id,
            members,
        });
    }

    /// The certificate of one whom an accusation is about came, or did not.
    pub(crate) fn accused_answered(
        &mut self,
        cx: &mut Cx<'_>,
        from: RingKey,
        asked: &Message,
        answer: Option<Message>,
    ) {
        let Message::GetCertificates { members, .. } = asked else {
            return;
        };
        let Some(member) = members.first() else {
            return;
        };
        let Some(claim) = self.waiting.remove(&from) else {
            return;
        };
        if let (Some(Message::Certificates { certificates, .. }), Some(credentials)) =
            (&answer, cx.trust.credentials_mut())
        {
            let of_it = certificates.iter().filter(|(key, _)| key == member);
            of_it.for_each(|(key, certificate)| {
                credentials.admit(key, certificate);
            });
        }
        // Otherwise it would be asked for again, for ever. (Of a convicted member the certificate
        // counts, too.)
        let credentials = cx.trust.credentials();
        let standing = credentials.map(|credentials| credentials.standing(member));
        if standing.is_none_or(|standing| standing == Standing::Unknown) {
            return;
        }
        match claim {
            Claim::Right(accusation) => self.handle_evidence(cx, from, accusation),
            Claim::False(accusation) => self.handle_false_accusation(cx, from, accusation),
        }
    }

    /// Takes in what was proven before this start, so that it need not be proven again. What is no
    /// proof changes nothing.
    pub(crate) fn recall(&mut self, cx: &mut Cx<'_>, proof: Proof) {
        if cx.trust.is_convicted(&proof.guilty()) {
            return;
        }
        let holds = match &proof {
            Proof::TwoStories { first, second } => {
                let genuine = |said| cx.trust.is_genuine(said);
                first.contradicts(second) && genuine(first) && genuine(second)
            }
            Proof::FalseAccusation(accusation) => {
                judge_accusation(cx.trust, accusation) == Judgement::False
            }
        };
        if holds {
            self.convict(cx, proof);
        }
    }

    /// The proof has been checked: no member that follows the protocol has signed it.
    fn convict(&mut self, cx: &mut Cx<'_>, proof: Proof) {
        let member = proof.guilty();
        if member == cx.me && !std::mem::replace(&mut self.own, true) {
            cx.emit(Event::OwnConviction(Box::new(proof.clone())));
        }
        let known = member == cx.me || cx.trust.is_convicted(&member);
        if known || !cx.trust.has_room() {
            return;
        }
        // What cannot be shown to others must not be acted on alone.
        let Some(notice) = notice_of(cx, &proof) else {
            return;
        };
        let conviction = Conviction {
            proof: proof.clone(),
            notice,
            shown: None,
        };
        cx.trust.convict(member, conviction);
        let proof = Box::new(proof);
        cx.emit(Event::Convicted { member, proof });
        cx.effect(Effect::Convicted(member));
    }
}

/// A member has come into the own group: proofs went round before it was there.
pub(crate) fn send_convictions(cx: &mut Cx<'_>, to: RingKey) {
    let convictions = cx.trust.convictions();
    if convictions.len() == 0 {
        return;
    }
    let notices = convictions.map(|(_, conviction)| conviction.notice.clone());
    for message in notices.sample(cx.rng, MAX_PROOFS_SENT) {
        cx.send(to, message);
    }
}

/// A convicted member speaks. It may be honest and set up twice: it is shown why it gets no
/// answer, now and then.
pub(crate) fn notify_convicted(cx: &mut Cx<'_>, member: RingKey) {
    let now = cx.now;
    let Some(conviction) = cx.trust.conviction_mut(&member) else {
        return;
    };
    if conviction
        .shown
        .is_none_or(|at| now >= at + CONVICTED_NOTICE_PAUSE)
    {
        conviction.shown = Some(now);
        let notice = conviction.notice.clone();
        cx.send(member, notice);
    }
}

/// How others are notified of a proof. What this member says of another it signs.
fn notice_of(cx: &Cx<'_>, proof: &Proof) -> Option<Message> {
    let credentials = cx.trust.credentials()?;
    Some(match proof {
        Proof::TwoStories { first, second } => {
            let accusation = Accusation::sign(credentials, cx.me, *first, *second);
            Message::evidence(accusation)
        }
        Proof::FalseAccusation(accusation) => Message::false_accusation(accusation.clone()),
    })
}

/// What `from` said convicts no member, or `from` itself.
fn blame(cx: &mut Cx<'_>, from: RingKey) {
    cx.count_malformed();
    cx.peers.suspect(cx.now, from);
}

fn judge_accusation(trust: &Trust, accusation: &Accusation) -> Judgement {
    let Some(credentials) = trust.credentials() else {
        return Judgement::Open;
    };
    let missing = |member: RingKey| match credentials.standing(&member) {
        Standing::Unknown => Judgement::Unknown(member),
        // Without its certificate its signatures cannot be verified.
        Standing::Certified | Standing::Refused => Judgement::Open,
    };
    match accusation.is_right(credentials) {
        Some(true) => return Judgement::Right,
        Some(false) => {}
        None => return missing(accusation.accused()),
    }
    match accusation.is_signed(credentials) {
        Some(true) => Judgement::False,
        // A build of release 0.2 signs its accusations in another form.
        Some(false) if accusation.is_earlier() => Judgement::Open,
        Some(false) => Judgement::Unsigned,
        None => missing(accusation.accuser),
    }
}

/// What a member says of an accusation, and what cannot be judged yet.
#[derive(Debug)]
enum Claim {
    /// It is right: the accuser says so.
    Right(Accusation),
    /// It is false.
    False(Accusation),
}

/// What becomes of an accusation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// The accused has signed what it is accused of.
    Right,
    /// It has not, and the accuser has signed that it has.
    False,
    /// It has not, and it is not known who says so.
    Unsigned,
    /// That cannot be said before somebody's certificate is there.
    Unknown(RingKey),
    /// That cannot be said at all.
    Open,
}
