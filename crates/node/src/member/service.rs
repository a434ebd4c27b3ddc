//! What a service of a member is: a part with state of its own, to which the run loop gives what
//! concerns it.
//!
//! A service works on the [`Core`] and on itself. It knows no other service: what it has for others
//! is a [`Signal`].

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_overlay::Event as RingEvent;
use ringway_transport::MemberId;

use super::core::{Core, Signal};
use crate::control::Status;
use crate::link::LinkMessage;
use crate::state::StateError;

/// A link that has come or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkEvent {
    /// A handshake has succeeded: the member can be talked to. It may have restarted and forgotten
    /// everything.
    Up(MemberId),
    /// No path leads to it any more, or it said goodbye.
    Down(MemberId),
}

/// Whether a service has taken a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    /// No other service gets it.
    Yes,
    /// It is another's.
    No,
}

/// A part of the member with state of its own. All times are [`Core::now`]; what a method leaves
/// undone for lack of an event it does in [`Service::on_deadline`].
pub(super) trait Service: Sized {
    /// What others ask of it by the [`MemberHandle`](super::handle::MemberHandle);
    /// [`Infallible`](std::convert::Infallible) where that is nothing. No two services have the
    /// same, but for that one.
    type Command: Send + 'static;

    /// The service at the start of the member.
    ///
    /// # Errors
    /// When the state cannot be read or written.
    fn start(core: &mut Core) -> Result<Self, StateError>;

    /// The service's own command.
    fn on_command(&mut self, _core: &mut Core, _command: Self::Command) {}

    /// A link has come or gone; all services get it.
    fn on_link(&mut self, _core: &mut Core, _event: LinkEvent) {}

    /// A message over a link; the first service that takes it is the only one. It may take the
    /// bytes out of the message.
    fn on_message(
        &mut self,
        _core: &mut Core,
        _from: MemberId,
        _message: &mut LinkMessage,
    ) -> Handled {
        Handled::No
    }

    /// What the overlay reports; all services get it.
    fn on_ring(&mut self, _core: &mut Core, _event: &RingEvent) {}

    /// What the core or another service has said; all services get it.
    fn on_signal(&mut self, _core: &mut Core, _signal: &Signal) {}

    /// After each input, once all that it has caused has been handled: links may have room for what
    /// waits here.
    fn on_room(&mut self, _core: &mut Core) {}

    /// When [`Service::on_deadline`] has something to do. Asked after each input: it has to be
    /// cheap.
    fn next_deadline(&self, _core: &Core) -> Option<Instant> {
        None
    }

    /// The deadline has come. The next one has to be later than now.
    fn on_deadline(&mut self, _core: &mut Core) {}

    /// Writes the service's part of the status.
    fn report(&self, _core: &Core, _status: &mut Status) {}

    /// Adds the service's counters.
    fn count(&self, _shown: &mut BTreeMap<String, u64>) {}
}
