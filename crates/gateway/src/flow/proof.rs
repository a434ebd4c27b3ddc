//! Proof that both sides of a flow take part in it.
//!
//! Anybody can send a packet in another host's name. A sender that does not receive the replies
//! knows neither the number that a SYN-ACK begins with (RFC 9293 §3.4), nor when the other side
//! has spoken.

use super::Direction;
use crate::limits::{MAX_FAST_OPEN, MAX_UNDER_WAY, MAX_UNSEEN_ANSWER};
use crate::packet::{L4, Packet};

/// What proves that both sides take part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    /// The flow's packet, from 1, that each side sent last; 0 if it has sent none.
    last: [u64; 2],
    /// The numbers that the server has used since its SYN-ACK: where they begin and end.
    answer: Option<(u32, u32)>,
    /// A SYN, its SYN-ACK, and an acknowledgement of that were seen, or data that come after it.
    acknowledged: bool,
    /// Of each side the number behind its latest segment, and what that acknowledges.
    numbers: [Option<(u32, u32)>; 2],
    /// These numbers are those of one connection.
    agreed: bool,
}

impl Proof {
    /// Takes in a packet of the flow, its `number`th. `opening` is the SYN's number, if it is
    /// known.
    pub(super) fn take_in(
        &mut self,
        packet: &Packet<'_>,
        direction: Direction,
        number: u64,
        opening: Option<u32>,
    ) {
        let Some(tcp) = packet.tcp else {
            self.spoke(direction, number);
            return;
        };
        // An end without a connection responds with a reset: that proves nothing.
        if tcp.rst {
            return;
        }
        self.spoke(direction, number);
        let length = packet.wire_payload();
        if tcp.ack {
            self.compare(
                direction,
                tcp.sequence.wrapping_add(length),
                tcp.acknowledged,
            );
        }
        match (direction, self.answer) {
            (Direction::FromServer, None) => {
                let answers = opening.is_some_and(|opening| {
                    (1..=MAX_FAST_OPEN).contains(&tcp.acknowledged.wrapping_sub(opening))
                });
                if tcp.syn && tcp.ack && answers {
                    let first = tcp.sequence.wrapping_add(1);
                    self.answer = Some((first, first.wrapping_add(length)));
                }
            }
            (Direction::FromServer, Some((first, end))) => {
                let next = tcp.sequence.wrapping_add(length);
                let ahead = next.wrapping_sub(end);
                // What jumps far ahead is no continuation: it would make a guess easy.
                if !tcp.syn && ahead <= MAX_UNSEEN_ANSWER {
                    self.answer = Some((first, next));
                    // It sends nothing of its own before its SYN-ACK is acknowledged.
                    self.acknowledged |= length > 0;
                }
            }
            (Direction::FromClient, Some((first, end))) => {
                let taken = tcp.acknowledged.wrapping_sub(first);
                self.acknowledged |= tcp.ack && taken <= end.wrapping_sub(first);
            }
            (Direction::FromClient, None) => {}
        }
    }

    /// Both sides take part. `midway`: the handshake came before the gateway did. Of datagrams
    /// both sides must have sent one since packet `since`, or what it says is of one side alone.
    pub(super) fn holds(&self, l4: L4, midway: bool, since: u64) -> bool {
        let both = self.last.iter().all(|&last| last > 0);
        match l4 {
            L4::Tcp if midway => self.agreed,
            L4::Tcp => self.acknowledged,
            L4::Udp => both && self.last.iter().all(|&last| last >= since),
        }
    }

    /// Notes the latest numbers of a side, and whether each acknowledges about what the other has
    /// sent.
    fn compare(&mut self, direction: Direction, next: u32, acknowledged: u32) {
        if let Some(numbers) = self.numbers.get_mut(direction.slot()) {
            *numbers = Some((next, acknowledged));
        }
        if let [Some((sent, got)), Some((answered, taken))] = self.numbers {
            let near = |one: u32, other: u32| {
                let apart = one.wrapping_sub(other);
                apart.min(apart.wrapping_neg()) <= MAX_UNDER_WAY
            };
            self.agreed |= near(got, answered) && near(taken, sent);
        }
    }

    fn spoke(&mut self, direction: Direction, number: u64) {
        if let Some(last) = self.last.get_mut(direction.slot()) {
            *last = number;
        }
    }
}
