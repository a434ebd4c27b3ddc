//! The member's one task: a core, services that own their state, and a run loop that gives each
//! what concerns it.
//!
//! ```text
//!  input     packet ------------- take_incoming ---> Links::handle_packet; handshakes, cookies,
//!                                                    echoes, unknown link sessions end there
//!            datagram of QUIC --- carry_batch -----> Links::send
//!            command ------------ take_command ----> the service with this type of commands
//!            Outcome ------------ take_outcome ----> signals; what has waited for it is sent
//!            deadline ----------- on_deadline -----> Links, Validator, Chord, ...; services
//!  settle    Event of Links ----- take_link_event -> services: on_link, on_message
//!            signal ------------- next_signal -----> services: on_signal
//!            message of Chord --- send_overlay ----> Links::send
//!            event of Chord ----- next_ring_event -> services: on_ring; a lookup's end: signal
//!            PING of Validator -- send_pings ------> Links::send_via; to QUIC its endpoint
//!  on_room   links may have room -----------------> services: on_room; then settle again
//!  transmit  packet of Links ---- Network::send ---> a transport session: Session::send_batch
//!                                                    none: connect, until Outcome::Connected
//!                                                    an accepted one that is closed: true, then
//!                                                    Links::abandon_path
//!            the same, relayed -- relay.send ------> Links::send, to the router
//! ```
//! After each batch of input (at most `INPUT_BATCH` packets or datagrams) and what is due
//! (`on_deadline`), the loop settles until no part has anything for another, and transmits until
//! the links have no packet: `drain`, at its top.
//!
//! Two things are called sessions: one of a transport (`Session`), which carries packets to one
//! address, and one of a link (`link/session.rs`), the keys that both ends use for a time.
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
//! From the socket to a service and back, by the example of a PING, in eight files with this one,
//! to be read in this order. `udp/receive.rs` is below `src/` of `ringway-transport`, the others
//! are below that of this crate.
//!
//! 1. This file.
//! 2. `udp/receive.rs`: the transport's task cuts what the socket has into messages, as transports
//!    call the links' packets, and puts them into the inbox, each with the transport session of its
//!    sender.
//! 3. `member/runtime.rs`: [`Runtime::run`] takes a packet from the inbox and gives it to the links
//!    (`take_incoming`); `settle` gives what they report to the services.
//! 4. `link/incoming.rs`: `handle_packet` finds the link session by its index, decrypts, takes the
//!    counter once, and leaves an `Event::Message` for each message in the packet.
//! 5. `member/services/hellos.rs`: `on_message` takes the PING; `answer_ping` makes the PONG and
//!    gives it to `Core::send`, which is one line to `Links::send`.
//! 6. `link.rs`: `send` puts it into the queue of the peer, or keeps it until the link is up.
//!    `poll_transmit`, which `Runtime::transmit` calls after each batch, gives packets that are
//!    ready, and then those of the peers that have become ready, one peer after the other.
//! 7. `link/peer.rs`: `enqueue`, and `next_packet`: path, quota, messages that share the packet,
//!    and then encryption.
//! 8. `member/core/network.rs`: `send`, which `Core::send_packets` calls, has the transport session
//!    of the address send the packets. For UDP that hands the bytes to the system (`udp/send.rs`).
//!
//! A message goes to the services in the order of the list in `services.rs`, until one returns
//! `Handled::Yes`. `service.rs` is the trait: all else that a service may get.
//!
//! # What a service can do
//! It works on itself and on the core: it sends messages by `Core::send`, and calls the core's
//! links, network, directory, validator, state and `Chord` itself. It knows no other service: for
//! those it leaves a signal. Where no input comes it names the time at which it wants to be
//! called.

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
