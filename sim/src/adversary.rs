//! [`Adversary`]: members that do not follow the protocol, and know of each other.
//!
//! A traitor runs the same member as everybody, so that it keeps its place in the ring; what comes
//! in from honest members is answered by the adversary, who knows the whole ring, where that does
//! harm. Traitors tell each other the truth.

mod astray;
mod tallies;
mod unasked;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use ringway_overlay::{Header, Message, Record, RingKey, View};

use crate::trust::{FirstBytes, MemberOf, Registry};
pub use tallies::LIE;
use unasked::Overheard;

/// What a traitor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers no question of a lookup, and nothing about its group.
    Silent,
    /// Names traitors only: around any point, in its view, as owners, as its successors.
    Collude,
    /// As [`Behaviour::Collude`], but names as many honest members as it takes to look as dense as
    /// the ring, and never those nearest to the point.
    Camouflage,
    /// Gives each asker another view of the same number.
    Equivocate,
    /// Is honest to those in its group, and colludes to all others.
    TwoFaced,
    /// Names members that do not exist.
    Invent,
    /// Says "pending" whenever it is asked for its state, and colludes otherwise.
    Pending,
    /// Answers half of all questions.
    Selective,
    /// Says to a member that looks for its own place that it stands where it belongs, and colludes
    /// otherwise: so the parts of a ring that was divided do not hear of each other. Not among
    /// [`Behaviour::ALL`]: there it would only be one that colludes.
    Hide,
    /// Is honest, but signs one stranger in eight another view of the same number, which names
    /// traitors only, if the stranger does not seem to know its view already. Not among
    /// [`Behaviour::ALL`]: lookups survive it easily; the question is when it is convicted.
    Furtive,
    /// Tells those next to it the truth and strangers a lie, as [`Behaviour::TwoFaced`], each with
    /// a start of its own: nothing convicts it. Not among [`Behaviour::ALL`]: it is one that is
    /// never found out.
    NewStarts,
    /// Shows the ring as it was when the traitors began: dead members, a view of long ago, old
    /// records.
    Stale,
    /// Names members far from the point, sends members that look for an owner back, and hands
    /// messages on to anybody.
    Misroute,
    /// Is honest, and says again to others what it was told, whatever it was.
    Replay,
    /// Is honest, and accuses honest members of what they have not done: in its own name, and in
    /// others'.
    Accuse,
    /// Is honest, and tells those who speak to it that it leaves the ring, now and then. (That
    /// *another* leaves it cannot say: links tell who speaks.)
    Leave,
}

impl Behaviour {
    /// All of them that hinder lookups, each in another way.
    pub const ALL: [Behaviour; 8] = [
        Behaviour::Silent,
        Behaviour::Collude,
        Behaviour::Camouflage,
        Behaviour::Equivocate,
        Behaviour::TwoFaced,
        Behaviour::Invent,
        Behaviour::Pending,
        Behaviour::Selective,
    ];

    /// Those that hinder lookups less, and try to confuse.
    pub const OTHERS: [Behaviour; 5] = [
        Behaviour::Stale,
        Behaviour::Misroute,
        Behaviour::Replay,
        Behaviour::Accuse,
        Behaviour::Leave,
    ];

    /// All of both kinds.
    pub const EVERY: [Behaviour; 13] = [
        Behaviour::Silent,
        Behaviour::Stale,
        Behaviour::Collude,
        Behaviour::Misroute,
        Behaviour::Camouflage,
        Behaviour::Replay,
        Behaviour::Equivocate,
        Behaviour::Accuse,
        Behaviour::TwoFaced,
        Behaviour::Leave,
        Behaviour::Invent,
        Behaviour::Pending,
        Behaviour::Selective,
    ];

    /// Whether it keeps what it is told to keep, and gives it out.
    fn is_honest_about_records(self) -> bool {
        matches!(
            self,
            Behaviour::Furtive | Behaviour::Replay | Behaviour::Accuse | Behaviour::Leave
        )
    }

    /// Whether a member that does it is convicted within seconds.
    #[must_use]
    pub fn shows(self) -> bool {
        matches!(self, Behaviour::Equivocate | Behaviour::Accuse)
    }
}

/// What becomes of a message to a traitor.
#[derive(Debug)]
pub enum Reaction {
    /// The traitor takes it as an honest member does.
    Honest,
    /// It is dropped.
    Nothing,
    /// This is the answer.
    Answer(Box<Message>),
    /// The traitor takes it as an honest member does, and says this to these.
    Besides(Vec<(RingKey, Message)>),
    /// It says this to these, and no more.
    Instead(Vec<(RingKey, Message)>),
}

/// All traitors together.
#[derive(Debug)]
pub struct Adversary {
    registry: Arc<Registry>,
    /// How wide a group looks honest: the share of the ring that the g nearest take up, with some
    /// tolerance.
    tolerance: f64,
    g: usize,
    traitors: BTreeMap<RingKey, Behaviour>,
    /// The same, found faster: it is asked for each message.
    known: HashMap<RingKey, Behaviour, BuildHasherDefault<FirstBytes>>,
    everybody: BTreeSet<RingKey>,
    /// The latest view that each has signed.
    said: BTreeMap<RingKey, View>,
    /// The first record that any of them was told to keep at a point: what they give out later is
    /// old.
    records: BTreeMap<RingKey, Record>,
    /// The same of counts.
    olds: tallies::Olds,
    /// Who was in the ring when a traitor first said what it was.
    past: BTreeSet<RingKey>,
    overheard: Overheard,
    coin: u64,
}

impl Adversary {
    /// No malicious routers yet. `g` is the size of groups.
    #[must_use]
    pub fn new(registry: &Arc<Registry>, g: usize) -> Adversary {
        Adversary {
            registry: Arc::clone(registry),
            tolerance: 1.3,
            g,
            traitors: BTreeMap::new(),
            known: HashMap::default(),
            everybody: BTreeSet::new(),
            said: BTreeMap::new(),
            records: BTreeMap::new(),
            olds: tallies::Olds::new(),
            past: BTreeSet::new(),
            overheard: Overheard::default(),
            coin: 0,
        }
    }

    /// Turns `key` into a traitor.
    pub fn recruit(&mut self, key: RingKey, behaviour: Behaviour) {
        self.traitors.insert(key, behaviour);
        self.known.insert(key, behaviour);
    }

    /// Somebody is in the ring.
    pub fn sees(&mut self, key: RingKey) {
        self.everybody.insert(key);
    }

    /// Somebody is no more.
    pub fn misses(&mut self, key: &RingKey) {
        self.everybody.remove(key);
    }

    /// What `key` does, if it is a traitor.
    #[must_use]
    pub fn behaviour(&self, key: &RingKey) -> Option<Behaviour> {
        self.known.get(key).copied()
    }

    /// Whether what a traitor wants to say by itself is kept back: its own announcements would give
    /// its lies away.
    #[must_use]
    pub fn keeps_back(&self, from: &RingKey, message: &Message) -> bool {
        self.known.contains_key(from)
            && matches!(
                message,
                Message::Announce { .. }
                    | Message::Witness { .. }
                    | Message::Evidence { .. }
                    | Message::FalseAccusation { .. }
                    | Message::Offer { .. }
                    | Message::Statement { .. }
            )
    }

    /// What becomes of `message`, which `from` sent to the traitor `me`.
    pub fn react(&mut self, me: RingKey, from: RingKey, message: &Message) -> Reaction {
        let Some(mut behaviour) = self.behaviour(&me) else {
            return Reaction::Honest;
        };
        if self.known.contains_key(&from) {
            return Reaction::Honest;
        }
        self.coin = self
            .coin
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if behaviour == Behaviour::Selective {
            let answers = self.coin >> 63 == 0;
            behaviour = if answers {
                return Reaction::Honest;
            } else {
                Behaviour::Silent
            };
        }
        if message.is_of_tallies() && !behaviour.is_honest_about_records() {
            return self.on_tally(behaviour, me, message);
        }
        match behaviour {
            Behaviour::Stale => self.stale(me, message),
            Behaviour::Misroute => self.misroute(from, message),
            Behaviour::Replay | Behaviour::Accuse | Behaviour::Leave => {
                self.overheard.take_in(message);
                self.unasked(behaviour, me, from)
            }
            _ => self.hinder(behaviour, me, from, message),
        }
    }

    /// What those say who hinder lookups.
    fn hinder(
        &mut self,
        behaviour: Behaviour,
        me: RingKey,
        from: RingKey,
        message: &Message,
    ) -> Reaction {
        match (behaviour, message) {
            (
                Behaviour::Silent,
                Message::GetNear { .. }
                | Message::GetView { .. }
                | Message::FindOwner { .. }
                | Message::Store { .. }
                | Message::Fetch { .. }
                | Message::Offer { .. }
                | Message::Route { .. }
                | Message::Own { .. }
                | Message::Reached { .. }
                | Message::Confirm { .. }
                | Message::Delivered { .. },
            ) => Reaction::Nothing,
            (Behaviour::Silent, _) => Reaction::Honest,
            (Behaviour::Furtive, Message::GetView { id, have }) => {
                let view = self.furtive_view(me, from, *have);
                answer(Message::ViewIs { id: *id, view })
            }
            (Behaviour::Furtive, _) => Reaction::Honest,
            (Behaviour::Pending, Message::GetState { id }) => answer(Message::Pending { id: *id }),
            (_, Message::GetState { id }) => answer(self.state(me, *id)),
            (_, Message::GetNear { id, point }) => {
                let members = self.lie(behaviour, &me, point);
                answer(Message::Near { id: *id, members })
            }
            (_, Message::GetView { id, .. }) => {
                let view = self.view(behaviour, me, from);
                answer(Message::ViewIs { id: *id, view })
            }
            (Behaviour::Hide, Message::FindOwner { id, target }) if *target == from => {
                let owners = vec![from];
                answer(Message::Owner { id: *id, owners })
            }
            (_, Message::FindOwner { id, target }) => {
                let owner = self.next_traitor(target);
                let owners = vec![owner.unwrap_or(me)];
                answer(Message::Owner { id: *id, owners })
            }
            (_, Message::Store { .. } | Message::Fetch { .. } | Message::Offer { .. }) => {
                self.withhold(message)
            }
            // Carries the message and its answer, and drops what confirms it.
            (Behaviour::Camouflage, Message::Confirm { .. }) => Reaction::Nothing,
            (Behaviour::Camouflage, Message::Route { .. } | Message::Own { .. }) => {
                Reaction::Honest
            }
            // Says that it has the message, that it is its own, or that it has reached its target,
            // and drops it.
            (Behaviour::Invent, Message::Route { id, .. } | Message::Own { id, .. })
                if id % 2 == 0 =>
            {
                answer(Message::Delivered { id: *id, clock: 1 })
            }
            (
                Behaviour::Invent,
                Message::Route { id, payload, .. } | Message::Own { id, payload, .. },
            ) => answer(Message::Reached {
                id: *id,
                label: *id,
                clock: *id,
                payload: payload.clone(),
            }),
            (_, Message::Route { id, .. } | Message::Own { id, .. }) => {
                answer(Message::TakenOn { ids: vec![*id] })
            }
            _ => Reaction::Honest,
        }
    }

    /// Says that every record is kept, wants none, and gives out the oldest there was, or none.
    fn withhold(&mut self, message: &Message) -> Reaction {
        match message {
            Message::Store { id, record } => {
                let author = <[u8; 32]>::try_from(record.certificate.as_slice());
                if let Ok(author) = author {
                    let point = Record::point(&author, &record.name);
                    self.records.entry(point).or_insert_with(|| record.clone());
                }
                let number = record.number;
                answer(Message::Stored { id: *id, number })
            }
            Message::Fetch { id, point } => {
                let record = self.records.get(point).cloned();
                answer(Message::Fetched { id: *id, record })
            }
            Message::Offer { id, .. } => answer(Message::Wanted {
                id: *id,
                points: Vec::new(),
            }),
            _ => Reaction::Honest,
        }
    }

    fn state(&self, me: RingKey, id: u64) -> Message {
        let after = self.traitors.range(me..).map(|(key, _)| *key).skip(1);
        let wrapped = self.traitors.keys().copied().filter(|key| *key < me);
        let successors = after.chain(wrapped).take(3).collect();
        Message::State {
            id,
            predecessor: None,
            successors,
        }
    }

    fn next_traitor(&self, target: &RingKey) -> Option<RingKey> {
        let next = self.traitors.range(target..).next();
        next.or_else(|| self.traitors.iter().next())
            .map(|(key, _)| *key)
    }

    /// The view that `me` gives to `from`, signed and in a chain of its own.
    fn view(&mut self, behaviour: Behaviour, me: RingKey, from: RingKey) -> View {
        let truth = self.nearest(&me, self.g, |_| true);
        let group = match behaviour {
            Behaviour::TwoFaced | Behaviour::NewStarts if truth.contains(&from) => truth,
            Behaviour::Invent => truth,
            _ => {
                let mut lie = self.lie(behaviour, &me, &me);
                if !lie.contains(&me) {
                    lie.push(me);
                }
                clockwise_around(&me, lie)
            }
        };
        let credentials = MemberOf::new(&self.registry, me);
        let expires = 2_000_000_000;
        if behaviour == Behaviour::NewStarts {
            let start = u128::from(self.coin).to_be_bytes();
            return View::sign(&credentials, me, (start, 1 << 33), None, expires, group);
        }
        let previous = self.said.get(&me);
        if behaviour != Behaviour::Equivocate
            && let Some(view) = previous.filter(|view| view.group == group)
        {
            return view.clone();
        }
        let number = match previous {
            Some(view) if behaviour == Behaviour::Equivocate => view.number(),
            Some(view) => view.number() + 1,
            None => 1 << 33,
        };
        let group = match previous {
            Some(view) if behaviour == Behaviour::Equivocate && view.group == group => {
                self.nearest(&me, self.g, |_| true)
            }
            _ => group,
        };
        let previous = previous.filter(|_| behaviour != Behaviour::Equivocate);
        let view = View::sign(
            &credentials,
            me,
            ([0; 16], number),
            previous,
            expires,
            group,
        );
        self.said.insert(me, view.clone());
        view
    }

    /// The truth, or, for one stranger in eight, a lie of the same number.
    fn furtive_view(&mut self, me: RingKey, from: RingKey, have: u64) -> View {
        let view = self.view(Behaviour::Invent, me, from);
        let stranger = have == 0 && !view.group.contains(&from);
        if !stranger || self.coin >> 61 != 0 {
            return view;
        }
        let mut lie = self.lie(Behaviour::Furtive, &me, &me);
        if !lie.contains(&me) {
            lie.push(me);
        }
        let group = clockwise_around(&me, lie);
        let credentials = MemberOf::new(&self.registry, me);
        let Header {
            number, expires, ..
        } = view.signed.header;
        View::sign(&credentials, me, ([0; 16], number), None, expires, group)
    }

    /// Whom a traitor names around `point`.
    fn lie(&self, behaviour: Behaviour, me: &RingKey, point: &RingKey) -> Vec<RingKey> {
        match behaviour {
            Behaviour::Invent => (0..self.g).map(|n| invented(point, n)).collect(),
            Behaviour::Camouflage => self.camouflaged(me, point),
            _ => {
                let mut named = self.nearest(point, self.g, |key| self.known.contains_key(key));
                if named.is_empty() {
                    named.push(*me);
                }
                named
            }
        }
    }

    /// Traitors, and the honest members that stand farthest from the point within what looks dense.
    fn camouflaged(&self, me: &RingKey, point: &RingKey) -> Vec<RingKey> {
        let wide = self.g.saturating_mul(3);
        let around = self.nearest(point, wide, |_| true);
        let spacing = 1.0 / f64::from(u32::try_from(self.everybody.len().max(1)).unwrap_or(1));
        let reach = self.tolerance * f64::from(u32::try_from(self.g).unwrap_or(1)) * spacing / 2.0;
        let distance = |key: &RingKey| point.share_to(key).min(key.share_to(point));
        let (traitors, mut honest): (Vec<RingKey>, Vec<RingKey>) = around
            .into_iter()
            .filter(|key| distance(key) <= reach)
            .partition(|key| self.known.contains_key(key));
        honest.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        let missing = self.g.saturating_sub(traitors.len());
        let mut named: Vec<RingKey> = traitors;
        named.extend(honest.into_iter().take(missing));
        if named.is_empty() {
            named.push(*me);
        }
        clockwise_around(point, named)
    }

    /// The `count` nearest of those who qualify: half before the point, half at or after it;
    /// clockwise.
    fn nearest(
        &self,
        point: &RingKey,
        count: usize,
        qualifies: impl Fn(&RingKey) -> bool,
    ) -> Vec<RingKey> {
        nearest_of(&self.everybody, point, count, qualifies)
    }
}

/// The `count` nearest of `members` who qualify.
fn nearest_of(
    members: &BTreeSet<RingKey>,
    point: &RingKey,
    count: usize,
    qualifies: impl Fn(&RingKey) -> bool,
) -> Vec<RingKey> {
    let after = members.range(point..).chain(members.range(..point));
    let before = members.range(..point).rev();
    let before = before.chain(members.range(point..).rev());
    let half = count / 2;
    let mut group: Vec<RingKey> = before
        .filter(|key| qualifies(key))
        .take(half)
        .copied()
        .collect();
    group.extend(
        after
            .filter(|key| qualifies(key))
            .take(count - half)
            .copied(),
    );
    clockwise_around(point, group)
}

fn answer(message: Message) -> Reaction {
    Reaction::Answer(Box::new(message))
}

/// Without duplicates, clockwise, so that `point` is in the middle.
fn clockwise_around(point: &RingKey, mut keys: Vec<RingKey>) -> Vec<RingKey> {
    keys.sort_unstable_by_key(|key| point.distance_to(key));
    keys.dedup();
    let before = keys
        .iter()
        .position(|key| key.share_to(point) < 0.5 && key != point);
    keys.rotate_left(before.unwrap_or(0));
    keys
}

/// A key that no owner has certified, near `point`.
fn invented(point: &RingKey, n: usize) -> RingKey {
    let mut bytes = *point.as_bytes();
    let n = u8::try_from(n).unwrap_or(u8::MAX);
    bytes[30] = bytes[30].wrapping_add(1);
    bytes[31] = n;
    RingKey::from_bytes(bytes)
}
