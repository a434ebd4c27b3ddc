//! HELLOs that a third member passes on, and receipts for what has been proved here.

use std::collections::BTreeSet;
use std::time::Instant;

use super::budget::{ADVERTISER_RATE, REFERRAL_RATE};
use super::entry::Advertiser;
use super::timing::Timing;
use super::{HelloOutcome, Validator};
use crate::address::{Address, AddressDescriptor};
use crate::hello::{Hello, HelloError};
use crate::member::{MemberId, Signer};
use crate::receipt::{Receipt, Referral};

/// Who passed a HELLO on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Referrer {
    /// The member, proved by the link that the referral came over.
    pub member: MemberId,
    /// Whether it is at the same site as we are. Only then are private addresses in the HELLO believed to mean here what they
    /// mean there.
    pub same_site: bool,
}

/// What became of a referral.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferralOutcome {
    /// It was read. Of the HELLO's addresses this many have receipts that count, and may get a PING.
    Taken {
        /// What became of the HELLO.
        hello: HelloOutcome,
        /// Addresses with at least one receipt that counts.
        vouched_for: usize,
    },
    /// Whoever passed it on has used up its budget; it was not looked at.
    OverBudget,
}

impl Validator {
    /// A HELLO of a third member arrived with receipts, at `unix` (Unix time, seconds). Only those of its addresses are queued for a
    /// PING for which there is a fresh receipt of an `admitted` member other than the HELLO's own; those with more receipts first. The
    /// PINGs cost the budget of the member that passed it on, so that nobody multiplies PINGs with the HELLOs of others.
    ///
    /// # Errors
    /// [`HelloError`] if the HELLO is not good: drop it. Receipts that are not good count for nothing.
    pub fn handle_referral(
        &mut self,
        now: Instant,
        unix: u64,
        referrer: Referrer,
        referral: &Referral,
        admitted: &dyn Fn(&MemberId) -> bool,
    ) -> Result<ReferralOutcome, HelloError> {
        if !self.pay_for_referral(now, referrer.member) {
            return Ok(ReferralOutcome::OverBudget);
        }
        let hello = Hello::decode(referral.hello())?;
        let subject = hello.member();
        let taken = |hello, vouched_for| Ok(ReferralOutcome::Taken { hello, vouched_for });
        if !admitted(&subject) {
            return taken(HelloOutcome::Unwanted, 0);
        }
        let vouched = vouchers(&hello, referral, unix, admitted);
        let ranked = |address: &Address| {
            let count = vouched.iter().filter(|(_, a)| a == address).count();
            (count > 0).then_some(count)
        };
        let known = self.has_heard_of(&subject);
        let addresses = hello.addresses().iter();
        let vouched_for = addresses.filter(|d| ranked(&d.address).is_some()).count();
        // Without a voucher it is no reason to remember a member that nobody has met.
        if vouched_for == 0 && !known {
            return taken(HelloOutcome::Unwanted, 0);
        }
        // By its own words a member passes on its own HELLO: that needs no receipts, and is no referral.
        let payer = Some(referrer.member).filter(|payer| *payer != subject);
        let believed = |address: &Address| referrer.same_site || !address.is_private();
        let outcome = self.take_up(now, &hello, &believed);
        if matches!(outcome, HelloOutcome::Accepted | HelloOutcome::Repeated) {
            self.grant(now, &hello, payer, ranked);
        }
        taken(outcome, vouched_for)
    }

    /// Takes one from the budget of the member; false if there is none, or no PING could follow anyway.
    fn pay_for_referral(&mut self, now: Instant, member: MemberId) -> bool {
        if !self.members.contains_key(&member) {
            if !self.make_room(now) {
                return false;
            }
            self.ages.insert((now, member));
            self.members.insert(member, Advertiser::new(now));
        }
        let Some(payer) = self.members.get_mut(&member) else {
            return false;
        };
        payer.budget.wait(now, ADVERTISER_RATE).is_none()
            && payer.referrals.take(now, REFERRAL_RATE)
    }

    /// Getter: receipts for the addresses of `member` that are valid now, signed by `me`, at `unix` (Unix time, seconds). They count
    /// for as long as we would believe the same ourselves.
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

    /// Getter: the newest HELLO of `member` as it came, with our receipts, to be passed on to others. `None` if no HELLO has come.
    pub fn referral(
        &self,
        now: Instant,
        unix: u64,
        member: &MemberId,
        me: &dyn Signer,
    ) -> Option<Referral> {
        let advertiser = self.members.get(member)?;
        advertiser.sequence?;
        let receipts = self.receipts(now, unix, member, me);
        let receipts = receipts.iter().map(|receipt| receipt.encoded().clone());
        Referral::new(advertiser.hello.clone(), receipts.collect()).ok()
    }
}

impl Referral {
    /// The addresses of its HELLO, decoded, for which a fresh receipt of an `admitted` member other than the HELLO's own speaks, at
    /// `unix` (Unix time, seconds).
    pub fn vouched_for(
        &self,
        hello: &Hello,
        unix: u64,
        admitted: &dyn Fn(&MemberId) -> bool,
    ) -> BTreeSet<Address> {
        let vouched = vouchers(hello, self, unix, admitted);
        vouched.into_iter().map(|(_, address)| address).collect()
    }
}

/// For how many seconds a proof of such an address counts.
fn longest(descriptor: &AddressDescriptor) -> u64 {
    Timing::of(descriptor).valid_for.as_secs()
}

/// Who vouches for which address of the HELLO: each once, none for itself.
fn vouchers(
    hello: &Hello,
    referral: &Referral,
    unix: u64,
    admitted: &dyn Fn(&MemberId) -> bool,
) -> BTreeSet<(MemberId, Address)> {
    let subject = hello.member();
    let wanted = |challenger: &MemberId, member: &MemberId| {
        *member == subject && *challenger != subject && admitted(challenger)
    };
    let mut vouched = BTreeSet::new();
    for bytes in referral.receipts() {
        let Ok(Some(receipt)) = Receipt::decode_if(bytes, wanted) else {
            continue;
        };
        let named = hello.addresses().iter();
        let mut named = named.filter(|d| d.address == *receipt.address());
        if named.any(|descriptor| receipt.is_fresh(unix, longest(descriptor))) {
            vouched.insert((receipt.challenger(), receipt.address().clone()));
        }
    }
    vouched
}
