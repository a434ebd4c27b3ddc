//! Looks that may take longer than they are given.
//!
//! The engine compares its time only after every ten thousand steps. Such a step may be the search
//! for a long pattern around a position, or a hash of a whole file, so that minutes go by. Looks
//! that may have such steps are therefore in a thread of their own, which is left to itself when
//! its time is over. It ends when the engine notices.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// Time beyond that of a look after which its thread is left to itself.
const GRACE: Duration = Duration::from_millis(500);
/// Threads of one scanner that were left to themselves. Past it there are no further looks until
/// one of them has ended.
const MAX_LEFT: usize = 2;

/// The rule that holds, or why it is not known.
pub(super) type Answer = Result<Option<String>, String>;
type Look = Box<dyn FnOnce() -> Answer + Send>;

/// The looks of one scanner.
pub(super) struct Looks {
    /// For each look.
    time: Duration,
    thread: Option<Thread>,
    /// One for each thread that has not ended, and this one.
    alive: Arc<()>,
}

struct Thread {
    looks: Sender<Look>,
    answers: Receiver<Answer>,
}

impl Looks {
    pub(super) fn new(time: Duration) -> Self {
        Self {
            time,
            thread: None,
            alive: Arc::new(()),
        }
    }

    /// The answer of a look, if it comes in time.
    pub(super) fn look(&mut self, look: impl FnOnce() -> Answer + Send + 'static) -> Answer {
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None if Arc::strong_count(&self.alive) > MAX_LEFT => {
                return Err("timeout, as earlier looks have not ended".to_owned());
            }
            None => self.start()?,
        };
        let time = self.time.saturating_add(GRACE);
        let asked = thread.looks.send(Box::new(look)).is_ok();
        match thread.answers.recv_timeout(time) {
            Ok(answer) if asked => {
                self.thread = Some(thread);
                answer
            }
            _ => Err("timeout".to_owned()),
        }
    }

    fn start(&self) -> Result<Thread, String> {
        let (looks, asked) = channel::<Look>();
        let (answer, answers) = channel();
        let alive = Arc::clone(&self.alive);
        Builder::new()
            .name("yara".to_owned())
            .spawn(move || {
                while let Ok(look) = asked.recv() {
                    if answer.send(look()).is_err() {
                        break;
                    }
                }
                drop(alive);
            })
            .map_err(|error| error.to_string())?;
        Ok(Thread { looks, answers })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{Looks, MAX_LEFT};

    #[test]
    fn few_endless_scans_are_left_running() {
        let mut looks = Looks::new(Duration::ZERO);
        let ends: Vec<_> = (0..MAX_LEFT)
            .map(|_| {
                let (end, ended) = channel::<()>();
                let answer = looks.look(move || {
                    ended.recv().unwrap_err();
                    Ok(None)
                });
                assert_eq!(answer, Err("timeout".to_owned()));
                end
            })
            .collect();
        assert!(looks.look(|| Ok(None)).unwrap_err().contains("earlier"));
        drop(ends);
        while looks.look(|| Ok(None)).is_err() {
            std::thread::yield_now();
        }
        // One that answers goes on.
        for name in ["one", "two"] {
            let answer = looks.look(move || Ok(Some(name.to_owned())));
            assert_eq!(answer, Ok(Some(name.to_owned())));
        }
    }
}
