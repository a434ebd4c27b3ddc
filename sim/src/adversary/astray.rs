//! Traitors that lead astray: by the ring as it was, and by names and ways that lead nowhere.

use ringway_overlay::{Message, RingKey, View};

use super::{Adversary, Reaction, answer, clockwise_around, nearest_of};
use crate::trust::MemberOf;

impl Adversary {
    /// What the ring was when a traitor first said so.
    pub(super) fn stale(&mut self, me: RingKey, message: &Message) -> Reaction {
        if self.past.is_empty() {
            self.past = self.everybody.clone();
        }
        let among = |point: &RingKey| nearest_of(&self.past, point, self.g, |_| true);
        match message {
            Message::GetState { id } => {
                let after = self.past.range(me..).chain(self.past.range(..me));
                answer(Message::State {
                    id: *id,
                    predecessor: None,
                    successors: after.filter(|key| **key != me).take(3).copied().collect(),
                })
            }
            Message::GetNear { id, point } => answer(Message::Near {
                id: *id,
                members: among(point),
            }),
            Message::FindOwner { id, target } => {
                let after = self.past.range(target..).chain(self.past.range(..target));
                answer(Message::Owner {
                    id: *id,
                    owners: after.take(1).copied().collect(),
                })
            }
            Message::GetView { id, .. } => {
                let group = among(&me);
                let view = self.first_view(me, group);
                answer(Message::ViewIs { id: *id, view })
            }
            Message::Store { .. } | Message::Fetch { .. } | Message::Offer { .. } => {
                self.withhold(message)
            }
            _ => Reaction::Honest,
        }
    }

    /// The first view that `me` has signed as a traitor.
    fn first_view(&mut self, me: RingKey, mut group: Vec<RingKey>) -> View {
        if let Some(view) = self.said.get(&me) {
            return view.clone();
        }
        if !group.contains(&me) {
            group.push(me);
        }
        let group = clockwise_around(&me, group);
        let credentials = MemberOf::new(&self.registry, me);
        let view = View::sign(
            &credentials,
            me,
            ([0; 16], 1 << 33),
            None,
            2_000_000_000,
            group,
        );
        self.said.insert(me, view.clone());
        view
    }

    /// Names members of the other side of the ring, sends members that look for an owner back, and
    /// hands messages on to anybody.
    pub(super) fn misroute(&self, from: RingKey, message: &Message) -> Reaction {
        match message {
            Message::GetNear { id, point } => {
                let mut bytes = *point.as_bytes();
                bytes[0] ^= 0x80;
                let there = RingKey::from_bytes(bytes);
                let members = self.nearest(&there, self.g, |_| true);
                answer(Message::Near { id: *id, members })
            }
            Message::FindOwner { id, .. } => {
                let back = self.nearest(&from, 3, |_| true);
                answer(Message::Closer {
                    id: *id,
                    candidates: back,
                })
            }
            Message::Route {
                id,
                target,
                hops_left,
                payload,
            }
            | Message::Own {
                id,
                target,
                hops_left,
                payload,
                ..
            } => {
                let taken_on = Message::TakenOn { ids: vec![*id] };
                let mut said = vec![(from, taken_on)];
                // Back to the router that has handed it on, too: that would be its sender's own
                // word.
                for anybody in self.somebody_honest().into_iter().chain([from]) {
                    let on = Message::Route {
                        id: *id,
                        target: *target,
                        hops_left: hops_left.saturating_sub(1),
                        payload: payload.clone(),
                    };
                    said.push((anybody, on));
                }
                Reaction::Instead(said)
            }
            _ => Reaction::Honest,
        }
    }
}
