//! What each signature makes necessary of the payload that its message begins with.

use std::collections::BTreeSet;

use super::expression::{Bytes, Element, Expression};
use super::touched::Touched;
use super::{BEGINS, Begin};
use crate::classify::{Anchor, Signature, SignatureSet};
use crate::limits::MAX_TRIAGE_PORTS;
use crate::packet::L4;

/// What it means that a payload fulfils a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    Ask,
    Known,
}

/// A condition on payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// What the payload is the beginning of.
    pub(super) begins: Vec<Begin>,
    /// One of these is what it begins with; none: it may begin with anything.
    pub(super) openings: Vec<Expression>,
    /// They may stand at any other position too.
    pub(super) anywhere: bool,
    /// And one of these lies before the first empty line; none: that is all.
    pub(super) needs: Vec<Expression>,
    pub(super) effect: Effect,
}

/// What all signatures together ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    pub(super) clauses: Vec<Clause>,
    /// Ports on which everything is asked about, of TCP and of UDP.
    pub(super) ports: [Vec<u16>; 2],
}

/// The conditions of a set under what the policy touches.
pub(super) fn of(set: &SignatureSet, touched: &Touched) -> Conditions {
    let mut conditions = Conditions::default();
    if touched.everything() {
        conditions.clauses.push(anything(&BEGINS));
        return conditions;
    }
    for signature in set.signatures() {
        if touched.contains(&signature.application) {
            if signature.is_by_name() {
                for refined in set.signatures() {
                    if !refined.is_by_name() && signature.refines.contains(&refined.application) {
                        conditions.add(refined, naming(signature, refined));
                    }
                }
            } else {
                conditions.add(signature, Some(own(signature)));
            }
        } else if signature.only_ports.is_empty() && !signature.known.is_empty() {
            conditions.clauses.push(Clause {
                // Only the first data of a flow have to be known; that others may be makes states
                // for both.
                begins: match signature.l4 {
                    L4::Tcp => vec![Begin::Stream, Begin::Segment],
                    L4::Udp => vec![Begin::Datagram],
                },
                openings: signature.known.clone(),
                anywhere: false,
                needs: Vec::new(),
                effect: Effect::Known,
            });
        }
    }
    conditions
}

impl Conditions {
    /// Adds what a signature makes necessary, or its ports where it has few.
    fn add(&mut self, signature: &Signature, clause: Option<Clause>) {
        let Some(clause) = clause else { return };
        let [tcp, udp] = &mut self.ports;
        let ports = match signature.l4 {
            L4::Tcp => tcp,
            L4::Udp => udp,
        };
        let all: BTreeSet<u16> = ports.iter().chain(&signature.only_ports).copied().collect();
        if signature.only_ports.is_empty() || all.len() > MAX_TRIAGE_PORTS {
            self.clauses.push(clause);
        } else {
            *ports = all.into_iter().collect();
        }
    }
}

fn anything(begins: &[Begin]) -> Clause {
    Clause {
        begins: begins.to_vec(),
        openings: Vec::new(),
        anywhere: false,
        needs: Vec::new(),
        effect: Effect::Ask,
    }
}

/// Where messages of a signature may begin. A message at the start of a stream begins nowhere else:
/// a flow whose beginning was not seen is asked about as a whole.
fn begins(signature: &Signature) -> &'static [Begin] {
    match (signature.l4, signature.anchor) {
        (L4::Tcp, Anchor::Start) => &[Begin::Stream],
        (L4::Tcp, Anchor::Packet | Anchor::Anywhere) => &[Begin::Stream, Begin::Segment],
        (L4::Udp, _) => &[Begin::Datagram],
    }
}

/// What a signature's own messages must have.
pub(super) fn own(signature: &Signature) -> Clause {
    let openings = if signature.opening.is_empty() {
        patterns(signature)
    } else {
        signature.opening.clone()
    };
    Clause {
        openings,
        anywhere: signature.anchor == Anchor::Anywhere,
        needs: signature.needs.clone(),
        ..anything(begins(signature))
    }
}

/// What messages of one signature must have that tell a name of another. `None`: they tell none.
pub(super) fn naming(by_name: &Signature, refined: &Signature) -> Option<Clause> {
    let own = own(refined);
    if !refined.name_after.is_empty() {
        let hosts = by_name.hosts.iter();
        let needs: Vec<Expression> = hosts
            .flat_map(|host| {
                refined
                    .name_after
                    .iter()
                    .map(move |after| after.before(host))
            })
            .collect();
        return (!needs.is_empty()).then_some(Clause { needs, ..own });
    }
    match &refined.naming {
        None => Some(own),
        Some(none) if none.is_empty() => None,
        Some(openings) => Some(Clause {
            openings: openings.clone(),
            needs: Vec::new(),
            ..own
        }),
    }
}

/// The patterns as openings: one of them, or all at their positions.
fn patterns(signature: &Signature) -> Vec<Expression> {
    let anywhere = signature.anchor == Anchor::Anywhere;
    let single = signature.patterns.iter().map(|pattern| {
        let before = if anywhere { 0 } else { pattern.at };
        let bytes = pattern.bytes.iter().map(|&byte| Bytes::of(byte));
        let bytes = std::iter::repeat_n(Bytes::ALL, before).chain(bytes);
        bytes.collect::<Vec<Bytes>>()
    });
    let mut openings: Vec<Vec<Bytes>> = single.collect();
    // Anywhere they would all have to lie at one position: one of them is enough to ask.
    if signature.all && anywhere {
        openings.sort_by_key(Vec::len);
        openings.drain(..openings.len().saturating_sub(1));
    } else if signature.all && openings.len() > 1 {
        let length = openings.iter().map(Vec::len).max().unwrap_or(0);
        let mut together = vec![Bytes::ALL; length];
        for opening in &openings {
            for (both, bytes) in together.iter_mut().zip(opening) {
                *both = both.and(*bytes);
            }
        }
        openings = vec![together];
    }
    openings
        .into_iter()
        .map(|bytes| Expression::new(bytes.into_iter().map(Element::once).collect()))
        .collect()
}
