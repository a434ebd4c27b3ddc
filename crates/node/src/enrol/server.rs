//! The authority's side of an enrolment.

use std::time::Duration;

use ringway_transport::{MemberId, Place, Places};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::channel::{Accepting, Channel, ChannelError};
use super::{Reply, Request};
use crate::authority::{AuthorityError, SharedAuthority};
use crate::certificate::{address_bytes, address_from_bytes};
use crate::limits::{ENROL_CONNECTIONS, ENROL_TIME};

/// Serves enrolments for ever. One that fails is logged and closed; nobody else is touched.
pub(crate) async fn serve(listener: TcpListener, authority: SharedAuthority) {
    let places = Places::new(ENROL_CONNECTIONS);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting an enrolment failed");
                // Out of file descriptors, most likely: give others time to close.
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let authority = authority.clone();
        let place = places.wait().await;
        tokio::spawn(async move {
            let enrolled = tokio::select! {
                enrolled = timeout(ENROL_TIME, enrol(stream, &authority, &place)) => enrolled,
                () = place.must_go() => {
                    return tracing::debug!(%from, "others wanted the place of one that said nothing");
                }
            };
            match enrolled {
                Ok(Ok(name)) => tracing::info!(%from, name, "enrolled"),
                Ok(Err(reason)) => tracing::warn!(%from, %reason, "an enrolment was refused"),
                Err(_) => tracing::warn!(%from, "an enrolment took too long"),
            }
        });
    }
}

#[derive(Debug, thiserror::Error)]
enum EnrolError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("the invite is not known")]
    UnknownInvite,
}

async fn enrol(
    stream: TcpStream,
    authority: &SharedAuthority,
    place: &Place,
) -> Result<String, EnrolError> {
    let secret: Zeroizing<[u8; 32]> = authority
        .with(|authority| Ok(authority.root().noise_secret()))
        .await?;
    let accepting = Accepting::begin(stream, secret).await?;
    let id = accepting.invite;
    let remote = accepting.remote_key().ok_or(ChannelError::BadKey)?;
    let invite = authority
        .with(move |authority| authority.invite_by_id(&id))
        .await?
        .ok_or(EnrolError::UnknownInvite)?;
    let mut channel = accepting.finish(&invite.pre_shared_key).await?;
    // Whoever has no invite does not come this far.
    place.keep();
    let request: Request = channel.receive().await?;
    let member = MemberId::new(*request.member);
    // The request names the Ed25519 key; the handshake has proven its X25519 form.
    if crate::identity::noise_public(&member) != Some(remote) {
        return Err(ChannelError::BadKey.into());
    }
    let address = request.address.map(|bytes| address_from_bytes(&bytes));
    let enrolled = authority
        .with(move |authority| {
            let dns = authority.ring().dns;
            Ok((authority.enrol(&id, member, address)?, dns))
        })
        .await;
    match enrolled {
        Ok((enrolled, dns)) => {
            let reply = Reply::Granted {
                certificate: enrolled.certificate.as_bytes().to_vec().into(),
                statement: enrolled.statement.as_bytes().to_vec().into(),
                routers: enrolled
                    .routers
                    .iter()
                    .map(|router| router.as_bytes().to_vec().into())
                    .collect(),
                dns: address_bytes(dns).into(),
            };
            channel.send(&reply).await?;
            Ok(enrolled.certificate.name().to_string())
        }
        Err(error) => refuse(channel, error).await,
    }
}

async fn refuse(mut channel: Channel, error: AuthorityError) -> Result<String, EnrolError> {
    let reason = match &error {
        AuthorityError::EnrolmentRefused(reason) => (*reason).to_owned(),
        _ => "the authority failed: ask the ring owner to look into its log".to_owned(),
    };
    channel.send(&Reply::Refused { reason }).await?;
    Err(error.into())
}
