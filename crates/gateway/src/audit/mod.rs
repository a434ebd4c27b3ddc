//! What was decided, kept in SQLite: appended in batches, searched, and forgotten when its time is
//! over. Hashes of files, and files that are kept.

mod digester;
mod file_store;
mod store;

pub use digester::Digester;
pub use file_store::{FileStore, FileStoreBounds};
pub use store::{AuditError, AuditStore, Search};
