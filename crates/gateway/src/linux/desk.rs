//! Scanners at work beside a queue's loop: windows of files to threads, and their findings back.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use crate::limits::MAX_SCAN_BACKLOG;
use crate::scan::Scanner;
use crate::verdict::{ScanJob, Scanned};

/// Threads that scan, and the way back from them. The windows of one flow go to the same thread, in their order.
#[derive(Debug)]
pub struct ScanDesk {
    threads: Vec<Thread>,
    findings: Receiver<(ScanJob, Scanned)>,
    /// Counts findings that were not collected, so that the loop can wait for packets and for them.
    bell: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Thread {
    jobs: SyncSender<ScanJob>,
    _handle: JoinHandle<()>,
}

impl ScanDesk {
    /// Starts a thread for each scanner; without any, each window fails.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(scanners: Vec<Box<dyn Scanner>>) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (found, findings) = channel();
        let mut threads = Vec::new();
        for (number, mut scanner) in scanners.into_iter().enumerate() {
            let (jobs, received) = sync_channel::<ScanJob>(MAX_SCAN_BACKLOG);
            let (found, bell) = (found.clone(), Arc::clone(&bell));
            let handle = std::thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || {
                    for job in received {
                        let scanned = scanner.scan(&job);
                        if found.send((job, scanned)).is_err() {
                            return;
                        }
                        // A counter that is full has rung already.
                        let _rung = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
                    }
                })?;
            threads.push(Thread {
                jobs,
                _handle: handle,
            });
        }
        Ok(Self {
            threads,
            findings,
            bell,
        })
    }

    /// Hands a window to its thread.
    ///
    /// # Errors
    /// The window, and why nobody takes it.
    pub fn submit(&self, job: ScanJob) -> Result<(), (ScanJob, &'static str)> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = usize::try_from(hasher.hash_one(job.flow)).unwrap_or(usize::MAX);
        let Some(place) = hash.checked_rem(self.threads.len()) else {
            return Err((job, "there is no scanner"));
        };
        let Some(thread) = self.threads.get(place) else {
            return Err((job, "there is no scanner"));
        };
        thread.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) => (job, "the scanner is too far behind"),
            TrySendError::Disconnected(job) => (job, "the scanner has ended"),
        })
    }

    /// Takes what was found since the last time.
    pub fn collect(&self, take: &mut dyn FnMut(&ScanJob, &Scanned)) {
        // Nothing to read: it has not rung since.
        let _quiet = rustix::io::read(&*self.bell, &mut [0; 8]);
        for (job, scanned) in self.findings.try_iter() {
            take(&job, &scanned);
        }
    }
}

impl AsFd for ScanDesk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
