//! The services of a member, each in a file of its own below `services/`.
//!
//! What all get, they get in the order of the list. A message goes to the first that takes it, so
//! those that get the most stand first.

mod datagrams;
mod echo;
mod hellos;
mod joining;
mod known_peers;
mod leaf_registry;
mod lookups;
mod membership;
mod messages;
mod parents;
mod paths;
mod punch;
mod reach;
mod records;
mod relay;
mod returns;
mod ring;
mod routed;
mod tallies;

use std::collections::BTreeMap;
use std::time::Instant;

use ringway_overlay::Event as RingEvent;
use ringway_transport::MemberId;

#[cfg(feature = "fuzzing")]
pub(crate) use self::leaf_registry::decode_anything;
#[cfg(test)]
pub(super) use self::leaf_registry::key_of;
pub(crate) use self::messages::Arrived;
pub use self::messages::MessageSender;
pub use self::routed::{Delivered, RingMessage};
use super::core::{Core, Signal};
use super::handle::Command;
use super::service::{Handled, LinkEvent, Service};
use crate::control::Status;
use crate::link::LinkMessage;
use crate::state::StateError;

/// Makes the struct of all services, and the methods that give each what concerns it.
macro_rules! services {
    ($($name:ident: $service:ty,)+) => {
        /// All services. Each method is the one of [`Service`], for all of them.
        #[derive(Debug)]
        pub(super) struct Services {
            $(pub(super) $name: $service,)+
        }

        impl Services {
            pub(super) fn start(core: &mut Core) -> Result<Services, StateError> {
                Ok(Services { $($name: <$service>::start(core)?,)+ })
            }

            /// Gives a command to the service that has this type of commands.
            pub(super) fn on_command(&mut self, core: &mut Core, command: Command) {
                $(let command = match command.downcast::<<$service as Service>::Command>() {
                    Ok(command) => return self.$name.on_command(core, *command),
                    Err(command) => command,
                };)+
                tracing::error!(?command, "no service takes a command");
            }

            pub(super) fn on_link(&mut self, core: &mut Core, event: LinkEvent) {
                $(self.$name.on_link(core, event);)+
            }

            pub(super) fn on_message(
                &mut self,
                core: &mut Core,
                from: MemberId,
                message: &mut LinkMessage,
            ) {
                $(if self.$name.on_message(core, from, message) == Handled::Yes {
                    return;
                })+
            }

            pub(super) fn on_ring(&mut self, core: &mut Core, event: &RingEvent) {
                $(self.$name.on_ring(core, event);)+
            }

            pub(super) fn on_signal(&mut self, core: &mut Core, signal: &Signal) {
                $(self.$name.on_signal(core, signal);)+
            }

            pub(super) fn on_room(&mut self, core: &mut Core) {
                $(self.$name.on_room(core);)+
            }

            pub(super) fn next_deadline(&self, core: &Core) -> Option<Instant> {
                let deadlines = [$(self.$name.next_deadline(core)),+];
                deadlines.into_iter().flatten().min()
            }

            pub(super) fn on_deadline(&mut self, core: &mut Core) {
                $(if self.$name.next_deadline(core).is_some_and(|due| due <= core.now) {
                    self.$name.on_deadline(core);
                })+
            }

            pub(super) fn report(&self, core: &Core, status: &mut Status) {
                $(self.$name.report(core, status);)+
            }

            pub(super) fn count(&self, shown: &mut BTreeMap<String, u64>) {
                $(self.$name.count(shown);)+
            }
        }
    };
}

services! {
    datagrams: datagrams::Datagrams,
    relay: relay::Relay,
    ring: ring::Ring,
    messages: messages::Messages,
    joining: joining::Joining,
    leaf_registry: leaf_registry::LeafRegistry,
    hellos: hellos::Hellos,
    echo: echo::Echoes,
    reach: reach::Reach,
    parents: parents::Parents,
    punch: punch::Punch,
    lookups: lookups::Lookups,
    records: records::Records,
    tallies: tallies::Tallies,
    routed: routed::RoutedMessages,
    returns: returns::Returns,
    membership: membership::Membership,
    known_peers: known_peers::KnownPeers,
    paths: paths::Paths,
}
