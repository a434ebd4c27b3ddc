//! `ringway-bench messages`: stored messages from one member's program to another's, over loopback.
//!
//! Both members are daemons of the program beside this one. A program gives one its messages in
//! batches, another follows the other's and marks what it has got as read: what counts has crossed
//! both databases, was signed for, and is exact.

use std::time::{Duration, Instant};

use ringway_client::message::MessageStatus;
use ringway_client::{Client, Place};
use ringway_terminal::{Failure, Output};
use ringway_testbed::{Member, Program, Ring, RingBuilder};

use super::figure::{Figure, show};
use super::program::ringway;
use crate::cli::MessagesArgs;

/// Messages after which the receiving program marks what it has got as read.
const MARKED: u64 = 1_000;
/// How often it is looked whether all are signed for.
const LOOK: Duration = Duration::from_millis(10);

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Messages a second: stored at the sender, in the hands of the receiving program, signed for.
    stored: f64,
    received: f64,
    signed: f64,
    /// Messages for each write to the disk, of the sender and of the receiver.
    batches: [f64; 2],
}

/// Measures, and shows the figures.
pub(super) fn run(output: Output, args: &MessagesArgs) -> Result<(), Failure> {
    let program = Program::new(&ringway()?);
    let builder = RingBuilder::new(program).router("oslo").router("lima");
    let ring = builder.start().map_err(Failure::failed)?;
    ring.wait_until_settled().map_err(Failure::failed)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        let run = runtime.block_on(measure(&ring, args))?;
        output.note(&format!("run {number}: {run:?}"));
        runs.push(run);
    }
    show(output, &figures(args, &runs))
}

fn figures(args: &MessagesArgs, runs: &[Run]) -> Vec<Figure> {
    let build = if cfg!(debug_assertions) {
        ", debug build"
    } else {
        ""
    };
    let case = format!("{} messages of {} B{build}", args.count, args.size);
    let figure = |metric, unit, of: &dyn Fn(&Run) -> f64| {
        let values: Vec<f64> = runs.iter().map(of).collect();
        Figure::new("messages", case.clone(), metric, unit, &values)
    };
    let rate = "messages/s";
    let aim = [10_000.0];
    vec![
        figure("received by the program", rate, &|run| run.received).against("aim", &aim),
        figure("stored at the sender", rate, &|run| run.stored),
        figure("signed for", rate, &|run| run.signed),
        figure("messages for each write, sender", "", &|run| run.batches[0]),
        figure("messages for each write, receiver", "", &|run| {
            run.batches[1]
        }),
    ]
}

async fn client(member: &Member) -> Result<Client, Failure> {
    let place = Place::Home(member.home.clone());
    Client::connect(&place).await.map_err(Failure::failed)
}

/// Bytes that say which message it is.
fn body(number: u64, size: usize) -> Vec<u8> {
    let mut body = format!("{number} ").into_bytes();
    body.resize(size.max(body.len()), b'x');
    body
}

async fn measure(ring: &Ring, args: &MessagesArgs) -> Result<Run, Failure> {
    let oslo = client(ring.member("oslo").map_err(Failure::failed)?).await?;
    let lima = client(ring.member("lima").map_err(Failure::failed)?).await?;
    let (count, size) = (args.count, args.size);
    // They have found each other when the first message has come.
    send(&oslo, 0..1, size).await?;
    receive(lima.clone(), 0..1, size).await?;
    let before = [writes(&oslo).await?, writes(&lima).await?];
    let receiving = tokio::spawn(receive(lima.clone(), 1..count + 1, size));
    let begun = Instant::now();
    send(&oslo, 1..count + 1, size).await?;
    let stored = begun.elapsed();
    while counter(&oslo, "messages_pending").await? > 0 {
        tokio::time::sleep(LOOK).await;
    }
    let signed = begun.elapsed();
    let received = receiving.await.map_err(Failure::failed)?? - begun;
    let after = [writes(&oslo).await?, writes(&lima).await?];
    #[allow(clippy::cast_precision_loss, reason = "a figure")]
    let per = |of: f64| count as f64 / of.max(1e-6);
    #[allow(clippy::cast_precision_loss, reason = "a figure")]
    let of_writes = |at: usize| per((after[at] - before[at]) as f64);
    Ok(Run {
        stored: per(stored.as_secs_f64()),
        received: per(received.as_secs_f64()),
        signed: per(signed.as_secs_f64()),
        batches: [of_writes(0), of_writes(1)],
    })
}

async fn send(oslo: &Client, numbers: std::ops::Range<u64>, size: usize) -> Result<(), Failure> {
    let bodies = numbers.map(|number| body(number, size));
    let sent = oslo.send_messages("lima", bodies, &1.0.into()).await;
    sent.map(drop).map_err(Failure::failed)
}

/// Takes these messages, in order, and gives the time at which the last was there.
async fn receive(
    lima: Client,
    numbers: std::ops::Range<u64>,
    size: usize,
) -> Result<Instant, Failure> {
    let mut coming = lima.messages(Some("oslo")).await.map_err(Failure::failed)?;
    let last = numbers.end - 1;
    for number in numbers {
        let message: MessageStatus = coming.next().await.map_err(Failure::failed)?;
        if message.body != body(number, size) {
            return Err(Failure::failed(format_args!(
                "message {number} is not the one that came"
            )));
        }
        if number == last {
            let there = Instant::now();
            coming.mark_read(&message).await.map_err(Failure::failed)?;
            return Ok(there);
        }
        if number % MARKED == 0 {
            coming.mark_read(&message).await.map_err(Failure::failed)?;
        }
    }
    Ok(Instant::now())
}

async fn writes(of: &Client) -> Result<u64, Failure> {
    counter(of, "message_writes").await
}

async fn counter(of: &Client, name: &str) -> Result<u64, Failure> {
    let status = of.status().await.map_err(Failure::failed)?;
    Ok(status.counters.get(name).copied().unwrap_or_default())
}
