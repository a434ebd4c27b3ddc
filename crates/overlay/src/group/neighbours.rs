//! This member's own group, and the views exchanged with those in it.
//!
//! A neighbour is a member of the own group that has answered itself. A member that is named by
//! others, or takes part in ring maintenance, is asked for its view first. One neighbour is asked
//! after the other, the one that has been silent for longest first; a view that changes is
//! announced to all of them at once.
//!
//! Neighbours keep the successor list right where the first successor lies: those that have
//! answered lately belong into it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::around;
use super::start::Starts;
use crate::context::Cx;
use crate::effect::Effect;
use crate::event::LookupFailure;
use crate::key::{RingKey, between};
use crate::limits::{MAX_STRANGERS, STRANGER_PAUSE, VIEW_LIFETIME, VIEW_PAUSE};
use crate::lookup::inquiry::{Around, Found};
use crate::message::{Message, RequestId};
use crate::request::Purpose;
use crate::ring::pointers::Pointers;
use crate::view::View;

#[derive(Debug)]
struct Neighbour {
    heard: Instant,
    view: View,
}

/// What follows from a neighbour's view.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Whether the neighbour is new, or has started again.
    pub(crate) starts: bool,
    /// Whom it names: they may be neighbours, too.
    pub(crate) named: Vec<RingKey>,
}

/// The own group. It is empty outside the ring, and for a member without credentials.
#[derive(Debug)]
pub(crate) struct Neighbours {
    me: RingKey,
    /// Members of a whole group.
    size: usize,
    members: BTreeMap<RingKey, Neighbour>,
    /// The own group as it follows from that, this member included.
    group: Vec<RingKey>,
    view: Option<View>,
    starts: Starts,
    next: Option<Instant>,
    /// When gaps may be looked into again.
    look_again: Option<Instant>,
    /// When the own view is to be signed again.
    sign_at: Option<Instant>,
    signed: Option<Instant>,
    /// Who was asked for its view and cannot be taken in, until when it is not asked again.
    strangers: VecDeque<(RingKey, Instant)>,
}

impl Neighbours {
    /// Without neighbours. `size`: how many a whole group has, this member among them. `seed` is
    /// what starts are drawn from.
    pub(crate) fn new(me: RingKey, size: usize, seed: [u8; 32]) -> Neighbours {
        Neighbours {
            me,
            size,
            members: BTreeMap::new(),
            group: vec![me],
            view: None,
            starts: Starts::new(seed),
            next: None,
            look_again: None,
            sign_at: None,
            signed: None,
            strangers: VecDeque::new(),
        }
    }

    /// The first view of this start will have the number after `incarnation`.
    pub(crate) fn begin_start(&mut self, incarnation: u32) {
        self.starts.begin(incarnation);
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.stop();
        self.next = Some(now);
        self.sign_at = Some(now);
    }

    pub(crate) fn stop(&mut self) {
        self.members.clear();
        self.group = vec![self.me];
        self.next = None;
        self.look_again = None;
        self.sign_at = None;
        self.signed = None;
        self.strangers.clear();
    }

    pub(crate) fn me(&self) -> RingKey {
        self.me
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// This member's group: itself and the neighbours around it, clockwise.
    pub(crate) fn members(&self) -> &[RingKey] {
        &self.group
    }

    /// Whom the neighbours name in their views, each as often as it is named.
    pub(crate) fn named(&self) -> impl Iterator<Item = &RingKey> {
        let views = self.members.values();
        views.flat_map(|neighbour| neighbour.view.group.iter())
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        [self.next, self.sign_at].into_iter().flatten().min()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = RingKey> {
        self.members.keys().copied()
    }

    pub(crate) fn contains(&self, key: &RingKey) -> bool {
        self.members.contains_key(key)
    }

    /// The latest view of a neighbour.
    pub(crate) fn view_of(&self, key: &RingKey) -> Option<&View> {
        self.members.get(key).map(|neighbour| &neighbour.view)
    }

    fn note_stranger(&mut self, now: Instant, key: RingKey) {
        self.strangers.retain(|(stranger, _)| *stranger != key);
        self.strangers.push_back((key, now + STRANGER_PAUSE));
        if self.strangers.len() > MAX_STRANGERS {
            self.strangers.pop_front();
        }
    }

    fn is_stranger(&self, now: Instant, key: &RingKey) -> bool {
        let mut strangers = self.strangers.iter();
        strangers.any(|(stranger, until)| stranger == key && *until > now)
    }

    /// Whether the neighbour has answered lately enough to be pointed to.
    fn is_fresh(&self, now: Instant, key: &RingKey, time: Duration) -> bool {
        let heard = self.members.get(key).map(|neighbour| neighbour.heard);
        heard.is_some_and(|heard| now.saturating_duration_since(heard) <= time)
    }

    fn regroup(&mut self) {
        let keys = self.keys().chain([self.me]);
        self.group = around(&self.me, self.size, keys);
    }

    /// Asks the neighbour that has been silent for longest, if it is time to. True if it is also
    /// time to look at the group from elsewhere: silent neighbours hide those behind them.
    pub(crate) fn ask_due(&mut self, cx: &mut Cx<'_>, pointers: &Pointers) -> bool {
        if !self.acts(cx) || self.next.is_none_or(|next| next > cx.now) {
            return false;
        }
        let pause = cx.config.group_interval.mul_f64(cx.health_multiplier());
        let pause = cx.jittered(pause);
        self.next = Some(cx.now + pause);
        let members = self.members.iter();
        let quietest = members.min_by_key(|(_, neighbour)| neighbour.heard);
        if let Some(key) = quietest.map(|(key, _)| *key) {
            self.contact(cx, key);
        }
        self.consider_pointers(cx, pointers);
        self.look_again.is_none_or(|at| at <= cx.now)
    }

    /// The group is being looked up from elsewhere: not again for a while.
    pub(crate) fn looked_up(&mut self, cx: &Cx<'_>) {
        let pause = cx
            .config
            .group_interval
            .mul_f64(8.0 * cx.health_multiplier());
        self.look_again = Some(cx.now + pause);
    }

    /// The lookup of the own key has ended: those around it may be neighbours.
    pub(crate) fn group_looked_up(&self, cx: &mut Cx<'_>, result: Result<Found, LookupFailure>) {
        if let Ok(Found {
            around: Around::Views(views),
            ..
        }) = result
        {
            views.group.iter().for_each(|key| self.consider(cx, *key));
        }
    }

    /// Signs and announces the own view, if it is time to.
    pub(crate) fn sign_due(&mut self, cx: &mut Cx<'_>) {
        if self.acts(cx) && self.sign_at.is_some_and(|at| at <= cx.now) {
            self.sign_view(cx);
        }
    }

    fn acts(&self, cx: &Cx<'_>) -> bool {
        cx.member && cx.trust.has_credentials()
    }

    /// Asks the members that ring maintenance points to, if they belong to the own group.
    fn consider_pointers(&self, cx: &mut Cx<'_>, pointers: &Pointers) {
        pointers.keys().for_each(|key| self.consider(cx, key));
    }

    /// Asks `key` for its view, if it would be in the own group and is not yet. Outside the ring
    /// there is no group, and no member is asked.
    pub(crate) fn consider(&self, cx: &mut Cx<'_>, key: RingKey) {
        if !cx.member || self.contains(&key) || !self.belongs(&key) {
            return;
        }
        if self.is_stranger(cx.now, &key) || cx.is_suspect(&key) || !cx.trust.is_usable(&key) {
            return;
        }
        self.contact(cx, key);
    }

    /// Whether `key` is among the nearest of this member and those it knows around it.
    fn belongs(&self, key: &RingKey) -> bool {
        let (group, g) = (self.members(), self.size);
        let balanced = group.get(g / 2) == Some(&self.me);
        // A whole group with this member in its middle has room only between its ends.
        if group.len() == g
            && balanced
            && let (Some(first), Some(last)) = (group.first(), group.last())
            && !between(first, key, last)
        {
            return false;
        }
        let keys = self.keys().chain([self.me, *key]);
        *key != self.me && around(&self.me, g, keys).contains(key)
    }

    /// Asks `key` for its view, unless it is being asked.
    pub(crate) fn contact(&self, cx: &mut Cx<'_>, key: RingKey) {
        if cx.requests.is_open(&key, Purpose::Contact) {
            return;
        }
        let have = self.view_of(&key).map_or(0, View::number);
        cx.request(key, Purpose::Contact, |id| Message::GetView { id, have });
    }

    pub(crate) fn answer_view(&mut self, cx: &mut Cx<'_>, from: RingKey, id: RequestId, have: u64) {
        let answer = match &self.view {
            _ if !cx.member => Message::NotMember { id },
            None => Message::NotMember { id },
            Some(view) if view.number() == have => Message::Unchanged { id },
            Some(view) => Message::ViewIs {
                id,
                view: view.clone(),
            },
        };
        cx.send(from, answer);
        if self.starts.others_have(cx, have) && cx.member {
            self.group_changed(cx);
        }
        // It lives. Whether it is in the ring says its own answer.
        self.consider(cx, from);
    }

    pub(crate) fn contact_answered(
        &mut self,
        cx: &mut Cx<'_>,
        pointers: &Pointers,
        from: RingKey,
        answer: Message,
    ) {
        match answer {
            Message::Unchanged { .. } => {
                if let Some(neighbour) = self.members.get_mut(&from) {
                    neighbour.heard = cx.now;
                }
            }
            _ => {
                // It is alive and no member: to ask it again at once would be no use.
                self.note_stranger(cx.now, from);
                self.remove(cx, pointers, &from);
            }
        }
    }

    /// Whether the view that `from` has sent is its own, and holds. Before it counts it has to be
    /// compared with what its author said before.
    pub(crate) fn accepts(&mut self, cx: &mut Cx<'_>, from: RingKey, view: &View) -> bool {
        let accepted = cx.member && view.author() == from && cx.trust.accepts(cx.now, view);
        if !accepted {
            self.note_stranger(cx.now, from);
            cx.count_malformed();
        }
        accepted
    }

    /// Takes in a view that has been accepted and compared: its author may have been convicted.
    /// None if it changes nothing.
    pub(crate) fn take_view(&mut self, cx: &Cx<'_>, view: View) -> Option<Taken> {
        let from = view.author();
        let known = self.view_of(&from).map_or(0, View::number);
        if cx.trust.is_convicted(&from) || view.number() < known {
            return None;
        }
        if !self.contains(&from) && !self.belongs(&from) {
            return None;
        }
        let named = view.group.clone();
        let start = view.signed.header.incarnation();
        let heard = cx.now;
        let before = self.members.insert(from, Neighbour { heard, view });
        // Only a newcomer can push others out of the group.
        if before.is_none() {
            self.keep_the_nearest(cx);
        }
        let started = |before: Neighbour| before.view.signed.header.incarnation();
        Some(Taken {
            starts: before.map(started) != Some(start),
            named,
        })
    }

    /// `key` is no neighbour any more. Others that were behind it may be.
    pub(crate) fn remove(&mut self, cx: &mut Cx<'_>, pointers: &Pointers, key: &RingKey) {
        if self.members.remove(key).is_none() {
            return;
        }
        cx.effect(Effect::NeighbourLost);
        self.regroup();
        self.group_changed(cx);
        let named: Vec<RingKey> = self.named().copied().collect();
        for key in named {
            self.consider(cx, key);
        }
        self.consider_pointers(cx, pointers);
    }

    fn keep_the_nearest(&mut self, cx: &Cx<'_>) {
        self.regroup();
        let Neighbours { members, group, .. } = self;
        members.retain(|key, _| group.contains(key));
        self.group_changed(cx);
    }

    /// Has views be of version 1, or of the present one.
    pub(crate) fn set_earlier(&mut self, cx: &Cx<'_>, earlier: bool) {
        if self.starts.set_earlier(earlier) {
            self.group_changed(cx);
        }
    }

    /// The own view has to be signed again, but not too often.
    fn group_changed(&mut self, cx: &Cx<'_>) {
        let earliest = self.signed;
        let earliest =
            earliest.map_or(cx.now, |at| at + VIEW_PAUSE.mul_f64(cx.health_multiplier()));
        self.sign_at = Some(earliest.max(cx.now));
    }

    fn sign_view(&mut self, cx: &mut Cx<'_>) {
        let Some(unix) = cx.trust.unix_time(cx.now) else {
            return;
        };
        self.starts.check_date(cx, unix);
        let start = self.starts.start();
        let lasts = |view: &View| view.is_current(unix.saturating_add(VIEW_LIFETIME.as_secs() / 2));
        let same = |view: &View| view.signed.header.start == start && view.group == self.group;
        let valid = self
            .view
            .as_ref()
            .is_some_and(|view| same(view) && lasts(view));
        // Early enough that others never hold one that has ended.
        self.sign_at = Some(cx.now + VIEW_LIFETIME / 2);
        let Some(credentials) = cx.trust.credentials().filter(|_| !valid) else {
            return;
        };
        let numbered = (start, self.starts.next_number());
        let expires = unix.saturating_add(VIEW_LIFETIME.as_secs());
        let (before, group) = (self.view.as_ref(), self.group.clone());
        let view = View::sign(credentials, self.me, numbered, before, expires, group);
        self.starts.count_view();
        self.signed = Some(cx.now);
        for key in self.keys() {
            let view = view.clone();
            cx.send(key, Message::Announce { view });
        }
        self.view = Some(view);
    }

    /// Whether a neighbour has answered within two rounds of stabilisation.
    pub(crate) fn answered_lately(&self, cx: &Cx<'_>, key: &RingKey) -> bool {
        let time = cx.config.stabilise_interval.saturating_mul(2);
        self.is_fresh(cx.now, key, time) && !cx.is_suspect(key)
    }

    /// Whether a neighbour has answered since all have been asked once, as one is after the other.
    pub(crate) fn answered_in_this_pass(&self, cx: &Cx<'_>, key: &RingKey) -> bool {
        let group = u32::try_from(cx.config.group).unwrap_or(u32::MAX);
        let time = cx.config.group_interval.saturating_mul(group);
        self.is_fresh(cx.now, key, time) && !cx.is_suspect(key)
    }
}
