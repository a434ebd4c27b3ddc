//! An explicit-state checker: breadth first, so that counterexamples are as short as can be, and
//! then the strongly connected components of the graph of repairs, for what must come true at last.
//!
//! The crate `stateright` was looked at: its "eventually" passes over paths that end in a cycle,
//! and every path of ring maintenance does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::ids::Broken;
use super::rules::{Model, State, Step};

/// What must come true when no member joins, fails or leaves any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Liveness {
    /// Only the invariant is checked.
    Unchecked,
    /// Every run in which no kind of repair waits for ever ends in ideal states only, whatever the
    /// order.
    Fair,
    /// Every run in which the order of repairs is random does so with probability 1.
    Random,
}

/// What the checker found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Everything holds; so many states were reached, of which so many are ideal.
    Holds { states: usize, ideal: usize },
    /// After these steps the invariant is broken.
    Unsafe { broken: Broken, path: Vec<Step> },
    /// After these steps a run is possible that stays among so many states and never rests in an
    /// ideal one.
    Stuck { among: usize, path: Vec<Step> },
}

/// One repair that is possible in a state.
struct Edge {
    to: u32,
    class: u8,
}

/// The state with each hash.
type Places = HashMap<u64, u32, BuildHasherDefault<Mixer>>;

/// A hash that is fast for many small numbers. That two states share one is possible, and then
/// noticed.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u64(&mut self, number: u64) {
        // The odd number is 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[derive(Default)]
struct Graph {
    states: Vec<State>,
    parents: Vec<Option<(u32, Step)>>,
    /// Where the edges of each state begin.
    starts: Vec<usize>,
    edges: Vec<Edge>,
}

/// Explores everything that `model` can do from `starts`.
pub(super) fn explore(model: &Model, starts: &[State], liveness: Liveness) -> Finding {
    let mut graph = Graph::default();
    let mut places = Places::default();
    for start in starts {
        graph.place(&mut places, *start, None);
    }
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(state) = graph.states.get(at).copied() {
        let here = at as u32;
        if let Err(broken) = model.check(&state) {
            let path = graph.path(here);
            return Finding::Unsafe { broken, path };
        }
        graph.starts.push(graph.edges.len());
        model.steps(&state, &mut steps);
        for step in steps.drain(..) {
            let next = model.apply(&state, step);
            let to = graph.place(&mut places, next, Some((here, step)));
            if let Some(class) = step.class().filter(|_| liveness != Liveness::Unchecked) {
                graph.edges.push(Edge { to, class });
            }
        }
        at += 1;
    }
    graph.starts.push(graph.edges.len());
    drop(places);
    let ideal: Vec<bool> = graph.states.iter().map(State::is_ideal).collect();
    if liveness != Liveness::Unchecked
        && let Some((among, state)) = graph.stuck(&ideal, liveness)
    {
        let path = graph.path(state);
        return Finding::Stuck { among, path };
    }
    let (states, ideal) = (ideal.len(), ideal.iter().filter(|ideal| **ideal).count());
    Finding::Holds { states, ideal }
}

impl Graph {
    fn place(&mut self, places: &mut Places, state: State, parent: Option<(u32, Step)>) -> u32 {
        let mut hash = Mixer::default();
        state.hash(&mut hash);
        match places.entry(hash.finish()) {
            Entry::Occupied(known) => {
                let place = *known.get();
                assert_eq!(
                    self.states[place as usize], state,
                    "two states with one hash"
                );
                place
            }
            Entry::Vacant(new) => {
                let place = self.states.len() as u32;
                self.states.push(state);
                self.parents.push(parent);
                *new.insert(place)
            }
        }
    }

    fn path(&self, to: u32) -> Vec<Step> {
        let mut path = Vec::new();
        let mut here = to;
        while let Some((before, step)) = self.parents[here as usize] {
            path.push(step);
            here = before;
        }
        path.reverse();
        path
    }

    fn edges(&self, state: u32) -> &[Edge] {
        let state = state as usize;
        &self.edges[self.starts[state]..self.starts[state + 1]]
    }

    /// A component of repairs that a run need not leave and that has a state that is not ideal: its
    /// size, and the state.
    fn stuck(&self, ideal: &[bool], liveness: Liveness) -> Option<(usize, u32)> {
        let components = self.components();
        let mut of = vec![0_u32; self.states.len()];
        for (number, component) in (0..).zip(&components) {
            component
                .iter()
                .for_each(|state| of[*state as usize] = number);
        }
        for (number, component) in (0_u32..).zip(&components) {
            let Some(state) = component.iter().find(|state| !ideal[**state as usize]) else {
                continue;
            };
            let inside = |edge: &Edge| of[edge.to as usize] == number;
            let may_stay = match liveness {
                Liveness::Unchecked => false,
                Liveness::Random => component
                    .iter()
                    .all(|state| self.edges(*state).iter().all(inside)),
                Liveness::Fair => self.may_stay_fairly(component, inside),
            };
            if may_stay {
                return Some((component.len(), *state));
            }
        }
        None
    }

    /// Weak fairness: a kind of repair that is possible all the time is done at some time.
    fn may_stay_fairly(&self, component: &[u32], inside: impl Fn(&Edge) -> bool) -> bool {
        let (mut done, mut always, mut steps) = (0_u64, u64::MAX, 0_u32);
        for state in component {
            let mut possible = 0_u64;
            for edge in self.edges(*state) {
                possible |= 1 << edge.class;
                if inside(edge) {
                    done |= 1 << edge.class;
                    steps += 1;
                }
            }
            always &= possible;
        }
        let rests = component.len() == 1 && always == 0;
        rests || steps > 0 && always & !done == 0
    }

    /// Tarjan's algorithm, with a stack of its own instead of recursion.
    fn components(&self) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let count = self.states.len();
        let (mut index, mut low) = (vec![NEW; count], vec![0_u32; count]);
        let mut on_stack = vec![false; count];
        let (mut stack, mut calls, mut components) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = 0;
        for root in 0..count as u32 {
            if index[root as usize] != NEW {
                continue;
            }
            calls.push((root, 0));
            while let Some((state, edge)) = calls.pop() {
                let here = state as usize;
                if edge == 0 {
                    (index[here], low[here]) = (next, next);
                    next += 1;
                    stack.push(state);
                    on_stack[here] = true;
                } else {
                    let child = self.edges(state)[edge - 1].to as usize;
                    if on_stack[child] {
                        low[here] = low[here].min(low[child]);
                    }
                }
                if let Some(following) = self.edges(state).get(edge) {
                    calls.push((state, edge + 1));
                    if index[following.to as usize] == NEW {
                        calls.push((following.to, 0));
                    }
                } else if low[here] == index[here] {
                    let start = stack.iter().rposition(|top| *top == state).unwrap_or(0);
                    let component = stack.split_off(start);
                    component
                        .iter()
                        .for_each(|state| on_stack[*state as usize] = false);
                    components.push(component);
                }
            }
        }
        components
    }
}
