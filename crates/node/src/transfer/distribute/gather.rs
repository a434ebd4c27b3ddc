//! The receiver's part: which piece is asked of which other receiver, and what the sender is asked
//! for. No input or output, no clock: `now` is the time since the attempt began.
//!
//! Commands: [`Gatherer::name`], [`Gatherer::shun`]. Input: the `handle_*`. Output:
//! [`Gatherer::poll_dial`], [`Gatherer::poll_get`], [`Gatherer::poll_wants`]. After each input and
//! when time has passed, all of them are called until they give nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pieces::{Division, Pieces};
use crate::limits::{
    ASKERS, GIVER_PATIENCE, GIVER_RATE, GIVERS_ASKED, PIECES_AHEAD, PIECES_ASKED, SHARERS,
    WANT_AFTER,
};

/// How far it is with one other receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Named,
    Asked,
    /// It has lied, was silent, refused or is gone: for this transfer it is asked no more.
    Shunned,
}

#[derive(Debug)]
struct Giver {
    stage: Stage,
    /// Whether it asks this one.
    asks: bool,
    has: Pieces,
    /// What it was asked for, and when.
    asked: BTreeMap<u32, Duration>,
}

/// Which piece is asked of which other receiver; these are known by a `G`.
#[derive(Debug)]
pub(super) struct Gatherer<G> {
    division: Division,
    has: Pieces,
    /// In the order in which they came, to be told on.
    came: Vec<u32>,
    givers: BTreeMap<G, Giver>,
    /// What was asked of any of them.
    asked: Pieces,
    /// How many of those that are asked have each piece.
    copies: Vec<u32>,
    /// What the sender was asked for.
    wanted: Pieces,
    /// Makes receivers that know the same ask for different pieces.
    salt: u64,
    /// When the span began that is looked at now, of [`WANT_AFTER`].
    span: Duration,
    /// Bytes that came in it from the sender, and from others.
    by_sender: u64,
    by_others: u64,
    /// Whether the sender gave anything in it that it was not asked for.
    unasked: bool,
    /// The most bytes that the sender gave in one span.
    best: u64,
    /// Whether others give too little, so that the sender gives what is missing.
    leans: bool,
}

impl<G: Copy + Ord> Gatherer<G> {
    /// One that `has` these pieces. `salt` is random.
    pub(super) fn new(division: Division, has: Pieces, salt: u64) -> Gatherer<G> {
        Gatherer {
            division,
            came: has.iter().collect(),
            givers: BTreeMap::new(),
            asked: Pieces::none(division.count()),
            copies: vec![0; usize::try_from(division.count()).unwrap_or(0)],
            wanted: Pieces::none(division.count()),
            has,
            salt,
            span: Duration::ZERO,
            by_sender: 0,
            by_others: 0,
            unasked: false,
            best: 0,
            leans: false,
        }
    }

    pub(super) fn has(&self, piece: u32) -> bool {
        self.has.contains(piece)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.has.is_all()
    }

    /// The pieces that came behind the first `known`, to be told to one that knows those, and how
    /// many it knows then.
    pub(super) fn news(&self, known: usize) -> (Pieces, usize) {
        let mut pieces = Pieces::none(self.division.count());
        for piece in self.came.get(known..).unwrap_or_default() {
            pieces.add(*piece);
        }
        (pieces, self.came.len())
    }

    /// The sender names others that have accepted the file.
    pub(super) fn name(&mut self, others: impl IntoIterator<Item = G>) {
        for other in others {
            if self.givers.len() >= SHARERS {
                return;
            }
            let count = self.division.count();
            self.givers.entry(other).or_insert_with(|| Giver {
                stage: Stage::Named,
                asks: false,
                has: Pieces::none(count),
                asked: BTreeMap::new(),
            });
        }
    }

    /// Another receiver asks this one. So it is asked as well: who comes last would be asked by
    /// none otherwise, as all have others to ask by then.
    pub(super) fn handle_asker(&mut self, other: G) {
        self.name([other]);
        if let Some(giver) = self.givers.get_mut(&other) {
            giver.asks = true;
        }
    }

    /// Another receiver that is to be asked from now on.
    pub(super) fn poll_dial(&mut self) -> Option<G> {
        if self.is_complete() {
            return None;
        }
        let asked = |asks: bool| {
            let givers = self.givers.values();
            let asked = givers.filter(|giver| giver.stage == Stage::Asked && giver.asks == asks);
            asked.count()
        };
        let (by_choice, in_return) = (asked(false) < GIVERS_ASKED, asked(true) < ASKERS);
        let salt = self.salt;
        let named = (0_u64..).zip(self.givers.iter_mut());
        let named = named.filter(|(_, (_, giver))| {
            giver.stage == Stage::Named && if giver.asks { in_return } else { by_choice }
        });
        let (_, (name, giver)) = named.min_by_key(|(place, _)| mixed(salt, *place))?;
        giver.stage = Stage::Asked;
        Some(*name)
    }

    /// One that lied, was silent, refused or is gone. What it was asked for is asked of others.
    pub(super) fn shun(&mut self, giver: G) {
        let Some(giver) = self.givers.get_mut(&giver) else {
            return;
        };
        giver.stage = Stage::Shunned;
        for (piece, _) in std::mem::take(&mut giver.asked) {
            self.asked.remove(piece);
        }
        for piece in giver.has.iter() {
            if let Some(copies) = place(piece).and_then(|place| self.copies.get_mut(place)) {
                *copies = copies.saturating_sub(1);
            }
        }
        giver.has = Pieces::none(self.division.count());
    }

    pub(super) fn is_shunned(&self, giver: G) -> bool {
        let giver = self.givers.get(&giver);
        giver.is_none_or(|giver| giver.stage == Stage::Shunned)
    }

    /// One says that it has these pieces as well.
    pub(super) fn handle_has(&mut self, giver: G, pieces: &Pieces) {
        let asked = self.givers.get_mut(&giver);
        let Some(giver) = asked.filter(|giver| giver.stage == Stage::Asked) else {
            return;
        };
        for piece in pieces.iter().filter(|piece| giver.has.add(*piece)) {
            if let Some(copies) = place(piece).and_then(|place| self.copies.get_mut(place)) {
                *copies += 1;
            }
        }
    }

    /// A piece is here and proven; none gave it but the sender if there is no `giver`. Whether it
    /// was missing.
    pub(super) fn handle_piece(&mut self, giver: Option<G>, piece: u32) -> bool {
        let bytes = self.division.bytes(piece);
        // Asked of another meanwhile, it may come twice.
        match giver {
            Some(giver) => {
                self.by_others = self.by_others.saturating_add(bytes);
                if let Some(giver) = self.givers.get_mut(&giver)
                    && giver.asked.remove(&piece).is_some()
                {
                    self.asked.remove(piece);
                }
            }
            None => {
                self.by_sender = self.by_sender.saturating_add(bytes);
                self.unasked |= !self.wanted.contains(piece);
            }
        }
        self.wanted.remove(piece);
        let is_new = self.has.add(piece);
        if is_new {
            self.came.push(piece);
        }
        is_new
    }

    /// Whether one was asked for this piece: what comes unasked is not taken.
    pub(super) fn is_asked(&self, giver: G, piece: u32) -> bool {
        let giver = self.givers.get(&giver);
        giver.is_some_and(|giver| giver.asked.contains_key(&piece))
    }

    /// Shuns those that took too long; who they are.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Vec<G> {
        let division = self.division;
        let late = |(piece, asked): (&u32, &Duration)| {
            let more = Duration::from_secs(division.bytes(*piece) / GIVER_RATE);
            now >= asked.saturating_add(GIVER_PATIENCE).saturating_add(more)
        };
        let all = self.givers.iter();
        let silent = all.filter(|(_, giver)| giver.asked.iter().any(late));
        let silent: Vec<G> = silent.map(|(name, _)| *name).collect();
        for giver in &silent {
            self.shun(*giver);
        }
        silent
    }

    /// The next piece to ask of this one: the rarest that it has, that is missing here and asked
    /// of no other.
    pub(super) fn poll_get(&mut self, giver: G, now: Duration) -> Option<u32> {
        let known = self.givers.get(&giver)?;
        if known.stage != Stage::Asked || known.asked.len() >= PIECES_ASKED {
            return None;
        }
        let missing = known.has.without([&self.has, &self.asked]);
        let piece = missing
            .iter()
            .min_by_key(|piece| (self.copies_of(*piece), self.mix(*piece)))?;
        let known = self.givers.get_mut(&giver)?;
        known.asked.insert(piece, now);
        self.asked.add(piece);
        Some(piece)
    }

    fn copies_of(&self, piece: u32) -> u32 {
        let copies = place(piece).and_then(|place| self.copies.get(place));
        copies.copied().unwrap_or(0)
    }

    fn mix(&self, piece: u32) -> u64 {
        mixed(self.salt, piece.into())
    }

    /// What the sender is to be asked for now, since others do not give it. They may still: what
    /// has come from them the sender does not give.
    pub(super) fn poll_wants(&mut self, now: Duration) -> Pieces {
        self.look_back(now);
        let mut wants = Pieces::none(self.division.count());
        if !self.leans || self.is_complete() {
            return wants;
        }
        let room = PIECES_AHEAD.saturating_sub(usize::try_from(self.wanted.len()).unwrap_or(0));
        let all = Pieces::all(self.division.count());
        let missing = all.without([&self.has, &self.asked, &self.wanted]);
        let mut missing: Vec<u32> = missing.iter().collect();
        missing.sort_by_cached_key(|piece| (self.copies_of(*piece), self.mix(*piece)));
        for piece in missing.into_iter().take(room) {
            wants.add(piece);
            self.wanted.add(piece);
        }
        wants
    }

    /// At the end of a span: others are too slow if the sender gave more than twice as much in its
    /// best one. While it gives of its own accord, it has what none has.
    fn look_back(&mut self, now: Duration) {
        if now.saturating_sub(self.span) < WANT_AFTER {
            return;
        }
        self.best = self.best.max(self.by_sender);
        let few = self.by_others == 0 || self.by_others.saturating_mul(2) < self.best;
        self.leans = few && !self.unasked;
        (self.span, self.by_sender, self.by_others, self.unasked) = (now, 0, 0, false);
    }
}

fn place(piece: u32) -> Option<usize> {
    usize::try_from(piece).ok()
}

/// A number that depends on all bits of both (SplitMix64).
pub(super) fn mixed(salt: u64, number: u64) -> u64 {
    let mut z = salt.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
