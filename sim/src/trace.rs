//! A running hash of everything that happened: two runs are the same exactly if their traces are.

use std::fmt;
use std::time::Duration;

use ringway_overlay::RingKey;

/// FNV-1a, 64 bits: not secure, and the same on every machine and in every version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    hash: u64,
    length: u64,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            hash: 0xcbf2_9ce4_8422_2325,
            length: 0,
        }
    }
}

impl Trace {
    /// Adds bytes to what happened.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.length += 1;
    }

    /// Adds something of a kind that concerns a member at a virtual time.
    pub(crate) fn note(&mut self, kind: u8, at: Duration, member: &RingKey, bytes: &[u8]) {
        self.add(&[kind]);
        self.add(&at.as_nanos().to_be_bytes());
        self.add(member.as_bytes());
        self.add(bytes);
    }

    /// The hash so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How often something was added.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} after {} entries", self.hash, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_content_matter() {
        let hash = |parts: &[&[u8]]| {
            let mut trace = Trace::default();
            parts.iter().for_each(|part| trace.add(part));
            trace
        };
        assert_eq!(hash(&[b"a", b"b"]), hash(&[b"a", b"b"]));
        assert_ne!(hash(&[b"a", b"b"]), hash(&[b"b", b"a"]));
        assert_ne!(hash(&[b"ab"]), hash(&[b"a", b"b"]));
    }
}
