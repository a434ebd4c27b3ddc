//! What was decided, kept in SQLite: appended in batches, searched, and forgotten when its time is
//! over. The history of flows. What was used of quotas. Hashes of files, and files that are kept.

mod database;
mod digester;
mod file_store;
mod flow_store;
mod quota_store;
mod store;

pub use digester::Digester;
pub use file_store::{FileStore, FileStoreBounds};
pub use flow_store::{FlowSearch, FlowStore};
pub use quota_store::QuotaStore;
pub use store::{AuditError, AuditStore, Search};
