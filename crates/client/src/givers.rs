//! From whom a file comes that goes to several members.

use serde::{Deserialize, Serialize};

/// What one member has given of a file that comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Giver {
    /// Its name, or its id where no name is known.
    pub peer: String,
    /// Bytes, with the hashes that prove them.
    pub bytes: u64,
}
