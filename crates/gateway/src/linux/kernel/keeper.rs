//! Takes the connection cache's places behind interfaces' drivers while somebody is blocked, and leaves them when nobody is: a program that
//! nobody needs would cost each packet a call.
//!
//! A thread of its own, because the kernel may let whoever changes what is at interfaces wait for others who do.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use super::ingress;
use super::refused::KernelCache;
use crate::limits::PLACES_LOOK;
use crate::linux::border::number;
use crate::linux::priority::go_along;

/// What the keeper is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Somebody is blocked, and nobody was.
    Blocked,
    /// Places stay as they are from now on.
    Stop,
}

/// The thread.
pub(super) struct Keeper {
    words: Sender<Word>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    /// Takes or leaves the places at once, and from then on.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(mut places: Places) -> std::io::Result<Self> {
        let (words, heard) = channel();
        places.cache.tell_keeper(words.clone());
        if !places.cache.refuses() {
            // Whatever an earlier run has left.
            places.leave();
        }
        places.tend();
        let thread = std::thread::Builder::new()
            .name("cache".to_owned())
            .spawn(move || {
                go_along();
                places.keep(&heard);
            })?;
        Ok(Self {
            words,
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A thread that has ended takes no word.
        self.words.send(Word::Stop).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Where the connection cache stands behind drivers while somebody is blocked.
#[derive(Debug)]
pub(super) struct Places {
    interfaces: Vec<String>,
    programs: PathBuf,
    cache: KernelCache,
    /// The numbers of interfaces at which it stands.
    taken: BTreeSet<u32>,
}

impl Places {
    pub(super) fn new(interfaces: Vec<String>, programs: PathBuf, cache: KernelCache) -> Self {
        Self {
            interfaces,
            programs,
            cache,
            taken: BTreeSet::new(),
        }
    }

    fn keep(&mut self, heard: &Receiver<Word>) {
        loop {
            let word = match self.cache.refuses() {
                // An interface may go and come again, and whoever is blocked is so for a time only.
                true => heard.recv_timeout(PLACES_LOOK),
                false => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match word {
                Ok(Word::Blocked) | Err(RecvTimeoutError::Timeout) => self.tend(),
                Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tend(&mut self) {
        if !self.cache.refuses() {
            if !self.taken.is_empty() {
                self.leave();
            }
            return;
        }
        for interface in &self.interfaces {
            let Some(number) = number(interface) else {
                continue;
            };
            // Where it cannot stand, who is blocked is refused further on, and it is tried again.
            if !self.taken.contains(&number) && ingress::take(interface, &self.programs).is_ok() {
                self.taken.insert(number);
            }
        }
    }

    fn leave(&mut self) {
        self.taken.clear();
        ingress::take_out_others(&[], &self.programs);
        for interface in &self.interfaces {
            // What tc refuses stays, and refuses nobody.
            ingress::take_out(interface, std::slice::from_ref(&self.programs)).ok();
        }
    }
}
