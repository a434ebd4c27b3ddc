//! What was decided, kept in SQLite: appended in batches, searched, and forgotten when its time is
//! over. Hashes of files, and files that are kept.

mod digester;
mod store;
mod vault;

pub use digester::Digester;
pub use store::{AuditError, AuditStore, Search};
pub use vault::{Vault, VaultBounds};
