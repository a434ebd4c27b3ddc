//! Names of hosts.

use std::collections::HashSet;

/// Names of hosts, each of which stands for all below it, too: a name is looked up once for each of
/// its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSet {
    /// In small letters, without a dot at either end.
    names: HashSet<Box<str>>,
    bytes: usize,
}

impl HostSet {
    /// Adds a name in small letters, without a dot at either end.
    pub(super) fn insert(&mut self, name: &str) {
        if self.names.insert(name.into()) {
            self.bytes = self.bytes.saturating_add(name.len());
        }
    }

    /// The name, or one above it, is one of them. Upper and lower case are the same.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let mut rest = Some(name.as_str());
        while let Some(name) = rest {
            if self.names.contains(name) {
                return true;
            }
            rest = name.split_once('.').map(|(_, above)| above);
        }
        false
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        // What an allocation takes beside the name: its rounding and its header.
        let each = 16_usize;
        super::keys::table::<Box<str>>(self.names.capacity())
            .saturating_add(self.bytes)
            .saturating_add(self.names.len().saturating_mul(each))
    }
}

#[cfg(test)]
mod tests {
    use super::HostSet;

    #[test]
    fn hosts_stand_for_all_below_them() {
        let mut set = HostSet::default();
        for name in ["example.org", "ads.example.com", "example.org"] {
            set.insert(name);
        }
        for name in [
            "example.org",
            "WWW.Example.org",
            "a.b.example.org.",
            "ads.example.com",
        ] {
            assert!(set.contains(name), "{name}");
        }
        for name in ["example.com", "badexample.org", "org", "", "."] {
            assert!(!set.contains(name), "{name}");
        }
        assert_eq!(set.len(), 2);
    }
}
