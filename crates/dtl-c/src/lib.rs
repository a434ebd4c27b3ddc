//! DTL for C, and for every language that calls C: the header is `include/dtl.h`, which says what
//! each function does.
//!
//! This is [`ringway_transport::dtl`] with handles for its types, calls that block, and a runtime
//! of its own. It is a crate because only a crate can be a library for C (decision 111). What
//! crosses from C is checked here and nowhere below: NULL, sizes, text, numbers. Pointers are
//! trusted to be what the header demands, so these functions are not for Rust.

#![allow(
    unsafe_code,
    reason = "C hands in pointers; each use says what the header demands of them"
)]

mod argument;
mod connection;
mod endpoint;
mod failure;
mod stream;

pub use connection::*;
pub use endpoint::*;
pub use failure::dtl_last_error;
pub use stream::*;
