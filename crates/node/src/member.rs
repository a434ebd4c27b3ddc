//! The member's one task: a core, services that own their state, and a run loop that gives each
//! what concerns it.
//!
//! ```text
//! transports -> links -> services -> links -> transports
//! ```
//!
//! | part | is |
//! |---|---|
//! | [`runtime`] | the run loop: the only place that knows both the core and the services |
//! | [`core`] | what all services need: links, transports, certificates, the ring, the clock |
//! | [`service`] | what a service is: the trait, and what it gets |
//! | [`services`] | the list of services, each in a file of its own |
//! | [`handle`] | how others talk to the task |
//! | [`status`] | the status, of which each service writes its part |
//!
//! # The way of a message
//! From the socket to a service and back, in the order in which to read. A transport's task
//! (`ringway-transport`, for UDP `udp/receive.rs`) has put a packet into the inbox.
//!
//! 1. `runtime.rs`: [`Runtime::run`] takes it and gives it to the links; `settle` gives what the
//!    links report to the services.
//! 2. `link/incoming.rs`: the link finds the session by its index, decrypts the packet, takes its
//!    counter once, and leaves an event.
//! 3. `service.rs`: what a service is, and what it gets.
//! 4. `services.rs`: the list, and how a message goes to the first service that takes it.
//! 5. `services/hellos.rs`, as one of them: a HELLO is wanted, and it is time to give one.
//! 6. `core/own_hello.rs`: the core signs it and hands it to the link.
//! 7. `link/peer.rs`: messages to a member share packets, which `transmit` in `runtime.rs` polls;
//!    each is encrypted for a path.
//! 8. `core/network.rs`: each address has a session of its transport, which sends the packet.
//!
//! A service has no other way to act: it sends messages by the core, leaves a signal for others, or
//! names the time at which it wants to be called.

mod answer;
#[cfg(test)]
mod attacks;
mod core;
mod counters;
mod handle;
mod runtime;
mod service;
mod services;
mod status;

pub(crate) use self::answer::Unreachable;
pub(crate) use self::core::{Network, NetworkError, Setup, listens_at};
pub(crate) use self::handle::MemberHandle;
pub(crate) use self::runtime::{Inboxes, Runtime};
pub(crate) use self::services::Arrived;
#[cfg(feature = "fuzzing")]
pub(crate) use self::services::decode_anything as decode_leaf_entry;
pub use self::services::{Delivered, MessageSender, RingMessage};
