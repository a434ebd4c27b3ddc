//! How the member does, asked of the loop that does its work.

use crate::member::MemberHandle;
use crate::transfer::Transfers;

/// Asks a running member how it does.
#[derive(Clone, Debug)]
pub struct Pulse {
    pub(super) member: MemberHandle,
    pub(super) transfers: Transfers,
}

impl Pulse {
    /// A line about it, such as `oslo of example.org, a router, is member: 3 links, 1 open
    /// transfer`. It comes from the member's run loop: while that stands still this waits, and once
    /// it has ended there is none.
    pub async fn beat(&self) -> Option<String> {
        let status = self.member.status().await?;
        let count = |number: usize, what: &str| match number {
            1 => format!("1 {what}"),
            number => format!("{number} {what}s"),
        };
        Some(format!(
            "{} of {}, a {}, is {}: {}, {}",
            status.name,
            status.ring,
            status.role,
            status.state,
            count(status.links.len(), "link"),
            count(self.transfers.open(), "open transfer"),
        ))
    }
}
