//! Messages between two members: one after the other, and as many as go.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_node::daemon::{MessageSender, Messages};
use rustix::time::{ClockId, clock_gettime};

use super::pair::{Application, wait_for};
use ringway_terminal::Failure;

/// Silence after which what has not come is lost.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// The first byte of messages that are answered; others are counted.
const ANSWERED: u8 = b'?';
/// The first byte of the message that asks how many others have come, and of its answer.
const COUNTED: u8 = b'#';

/// What came of many messages at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Share of messages that were not.
    pub(super) loss: f64,
    /// Payload received, Gbit/s.
    pub(super) gigabits: f64,
    /// Processor time of both sides for each message handed over, in microseconds.
    pub(super) cpu: f64,
}

/// A burst that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    at: Instant,
    cpu: Duration,
}

impl Burst {
    /// Now.
    pub(super) fn begin() -> Begun {
        Begun {
            at: Instant::now(),
            cpu: processor_time(),
        }
    }
}

impl Begun {
    /// All of `count` messages of `size` bytes have been handed over, and `received` have come, the
    /// last at `last`.
    pub(super) fn end(self, count: u32, received: u32, size: usize, last: Instant) -> Burst {
        let cpu = processor_time().saturating_sub(self.cpu);
        let seconds = last.saturating_duration_since(self.at).as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a payload")]
        let bits = f64::from(received) * size as f64 * 8.0;
        Burst {
            loss: 1.0 - f64::from(received) / f64::from(count.max(1)),
            gigabits: if seconds > 0.0 {
                bits / seconds / 1e9
            } else {
                0.0
            },
            cpu: cpu.as_secs_f64() * 1e6 / f64::from(count.max(1)),
        }
    }
}

/// Processor time that this process has used.
pub(super) fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(used.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// The second member's application: answers what wants an answer, and counts the rest.
pub(super) fn answering(peer: &'static str) -> Application<()> {
    Box::new(move |mut messages: Messages| {
        Box::pin(async move {
            let mut sender = None;
            let mut counted: u32 = 0;
            while let Some((_, message)) = messages.receive().await {
                let answer = match message.first() {
                    Some(&ANSWERED) => message,
                    Some(&COUNTED) => {
                        let mut answer = vec![COUNTED];
                        answer.extend(counted.to_be_bytes());
                        counted = 0;
                        answer.into()
                    }
                    _ => {
                        counted += 1;
                        continue;
                    }
                };
                if sender.is_none() {
                    sender = messages.to(peer).await;
                }
                if let Some(sender) = &sender {
                    sender.send(answer).await;
                }
            }
        })
    })
}

/// The first member's application: for each size the seconds for `count` messages, each sent after
/// the one before has arrived.
pub(super) fn sequential(
    peer: &'static str,
    count: u32,
    sizes: &'static [usize],
) -> Application<Result<Vec<f64>, Failure>> {
    Box::new(move |mut messages: Messages| {
        Box::pin(async move {
            wait_for(&mut messages, peer).await?;
            let sender = to(&messages, peer).await?;
            let mut all = Vec::new();
            for size in sizes {
                echoes(&mut messages, &sender, count.min(100), *size).await?;
                all.push(echoes(&mut messages, &sender, count, *size).await?);
            }
            Ok(all)
        })
    })
}

async fn to(messages: &Messages, peer: &str) -> Result<MessageSender, Failure> {
    let sender = messages.to(peer).await;
    sender.ok_or_else(|| Failure::failed("the benchmark's member is stopping"))
}

async fn echoes(
    messages: &mut Messages,
    sender: &MessageSender,
    count: u32,
    size: usize,
) -> Result<f64, Failure> {
    let message = Bytes::from(vec![ANSWERED; size.max(2)]);
    let begin = Instant::now();
    for _ in 0..count / 2 {
        loop {
            sender.send(message.clone()).await;
            let answer = tokio::time::timeout(Duration::from_secs(30), messages.receive());
            match answer.await {
                // What is left of the search for each other is one byte long.
                Ok(Some((_, answer))) if answer.len() == 1 => {}
                Ok(Some(_)) => break,
                Ok(None) => return Err(Failure::failed("the benchmark's member has stopped")),
                // Lost: again.
                Err(_) => {}
            }
        }
    }
    Ok(begin.elapsed().as_secs_f64())
}

/// The first member's application: `count` messages as fast as they are taken, then the question
/// how many came.
pub(super) fn burst(
    peer: &'static str,
    counts: Vec<u32>,
    size: usize,
) -> Application<Result<Vec<Burst>, Failure>> {
    Box::new(move |mut messages: Messages| {
        Box::pin(async move {
            wait_for(&mut messages, peer).await?;
            let sender = to(&messages, peer).await?;
            let mut all = Vec::new();
            for count in counts {
                // What remains of the search for each other, and of an earlier burst.
                asked(&mut messages, &sender).await?;
                all.push(flood(&mut messages, &sender, count, size).await?);
            }
            Ok(all)
        })
    })
}

async fn flood(
    messages: &mut Messages,
    sender: &MessageSender,
    count: u32,
    size: usize,
) -> Result<Burst, Failure> {
    let message = Bytes::from(vec![1; size]);
    let begun = Burst::begin();
    for _ in 0..count {
        sender.send(message.clone()).await;
    }
    // The question waits behind all others.
    let (mut received, mut last) = (0, Instant::now());
    let end = Instant::now() + SILENCE * 4;
    while received < count && Instant::now() < end {
        let more = asked(messages, sender).await?;
        if more > 0 {
            last = Instant::now();
        }
        received += more;
        if received < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(begun.end(count, received, size, last))
}

/// How many messages have come to the other side since it was last asked.
async fn asked(messages: &mut Messages, sender: &MessageSender) -> Result<u32, Failure> {
    for _ in 0..30 {
        sender.send(Bytes::from_static(&[COUNTED])).await;
        loop {
            let answer = tokio::time::timeout(SILENCE, messages.receive());
            match answer.await {
                Ok(Some((_, answer))) if answer.first() == Some(&COUNTED) => {
                    let count = answer.get(1..5).and_then(|bytes| bytes.try_into().ok());
                    return Ok(count.map_or(0, u32::from_be_bytes));
                }
                Ok(Some(_)) => {}
                Ok(None) => return Err(Failure::failed("the benchmark's member has stopped")),
                Err(_) => break,
            }
        }
    }
    Err(Failure::failed("the other member no longer answers"))
}
