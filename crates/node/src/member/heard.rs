//! What links report and members say over them, and which part it goes to.

use std::sync::Arc;
use std::time::Instant;

use ringway_overlay::RingKey;
use ringway_transport::quic::MemberDatagram;
use ringway_transport::{Address, Hello, HelloError, MemberId};

use super::Outcome;
use super::runtime::{Runtime, ring_key_of};
use crate::limits::ROUTE_HOPS;
use crate::link::{Event, LinkMessage};

impl Runtime {
    pub(super) fn handle_link_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Up(member) => {
                self.parents.is_linked_anew(&member);
                self.offer_paths(now, &member);
                self.send_hello(now, &member);
                self.reach_link_up(now, &member);
                self.parent_linked(now, &member);
                self.predecessor_linked(&member);
            }
            Event::Down(member) => {
                self.echo_link_down(now, &member);
                if let (Some(chord), Some(key)) =
                    (&mut self.chord, ring_key_of(&self.directory, &member))
                {
                    chord.handle_unreachable(now, key);
                }
            }
            Event::Message(member, message) => self.handle_message(now, member, message),
        }
    }

    fn handle_message(&mut self, now: Instant, member: MemberId, message: LinkMessage) {
        match message {
            LinkMessage::Hello(bytes) => self.take_hello(now, member, &bytes),
            LinkMessage::Ping(bytes) => {
                let ping = ringway_transport::Ping::decode(&bytes).ok();
                // Nobody is answered in another's name: it would only serve whoever passes PINGs
                // on.
                let ping = ping.filter(|ping| ping.challenger == member);
                let pong =
                    ping.and_then(|ping| self.validator.handle_ping(now, &ping, &self.identity));
                if let Some(pong) = pong {
                    self.links
                        .send(now, &member, LinkMessage::Pong(pong.encode().into()));
                }
            }
            LinkMessage::Pong(bytes) => match ringway_transport::Pong::decode(&bytes) {
                Ok(pong) => self.take_pong(now, member, &pong),
                Err(_) => self.count("pongs_malformed"),
            },
            LinkMessage::Overlay(bytes) => self.take_overlay(now, member, &bytes),
            LinkMessage::Lookup { id, target } => {
                self.lookup_for_leaf(now, member, id, RingKey::from_bytes(*target))
            }
            LinkMessage::LookupReply {
                id,
                owner,
                verified,
                hops,
            } => {
                let owner = owner.map(|owner| RingKey::from_bytes(*owner));
                let hops = hops.iter().take(ROUTE_HOPS);
                let hops = hops.map(|hop| RingKey::from_bytes(**hop)).collect();
                self.parent_answered(now, member, id, (owner, verified, hops));
            }
            LinkMessage::EchoReply(number) => self.echo_answered(now, member, number),
            LinkMessage::HelloWanted => {
                // Each costs a signature: one a second for each peer is enough.
                if self.hellos_given.insert(member, now).is_none() {
                    self.send_hello(now, &member);
                }
            }
            LinkMessage::Quic(bytes) => {
                let bytes = Vec::from(bytes).into();
                let datagram = MemberDatagram { member, bytes };
                if self.carrier.incoming.try_send(datagram).is_err() {
                    self.count("quic_datagrams_dropped");
                }
            }
            LinkMessage::Message(bytes) => self.message_arrived(member, Vec::from(bytes).into()),
            // The links' own.
            LinkMessage::Echo(_)
            | LinkMessage::Close
            | LinkMessage::Fragment { .. }
            | LinkMessage::Received { .. }
            | LinkMessage::Padding(_) => {}
            other => self.handle_leaf_message(now, member, other),
        }
    }

    pub(super) fn send_hello(&mut self, now: Instant, member: &MemberId) {
        match self.hello_for(member) {
            Ok(hello) => {
                let hello = LinkMessage::Hello(hello.encoded().to_vec().into());
                self.links.send(now, member, hello);
            }
            Err(error) => tracing::error!(%error, "no HELLO can be made"),
        }
    }

    fn take_hello(&mut self, now: Instant, member: MemberId, bytes: &[u8]) {
        if !self.may_check(now, &member) {
            return;
        }
        match Hello::decode(bytes) {
            Ok(hello) if hello.member() == member => {
                let believed = self.believed(&hello);
                let believes = |address: &Address| believed.contains(address);
                self.validator.handle_hello_from(now, &hello, &believes);
                self.reach_progress(now, &member);
            }
            Ok(_) => self.count("hellos_of_others"),
            Err(error) => {
                tracing::debug!(%member, %error, "a HELLO is refused");
                self.count("hellos_refused");
                if !matches!(error, HelloError::Version { .. }) {
                    self.badly_signed(now, &member);
                }
            }
        }
    }

    /// A PING goes over the transport of the address that it tests.
    pub(super) fn send_ping(&mut self, address: Address, ping: ringway_transport::Ping) {
        let Address::Quic(socket) = address else {
            if self.carries(&ping.target, &address) {
                let message = LinkMessage::Ping(ping.encode().into());
                self.links
                    .send_via(Instant::now(), &ping.target, address, &message);
            }
            return;
        };
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

    pub(super) fn take_pong(
        &mut self,
        now: Instant,
        from: MemberId,
        pong: &ringway_transport::Pong,
    ) {
        let Some(validated) = self.validator.handle_pong(now, pong) else {
            self.count("pongs_refused");
            return;
        };
        tracing::debug!(member = %validated.member, address = %validated.address, "an address is proven");
        if from != validated.member {
            self.count("pongs_passed_on");
        }
        self.offer_paths(now, &validated.member);
        self.reach_progress(now, &validated.member);
    }

    /// Tells the link which addresses of the member are proven.
    fn offer_paths(&mut self, now: Instant, member: &MemberId) {
        let mut proved = self.validator.proved(now, member);
        proved.retain(|proved| self.carries(member, &proved.descriptor.address));
        if !proved.is_empty() {
            self.links.offer_paths(now, member, &proved);
        }
    }
}
