//! A connection as soon as there can be one: straight, and after a head start over the link as
//! well; the first that is there counts.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::{QuicConnection, QuicError, member_address};
use tokio::time::{sleep, timeout};

use super::{Connections, DialError};
use crate::certificate::Certificate;
use crate::limits::{STREAM_LINK_AGAIN, STREAM_LINK_DIAL};
use crate::member::Unreachable;

/// Handshakes over the link, one beginning after the other: for as long as the first may take, and
/// eight at once at most.
const LINK_ATTEMPTS: u32 = 16;

/// Why there is no connection for something that cannot wait.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RaceError {
    /// As for any connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Messages would take minutes.
    #[error(
        "only mail reaches `{0}` now, which is too slow for streams: `ringway path {0}` shows the ways"
    )]
    OnlyMail(String),
}

impl Connections {
    /// Has all paths of the link with this member tried, as nothing comes over the one in use.
    pub(crate) async fn race_paths(&self, member: MemberId) {
        self.inner.member.race_paths(member).await;
    }

    /// Connects straight.
    ///
    /// # Errors
    /// When no address of the peer takes a connection.
    pub(crate) async fn connect_straight(
        &self,
        certificate: Certificate,
        priority: Priority,
    ) -> Result<QuicConnection, DialError> {
        let peer = certificate.member();
        let reached = self.inner.member.reach(certificate).await;
        let addresses = reached.map_err(DialError::Unreachable)?;
        let mut last = QuicError::TimedOut;
        for address in addresses {
            match self.inner.endpoint.connect(address, peer, priority).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    /// Connects in the way that is there first: straight, or, after `head_start`, over the link.
    /// Says whether it goes over the link.
    ///
    /// # Errors
    /// When the member cannot be reached, or by mail only.
    pub(crate) async fn connect_first(
        &self,
        certificate: Certificate,
        priority: Priority,
        head_start: Duration,
    ) -> Result<(QuicConnection, bool), RaceError> {
        let straight = self.connect_straight(certificate.clone(), priority);
        let over_link = async {
            sleep(head_start).await;
            self.connect_over_link(&certificate, priority).await
        };
        tokio::pin!(straight, over_link);
        let (mut failed, mut no_link) = (None, None);
        loop {
            tokio::select! {
                connected = &mut straight, if failed.is_none() => match connected {
                    Ok(connection) => return Ok((connection, false)),
                    // The link could not be made either.
                    Err(DialError::Unreachable(error)) if !matches!(error, Unreachable::NoQuic(_)) => {
                        return Err(DialError::Unreachable(error).into());
                    }
                    Err(error) => failed = Some(error),
                },
                connected = &mut over_link, if no_link.is_none() => match connected {
                    Ok(connection) => return Ok((connection, true)),
                    Err(error) => no_link = Some(error),
                },
                else => {}
            }
            if let (Some(_), Some(error)) = (&failed, no_link.take_if(|_| failed.is_some())) {
                return Err(error);
            }
        }
    }

    async fn connect_over_link(
        &self,
        certificate: &Certificate,
        priority: Priority,
    ) -> Result<QuicConnection, RaceError> {
        let paths = self.inner.member.paths(certificate).await;
        let paths = paths.unwrap_or_default().paths;
        let carries = |used: &str| used.starts_with("messages");
        let active = paths
            .iter()
            .find(|path| path.used_for.as_deref().is_some_and(carries));
        if active.is_some_and(|path| path.latency == "minutes") {
            return Err(RaceError::OnlyMail(certificate.name().to_string()));
        }
        let peer = certificate.member();
        let address = member_address(&peer);
        // What is sent while the link leaves a dead path is lost: a later attempt is through first.
        // They go on beginning, as QUIC repeats a packet that was lost ever more seldom. The first
        // has the longest time, where the link is only slow.
        let attempts = (0..LINK_ATTEMPTS).map(|number| async move {
            let patience = if number == 0 {
                STREAM_LINK_DIAL
            } else {
                STREAM_LINK_DIAL / 2
            };
            sleep(STREAM_LINK_AGAIN * number).await;
            let connecting = self.inner.over_links.connect(address, peer, priority);
            let connected = timeout(patience, connecting).await;
            connected.unwrap_or(Err(QuicError::TimedOut))
        });
        let mut attempts: FuturesUnordered<_> = attempts.collect();
        let mut failed = QuicError::TimedOut;
        while let Some(connected) = attempts.next().await {
            match connected {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = error,
            }
        }
        Err(DialError::from(failed).into())
    }
}
