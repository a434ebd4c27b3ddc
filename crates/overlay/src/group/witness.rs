//! Comparing what members say with what they said to others, and what follows from a contradiction.
//!
//! Views that lookups meet are told to neighbours of their authors (`audit`). Whoever holds two statements of one member that
//! contradict each other has proof, and needs nobody's word: the proof goes to everybody, and everybody
//! checks it. A convicted member is treated as if it were not there. Only the ring's owner removes it for good.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rand::seq::IteratorRandom;

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::event::Event;
use crate::key::RingKey;
use crate::limits::{MAX_ACCUSED, MAX_CONVICTED, MAX_PROOFS_TOLD, MAX_SAID, MAX_SPEAKERS};
use crate::message::Message;
use crate::request::Purpose;
use crate::view::SignedHeader;

/// What members said lately, and who is convicted.
#[derive(Debug, Default)]
pub(crate) struct Witnessed {
    said: BTreeMap<RingKey, VecDeque<SignedHeader>>,
    convicted: BTreeMap<RingKey, (SignedHeader, SignedHeader)>,
    /// Evidence against members whose certificates are being asked for, by the accused.
    waiting: BTreeMap<RingKey, (SignedHeader, SignedHeader)>,
    /// When to audit next.
    pub(crate) next_audit: Option<Instant>,
}

impl Witnessed {
    /// Remembers a statement, and gives an earlier one that contradicts it. `group` is whose statements to keep longest.
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
    pub fn convicted(&self) -> impl Iterator<Item = (RingKey, &(SignedHeader, SignedHeader))> {
        self.witnessed
            .convicted
            .iter()
            .map(|(key, proof)| (*key, proof))
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
            self.convict(now, other, *said);
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

    pub(crate) fn handle_evidence(
        &mut self,
        now: Instant,
        from: RingKey,
        first: SignedHeader,
        second: SignedHeader,
    ) {
        let author = first.header.author;
        if author == self.me || self.is_convicted(&author) {
            return;
        }
        if first.contradicts(&second) && self.standing(&author) == Standing::Unknown {
            return self.ask_who_is_accused(now, from, first, second);
        }
        if self.proves(&first, &second) {
            self.convict(now, first, second);
        } else {
            self.counters.malformed += 1;
            self.peers.suspect(now, from);
        }
    }

    /// Nobody can be judged without a certificate. Whoever accuses has it.
    fn ask_who_is_accused(
        &mut self,
        now: Instant,
        from: RingKey,
        first: SignedHeader,
        second: SignedHeader,
    ) {
        let accused = first.header.author;
        let waiting = &mut self.witnessed.waiting;
        if waiting.contains_key(&accused) || waiting.len() >= MAX_ACCUSED {
            return;
        }
        waiting.insert(accused, (first, second));
        let members = vec![accused];
        self.request(now, from, Purpose::Accused, |id| Message::GetCertificates {
            id,
            members,
        });
    }

    /// The certificate of the accused came, or did not.
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
        for accused in members {
            let Some((first, second)) = self.witnessed.waiting.remove(accused) else {
                continue;
            };
            if let (Some(Message::Certificates { certificates, .. }), Some(credentials)) =
                (&answer, &mut self.credentials)
            {
                let of_it = certificates.iter().filter(|(key, _)| key == accused);
                of_it.for_each(|(key, certificate)| {
                    credentials.admit(key, certificate);
                });
            }
            if self.standing(accused) == Standing::Certified {
                self.handle_evidence(now, from, first, second);
            }
        }
    }

    /// A member has come into the own group: proofs went round before it was there.
    pub(crate) fn tell_convictions(&mut self, to: RingKey) {
        if self.witnessed.convicted.is_empty() {
            return;
        }
        let proofs = self.witnessed.convicted.values();
        let some = proofs.copied().sample(&mut self.rng, MAX_PROOFS_TOLD);
        for (first, second) in some {
            self.send(to, Message::Evidence { first, second });
        }
    }

    /// Takes in what was proven before this start, so that nobody has to prove it again. What is no proof changes nothing.
    pub fn recall(&mut self, now: Instant, first: SignedHeader, second: SignedHeader) {
        let author = first.header.author;
        if author != self.me && !self.is_convicted(&author) && self.proves(&first, &second) {
            self.convict(now, first, second);
        }
    }

    fn proves(&self, first: &SignedHeader, second: &SignedHeader) -> bool {
        first.contradicts(second) && self.is_genuine(first) && self.is_genuine(second)
    }

    fn is_genuine(&self, said: &SignedHeader) -> bool {
        let credentials = self.credentials.as_ref();
        credentials.is_some_and(|credentials| said.is_genuine(credentials.as_ref()))
    }

    /// Both statements have been checked: nobody who follows the protocol signs both.
    fn convict(&mut self, now: Instant, first: SignedHeader, second: SignedHeader) {
        let member = first.header.author;
        if member == self.me || self.witnessed.convicted.len() >= MAX_CONVICTED {
            return;
        }
        self.witnessed.convicted.insert(member, (first, second));
        self.emit(Event::Convicted {
            member,
            first: Box::new(first),
            second: Box::new(second),
        });
        self.gone(now, member);
        self.fingers.remove(&member);
        self.neighbour_gone(now, &member);
        self.forget_pointer(now, &member);
        for key in self.told_of_news() {
            if key != member {
                self.send(key, Message::Evidence { first, second });
            }
        }
    }
}
