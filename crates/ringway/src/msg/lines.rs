//! `ringway msg PEER --lines`: each line of standard input is a message.
//!
//! Those that are there go together, by one write to the disk; one that comes alone goes at once.

use std::io::{self, BufRead, Read as _};
use std::thread;

use ringway_node::control::{AskedPriority, BatchStatus, Body, Reply, Request};
use ringway_node::limits::{BATCH_PAUSE, BATCHED_BYTES, BATCHED_MESSAGES, MESSAGE_BYTES};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::context::Context;
use crate::request::ask;
use crate::signals::Signals;
use ringway_terminal::Failure;

/// Schema of what became of the lines to one member.
const SCHEMA: &str = "ringway.messages/1";

/// What became of the lines to one member, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Stored {
    peer: String,
    /// How many are on the disk, and are sent until the member has signed for them.
    stored: usize,
}

/// Sends each line to each of `peers`, until the input ends or Ctrl-C.
pub(super) async fn send(
    context: &Context,
    peers: Vec<String>,
    priority: &AskedPriority,
) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    let (lines, mut coming) = mpsc::channel(BATCHED_MESSAGES);
    // A thread of its own, which ends with the input, or with the program: no read of standard
    // input can be given up.
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = next_line(&mut input).transpose() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let unused = |peer| Stored { peer, stored: 0 };
    let mut all: Vec<Stored> = peers.into_iter().map(unused).collect();
    let ended = tokio::select! {
        ended = pass_on(context, &mut coming, &mut all, priority) => ended,
        _ = signals.next() => Ok(()),
    };
    // However it ended: these are on the disk.
    for stored in &all {
        let shown = || format!("{} messages to {}: pending", stored.stored, stored.peer);
        context.output.either(SCHEMA, stored, shown)?;
    }
    ended
}

/// Stores what comes, until the input ends.
async fn pass_on(
    context: &Context,
    coming: &mut mpsc::Receiver<Line>,
    all: &mut [Stored],
    priority: &AskedPriority,
) -> Result<(), Failure> {
    let mut left = None;
    loop {
        let first = match left.take() {
            Some(line) => Some(line),
            None => coming.recv().await,
        };
        let Some(first) = first.transpose()? else {
            return Ok(());
        };
        let batch;
        (batch, left) = gather(first, coming);
        for stored in &mut *all {
            send_batch(context, stored, batch.clone(), priority).await?;
        }
    }
}

type Line = Result<Vec<u8>, Failure>;

/// What goes together with the first line, and what came behind that and does not.
fn gather(first: Vec<u8>, coming: &mut mpsc::Receiver<Line>) -> (Vec<Body>, Option<Line>) {
    let mut bytes = first.len();
    let mut batch = vec![Body(first)];
    while batch.len() < BATCHED_MESSAGES {
        match coming.try_recv() {
            Ok(Ok(line)) if bytes + line.len() <= BATCHED_BYTES => {
                bytes += line.len();
                batch.push(Body(line));
            }
            Ok(left) => return (batch, Some(left)),
            Err(_) => break,
        }
    }
    (batch, None)
}

/// Stores a batch: in parts, where there is no room for all of it yet.
async fn send_batch(
    context: &Context,
    stored: &mut Stored,
    mut bodies: Vec<Body>,
    priority: &AskedPriority,
) -> Result<(), Failure> {
    let mut waits = false;
    while !bodies.is_empty() {
        let request = Request::Batch {
            peer: stored.peer.clone(),
            bodies: bodies.clone(),
            priority: priority.clone(),
        };
        let status = ask(context, &request).await?.only(as_batch).await?;
        stored.peer = status.peer;
        stored.stored += status.stored;
        bodies.drain(..status.stored.min(bodies.len()));
        if let Some(full) = status.full {
            if !std::mem::replace(&mut waits, true) {
                context.output.note(&full);
            }
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    }
    Ok(())
}

fn as_batch(reply: Reply) -> Option<BatchStatus> {
    match reply {
        Reply::Batch(batch) => Some(batch),
        _ => None,
    }
}

/// The next line that is not empty, without its end; none at the end of the input.
fn next_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let mut line = Vec::new();
        let most = u64::try_from(MESSAGE_BYTES + 2).unwrap_or(u64::MAX);
        if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.len() > MESSAGE_BYTES {
            return Err(Failure::failed(format_args!(
                "a line is longer than {MESSAGE_BYTES} bytes: send it as a file, by `ringway send`; the lines before it are stored"
            )));
        }
        if !line.is_empty() {
            return Ok(Some(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Vec<u8>> {
        let mut input = io::BufReader::with_capacity(7, input);
        let lines = std::iter::from_fn(|| next_line(&mut input).unwrap());
        lines.collect()
    }

    #[test]
    fn lines_are_cut_at_their_ends() {
        assert_eq!(
            lines(b"one\n\ntwo\r\n\nthree"),
            [&b"one"[..], b"two", b"three"]
        );
        assert_eq!(lines(b"\n\n"), Vec::<Vec<u8>>::new());
        let longest = vec![b'x'; MESSAGE_BYTES];
        assert_eq!(
            lines(&[&longest[..], b"\ny"].concat()),
            [&longest[..], b"y"]
        );
        let longer = vec![b'x'; MESSAGE_BYTES + 1];
        assert!(next_line(&mut &longer[..]).is_err());
    }

    #[test]
    fn batches_keep_their_bounds() {
        let (lines, mut coming) = mpsc::channel(5);
        let long = vec![b'x'; BATCHED_BYTES / 3];
        for _ in 0..4 {
            lines.try_send(Ok(long.clone())).unwrap();
        }
        let (batch, left) = gather(long.clone(), &mut coming);
        assert_eq!(batch.len(), 3);
        assert_eq!(left.unwrap().unwrap(), long);
        let (batch, left) = gather(Vec::new(), &mut coming);
        assert_eq!((batch.len(), left.is_none()), (2, true));
    }
}
