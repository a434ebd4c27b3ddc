//! What was decided, kept in SQLite: appended in batches, searched, and forgotten when its time is over.

mod store;

pub use store::{AuditError, AuditStore, Search};
