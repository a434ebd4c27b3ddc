//! Mails that a local mail server puts into a Maildir. Ours are deleted, others stay where they
//! are.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use inotify::{EventStream, Inotify, WatchMask};
use tokio::time::timeout;

use super::{LeftAlone, Receiver, Verdict};
use crate::limits::{ACCEPT_PAUSE, MAIL_BYTES, MAILDIR_FOREIGN, MAILDIR_LOOK};

/// Looks after `new`, for as long as the transport lives.
pub(in crate::smtp) async fn run(folder: PathBuf, receiver: Arc<Receiver>) {
    let new = folder.join("new");
    let mut events = match watch(&new) {
        Ok(events) => Some(events),
        Err(error) => {
            receiver.failed("maildir", &error);
            None
        }
    };
    let mut foreign = LeftAlone::default();
    loop {
        let (path, judge) = (new.clone(), receiver.clone());
        // The disk must not hold up the runtime.
        let looked = tokio::task::spawn_blocking(move || {
            let looked = look(&path, &judge, &mut foreign);
            (looked, foreign)
        });
        match looked.await {
            Ok((Ok(true), known)) => foreign = known,
            Ok((Err(error), known)) => {
                receiver.failed("maildir", &error);
                foreign = known;
            }
            // The receiver of messages is gone, or the runtime ends.
            Ok((Ok(false), _)) | Err(_) => return,
        }
        match &mut events {
            Some(events) => wait(events).await,
            None => tokio::time::sleep(MAILDIR_LOOK).await,
        }
    }
}

/// Waits until there may be something new. What comes at once is one.
async fn wait(events: &mut EventStream<[u8; 4096]>) {
    match timeout(MAILDIR_LOOK, events.next()).await {
        Ok(Some(Ok(_))) => while let Some(Some(Ok(_))) = events.next().now_or_never() {},
        // Too many at once, or none any more: the folder itself shows them all.
        Ok(Some(Err(_)) | None) => tokio::time::sleep(ACCEPT_PAUSE).await,
        Err(_) => {}
    }
}

fn watch(new: &Path) -> io::Result<EventStream<[u8; 4096]>> {
    let inotify = Inotify::init()?;
    // A mail arrives by a rename or by a link.
    let mask = WatchMask::MOVED_TO | WatchMask::CREATE | WatchMask::ONLYDIR;
    inotify.watches().add(new, mask)?;
    inotify.into_event_stream([0; 4096])
}

/// Looks at each mail in `new`. False if the receiver of messages is gone.
fn look(new: &Path, receiver: &Receiver, foreign: &mut LeftAlone) -> io::Result<bool> {
    let mut still = BTreeSet::new();
    for entry in new.read_dir()? {
        let entry = entry?;
        let name = foreign.hash(entry.file_name());
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if hidden || still.len() >= MAILDIR_FOREIGN {
            continue;
        }
        if foreign.names.contains(&name) {
            still.insert(name);
            continue;
        }
        let path = entry.path();
        let verdict = match read(&path) {
            Ok(Some(mail)) => receiver.take(&mail),
            Ok(None) => {
                receiver.too_long();
                Verdict::Left
            }
            Err(error) => {
                tracing::debug!(%error, "a mail in the maildir cannot be read");
                Verdict::Left
            }
        };
        match verdict {
            Verdict::Taken => {
                if let Err(error) = std::fs::remove_file(&path) {
                    receiver.failed("maildir", &error);
                    still.insert(name);
                }
            }
            Verdict::Left => {
                still.insert(name);
            }
            Verdict::Stopped => return Ok(false),
        }
    }
    // What was moved or deleted meanwhile is forgotten.
    foreign.names = still;
    Ok(true)
}

/// The mail; `None` if it is too long, or no file.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Asked before it is opened: opening a named pipe waits for its writer.
    if !path.symlink_metadata()?.is_file() {
        return Ok(None);
    }
    let limit = u64::try_from(MAIL_BYTES).unwrap_or(u64::MAX);
    let mut mail = Vec::new();
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut mail)?;
    Ok(Some(mail).filter(|mail| mail.len() <= MAIL_BYTES))
}
