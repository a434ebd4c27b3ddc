//! From conditions to one table: subset construction over the states in all expressions at once.
//!
//! A state stands for a set of [`Item`]s. Expressions that have to lie in a head are looked for
//! beside the head's opening, and only for as long as both can still come true: [`Item::Head`]
//! follows its lines.

use std::collections::BTreeMap;

use super::condition::{Clause, Effect};
use super::expression::{Bytes, Expression};
use super::minimal::{Numbers, Table};
use super::{ASK, BEGINS, Begin, DEAD, KNOWN, OPEN, TriageError};
use crate::limits::{MAX_TRIAGE_BYTES, MAX_TRIAGE_STATES};

/// Where a payload is in something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    /// In an expression that the payload may begin with: its number, and how many elements are
    /// done.
    Opening(usize, usize),
    /// An expression may begin at any state.
    Anywhere(usize),
    /// In an expression that a head may hold.
    Need(usize, usize),
    /// An opening of this group is complete.
    Opened(usize),
    /// A text of this group was found.
    Found(usize),
    /// In a head in which texts of this group are looked for.
    Head(usize, Line),
}

/// Where a payload is in the lines of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Line {
    Inside,
    /// Behind a line feed.
    Begun,
    /// Behind a line feed and a carriage return.
    Ending,
}

impl Line {
    /// `None`: the line was empty, and the head is over.
    fn next(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Begun | Self::Ending, b'\n') => None,
            (Self::Inside, b'\n') => Some(Self::Begun),
            (Self::Begun, b'\r') => Some(Self::Ending),
            _ => Some(Self::Inside),
        }
    }
}

/// What follows when an expression is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Ask,
    Know,
    /// The head of this group has begun as it must.
    Open(usize),
    /// This group's head has what it must.
    Find(usize),
}

#[derive(Debug)]
struct Rule {
    expression: Expression,
    role: Role,
    /// What it may be the beginning of may be followed by more: a stream.
    grows: bool,
}

/// What a state stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    items: Vec<Item>,
    known: bool,
    ask: bool,
}

/// How much is distinguished. Less makes a smaller table, which asks more often.
#[derive(Clone, Copy, Debug)]
struct Precision {
    /// A head in which something is looked for may also open as nothing that is known.
    strange_heads: bool,
    /// Bytes of an opening that count, besides those that may be anything.
    opening: usize,
    /// The same of what a head needs.
    needs: usize,
}

/// In the order in which they are tried.
const PRECISIONS: [Precision; 6] = [
    Precision::new(true, usize::MAX, usize::MAX),
    Precision::new(false, usize::MAX, usize::MAX),
    Precision::new(false, 8, 16),
    Precision::new(false, 4, 12),
    Precision::new(false, 3, 8),
    Precision::new(false, 2, 6),
];

impl Precision {
    const fn new(strange_heads: bool, opening: usize, needs: usize) -> Self {
        Self {
            strange_heads,
            opening,
            needs,
        }
    }
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Automaton(Table);

impl Automaton {
    /// Compiles clauses: as exactly as the bounds allow.
    pub(super) fn new(clauses: &[Clause]) -> Result<Self, TriageError> {
        PRECISIONS
            .iter()
            .find_map(|&precision| Builder::new(clauses, precision).build().ok())
            .ok_or(TriageError::TooLarge)
    }

    pub(super) fn table(&self) -> &[u16] {
        &self.0.next
    }

    pub(super) fn classes(&self) -> &[u8; 256] {
        &self.0.classes
    }

    pub(super) fn class_count(&self) -> usize {
        self.0.width
    }

    pub(super) fn flags(&self) -> &[u8] {
        &self.0.flags
    }

    pub(super) fn start(&self, begin: Begin) -> u16 {
        let [stream, segment, datagram] = self.0.starts;
        match begin {
            Begin::Stream => stream,
            Begin::Segment => segment,
            Begin::Datagram => datagram,
        }
    }

    /// A state that is none asks.
    pub(super) fn flags_of(&self, state: u16) -> u8 {
        self.0.flags.get(usize::from(state)).copied().unwrap_or(ASK)
    }

    pub(super) fn next(&self, state: u16, byte: u8) -> u16 {
        let class = self.classes().get(usize::from(byte)).copied().unwrap_or(0);
        let row = usize::from(state).saturating_mul(self.class_count());
        let state = row.saturating_add(class.into());
        self.table().get(state).copied().unwrap_or(u16::MAX)
    }
}

/// Heads that are looked through: those of streams, and those of datagrams. What they open with and
/// what they need is not told apart any further: a text that another kind of head would need is
/// rarely in one.
#[derive(Clone, Debug, Default)]
struct Group {
    begins: Vec<Begin>,
    openings: Vec<Expression>,
    needs: Vec<Expression>,
    /// Numbers of the rules for those needs that may lie at any state, by the byte with which they
    /// may begin.
    rules: BTreeMap<u8, Vec<usize>>,
}

struct Builder {
    rules: Vec<Rule>,
    groups: Vec<Group>,
    starts: [State; 3],
    /// A byte of each class.
    samples: Vec<u8>,
    classes: Box<[u8; 256]>,
    precision: Precision,
}

impl Builder {
    fn new(clauses: &[Clause], precision: Precision) -> Self {
        let mut builder = Self {
            rules: Vec::new(),
            groups: groups(clauses, precision),
            starts: [const { State::new() }; 3],
            samples: Vec::new(),
            classes: Box::new([0; 256]),
            precision,
        };
        for clause in clauses.iter().filter(|clause| clause.needs.is_empty()) {
            let role = match clause.effect {
                Effect::Ask => Role::Ask,
                Effect::Known => Role::Know,
            };
            if clause.openings.is_empty() {
                builder.start(&clause.begins, |state| state.ask = true);
            }
            for opening in &clause.openings {
                let opening = match clause.effect {
                    Effect::Ask => opening.decided(precision.opening),
                    Effect::Known => opening.clone(),
                };
                // An opening without elements is complete at once.
                if opening.elements().is_empty() {
                    builder.start(&clause.begins, |state| state.ask = true);
                    continue;
                }
                let rule = builder.rule(opening, role, &clause.begins);
                let item = if clause.anywhere {
                    Item::Anywhere(rule)
                } else {
                    Item::Opening(rule, 0)
                };
                builder.start(&clause.begins, |state| state.items.push(item));
            }
        }
        for number in 0..builder.groups.len() {
            builder.start_group(number);
        }
        for state in &mut builder.starts {
            state.settle();
        }
        builder.classify();
        builder
    }

    fn rule(&mut self, expression: Expression, role: Role, begins: &[Begin]) -> usize {
        self.rules.push(Rule {
            expression,
            role,
            grows: !begins.contains(&Begin::Datagram),
        });
        self.rules.len().saturating_sub(1)
    }

    fn start(&mut self, begins: &[Begin], change: impl Fn(&mut State)) {
        for (begin, state) in BEGINS.iter().zip(&mut self.starts) {
            if begins.contains(begin) {
                change(state);
            }
        }
    }

    fn start_group(&mut self, number: usize) {
        let Some(group) = self.groups.get(number).cloned() else {
            return;
        };
        let begins = &group.begins;
        let mut items = vec![Item::Head(number, Line::Inside)];
        let mut rules = Vec::new();
        for need in group.needs {
            let first = need.is_first();
            let rule = self.rule(need, Role::Find(number), begins);
            if first {
                items.push(Item::Need(rule, 0));
            } else {
                rules.push(rule);
            }
        }
        for opening in group.openings {
            if opening.elements().is_empty() {
                items.push(Item::Opened(number));
            } else {
                let rule = self.rule(opening, Role::Open(number), begins);
                items.push(Item::Opening(rule, 0));
            }
        }
        self.start(begins, |state| state.items.extend(&items));
        // A step then looks only at those that its byte can begin.
        let mut by_byte: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for byte in 0..=255 {
            let begins = |rule: &&usize| self.begins_with(**rule, byte);
            let fitting: Vec<usize> = rules.iter().filter(begins).copied().collect();
            by_byte.insert(byte, fitting);
        }
        if let Some(group) = self.groups.get_mut(number) {
            group.rules = by_byte;
        }
    }

    fn begins_with(&self, rule: usize, byte: u8) -> bool {
        let elements = self.rules.get(rule).map(|rule| rule.expression.elements());
        // A text never begins with any number of something.
        let first = elements.and_then(<[_]>::first);
        first.is_some_and(|first| first.bytes.contains(byte))
    }

    /// Bytes that no expression distinguishes are of one class.
    fn classify(&mut self) {
        let mut sets: Vec<Bytes> = self
            .rules
            .iter()
            .flat_map(|rule| rule.expression.elements())
            .map(|element| element.bytes)
            .chain([Bytes::of(b'\n'), Bytes::of(b'\r')])
            .collect();
        sets.sort_unstable();
        sets.dedup();
        let mut known: Numbers<Vec<bool>, u8> = Numbers::default();
        for byte in 0..=255_u8 {
            let members: Vec<bool> = sets.iter().map(|set| set.contains(byte)).collect();
            // There are at most as many classes as bytes.
            let new = u8::try_from(known.len()).unwrap_or(u8::MAX);
            let class = *known.entry(members).or_insert_with(|| {
                self.samples.push(byte);
                new
            });
            if let Some(state) = self.classes.get_mut(usize::from(byte)) {
                *state = class;
            }
        }
    }

    fn build(self) -> Result<Automaton, TriageError> {
        let mut numbers: Numbers<State, u16> = Numbers::default();
        let mut states: Vec<State> = Vec::new();
        let mut number = |state: State, states: &mut Vec<State>| -> Result<u16, TriageError> {
            if let Some(number) = numbers.get(&state) {
                return Ok(*number);
            }
            let new = u16::try_from(states.len()).map_err(|_| TriageError::TooLarge)?;
            if states.len() >= MAX_TRIAGE_STATES {
                return Err(TriageError::TooLarge);
            }
            states.push(state.clone());
            numbers.insert(state, new);
            Ok(new)
        };
        let mut starts = [0; 3];
        for (start, state) in starts.iter_mut().zip(&self.starts) {
            *start = number(state.clone(), &mut states)?;
        }
        let mut table = Vec::new();
        let mut done = 0;
        while let Some(state) = states.get(done).cloned() {
            for &byte in &self.samples {
                let next = self.step(&state, byte);
                table.push(number(next, &mut states)?);
            }
            done = done.saturating_add(1);
        }
        let table = Table {
            next: table,
            width: self.samples.len(),
            flags: states.iter().map(|state| self.flags(state)).collect(),
            starts,
            classes: self.classes,
        };
        // The bound is about the kernel's map, which holds the minimized table.
        let table = table.minimized();
        if table.next.len().saturating_mul(size_of::<u16>()) > MAX_TRIAGE_BYTES {
            return Err(TriageError::TooLarge);
        }
        Ok(Automaton(table))
    }

    fn flags(&self, state: &State) -> u8 {
        let mut flags = 0;
        if state.ask {
            return ASK | DEAD;
        }
        if state.known {
            flags |= KNOWN;
        }
        if state.items.is_empty() {
            flags |= DEAD;
        }
        if state.items.iter().any(|&item| self.is_open(item)) {
            flags |= OPEN;
        }
        flags
    }

    /// Whether more bytes may come to [`ASK`] from here. A datagram is as long as it is; and what
    /// may begin anywhere may as well begin in the next payload.
    fn is_open(&self, item: Item) -> bool {
        match (item, self.role(item)) {
            (Item::Anywhere(_), _) | (_, Some(Role::Know)) => false,
            (Item::Opening(rule, _), Some(Role::Ask)) => {
                self.rules.get(rule).is_some_and(|rule| rule.grows)
            }
            _ => self
                .group(item)
                .and_then(|group| self.groups.get(group))
                .is_some_and(|group| !group.begins.contains(&Begin::Datagram)),
        }
    }

    fn step(&self, state: &State, byte: u8) -> State {
        let mut next = State {
            items: Vec::with_capacity(state.items.len()),
            known: state.known,
            ask: state.ask,
        };
        // Nothing takes a question back. Without items all such states are one.
        if state.ask {
            return next;
        }
        for &item in &state.items {
            match item {
                Item::Opened(_) | Item::Found(_) => next.items.push(item),
                Item::Opening(rule, at) | Item::Need(rule, at) => {
                    self.advance(rule, at, byte, &mut next);
                }
                Item::Anywhere(rule) => {
                    next.items.push(item);
                    self.advance(rule, 0, byte, &mut next);
                }
                Item::Head(number, line) => {
                    let line = line.next(byte);
                    next.items.extend(line.map(|line| Item::Head(number, line)));
                    let group = self.groups.get(number);
                    let rules = group.and_then(|group| group.rules.get(&byte));
                    for &rule in rules.into_iter().flatten() {
                        self.advance(rule, 0, byte, &mut next);
                    }
                }
            }
        }
        self.conclude(&mut next);
        next.settle();
        next
    }

    /// Moves on in an expression by one byte.
    fn advance(&self, number: usize, at: usize, byte: u8, next: &mut State) {
        let Some(rule) = self.rules.get(number) else {
            return;
        };
        let elements = rule.expression.elements().get(at..).unwrap_or_default();
        // An element with `many` may match nothing: then the next one is tried with this byte.
        for (further, element) in elements.iter().enumerate() {
            let at = at.saturating_add(further);
            if element.bytes.contains(byte) {
                let at = if element.many {
                    at
                } else {
                    at.saturating_add(1)
                };
                let rest = rule.expression.elements().get(at..).unwrap_or_default();
                if rest.iter().all(|element| element.many) {
                    match rule.role {
                        Role::Ask => next.ask = true,
                        Role::Know => next.known = true,
                        Role::Open(group) => next.items.push(Item::Opened(group)),
                        Role::Find(group) => next.items.push(Item::Found(group)),
                    }
                } else {
                    next.items.push(match rule.role {
                        Role::Find(_) => Item::Need(number, at),
                        _ => Item::Opening(number, at),
                    });
                }
            }
            if !element.many {
                return;
            }
        }
    }

    /// Draws the conclusions from what is complete, and gives up what cannot come true any more.
    fn conclude(&self, state: &mut State) {
        let has = |items: &[Item], wanted: Item| items.contains(&wanted);
        for number in 0..self.groups.len() {
            let items = &state.items;
            let opened = has(items, Item::Opened(number));
            let strange = !self.precision.strange_heads && !self.may_be_known(state);
            if opened && (strange || has(items, Item::Found(number))) {
                state.ask = true;
                return;
            }
            let opening = opened
                || items
                    .iter()
                    .any(|&item| self.role(item) == Some(Role::Open(number)));
            let inside = items
                .iter()
                .any(|item| matches!(item, Item::Head(group, _) if *group == number));
            if !opening || !inside {
                state.items.retain(|&item| self.group(item) != Some(number));
            }
        }
        if state.known {
            state
                .items
                .retain(|&item| self.role(item) != Some(Role::Know));
        }
    }

    fn may_be_known(&self, state: &State) -> bool {
        let mut items = state.items.iter();
        state.known || items.any(|&item| self.role(item) == Some(Role::Know))
    }

    fn role(&self, item: Item) -> Option<Role> {
        match item {
            Item::Opening(rule, _) | Item::Need(rule, _) => {
                self.rules.get(rule).map(|rule| rule.role)
            }
            _ => None,
        }
    }

    fn group(&self, item: Item) -> Option<usize> {
        match item {
            Item::Opened(group) | Item::Found(group) | Item::Head(group, _) => Some(group),
            _ => match self.role(item)? {
                Role::Open(group) | Role::Find(group) => Some(group),
                Role::Ask | Role::Know => None,
            },
        }
    }
}

impl State {
    const fn new() -> Self {
        Self {
            items: Vec::new(),
            known: false,
            ask: false,
        }
    }

    /// One form for each set.
    fn settle(&mut self) {
        if self.ask {
            *self = Self {
                ask: true,
                ..Self::new()
            };
        }
        self.items.sort_unstable();
        self.items.dedup();
    }
}

/// Clauses with needs.
fn groups(clauses: &[Clause], precision: Precision) -> Vec<Group> {
    let mut groups: [Group; 2] = Default::default();
    for clause in clauses.iter().filter(|clause| !clause.needs.is_empty()) {
        let [streams, datagrams] = &mut groups;
        let group = if clause.begins.contains(&Begin::Datagram) {
            datagrams
        } else {
            streams
        };
        group.begins.extend(&clause.begins);
        let openings = clause.openings.iter();
        group
            .openings
            .extend(openings.map(|one| one.decided(precision.opening)));
        let needs = clause.needs.iter();
        group
            .needs
            .extend(needs.map(|one| one.decided(precision.needs)));
    }
    for group in &mut groups {
        for list in [&mut group.openings, &mut group.needs] {
            list.sort_unstable();
            list.dedup();
        }
    }
    groups
        .into_iter()
        .filter(|group| !group.needs.is_empty())
        .collect()
}
