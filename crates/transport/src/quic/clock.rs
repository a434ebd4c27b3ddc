//! What members tell each other of their clocks, so that a transfer at priority 0 knows which part
//! of its round trips is spent on the way there.
//!
//! RFC 9000 acknowledges packets without saying when they came. Where the way back is busy, with
//! somebody's upload, round trips alone make a transfer at priority 0 give way to a queue that it
//! has no part in. So a sender at priority 0 asks for a reading of the receiver's clock every
//! [`QUIC_CLOCK_EVERY`] while data leaves, from [`QUIC_CLOCK_FIRST`] on, and gets it at once, in
//! QUIC datagrams (RFC 9221): the reading is of the moment in which the question came. That both
//! sides take datagrams on a connection for streams is the negotiation. Another QUIC stack may take
//! them too, quinn and noq do unless told otherwise: it is asked, does not answer, and may drop
//! what it was asked. One that takes none is neither asked nor told.
//!
//! What else comes in datagrams belongs to [streams](super::datagrams).

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{Instant as Tick, MissedTickBehavior, interval_at};

use super::controller::Control;
use super::datagrams::Takers;
use crate::limits::{
    QUIC_CLOCK_EVERY, QUIC_CLOCK_FIRST, QUIC_CLOCK_LEAST, QUIC_CLOCK_REST, QUIC_CLOCK_WORD,
};

/// The zero of this process's clock: one for all connections, because those to one member at one
/// address share a controller.
pub(super) static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

pub(super) fn nanos(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*ZERO).as_nanos()).unwrap_or(u64::MAX)
}

/// One datagram on a connection for streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// The sender wants a reading, and numbers the question: the byte 1 and that number.
    Ask(u8),
    /// The sender's clock when the question of that number came, nanoseconds since any moment: the
    /// byte 2, the number, and eight bytes, big-endian.
    Reading(u8, u64),
}

impl Word {
    pub(crate) fn encode(self) -> Bytes {
        match self {
            Word::Ask(question) => Bytes::copy_from_slice(&[1, question]),
            Word::Reading(question, nanos) => {
                let mut bytes = [2; QUIC_CLOCK_WORD];
                bytes[1] = question;
                if let Some(time) = bytes.last_chunk_mut() {
                    *time = nanos.to_be_bytes();
                }
                Bytes::copy_from_slice(&bytes)
            }
        }
    }

    /// `None` for anything else, which a later version may mean something by.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Word> {
        match bytes {
            [1, question] => Some(Word::Ask(*question)),
            [2, question, time @ ..] => {
                let nanos = u64::from_be_bytes(time.try_into().ok()?);
                // As much as the controller can add to, and 146 years.
                (nanos < 1 << 62).then_some(Word::Reading(*question, nanos))
            }
            _ => None,
        }
    }
}

/// The task that asks and tells on one connection. It ends with its handle, so that it does not
/// keep the connection.
#[derive(Debug)]
pub(super) struct ClockTask(JoinHandle<()>);

impl ClockTask {
    /// `wants` says whether readings are of use to the congestion control.
    pub(super) fn start(
        connection: &noq::Connection,
        control: &Arc<Control>,
        takers: &Arc<Takers>,
        wants: bool,
    ) -> ClockTask {
        // Nothing that is read may be of before it.
        LazyLock::force(&ZERO);
        let clock = Clock {
            connection: connection.clone(),
            control: control.clone(),
            takers: takers.clone(),
            wants,
        };
        ClockTask(tokio::spawn(clock.run()))
    }
}

impl Drop for ClockTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Clock {
    connection: noq::Connection,
    control: Arc<Control>,
    takers: Arc<Takers>,
    wants: bool,
}

impl Clock {
    async fn run(self) {
        if self.connection.max_datagram_size().is_none() {
            return;
        }
        // The first readings tell what the way there takes without a queue: not in the haste of the
        // beginning, in which all may have one.
        let first = Tick::now().checked_add(QUIC_CLOCK_FIRST);
        let mut ask = interval_at(first.unwrap_or_else(Tick::now), QUIC_CLOCK_EVERY);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut told, mut sent) = (None::<Instant>, 0);
        loop {
            tokio::select! {
                read = self.connection.read_datagram() => match read {
                    Ok(bytes) => self.take(bytes, &mut told),
                    Err(_) => return,
                },
                _ = ask.tick(), if self.wants => {
                    if self.control.priority().is_scavenger() {
                        self.ask(&mut sent);
                    } else {
                        ask.reset_after(QUIC_CLOCK_REST);
                    }
                }
            }
        }
    }

    /// A datagram has come. `told` is when the peer was last told of our clock.
    fn take(&self, bytes: Bytes, told: &mut Option<Instant>) {
        let now = Instant::now();
        match Word::decode(&bytes) {
            Some(Word::Ask(question)) => {
                let soon = |told| now.saturating_duration_since(told) < QUIC_CLOCK_LEAST;
                if !told.is_some_and(soon) {
                    *told = Some(now);
                    self.say(Word::Reading(question, nanos(now)));
                }
            }
            Some(Word::Reading(question, peer)) if self.wants => {
                self.control.on_reading(now, question, peer);
            }
            Some(Word::Reading(..)) => {}
            None => self.takers.deliver(bytes),
        }
    }

    /// Asks if data has left since the last time, which questions are not. `sent` is what had left
    /// by then.
    fn ask(&self, sent: &mut u64) {
        let all = self.connection.stats().frame_tx.stream;
        if std::mem::replace(sent, all) != all {
            // Before it can leave: one that seems to leave too early makes the way there longer,
            // and one too late would make all others look longer.
            let question = self.control.asks();
            self.say(Word::Ask(question));
        }
    }

    fn say(&self, word: Word) {
        // A word that cannot leave now is worth nothing later, and the next one comes soon.
        self.connection.send_datagram(word.encode()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_and_other_bytes_are_refused() {
        for word in [
            Word::Ask(0),
            Word::Ask(255),
            Word::Reading(7, 0),
            Word::Reading(0, (1 << 62) - 1),
        ] {
            assert_eq!(Word::decode(&word.encode()), Some(word));
        }
        let long = [2; QUIC_CLOCK_WORD + 1];
        for bytes in [
            &[][..],
            &[0],
            &[1],
            &[3, 1],
            &[1, 1, 1],
            &[2; 9],
            &long,
            &[0xff; 10],
            &[2, 0, 0x40, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Word::decode(bytes), None, "{bytes:?}");
        }
    }
}
