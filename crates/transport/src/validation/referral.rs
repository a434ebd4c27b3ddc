//! Receipts for what has been proved here, and what those of others are worth.

use std::collections::BTreeSet;
use std::time::Instant;

use super::Validator;
use super::timing::Timing;
use crate::address::{Address, AddressDescriptor};
use crate::hello::Hello;
use crate::member::{MemberId, Signer};
use crate::receipt::{Receipt, Referral};

impl Validator {
    /// Getter: receipts for the addresses of `member` that are valid now, signed by `me`, at `unix`
    /// (Unix time, seconds). They count for as long as we would believe the same ourselves.
    pub fn receipts(
        &self,
        now: Instant,
        unix: u64,
        member: &MemberId,
        me: &dyn Signer,
    ) -> Vec<Receipt> {
        let advertiser = self.members.get(member);
        let entries = advertiser
            .iter()
            .flat_map(|advertiser| &advertiser.addresses);
        let receipts = entries.filter_map(|entry| {
            let valid = entry.valid_at(now)?;
            let age = now.saturating_duration_since(valid.since).as_secs();
            let lifetime = u32::try_from(longest(&entry.descriptor)).unwrap_or(u32::MAX);
            let address = entry.descriptor.address.clone();
            let when = unix.saturating_sub(age);
            Some(Receipt::sign(me, *member, address, when, lifetime))
        });
        receipts.collect()
    }
}

impl Referral {
    /// The addresses of its HELLO, decoded, for which a fresh receipt of an `admitted` member other
    /// than the HELLO's own speaks, at `unix` (Unix time, seconds). Receipts that are not good
    /// count for nothing.
    pub fn vouched_for(
        &self,
        hello: &Hello,
        unix: u64,
        admitted: &dyn Fn(&MemberId) -> bool,
    ) -> BTreeSet<Address> {
        let subject = hello.member();
        let wanted = |challenger: &MemberId, member: &MemberId| {
            *member == subject && *challenger != subject && admitted(challenger)
        };
        let mut vouched = BTreeSet::new();
        for bytes in self.receipts() {
            let Ok(Some(receipt)) = Receipt::decode_if(bytes, wanted) else {
                continue;
            };
            let named = hello.addresses().iter();
            let mut named = named.filter(|d| d.address == *receipt.address());
            if named.any(|descriptor| receipt.is_fresh(unix, longest(descriptor))) {
                vouched.insert(receipt.address().clone());
            }
        }
        vouched
    }
}

/// For how many seconds a proof of such an address counts.
fn longest(descriptor: &AddressDescriptor) -> u64 {
    Timing::of(descriptor).valid_for.as_secs()
}
