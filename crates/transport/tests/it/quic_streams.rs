//! Streams of one connection that have priorities.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_dtl::{LimitedBy, Priority};
use ringway_transport::MemberId;
use ringway_transport::quic::{
    DatagramCarrier, MemberDatagram, QuicConnection, QuicEndpoint, QuicOptions, RecvStream,
    member_address,
};
use tokio::sync::mpsc;

use crate::support::{key, soon, until};

/// Bytes a second of the line between the two.
const RATE: f64 = 4e6;
/// What the line's queue holds, as a time.
const QUEUE: Duration = Duration::from_millis(40);

/// By how much of it a share may miss what is due: bytes are counted where they are read, and not
/// at one instant.
const WITHIN: f64 = 0.08;
/// What priority 0 may have where others take all.
const LEFT_OVER: f64 = 0.02;

struct Pair {
    _ends: [QuicEndpoint; 2],
    out: QuicConnection,
    into: QuicConnection,
}

/// Carries datagrams from one side to the other at the line's rate.
fn carry(mut from: DatagramCarrier, to: mpsc::Sender<MemberDatagram>, member: MemberId) {
    let (queue, mut queued) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let _incoming = from.incoming;
        let mut free = Instant::now();
        while let Some(MemberDatagram { bytes, .. }) = from.outgoing.recv().await {
            let now = Instant::now();
            if free > now + QUEUE {
                continue;
            }
            free = free.max(now) + Duration::from_secs_f64(bytes.len() as f64 / RATE);
            if queue
                .send((free, MemberDatagram { member, bytes }))
                .is_err()
            {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, datagram)) = queued.recv().await {
            tokio::time::sleep_until(at.into()).await;
            if to.try_send(datagram).is_err() && to.is_closed() {
                return;
            }
        }
    });
}

async fn pair() -> Pair {
    let over = |number| {
        let options = QuicOptions::default();
        QuicEndpoint::over_messages(&key(number), Arc::new(|_| true), options).unwrap()
    };
    let [first, second] = [1, 2].map(|number| MemberId::from(&key(number)));
    let ((a, at_a), (b, at_b)) = (over(1), over(2));
    let (to_a, to_b) = (at_a.incoming.clone(), at_b.incoming.clone());
    carry(at_a, to_b, first);
    carry(at_b, to_a, second);
    let connecting = a.connect(member_address(&second), second, Priority::NORMAL);
    let (out, into) = soon(async { tokio::join!(connecting, b.accept()) }).await;
    Pair {
        out: out.unwrap(),
        into: into.unwrap(),
        _ends: [a, b],
    }
}

/// A stream of this priority that is written without end, and the other end.
async fn busy(pair: &Pair, priority: f64) -> (Arc<Told>, RecvStream) {
    let (mut stream, _answers) = pair
        .out
        .open_with(Priority::new(priority).unwrap())
        .await
        .unwrap();
    stream.write_chunk(Bytes::from_static(b"x")).await.unwrap();
    let (_sink, mut source) = soon(pair.into.accept_bi()).await.unwrap();
    let mut first = [0];
    source.read_exact(&mut first).await.unwrap();
    let handle = Arc::new(Told::default());
    let told = Arc::clone(&handle);
    tokio::spawn(async move {
        let _kept = (_answers, _sink);
        let chunk = Bytes::from(vec![7; 200_000]);
        loop {
            if let Some(priority) = told.take() {
                stream.set_priority(priority);
            }
            if stream.write_chunk(chunk.clone()).await.is_err() {
                return;
            }
        }
    });
    (handle, source)
}

/// What a writer is told.
#[derive(Debug, Default)]
struct Told(std::sync::Mutex<Option<Priority>>);

impl Told {
    fn set(&self, priority: f64) {
        *self.0.lock().unwrap() = Some(Priority::new(priority).unwrap());
    }

    fn take(&self) -> Option<Priority> {
        self.0.lock().unwrap().take()
    }
}

/// Reads without end and counts.
fn count(mut source: RecvStream) -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(Some(bytes)) = source.read(&mut buffer).await {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    counted
}

fn taken(counts: &[Arc<AtomicU64>]) -> Vec<f64> {
    let taken = counts
        .iter()
        .map(|count| count.swap(0, Ordering::Relaxed) as f64);
    taken.collect()
}

/// What each gets while all get so many bytes.
async fn shares(counts: &[Arc<AtomicU64>], bytes: u64) -> Vec<f64> {
    taken(counts);
    let all = || {
        counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum::<u64>()
    };
    until(|| all() >= bytes).await;
    let taken = taken(counts);
    let sum: f64 = taken.iter().sum();
    taken.iter().map(|one| one / sum).collect()
}

/// Each has what is due to it, and one that is due nothing has next to nothing.
fn assert_near(shares: &[f64], weights: &[f64]) {
    let sum: f64 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(weights) {
        let due = weight / sum;
        let off = if due > 0.0 { due * WITHIN } else { LEFT_OVER };
        assert!((share - due).abs() <= off, "{shares:?} for {weights:?}");
    }
}

/// The shares follow changes of the priority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_share_a_connection_by_priority() {
    let pair = pair().await;
    let (mut handles, mut counts) = (Vec::new(), Vec::new());
    for priority in [1.0, 2.0, 4.0] {
        let (handle, source) = busy(&pair, priority).await;
        handles.push(handle);
        counts.push(count(source));
    }
    shares(&counts, 3 << 20).await;
    assert_near(&shares(&counts, 12 << 20).await, &[1.0, 2.0, 4.0]);
    handles[0].set(4.0);
    handles[2].set(1.0);
    shares(&counts, 3 << 20).await;
    assert_near(&shares(&counts, 12 << 20).await, &[4.0, 2.0, 1.0]);
    handles[0].set(0.0);
    shares(&counts, 3 << 20).await;
    assert_near(&shares(&counts, 12 << 20).await, &[0.0, 2.0, 1.0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_stream_delays_no_other() {
    let pair = pair().await;
    let (_first, unread) = busy(&pair, 4.0).await;
    let (_second, source) = busy(&pair, 1.0).await;
    let read = [count(source)];
    shares(&read, 6 << 20).await;
    // It goes on where it was, and takes no more than its due from then on.
    let both = [count(unread), Arc::clone(&read[0])];
    shares(&both, 3 << 20).await;
    assert_near(&shares(&both, 12 << 20).await, &[4.0, 1.0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_writer_is_reported_as_the_limit() {
    let pair = pair().await;
    let (mut stream, _answers) = pair.out.open_bi().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    let (_sink, source) = soon(pair.into.accept_bi()).await.unwrap();
    let _read = count(source);
    let reason = || pair.out.report().limited_by;
    for priority in [Priority::SCAVENGER, Priority::NORMAL] {
        pair.out.set_priority(priority);
        for (pause, by_writer) in [(50, true), (0, false)] {
            // A tenth of what the line carries, and more than it carries.
            let writes = async {
                loop {
                    stream.write_all(&[7; 20_000]).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            };
            // For as long as several writes take, not for a moment. A busy machine holds the line
            // and the writer up now and then, and each of them is the limit then.
            let mut last = VecDeque::from([false; 40]);
            let told = until(|| {
                let told = reason().map(|reason| reason == LimitedBy::Application);
                last.pop_front();
                last.push_back(told == Some(by_writer));
                last.iter().filter(|right| **right).count() >= 30
            });
            tokio::select! {
                () = writes => {}
                () = told => {}
            }
        }
    }
}

/// Dropping the stream finishes it.
#[tokio::test]
async fn abandoned_chunk_is_still_written_whole() {
    let pair = pair().await;
    let (mut stream, _answers) = pair.out.open_with(Priority::NORMAL).await.unwrap();
    assert_eq!(stream.priority(), Priority::NORMAL);
    let size = 5 << 20;
    let first = Bytes::from(vec![1; size]);
    let given_up = tokio::time::timeout(Duration::from_millis(50), stream.write_chunk(first)).await;
    assert!(given_up.is_err(), "more than the receiver allows");
    let (_sink, mut source) = soon(pair.into.accept_bi()).await.unwrap();
    let reading = tokio::spawn(async move { source.read_to_end(size + 10).await.unwrap() });
    soon(stream.write_chunk(Bytes::from_static(b"end")))
        .await
        .unwrap();
    drop(stream);
    let read = soon(reading).await.unwrap();
    assert_eq!(read.len(), size + 3);
    assert!(read.ends_with(b"\x01end"));
}

#[tokio::test]
async fn to_finish_cuts_nothing_off_that_was_promised() {
    let pair = pair().await;
    let (mut stream, _answers) = pair.out.open_with(Priority::NORMAL).await.unwrap();
    let size = 5 << 20;
    let chunk = Bytes::from(vec![1; size]);
    let given_up = tokio::time::timeout(Duration::from_millis(50), stream.write_chunk(chunk)).await;
    assert!(given_up.is_err(), "more than the receiver allows");
    assert!(stream.finish() && !stream.finish());
    let after = soon(stream.write_chunk(Bytes::from_static(b"x"))).await;
    after.unwrap_err();
    let (_sink, mut source) = soon(pair.into.accept_bi()).await.unwrap();
    let read = soon(source.read_to_end(size + 10)).await.unwrap();
    assert_eq!(read.len(), size);
}

#[tokio::test]
async fn nothing_is_written_at_once() {
    let pair = pair().await;
    let (mut stream, _answers) = pair.out.open_with(Priority::NORMAL).await.unwrap();
    soon(stream.write_chunk(Bytes::new())).await.unwrap();
    soon(stream.write_chunk(Bytes::from_static(b"x")))
        .await
        .unwrap();
    assert!(stream.finish());
    let (_sink, mut source) = soon(pair.into.accept_bi()).await.unwrap();
    assert_eq!(soon(source.read_to_end(10)).await.unwrap(), b"x");
}

#[tokio::test]
async fn a_stream_says_when_it_has_ended() {
    let pair = pair().await;
    let (mut stream, _answers) = pair.out.open_with(Priority::NORMAL).await.unwrap();
    stream.write_chunk(Bytes::from_static(b"x")).await.unwrap();
    assert!(stream.finish() && !stream.finish());
    stream
        .write_chunk(Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    let (mut other, _answers) = pair.out.open_with(Priority::NORMAL).await.unwrap();
    assert!(other.reset(3) && !other.reset(3));
    other
        .write_chunk(Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    let (mut last, _answers) = pair.out.open_with(Priority::NORMAL).await.unwrap();
    pair.out.close(0, "");
    soon(last.write_chunk(Bytes::from_static(b"x")))
        .await
        .unwrap_err();
}
