//! The work over whatever carries single messages both ways: datagrams, or a stream with lengths in
//! it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::timeout;

use crate::Failure;
use crate::ends::{Counted, Here, Progress, There};
use crate::measure::{Begun, Kind, Measured, Work};

/// The first byte of messages that are sent back.
const ANSWERED: u8 = b'?';
/// The first byte of messages that are counted.
const COUNTED: u8 = b'.';

/// Silence after which what has not come is lost: as in `ringway-bench transport`.
const SILENCE: Duration = Duration::from_secs(2);

/// Messages both ways between two ends.
pub(crate) trait Pipe {
    /// Whether every message arrives.
    const RELIABLE: bool;

    /// Hands one message over.
    async fn send(&mut self, message: Bytes) -> Result<(), Failure>;

    /// Hands the same message over `count` times, as fast as the library takes it.
    async fn send_all(&mut self, message: &Bytes, count: u32) -> Result<(), Failure> {
        for _ in 0..count {
            self.send(message.clone()).await?;
        }
        Ok(())
    }

    /// Waits for at least one message and adds those that are there to `into`. Nothing is lost when
    /// this is cancelled.
    async fn receive(&mut self, into: &mut Vec<Bytes>) -> Result<(), Failure>;
}

/// The end that asks: warms up, works, measures.
pub(crate) async fn ask<A>(
    pipe: &mut impl Pipe,
    work: &Work,
    here: &mut Here<A>,
) -> Result<Measured, Failure> {
    let mut answers = Answers::new(here.progress.clone());
    let message = Bytes::from(vec![ANSWERED; work.size]);
    answers.echoes(pipe, &message, work.warm_up()).await?;
    let begun = Begun::now();
    match work.kind {
        Kind::Sequential => {
            answers.echoes(pipe, &message, work.count).await?;
            Ok(begun.end(work.count, work.count / 2 * 2, Instant::now()))
        }
        Kind::Burst => {
            let message = Bytes::from(vec![COUNTED; work.size]);
            pipe.send_all(&message, work.count).await?;
            let counted = here.counted().await?;
            Ok(begun.end(work.count, counted.received, counted.last))
        }
    }
}

struct Answers {
    came: Vec<Bytes>,
    progress: Progress,
}

impl Answers {
    fn new(progress: Progress) -> Answers {
        let came = Vec::with_capacity(64);
        Answers { came, progress }
    }

    /// `count` messages in all, there and back.
    async fn echoes<P: Pipe>(
        &mut self,
        pipe: &mut P,
        message: &Bytes,
        count: u32,
    ) -> Result<(), Failure> {
        for _ in 0..count / 2 {
            self.came.clear();
            while self.came.is_empty() {
                pipe.send(message.clone()).await?;
                if P::RELIABLE {
                    pipe.receive(&mut self.came).await?;
                } else if let Ok(answer) = timeout(SILENCE, pipe.receive(&mut self.came)).await {
                    answer?;
                }
                // Else it is lost: again.
            }
            self.progress.step();
        }
        Ok(())
    }
}

/// The end that answers: sends back what wants an answer, counts the rest.
pub(crate) async fn answer<A, P: Pipe>(
    pipe: &mut P,
    work: &Work,
    there: &There<A>,
) -> Result<(), Failure> {
    let mut came = Vec::with_capacity(64);
    let (mut received, mut last) = (0, Instant::now());
    loop {
        if P::RELIABLE || received == 0 {
            pipe.receive(&mut came).await?;
        } else if let Ok(more) = timeout(SILENCE, pipe.receive(&mut came)).await {
            more?;
        } else {
            there.counted.send(Counted { received, last })?;
            received = 0;
            continue;
        }
        let before = received;
        for message in came.drain(..) {
            if message.first() == Some(&COUNTED) {
                received += 1;
            } else {
                pipe.send(message).await?;
            }
        }
        if received > before {
            last = Instant::now();
            there.progress.step();
        }
        if received == work.count {
            there.counted.send(Counted { received, last })?;
            received = 0;
        }
    }
}
