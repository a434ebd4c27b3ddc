//! What members tell each other of their clocks, so that a transfer at priority 0 knows which part of its round trips is spent on the way there.
//!
//! RFC 9000 acknowledges packets without saying when they came. Where the way back is busy, with somebody's upload, round trips alone make a
//! transfer at priority 0 give way to a queue that it has no part in. So whoever sends at priority 0 asks for readings of the receiver's clock, and
//! gets one every [`QUIC_CLOCK_EVERY`] while packets come, in QUIC datagrams (RFC 9221). That both sides take datagrams on a connection for streams
//! is the negotiation. Another QUIC stack may take them too, quinn and noq do unless told otherwise: it is asked, does not answer, and may drop what it
//! was asked. One that takes none is neither asked nor told.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::controller::Control;
use crate::limits::{
    QUIC_CLOCK_ASKED, QUIC_CLOCK_EVERY, QUIC_CLOCK_LOOK, QUIC_CLOCK_REPEAT, QUIC_CLOCK_WORD,
};

/// The zero of this process's clock: one for all connections, because those to one member at one address share a controller.
static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*ZERO).as_nanos()).unwrap_or(u64::MAX)
}

/// One datagram on a connection for streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Whoever sends this wants readings for the next [`QUIC_CLOCK_ASKED`]: the byte 1.
    Ask,
    /// The clock of whoever sends this, nanoseconds since any moment: the byte 2 and eight bytes, big-endian.
    Reading(u64),
}

impl Word {
    pub(crate) fn encode(self) -> Bytes {
        match self {
            Word::Ask => Bytes::from_static(&[1]),
            Word::Reading(nanos) => {
                let mut bytes = [2; QUIC_CLOCK_WORD];
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
            [1] => Some(Word::Ask),
            [2, time @ ..] => {
                let nanos = u64::from_be_bytes(time.try_into().ok()?);
                // As much as the controller can add to, and 146 years.
                (nanos < 1 << 62).then_some(Word::Reading(nanos))
            }
            _ => None,
        }
    }
}

/// The task that asks and tells on one connection. It ends with its handle, so that it does not keep the connection.
#[derive(Debug)]
pub(super) struct ClockTask(JoinHandle<()>);

impl ClockTask {
    /// `wants` says whether readings are of use to the congestion control.
    pub(super) fn start(
        connection: &noq::Connection,
        control: &Arc<Control>,
        wants: bool,
    ) -> ClockTask {
        let clock = Clock {
            connection: connection.clone(),
            control: control.clone(),
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
    wants: bool,
}

impl Clock {
    async fn run(self) {
        if self.connection.max_datagram_size().is_none() {
            return;
        }
        let mut ask = interval(QUIC_CLOCK_REPEAT);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut asked, mut told) = (None::<Instant>, Instant::now());
        let (mut sent, mut received) = (0, 0);
        loop {
            let look = async {
                match asked {
                    Some(_) => sleep(QUIC_CLOCK_LOOK).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                word = self.connection.read_datagram() => match word.map(|word| Word::decode(&word)) {
                    Ok(Some(Word::Ask)) => asked = Some(Instant::now()),
                    Ok(Some(Word::Reading(peer))) if self.wants => {
                        let now = Instant::now();
                        self.control.on_reading(now, nanos(now), peer);
                    }
                    Ok(_) => {}
                    Err(_) => return,
                },
                _ = ask.tick(), if self.wants => self.ask(&mut sent),
                () = look => {
                    let now = Instant::now();
                    let since = |earlier: Instant| now.saturating_duration_since(earlier);
                    asked = asked.filter(|at| since(*at) <= QUIC_CLOCK_ASKED);
                    if since(told) >= QUIC_CLOCK_EVERY && self.tell(&mut received) {
                        told = now;
                    }
                }
            }
        }
    }

    /// Asks while data leaves at priority 0. `sent` is what had left when this was looked at last.
    fn ask(&self, sent: &mut u64) {
        let all = self.control.report().map_or(0, |report| report.sent_bytes);
        let sends = std::mem::replace(sent, all) != all;
        if sends && self.control.priority().is_scavenger() {
            self.say(Word::Ask);
        }
    }

    /// Tells if packets have come since the last time.
    fn tell(&self, received: &mut u64) -> bool {
        let all = self.connection.stats().udp_rx.datagrams;
        let came = std::mem::replace(received, all) != all;
        if came {
            self.say(Word::Reading(nanos(Instant::now())));
        }
        came
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
    fn words_survive_the_wire_and_nothing_else_is_one() {
        for word in [Word::Ask, Word::Reading(0), Word::Reading((1 << 62) - 1)] {
            assert_eq!(Word::decode(&word.encode()), Some(word));
        }
        let long = [2; QUIC_CLOCK_WORD + 1];
        for bytes in [
            &[][..],
            &[0],
            &[3],
            &[1, 1],
            &[2; 8],
            &long,
            &[0xff; 9],
            &[2, 0x40, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Word::decode(bytes), None, "{bytes:?}");
        }
    }
}
