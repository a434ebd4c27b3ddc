//! The authority's side of a sign-in: it begins, and what comes of it.
//!
//! Anybody who has the ring's join link comes this far, so connections keep their place only as
//! long as no one else needs it, and the rate of new sign-ins is bounded (`sso`).

use std::net::SocketAddr;

use super::channel::ChannelError;
use super::server::{Done, EnrolError, Enrolling, Granted, holds, refusal, reply};
use super::sign_in::{Answered, Asked, wanted};
use crate::authority::{Authority, AuthorityError};
use crate::sso::SignedIn;

/// What a connection was good for.
pub(super) enum Step {
    /// A person was given an address and a code.
    Begun,
    /// The person has not signed in yet.
    Waiting,
    /// A member was made, or its person's sign-in counts again.
    Admitted {
        signed_in: Box<SignedIn>,
        serial: u64,
    },
    /// There was no certificate.
    Refused(String),
}

impl Step {
    /// Who has signed in for what was signed is for the owner to read.
    pub(super) fn log(self, from: SocketAddr) {
        match self {
            Step::Begun => tracing::info!(%from, "a sign-in has begun"),
            Step::Waiting => tracing::debug!(%from, "a sign-in is not done yet"),
            Step::Refused(reason) => tracing::warn!(%from, reason, "a sign-in was refused"),
            Step::Admitted { signed_in, serial } => {
                let SignedIn {
                    person,
                    member,
                    name,
                    ..
                } = *signed_in;
                tracing::info!(
                    %from, person = person.shown, issuer = person.issuer, subject = person.subject,
                    groups = ?person.groups, %name, %member, serial,
                    "a member is enrolled by single sign-on"
                );
            }
        }
    }
}

impl Enrolling {
    /// Answers a request of a sign-in. Whatever comes of it is an answer.
    pub(super) async fn sign_in(
        &self,
        request: &[u8],
        remote: [u8; 32],
    ) -> Result<Granted, EnrolError> {
        let asked: Asked = minicbor::decode(request).map_err(|_| ChannelError::Malformed)?;
        // The request names the Ed25519 key; the handshake has proven its X25519 form.
        holds(remote, &asked.member())?;
        let (answer, step) = match self.answer(asked).await {
            Ok(answered) => answered,
            Err(error) => {
                let ended = Answered::Ended {
                    reply: refusal(&error),
                    person: None,
                    until: None,
                };
                (ended, Step::Refused(error.to_string()))
            }
        };
        Ok(Granted {
            grant: crate::cbor::encode(&answer),
            done: Done::SignIn(step),
        })
    }

    async fn answer(&self, asked: Asked) -> Result<(Answered, Step), AuthorityError> {
        let member = asked.member();
        match asked {
            Asked::Begin {
                address, machine, ..
            } => {
                // Refused here, a key that is over costs the person no sign-in.
                let may = move |authority: &mut Authority| authority.may_sign_in(&member);
                let ring = self.authority.with(may).await?;
                let wanted = wanted(member, address, machine);
                let opened = self.sign_ins.begin(&ring, wanted, self.from).await?;
                Ok((opened.into(), Step::Begun))
            }
            Asked::Look { session, .. } => {
                let Some(signed_in) = self.sign_ins.look(&session, &member)? else {
                    return Ok((Answered::Waiting, Step::Waiting));
                };
                let asked = signed_in.clone();
                let enrol = move |authority: &mut Authority| {
                    let dns = authority.ring().dns;
                    Ok((authority.enrol_signed_in(&asked)?, dns))
                };
                let ((enrolled, until), dns) = self.authority.with(enrol).await?;
                let ended = Answered::Ended {
                    reply: reply(&enrolled, &dns),
                    person: Some(signed_in.person.shown.clone()),
                    until,
                };
                let serial = enrolled.certificate.serial();
                let signed_in = Box::new(signed_in);
                Ok((ended, Step::Admitted { signed_in, serial }))
            }
        }
    }
}
