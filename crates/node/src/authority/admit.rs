//! Admission of a member that asks by file, without an invite: the owner has looked at its request.

use std::net::SocketAddr;

use super::{Authority, AuthorityError};
use crate::admission::{AdmissionReply, AdmissionRequest, Granted};
use crate::certificate::Certificate;
use crate::clock::unix_seconds;
use crate::limits::ADMISSION_AGE;

/// A member that was admitted by its request.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Its certificate.
    pub certificate: Certificate,
    /// What it is to be given.
    pub reply: AdmissionReply,
    /// True if it was a member already, and this is only another copy of the reply.
    pub again: bool,
}

impl Authority {
    /// Makes the signer of `request` a member. The same request may come again and gets the same
    /// certificate.
    ///
    /// # Errors
    /// When the request is too old, its key or address is known already, or somebody has the name.
    pub fn admit(&mut self, request: &AdmissionRequest) -> Result<Admitted, AuthorityError> {
        let now = unix_seconds();
        let member = request.member();
        let known = self.store.certificate_of(&member, &self.ring_id())?;
        let granted_before = known.filter(|known| {
            let same = known.name() == request.name() && known.address() == request.address();
            same && known.check_time(now).is_ok()
        });
        let again = granted_before.is_some();
        let certificate = match granted_before {
            Some(certificate) => certificate,
            None => self.certify_request(request, request.address(), now)?,
        };
        let granted = Granted {
            domain: self.store.options().domain.clone(),
            certificate: certificate.clone(),
            statement: self.statement()?,
            routers: self.store.routers(&self.ring_id(), &member)?,
            dns: self.store.options().dns.advertised.clone(),
        };
        let reply = AdmissionReply::new(&self.root, request, granted);
        Ok(Admitted {
            certificate,
            reply,
            again,
        })
    }

    fn certify_request(
        &mut self,
        request: &AdmissionRequest,
        address: Option<SocketAddr>,
        now: u64,
    ) -> Result<Certificate, AuthorityError> {
        if now.abs_diff(request.created()) > ADMISSION_AGE.as_secs() {
            return Err(AuthorityError::EnrolmentRefused(
                "the request is older than 30 days, or the new member's clock is wrong: let it make another with `ringway join --offline`",
            ));
        }
        let name = request.name().clone();
        let ends = self.store.options().ends(now);
        if let Some(back) = self.recertify(&name, request.member(), address, now, ends)? {
            self.store.admit_again(&back, now)?;
            return Ok(back.certificate);
        }
        let certificate = self.certify(name, request.member(), address, now)?;
        self.store.admit(&certificate, now)?;
        Ok(certificate)
    }
}
