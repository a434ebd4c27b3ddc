//! This member's own group, and the views exchanged with those in it.
//!
//! A neighbour is a member of the own group that has answered itself. Whoever is named by others,
//! or takes part in ring maintenance, is asked for its view first. One neighbour is asked after the
//! other, the one that has been silent for longest first; a view that changes is announced to all
//! of them at once.
//!
//! Neighbours keep the successor list right where the first successor lies: those that have
//! answered lately belong into it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::chord::Chord;
use crate::credentials::Standing;
use crate::group::around;
use crate::key::{RingKey, between};
use crate::limits::{MAX_STRANGERS, STRANGER_PAUSE, VIEW_GRACE, VIEW_LIFETIME, VIEW_PAUSE};
use crate::lookup::DENSE;
use crate::message::{Message, RequestId};
use crate::request::Purpose;
use crate::view::{Start, View};

#[derive(Debug)]
struct Neighbour {
    heard: Instant,
    view: View,
}

/// The own group. It is empty outside the ring, and for a member without credentials.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    members: BTreeMap<RingKey, Neighbour>,
    /// The own group as it follows from that, this member included.
    group: Vec<RingKey>,
    view: Option<View>,
    /// The number of the view that this member has signed last.
    pub(crate) number: u64,
    /// Which start of this member that was.
    pub(crate) start: Start,
    /// When the last new start began without an end of the process.
    pub(crate) started_over: Option<Instant>,
    /// What clock and date were when this member had something to sign last.
    pub(crate) date: Option<(Instant, u64)>,
    next: Option<Instant>,
    /// When gaps may be looked into again.
    look_again: Option<Instant>,
    /// When the own view is to be signed anew.
    sign_at: Option<Instant>,
    signed: Option<Instant>,
    /// Who was asked for its view and cannot be taken in, until when it is not asked again.
    strangers: VecDeque<(RingKey, Instant)>,
    /// Views that have come since this member is outside the ring and had ended by its clock.
    pub(crate) ended: u32,
}

impl Neighbours {
    pub(crate) fn begin(&mut self, now: Instant) {
        self.stop();
        self.next = Some(now);
        self.sign_at = Some(now);
    }

    pub(crate) fn stop(&mut self) {
        *self = Neighbours {
            number: self.number,
            start: self.start,
            started_over: self.started_over,
            date: self.date,
            view: self.view.take(),
            ..Neighbours::default()
        };
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

    pub(crate) fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The latest view of a neighbour.
    pub(crate) fn view_of(&self, key: &RingKey) -> Option<&View> {
        self.members.get(key).map(|neighbour| &neighbour.view)
    }

    fn cannot_take(&mut self, now: Instant, key: RingKey) {
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
}

impl Chord {
    /// This member's group: itself and the neighbours around it, clockwise.
    pub(crate) fn own_group(&self) -> &[RingKey] {
        if self.neighbours.group.is_empty() {
            std::slice::from_ref(&self.me)
        } else {
            &self.neighbours.group
        }
    }

    fn regroup(&mut self) {
        let keys = self.neighbours.keys().chain([self.me]);
        self.neighbours.group = around(&self.me, self.config.group, keys);
    }

    /// Whether the ring is so small that all its members are in the own group: then no neighbour
    /// names anybody else, and no finger holds anybody else.
    pub(crate) fn knows_everybody(&self) -> bool {
        let group = self.own_group();
        let named = self.neighbours.members.values();
        let mut named = named.flat_map(|neighbour| neighbour.view.group.iter());
        let alone = self.ring.successors.is_empty() && self.ring.predecessor.is_none();
        group.len() < self.config.group
            && (alone || group.len() > 1)
            && self.ring.successors.iter().all(|key| group.contains(key))
            && named.all(|key| group.contains(key))
            && self.fingers.keys().all(|key| group.contains(&key))
    }

    pub(crate) fn group_due(&mut self, now: Instant) {
        if self.credentials.is_none() || !self.is_member() {
            return;
        }
        let due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if due(self.neighbours.next) {
            let pause = self.config.group_interval.mul_f64(self.doubt());
            let pause = self.jittered(pause);
            self.neighbours.next = Some(now + pause);
            self.ask_a_neighbour(now);
        }
        if due(self.neighbours.sign_at) {
            self.sign_view(now);
        }
    }

    fn ask_a_neighbour(&mut self, now: Instant) {
        let quiet = self.neighbours.members.iter();
        let quietest = quiet
            .min_by_key(|(_, neighbour)| neighbour.heard)
            .map(|(key, _)| *key);
        if let Some(key) = quietest {
            self.contact(now, key);
        }
        self.consider_pointers(now);
        // Silent neighbours hide those behind them; from elsewhere they can be seen.
        if self.neighbours.look_again.is_some_and(|at| at > now) {
            return;
        }
        let gaps = self.density().stretch(self.own_group()) > DENSE;
        if gaps && !self.knows_everybody() {
            let pause = self.config.group_interval.mul_f64(8.0 * self.doubt());
            self.neighbours.look_again = Some(now + pause);
            self.start_own_lookup(now);
        }
    }

    /// Asks the members that ring maintenance points to, if they belong to the own group.
    pub(crate) fn consider_pointers(&mut self, now: Instant) {
        let pointers = self.ring.successors.iter().copied();
        let pointers: Vec<RingKey> = pointers.chain(self.ring.predecessor).collect();
        for key in pointers {
            self.consider(now, key);
        }
    }

    /// Asks `key` for its view, if it would be in the own group and is not yet. Outside the ring
    /// there is no group, and nobody is asked.
    pub(crate) fn consider(&mut self, now: Instant, key: RingKey) {
        if !self.is_member() || self.neighbours.contains(&key) || !self.belongs(&key) {
            return;
        }
        if self.neighbours.is_stranger(now, &key) {
            return;
        }
        if self.peers.is_suspect(now, &key) || self.standing(&key) != Standing::Certified {
            return;
        }
        self.contact(now, key);
    }

    /// Whether `key` is among the nearest of this member and those it knows around it.
    fn belongs(&self, key: &RingKey) -> bool {
        let group = self.own_group();
        let balanced = group.get(self.config.group / 2) == Some(&self.me);
        if group.len() == self.config.group
            && balanced
            && let (Some(first), Some(last)) = (group.first(), group.last())
            && !between(first, key, last)
        {
            return false;
        }
        let keys = self.neighbours.keys().chain([self.me, *key]);
        *key != self.me && around(&self.me, self.config.group, keys).contains(key)
    }

    pub(crate) fn contact(&mut self, now: Instant, key: RingKey) {
        if self.requests.is_open(&key, Purpose::Contact) {
            return;
        }
        let have = self.neighbours.view_of(&key).map_or(0, View::number);
        self.request(now, key, Purpose::Contact, |id| Message::GetView {
            id,
            have,
        });
    }

    pub(crate) fn answer_view(&mut self, now: Instant, from: RingKey, id: RequestId, have: u64) {
        let answer = match self.neighbours.view() {
            _ if !self.is_member() => Message::NotMember { id },
            None => Message::NotMember { id },
            Some(view) if view.number() == have => Message::Unchanged { id },
            Some(view) => Message::ViewIs {
                id,
                view: view.clone(),
            },
        };
        self.send(from, answer);
        self.others_have(now, have);
        // It lives. Whether it is in the ring says its own answer.
        self.consider(now, from);
    }

    pub(crate) fn contact_answered(&mut self, now: Instant, from: RingKey, answer: Message) {
        match answer {
            Message::ViewIs { view, .. } => self.view_came(now, from, view),
            Message::Unchanged { .. } => {
                if let Some(neighbour) = self.neighbours.members.get_mut(&from) {
                    neighbour.heard = now;
                }
            }
            _ => {
                self.neighbours.cannot_take(now, from);
                self.neighbour_gone(now, &from);
            }
        }
    }

    /// A member says what its group is.
    pub(crate) fn view_came(&mut self, now: Instant, from: RingKey, view: View) {
        if !self.is_member() || view.author() != from || !self.holds(now, &view) {
            self.neighbours.cannot_take(now, from);
            self.counters.malformed += 1;
            return;
        }
        self.compare(now, &view.signed);
        let known = self.neighbours.view_of(&from).map_or(0, View::number);
        if self.is_convicted(&from) || view.number() < known {
            return;
        }
        let named = view.group.clone();
        if self.neighbours.contains(&from) || self.belongs(&from) {
            let start = view.signed.header.incarnation();
            let neighbour = Neighbour { heard: now, view };
            let before = self.neighbours.members.insert(from, neighbour);
            if before.is_none() {
                self.keep_the_nearest(now);
            }
            let started = |before: Neighbour| before.view.signed.header.incarnation();
            if before.map(started) != Some(start) {
                self.offer_records(now, from);
                self.tell_convictions(from);
            }
            for key in named {
                self.consider(now, key);
            }
        }
    }

    /// Whether a view is well formed, signed by its author, and has not ended for long.
    pub(crate) fn holds(&mut self, now: Instant, view: &View) -> bool {
        let Some(credentials) = &self.credentials else {
            return false;
        };
        let credentials = credentials.as_ref();
        let unix = credentials.unix_time(now);
        let current = view.is_current(unix.saturating_sub(VIEW_GRACE.as_secs()));
        let holds = current && view.is_valid(credentials);
        if !current {
            self.neighbours.ended = self.neighbours.ended.saturating_add(1);
        }
        holds
    }

    pub(crate) fn neighbour_gone(&mut self, now: Instant, key: &RingKey) {
        if self.neighbours.members.remove(key).is_none() {
            return;
        }
        self.neighbour_lost(now);
        self.regroup();
        self.group_changed(now);
        let views = self.neighbours.members.values().map(|n| &n.view);
        let named: Vec<RingKey> = views.flat_map(|view| view.group.iter().copied()).collect();
        for key in named {
            self.consider(now, key);
        }
        self.consider_pointers(now);
    }

    fn keep_the_nearest(&mut self, now: Instant) {
        self.regroup();
        let Neighbours { members, group, .. } = &mut self.neighbours;
        members.retain(|key, _| group.contains(key));
        self.group_changed(now);
    }

    /// The own view has to be signed anew, but not too often.
    fn group_changed(&mut self, now: Instant) {
        let earliest = self.neighbours.signed;
        let earliest = earliest.map_or(now, |at| at + VIEW_PAUSE.mul_f64(self.doubt()));
        self.neighbours.sign_at = Some(earliest.max(now));
    }

    /// The next view is signed even if nothing in it changes.
    pub(crate) fn sign_anew(&mut self, now: Instant) {
        self.group_changed(now);
    }

    fn sign_view(&mut self, now: Instant) {
        let unix = self.credentials.as_ref().map(|c| c.unix_time(now));
        self.look_at_the_date(now, unix.unwrap_or_default());
        let group = self.own_group().to_vec();
        let Some(credentials) = &self.credentials else {
            return;
        };
        let credentials = credentials.as_ref();
        let unix = credentials.unix_time(now);
        let view = self.neighbours.view.as_ref();
        let lasts = |view: &View| view.is_current(unix.saturating_add(VIEW_LIFETIME.as_secs() / 2));
        let start = self.neighbours.start;
        let same = |view: &View| view.signed.header.start == start && view.group == group;
        let same = view.is_some_and(|view| same(view) && lasts(view));
        self.neighbours.sign_at = Some(now + VIEW_LIFETIME / 2);
        if same {
            return;
        }
        let number = self.neighbours.number.wrapping_add(1);
        let expires = unix.saturating_add(VIEW_LIFETIME.as_secs());
        let view = View::sign(credentials, self.me, (start, number), view, expires, group);
        self.neighbours.number = number;
        self.neighbours.signed = Some(now);
        self.neighbours.view = Some(view.clone());
        let neighbours: Vec<RingKey> = self.neighbours.keys().collect();
        for key in neighbours {
            let view = view.clone();
            self.send(key, Message::Announce { view });
        }
    }

    /// Whether a neighbour has answered within two rounds of stabilisation.
    pub(crate) fn answered_lately(&self, now: Instant, key: &RingKey) -> bool {
        let time = self.config.stabilise_interval.saturating_mul(2);
        self.neighbours.is_fresh(now, key, time) && !self.peers.is_suspect(now, key)
    }

    /// Whether a neighbour has answered since all have been asked once, as one is after the other.
    pub(crate) fn answered_in_this_pass(&self, now: Instant, key: &RingKey) -> bool {
        let group = u32::try_from(self.config.group).unwrap_or(u32::MAX);
        let time = self.config.group_interval.saturating_mul(group);
        self.neighbours.is_fresh(now, key, time) && !self.peers.is_suspect(now, key)
    }
}
