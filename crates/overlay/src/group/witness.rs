//! Comparing what members say with what they said to others, and what follows from a contradiction.
//!
//! Views that lookups meet are told to neighbours of their authors (`audit`). Whoever holds two
//! statements of one member that contradict each other has proof, and needs nobody's word: the
//! proof goes to everybody, and everybody checks it. Whoever tells of it signs that it does, so
//! that a false accusation is proof against its accuser. A convicted member is treated as if it
//! were not there. Only the ring's owner removes it for good.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rand::seq::IteratorRandom;

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::event::Event;
use crate::key::RingKey;
use crate::limits::{
    CONVICTED_TOLD, MAX_ACCUSED, MAX_CONVICTED, MAX_PROOFS_TOLD, MAX_SAID, MAX_SPEAKERS,
};
use crate::message::Message;
use crate::proof::{Accusation, Proof};
use crate::request::Purpose;
use crate::view::SignedHeader;

/// What members said lately, and who is convicted.
#[derive(Debug, Default)]
pub(crate) struct Witnessed {
    said: BTreeMap<RingKey, VecDeque<SignedHeader>>,
    convicted: BTreeMap<RingKey, Conviction>,
    /// Accusations, made or said to be false, by who said so and is asked for the certificate of
    /// somebody in it.
    waiting: BTreeMap<RingKey, Claim>,
    /// Whether the caller knows that this member is convicted itself.
    own: bool,
    /// When to audit next.
    pub(crate) next_audit: Option<Instant>,
}

impl Witnessed {
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
}

impl Chord {
    pub(crate) fn is_convicted(&self, key: &RingKey) -> bool {
        self.witnessed.convicted.contains_key(key)
    }

    /// The members that this one holds proof against, and the proof.
    pub fn convicted(&self) -> impl Iterator<Item = (RingKey, &Proof)> {
        self.witnessed
            .convicted
            .iter()
            .map(|(key, conviction)| (*key, &conviction.proof))
    }

    /// Whether `key` may be used at all.
    pub(crate) fn standing(&self, key: &RingKey) -> Standing {
        if self.is_convicted(key) {
            return Standing::Refused;
        }
        let credentials = self.credentials.as_ref();
        credentials.map_or(Standing::Certified, |credentials| credentials.standing(key))
    }

    /// Compares a statement, whose signature has been checked, with what its author said before.
    pub(crate) fn compare(&mut self, now: Instant, said: &SignedHeader) {
        let group = self.own_group().to_vec();
        if let Some(other) = self.witnessed.remember(said, &group) {
            let (first, second) = (other, *said);
            self.convict(now, Proof::TwoStories { first, second });
        }
    }

    pub(crate) fn handle_witness(&mut self, now: Instant, said: &SignedHeader) {
        let author = said.header.author;
        if !self.neighbours.contains(&author) || self.witnessed.knows(said) {
            return;
        }
        if self.is_genuine(said) {
            self.compare(now, said);
        } else {
            self.counters.malformed += 1;
        }
    }

    /// `from` accuses somebody. Either the accused is convicted by it, or the accuser.
    pub(crate) fn handle_evidence(&mut self, now: Instant, from: RingKey, accusation: Accusation) {
        if self.is_convicted(&accusation.accused()) {
            return;
        }
        // Everybody accuses for itself.
        if accusation.accuser != from {
            return self.blame(now, from);
        }
        match self.judge_accusation(&accusation) {
            Judgement::Right => {
                let Accusation { first, second, .. } = accusation;
                self.convict(now, Proof::TwoStories { first, second });
            }
            Judgement::False => {
                self.blame(now, from);
                self.convict(now, Proof::FalseAccusation(accusation));
            }
            Judgement::Unsigned => self.blame(now, from),
            Judgement::Unknown(member) => {
                self.ask_who_it_is(now, from, member, Claim::Right(accusation));
            }
            Judgement::Open => {}
        }
    }

    /// `from` says that an accusation is false, whoever the accuser is.
    pub(crate) fn handle_false_accusation(
        &mut self,
        now: Instant,
        from: RingKey,
        accusation: Accusation,
    ) {
        if self.is_convicted(&accusation.accuser) {
            return;
        }
        match self.judge_accusation(&accusation) {
            Judgement::False => self.convict(now, Proof::FalseAccusation(accusation)),
            Judgement::Right | Judgement::Unsigned => self.blame(now, from),
            Judgement::Unknown(member) => {
                self.ask_who_it_is(now, from, member, Claim::False(accusation));
            }
            Judgement::Open => {}
        }
    }

    /// What `from` said convicts nobody, or itself.
    fn blame(&mut self, now: Instant, from: RingKey) {
        self.counters.malformed += 1;
        self.peers.suspect(now, from);
    }

    fn judge_accusation(&self, accusation: &Accusation) -> Judgement {
        let Some(credentials) = &self.credentials else {
            return Judgement::Open;
        };
        let credentials = credentials.as_ref();
        let missing = |member: RingKey| match credentials.standing(&member) {
            Standing::Unknown => Judgement::Unknown(member),
            // Without its certificate nobody can say what it has signed.
            Standing::Certified | Standing::Refused => Judgement::Open,
        };
        match accusation.is_right(credentials) {
            Some(true) => return Judgement::Right,
            Some(false) => {}
            None => return missing(accusation.accused()),
        }
        match accusation.is_signed(credentials) {
            Some(true) => Judgement::False,
            Some(false) => Judgement::Unsigned,
            None => missing(accusation.accuser),
        }
    }

    /// Nobody can be judged without a certificate. Whoever accuses has it.
    fn ask_who_it_is(&mut self, now: Instant, from: RingKey, member: RingKey, claim: Claim) {
        let waiting = &mut self.witnessed.waiting;
        if waiting.contains_key(&from) || waiting.len() >= MAX_ACCUSED {
            return;
        }
        waiting.insert(from, claim);
        let members = vec![member];
        self.request(now, from, Purpose::Accused, |id| Message::GetCertificates {
            id,
            members,
        });
    }

    /// The certificate of one whom an accusation is about came, or did not.
    pub(crate) fn accused_answered(
        &mut self,
        now: Instant,
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
        let Some(claim) = self.witnessed.waiting.remove(&from) else {
            return;
        };
        if let (Some(Message::Certificates { certificates, .. }), Some(credentials)) =
            (&answer, &mut self.credentials)
        {
            let of_it = certificates.iter().filter(|(key, _)| key == member);
            of_it.for_each(|(key, certificate)| {
                credentials.admit(key, certificate);
            });
        }
        // Otherwise it would be asked for again, for ever. (Of a convicted member the certificate
        // counts, too.)
        let credentials = self.credentials.as_ref();
        let standing = credentials.map(|credentials| credentials.standing(member));
        if standing.is_none_or(|standing| standing == Standing::Unknown) {
            return;
        }
        match claim {
            Claim::Right(accusation) => self.handle_evidence(now, from, accusation),
            Claim::False(accusation) => self.handle_false_accusation(now, from, accusation),
        }
    }

    /// A member has come into the own group: proofs went round before it was there.
    pub(crate) fn tell_convictions(&mut self, to: RingKey) {
        if self.witnessed.convicted.is_empty() {
            return;
        }
        let convicted = self.witnessed.convicted.values();
        let told = convicted.map(|conviction| &conviction.told);
        for message in told.cloned().sample(&mut self.rng, MAX_PROOFS_TOLD) {
            self.send(to, message);
        }
    }

    /// A convicted member speaks. It may be honest and set up twice: it is shown why it gets no
    /// answer, now and then.
    pub(crate) fn tell_the_convicted(&mut self, now: Instant, member: RingKey) {
        let Some(conviction) = self.witnessed.convicted.get_mut(&member) else {
            return;
        };
        if conviction.shown.is_none_or(|at| now >= at + CONVICTED_TOLD) {
            conviction.shown = Some(now);
            let told = conviction.told.clone();
            self.send(member, told);
        }
    }

    /// How others are told of a proof. What this member says of another it signs.
    fn telling(&self, proof: &Proof) -> Option<Message> {
        let credentials = self.credentials.as_ref()?.as_ref();
        Some(match proof {
            Proof::TwoStories { first, second } => {
                let accusation = Accusation::sign(credentials, self.me, *first, *second);
                Message::evidence(accusation)
            }
            Proof::FalseAccusation(accusation) => Message::false_accusation(accusation.clone()),
        })
    }

    /// Takes in what was proven before this start, so that nobody has to prove it again. What is no
    /// proof changes nothing.
    pub fn recall(&mut self, now: Instant, proof: Proof) {
        if self.is_convicted(&proof.guilty()) {
            return;
        }
        let holds = match &proof {
            Proof::TwoStories { first, second } => {
                first.contradicts(second) && self.is_genuine(first) && self.is_genuine(second)
            }
            Proof::FalseAccusation(accusation) => {
                self.judge_accusation(accusation) == Judgement::False
            }
        };
        if holds {
            self.convict(now, proof);
        }
    }

    fn is_genuine(&self, said: &SignedHeader) -> bool {
        let credentials = self.credentials.as_ref();
        credentials.is_some_and(|credentials| said.is_genuine(credentials.as_ref()))
    }

    /// The proof has been checked: nobody who follows the protocol has signed it.
    fn convict(&mut self, now: Instant, proof: Proof) {
        let member = proof.guilty();
        if member == self.me && !std::mem::replace(&mut self.witnessed.own, true) {
            self.emit(Event::OwnConviction(Box::new(proof.clone())));
        }
        let many = self.witnessed.convicted.len() >= MAX_CONVICTED;
        if member == self.me || many || self.is_convicted(&member) {
            return;
        }
        let Some(told) = self.telling(&proof) else {
            return;
        };
        let conviction = Conviction {
            proof: proof.clone(),
            told: told.clone(),
            shown: None,
        };
        self.witnessed.convicted.insert(member, conviction);
        self.emit(Event::Convicted {
            member,
            proof: Box::new(proof),
        });
        self.gone(now, member);
        self.routing.forget(&member);
        self.fingers.remove(&member);
        self.neighbour_gone(now, &member);
        self.forget_pointer(now, &member);
        for key in self.told_of_news() {
            if key != member {
                self.send(key, told.clone());
            }
        }
    }
}

/// A proof against a member, and how others are told of it: signed once, told often.
#[derive(Debug)]
struct Conviction {
    proof: Proof,
    told: Message,
    /// When the convicted member was shown it last.
    shown: Option<Instant>,
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
    /// It has not, and nobody can say who says so.
    Unsigned,
    /// That cannot be said before somebody's certificate is there.
    Unknown(RingKey),
    /// That cannot be said at all.
    Open,
}
