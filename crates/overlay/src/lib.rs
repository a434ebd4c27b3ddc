//! Secure Chord: ring keys, ring maintenance and lookups, without I/O.
//!
//! The routers of a ring stand in the order of their keys. Each knows its predecessor, the next few
//! successors and some fingers far round the ring, keeps these pointers right while others come,
//! die and leave, and finds the owner of any point in about log2(N) / 2 questions. Ring maintenance
//! follows Zave's corrected Chord; [`invariant`] states what holds when, as functions that
//! simulators and tests call.
//!
//! This crate has no socket, clock or source of chance: time is an argument, and chance comes from
//! a seed. It trusts its caller for one thing: `from` of a message is authenticated. What the
//! ring's owner has certified, and signatures, come from the caller's [`Credentials`]. Without them
//! a member believes what others say, as Chord does; with them it believes no single one.
//!
//! # Modules, in the order in which data flows
//!
//! - `key`: [`RingKey`], [`between`]. `message`, `wire`: [`Message`] and its bytes.
//! - `chord`: [`Chord`], where input comes in and output goes out, and what takes both between the
//!   machines: its documentation shows them. `config`, `event`: what it is told, and what it tells.
//! - `context`: what every machine works with. `output`: what goes out. `effect`: what one machine
//!   leaves to others. `known`: what they read of the ring. `trust`: who may be used at all.
//! - `request`: open requests with their time limits. `health`: how much this member doubts itself.
//!   `peers`: who is silent, who is known, who asks too often.
//! - `ring`: join, stabilise, rectify, leave, reunite. One operation at a time.
//! - `credentials`: [`Credentials`], what the caller knows of certificates. `view`: [`View`], a
//!   member's signed statement of its group. `proof`: [`Accusation`], [`Proof`], what convicts a
//!   member.
//! - `group`: the g members around a point; `group::neighbours`: the own group; `group::audit`,
//!   `group::witness`: who contradicts itself.
//! - `lookup`: what is asked (`inquiry`); from group to group to the owner (`verified`, `iterate`,
//!   `finalise`), by the paper's rule (`paper`), and from member to member as Chord does (`plain`).
//!   `finger`: the groups far round the ring, found by lookups.
//! - `news`: what the ring's owner states, told to all. `route`: messages of members, from router
//!   to router.
//! - `record`: [`Record`]s of members, kept by the group around their point (`store`, `keep`), put
//!   and found (`find`).
//! - [`invariant`]: Zave's invariant. [`limits`]: every bound.
//!
//! # The run loop
//!
//! After [`Chord::new`] and then after every command and every input:
//!
//! 1. send what [`Chord::poll_transmit`] gives, until it gives nothing more;
//! 2. act on what [`Chord::poll_event`] gives, until it gives nothing more;
//! 3. wait for a message, which goes to [`Chord::handle_message`], for the link layer to give up on
//!    a member, which goes to [`Chord::handle_unreachable`], or for the time that
//!    [`Chord::poll_timeout`] gives, which goes to [`Chord::handle_timeout`].
//!
//! Time never goes back. A message that cannot be sent is dropped: every request repeats itself.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use ringway_overlay::{Chord, Config, Event, Message, RingKey};
//!
//! let mut now = Instant::now(); // the caller's clock
//! let (ring, nonce) = ([1; 32], [2; 16]);
//! let keys = ["192.0.2.1:4000", "192.0.2.2:4000"]
//!     .map(|address| RingKey::derive(&ring, &nonce, address.parse().unwrap()));
//! let mut members = Vec::new();
//! for (key, seed) in keys.into_iter().zip([[3; 32], [4; 32]]) {
//!     members.push(Chord::new(key, Config::default(), seed)?);
//! }
//! members[0].start_ring(now);
//! members[1].join(now, &[keys[0]]);
//!
//! let mut joined = 0;
//! while joined < 2 || members.iter().any(|member| member.successors().is_empty()) {
//!     let mut under_way = Vec::new();
//!     for member in &mut members {
//!         while let Some(transmit) = member.poll_transmit() {
//!             under_way.push((member.key(), transmit.to, transmit.message.encode()));
//!         }
//!         while let Some(event) = member.poll_event() {
//!             joined += usize::from(event == Event::Joined);
//!         }
//!     }
//!     for (from, to, bytes) in under_way {
//!         let message = Message::decode(&bytes)?;
//!         let receiver = members.iter_mut().find(|member| member.key() == to).unwrap();
//!         receiver.handle_message(now, from, message);
//!     }
//!     now += Duration::from_millis(10);
//!     for member in &mut members {
//!         if member.poll_timeout().is_some_and(|timeout| timeout <= now) {
//!             member.handle_timeout(now);
//!         }
//!     }
//! }
//! assert_eq!(members[0].successors(), [keys[1]]);
//! assert_eq!(members[1].successors(), [keys[0]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is guaranteed
//!
//! While the ring **forms**, from its first member on, it is always one ordered ring with ordered
//! lists, and everybody who joined reaches it; concurrent joins converge. Deaths are survived as
//! long as every member keeps a live successor and the first member, or another that no member
//! skips, lives: in a ring of two that is not so. **After** r + 1 principals are there, Zave's full
//! invariant holds, and the ring survives the death of r − 1 neighbours between two rounds. A ring
//! that fell apart all the same (a divided network) grows together again when it can.
//!
//! **Malicious routers**: a verified lookup finds the owner as long as one honest member is asked
//! at each step, and says so when it is not sure. No member that follows the protocol can be
//! convicted: that takes two statements, or a false accusation, that it signed itself. See
//! `docs/explanation/ring.md`.

mod chord;
mod config;
mod context;
mod credentials;
mod effect;
mod event;
mod finger;
mod group;
mod health;
pub mod invariant;
mod key;
mod known;
pub mod limits;
mod lookup;
mod message;
mod news;
mod output;
mod peers;
mod proof;
mod record;
mod request;
mod ring;
mod route;
mod tally;
mod trust;
mod view;
mod wire;

pub use chord::Chord;
pub use config::{Config, ConfigError};
pub use credentials::{Credentials, MEMBER_LEN, SIGNATURE_LEN, Standing};
pub use event::{
    Counters, Event, LeaveRefused, LookupError, LookupFailure, LookupId, Membership, RecordId,
    RouteId, Snapshot, TallyId, Transmit, Waiting,
};
pub use key::{Offset, ParseKeyError, RingKey, between};
pub use lookup::Rule;
pub use message::{Message, RequestId};
pub use proof::{Accusation, Proof};
pub use record::{Record, RecordError};
pub use route::{Destination, RouteError, RouteFailure};
pub use tally::{Count, TallyError, at_least};
pub use view::{HASH_LEN, Header, NO_START, START_LEN, SignedHeader, Start, View, is_group_size};
pub use wire::DecodeError;
