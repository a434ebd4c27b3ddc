//! A router's place in the ring.

mod convictions;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use ringway_overlay::{
    Chord, Config, Event as RingEvent, Membership as Position, Message, RingKey,
};
use ringway_transport::MemberId;

use self::convictions::{keep_evidence, recall_evidence};
use crate::certificate::Certificate;
use crate::control::Status;
use crate::credentials::RouterCredentials;
use crate::limits::EARLIER_VIEWS;
use crate::link::{LinkMessage, LinkVersion, Peer};
use crate::member::core::Core;
use crate::member::counters::counters;
use crate::member::service::{Handled, LinkEvent, Service};
use crate::state::StateError;

counters! {
    /// What this service counts.
    Counters {
        known_routers_refused,
        overlay_messages_malformed,
        overlay_messages_of_leaves,
    }
}

/// The place in the ring; of a leaf, nothing.
#[derive(Debug, Default)]
pub(in crate::member) struct Ring {
    /// Whether others hold proof against this router.
    convicted: bool,
    /// Until when its views are signed for routers of release 0.2, which are near.
    earlier_until: Option<Instant>,
    counted: Counters,
}

impl Ring {
    /// Takes up the place in the ring: begins it, joins it, or returns to it.
    fn enter(&mut self, core: &mut Core) -> Result<(), StateError> {
        let known = core.state.routers(&core.membership.ring)?;
        for router in &known {
            // Revoked or expired ones are left out; the others are known without DNS.
            if core.directory.admit(router.as_bytes()).is_err() {
                self.counted.known_routers_refused += 1;
            }
        }
        let Some(key) = core.own_key() else {
            return Ok(());
        };
        let incarnation = core.state.next_incarnation()?;
        let Some(mut chord) = machine(core, key, incarnation) else {
            return Ok(());
        };
        recall_evidence(core, &mut chord);
        let others: Vec<RingKey> = known
            .iter()
            .filter_map(Certificate::ring_key)
            .filter(|k| *k != key)
            .collect();
        if others.is_empty() {
            chord.start_ring(core.now);
        } else {
            // Also at the first start: a router that was enrolled earlier may never run, and no
            // other would begin the ring.
            chord.resume(core.now, &others);
        }
        core.chord = Some(chord);
        Ok(())
    }

    /// A router of release 0.2 reads views of version 1 only.
    fn note_version(&mut self, core: &mut Core, member: &MemberId) {
        let earlier = core.links.versions().of(member) == Some(LinkVersion::Earlier);
        if earlier && core.ring_key_of(member).is_some() {
            self.earlier_until = Some(core.now + EARLIER_VIEWS);
            if let Some(chord) = &mut core.chord {
                chord.sign_earlier_views(core.now, true);
            }
        }
    }

    fn take(&mut self, core: &mut Core, member: &MemberId, bytes: &[u8]) {
        // Only routers have a key, and it is the owner's certificate that says which.
        let Some(key) = core.ring_key_of(member) else {
            self.counted.overlay_messages_of_leaves += 1;
            return;
        };
        let (Some(chord), Ok(message)) = (&mut core.chord, Message::decode(bytes)) else {
            self.counted.overlay_messages_malformed += 1;
            return;
        };
        core.overlay.received += 1;
        chord.handle_message(core.now, key, message);
    }

    /// Gives the place in the ring up, and tells those whom a link leads to: for any other no link
    /// is made any more, and its questions stay unanswered. Where the ring is too small to be
    /// left, the others find out like that, too.
    pub(in crate::member) fn leave(&self, core: &mut Core) {
        let Some(mut chord) = core.chord.take() else {
            return;
        };
        match chord.leave(core.now) {
            Ok(()) => tracing::info!("this router leaves the ring"),
            Err(refused) => tracing::info!(%refused, "this router ends without leaving the ring"),
        }
        while let Some(transmit) = chord.poll_transmit() {
            let linked = core.directory.cached_router(&transmit.to);
            if let Some(to) = linked.map(|certificate| certificate.member())
                && core.links.is_up(&to)
            {
                let message = LinkMessage::Overlay(transmit.message.encode().into());
                core.send(&to, message);
            }
        }
    }
}

/// The overlay's part of a router, not yet in the ring; none where the ring cannot be served.
fn machine(core: &Core, key: RingKey, incarnation: u32) -> Option<Chord> {
    let config = Config {
        successors: core.membership.statement.successors(),
        group: core.membership.statement.group(),
        ..Config::default()
    };
    let credentials = RouterCredentials::new(
        core.identity.clone(),
        core.membership.certificate.clone(),
        Arc::clone(&core.directory),
    );
    // Guessable choices of paths would help those who want to stand in them.
    let seed = *blake3::hash(&rand::random::<[u8; 32]>()).as_bytes();
    match Chord::new(key, config, seed) {
        Ok(chord) => Some(chord.with_credentials(Box::new(credentials), incarnation)),
        Err(error) => {
            tracing::error!(%error, "the ring's parameters cannot be used");
            None
        }
    }
}

/// The overlay signs with a new start: the machine was set back, its date moved, or there is
/// another copy of this home.
fn log_start_over(core: &Core, count: u32) {
    tracing::warn!(
        "this machine's date has moved, or others know statements of this router that it does \
         not: it was set back, or there is a second copy of its home"
    );
    let state = Arc::clone(&core.state);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = state.raise_incarnation(count) {
            tracing::error!(%error, "the count of starts could not be stored");
        }
    });
}

/// For the next start. The disk may be slow, and this task has links to look after.
fn remember_routers<'a>(core: &Core, keys: impl Iterator<Item = &'a RingKey>) {
    let certificates: Vec<Certificate> = keys
        .filter_map(|key| core.directory.cached_router(key))
        .collect();
    let state = Arc::clone(&core.state);
    tokio::task::spawn_blocking(move || {
        for certificate in certificates {
            if let Err(error) = state.remember_router(&certificate) {
                tracing::error!(%error, "a router could not be remembered");
            }
        }
    });
}

/// How far a router is, in one word.
fn position(chord: &Chord) -> &'static str {
    match chord.state() {
        Position::Member => "member",
        Position::Joining => "joining",
        Position::Outside => "outside",
    }
}

impl Service for Ring {
    type Command = Infallible;

    fn start(core: &mut Core) -> Result<Ring, StateError> {
        let mut ring = Ring::default();
        ring.enter(core)?;
        Ok(ring)
    }

    fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
        let member = match event {
            LinkEvent::Down(member) => member,
            LinkEvent::Up(member) => return self.note_version(core, &member),
        };
        let key = core.ring_key_of(&member);
        if let (Some(chord), Some(key)) = (&mut core.chord, key) {
            chord.handle_unreachable(core.now, key);
        }
    }

    fn on_message(
        &mut self,
        core: &mut Core,
        member: MemberId,
        message: &mut LinkMessage,
    ) -> Handled {
        let LinkMessage::Overlay(bytes) = message else {
            return Handled::No;
        };
        self.take(core, &member, bytes);
        Handled::Yes
    }

    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        self.earlier_until
    }

    fn on_deadline(&mut self, core: &mut Core) {
        let earlier = |(member, _): (&MemberId, &Peer)| {
            let version = core.links.versions().of(member);
            version == Some(LinkVersion::Earlier) && core.ring_key_of(member).is_some()
        };
        let near = core.links.up().any(earlier);
        self.earlier_until = near.then(|| core.now + EARLIER_VIEWS);
        if let Some(chord) = &mut core.chord {
            chord.sign_earlier_views(core.now, near);
        }
    }

    fn on_ring(&mut self, core: &mut Core, event: &RingEvent) {
        match event {
            RingEvent::Joined => {
                if let Err(error) = core.state.set_was_in_ring() {
                    tracing::error!(%error, "the state could not be stored");
                }
            }
            RingEvent::NeighboursChanged {
                predecessor,
                successors,
            } => remember_routers(core, predecessor.iter().chain(successors)),
            RingEvent::Convicted { proof, .. } => keep_evidence(core, proof),
            RingEvent::OwnConviction(proof) => {
                self.convicted = true;
                keep_evidence(core, proof);
            }
            RingEvent::StartedOver(count) => log_start_over(core, *count),
            RingEvent::MemberDead(key) => tracing::info!(%key, "a router does not answer"),
            RingEvent::Isolated => {
                tracing::warn!("all successors are gone: this router looks for the others");
            }
            _ => {}
        }
    }

    fn report(&self, core: &Core, status: &mut Status) {
        let Some(chord) = &core.chord else {
            return;
        };
        let reference = |key: &RingKey| core.router_ref(key);
        status.state = position(chord).to_owned();
        if self.convicted {
            status.state = "convicted".to_owned();
        }
        status.predecessor = chord.predecessor().as_ref().map(reference);
        status.successors = chord.successors().iter().map(reference).collect();
    }

    fn count(&self, shown: &mut BTreeMap<String, u64>) {
        self.counted.show(shown);
    }
}
