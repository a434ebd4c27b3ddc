//! What malicious routers do with tallies: they leave counts out, give old ones, sign counts of
//! their own that are far too large, and forge others'.

use std::collections::BTreeMap;

use ringway_overlay::{Count, Credentials as _, Message, RingKey};

use super::{Adversary, Behaviour, Reaction, answer};
use crate::trust::MemberOf;

/// What a malicious router claims to have counted.
pub const LIE: u64 = 1_000_000_000;

/// The first count of each honest router at each point that any malicious one was told.
pub(super) type Olds = BTreeMap<RingKey, BTreeMap<RingKey, Count>>;

impl Adversary {
    /// `me` is told a count, or asked for a tally.
    pub(super) fn on_tally(
        &mut self,
        behaviour: Behaviour,
        me: RingKey,
        message: &Message,
    ) -> Reaction {
        match (behaviour, message) {
            (Behaviour::Silent, _) => Reaction::Nothing,
            (_, Message::Count { id, point, count }) => {
                let olds = self.olds.entry(*point).or_default();
                olds.entry(count.author).or_insert(*count);
                // It says that it is kept.
                let number = count.count;
                answer(Message::Stored { id: *id, number })
            }
            (_, Message::GetTally { id, point, after }) => {
                let mut counts = self.lies(behaviour, me, point);
                counts.sort_unstable_by_key(|count| count.author);
                counts.retain(|count| after.is_none_or(|after| count.author > after));
                counts.truncate(8);
                answer(Message::Tally { id: *id, counts })
            }
            _ => Reaction::Honest,
        }
    }

    /// Old counts of honest routers, or forged ones, and the malicious routers' own.
    fn lies(&self, behaviour: Behaviour, me: RingKey, point: &RingKey) -> Vec<Count> {
        let credentials = MemberOf::new(&self.registry, me);
        let expires = self.olds.get(point).into_iter().flatten();
        let expires = expires.map(|(_, count)| count.expires).max();
        let expires = expires.unwrap_or_default();
        let statement = Count::statement(&me, point, LIE, expires);
        let own = Count {
            author: me,
            count: LIE,
            expires,
            signature: credentials.sign(&statement),
        };
        let mut counts = vec![own];
        let olds = self.olds.get(point).into_iter().flat_map(BTreeMap::values);
        if behaviour == Behaviour::Invent {
            // Signed by another than they name, and of routers that do not exist.
            let stranger = RingKey::point(me.as_bytes());
            let mut named: Vec<RingKey> = olds.map(|old| old.author).collect();
            named.push(stranger);
            for author in named {
                let mut forged = own;
                forged.author = author;
                counts.push(forged);
            }
        } else {
            counts.extend(olds);
        }
        counts
    }
}
