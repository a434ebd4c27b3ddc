//! What comes in: which session a packet belongs to, whether it is genuine, and what is in it.
//!
//! ```text
//!  handle_packet -> Initiation: a response (the session is half open), a cookie, or dropped
//!                -> Response: establish, Event::Up
//!                -> Cookie: the initiation again, with it. Unknown: another handshake
//!                -> Versions, of a peer that speaks none of ours: noted
//!                -> Foreign, of another kind of build: an empty answer
//!                -> Data -> handle_data -> unknown session: Unknown is sent back
//!                                       -> half open: handle_first_data: establish, Event::Up,
//!                                          handle_plain; revoked since: dropped
//!                                       -> not genuine, or its counter was seen: dropped
//!                                       -> handle_plain -> handle_message for each in the packet
//!  handle_message -> Echo: answered. EchoReply to a probe, Received: noted
//!                 -> Fragment: kept until its message is whole, then handle_message
//!                 -> Close: Event::Down. Padding: nothing
//!                 -> all others: Event::Message
//! ```
//! Packets and events wait in `output` until [`Links::poll_transmit`] and [`Links::poll_event`].

use std::time::{Duration, Instant};

use ringway_transport::{Address, MemberId};

use super::establish::Made;
use super::wire::{Packet, Told};
use super::{Event, LinkEnd, LinkMessage, Links, flow};

impl Links {
    /// A packet has come in from `path`. True if a member with a link has sent it: others' words
    /// are cheap.
    pub(crate) fn handle_packet(&mut self, now: Instant, path: Address, bytes: &[u8]) -> bool {
        match Packet::parse(bytes) {
            Some(Packet::Initiation {
                sender,
                cookie,
                noise,
            }) => {
                self.handle_initiation(now, path, (sender, cookie, noise), bytes);
                false
            }
            Some(Packet::Response {
                sender,
                receiver,
                noise,
            }) => self.handle_response(now, path, (sender, receiver), noise),
            Some(Packet::Data {
                receiver,
                epoch,
                counter,
                ciphertext,
            }) => self.handle_data(now, path, (receiver, epoch, counter), ciphertext),
            Some(Packet::Unknown { receiver }) => {
                self.handle_unknown(now, &path, receiver);
                false
            }
            Some(Packet::Cookie {
                receiver,
                initiation,
                cookie,
            }) => {
                self.handle_cookie(now, &path, receiver, (initiation, cookie));
                false
            }
            Some(Packet::Versions {
                receiver,
                initiation,
                oldest,
                newest,
            }) => {
                let told = Told {
                    initiation,
                    oldest,
                    newest,
                };
                self.handle_versions(path, receiver, told);
                false
            }
            Some(Packet::Foreign(bytes)) => {
                self.counters.handshakes_foreign += 1;
                self.versions.foreign(now, path, bytes, &mut self.output);
                false
            }
            None => {
                self.counters.packets_malformed += 1;
                false
            }
        }
    }

    /// `packet` is its session by our name, epoch and counter.
    fn handle_data(
        &mut self,
        now: Instant,
        path: Address,
        packet: (u32, u32, u32),
        ciphertext: &[u8],
    ) -> bool {
        let (receiver, _, counter) = packet;
        let half_open = self
            .half_open
            .iter()
            .position(|half| half.way(receiver).is_some());
        if let Some(position) = half_open {
            return self.handle_first_data(now, path, position, packet, ciphertext);
        }
        // After a restart peers use sessions that are gone, until this packet makes them set up
        // others.
        let Some(member) = self.indices.session(receiver) else {
            self.counters.packets_unknown_session += 1;
            let packet = Packet::Unknown { receiver }.encode();
            self.output.transmit(path, packet);
            return false;
        };
        let peer = self.peers.get_mut(&member);
        let plain = peer.and_then(|peer| peer.open(now, &self.bounds, packet, ciphertext));
        let Some(plain) = plain else {
            self.counters.packets_rejected += 1;
            return false;
        };
        let packet = (receiver, u64::from(counter));
        self.handle_plain(now, &path, member, packet, &plain);
        true
    }

    /// The first message over a session that we have answered: now the initiator has proven to be
    /// there.
    fn handle_first_data(
        &mut self,
        now: Instant,
        path: Address,
        position: usize,
        packet: (u32, u32, u32),
        ciphertext: &[u8],
    ) -> bool {
        let (receiver, epoch, counter) = packet;
        let waiting = self.half_open.get_mut(position);
        let session = waiting.map(|half| {
            half.session.rename(receiver);
            &mut half.session
        });
        let plain = session.and_then(|s| s.open(now, &self.bounds, (epoch, counter), ciphertext));
        let Some(plain) = plain else {
            self.counters.packets_rejected += 1;
            return false;
        };
        let Some(half) = self.half_open.remove(position) else {
            return false;
        };
        self.used.add(half.initiation.1);
        // The certificate may have been revoked since.
        if (self.gatekeeper)(&half.shown).is_none() {
            self.counters.handshakes_refused += 1;
            return false;
        }
        // The answer with this name went to one address and has arrived there; where this packet
        // claims to come from proves nothing.
        let Some(way) = half.way(receiver).map(|way| way.path.clone()) else {
            return false;
        };
        let member = half.member;
        let made = Made {
            member,
            path: way,
            session: half.session,
            version: half.version,
            time: half.time,
            newest: half.newest,
        };
        self.establish(now, made);
        let packet = (receiver, u64::from(counter));
        self.handle_plain(now, &path, member, packet, &plain);
        true
    }

    /// `packet` is its session and counter.
    fn handle_plain(
        &mut self,
        now: Instant,
        path: &Address,
        member: MemberId,
        packet: (u32, u64),
        plain: &[u8],
    ) {
        let mut wants_report = false;
        for message in LinkMessage::decode_all(plain) {
            let Some(message) = message else {
                // The length of this message is not known, and so not where the next one begins.
                self.counters.packets_malformed += 1;
                break;
            };
            wants_report |= message.is_paced() || matches!(message, LinkMessage::Fragment { .. });
            let probes = self.with_paths(&member, |peer| {
                peer.note_message(now, path, &message);
                peer.probes(now)
            });
            self.send_probes(now, &member, probes.unwrap_or_default());
            self.handle_message(now, path, member, message);
        }
        let peer = self.peers.get_mut(&member).filter(|_| wants_report);
        if let Some(peer) = peer {
            peer.arrived(now, packet.0, packet.1);
            if peer.has_output(now) {
                self.peers.set_ready(&member);
            }
        }
    }

    fn handle_message(
        &mut self,
        now: Instant,
        path: &Address,
        member: MemberId,
        message: LinkMessage,
    ) {
        match message {
            LinkMessage::Echo(number) => {
                let peer = self.peers.get(&member);
                let ways = peer.map(|peer| peer.for_answer(now, path));
                for way in ways.unwrap_or_default() {
                    let taken = self.with_paths(&member, |peer| peer.spend(now, &way));
                    if taken != Some(true) {
                        continue;
                    }
                    self.send_via(now, &member, way, &LinkMessage::EchoReply(number));
                }
            }
            LinkMessage::EchoReply(number) => {
                let own = self.with_paths(&member, |peer| peer.answered(now, number));
                if own == Some(false) {
                    self.output
                        .emit(Event::Message(member, LinkMessage::EchoReply(number)));
                }
            }
            LinkMessage::Close => self.forget(&member, LinkEnd::Goodbye),
            LinkMessage::Padding(_) => {}
            LinkMessage::Received {
                session,
                highest,
                delay,
                seen,
                room,
            } => {
                let report = flow::Report {
                    session,
                    highest,
                    delay: Duration::from_micros(u64::from(delay)),
                    seen: seen.into(),
                    room,
                };
                if let Some(peer) = self.peers.get_mut(&member) {
                    peer.reported(now, &report);
                    self.peers.set_ready(&member);
                }
            }
            LinkMessage::Fragment {
                id,
                index,
                count,
                bytes,
            } => {
                let part = (index, count);
                let whole = self.peers.reassemble(&member, id, part, bytes.to_vec());
                match whole.map(|encoded| LinkMessage::decode(&encoded)) {
                    // Pieces of pieces are nonsense.
                    Some(None | Some(LinkMessage::Fragment { .. })) => {
                        self.counters.packets_malformed += 1;
                    }
                    Some(Some(message)) => self.handle_message(now, path, member, message),
                    None => {}
                }
            }
            message => self.output.emit(Event::Message(member, message)),
        }
    }
}
