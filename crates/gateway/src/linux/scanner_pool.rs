//! Scanners at work beside a queue's loop: windows of files to threads, and their findings back.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use super::priority::lower_priority;
use crate::limits::MAX_SCAN_BACKLOG;
use crate::scan::Start;
use crate::verdict::{ScanJob, Scanned};

/// Threads that scan, and the way back from them. The windows of one flow go to the same thread, in
/// their order.
#[derive(Debug)]
pub struct ScannerPool {
    threads: Vec<Thread>,
    findings: Receiver<(ScanJob, Scanned)>,
    /// Counts findings that were not collected, so that the loop can wait for packets and for
    /// them.
    waker: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Thread {
    jobs: Sender<ScanJob>,
    /// Bytes of the windows that wait.
    waiting: Arc<AtomicUsize>,
    _handle: JoinHandle<()>,
}

impl ScannerPool {
    /// Starts a thread for each scanner; without any, each window fails.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(scanners: Vec<Start>) -> io::Result<Self> {
        let waker = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (found, findings) = channel();
        let mut threads = Vec::new();
        for (number, start) in scanners.into_iter().enumerate() {
            let (jobs, received) = channel::<ScanJob>();
            let waiting = Arc::new(AtomicUsize::new(0));
            let taken = Arc::clone(&waiting);
            let (found, waker) = (found.clone(), Arc::clone(&waker));
            let handle = std::thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || {
                    // Everybody's packets come before scans.
                    lower_priority();
                    let mut scanner = start();
                    for job in received {
                        let scanned = catch_unwind(AssertUnwindSafe(|| scanner.scan(&job)))
                            .unwrap_or_else(|_| {
                                scanner = start();
                                Scanned::Failed("the scanner ended by a fault".to_owned())
                            });
                        taken.fetch_sub(job.bytes.len(), Ordering::Relaxed);
                        if found.send((job, scanned)).is_err() {
                            return;
                        }
                        // A counter that is full has rung already.
                        let _rung = rustix::io::write(&*waker, &1_u64.to_ne_bytes());
                    }
                })?;
            threads.push(Thread {
                jobs,
                waiting,
                _handle: handle,
            });
        }
        Ok(Self {
            threads,
            findings,
            waker,
        })
    }

    /// Hands a window to its thread.
    ///
    /// # Errors
    /// The window, and why no scanner takes it.
    pub fn submit(&self, job: ScanJob) -> Result<(), (ScanJob, &'static str)> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = usize::try_from(hasher.hash_one(job.flow)).unwrap_or(usize::MAX);
        let Some(place) = hash.checked_rem(self.threads.len()) else {
            return Err((job, "there is no scanner"));
        };
        let Some(thread) = self.threads.get(place) else {
            return Err((job, "there is no scanner"));
        };
        let bytes = job.bytes.len();
        let waiting = thread.waiting.fetch_add(bytes, Ordering::Relaxed);
        if waiting.saturating_add(bytes) > MAX_SCAN_BACKLOG {
            thread.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err((job, "the scanner is too far behind"));
        }
        let sent = thread.jobs.send(job);
        sent.map_err(|SendError(job)| (job, "the scanner has ended"))
    }

    /// Takes what was found since the last time.
    pub fn collect(&self, take: &mut dyn FnMut(&ScanJob, &Scanned)) {
        // Nothing to read: it has not rung since.
        let _quiet = rustix::io::read(&*self.waker, &mut [0; 8]);
        for (job, scanned) in self.findings.try_iter() {
            take(&job, &scanned);
        }
    }
}

impl AsFd for ScannerPool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::ScannerPool;
    use crate::flow::Direction;
    use crate::limits::MAX_SCAN_BACKLOG;
    use crate::scan::Scanner;
    use crate::verdict::{FlowId, ScanJob, Scanned};

    /// Waits for a word before each answer.
    struct Slow(Receiver<()>);

    impl Scanner for Slow {
        fn scan(&mut self, _job: &ScanJob) -> Scanned {
            self.0.recv().ok();
            Scanned::Clean
        }
    }

    fn job(number: u32, bytes: usize) -> ScanJob {
        ScanJob {
            flow: FlowId::default(),
            direction: Direction::FromServer,
            number,
            bytes: vec![0; bytes],
            repeated: 0,
            at: 0,
            first: number == 1,
            last: false,
            name: None,
        }
    }

    #[test]
    fn waiting_windows_are_bounded_by_bytes() {
        let (word, words) = channel();
        let words = Mutex::new(Some(words));
        let start =
            move || -> Box<dyn Scanner> { Box::new(Slow(words.lock().unwrap().take().unwrap())) };
        let pool = ScannerPool::start(vec![Box::new(start)]).unwrap();
        let many = 20_000;
        for number in 1..=many {
            assert!(pool.submit(job(number, 1_024)).is_ok(), "{number}");
        }
        let refused = pool.submit(job(many + 1, MAX_SCAN_BACKLOG));
        assert_eq!(refused.unwrap_err().1, "the scanner is too far behind");
        for _ in 0..many {
            word.send(()).unwrap();
        }
        let mut next = 1;
        while next <= many {
            pool.collect(&mut |job, _| {
                assert_eq!(job.number, next);
                next += 1;
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        // What was answered does not count any more.
        word.send(()).unwrap();
        assert!(pool.submit(job(next, MAX_SCAN_BACKLOG)).is_ok());
    }

    /// Ends by a fault with each second window.
    struct Weak(bool);

    impl Scanner for Weak {
        fn scan(&mut self, _job: &ScanJob) -> Scanned {
            let worked = std::mem::replace(&mut self.0, true);
            assert!(!worked, "a fault that the test asks for");
            Scanned::Clean
        }
    }

    #[test]
    fn a_panicked_scanner_reports_and_is_replaced() {
        let pool = ScannerPool::start(vec![Box::new(|| Box::new(Weak(false)))]).unwrap();
        for number in 1..=3 {
            assert!(pool.submit(job(number, 10)).is_ok());
        }
        let mut answers = Vec::new();
        while answers.len() < 3 {
            pool.collect(&mut |_, scanned| answers.push(*scanned == Scanned::Clean));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(answers, [true, false, true]);
    }
}
