//! Values that a rule writes itself, together with lists in files.

use std::sync::Arc;

use super::words::Names;
use crate::feed::{Feed, FeedFolder, FeedKind};
use crate::infohash::InfoHash;

/// What stands before the name of a list's file.
pub(super) const FILE: &str = "file:";

/// Lists in files.
#[derive(Clone, Debug, Default)]
pub(super) struct Feeds(Vec<Arc<Feed>>);

impl Feeds {
    /// Takes the lists out of what a key says; the rest are values.
    pub(super) fn split(
        texts: Vec<String>,
        kind: FeedKind,
        folder: &FeedFolder,
    ) -> Result<(Vec<String>, Self), Vec<String>> {
        let (mut values, mut feeds, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for text in texts {
            match text.strip_prefix(FILE) {
                None => values.push(text),
                Some(name) => match folder.feed(kind, name) {
                    Ok(feed) => feeds.push(feed),
                    Err(wrong) => faults.extend(wrong),
                },
            }
        }
        if faults.is_empty() {
            Ok((values, Self(feeds)))
        } else {
            Err(faults)
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Feed>> {
        self.0.iter()
    }

    pub(super) fn any(&self, has: impl Fn(&Feed) -> bool) -> bool {
        self.0.iter().any(|feed| has(feed))
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// All lists of the other one are here.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut theirs = other.0.iter();
        theirs.all(|feed| self.0.iter().any(|own| Arc::ptr_eq(own, feed)))
    }

    /// Puts other readings in the place of the same lists.
    pub(super) fn renew(&mut self, new: &[Arc<Feed>]) {
        for feed in &mut self.0 {
            if let Some(other) = new.iter().find(|other| other.is_of(feed)) {
                *feed = Arc::clone(other);
            }
        }
    }
}

/// Hosts by name with wildcards, and in lists.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    names: Option<Names>,
    pub(super) feeds: Feeds,
}

impl Hosts {
    pub(super) fn parse(texts: Vec<String>, folder: &FeedFolder) -> Result<Self, Vec<String>> {
        let (names, feeds) = Feeds::split(texts, FeedKind::Hosts, folder)?;
        let names = (!names.is_empty()).then(|| Names::parse(&names));
        let names = names.transpose().map_err(|reason| vec![reason])?;
        Ok(Self { names, feeds })
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.names.as_ref().is_some_and(|names| names.matches(name))
            || self.feeds.any(|feed| feed.has_host(name))
    }

    /// Whether all that the other one names is named here.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let names = match (&self.names, &other.names) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(ours), Some(theirs)) => ours.covers(theirs),
        };
        names && self.feeds.covers(&other.feeds)
    }
}

/// Infohashes, written and in lists.
#[derive(Clone, Debug)]
pub(super) struct Infohashes {
    written: Vec<InfoHash>,
    pub(super) feeds: Feeds,
}

impl Infohashes {
    pub(super) fn parse(texts: Vec<String>, folder: &FeedFolder) -> Result<Self, Vec<String>> {
        let (values, feeds) = Feeds::split(texts, FeedKind::Infohashes, folder)?;
        let (mut written, mut faults) = (Vec::new(), Vec::new());
        for text in values {
            match InfoHash::parse(&text) {
                Ok(hash) => written.push(hash),
                Err(error) => faults.push(format!("`{text}`: {error}")),
            }
        }
        written.sort_unstable();
        if faults.is_empty() {
            Ok(Self { written, feeds })
        } else {
            Err(faults)
        }
    }

    pub(super) fn contains(&self, hash: &InfoHash) -> bool {
        self.written.binary_search(hash).is_ok() || self.feeds.any(|feed| feed.has_infohash(hash))
    }

    /// Whether all that the other one names is named here.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.written.iter().all(|hash| self.contains(hash)) && self.feeds.covers(&other.feeds)
    }
}
