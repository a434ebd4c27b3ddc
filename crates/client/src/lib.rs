//! What other programs use of a member: a client of its daemon, over the daemon's control socket.
//!
//! ```no_run
//! # async fn run() -> Result<(), ringway_client::ClientError> {
//! use ringway_client::Client;
//!
//! let client = Client::connect_usual().await?;
//! let sent = client.send(&["report.pdf"], &["oslo"], &Default::default()).await?;
//! let ended = client.watch(&sent[0].id).await?.end().await?;
//! println!("{}: {}", ended.file, ended.state);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules, in the order in which data flows
//! | module | does |
//! |---|---|
//! | [`client`] | the typed client: a method for each thing that a member does for a program |
//! | [`stream`] | streams to services of other members, and services that a program offers |
//! | [`mail`], [`events`] | messages; what happens at a member |
//! | [`place`] | where a member's daemon is reached |
//! | [`connection`], [`descriptor`] | one request and its answers; an open file beside it |
//! | [`message`] | the messages: a request in, replies out; [`streams`], [`tallies`]: those about services and counts |
//! | [`send_all`] | the one to send several files and folders, or to several members; `sending`: what a program gives it |
//! | [`givers`] | from whom a file comes that goes to several members |
//! | [`leave`] | those by which a member leaves its ring |
//! | `limited_by` | why a transfer is not faster |
//! | [`text`] | paths in JSON, and what may be shown of strangers' words |
//! | [`versions`], [`limits`] | numbers that both sides have to agree on, and bounds |

pub mod client;
pub mod connection;
pub mod descriptor;
pub mod events;
pub mod givers;
pub mod leave;
mod limited_by;
pub mod limits;
pub mod mail;
pub mod message;
pub mod place;
pub mod send_all;
mod sending;
pub mod stream;
pub mod streams;
pub mod tallies;
pub mod text;
pub mod versions;

pub use client::{Client, SendOptions, Watch};
pub use connection::{ClientError, Connection};
pub use events::{Event, Events};
pub use mail::Messages;
pub use place::Place;
pub use stream::{Listener, Stream};
