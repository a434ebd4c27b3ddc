//! Hashes of audited files, made beside a queue's loop.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::priority::reset_priority;
use crate::audit::Digester;
use crate::limits::MAX_FILE_PARTS;
use crate::verdict::{Event, FileEnd, FilePart};

/// What comes of files: an event that is complete, or what kept a file from being kept.
pub type Deliver = Box<dyn FnMut(Result<Event, io::Error>) + Send>;

/// A thread that makes hashes, and delivers the events that they complete. Dropped, it does what
/// it was given and ends.
#[derive(Debug)]
pub struct HashWorker {
    parts: Option<SyncSender<FilePart>>,
    /// Files under way that go without a hash.
    without: HashSet<u64>,
    /// Those of them that are over, of which the thread was not notified.
    owed: Vec<u64>,
    thread: Option<JoinHandle<()>>,
}

impl HashWorker {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(digester: Digester, deliver: Deliver) -> io::Result<Self> {
        let (parts, received) = sync_channel(MAX_FILE_PARTS);
        let thread = std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || {
                reset_priority();
                work(digester, &received, deliver);
            })?;
        Ok(Self {
            parts: Some(parts),
            without: HashSet::new(),
            owed: Vec::new(),
            thread: Some(thread),
        })
    }

    /// Hands over a part; packets do not wait for it. Where too many parts wait already, the file
    /// goes without its hash: what is answered is its event then, as it is.
    pub fn submit(&mut self, part: FilePart) -> Option<Event> {
        let file = part.file;
        while let (Some(&over), Some(parts)) = (self.owed.last(), &self.parts) {
            let cut_off = FilePart {
                file: over,
                bytes: Vec::new(),
                keep: false,
                end: Some(FileEnd::CutOff),
            };
            if parts.try_send(cut_off).is_err() {
                break;
            }
            self.owed.pop();
        }
        let refused = match &self.parts {
            Some(parts) if !self.without.contains(&file) => match parts.try_send(part) {
                Ok(()) => return None,
                Err(TrySendError::Full(part)) => part,
                Err(TrySendError::Disconnected(part)) => {
                    // It has ended by a fault: no receiver is left.
                    self.parts = None;
                    part
                }
            },
            _ => part,
        };
        match refused.end {
            None => {
                self.without.insert(file);
                None
            }
            Some(end) => {
                self.without.remove(&file);
                if self.parts.is_some() {
                    self.owed.push(file);
                }
                match end {
                    FileEnd::Whole(event) => Some(*event),
                    FileEnd::CutOff => None,
                }
            }
        }
    }
}

fn work(mut digester: Digester, parts: &Receiver<FilePart>, mut deliver: Deliver) {
    for part in parts {
        let (event, failed) = digester.take(part);
        if let Some(error) = failed {
            deliver(Err(error));
        }
        if let Some(event) = event {
            deliver(Ok(event));
        }
    }
}

impl Drop for HashWorker {
    fn drop(&mut self) {
        drop(self.parts.take());
        if let Some(thread) = self.thread.take() {
            // A fault in it was reported already.
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::HashWorker;
    use crate::audit::Digester;
    use crate::limits::MAX_FILE_PARTS;
    use crate::verdict::{Event, FileEnd, FilePart};

    fn part(file: u64, end: Option<FileEnd>) -> FilePart {
        FilePart {
            file,
            bytes: b"abc".to_vec(),
            keep: false,
            end,
        }
    }

    fn whole() -> Option<FileEnd> {
        Some(FileEnd::Whole(Box::new(Event::of_a_file())))
    }

    #[test]
    fn a_file_too_fast_is_reported_unhashed() {
        let (sender, events) = channel();
        let (word, words) = channel::<()>();
        let deliver = Box::new(move |event| {
            words.recv().ok();
            sender.send(event).ok();
        });
        let mut worker = HashWorker::start(Digester::default(), deliver).unwrap();
        // The thread is busy telling this one, for as long as the test wants.
        assert!(worker.submit(part(1, whole())).is_none());
        for _ in 0..=MAX_FILE_PARTS.saturating_mul(2) {
            assert!(worker.submit(part(2, None)).is_none());
        }
        let event = worker.submit(part(2, whole())).unwrap();
        assert!(event.fileinfo.unwrap().sha256.is_none());
        drop(word);
        let first = events.recv().unwrap().unwrap();
        assert!(first.fileinfo.unwrap().sha256.is_some());
        // It has caught up: the next file has its hash again.
        // A try that finds no room comes back at once.
        while worker.submit(part(3, whole())).is_some() {
            std::thread::yield_now();
        }
        let third = events.recv().unwrap().unwrap();
        assert!(third.fileinfo.unwrap().sha256.is_some());
        while !worker.owed.is_empty() {
            assert!(worker.submit(part(4, None)).is_none());
        }
        assert!(worker.without.is_empty());
    }
}
