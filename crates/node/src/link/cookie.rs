//! Whether a handshake is worth public-key work. Under load strangers have to show a cookie first:
//! that they get what goes to the address they claim.
//!
//! As in WireGuard (§5.3 of its paper) and QUIC (RFC 9000 §8.1.2) nothing is kept for a sender:
//! the cookie is a keyed hash of the address, and the key changes. Only UDP needs it:
//! - Over TCP, WebSocket and QUIC the connection has proved the address.
//! - A relayed handshake comes from an admitted router.
//! - Mail and programs of the operator's own have no addresses that prove anything, and a cookie by
//!   mail would take as long as a handshake.
//!
//! All of these have a limit for each source instead, which holds after the cookie for UDP, too.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ringway_transport::Address;
use zeroize::Zeroizing;

use crate::limits::{
    COOKIE_SECRET_TIME, HANDSHAKE_SOURCES, PROVED_BURST, PROVED_HANDSHAKES, SOURCE_BURST,
    SOURCE_HANDSHAKES, STRANGER_BURST, STRANGER_HANDSHAKES,
};

/// Bytes of a cookie, and of the name of an initiation: 128 bits are beyond guessing.
pub(super) const COOKIE: usize = ringway_transport::link_packet::COOKIE_BYTES;
pub(super) type Cookie = [u8; COOKIE];
/// What stands in place of a cookie.
pub(super) const NO_COOKIE: Cookie = [0; COOKIE];

/// What becomes of an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is read, which costs public-key work.
    Read,
    /// Its sender gets this cookie.
    Cookie(Cookie),
    /// Too many came from there.
    Drop,
}

/// So many a second, and after a pause a few at once.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: Duration,
    burst: u32,
}

impl Rate {
    fn new(per_second: u32, burst: u32) -> Rate {
        Rate {
            interval: Duration::from_secs(1) / per_second.max(1),
            burst,
        }
    }

    /// Takes one, if there is one. `next`: when the last one taken is made up for.
    fn take(self, now: Instant, next: &mut Option<Instant>) -> bool {
        let at = next.unwrap_or(now).max(now);
        if at.duration_since(now) >= self.interval * self.burst {
            return false;
        }
        *next = Some(at + self.interval);
        true
    }
}

/// Whose limit an initiation counts against.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// An IPv4 address, or the /64 of an IPv6 address.
    Host(IpAddr),
    /// All that one router passes on, one program or mail brings.
    Way(String),
}

impl Source {
    pub(super) fn of(path: &Address) -> Source {
        if let Some(socket) = path.socket() {
            let IpAddr::V6(address) = socket.ip() else {
                return Source::Host(socket.ip());
            };
            let network = u128::from(address) >> 64 << 64;
            return Source::Host(Ipv6Addr::from(network).into());
        }
        Source::Way(match path {
            Address::Relay(relay) => format!("relay {}", relay.parent),
            Address::Exec(_) | Address::Smtp(_) => path.protocol().to_string(),
            other => other.to_string(),
        })
    }
}

/// Decides about initiations.
#[derive(Debug)]
pub(super) struct Gate {
    /// The newest first.
    secrets: [Zeroizing<[u8; 32]>; 2],
    since: Option<Instant>,
    strangers: Option<Instant>,
    proved: Option<Instant>,
    sources: BTreeMap<Source, Option<Instant>>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            secrets: [Zeroizing::new([0; 32]), Zeroizing::new([0; 32])],
            since: None,
            strangers: None,
            proved: None,
            sources: BTreeMap::new(),
        }
    }
}

impl Gate {
    /// An initiation has come from `path`, with `cookie`.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        path: &Address,
        cookie: &Cookie,
        rng: &mut impl rand::Rng,
    ) -> Verdict {
        if Rate::new(STRANGER_HANDSHAKES, STRANGER_BURST).take(now, &mut self.strangers) {
            return Verdict::Read;
        }
        if let Err(wanted) = self.prove(now, path, cookie, rng) {
            return Verdict::Cookie(wanted);
        }
        let own = self.source(now, Source::of(path));
        let taken = Rate::new(SOURCE_HANDSHAKES, SOURCE_BURST).take(now, own)
            && Rate::new(PROVED_HANDSHAKES, PROVED_BURST).take(now, &mut self.proved);
        if taken { Verdict::Read } else { Verdict::Drop }
    }

    /// Whether the sender has shown that it receives at `path`; gives the cookie to show if not.
    pub(super) fn prove(
        &mut self,
        now: Instant,
        path: &Address,
        cookie: &Cookie,
        rng: &mut impl rand::Rng,
    ) -> Result<(), Cookie> {
        if !matches!(path, Address::Udp(_)) {
            return Ok(());
        }
        self.renew_secrets(now, rng);
        let mut good = false;
        for secret in &self.secrets {
            good |= verify_slices_are_equal(&made(secret, path), cookie).is_ok();
        }
        if good {
            Ok(())
        } else {
            Err(made(&self.secrets[0], path))
        }
    }

    fn renew_secrets(&mut self, now: Instant, rng: &mut impl rand::Rng) {
        let age = self.since.map(|since| now.saturating_duration_since(since));
        // Cookies of the secret before are still good, but not those of one that has not been used
        // for so long.
        let times = match age {
            Some(age) if age < COOKIE_SECRET_TIME => return,
            Some(age) if age < COOKIE_SECRET_TIME * 2 => 1,
            _ => 2,
        };
        self.since = Some(now);
        for _ in 0..times {
            self.secrets.swap(0, 1);
            rng.fill_bytes(self.secrets[0].as_mut());
        }
    }

    fn source(&mut self, now: Instant, source: Source) -> &mut Option<Instant> {
        if self.sources.len() >= HANDSHAKE_SOURCES && !self.sources.contains_key(&source) {
            // A source with its whole allowance again is as good as new.
            self.sources
                .retain(|_, next| next.is_some_and(|next| next > now));
            if self.sources.len() >= HANDSHAKE_SOURCES {
                let least = self.sources.iter().min_by_key(|(_, next)| **next);
                if let Some(least) = least.map(|(source, _)| source.clone()) {
                    self.sources.remove(&least);
                }
            }
        }
        self.sources.entry(source).or_default()
    }
}

/// The cookie for the sender at `path`.
fn made(secret: &[u8; 32], path: &Address) -> Cookie {
    first_bytes(blake3::keyed_hash(secret, path.to_string().as_bytes()))
}

/// The name of an initiation, as it was sent: only who has seen it can say it.
pub(super) fn name_of(initiation: &[u8]) -> Cookie {
    first_bytes(blake3::hash(initiation))
}

fn first_bytes(hash: blake3::Hash) -> Cookie {
    hash.as_bytes().first_chunk().copied().unwrap_or(NO_COOKIE)
}

#[cfg(test)]
mod tests;
