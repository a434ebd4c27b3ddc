//! Connections that share one congestion control because they share a path: those that we made to
//! one member at one address.
//!
//! They go from one socket to one socket, so even a router that queues or routes by flow sees them
//! as one. Groups to different members, or addresses, are coupled where they turn out to wait in
//! one queue ([`SharedCoupling`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ringway_dtl::{
    AckSample, Config, Controller, CoupledGroup, Coupling, Group, GroupFlow, Look, LossSample,
    Priority, Report,
};

use crate::member::MemberId;

/// What the endpoints of one program know of the queues that their connections wait in together.
/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SharedCoupling(Arc<Coupled>);

#[derive(Debug, Default)]
struct Coupled {
    known: Mutex<Known>,
    /// How many groups there are: a single one need not ask, and takes no lock.
    groups: AtomicUsize,
}

#[derive(Debug, Default)]
struct Known {
    coupling: Coupling,
    /// To whom each group sends.
    members: BTreeMap<CoupledGroup, MemberId>,
}

impl SharedCoupling {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // As with groups.
        let locked = self.0.known.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if there are too many already.
    fn join(&self, member: MemberId) -> Option<CoupledGroup> {
        let mut known = self.lock();
        let id = known.coupling.join().ok()?;
        known.members.insert(id, member);
        self.0.groups.fetch_add(1, Ordering::Relaxed);
        Some(id)
    }

    fn leave(&self, now: Instant, id: CoupledGroup) {
        let mut known = self.lock();
        known.members.remove(&id);
        if known.coupling.leave(now, id) {
            self.0.groups.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn is_of_several(&self) -> bool {
        self.0.groups.load(Ordering::Relaxed) > 1
    }

    /// The other members whose groups wait in one queue with this one.
    fn others(&self, id: CoupledGroup) -> BTreeSet<MemberId> {
        let known = self.lock();
        let own = known.members.get(&id);
        let others = known.coupling.others(id);
        let members = others.filter_map(|other| known.members.get(&other));
        members
            .filter(|member| Some(*member) != own)
            .copied()
            .collect()
    }
}

/// A group that connections of several tasks use.
#[derive(Debug)]
pub(super) struct SharedGroup {
    group: Mutex<Group>,
    /// `None`: it is always on its own.
    coupled: Option<(SharedCoupling, CoupledGroup)>,
}

impl SharedGroup {
    fn new(config: &Config, member: MemberId, coupling: Option<&SharedCoupling>) -> SharedGroup {
        let join = |coupling: &SharedCoupling| Some((coupling.clone(), coupling.join(member)?));
        SharedGroup {
            group: Mutex::new(Group::new(config.clone())),
            coupled: coupling.and_then(join),
        }
    }

    /// The other members to whom what we send waits in one queue with what we send here.
    pub(super) fn coupled_with(&self) -> BTreeSet<MemberId> {
        let coupled = self.coupled.as_ref();
        coupled.map_or_else(BTreeSet::new, |(coupling, id)| coupling.others(*id))
    }

    fn lock(&self) -> MutexGuard<'_, Group> {
        // A panic elsewhere leaves at worst a wrong window, which the next acknowledgements mend.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_ack_batch_end(&self, now: Instant, flow: GroupFlow, in_flight: u64, look: Option<Look>) {
        let mut group = self.lock();
        group.on_ack_batch_end(now, flow, in_flight);
        // No code takes the two locks the other way round.
        if let (Some((coupling, id)), Some(look)) = (&self.coupled, look)
            && coupling.is_of_several()
            && let Some(standing) = group.standing()
        {
            let coupling = &mut coupling.lock().coupling;
            let factor = coupling.exchange(now, *id, &standing, &look);
            group.scale(factor);
        }
    }
}

impl Drop for SharedGroup {
    fn drop(&mut self) {
        if let Some((coupling, id)) = &self.coupled {
            coupling.leave(Instant::now(), *id);
        }
    }
}

/// The groups of an endpoint, as long as connections use them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_path: Mutex<BTreeMap<(MemberId, SocketAddr), Weak<SharedGroup>>>,
}

impl Groups {
    /// The group of connections to `member` at `address`.
    pub(super) fn of(
        &self,
        member: MemberId,
        address: SocketAddr,
        config: &Config,
        coupling: Option<&SharedCoupling>,
    ) -> Arc<SharedGroup> {
        let mut by_path = self.by_path.lock().unwrap_or_else(PoisonError::into_inner);
        // So there are never more than the endpoint has connections, and this one.
        by_path.retain(|_, group| group.strong_count() > 0);
        let known = by_path.get(&(member, address)).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let group = Arc::new(SharedGroup::new(config, member, coupling));
            by_path.insert((member, address), Arc::downgrade(&group));
            group
        })
    }
}

/// A connection's place in its group; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    group: Arc<SharedGroup>,
    id: GroupFlow,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.lock().leave(Instant::now(), self.id);
    }
}

/// What decides about one path of a connection: a controller of its own, or its part of a group's.
/// The methods are those of [`Controller`].
#[derive(Debug, Clone)]
pub(super) enum Core {
    Alone(Box<Controller>),
    /// Clones are the same flow: QUIC clones a path's state when only the port has changed, and
    /// drops the old one.
    Grouped(Arc<Place>),
}

impl Core {
    /// A flow of `group`, if there is one and it has room.
    pub(super) fn new(
        now: Instant,
        config: Config,
        priority: Priority,
        group: Option<&Arc<SharedGroup>>,
    ) -> Core {
        let joined = group.and_then(|group| {
            let joined = group.lock().join(now, priority, config.datagram_size);
            let group = Arc::clone(group);
            joined.ok().map(|id| Arc::new(Place { group, id }))
        });
        match joined {
            Some(place) => Core::Grouped(place),
            None => Core::Alone(Box::new(Controller::new(now, config, priority))),
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, packet: u64, bytes: u64) {
        match self {
            Core::Alone(controller) => controller.on_sent(now, packet, bytes),
            Core::Grouped(at) => at.group.lock().on_sent(now, at.id, packet, bytes),
        }
    }

    /// Each of a batch.
    pub(super) fn on_acks(&mut self, now: Instant, samples: &[AckSample]) {
        match self {
            Core::Alone(controller) => {
                for sample in samples {
                    controller.on_ack(now, sample);
                }
            }
            Core::Grouped(at) => {
                // One lock for all of them.
                let mut group = at.group.lock();
                for sample in samples {
                    group.on_ack(now, at.id, sample);
                }
            }
        }
    }

    pub(super) fn on_one_way_delay(&mut self, now: Instant, rtt: Duration, one_way: Duration) {
        match self {
            Core::Alone(controller) => controller.on_one_way_delay(now, rtt, one_way),
            Core::Grouped(at) => at.group.lock().on_one_way_delay(now, at.id, rtt, one_way),
        }
    }

    /// `look`: what the newest of the packets says of the path.
    pub(super) fn on_ack_batch_end(&mut self, now: Instant, in_flight: u64, look: Option<Look>) {
        match self {
            Core::Alone(controller) => controller.on_ack_batch_end(now, in_flight),
            Core::Grouped(at) => at.group.on_ack_batch_end(now, at.id, in_flight, look),
        }
    }

    pub(super) fn on_loss(&mut self, now: Instant, sample: &LossSample) {
        match self {
            Core::Alone(controller) => controller.on_loss(now, sample),
            Core::Grouped(at) => at.group.lock().on_loss(now, at.id, sample),
        }
    }

    pub(super) fn on_spurious_loss(&mut self, now: Instant, sample: &LossSample) {
        match self {
            Core::Alone(controller) => controller.on_spurious_loss(now, sample),
            Core::Grouped(at) => at.group.lock().on_spurious_loss(now, at.id, sample),
        }
    }

    pub(super) fn on_reordering(&mut self, lateness: Duration) {
        match self {
            Core::Alone(controller) => controller.on_reordering(lateness),
            Core::Grouped(at) => at.group.lock().on_reordering(at.id, lateness),
        }
    }

    pub(super) fn on_congestion(
        &mut self,
        now: Instant,
        persistent: bool,
        ecn: bool,
        sent: Instant,
    ) {
        match self {
            Core::Alone(controller) => controller.on_congestion(now, persistent, ecn, sent),
            Core::Grouped(at) => {
                let mut group = at.group.lock();
                group.on_congestion(now, at.id, persistent, ecn, sent);
            }
        }
    }

    pub(super) fn on_datagram_size(&mut self, bytes: u64) {
        match self {
            Core::Alone(controller) => controller.on_datagram_size(bytes),
            Core::Grouped(at) => at.group.lock().on_datagram_size(at.id, bytes),
        }
    }

    pub(super) fn set_priority(&mut self, now: Instant, priority: Priority) {
        match self {
            Core::Alone(controller) => controller.set_priority(now, priority),
            Core::Grouped(at) => {
                at.group.lock().set_priority(now, at.id, priority);
            }
        }
    }

    pub(super) fn window(&self) -> u64 {
        match self {
            Core::Alone(controller) => controller.window(),
            Core::Grouped(at) => at.group.lock().window(at.id),
        }
    }

    pub(super) fn pacing_rate(&self) -> Option<u64> {
        match self {
            Core::Alone(controller) => controller.pacing_rate(),
            Core::Grouped(at) => at.group.lock().pacing_rate(at.id),
        }
    }

    pub(super) fn burst(&self) -> Option<u64> {
        match self {
            Core::Alone(controller) => controller.burst(),
            Core::Grouped(at) => at.group.lock().burst(at.id),
        }
    }

    /// `None` only for a place that was given back.
    pub(super) fn report(&self) -> Option<Report> {
        match self {
            Core::Alone(controller) => Some(controller.report()),
            Core::Grouped(at) => at.group.lock().report(at.id),
        }
    }
}
