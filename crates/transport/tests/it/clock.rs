//! Readings of the receiver's clock: a transfer at priority 0 knows a queue on the way back from
//! one on the way there.

use std::sync::Arc;
use std::time::Duration;

use ringway_dtl::Priority;
use ringway_transport::MemberId;
use ringway_transport::quic::{ConnectionReport, QuicConnection, QuicEndpoint, QuicOptions};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::slow_path::{Path, path};
use crate::support::{key, loopback, soon, until};

struct Sender {
    connection: QuicConnection,
    writes: JoinHandle<()>,
    _ends: [QuicEndpoint; 2],
}

impl Sender {
    /// Sends for ever over a path of 20 ms.
    async fn start(priority: Priority, options: QuicOptions, slow: &Arc<Path>) -> Sender {
        slow.set(10, 10);
        let bind = |number, options| {
            QuicEndpoint::bind(loopback(), &key(number), Arc::new(|_| true), options).unwrap()
        };
        let (ours, theirs) = (bind(1, options), bind(2, QuicOptions::default()));
        let address = path(theirs.local_address().unwrap(), slow.clone()).await;
        let member = MemberId::from(&key(2));
        let (out, into) =
            soon(async { tokio::join!(ours.connect(address, member, priority), theirs.accept()) })
                .await;
        let (connection, into) = (out.unwrap(), into.unwrap());
        let sends = connection.clone();
        let writes = tokio::spawn(async move {
            let (mut stream, _receive) = sends.open_bi().await.unwrap();
            // A rate that leaves this machine time for everything else.
            while stream.write_all(&[7; 2000]).await.is_ok() {
                sleep(Duration::from_millis(5)).await;
            }
        });
        tokio::spawn(async move {
            let (_send, mut stream) = into.accept_bi().await.unwrap();
            while let Ok(Some(_)) = stream.read_chunk(65_536).await {}
            into.closed().await;
        });
        Sender {
            connection,
            writes,
            _ends: [ours, theirs],
        }
    }

    fn report(&self) -> ConnectionReport {
        self.connection.report()
    }
}

const WAY_BACK: Duration = Duration::from_millis(150);
/// Shorter than the history of what the path was like.
const SOON: Duration = Duration::from_secs(50);
const TRIES: u32 = 3;

/// Whether the queue on the way there and that on the way back are soon known to be so.
async fn known(sender: &Sender, are: impl Fn(Duration, Duration) -> bool) -> bool {
    let looks = async {
        loop {
            let report = sender.report();
            let queues = report.queueing_delay.zip(report.way_back_delay);
            if queues.is_some_and(|(there, back)| are(there, back)) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, looks).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scavenger_recognises_a_queue_on_the_way_back() {
    let slow = Arc::new(Path::default());
    let sender = Sender::start(Priority::SCAVENGER, QuicOptions::default(), &slow).await;
    until(|| sender.report().way_back_delay.is_some()).await;
    let half = WAY_BACK / 2;
    let long = 10 + WAY_BACK.as_millis() as u64;
    let mut tries = 0;
    loop {
        slow.set(10, long);
        let is_back = known(&sender, |there, back| back > half && there < half).await;
        // The other way round it is a queue like any other, and known before the history of a
        // minute has forgotten what the path was like.
        slow.set(long, 10);
        let is_there = known(&sender, |there, back| back < half && there > half).await;
        if is_back && is_there {
            break;
        }
        // What agrees in time elsewhere may not on a machine that is busy: that is no fault unless
        // it never does.
        tries += 1;
        assert!(tries < TRIES, "{is_back} {is_there}: {:?}", sender.report());
    }
    // The sender asks no more, and the last reading is forgotten.
    sender.connection.set_priority(Priority::NORMAL);
    until(|| sender.report().way_back_delay.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readings_need_the_option_and_a_scavenger() {
    let without = QuicOptions {
        clocks: false,
        ..QuicOptions::default()
    };
    for (priority, options) in [
        (Priority::SCAVENGER, without),
        (Priority::NORMAL, QuicOptions::default()),
    ] {
        let slow = Arc::new(Path::default());
        let sender = Sender::start(priority, options, &slow).await;
        until(|| sender.report().sent_bytes > 300_000).await;
        assert_eq!(sender.report().way_back_delay, None, "{priority}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_nothing_asks_nothing() {
    let slow = Arc::new(Path::default());
    let sender = Sender::start(Priority::SCAVENGER, QuicOptions::default(), &slow).await;
    until(|| sender.report().way_back_delay.is_some()).await;
    sender.writes.abort();
    // Not even about its own questions. Whatever else a connection says seldom, it does not say
    // each second.
    until_quiet(&sender).await;
    assert!(sender.connection.close_reason().is_none());
}

/// Waits until nothing has been sent for two seconds.
async fn until_quiet(sender: &Sender) {
    let quiet = async {
        let mut before = u64::MAX;
        while before != sender.report().sent {
            before = sender.report().sent;
            sleep(Duration::from_secs(2)).await;
        }
    };
    assert!(timeout(SOON, quiet).await.is_ok(), "it goes on");
}
