//! Our HELLO for one member, and PINGs to addresses of others.

use std::sync::Arc;

use ringway_transport::{Address, MemberId, Ping};

use super::{Core, Outcome};
use crate::link::LinkMessage;

impl Core {
    /// Says our HELLO to one who is linked.
    pub(in crate::member) fn send_hello(&mut self, member: &MemberId) {
        match self.hello_for(member) {
            Ok(hello) => {
                let hello = LinkMessage::Hello(hello.encoded().to_vec().into());
                self.send(member, hello);
            }
            Err(error) => tracing::error!(%error, "no HELLO can be made"),
        }
    }

    /// Sends what the validator has; true if there was anything.
    pub(in crate::member) fn send_pings(&mut self) -> bool {
        let mut moved = false;
        while let Some((address, ping)) = self.validator.poll_transmit() {
            self.send_ping(address, ping);
            moved = true;
        }
        while let Some(member) = self.validator.poll_hello_wanted() {
            if self.links.is_up(&member) {
                self.send(&member, LinkMessage::HelloWanted);
                moved = true;
            }
        }
        moved
    }

    /// A PING goes over the transport of the address that it tests.
    fn send_ping(&mut self, address: Address, ping: Ping) {
        let Address::Quic(socket) = address else {
            if self.carries(&ping.target, &address) {
                let message = LinkMessage::Ping(ping.encode().into());
                self.links
                    .send_via(self.now, &ping.target, address, &message);
            }
            return;
        };
        // A handshake of QUIC takes round trips, for which this task does not wait.
        let endpoint = Arc::clone(self.network.quic());
        let outcomes = self.outcomes.clone();
        tokio::spawn(async move {
            let Some(pong) = crate::transfer::ping(&endpoint, socket, &ping).await else {
                return;
            };
            let outcome = Outcome::Pong(ping.target, Box::new(pong));
            if outcomes.send(outcome).await.is_err() {
                tracing::debug!("the member's task has ended");
            }
        });
    }
}
