//! Lists whose files have changed, and what is wrong with them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::feed::{Changed, Feed, FeedKind, FeedStatus, FileStamp};

/// What is known of one list's file.
#[derive(Debug, Default)]
struct Fault {
    refused: Option<FileStamp>,
    reason: Option<String>,
}

/// Lists whose files cannot be read as they are now.
#[derive(Debug, Default)]
pub(super) struct FeedFaults(BTreeMap<(PathBuf, FeedKind), Fault>);

impl FeedFaults {
    /// Looks at the files of these lists, and returns those that are others. What is wrong is
    /// logged once.
    pub(super) fn look(&mut self, feeds: &[Arc<Feed>]) -> Vec<Arc<Feed>> {
        let key = |feed: &Feed| (feed.path().to_owned(), feed.kind());
        // Those of an earlier policy are no more.
        self.0
            .retain(|known, _| feeds.iter().any(|feed| key(feed) == *known));
        let mut new = Vec::new();
        for feed in feeds {
            let fault = self.0.entry(key(feed)).or_default();
            let wrong = match feed.look(SystemTime::now(), &mut fault.refused) {
                Changed::No => None,
                Changed::Read(feed) => {
                    new.push(feed);
                    None
                }
                Changed::Wrong(faults) => {
                    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
                    Some(lines.join("; "))
                }
            };
            if let Some(reason) = wrong.as_ref().filter(|_| wrong != fault.reason) {
                let file = feed.path().display();
                tracing::error!(%file, reason, "a list is wrong: what was read before stays at work");
            }
            fault.reason = wrong;
        }
        new
    }

    /// These lists as they are at work.
    pub(super) fn status(&self, feeds: &[Arc<Feed>]) -> Vec<FeedStatus> {
        let status = feeds.iter().map(|feed| {
            let fault = self.0.get(&(feed.path().to_owned(), feed.kind()));
            FeedStatus {
                file: feed.path().display().to_string(),
                kind: feed.kind(),
                entries: feed.entries().len(),
                memory: feed.entries().memory(),
                fault: fault.and_then(|fault| fault.reason.clone()),
            }
        });
        status.collect()
    }
}
