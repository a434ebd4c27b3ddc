//! What other programs use of a member: the control protocol of its daemon.
//!
//! # Modules, in the order in which data flows
//! | module | does |
//! |---|---|
//! | [`message`] | the messages: a request in, replies out |
//! | [`leave`] | those by which a member leaves its ring |
//! | `limited_by` | why a transfer is not faster |
//! | [`text`] | paths in JSON, and what may be shown of strangers' words |
//! | [`versions`], [`limits`] | numbers that both sides have to agree on, and bounds |

pub mod leave;
mod limited_by;
pub mod limits;
pub mod message;
pub mod text;
pub mod versions;
