//! One queue's loop in a thread of its own.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use super::accounts::Accountant;
use super::error::ServiceError;
use super::event_writer::EventWriter;
use crate::audit::Digester;
use crate::linux::hash_worker::HashWorker;
use crate::linux::inject::Injector;
use crate::linux::kernel::{KernelReports, SharedKernel};
use crate::linux::live::{Live, Order, Report};
use crate::linux::queue_pair::QueuePair;
use crate::linux::rules::Rules;
use crate::linux::scanner_pool::ScannerPool;
use crate::linux::terminate::Terminator;
use crate::verdict::Gateway;

/// What a queue's loop has to do with.
pub(super) struct Work {
    pub(super) gateway: Gateway,
    /// The kernel decides, too; what it reports goes to one loop.
    pub(super) shared: Option<(SharedKernel, Option<KernelReports>)>,
    pub(super) terminator: Option<Terminator>,
    pub(super) scans: ScannerPool,
    /// What takes views of its flows.
    pub(super) accountant: Accountant,
}

/// One queue's loop in a thread of its own.
#[derive(Debug)]
pub(super) struct QueueThread {
    orders: Sender<Order>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl QueueThread {
    /// Starts the loop of a queue. `number` is the queue of new flows, `followed` that of flows
    /// whose contents are followed.
    pub(super) fn start(
        number: u16,
        followed: u16,
        rules: &Rules,
        work: Work,
        writer: &EventWriter,
    ) -> Result<QueueThread, ServiceError> {
        let files = HashWorker::start(Digester::new(Some(writer.store())), writer.deliver())
            .map_err(not_started)?;
        let queues = QueuePair::open(number, followed, rules.fail_open).map_err(refused)?;
        let injector = if rules.border.bridged {
            Injector::bridged(rules.border.all())
        } else {
            Injector::routed()
        };
        let injector = injector.map_err(refused)?;
        let mut live = Live::new(
            queues,
            work.gateway,
            injector,
            rules.marks,
            work.scans,
            files,
        );
        if let Some((shared, reports)) = work.shared {
            live.share_kernel(shared, reports);
        }
        if let Some(terminator) = work.terminator {
            live.terminate(terminator);
        }
        let (orders, received) = channel();
        let (recorder, accountant) = (writer.recorder(), work.accountant);
        let thread = std::thread::Builder::new()
            .name(format!("queue-{number}"))
            .spawn(move || {
                let ended = live.run(&received, &mut |report| match report {
                    Report::Over(flow) => recorder.end(*flow),
                    Report::Event(event) => recorder.record(*event),
                    Report::Account(view) => accountant.note(*view),
                });
                // What makes hashes reports the last of them before the writer ends.
                drop(live);
                if let Err(error) = &ended {
                    tracing::error!(number, %error, "a queue's loop has ended: its packets go on or stop as the policy's failure says");
                }
                ended
            })
            .map_err(not_started)?;
        Ok(QueueThread { orders, thread })
    }

    /// Where the loop takes orders.
    pub(super) fn orders(&self) -> Sender<Order> {
        self.orders.clone()
    }

    /// Waits for its end.
    fn end(self) -> Result<(), ServiceError> {
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ServiceError::failed(format_args!(
                "a queue failed: {error}"
            ))),
            Err(_) => Err(ServiceError::failed("a queue's thread ended by a fault")),
        }
    }
}

/// Ends all queues, also behind one that has failed: what the others have to report is not lost.
/// Returns the first failure.
pub(super) fn end_all(queues: Vec<QueueThread>) -> Result<(), ServiceError> {
    for queue in &queues {
        // A loop that has ended already takes no order.
        queue.orders.send(Order::Stop).ok();
    }
    let ended: Vec<_> = queues.into_iter().map(QueueThread::end).collect();
    ended.into_iter().collect()
}

fn not_started(error: std::io::Error) -> ServiceError {
    ServiceError::failed(format_args!("a thread did not start: {error}"))
}

fn refused(error: std::io::Error) -> ServiceError {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => ServiceError::failed(
            "the gateway needs CAP_NET_ADMIN and CAP_NET_RAW: run it as root or give it both",
        ),
        _ => ServiceError::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use super::{QueueThread, end_all};
    use crate::linux::live::Order;

    fn queue(work: impl FnOnce(Receiver<Order>) -> io::Result<()> + Send + 'static) -> QueueThread {
        let (orders, received): (Sender<Order>, _) = channel();
        let thread: JoinHandle<_> = std::thread::spawn(move || work(received));
        QueueThread { orders, thread }
    }

    #[test]
    fn queues_end_with_the_first_failure() {
        let (events, received) = channel();
        let failed = |why: &'static str| queue(move |_orders| Err(io::Error::other(why)));
        let slow = queue(move |orders| {
            assert!(matches!(orders.recv(), Ok(Order::Stop)));
            std::thread::sleep(Duration::from_millis(200));
            events.send("its last event").map_err(io::Error::other)
        });
        let ended = end_all(vec![failed("the first"), slow, failed("another")]);
        // They have ended by now: nothing comes later.
        assert_eq!(received.try_iter().collect::<Vec<_>>(), ["its last event"]);
        let message = ended.unwrap_err().to_string();
        assert!(message.contains("the first"), "{message}");
    }
}
