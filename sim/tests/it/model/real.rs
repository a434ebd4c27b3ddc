//! The code itself: [`Chord`], driven through every order in which its messages and timers can
//! come.
//!
//! A member's state follows from what it was given, in order. So each step of one member is
//! computed once, by playing its inputs again from the start, and remembered; the orders in which
//! the members' steps interleave are explored on top of that. Two ways to one state count as one.
//! What a state is says [`Chord`]'s `Debug`, with these abstractions:
//!
//! - Each member has a clock of its own, which goes on only with its own timers. Times count by
//!   their order.
//! - The random generator is left out: a pause has one of its possible lengths.
//! - Counters, the measured pace of answers and rates of requests are left out.
//!
//! Messages may take any time and any order. A message that never comes is one that takes too long,
//! so loss is among that; repetitions after a loss are not. Only the dead do not answer
//! (`handle_unreachable`). Fingers' lookups are all lost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ringway_overlay::{Chord, Config, Membership, Message, RingKey, Snapshot};

use super::ids::{self, Broken, Id, List, Lists, MOST, R};

/// The ring at the start, and what may happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub(super) members: &'static [Id],
    /// They join, all through the first member.
    pub(super) joining: &'static [Id],
    pub(super) failures: u8,
    pub(super) leaves: u8,
    /// How often the timer of each member goes off with an effect.
    pub(super) timers: [u8; MOST],
}

/// What one member is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Input {
    Timer,
    /// The envelope with this number.
    Hear(u32),
    Unreachable(Id),
    Leave,
}

/// One state of one member.
struct Local {
    me: Id,
    /// One way to it.
    inputs: Vec<Input>,
    standing: Membership,
    predecessor: Option<Id>,
    successors: List,
    has_timer: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Envelope {
    from: Id,
    to: Id,
    bytes: Vec<u8>,
}

/// The state of everything. Members are numbers of [`Local`] states, messages under way numbers of
/// envelopes.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    locals: [u32; MOST],
    timers: [u8; MOST],
    gone: [bool; MOST],
    failures: u8,
    leaves: u8,
    full: bool,
    under_way: Vec<u32>,
}

/// One step of the world: a member is given something, or fails; or a message to no member
/// vanishes.
#[derive(Clone, Copy, Debug)]
enum Move {
    Give(Id, Input),
    Fail(Id),
    Vanish(u32),
}

/// What was explored without a violation.
#[derive(Debug)]
#[expect(dead_code, reason = "printed only")]
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) local_states: usize,
    /// States in which nothing is under way and no timer is left.
    pub(super) ends: usize,
}

/// All that is known about the members' steps.
struct Code {
    scope: Scope,
    base: Instant,
    locals: Vec<Local>,
    digests: HashMap<String, u32>,
    envelopes: Vec<Envelope>,
    numbers: HashMap<Envelope, u32>,
    steps: HashMap<(u32, Input), (u32, Vec<u32>)>,
}

/// Longer than anything that is explored.
const NEVER: Duration = Duration::from_secs(1 << 20);

/// So many rounds of all members, one after the other, make a ring ideal.
const ROUNDS: usize = 12;

fn key(id: Id) -> RingKey {
    RingKey::from_bytes([32 + 32 * id; 32])
}

fn id(key: &RingKey) -> Id {
    key.as_bytes()[0] / 32 - 1
}

impl Code {
    fn new(scope: Scope, base: Instant) -> Code {
        Code {
            scope,
            base,
            locals: Vec::new(),
            digests: HashMap::new(),
            envelopes: Vec::new(),
            numbers: HashMap::new(),
            steps: HashMap::new(),
        }
    }

    /// A member as it is at the start.
    fn fresh(&self, me: Id) -> Chord {
        let config = Config {
            successors: R,
            finger_interval: NEVER * 16,
            request_timeout: NEVER,
            lookup_timeout: NEVER,
            ..Config::default()
        };
        let mut chord = Chord::new(key(me), config, [me; 32]).unwrap();
        let members = self.scope.members;
        if let Some(place) = members.iter().position(|id| *id == me) {
            let others = members
                .iter()
                .cycle()
                .skip(place + 1)
                .take(members.len() - 1);
            let others: Vec<RingKey> = others.map(|id| key(*id)).collect();
            let state = Snapshot {
                key: key(me),
                state: Membership::Member,
                predecessor: others.last().copied(),
                successors: others.into_iter().take(R).collect(),
            };
            chord.restore(self.base, &state, Vec::new());
        } else if self.scope.joining.contains(&me) {
            chord.join(self.base, &[key(members[0])]);
        }
        drain(&mut chord);
        chord
    }

    fn first(&mut self, me: Id) -> u32 {
        let chord = self.fresh(me);
        self.local(me, &chord, self.base, Vec::new)
    }

    fn local(
        &mut self,
        me: Id,
        chord: &Chord,
        now: Instant,
        inputs: impl FnOnce() -> Vec<Input>,
    ) -> u32 {
        let digest = digest(chord, now);
        if let Some(known) = self.digests.get(&digest) {
            return *known;
        }
        let number = self.locals.len() as u32;
        let successors: Vec<Id> = chord.successors().iter().map(id).collect();
        self.locals.push(Local {
            me,
            inputs: inputs(),
            standing: chord.state(),
            predecessor: chord.predecessor().as_ref().map(id),
            successors: List::of(&successors),
            has_timer: chord.poll_timeout().is_some(),
        });
        self.digests.insert(digest, number);
        number
    }

    /// What becomes of a member that is given `input`, and what it sends.
    fn step(&mut self, local: u32, input: Input) -> (u32, Vec<u32>) {
        if let Some(known) = self.steps.get(&(local, input)) {
            return known.clone();
        }
        let Local { me, ref inputs, .. } = self.locals[local as usize];
        let inputs = inputs.clone();
        let (mut chord, mut now) = (self.fresh(me), self.base);
        for before in &inputs {
            self.give(&mut chord, &mut now, *before);
            drain(&mut chord);
        }
        self.give(&mut chord, &mut now, input);
        let sent = drain(&mut chord);
        // What fingers look up is lost.
        let in_ring = chord.state() == Membership::Member;
        let sent = sent
            .into_iter()
            .filter(|(_, message)| !(in_ring && matches!(message, Message::FindOwner { .. })));
        let sent: Vec<u32> = sent
            .map(|(to, message)| self.envelope(me, to, &message))
            .collect();
        let next = self.local(me, &chord, now, || [inputs.as_slice(), &[input]].concat());
        self.steps.insert((local, input), (next, sent.clone()));
        (next, sent)
    }

    fn give(&self, chord: &mut Chord, now: &mut Instant, input: Input) {
        match input {
            Input::Timer => {
                *now = chord.poll_timeout().unwrap().max(*now);
                chord.handle_timeout(*now);
            }
            Input::Hear(number) => {
                let envelope = &self.envelopes[number as usize];
                let message = Message::decode(&envelope.bytes).unwrap();
                chord.handle_message(*now, key(envelope.from), message);
            }
            Input::Unreachable(peer) => chord.handle_unreachable(*now, key(peer)),
            // Refused: then nothing happens.
            Input::Leave => drop(chord.leave(*now)),
        }
    }

    fn envelope(&mut self, from: Id, to: Id, message: &Message) -> u32 {
        let envelope = Envelope {
            from,
            to,
            bytes: message.encode(),
        };
        let next = self.envelopes.len() as u32;
        let number = *self.numbers.entry(envelope.clone()).or_insert(next);
        if number == next {
            self.envelopes.push(envelope);
        }
        number
    }

    fn message(&self, number: u32) -> Message {
        Message::decode(&self.envelopes[number as usize].bytes).unwrap()
    }

    fn start(&mut self) -> World {
        let scope = self.scope;
        let mut world = World {
            locals: [0; MOST],
            timers: scope.timers,
            gone: [true; MOST],
            failures: scope.failures,
            leaves: scope.leaves,
            full: scope.members.len() > R,
            under_way: Vec::new(),
        };
        for me in scope.members.iter().chain(scope.joining) {
            world.locals[usize::from(*me)] = self.first(*me);
            world.gone[usize::from(*me)] = false;
        }
        world
    }

    fn moves(&mut self, world: &World) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut last = None;
        for number in &world.under_way {
            if last == Some(*number) {
                continue;
            }
            last = Some(*number);
            let Envelope { from, to, .. } = self.envelopes[*number as usize];
            moves.push(if world.gone[usize::from(to)] {
                Move::Vanish(*number)
            } else {
                Move::Give(to, Input::Hear(*number))
            });
            debug_assert_ne!(from, to);
        }
        for me in (0..MOST as Id).filter(|me| !world.gone[usize::from(*me)]) {
            let local = &self.locals[world.locals[usize::from(me)] as usize];
            let member = local.standing == Membership::Member;
            if local.has_timer && world.timers[usize::from(me)] > 0 {
                moves.push(Move::Give(me, Input::Timer));
            }
            if member && world.failures > 0 && self.survives(world, me) {
                moves.push(Move::Fail(me));
            }
            // At rest, to refuse is the leaving member's own affair.
            let may_leave = world.under_way.is_empty() || self.survives(world, me);
            if member && world.leaves > 0 && may_leave {
                moves.push(Move::Give(me, Input::Leave));
            }
        }
        moves
    }

    fn apply(&mut self, world: &World, step: Move) -> World {
        let mut world = world.clone();
        match step {
            Move::Give(me, input) => {
                if let Input::Hear(number) = input {
                    take(&mut world.under_way, number);
                }
                world.leaves -= u8::from(input == Input::Leave);
                self.give_to(&mut world, me, input);
            }
            Move::Fail(me) => {
                world.failures -= 1;
                world.gone[usize::from(me)] = true;
                world.locals[usize::from(me)] = 0;
                world.timers[usize::from(me)] = 0;
            }
            Move::Vanish(number) => {
                take(&mut world.under_way, number);
                let Envelope { from, to, .. } = self.envelopes[number as usize];
                if is_question(&self.message(number)) && !world.gone[usize::from(from)] {
                    self.give_to(&mut world, from, Input::Unreachable(to));
                }
            }
        }
        if !world.full {
            let ways = self.settled(&world);
            world.full = ways.iter().all(|lists| ids::principals(lists) > R);
        }
        world
    }

    fn give_to(&mut self, world: &mut World, me: Id, input: Input) {
        let place = usize::from(me);
        let (local, sent) = self.step(world.locals[place], input);
        if input == Input::Timer && !sent.is_empty() {
            world.timers[place] -= 1;
        }
        world.locals[place] = local;
        world.under_way.extend(sent);
        world.under_way.sort_unstable();
    }

    /// The lists as they are once the answers under way are heard: see `rules`. A question that was
    /// repeated can have two answers, of which the first that comes counts: then there are
    /// several ways.
    fn settled(&mut self, world: &World) -> Vec<Lists> {
        let mut ways = vec![Lists::default()];
        for me in (0..MOST).filter(|me| !world.gone[*me]) {
            let mut lists = Vec::new();
            for number in &world.under_way {
                let to_me = usize::from(self.envelopes[*number as usize].to) == me;
                if to_me && matches!(self.message(*number), Message::State { .. }) {
                    let (next, _) = self.step(world.locals[me], Input::Hear(*number));
                    if next != world.locals[me] {
                        lists.push(self.list(next));
                    }
                }
            }
            if lists.is_empty() {
                lists.push(self.list(world.locals[me]));
            }
            lists.dedup();
            let with = |way: &Lists, list: Option<List>| {
                let mut way = *way;
                way[me] = list;
                way
            };
            let ways_on = ways
                .iter()
                .flat_map(|way| lists.iter().map(move |list| with(way, *list)));
            ways = ways_on.collect();
        }
        ways
    }

    fn list(&self, local: u32) -> Option<List> {
        let local = &self.locals[local as usize];
        (local.standing == Membership::Member).then_some(local.successors)
    }

    fn survives(&mut self, world: &World, me: Id) -> bool {
        let mut ways = self.settled(world);
        ways.iter_mut()
            .for_each(|lists| lists[usize::from(me)] = None);
        ways.iter().all(|lists| ids::survives(lists, world.full))
    }

    fn check(&mut self, world: &World) -> Result<(), Broken> {
        let ways = self.settled(world);
        ways.iter()
            .try_for_each(|lists| ids::check(lists, world.full))
    }

    /// Whether the ring is ideal after some rounds in which nothing is slow; or how it looks.
    fn mends(&mut self, end: &World) -> Result<(), String> {
        let mut world = World {
            failures: 0,
            leaves: 0,
            ..end.clone()
        };
        for _ in 0..ROUNDS {
            for me in (0..MOST as Id).filter(|me| !end.gone[usize::from(*me)]) {
                if self.locals[world.locals[usize::from(me)] as usize].has_timer {
                    world.timers[usize::from(me)] = 1;
                    world = self.apply(&world, Move::Give(me, Input::Timer));
                }
                world.timers = [0; MOST];
                while let Some(step) = self.moves(&world).first().copied() {
                    world = self.apply(&world, step);
                }
            }
        }
        let lists: Vec<(Id, Option<Id>, List)> = (0..MOST)
            .filter(|me| !end.gone[*me])
            .map(|me| &self.locals[world.locals[me] as usize])
            // Who left is outside, and who knows only a dead member cannot join.
            .filter(|local| match local.standing {
                Membership::Member => true,
                Membership::Joining => !end.gone[usize::from(self.scope.members[0])],
                Membership::Outside => false,
            })
            .map(|local| (local.me, local.predecessor, local.successors))
            .collect();
        let exact = |place: usize| {
            let after = lists.iter().cycle().skip(place + 1).take(lists.len() - 1);
            let others: Vec<Id> = after.map(|(id, ..)| *id).collect();
            let last = others.last().copied();
            (
                lists[place].0,
                last,
                List::of(&others[..others.len().min(R)]),
            )
        };
        let ideal = (0..lists.len()).all(|place| lists[place] == exact(place));
        if ideal {
            Ok(())
        } else {
            Err(format!("{lists:?}"))
        }
    }

    fn tell(&self, step: Move) -> String {
        match step {
            Move::Give(me, Input::Hear(number)) => {
                let from = self.envelopes[number as usize].from;
                format!("{me} hears from {from} {:?}", self.message(number))
            }
            Move::Vanish(number) => {
                let Envelope { from, to, .. } = self.envelopes[number as usize];
                format!("{from} gets nothing to {to}: {:?}", self.message(number))
            }
            step => format!("{step:?}"),
        }
    }
}

/// Explores every order of everything that can happen in `scope`.
pub(super) fn explore(scope: Scope, base: Instant) -> Result<Explored, String> {
    let mut code = Code::new(scope, base);
    let start = code.start();
    let mut worlds = vec![start.clone()];
    let mut parents = vec![None];
    let mut known: HashMap<World, u32> = HashMap::from([(start, 0)]);
    let (mut at, mut ends) = (0, Vec::new());
    while let Some(world) = worlds.get(at).cloned() {
        if let Err(broken) = code.check(&world) {
            return Err(format!("{broken:?} {}", story(&code, &parents, at)));
        }
        let moves = code.moves(&world);
        if moves.is_empty() {
            ends.push(at);
        }
        for step in moves {
            let next = code.apply(&world, step);
            if known.contains_key(&next) {
                continue;
            }
            known.insert(next.clone(), worlds.len() as u32);
            worlds.push(next);
            parents.push(Some((at, step)));
        }
        at += 1;
    }
    let (states, local_states) = (worlds.len(), code.locals.len());
    for end in &ends {
        if let Err(last) = code.mends(&worlds[*end]) {
            let story = story(&code, &parents, *end);
            return Err(format!(
                "not ideal after {ROUNDS} rounds, but {last}, {story}"
            ));
        }
    }
    let ends = ends.len();
    Ok(Explored {
        states,
        local_states,
        ends,
    })
}

fn story(code: &Code, parents: &[Option<(usize, Move)>], end: usize) -> String {
    let mut steps = Vec::new();
    let mut at = end;
    while let Some((before, step)) = parents[at] {
        steps.push(code.tell(step));
        at = before;
    }
    steps.reverse();
    let mut story = format!("after {} steps:", steps.len());
    for step in steps {
        story.push_str("\n  ");
        story.push_str(&step);
    }
    story
}

fn take(under_way: &mut Vec<u32>, number: u32) {
    if let Some(place) = under_way.iter().position(|other| *other == number) {
        under_way.remove(place);
    }
}

fn is_question(message: &Message) -> bool {
    matches!(
        message,
        Message::Ping { .. } | Message::GetState { .. } | Message::FindOwner { .. }
    )
}

fn drain(chord: &mut Chord) -> Vec<(Id, Message)> {
    let mut sent = Vec::new();
    while let Some(transmit) = chord.poll_transmit() {
        sent.push((id(&transmit.to), transmit.message));
    }
    while chord.poll_event().is_some() {}
    sent
}

/// A member's state as text, with times by their order.
fn digest(chord: &Chord, now: Instant) -> String {
    let mut text = format!("{chord:?}");
    for (from, to) in [
        (" pace: ", "counters: "),
        ("counters: ", ", transmits: "),
        (", rates: ", ", requests: "),
    ] {
        let start = text.find(from).unwrap();
        let end = start + text[start..].find(to).unwrap();
        text.replace_range(start..end, "");
    }
    let mut times: Vec<&str> = text
        .split("Instant { ")
        .skip(1)
        .filter_map(|rest| rest.split(" }").next())
        .collect();
    times.sort_unstable_by_key(|time| time_of(time));
    times.dedup();
    let present = format!("{now:?}");
    let present = time_of(
        present
            .trim_start_matches("Instant { ")
            .trim_end_matches(" }"),
    );
    let (past, future): (Vec<&str>, Vec<&str>) =
        times.into_iter().partition(|time| time_of(time) <= present);
    let mut out = text.clone();
    for time in past {
        out = out.replace(&format!("Instant {{ {time} }}"), "past");
    }
    for (rank, time) in future.into_iter().enumerate() {
        out = out.replace(&format!("Instant {{ {time} }}"), &format!("future {rank}"));
    }
    out
}

/// Seconds and nanoseconds of `tv_sec: 1, tv_nsec: 2`.
fn time_of(time: &str) -> (u64, u64) {
    let mut numbers = time
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty());
    let mut next = || numbers.next().unwrap().parse().unwrap();
    (next(), next())
}
