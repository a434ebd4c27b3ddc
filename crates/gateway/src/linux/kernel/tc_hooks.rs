//! Attaches the connection cache behind interfaces' drivers while a client is blocked, and
//! detaches it when none is: a program without use would cost each packet its run.
//!
//! A thread of its own, because the kernel may let a process that changes hooks wait for others
//! who do.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use super::refused::KernelCache;
use super::{KernelError, REFUSE, ingress};
use crate::limits::HOOKS_LOOK;
use crate::linux::border::number;
use crate::linux::priority::reset_priority;

/// What the hook manager is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The first client is blocked.
    Blocked,
    /// Hooks stay as they are from now on.
    Stop,
}

/// The thread.
pub(super) struct TcHookManager {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for TcHookManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcHookManager").finish_non_exhaustive()
    }
}

impl TcHookManager {
    /// Takes the places, so that it is known that they can be had, and leaves them until somebody
    /// is blocked.
    ///
    /// # Errors
    /// The kernel refuses a hook, or the system gives no thread.
    pub(super) fn start(mut hooks: Hooks) -> Result<Self, KernelError> {
        let (commands, received) = channel();
        hooks.cache.set_hook_manager(commands.clone());
        hooks.take()?;
        hooks.tend();
        let thread = std::thread::Builder::new()
            .name("cache".to_owned())
            .spawn(move || {
                reset_priority();
                hooks.keep(&received);
            })
            .map_err(|error| KernelError::Refused(REFUSE, error.to_string()))?;
        Ok(Self {
            commands,
            thread: Some(thread),
        })
    }
}

impl Drop for TcHookManager {
    fn drop(&mut self) {
        // A thread that has ended takes no word.
        self.commands.send(Command::Stop).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Where the connection cache stands behind drivers while somebody is blocked.
#[derive(Debug)]
pub(super) struct Hooks {
    interfaces: Vec<String>,
    programs: PathBuf,
    cache: KernelCache,
    /// The numbers of interfaces at which it stands.
    taken: BTreeSet<u32>,
}

impl Hooks {
    pub(super) fn new(interfaces: Vec<String>, programs: PathBuf, cache: KernelCache) -> Self {
        Self {
            interfaces,
            programs,
            cache,
            taken: BTreeSet::new(),
        }
    }

    fn keep(&mut self, received: &Receiver<Command>) {
        loop {
            let word = if self.taken.is_empty() && !self.cache.refuses() {
                received.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                // An interface may go and come again, and a client is blocked for a time only.
                received.recv_timeout(HOOKS_LOOK)
            };
            match word {
                Ok(Command::Blocked) | Err(RecvTimeoutError::Timeout) => self.tend(),
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tend(&mut self) {
        if self.cache.refuses() {
            // Where it cannot stand, who is blocked is refused further on, and it is tried again.
            self.take().ok();
        } else {
            self.leave();
        }
    }

    /// Takes the places that are not taken, and leaves those of interfaces that have gone.
    fn take(&mut self) -> Result<(), KernelError> {
        let (mut refused, mut there) = (Ok(()), BTreeSet::new());
        for interface in &self.interfaces {
            let Some(number) = number(interface) else {
                continue;
            };
            there.insert(number);
            if self.taken.contains(&number) {
                continue;
            }
            match ingress::take_listed(interface, &self.programs) {
                Ok(()) => {
                    self.taken.insert(number);
                }
                Err(error) => {
                    // Not by half either.
                    ingress::leave(number, &self.programs);
                    refused = Err(error);
                }
            }
        }
        for gone in self.taken.difference(&there) {
            ingress::leave(*gone, &self.programs);
        }
        self.taken.retain(|number| there.contains(number));
        refused
    }

    fn leave(&mut self) {
        for number in std::mem::take(&mut self.taken) {
            ingress::leave(number, &self.programs);
        }
    }
}
