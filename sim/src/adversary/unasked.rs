//! What malicious routers say without having been asked: what others said before, what none signed,
//! and that they go.

use std::collections::{BTreeMap, VecDeque};

use ringway_overlay::{Accusation, Message, RingKey, SignedHeader, View};

use super::{Adversary, Behaviour, Reaction};
use crate::trust::MemberOf;

/// Messages of others that the traitors remember, to say them again.
const REMEMBERED: usize = 256;

/// Honest members' views that the traitors remember of each.
const STORIES: usize = 2;

/// What traitors have heard.
#[derive(Debug, Default)]
pub(super) struct Overheard {
    messages: VecDeque<Message>,
    stories: BTreeMap<RingKey, VecDeque<SignedHeader>>,
}

impl Overheard {
    pub(super) fn take_in(&mut self, message: &Message) {
        if self.messages.len() >= REMEMBERED {
            self.messages.pop_front();
        }
        self.messages.push_back(message.clone());
        if let Message::ViewIs { view, .. } | Message::Announce { view } = message {
            self.remember(view);
        }
    }

    fn remember(&mut self, view: &View) {
        let stories = self.stories.entry(view.author()).or_default();
        if !stories.contains(&view.signed) {
            stories.push_back(view.signed);
        }
        if stories.len() > STORIES {
            stories.pop_front();
        }
    }
}

impl Adversary {
    /// Besides being honest to `from`, the traitor `me` says something to it or to others, now and
    /// then.
    pub(super) fn unasked(&mut self, behaviour: Behaviour, me: RingKey, from: RingKey) -> Reaction {
        let said = match behaviour {
            // Seldom enough that answers to what is said again do not feed themselves.
            Behaviour::Replay if self.chance(4) => self.replayed(from),
            Behaviour::Accuse if self.chance(16) => self.accusation(me).map(|said| (from, said)),
            Behaviour::Leave if self.chance(16) => Some((from, Message::Leaving)),
            _ => None,
        };
        said.map_or(Reaction::Honest, |said| Reaction::Besides(vec![said]))
    }

    /// Once in `of` times.
    fn chance(&self, of: u64) -> bool {
        (self.coin >> 32).is_multiple_of(of)
    }

    /// An honest member, by chance.
    pub(super) fn somebody_honest(&self) -> Option<RingKey> {
        let mut point = [0; 32];
        let coin = self.coin.to_be_bytes();
        point.iter_mut().zip(coin).for_each(|(to, from)| *to = from);
        let point = RingKey::from_bytes(point);
        let after = self.everybody.range(point..);
        let mut all = after.chain(self.everybody.range(..point));
        all.find(|key| !self.known.contains_key(*key)).copied()
    }

    /// Something that somebody said to a traitor before, for another member than the one who has
    /// just spoken, most of the time.
    fn replayed(&self, from: RingKey) -> Option<(RingKey, Message)> {
        let count = u64::try_from(self.overheard.messages.len()).ok()?;
        let at = (self.coin >> 40).checked_rem(count)?;
        let message = self.overheard.messages.get(usize::try_from(at).ok()?)?;
        let to = self.somebody_honest().unwrap_or(from);
        Some((to, message.clone()))
    }

    /// Of an honest member: of two views that it may have signed, of one that it has not; or in the
    /// name of another honest member, so that this one would seem to accuse falsely.
    fn accusation(&self, me: RingKey) -> Option<Message> {
        let honest = self.somebody_honest()?;
        let after = self.overheard.stories.range(honest..);
        let mut all = after.chain(self.overheard.stories.range(..honest));
        let (_, stories) = all.find(|(key, _)| !self.known.contains_key(*key))?;
        let (first, last) = (*stories.front()?, *stories.back()?);
        let mut forged = last;
        forged.header.content = [0; 32];
        let credentials = MemberOf::new(&self.registry, me);
        let kind = (self.coin >> 40) % 4;
        let second = if kind == 0 { first } else { forged };
        let mut accusation = Accusation::sign(&credentials, me, last, second);
        if kind >= 2 {
            accusation.accuser = honest;
        }
        let accusation = Box::new(accusation);
        Some(match kind {
            3 => Message::FalseAccusation { accusation },
            _ => Message::Evidence { accusation },
        })
    }
}
