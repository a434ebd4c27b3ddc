//! The live path on Linux: packets from the kernel, verdicts to it, and the rules that make the
//! kernel ask.
//!
//! | module | does |
//! |---|---|
//! | [`queue`] | packets from netfilter's queue and verdicts to it (NFQUEUE over netlink) |
//! | [`queue_pair`] | two queues for one gateway, so that files do not keep others waiting |
//! | [`marks`] | verdicts as bits of packet and connection marks |
//! | [`border`] | the interfaces between the organisation and the world |
//! | [`rules`] | the packet filter's rules: own chains in the table `mangle` |
//! | `class_rules` | those of classes of bandwidth |
//! | [`shaper`] | classes of bandwidth (HTB), and the leaves that they end in |
//! | [`inject`] | resets onto the wire |
//! | [`conntrack`] | what the kernel has carried, by its connection tracking |
//! | [`privileges`] | the capabilities that it keeps |
//! | [`confinement`] | the folders that it may write, and calls that it may not make |
//! | [`namespaces`] | a network of the process's own, for the demo |
//! | [`scanner_pool`] | scanners in threads of their own |
//! | [`hash_worker`] | hashes of audited files in a thread of its own |
//! | [`kernel`] | the in-kernel path: what the kernel decides by itself |
//! | [`terminate`] | connections that end here, and go on with sockets of the gateway's own |
//! | [`tool`] | the system's own tools, run to their end |
//! | [`live`] | the loop over all of it |
//!
//! The kernel asks only about flows that are not decided: a verdict travels as a mark on the
//! packet, the chain behind the queue saves it to the connection, and further packets are decided
//! by that mark alone. The rest of a file of which nothing more need be known is not asked about,
//! and neither is what only acknowledges it. No other program's chains, qdiscs or mark bits are
//! touched.

pub mod border;
mod class_rules;
pub mod confinement;
pub mod conntrack;
pub mod default_route;
mod family;
pub mod hash_worker;
pub mod inject;
pub mod kernel;
mod leaving;
pub mod leftover;
pub mod live;
pub mod marks;
pub mod namespaces;
mod netlink;
pub mod priority;
pub mod privileges;
mod pure_acks;
pub mod queue;
pub mod queue_pair;
pub mod rules;
pub mod ruleset_watch;
mod saved;
pub mod scanner_pool;
pub mod shaper;
pub mod terminate;
pub mod tool;
mod wire;
