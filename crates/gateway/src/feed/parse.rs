//! From the bytes of a file to a list, or to what is wrong with it.

use super::hosts::HostSet;
use super::keys::KeySet;
use super::networks::NetworkSet;
use super::{Entries, FeedKind, line};
use crate::limits::{MAX_FEED_ENTRIES, MAX_FEED_FAULTS, MAX_FEED_FILE};

/// What is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {reason}")]
pub struct FeedFault {
    /// The line, from 1; 0: the file as a whole.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl FeedFault {
    pub(super) fn whole(reason: impl Into<String>) -> Self {
        Self {
            line: 0,
            reason: reason.into(),
        }
    }
}

/// The mark that some programs put before text (Unicode's byte order mark).
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a list: an entry a line, with comments from `#` or `;` on, and either end of lines.
///
/// # Errors
/// The first [`MAX_FEED_FAULTS`] lines that are wrong, and how many more there are; or the list is
/// longer than its bounds.
pub fn parse(kind: FeedKind, text: &[u8]) -> Result<Entries, Vec<FeedFault>> {
    if text.len() > MAX_FEED_FILE {
        let reason = format!("the list has more than {MAX_FEED_FILE} bytes");
        return Err(vec![FeedFault::whole(reason)]);
    }
    let text = text.strip_prefix(MARK).unwrap_or(text);
    let (mut faults, mut more) = (Vec::new(), 0_usize);
    let mut reading = Reading::new(kind);
    for (number, whole) in (1_usize..).zip(text.split(|&byte| byte == b'\n')) {
        let bare = line::bare(whole);
        if bare.is_empty() {
            continue;
        }
        let Err(reason) = reading.take(bare, whole.trim_ascii()) else {
            // What one line adds is little, so the bound is kept all but exactly.
            if reading.count > MAX_FEED_ENTRIES {
                let reason = format!("the list has more than {MAX_FEED_ENTRIES} entries");
                return Err(vec![FeedFault::whole(reason)]);
            }
            continue;
        };
        if faults.len() < MAX_FEED_FAULTS {
            let line = number;
            faults.push(FeedFault { line, reason });
        } else {
            more = more.saturating_add(1);
        }
    }
    if more > 0 {
        faults.push(FeedFault::whole(format!("{more} more lines are wrong")));
    }
    if faults.is_empty() {
        Ok(reading.entries)
    } else {
        Err(faults)
    }
}

/// A list on its way.
struct Reading {
    entries: Entries,
    /// Entries so far, the same one twice counted twice.
    count: usize,
}

impl Reading {
    fn new(kind: FeedKind) -> Self {
        let entries = match kind {
            FeedKind::Networks => Entries::Networks(NetworkSet::default()),
            FeedKind::Hosts => Entries::Hosts(HostSet::default()),
            FeedKind::Infohashes => Entries::Infohashes(KeySet::default()),
            FeedKind::Files => Entries::Files(KeySet::default()),
        };
        Self { entries, count: 0 }
    }

    /// Takes in a line, with its comment and without.
    fn take(&mut self, bare: &[u8], whole: &[u8]) -> Result<(), String> {
        let added = match &mut self.entries {
            Entries::Networks(set) => {
                // A name in a P2P line may have a sign in it that begins comments elsewhere, and
                // names are not always UTF-8.
                let whole = String::from_utf8_lossy(whole);
                let networks = text(bare).and_then(line::networks);
                let networks =
                    networks.or_else(|error| line::networks(&whole).map_err(|_| error))?;
                let added = networks.len();
                networks.into_iter().for_each(|network| set.insert(network));
                added
            }
            Entries::Hosts(set) => {
                let hosts = line::hosts(text(bare)?)?;
                hosts.iter().for_each(|host| set.insert(host));
                hosts.len()
            }
            Entries::Infohashes(set) => {
                set.insert(line::infohash(&String::from_utf8_lossy(bare))?);
                1
            }
            Entries::Files(set) => {
                set.insert(line::file_hash(&String::from_utf8_lossy(bare))?);
                1
            }
        };
        self.count = self.count.saturating_add(added);
        Ok(())
    }
}

/// A line as text, cut where messages would be too long.
fn text(bytes: &[u8]) -> Result<&str, String> {
    if bytes.len() > MOST {
        return Err(format!("it has more than {MOST} bytes"));
    }
    std::str::from_utf8(bytes).map_err(|_| "it is no text (UTF-8)".to_owned())
}

/// Bytes of a line that is looked at.
const MOST: usize = crate::limits::MAX_FEED_LINE;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse;
    use crate::feed::{Entries, FeedKind};
    use crate::limits::MAX_FEED_FAULTS;

    #[test]
    fn lists_are_read_with_either_end_of_lines() {
        let text = b"\xef\xbb\xbf# Bogons\r\n10.0.0.0/8 ; SBL1\r\n\r\n192.0.2.7\nSm\xf8r #1:1.2.3.4-1.2.3.4";
        let Ok(Entries::Networks(networks)) = parse(FeedKind::Networks, text) else {
            panic!("it is a list");
        };
        assert_eq!(networks.len(), 3);
        assert!(networks.contains("1.2.3.4".parse().unwrap()));
        assert!(parse(FeedKind::Hosts, b"").unwrap().is_empty());
    }

    #[test]
    fn all_faults_come_up_to_a_bound() {
        let faults = parse(FeedKind::Hosts, b"a.example\nb c\nd.example\n/\n").unwrap_err();
        let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 4]);
        let many = "/\n".repeat(MAX_FEED_FAULTS + 5);
        let faults = parse(FeedKind::Hosts, many.as_bytes()).unwrap_err();
        assert_eq!(faults.len(), MAX_FEED_FAULTS + 1);
        assert_eq!(faults.last().unwrap().reason, "5 more lines are wrong");
    }

    fn kind() -> impl Strategy<Value = FeedKind> {
        let kinds = [FeedKind::Networks, FeedKind::Hosts, FeedKind::Infohashes];
        proptest::sample::select(kinds.to_vec())
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_list_or_faults(
            kind in kind(),
            text in "([0-9a-f.:/,;# -]|\r|\n|\\PC){0,200}",
        ) {
            match parse(kind, text.as_bytes()) {
                Ok(entries) => prop_assert!(entries.len() <= 200 * 128),
                Err(faults) => prop_assert!(!faults.is_empty()),
            }
        }

        #[test]
        fn written_infohashes_are_found(hashes in proptest::collection::vec(any::<[u8; 20]>(), 0..50)) {
            let hashes: Vec<_> = hashes.into_iter().map(crate::infohash::InfoHash::new).collect();
            let text: String = hashes.iter().map(|hash| format!("{hash} # one\r\n")).collect();
            let Ok(Entries::Infohashes(set)) = parse(FeedKind::Infohashes, text.as_bytes()) else {
                panic!("it is a list");
            };
            prop_assert!(hashes.iter().all(|hash| set.contains(hash)));
        }
    }
}
