//! Hashes of audited files, made beside a queue's loop.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::audit::Digester;
use crate::limits::MAX_FILE_PARTS;
use crate::verdict::{Event, FilePart};

/// What comes of files: an event that is complete, or what kept a file from being kept.
pub type Tell = Box<dyn FnMut(Result<Event, io::Error>) + Send>;

/// A thread that makes hashes, and tells the events that they complete. Dropped, it does what it was given and ends.
#[derive(Debug)]
pub struct FileDesk {
    parts: Option<SyncSender<FilePart>>,
    thread: Option<JoinHandle<()>>,
}

impl FileDesk {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(digester: Digester, tell: Tell) -> io::Result<Self> {
        let (parts, received) = sync_channel(MAX_FILE_PARTS);
        let thread = std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || work(digester, &received, tell))?;
        Ok(Self {
            parts: Some(parts),
            thread: Some(thread),
        })
    }

    /// Hands over a part; waits if too many wait already. `false`: the thread has ended, by a fault.
    pub fn submit(&self, part: FilePart) -> bool {
        (self.parts.as_ref()).is_some_and(|parts| parts.send(part).is_ok())
    }
}

fn work(mut digester: Digester, parts: &Receiver<FilePart>, mut tell: Tell) {
    for part in parts {
        let (event, failed) = digester.take(part);
        if let Some(error) = failed {
            tell(Err(error));
        }
        if let Some(event) = event {
            tell(Ok(event));
        }
    }
}

impl Drop for FileDesk {
    fn drop(&mut self) {
        drop(self.parts.take());
        if let Some(thread) = self.thread.take() {
            // A fault in it was told already.
            thread.join().ok();
        }
    }
}
