//! What a linked pair costs while it is unused.

use std::time::{Duration, Instant};

use super::messages::answering;
use super::pair::{Application, Pair, wait_for};
use ringway_terminal::Failure;

/// Bytes of IPv4 and UDP headers, which every packet has on the wire.
const HEADERS: u64 = 28;

/// Bytes a day, both ways, headers among them, between a leaf and its router when nothing is sent;
/// measured for `time`.
pub(super) fn bytes_a_day(
    pair: &Pair,
    first: &'static str,
    second: &'static str,
    time: Duration,
) -> Result<f64, Failure> {
    let socket = pair.socket(0);
    let quiet: Application<Result<f64, Failure>> = Box::new(move |mut messages| {
        Box::pin(async move {
            wait_for(&mut messages, second).await?;
            // What follows a new link is over by then.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let before = moved(&Pair::status(&socket).await?);
            let begin = Instant::now();
            tokio::time::sleep(time).await;
            let after = moved(&Pair::status(&socket).await?);
            #[allow(clippy::cast_precision_loss, reason = "bytes of a minute")]
            let bytes = after.saturating_sub(before) as f64;
            Ok(bytes / begin.elapsed().as_secs_f64() * 86_400.0)
        })
    });
    pair.run(quiet, answering(first))?
}

fn moved(status: &ringway_node::control::Status) -> u64 {
    let each = status.transports.iter().map(|transport| {
        let packets = transport.sent + transport.received;
        transport.sent_bytes + transport.received_bytes + packets * HEADERS
    });
    each.sum()
}
