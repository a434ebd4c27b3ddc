//! The numbers of everything that two builds of the program may have to agree on, each in one
//! place. `docs/reference/versions.md` says since which release each counts.

pub use ringway_client::versions::{CONTROL, RELEASE};

/// Newest version of the link protocol: what members exchange over a link's handshakes.
pub const LINK: u8 = 3;

/// Oldest version of the link protocol that this build speaks as well.
pub const LINK_OLDEST: u8 = 2;

/// Version of the member's `state.db`: the migrations that have made it, each applied once. An
/// older one is migrated, and a copy of it kept; a newer one is refused.
pub const STATE: usize = crate::state::MIGRATIONS.len();

/// The first release with this version of the state. A migration that is added names the next
/// release here.
pub const STATE_SINCE: &str = "0.3.0";

/// The same of the authority's `authority.db`.
pub const AUTHORITY: usize = crate::authority::MIGRATIONS.len();

/// As [`STATE_SINCE`], for [`AUTHORITY`].
pub const AUTHORITY_SINCE: &str = "0.3.0";
