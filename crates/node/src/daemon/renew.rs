//! Renews this member's certificate before it ends, and looks for those of others.
//!
//! The authority is asked first. Where it is not reached, DNS may have a newer certificate: an
//! earlier answer was lost on its way. Else the authority is asked by a name of its DNS. Links and
//! files go on with the newer one: nothing but the validity is another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::directory::Directory;
use crate::enrol::{self, AskError, RenewError};
use crate::identity::Identity;
use crate::limits::{EXPIRY_WARNING_PAUSE, RENEWED_IN_DNS};
use crate::machine::Changes;
use crate::member::MemberHandle;
use crate::renewal::{Schedule, by_dns, warned_from};
use crate::state::{Membership, State};

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);

/// What is needed for it.
#[derive(Debug)]
pub(super) struct CertificateKeeper {
    pub(super) identity: Identity,
    /// As it was at the start.
    pub(super) membership: Membership,
    pub(super) state: Arc<State>,
    pub(super) directory: Arc<Directory>,
    pub(super) member: MemberHandle,
    pub(super) changes: Changes,
}

impl CertificateKeeper {
    /// Works for ever.
    pub(super) async fn run(mut self) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut schedule = Schedule::new(self.own(), rand::random());
        let (mut next_try, mut next_warning) = (Instant::now(), Instant::now());
        loop {
            look.tick().await;
            self.look_after_others().await;
            let now = Instant::now();
            if self.changes.seen() {
                next_try = now;
            }
            let own = schedule.certificate();
            if unix_seconds() >= warned_from(own) && now >= next_warning {
                next_warning = now + EXPIRY_WARNING_PAUSE;
                tracing::warn!(
                    ends_in_s = own.not_after().saturating_sub(unix_seconds()),
                    "this member's certificate ends before long and is not renewed yet"
                );
            }
            // A change of the key brings a new certificate as well.
            let replacing = self.directory.statement();
            let changes_key = replacing.asks(own.serial()) || replacing.revokes(own.serial());
            if changes_key || !schedule.is_due(unix_seconds()) || now < next_try {
                continue;
            }
            match self.attempt(own).await {
                Ok(newer) => {
                    self.adopt(newer.clone()).await;
                    schedule = Schedule::new(newer, rand::random());
                    next_warning = Instant::now();
                }
                Err(reason) => {
                    let pause = schedule.failed(unix_seconds(), rand::random());
                    tracing::warn!(%reason, again_in = ?pause, "this member's certificate could not be renewed yet");
                    self.directory.note_renewal(Some(reason.to_string()));
                    next_try = Instant::now() + pause;
                }
            }
        }
    }

    fn own(&self) -> Certificate {
        self.directory.own(&self.membership.certificate)
    }

    async fn attempt(&self, own: &Certificate) -> Result<Certificate, RenewError> {
        let (locator, ring) = (self.directory.locator(), &self.membership.ring);
        let asked = enrol::renew(&locator, &self.identity, ring, own).await;
        let Err(refused) = asked else {
            return asked;
        };
        // DNS that does not answer is not asked again in the same try: each time takes seconds.
        let asked = match &refused {
            RenewError::Ask(asked) => Some(asked),
            _ => None,
        };
        if asked.is_some_and(AskError::is_silence_of_dns) {
            return Err(refused);
        }
        if let Some(found) = self.in_dns(own).await {
            return Ok(found);
        }
        // Who was refused there is refused here.
        let is_refused = matches!(asked, Some(AskError::Refused(_)));
        if is_refused || !self.ask_by_dns(own).await {
            return Err(refused);
        }
        for pause in RENEWED_IN_DNS {
            tokio::time::sleep(pause).await;
            if let Some(found) = self.in_dns(own).await {
                return Ok(found);
            }
        }
        Err(refused)
    }

    /// True if DNS has answered.
    async fn ask_by_dns(&self, own: &Certificate) -> bool {
        let request = by_dns::Request::new(&self.identity, &self.membership.ring, own);
        let asked = self.directory.ask_renewal(&request).await;
        let asked = asked.inspect_err(|error| {
            tracing::debug!(%error, "the authority is not asked by DNS either");
        });
        asked.is_ok()
    }

    async fn in_dns(&self, own: &Certificate) -> Option<Certificate> {
        match self.directory.newest(own.member()).await {
            Ok(found) => {
                let fits = enrol::check_renewed(own, &found, unix_seconds());
                fits.is_ok().then_some(found)
            }
            Err(error) => {
                tracing::debug!(%error, "no newer certificate in DNS");
                None
            }
        }
    }

    /// On disk first: a start finds the newer one.
    async fn adopt(&self, newer: Certificate) {
        if let Err(error) = self.state.renew_certificate(&newer) {
            tracing::error!(%error, "the newer certificate could not be stored");
        }
        tracing::info!(
            serial = newer.serial(),
            ends = newer.not_after(),
            "this member's certificate is renewed"
        );
        self.directory.note_renewal(None);
        self.directory.renew_own(newer.clone());
        self.member.renewed(newer).await;
    }

    /// Others have renewed theirs: who knows only the older ones would think them gone.
    async fn look_after_others(&self) {
        for member in self.directory.ageing(Instant::now(), unix_seconds()) {
            if let Err(error) = self.directory.newest(member).await {
                tracing::debug!(%member, %error, "a certificate ends before long, and DNS has no newer one");
            }
        }
    }
}
