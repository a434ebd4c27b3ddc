//! Where the content of a transfer comes from, which transfers of one command share: it is read for
//! its hash once.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::content::Source;
use super::distribute;

/// Where content comes from.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The file that was handed over, if one was.
    handed: Option<File>,
    /// What was read from it, as long as a transfer uses it. Held while it is read.
    pub(super) source: tokio::sync::Mutex<Weak<Source>>,
    /// How its receivers give it to each other.
    pub(super) distribution: distribute::Slot,
}

impl Origin {
    pub(super) fn new(handed: Option<File>) -> Arc<Origin> {
        Arc::new(Origin {
            handed,
            source: tokio::sync::Mutex::default(),
            distribution: distribute::Slot::default(),
        })
    }

    /// The file that was handed over, to be read by one at a time.
    pub(super) fn handed(&self) -> Option<File> {
        self.handed.as_ref().and_then(|file| file.try_clone().ok())
    }
}

/// A place for one, which is empty once the transfer has ended.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<Arc<Origin>>>);

impl Slot {
    pub(super) fn set(&self, origin: Option<Arc<Origin>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = origin;
    }

    pub(super) fn get(&self) -> Option<Arc<Origin>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
