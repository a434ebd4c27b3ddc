//! Wakes what waits for a member, or for the network, as soon as either is back.

use tokio::sync::broadcast;

use ringway_transport::MemberId;

use crate::control::Services;
use crate::machine::Changes;

/// What waits for others tries again once they, or the machine's network, are back.
pub(super) async fn run(
    services: Services,
    mut changes: Changes,
    mut returns: broadcast::Receiver<MemberId>,
) {
    loop {
        let back = tokio::select! {
            () = changes.next() => None,
            back = returns.recv() => match back {
                Ok(member) => Some(member),
                Err(broadcast::error::RecvError::Lagged(_)) => None,
                Err(broadcast::error::RecvError::Closed) => return,
            },
        };
        services.messages.wake(back).await;
        services.transfers.wake(back);
        if back.is_none() {
            services.transfers.call_senders();
        }
    }
}
