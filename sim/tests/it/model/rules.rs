//! The rules of ring maintenance over abstract identifiers, each with a switch that breaks it.
//!
//! Each rule names the function of `crates/overlay/src/ring` that it stands for. What has no part
//! in them (fingers, groups, lookups, times) is left out; a lookup for the own place may end at any
//! live member.

use super::ids::{self, Broken, Id, List, Lists, MOST, R, between};

/// How fine the steps are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grain {
    /// Zave's: a question, its answer and what follows from it are one step.
    Atomic,
    /// The code's: asking, answering and hearing are three steps, between which everybody else may
    /// do anything.
    Messages,
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mutation {
    /// `place_is_after`: a new member takes the list of whomever it asked.
    JoinsAnywhere,
    /// `successor_answered`: the answered list is not taken over.
    KeepsOwnList,
    /// `successor_dead`: a dead head stays.
    KeepsDeadHead,
    /// `successor_answered`: "pending" is taken for death.
    TakesPendingForDeath,
    /// `successor_answered`: the successor's predecessor is not asked.
    IgnoresPredecessor,
    /// `successor_answered`: the successor's predecessor is asked wherever it stands.
    AsksAnyPredecessor,
    /// `successor_answered`: the successor's predecessor is taken as head before it has answered.
    AdoptsUnasked,
    /// `successors_predecessor_answered`: the head may have changed meanwhile.
    IgnoresChangedHead,
    /// `end_round`: the successor is not notified.
    NeverNotifies,
    /// `rectify`: a closer notifier counts only if the predecessor is dead.
    RectifiesDeadOnly,
    /// `rectify`: any notifier is taken without a ping of the predecessor.
    RectifiesUnasked,
    /// `rectify`: a notifier that is not closer is never taken.
    KeepsDeadPredecessor,
    /// `answer_state`: the own state is told while an own question is open.
    AnswersWhilePending,
    /// `leave`: it is never refused.
    LeavesAnyRing,
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) grain: Grain,
    /// Whether one operation runs at a time, as in the code; in Zave's own model two may (with
    /// [`Grain::Atomic`]).
    pub(super) serial: bool,
    pub(super) failures: u8,
    pub(super) mutation: Option<Mutation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Standing {
    /// There is no such member.
    #[default]
    Absent,
    Outside,
    Live,
    /// Failed or left; it does not come back.
    Dead,
}

/// An answer under way: the state as it was when the question came.
type Heard = Option<(Option<Id>, List)>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Doing {
    #[default]
    Idle,
    Joining {
        at: Id,
        heard: Heard,
    },
    FromSuccessor {
        heard: Heard,
    },
    FromPredecessor {
        successor: Id,
        closer: Id,
        heard: Heard,
    },
    Rectify {
        notifier: Id,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Member {
    pub(super) standing: Standing,
    pub(super) predecessor: Option<Id>,
    pub(super) successors: List,
    doing: Doing,
    /// Whom this member's last notification is on its way to. A newer one replaces it: the older
    /// is lost.
    notified: Option<Id>,
    /// A second question that is open if operations are not serial: successor and closer.
    second: Option<(Id, Id)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct State {
    pub(super) members: [Member; MOST],
    failures: u8,
    /// Whether there have been r + 1 principals.
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Stabilise(Id),
    /// The open operation of this member goes on: it is answered, or hears the answer, or finds no
    /// member there.
    Advance(Id),
    /// The other question of this member, if operations are not serial.
    Second(Id),
    /// This member's notification arrives.
    Deliver(Id),
    Join(Id, Id),
    Fail(Id),
    Leave(Id),
}

impl Step {
    /// For fairness: steps of one class are one member's one kind of repair; none for what no
    /// member must do.
    pub(super) fn class(self) -> Option<u8> {
        let most = MOST as u8;
        match self {
            Step::Stabilise(id) => Some(id),
            Step::Advance(id) => Some(most + id),
            Step::Deliver(id) => Some(2 * most + id),
            Step::Second(id) => Some(3 * most + id),
            Step::Join(..) | Step::Fail(_) | Step::Leave(_) => None,
        }
    }
}

impl State {
    /// The exact ring of `members`, while `outside` wait to join.
    pub(super) fn exact(members: &[Id], outside: &[Id]) -> State {
        let mut state = State::default();
        for id in members {
            state.members[usize::from(*id)].standing = Standing::Live;
        }
        for id in outside {
            state.members[usize::from(*id)].standing = Standing::Outside;
        }
        for id in members {
            let (predecessor, successors) = state.exact_pointers(*id);
            let member = &mut state.members[usize::from(*id)];
            (member.predecessor, member.successors) = (predecessor, successors);
        }
        state.full = members.len() > R;
        state
    }

    /// A ring with these lists, whatever came before.
    pub(super) fn with_lists(lists: &Lists) -> State {
        let mut state = State::default();
        for (id, list) in ids::live(lists) {
            let member = state.member_mut(id);
            (member.standing, member.successors) = (Standing::Live, *list);
        }
        state.full = ids::principals(lists) > R;
        state
    }

    /// The same, but `me` is asking `closer`, which its head named.
    pub(super) fn while_asking(mut self, me: Id, closer: Id) -> State {
        let successor = self.member(me).successors.first().unwrap_or(me);
        let heard = None;
        self.member_mut(me).doing = Doing::FromPredecessor {
            successor,
            closer,
            heard,
        };
        self
    }

    fn exact_pointers(&self, me: Id) -> (Option<Id>, List) {
        let after = (1..MOST as Id).map(|step| (me + step) % MOST as Id);
        let others = after.filter(|id| self.is_live(*id));
        (others.clone().next_back(), List::clockwise(me, others))
    }

    pub(super) fn is_live(&self, id: Id) -> bool {
        self.member(id).standing == Standing::Live
    }

    fn member(&self, id: Id) -> &Member {
        &self.members[usize::from(id)]
    }

    fn member_mut(&mut self, id: Id) -> &mut Member {
        &mut self.members[usize::from(id)]
    }

    fn live(&self) -> impl Iterator<Item = Id> + '_ {
        (0..MOST as Id).filter(|id| self.is_live(*id))
    }

    /// `invariant::check_ideal`.
    pub(super) fn is_ideal(&self) -> bool {
        self.live().all(|id| {
            let member = self.member(id);
            (member.predecessor, member.successors) == self.exact_pointers(id)
        })
    }
}

impl Model {
    fn broken(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Everything that can happen next.
    pub(super) fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        steps.clear();
        let may_fail = state.failures < self.failures;
        for id in 0..MOST as Id {
            let member = state.member(id);
            if member.doing != Doing::Idle {
                steps.push(Step::Advance(id));
            }
            if member.second.is_some() && member.standing == Standing::Live {
                steps.push(Step::Second(id));
            }
            if let Some(to) = member.notified
                && !self.is_pending(state, to)
            {
                steps.push(Step::Deliver(id));
            }
            match member.standing {
                Standing::Outside if member.doing == Doing::Idle => {
                    steps.extend(state.live().map(|at| Step::Join(id, at)));
                }
                Standing::Live => {
                    if self.may_stabilise(member) {
                        steps.push(Step::Stabilise(id));
                    }
                    if may_fail && self.survives(state, id) {
                        steps.push(Step::Fail(id));
                    }
                    if may_fail && self.may_leave(state, id) {
                        steps.push(Step::Leave(id));
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn apply(&self, state: &State, step: Step) -> State {
        let mut state = *state;
        match step {
            Step::Stabilise(id) => self.start_round(&mut state, id),
            Step::Advance(id) => self.advance(&mut state, id),
            Step::Second(id) => {
                if let Some((successor, closer)) = state.member_mut(id).second.take() {
                    let aside = state.member(id).doing;
                    self.ask_closer(&mut state, id, successor, closer);
                    self.advance(&mut state, id);
                    state.member_mut(id).doing = aside;
                }
            }
            Step::Deliver(id) => {
                if let Some(to) = state.member_mut(id).notified.take() {
                    self.rectify(&mut state, to, id);
                }
            }
            Step::Join(id, at) => {
                state.member_mut(id).doing = Doing::Joining { at, heard: None };
                if self.grain == Grain::Atomic {
                    self.advance(&mut state, id);
                }
            }
            Step::Fail(id) | Step::Leave(id) => {
                state.failures += 1;
                let notified = state.member(id).notified;
                *state.member_mut(id) = Member {
                    standing: Standing::Dead,
                    notified,
                    ..Member::default()
                };
                for member in &mut state.members {
                    member.notified = member.notified.filter(|to| *to != id);
                }
            }
        }
        state.full = state.full || ids::principals(&self.settled(&state)) > R;
        state
    }

    /// Zave's invariant, on the lists as they are once all answers under way are heard.
    pub(super) fn check(&self, state: &State) -> Result<(), Broken> {
        ids::check(&self.settled(state), state.full)
    }

    /// An operation counts as done when its answer leaves: the asker's old state is hidden since
    /// before that.
    fn settled(&self, state: &State) -> Lists {
        let mut lists = Lists::default();
        for (id, member) in (0..).zip(&state.members) {
            let heard = self.list_heard(id, member);
            let list = &mut lists[usize::from(id)];
            *list = heard.or((member.standing == Standing::Live).then_some(member.successors));
        }
        lists
    }

    /// Zave's assumption: a failure leaves every member a live successor, and enough principals.
    fn survives(&self, state: &State, id: Id) -> bool {
        let mut lists = self.settled(state);
        lists[usize::from(id)] = None;
        ids::survives(&lists, state.full)
    }

    /// `Chord::leave`, of a ring at rest: that no other joins or leaves at the same time, and that
    /// all whom it knows live, a member cannot know.
    fn may_leave(&self, state: &State, id: Id) -> bool {
        let member = state.member(id);
        let others = member
            .successors
            .ids()
            .iter()
            .copied()
            .chain(member.predecessor);
        let known = others.fold(0_u8, |set, id| set | 1 << id).count_ones() as usize;
        let enough = known > R || self.broken(Mutation::LeavesAnyRing);
        let at_rest = state
            .members
            .iter()
            .all(|member| member.doing == Doing::Idle);
        enough && at_rest && state.is_ideal()
    }

    fn may_stabilise(&self, member: &Member) -> bool {
        let free = match member.doing {
            Doing::Idle => true,
            Doing::FromPredecessor { .. } => !self.serial && member.second.is_none(),
            _ => false,
        };
        free && (member.successors.first().is_some() || member.predecessor.is_some())
    }

    /// `answer_state`, and the notifications that wait.
    fn is_pending(&self, state: &State, id: Id) -> bool {
        self.grain == Grain::Messages && state.member(id).doing != Doing::Idle
    }

    /// `start_round`.
    fn start_round(&self, state: &mut State, me: Id) {
        if let Doing::FromPredecessor {
            successor, closer, ..
        } = state.member(me).doing
        {
            state.member_mut(me).second = Some((successor, closer));
        }
        let member = state.member(me);
        match (member.successors.first(), member.predecessor) {
            (Some(_), _) => {
                state.member_mut(me).doing = Doing::FromSuccessor { heard: None };
                if self.grain == Grain::Atomic {
                    self.advance(state, me);
                }
            }
            (None, Some(closer)) => self.ask_closer(state, me, me, closer),
            (None, None) => {}
        }
    }

    /// `stabilise_from_predecessor`.
    fn ask_closer(&self, state: &mut State, me: Id, successor: Id, closer: Id) {
        let heard = None;
        state.member_mut(me).doing = Doing::FromPredecessor {
            successor,
            closer,
            heard,
        };
    }

    /// The open question is answered, or its answer heard.
    fn advance(&self, state: &mut State, me: Id) {
        let member = *state.member(me);
        let (asked, heard) = match member.doing {
            Doing::Idle => return,
            Doing::Rectify { notifier } => {
                if member.predecessor.is_some_and(|old| !state.is_live(old)) {
                    state.member_mut(me).predecessor = Some(notifier);
                }
                state.member_mut(me).doing = Doing::Idle;
                return;
            }
            Doing::Joining { at, heard } => (Some(at), heard),
            Doing::FromSuccessor { heard } => (member.successors.first(), heard),
            Doing::FromPredecessor { closer, heard, .. } => (Some(closer), heard),
        };
        let Some(asked) = asked else { return };
        if heard.is_some() {
            return self.hear(state, me);
        }
        if !state.is_live(asked) {
            return self.unanswered(state, me);
        }
        if self.is_pending(state, asked) && !self.broken(Mutation::AnswersWhilePending) {
            if self.broken(Mutation::TakesPendingForDeath) {
                return self.unanswered(state, me);
            }
            state.member_mut(me).doing = Doing::Idle;
            return;
        }
        let told = state.member(asked);
        let answer = Some((told.predecessor, told.successors));
        match &mut state.member_mut(me).doing {
            Doing::Joining { heard, .. }
            | Doing::FromSuccessor { heard }
            | Doing::FromPredecessor { heard, .. } => *heard = answer,
            Doing::Idle | Doing::Rectify { .. } => {}
        }
        if self.grain == Grain::Atomic {
            self.hear(state, me);
        }
    }

    /// `successor_dead`, `successors_predecessor_dead`, `join_failed`.
    fn unanswered(&self, state: &mut State, me: Id) {
        let member = state.member_mut(me);
        let doing = std::mem::take(&mut member.doing);
        match doing {
            Doing::FromSuccessor { .. } if !self.broken(Mutation::KeepsDeadHead) => {
                member.successors = member.successors.without_first();
                self.notify_head(state, me);
            }
            Doing::FromPredecessor {
                successor, closer, ..
            } => {
                if successor == me && member.predecessor == Some(closer) {
                    member.predecessor = None;
                }
                self.notify_head(state, me);
            }
            _ => {}
        }
    }

    /// The list that follows from an answer that is under way; none if there is no such answer, or
    /// it changes nothing.
    fn list_heard(&self, me: Id, member: &Member) -> Option<List> {
        let after = |head: Id, rest: &List| {
            let rest = rest.ids().iter().copied();
            List::clockwise(me, std::iter::once(head).chain(rest))
        };
        match member.doing {
            Doing::Joining {
                at,
                heard: Some((_, list)),
            } => self.joined(me, at, &list),
            Doing::FromSuccessor {
                heard: Some((predecessor, rest)),
            } => {
                let head = member.successors.first()?;
                if self.broken(Mutation::KeepsOwnList) {
                    return Some(member.successors);
                }
                let list = after(head, &rest);
                match self.closer(me, head, predecessor) {
                    Some(closer) if self.broken(Mutation::AdoptsUnasked) => {
                        Some(after(closer, &list))
                    }
                    _ => Some(list),
                }
            }
            Doing::FromPredecessor {
                successor,
                closer,
                heard: Some((_, rest)),
            } => {
                let unchanged = member.successors.first().unwrap_or(me) == successor;
                let adopt = unchanged || self.broken(Mutation::IgnoresChangedHead);
                adopt.then(|| after(closer, &rest))
            }
            _ => None,
        }
    }

    /// `join_answered`: the new member's list, if its place is after `at`.
    fn joined(&self, me: Id, at: Id, list: &List) -> Option<List> {
        let here = between(at, me, list.first().unwrap_or(at));
        (here || self.broken(Mutation::JoinsAnywhere)).then(|| {
            let list = List::clockwise(me, list.ids().iter().copied().filter(|id| *id != me));
            if list.ids().is_empty() {
                List::of(&[at])
            } else {
                list
            }
        })
    }

    /// The successor's predecessor, if it is to be asked.
    fn closer(&self, me: Id, head: Id, predecessor: Option<Id>) -> Option<Id> {
        let closer = predecessor.filter(|id| *id != me && *id != head)?;
        let stands_between = between(me, closer, head) || self.broken(Mutation::AsksAnyPredecessor);
        (stands_between && !self.broken(Mutation::IgnoresPredecessor)).then_some(closer)
    }

    /// `join_answered`, `successor_answered`, `successors_predecessor_answered`.
    fn hear(&self, state: &mut State, me: Id) {
        let list = self.list_heard(me, state.member(me));
        let member = state.member_mut(me);
        let doing = std::mem::take(&mut member.doing);
        let head = member.successors.first();
        if let Some(list) = list {
            member.successors = list;
        }
        match doing {
            Doing::Joining { at, .. } => {
                if list.is_some() {
                    (member.standing, member.predecessor) = (Standing::Live, Some(at));
                }
                return;
            }
            Doing::FromSuccessor {
                heard: Some((predecessor, _)),
            } => {
                let closer =
                    head.and_then(|head| Some((head, self.closer(me, head, predecessor)?)));
                if let Some((head, closer)) = closer
                    && !self.broken(Mutation::AdoptsUnasked)
                {
                    return self.ask_closer(state, me, head, closer);
                }
            }
            _ => {}
        }
        self.notify_head(state, me);
    }

    fn notify_head(&self, state: &mut State, me: Id) {
        let head = state.member(me).successors.first();
        let told = head.filter(|head| *head != me && state.is_live(*head));
        if !self.broken(Mutation::NeverNotifies) {
            state.member_mut(me).notified = told;
        }
    }

    /// `rectify`.
    fn rectify(&self, state: &mut State, me: Id, notifier: Id) {
        let member = state.member_mut(me);
        let closer =
            |present| between(present, notifier, me) && !self.broken(Mutation::RectifiesDeadOnly);
        match member.predecessor {
            None => member.predecessor = Some(notifier),
            Some(present) if present == notifier => {}
            Some(present) if closer(present) || self.broken(Mutation::RectifiesUnasked) => {
                member.predecessor = Some(notifier);
            }
            Some(_) if self.broken(Mutation::KeepsDeadPredecessor) => {}
            Some(_) => {
                let aside = std::mem::replace(&mut member.doing, Doing::Rectify { notifier });
                if self.grain == Grain::Atomic {
                    self.advance(state, me);
                    state.member_mut(me).doing = aside;
                }
            }
        }
    }
}
